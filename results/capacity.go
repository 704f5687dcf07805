package results

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hclbench/capacity"
)

// Capacity is what a search of a run has found, so far or at its end: the load that an engine holds at one point of a
// benchmark's matrix. The loads that were tried are cells of the run or of earlier ones, with the axis concurrency or rate.
type Capacity struct {
	ID           string           `json:"id"` // of what is measured, whatever is asked of it: the same in later runs
	RunID        string           `json:"run_id"`
	DeploymentID string           `json:"deployment_id"`
	Benchmark    string           `json:"benchmark"`
	Axes         Axes             `json:"axes"`     // of its cells, without the load
	Question     string           `json:"question"` // what was asked: its SLO, range, confidence, precision and budget, as one text
	Finished     time.Time        `json:"finished"` // when it was found
	Outcome      capacity.Outcome `json:"outcome"`
}

func capacityTable(c *Capacity) table {
	return table{
		{"run_id", &c.RunID, false}, {"id", &c.ID, false}, {"deployment_id", &c.DeploymentID, false}, {"benchmark", &c.Benchmark, false},
		{"axes", &c.Axes, false}, {"question", &c.Question, false}, {"finished", &c.Finished, false}, {"outcome", &c.Outcome, false},
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
	if s.db.lacks["capacities"] {
		return nil, nil
	}
	from, args := q.clause("capacities c", foundLast)
	all, err := things(ctx, s.db, "read capacities",
		`SELECT `+capacityTable(new(Capacity)).names(s.db, "capacities")+from+` ORDER BY c.finished, c.rowid`, args, capacityTable)
	for _, c := range all {
		if c.why != nil {
			err = errors.Join(err, fmt.Errorf("capacity %s of run %s is damaged in the store: %w", c.thing.ID, c.thing.RunID, c.why))
			continue
		}
		list = append(list, c.thing)
	}
	return list, err
}
