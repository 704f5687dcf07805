package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/load"
)

// Query selects cells. The zero value selects every measured one.
type Query struct {
	Run  string // of this run only
	Lab  string // of this lab only; it says nothing when Run is set
	Cell string // whose id begins so
	// Latest selects one measurement per cell id: the newest that is not void,
	// and the newest void one only when there is no other; of imported ones the one
	// that was imported last, whatever it is.
	Latest bool
	// Rehearsed selects what was rehearsed instead of what was measured: the two
	// are never in one answer. It says nothing when Run is set. Runs that came in
	// a bundle, and those that proved a box, are in no answer but that for their Run.
	Rehearsed bool
	// Asked selects cells that ask questions, which have an Accuracy, instead of those that measure: the two are never in one
	// answer either.
	Asked bool
}

// Known is what the store holds about a cell: the measurement that Query.Latest
// selects. Of a search for a capacity it is what was found last.
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
	Digests    map[string]string // of the images that ran, by role; empty for a process
	Capacity   *Capacity         // of a search; else nil
}

// Count is what a run holds.
type Count struct {
	Valid    int `json:"valid"`
	Imported int `json:"imported"`
	Suspect  int `json:"suspect"`
	Void     int `json:"void"`
}

// Counts returns how many cells of each verdict every run holds, by its id.
func (s *Store) Counts(ctx context.Context) (map[string]Count, error) {
	type line struct {
		run string
		Count
	}
	lines, err := collect(ctx, s.db, "count cells", `SELECT run_id, count(*) FILTER (WHERE verdict = 'valid'),
			count(*) FILTER (WHERE verdict = 'imported'), count(*) FILTER (WHERE verdict = 'suspect'),
			count(*) FILTER (WHERE verdict NOT IN ('valid', 'imported', 'suspect')) FROM cells GROUP BY run_id`, nil,
		func(l *line) []any { return []any{&l.run, &l.Valid, &l.Imported, &l.Suspect, &l.Void} })
	counts := map[string]Count{}
	for _, l := range lines {
		counts[l.run] = l.Count
	}
	return counts, err
}

// Runs returns all runs, oldest first.
func (s *Store) Runs(ctx context.Context) (runs []Run, err error) {
	all, err := readRuns(ctx, s.db)
	for _, r := range all {
		runs = append(runs, r.thing)
	}
	return runs, err
}

func readRuns(ctx context.Context, db *database) ([]damaged[Run], error) {
	return things(ctx, db, "read runs", `SELECT `+runTable(new(Run)).names(db, "runs")+` FROM runs r ORDER BY r.started, r.id`, nil, runTable)
}

// Deployments returns the deployments of a run, in the order in which they were
// stored. One that cannot be read is an error.
func (s *Store) Deployments(ctx context.Context, run string) (deployments []Deployment, err error) {
	all, err := readDeployments(ctx, s.db, run)
	for _, d := range all {
		deployments = append(deployments, d.thing)
		if d.why != nil {
			err = errors.Join(err, fmt.Errorf("deployment %s: %w", d.thing.ID, d.why))
		}
	}
	return deployments, err
}

func readDeployments(ctx context.Context, db *database, run string) ([]damaged[Deployment], error) {
	return things(ctx, db, "read deployments",
		`SELECT `+deploymentTable(new(Deployment)).names(db, "deployments")+` FROM deployments d WHERE d.run_id = ? ORDER BY d.rowid`, []any{run},
		deploymentTable)
}

// Events returns what happened in a run, in the order in which it was stored.
func (s *Store) Events(ctx context.Context, run string) ([]Event, error) {
	return collect(ctx, s.db, "read events of run "+run,
		`SELECT time, level, host, engine, cell, message FROM events WHERE run_id = ? ORDER BY rowid`, []any{run},
		func(e *Event) []any {
			return []any{field{&e.Time, new(error)}, &e.Level, &e.Host, &e.Engine, &e.Cell, &e.Message}
		})
}

// Inputs returns what PutInputs has kept.
func (s *Store) Inputs(ctx context.Context, run string) (map[string][]byte, error) {
	type input struct {
		name    string
		content []byte
	}
	all, err := collect(ctx, s.db, "read inputs of run "+run, `SELECT name, content FROM inputs WHERE run_id = ?`, []any{run},
		func(i *input) []any { return []any{&i.name, &i.content} })
	inputs := map[string][]byte{}
	for _, i := range all {
		inputs[i.name] = i.content
	}
	return inputs, err
}

// Rows returns the cells that q selects, in the order in which they were measured.
// Rows of one deployment share what it holds.
func (s *Store) Rows(ctx context.Context, q Query) ([]Row, error) {
	from, args := q.fromClause()
	switch old := s.db.lacks["cells.accuracy"]; {
	case old && q.Asked:
		return nil, nil
	case q.Asked:
		from += " AND c.accuracy IS NOT NULL"
	case !old:
		from += " AND c.accuracy IS NULL"
	}
	cells, err := things(ctx, s.db, "read results",
		`SELECT `+cellTable(new(Cell)).names(s.db, "cells")+from+` ORDER BY c.started, c.rowid`, args, cellTable)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, c := range cells {
		r := Row{Cell: c.thing}
		r.damage("its row", c.why)
		rows = append(rows, r)
	}
	return rows, join(ctx, s.db, rows)
}

// join gives rows the runs and deployments that they are of.
func join(ctx context.Context, db *database, rows []Row) error {
	all, err := readRuns(ctx, db)
	if err != nil {
		return err
	}
	noises, err := readNoises(ctx, db)
	if err != nil {
		return err
	}
	runs := map[string]damaged[Run]{}
	for _, r := range all {
		runs[r.thing.ID] = r
	}
	noise := map[[2]string]*Noise{}                            // by run and deployment
	deployments := map[string]map[string]damaged[Deployment]{} // by run and id
	for i := range rows {
		r := &rows[i]
		if deployments[r.RunID] == nil {
			deployments[r.RunID] = map[string]damaged[Deployment]{}
			of, err := readDeployments(ctx, db, r.RunID)
			if err != nil {
				return err
			}
			known, err := noisesFor(ctx, db, runs[r.RunID].thing, noises)
			if err != nil {
				return err
			}
			for _, d := range of {
				deployments[r.RunID][d.thing.ID] = d
				noise[[2]string{r.RunID, d.thing.ID}] = d.thing.noiseOf(known)
			}
		}
		run, d := runs[r.RunID], deployments[r.RunID][r.DeploymentID]
		r.Run, r.Deployment = run.thing, d.thing
		if r.Run.Command != "rehearse" { // whose engines are none of the box's
			r.Noise = noise[[2]string{r.RunID, r.DeploymentID}]
		}
		r.damage("the row of its run", run.why)
		r.damage("the row of its deployment "+r.DeploymentID, d.why)
	}
	return nil
}

// Known returns what is known about each cell that was ever measured, and each search, by its
// id. A rehearsal measures nothing.
func (s *Store) Known(ctx context.Context) (map[string]Known, error) {
	type entry struct {
		id      string
		known   Known
		started time.Time
		ready   float64
		digest  string
		damage  error
	}
	from, args := Query{Latest: true}.fromClause()
	entries, err := collect(ctx, s.db, "read what is known",
		`SELECT c.id, c.verdict, c.run_id, c.finished, c.benchmark, c.axes, c.repetition, c.identity, d.digest,
			c.started, d.engine, d.host, d.ready_s,
			c.deployment_id, r.lab, r.command = 'import'`+from, args,
		func(at **entry) []any {
			e := &entry{}
			*at = e
			k := &e.known
			return []any{&e.id, &k.Verdict, &k.RunID, field{&k.Finished, &e.damage}, &k.Benchmark, &k.Axes, &k.Repetition,
				field{&k.Identity, &e.damage}, field{&e.digest, nil}, field{&e.started, &e.damage},
				field{&k.Engine, nil}, field{&k.Host, nil}, field{&e.ready, nil},
				&k.Deployment, &k.Lab, &k.Imported}
		})
	if err != nil {
		return nil, err
	}
	digests, err := readDigests(ctx, s.db)
	if err != nil {
		return nil, err
	}
	known := make(map[string]Known, len(entries))
	for _, e := range entries {
		k := e.known
		if k.Digests = digests[[2]string{k.RunID, k.Deployment}]; k.Digests == nil && e.digest != "" {
			k.Digests = map[string]string{"serve": e.digest}
		}
		k.Took, k.Ready = k.Finished.Sub(e.started), time.Duration(e.ready*float64(time.Second))
		if e.damage != nil { // what cannot be read is no measurement
			k.Verdict, k.Took = load.Void, 0
		}
		known[e.id] = k
	}
	return known, s.knowSearches(ctx, known, digests)
}

// readDigests reads the images of deployments of several members: by run and deployment, by role.
func readDigests(ctx context.Context, db *database) (map[[2]string]map[string]string, error) {
	type line struct {
		of      [2]string
		members []Member
	}
	lines, err := collect(ctx, db, "read what images ran", `SELECT d.run_id, d.id, `+db.column("deployments", "members")+` FROM deployments d`, nil,
		func(l *line) []any { return []any{&l.of[0], &l.of[1], field{&l.members, new(error)}} })
	all := map[[2]string]map[string]string{}
	for _, l := range lines {
		if l.members == nil {
			continue
		}
		all[l.of] = map[string]string{}
		for _, m := range l.members {
			all[l.of][m.Role] = m.Digest
		}
	}
	return all, err
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
func (s *Store) Seen(ctx context.Context) (all []Seen, err error) {
	type started struct {
		lab string
		Deployment
	}
	deployments, err := things(ctx, s.db, "read what was seen of hosts",
		`SELECT r.lab, `+deploymentTable(new(Deployment)).names(s.db, "deployments")+` FROM deployments d JOIN runs r ON r.id = d.run_id
			WHERE r.bundled = 0 AND r.command <> 'rehearse' AND r.command <> 'import' ORDER BY d.started`, nil,
		func(d *started) table {
			return append(table{{"lab", &d.lab, false}}, deploymentTable(&d.Deployment)...)
		})
	for _, d := range deployments {
		if d.why == nil {
			all = append(all, d.thing.seen(d.thing.lab)...)
		}
	}
	return all, err
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
	for _, host := range slices.Sorted(maps.Keys(d.Clients)) {
		add(host, d.Clients[host])
	}
	return all
}

// whatCounts orders the measurements of a cell, the one first that counts: the last, and of what
// others have measured the last that was imported.
const whatCounts = `(r.command <> 'import' AND c.verdict = '` + load.Void + `'),
	CASE WHEN r.command = 'import' THEN r.started ELSE c.finished END DESC, c.rowid DESC`

// fromClause is the part of a statement that says which cells.
func (q Query) fromClause() (sql string, args []any) { return q.clause("cells c", whatCounts) }

// clause is the part of a statement that says which rows of a table, called c, and of those of one id which is the latest.
func (q Query) clause(table, latest string) (sql string, args []any) {
	var where []string
	and := func(condition string, arg ...any) {
		where = append(where, condition)
		args = append(args, arg...)
	}
	if q.Run != "" {
		and("c.run_id = ?", q.Run)
	} else {
		and("r.bundled = 0 AND r.command <> '"+Proving+"' AND (r.command = 'rehearse') = ?", q.Rehearsed)
		if q.Lab != "" {
			and("r.lab = ?", q.Lab)
		}
	}
	if q.Cell != "" {
		and("substr(c.id, 1, length(?)) = ?", q.Cell, q.Cell)
	}
	sql = `
		FROM ` + table + `
		JOIN runs r ON r.id = c.run_id
		LEFT JOIN deployments d ON d.run_id = c.run_id AND d.id = c.deployment_id
		WHERE ` + strings.Join(where, " AND ")
	if q.Latest {
		sql += ` AND c.rowid IN (SELECT cell FROM (
			SELECT c.rowid AS cell, row_number() OVER (PARTITION BY c.id ORDER BY ` + latest + `) AS place
			FROM ` + table + ` JOIN runs r ON r.id = c.run_id
			WHERE ` + strings.Join(where, " AND ") + `) AS ranked WHERE place = 1)`
		args = append(args, args...)
	}
	return sql, args
}
