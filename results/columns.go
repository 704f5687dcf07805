package results

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"hclbench/plain"
)

// table are the columns of a row, the keys first, each bound to what it is read into
// and written from.
type table []column

type column struct {
	name     string
	at       any  // a pointer to a text, a number, a time, yes or no, or what is kept as JSON
	optional bool // null where there is none
}

func runTable(r *Run) table {
	return table{
		{"id", &r.ID, false}, {"lab", &r.Lab, false}, {"command", &r.Command, false}, {"version", &r.Version, false},
		{"started", &r.Started, false}, {"finished", &r.Finished, true}, {"outcome", &r.Outcome, false}, {"bundled", &r.Bundled, false},
	}
}

func deploymentTable(d *Deployment) table {
	return table{
		{"run_id", &d.RunID, false}, {"id", &d.ID, false}, {"engine", &d.Engine, false}, {"kind", &d.Kind, false},
		{"host", &d.Host, false}, {"gpus", &d.GPUs, false}, {"model", &d.Model, false}, {"image", &d.Image, false},
		{"digest", &d.Digest, false}, {"command", &d.Command, false}, {"identity", &d.Identity, false}, {"facts", &d.Facts, true},
		{"started", &d.Started, false}, {"ready_s", &d.Ready, false}, {"gpu_count", &d.GPUCount, true},
		{"price_per_hour", &d.PricePerHour, true}, {"versions", &d.Versions, true}, {"served", &d.Served, true},
		{"phases", &d.Phases, true}, {"stopped", &d.Stopped, true}, {"begun", &d.Begun, true}, {"compile_cache", &d.CompileCache, true},
		{"listener", &d.Listener, true}, {"members", &d.Members, true}, {"clients", &d.Clients, true},
	}
}

func cellTable(c *Cell) table {
	return table{
		{"run_id", &c.RunID, false}, {"id", &c.ID, false}, {"deployment_id", &c.DeploymentID, false}, {"benchmark", &c.Benchmark, false},
		{"axes", &c.Axes, false}, {"repetition", &c.Repetition, false}, {"identity", &c.Identity, false}, {"job", &c.Job, false},
		{"started", &c.Started, false}, {"finished", &c.Finished, false}, {"cache_reset", &c.CacheReset, false},
		{"error", &c.Error, false}, {"summary", &c.Summary, true}, {"telemetry", &c.Telemetry, true}, {"origin", &c.Origin, true},
		{"accuracy", &c.Accuracy, true},
	}
}

// names are the columns, for a SELECT from the table of that name.
func (t table) names(d *database, of string) string {
	names := make([]string, len(t))
	for i, c := range t {
		names[i] = d.column(of, c.name)
	}
	return strings.Join(names, ", ")
}

// things reads rows of a table, and notes what cannot be read of each. JSON is decoded
// when all rows are read, on all cores: of ten thousand cells it is most of the work.
func things[T any](
	ctx context.Context, d *database, what, query string, args []any, of func(*T) table,
) ([]damaged[T], error) {
	type row struct {
		damaged[T]
		json []*later
	}
	rows, err := collect(ctx, d, what, query, args, func(at **row) (targets []any) {
		r := &row{}
		*at = r
		for _, c := range of(&r.thing) {
			f := field{c.at, &r.why}
			switch c.at.(type) {
			case *string, *int, *float64, *bool, *time.Time:
				targets = append(targets, f)
			default:
				r.json = append(r.json, &later{field: f})
				targets = append(targets, r.json[len(r.json)-1])
			}
		}
		return targets
	})
	all := make([]damaged[T], len(rows))
	workers := min(runtime.GOMAXPROCS(0), len(rows))
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			for i := w; i < len(rows); i += workers {
				for _, l := range rows[i].json {
					l.decode()
				}
				all[i], rows[i] = rows[i].damaged, nil
			}
		})
	}
	work.Wait()
	return all, err
}

// damaged is a thing of which something cannot be read, or nothing.
type damaged[T any] struct {
	thing T
	why   error
}

// put stores a row, in place of the one with the same keys, which are the first columns;
// without keys there must be none.
func (t table) put(ctx context.Context, on executor, name string, keys int) error {
	var names, set []string
	var values []any
	for i, c := range t {
		v, err := c.value()
		if err != nil {
			return err
		}
		if names, values = append(names, c.name), append(values, v); i >= keys {
			set = append(set, c.name+" = excluded."+c.name)
		}
	}
	query := fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", name, strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1))
	if keys > 0 {
		query += fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET %s", strings.Join(names[:keys], ", "), strings.Join(set, ", "))
	}
	_, err := on.exec(ctx, query, values...)
	return err
}

// value is what a column is given.
func (c column) value() (any, error) {
	switch at := c.at.(type) {
	case *string:
		if *at == "" && c.optional {
			return nil, nil
		}
		return *at, nil
	case *int, *float64, *[]byte:
		return at, nil
	case *bool: // as SQLite keeps it
		if *at {
			return 1, nil
		}
		return 0, nil
	case *time.Time:
		switch {
		case at.IsZero() && c.optional:
			return nil, nil
		case at.IsZero(): // not known, which sorts before all
			return "", nil
		}
		return at.UTC().Format(timeFormat), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c.at); err != nil {
		return nil, err
	}
	text := string(bytes.TrimSpace(plain.JSON(b.Bytes())))
	if text == "null" && c.optional {
		return nil, nil
	}
	return text, nil
}

// timeFormat has a fixed width, so that texts sort as the times do.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

// field is what a column is read into; null is its zero value. Where damage is not nil,
// a column that cannot be read is noted there.
type field struct {
	at     any
	damage *error
}

// Scan implements [sql.Scanner].
func (f field) Scan(v any) error {
	switch at := f.at.(type) {
	case *string:
		return scan(at, v)
	case *int:
		return scan(at, v)
	case *float64:
		return scan(at, v)
	case *bool:
		return scan(at, v)
	}
	var text string
	if err := scan(&text, v); err != nil || text == "" {
		return err
	}
	var err error
	if at, ok := f.at.(*time.Time); ok {
		*at, err = time.Parse(timeFormat, text)
	} else {
		err = json.Unmarshal([]byte(text), f.at)
	}
	if err != nil && f.damage != nil {
		*f.damage, err = err, nil
	}
	return err
}

func scan[T any](at *T, v any) error {
	var n sql.Null[T]
	err := n.Scan(v)
	*at = n.V
	return err
}

// later is JSON that is decoded when its row is read.
type later struct {
	field
	text any
}

// Scan implements [sql.Scanner].
func (l *later) Scan(v any) error {
	if b, ok := v.([]byte); ok {
		v = string(b) // which the driver overwrites
	}
	l.text = v
	return nil
}

func (l *later) decode() {
	if err := l.field.Scan(l.text); err != nil {
		*l.damage = err
	}
}
