package results

import (
	"database/sql"
	"encoding/json"
	"runtime"
	"sync"
	"time"
)

// Each list of columns stands beside the fields that they are read into.

const runColumns = `r.id, r.lab, r.command, r.version, r.started, r.finished, r.outcome, r.bundled`

// Where damage is not nil, a column that cannot be read is noted there, and its
// target is left alone.

func runTargets(r *Run, damage *error) []any {
	return []any{&r.ID, &r.Lab, &r.Command, &r.Version, timeColumn{&r.Started, damage}, timeColumn{&r.Finished, damage}, &r.Outcome, &r.Bundled}
}

const deploymentColumns = `d.id, d.run_id, d.engine, d.kind, d.host, d.gpus, d.model, d.image, d.digest,
	d.command, d.identity, d.facts, d.started, coalesce(d.ready_s, 0),
	coalesce(d.gpu_count, 0), coalesce(d.price_per_hour, 0), d.versions, d.served, d.phases, d.stopped,
	coalesce(d.compile_cache, ''), d.listener, d.members`

func deploymentTargets(d *Deployment, damage *error) []any {
	return []any{textColumn{&d.ID}, textColumn{&d.RunID}, textColumn{&d.Engine}, textColumn{&d.Kind}, textColumn{&d.Host},
		textColumn{&d.GPUs}, textColumn{&d.Model}, textColumn{&d.Image}, textColumn{&d.Digest},
		jsonColumn{&d.Command, damage}, jsonColumn{&d.Identity, damage}, jsonColumn{&d.Facts, damage}, timeColumn{&d.Started, damage}, &d.Ready,
		&d.GPUCount, &d.PricePerHour, jsonColumn{&d.Versions, damage}, jsonColumn{&d.Served, damage}, jsonColumn{&d.Phases, damage}, timeColumn{&d.Stopped, damage},
		&d.CompileCache, jsonColumn{&d.Listener, damage}, jsonColumn{&d.Members, damage}}
}

const cellColumns = `c.id, c.run_id, c.deployment_id, c.benchmark, c.axes, c.repetition, c.identity, c.job,
	c.started, c.finished, c.cache_reset, c.error, c.summary, c.telemetry, c.origin`

// cellTargets has JSON read into what json makes of its targets.
func cellTargets(c *Cell, damage *error, json func(v any) sql.Scanner) []any {
	return []any{&c.ID, &c.RunID, &c.DeploymentID, &c.Benchmark, json(&c.Axes), &c.Repetition,
		json(&c.Identity), json(&c.Job), timeColumn{&c.Started, damage}, timeColumn{&c.Finished, damage},
		&c.CacheReset, &c.Error, json(&c.Summary), json(&c.Telemetry), json(&c.Origin)}
}

// textColumn reads text; null is empty.
type textColumn struct{ s *string }

// Scan implements [sql.Scanner].
func (c textColumn) Scan(v any) error {
	var n sql.NullString
	err := n.Scan(v)
	*c.s = n.String
	return err
}

// timeColumn reads what stamp writes; null is the zero time.
type timeColumn struct {
	t      *time.Time
	damage *error
}

// Scan implements [sql.Scanner].
func (c timeColumn) Scan(v any) error {
	var n sql.NullString
	if err := n.Scan(v); err != nil || !n.Valid {
		*c.t = time.Time{}
		return err
	}
	t, err := time.Parse(timeFormat, n.String)
	*c.t = t
	return noted(c.damage, err)
}

// noted is err where nobody notes damage, and otherwise nil.
func noted(damage *error, err error) error {
	if damage == nil || err == nil {
		return err
	}
	*damage = err
	return nil
}

// jsonColumn reads JSON; null leaves the target as it is.
type jsonColumn struct {
	v      any
	damage *error
}

// Scan implements [sql.Scanner].
func (c jsonColumn) Scan(v any) error {
	var n sql.NullString
	if err := n.Scan(v); err != nil || !n.Valid {
		return err
	}
	return noted(c.damage, json.Unmarshal([]byte(n.String), c.v))
}

// undecoded is JSON that is decoded when all rows are read, on all cores: of ten
// thousand cells it is most of the work.
type undecoded struct {
	text sql.NullString
	v    any
	err  error // of decoding it
}

// Scan implements [sql.Scanner].
func (u *undecoded) Scan(v any) error { return u.text.Scan(v) }

// decode reads the JSON of all, each for itself; null leaves its target as it is.
func decode(all []*undecoded) {
	workers := min(runtime.GOMAXPROCS(0), len(all))
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			for i := w; i < len(all); i += workers {
				if u := all[i]; u.text.Valid {
					u.err = json.Unmarshal([]byte(u.text.String), u.v)
					u.text.String = ""
				}
			}
		})
	}
	work.Wait()
}

// timeFormat has a fixed width, so that texts sort as the times do.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

func stamp(t time.Time) string { return t.UTC().Format(timeFormat) }

func optionalStamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

// truth is a yes or no as SQLite keeps it.
func truth(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// optional is text for a column that is null when there is none.
func optional[T ~string | ~[]byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return string(v)
}
