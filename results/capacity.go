package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hclbench/capacity"
	"hclbench/load"
)

// Capacity is what a search of a run has found, so far or at its end: the load that an engine holds at one point of a
// benchmark's matrix. The loads that were tried are cells of the run or of earlier ones, with the axis concurrency or rate.
type Capacity struct {
	ID           string            `json:"id"` // of what is measured, whatever is asked of it: the same in later runs
	RunID        string            `json:"run_id"`
	DeploymentID string            `json:"deployment_id"`
	Benchmark    string            `json:"benchmark"`
	Axes         Axes              `json:"axes"`     // of its cells, without the load
	Identity     map[string]string `json:"identity"` // what the id is the hash of
	Question     string            `json:"question"` // what was asked: its SLO, range, confidence, precision and budget, as one text
	Finished     time.Time         `json:"finished"` // when it was found
	Outcome      capacity.Outcome  `json:"outcome"`
}

func capacityTable(c *Capacity) table {
	return table{
		{"run_id", &c.RunID, false}, {"id", &c.ID, false}, {"deployment_id", &c.DeploymentID, false}, {"benchmark", &c.Benchmark, false},
		{"axes", &c.Axes, false}, {"identity", &c.Identity, false}, {"question", &c.Question, false}, {"finished", &c.Finished, false}, {"outcome", &c.Outcome, false},
	}
}

// foundLast orders what searches of one id have found, the last first.
const foundLast = `c.finished DESC, c.rowid DESC`

// PutCapacity stores what a search has found, in place of what the same run stored of it before.
func (s *Store) PutCapacity(ctx context.Context, c Capacity) error {
	return storing((&Rows{ctx: ctx, on: s.db}).Capacity(c), "capacity", c.ID)
}

// Capacity keeps what a search has found.
func (r *Rows) Capacity(c Capacity) error {
	return capacityTable(&c).put(r.ctx, r.on, "capacities", 2)
}

// Capacities returns what searches have found, as q selects cells, in the order in which it was found: its Cell is the id of
// a search, and Latest selects what each has found last. One that cannot be read is an error beside the others.
func (s *Store) Capacities(ctx context.Context, q Query) (list []Capacity, err error) {
	all, err := s.capacities(ctx, q)
	for _, c := range all {
		if c.why != nil {
			err = errors.Join(err, fmt.Errorf("capacity %s of run %s is damaged in the store: %w", c.thing.ID, c.thing.RunID, c.why))
			continue
		}
		list = append(list, c.thing)
	}
	return list, err
}

func (s *Store) capacities(ctx context.Context, q Query) ([]damaged[Capacity], error) {
	if s.db.lacks["capacities"] {
		return nil, nil
	}
	from, args := q.clause("capacities c", foundLast)
	return things(ctx, s.db, "read capacities",
		`SELECT `+capacityTable(new(Capacity)).names(s.db, "capacities")+from+` ORDER BY c.finished, c.rowid`, args, capacityTable)
}

// knowSearches adds what searches have found, as far as it can be read, to what is known of cells.
func (s *Store) knowSearches(ctx context.Context, known map[string]Known, digests map[[2]string]map[string]string) error {
	found, err := s.capacities(ctx, Query{Latest: true})
	rows := make([]Row, len(found))
	for i, c := range found {
		rows[i].RunID, rows[i].DeploymentID = c.thing.RunID, c.thing.DeploymentID
	}
	if err = errors.Join(err, join(ctx, s.db, rows)); err != nil {
		return err
	}
	for i := range found {
		c, d := &found[i].thing, rows[i].Deployment
		axes, err := json.Marshal(c.Axes)
		if found[i].why != nil || err != nil {
			continue
		}
		k := Known{
			Verdict: load.Valid, RunID: c.RunID, Deployment: c.DeploymentID, Lab: rows[i].Run.Lab, Finished: c.Finished, Engine: d.Engine,
			Host: d.Host, Benchmark: c.Benchmark, Axes: string(axes), Repetition: 1, Identity: c.Identity, Capacity: c,
			Digests: digests[[2]string{c.RunID, c.DeploymentID}],
		}
		if c.Outcome.Flaw != "" {
			k.Verdict = load.Suspect
		}
		if k.Digests == nil && d.Digest != "" {
			k.Digests = map[string]string{"serve": d.Digest}
		}
		known[c.ID] = k
	}
	return nil
}
