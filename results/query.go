package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"hclbench/load"
)

// Query selects cells. The zero value selects every measured one.
type Query struct {
	Run       string // of this run only
	Lab       string // of this lab only; it says nothing when Run is set
	Cell      string // whose id begins so
	Benchmark string
	// Latest selects one measurement per cell id: the newest that is not void,
	// and the newest void one only when there is no other.
	Latest bool
	// Rehearsed selects what was rehearsed instead of what was measured: the two
	// are never in one answer. It says nothing when Run is set. Runs that came in
	// a bundle are in no answer but that for their Run.
	Rehearsed bool
}

// Known is what the store holds about a cell: the measurement that Query.Latest
// selects.
type Known struct {
	Verdict    string
	RunID      string
	Deployment string // its id, in the run
	Lab        string
	Imported   bool // another tool has measured it
	Finished   time.Time
	Took       time.Duration // from the first warm-up request to the last answer
	Engine     string        // "vllm.h200"
	Host       string
	Ready      time.Duration // what the engine took to serve; 0: nobody started it
	Benchmark  string
	Axes       string // as json.Marshal writes Axes
	Repetition int
	Identity   map[string]string // of the cell
	Digest     string            // of the image that ran; empty for a process
}

// Runs returns all runs, oldest first.
func (s *Store) Runs(ctx context.Context) ([]Run, error) {
	runs, _, err := s.readRuns(ctx)
	return runs, err
}

// readRuns returns the runs with what is damaged of them, by id.
func (s *Store) readRuns(ctx context.Context) ([]Run, map[string]error, error) {
	damaged := map[string]error{}
	runs, err := collect(ctx, s.db, "read runs", `SELECT `+runColumns+` FROM runs r ORDER BY r.started, r.id`, nil,
		func(scan func(...any) error) (r Run, err error) {
			var damage error
			if err = scanInto(scan, runTargets(&r, &damage)); damage != nil {
				damaged[r.ID] = damage
			}
			return r, err
		})
	return runs, damaged, err
}

// Events returns what happened in a run, in the order in which it was stored.
func (s *Store) Events(ctx context.Context, run string) ([]Event, error) {
	return collect(ctx, s.db, "read events of run "+run,
		`SELECT time, level, host, engine, cell, message FROM events WHERE run_id = ? ORDER BY rowid`, []any{run},
		func(scan func(...any) error) (e Event, err error) {
			err = scan(timeColumn{&e.Time, new(error)}, &e.Level, &e.Host, &e.Engine, &e.Cell, &e.Message)
			return e, err
		})
}

// Rows returns the cells that q selects, in the order in which they were measured.
// Rows of one deployment share what it holds.
func (s *Store) Rows(ctx context.Context, q Query) ([]Row, error) {
	from, args := q.from()
	type entry struct {
		row    Row
		json   []*undecoded
		damage error
	}
	entries, err := collect(ctx, s.db, "read results", `SELECT `+cellColumns+from+` ORDER BY c.started, c.rowid`, args,
		func(scan func(...any) error) (*entry, error) {
			e := &entry{}
			return e, scan(cellTargets(&e.row.Cell, &e.damage, func(v any) sql.Scanner {
				e.json = append(e.json, &undecoded{v: v})
				return e.json[len(e.json)-1]
			})...)
		})
	if err != nil {
		return nil, err
	}
	var texts []*undecoded
	for _, e := range entries {
		texts = append(texts, e.json...)
	}
	decode(texts)
	var rows []Row
	for _, e := range entries {
		e.row.damage("its row", e.damage)
		for _, u := range e.json {
			e.row.damage("its row", u.err)
		}
		rows = append(rows, e.row)
	}
	return rows, s.join(ctx, rows)
}

// join gives rows the runs and deployments that they are of.
func (s *Store) join(ctx context.Context, rows []Row) error {
	all, damagedRuns, err := s.readRuns(ctx)
	if err != nil {
		return err
	}
	runs := map[string]Run{}
	for _, r := range all {
		runs[r.ID] = r
	}
	type of struct {
		all     map[string]Deployment
		damaged map[string]error
	}
	deployments := map[string]of{} // by run
	for i := range rows {
		r := &rows[i]
		d, read := deployments[r.RunID]
		if !read {
			if d.all, d.damaged, err = s.readDeployments(ctx, r.RunID); err != nil {
				return err
			}
			deployments[r.RunID] = d
		}
		r.Run, r.Deployment = runs[r.RunID], d.all[r.DeploymentID]
		r.damage("the row of its run", damagedRuns[r.RunID])
		r.damage("the row of its deployment "+r.DeploymentID, d.damaged[r.DeploymentID])
	}
	return nil
}

// readDeployments returns the deployments of a run with what is damaged of them, by id.
func (s *Store) readDeployments(ctx context.Context, run string) (map[string]Deployment, map[string]error, error) {
	of, damaged := map[string]Deployment{}, map[string]error{}
	_, err := collect(ctx, s.db, "read deployments", `SELECT `+deploymentColumns+` FROM deployments d WHERE d.run_id = ?`, []any{run},
		func(scan func(...any) error) (d Deployment, err error) {
			var damage error
			if err = scanInto(scan, deploymentTargets(&d, &damage)); damage != nil {
				damaged[d.ID] = damage
			}
			of[d.ID] = d
			return d, err
		})
	return of, damaged, err
}

// Known returns what is known about each cell that was ever measured, by cell
// id. A rehearsal measures nothing.
func (s *Store) Known(ctx context.Context) (map[string]Known, error) {
	type entry struct {
		id    string
		known Known
	}
	from, args := Query{Latest: true}.from()
	entries, err := collect(ctx, s.db, "read what is known",
		`SELECT c.id, c.verdict, c.run_id, c.finished, c.benchmark, c.axes, c.repetition, c.identity, coalesce(d.digest, ''),
			c.started, coalesce(d.engine, ''), coalesce(d.host, ''), coalesce(d.ready_s, 0),
			c.deployment_id, r.lab, r.command = 'import'`+from, args,
		func(scan func(...any) error) (e entry, err error) {
			k := &e.known
			var started time.Time
			var ready float64
			var damage error
			err = scan(&e.id, &k.Verdict, &k.RunID, timeColumn{&k.Finished, &damage}, &k.Benchmark, &k.Axes, &k.Repetition,
				jsonColumn{&k.Identity, &damage}, &k.Digest, timeColumn{&started, &damage}, &k.Engine, &k.Host, &ready,
				&k.Deployment, &k.Lab, &k.Imported)
			k.Took, k.Ready = k.Finished.Sub(started), time.Duration(ready*float64(time.Second))
			if damage != nil { // what cannot be read is no measurement
				k.Verdict, k.Took = load.Void, 0
			}
			return e, err
		})
	if err != nil {
		return nil, err
	}
	known := make(map[string]Known, len(entries))
	for _, e := range entries {
		known[e.id] = e.known
	}
	return known, nil
}

// Seen is what was seen of a host when an engine was started there.
type Seen struct {
	RunID      string
	Deployment string // its id, in the run
	Lab        string
	Host       string
	Started    time.Time
	Facts      json.RawMessage
}

// Seen returns what was seen of hosts in all runs that measured, oldest first.
func (s *Store) Seen(ctx context.Context) ([]Seen, error) {
	all, err := collect(ctx, s.db, "read what was seen of hosts",
		`SELECT r.lab, `+deploymentColumns+` FROM deployments d JOIN runs r ON r.id = d.run_id
			WHERE r.bundled = 0 AND r.command <> 'rehearse' AND r.command <> 'import' ORDER BY d.started`, nil,
		func(scan func(...any) error) (seen []Seen, err error) {
			var lab string
			var d Deployment
			var damage error
			err = scanInto(scan, []any{&lab}, deploymentTargets(&d, &damage))
			if damage == nil {
				seen = d.seen(lab)
			}
			return seen, err
		})
	return slices.Concat(all...), err
}

// seen is what was seen of the deployment's hosts.
func (d *Deployment) seen(lab string) (all []Seen) {
	add := func(host string, facts json.RawMessage) {
		known := slices.ContainsFunc(all, func(s Seen) bool { return s.Host == host })
		if facts != nil && !known {
			all = append(all, Seen{d.RunID, d.ID, lab, host, d.Started, facts})
		}
	}
	for _, m := range d.All() {
		add(m.Host, m.Facts)
	}
	if len(all) == 0 { // somebody else runs the engine
		add(d.Host, d.Facts)
	}
	return all
}

// from is the part of a statement that says which cells.
func (q Query) from() (sql string, args []any) {
	var where []string
	and := func(condition string, arg ...any) {
		where = append(where, condition)
		args = append(args, arg...)
	}
	if q.Run != "" {
		and("c.run_id = ?", q.Run)
	} else {
		and("r.bundled = 0 AND (r.command = 'rehearse') = ?", q.Rehearsed)
		if q.Lab != "" {
			and("r.lab = ?", q.Lab)
		}
	}
	if q.Cell != "" {
		and("substr(c.id, 1, length(?)) = ?", q.Cell, q.Cell)
	}
	if q.Benchmark != "" {
		and("c.benchmark = ?", q.Benchmark)
	}
	sql = `
		FROM cells c
		JOIN runs r ON r.id = c.run_id
		LEFT JOIN deployments d ON d.run_id = c.run_id AND d.id = c.deployment_id
		WHERE ` + strings.Join(where, " AND ")
	if q.Latest {
		sql += ` AND c.rowid IN (SELECT cell FROM (
			SELECT c.rowid AS cell, row_number() OVER (
				PARTITION BY c.id ORDER BY c.verdict = '` + load.Void + `', c.finished DESC, c.rowid DESC) AS place
			FROM cells c JOIN runs r ON r.id = c.run_id
			WHERE ` + strings.Join(where, " AND ") + `) AS ranked WHERE place = 1)`
		args = append(args, args...)
	}
	return sql, args
}
