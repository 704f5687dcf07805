package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/results"
)

// looking is a search for the load that the deployment holds, which goes on. It outlives the starts of the engine.
type looking struct {
	*capacity.Search
	cell     *plan.Cell
	tell     teller
	try      capacity.Try    // that is under way
	tries    map[float64]int // that were made of each load
	last     time.Time       // when the latest of them was begun
	requests int
	took     time.Duration
	flaw     string // why the search ends without an answer, where it cannot say so itself
	ended    string // or with what it knows
}

// next is the next cell to measure. Of a search that is what it asks for after all that the store has of it: those tries are
// taken in the order in which it asks for them, so that it comes to where it was. Nil: there is none.
func (t *trial) next(ctx context.Context) (*plan.Cell, error) {
	for len(t.left) > 0 {
		c := t.left[0]
		if c.Search() == nil {
			return c, nil
		}
		x := t.looking
		if x == nil {
			x = &looking{cell: c, tell: t.measurement(c).tell, tries: map[float64]int{}}
			var err error
			if x.Search, err = capacity.New(c.Search().Question); err != nil {
				return nil, fmt.Errorf("search of benchmark %s: %w", c.Benchmark, err)
			}
			x.tell.about.Number, x.tell.about.Of = t.begin()
			x.tell.tell(Event{Type: Begin})
			t.looking = x
		}
		try, more := x.Next()
		more = more && x.flaw == "" && x.ended == ""
		found := x.outcome()
		if len(found.Loads) > 0 {
			if err := t.keepFound(ctx, x, found); err != nil {
				return nil, err
			}
		}
		if !more {
			t.left, t.looking = t.left[1:], nil
			verdict := load.Valid
			if found.Holds == nil && found.Breaks == nil || x.Answer().Ended != "" {
				verdict = load.Suspect
			}
			t.over(verdict)
			x.tell.tell(Event{Type: End, Capacity: &found})
			continue
		}
		if x.try = try; !t.takeKnown(ctx, x) {
			return x.next(), nil
		}
	}
	return nil, nil
}

// next is the try that is under way, as a cell.
func (x *looking) next() *plan.Cell {
	return x.cell.Try(x.try.Load, x.try.Most, x.tries[x.try.Load]+1)
}

// takeKnown takes the try from the store, if it is there whole. What is tried again at the end has to be later than all before.
func (t *trial) takeKnown(ctx context.Context, x *looking) bool {
	s := x.cell.Search()
	for {
		want := x.next()
		i := slices.IndexFunc(s.Tries, func(c *plan.Cell) bool {
			return c.Status == plan.Done && c.Group == want.Group && c.Repetition == want.Repetition
		})
		if i < 0 {
			return false
		}
		rows, err := t.run.keep.store.Rows(ctx, results.Query{Run: s.Tries[i].Run, Cell: s.Tries[i].ID})
		if err != nil || len(rows) != 1 || rows[0].Summary == nil {
			return false
		}
		if x.try.Again && rows[0].Started.Before(x.last) {
			x.tries[x.try.Load]++
			continue
		}
		records, err := t.run.keep.store.Records(ctx, rows[0].RunID, rows[0].ID)
		if err != nil || len(records) == 0 {
			return false
		}
		x.take(&rows[0].Cell, records)
		return true
	}
}

// take tells the search what came of a try: the same, whether it has just been measured or is in the store.
func (x *looking) take(c *results.Cell, records []load.Record) {
	first := len(x.tries) == 0
	x.try.Begin()
	for i := range records {
		x.try.Over(&records[i])
	}
	took, n := c.Finished.Round(0).Sub(c.Started.Round(0)), 0
	doubt, drifts := c.Error, false
	if c.Summary != nil {
		n = c.Summary.Requests
		doubt, drifts = capacity.Against(c.Summary.Verdict, x.SLO)
		if d := c.Job.Workload.Dataset; doubt == "" && !first && d.Path != "" && !d.Fresh() && c.CacheReset != "flushed" {
			doubt, drifts = "its prompts were sent before, and the prefix cache may have them: "+c.CacheReset, false
			if !strings.HasPrefix(c.CacheReset, "failed") { // nor can any other load be judged
				x.ended = doubt
			}
		}
	}
	x.try.Early = c.Started.Before(x.last)
	x.Tried(x.try, x.cell.Search().Cost(n, took), doubt, drifts)
	x.tries[x.try.Load]++
	if !x.try.Early {
		x.last = c.Started
	}
	x.requests += n
	x.took += took
	if err := capacity.Lacking(x.SLO, records); err != nil {
		x.flaw = err.Error()
	}
}

// outcome is what is known so far.
func (x *looking) outcome() capacity.Outcome {
	o := x.Outcome(x.took, x.requests)
	if x.ended != "" {
		o.Ended, o.Over = x.ended, true
	}
	if x.flaw != "" {
		o.Flaw, o.Over, o.Holds, o.Breaks, o.AtLeast = x.flaw, true, nil, nil, false
	}
	return o
}

// keepFound stores what a search has found so far.
func (t *trial) keepFound(ctx context.Context, x *looking, found capacity.Outcome) error {
	c := x.cell
	if !t.rowKept { // the engine was not started: all is in the store
		if err := t.keepRow(ctx); err != nil {
			return err
		}
	}
	return t.run.keep.capacity(ctx, results.Capacity{
		ID: c.ID, RunID: t.row.RunID, DeploymentID: t.row.ID, Benchmark: c.Benchmark, Axes: c.Axes, Identity: c.Identity(),
		Question: c.Search().Asked(), Finished: time.Now(), Outcome: found,
	})
}
