package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"hclbench/accuracy"
	"hclbench/apply/place"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/results"
)

// trial is one deployment that is carried out over the sessions of its hosts.
type trial struct {
	*engine
	run   *run
	row   results.Deployment // what is known of it
	rows  []results.Member   // and of each of its members, whole
	parts []plan.Member      // its members, with the images that their tags mean now
	built []results.Phase    // what came before each start

	came    progress      // how far it has come
	left    []*plan.Cell  // that are not dealt with
	fate    *failure      // the worst that has ended a start of it; nil: nothing has
	looking *looking      // the search that goes on, the first of those that are left; nil: none does
	rowKept bool          // the store has the row
	doubts  []load.Reason // why every measurement of this start is suspect
	context int           // see [serving.context]
}

func newTrial(r *run, d *plan.Deployment, at sessions) *trial {
	d = d.On(at.fabrics())
	tell := teller{about: Event{Host: d.Host.Name, Engine: d.Engine.Label()}, to: r.publish}
	t := &trial{engine: &engine{d: d, at: at, tell: tell, secrets: r.keep.secrets, log: r.opt.Log}, run: r, left: d.ToDo()}
	t.row = d.Stored()
	t.row.ID, t.row.RunID, t.row.Started = d.ID, r.opt.Run.ID, time.Now()
	t.row.Image, t.row.Identity = d.Engine.Image, d.Identity
	if at == nil { // it will not be carried out
		return t
	}
	t.row.Begun, t.row.Facts = time.Now(), t.home().FactsText()
	for _, c := range t.left {
		for _, client := range c.From() {
			if t.row.Clients == nil {
				t.row.Clients = map[string]json.RawMessage{}
			}
			t.row.Clients[client.Name] = at[client].FactsText()
		}
	}
	t.describe()
	// What runs in a container of its own comes before the engine that serves the rest.
	slices.SortStableFunc(t.left, func(a, b *plan.Cell) int { return order(a) - order(b) })
	return t
}

// describe notes what the members are.
func (t *trial) describe() {
	t.rows = nil
	for _, in := range t.d.Members {
		m := in.Stored()
		m.Image, m.Price, m.Facts = in.Engine.Image, t.at[in.Host].Conn.Host().PricePerHour, t.at[in.Host].FactsText()
		for _, w := range slices.Concat(in.Container.Entrypoint, in.Container.Command) {
			m.Command = append(m.Command, w.String())
		}
		t.rows = append(t.rows, m)
	}
}

func order(c *plan.Cell) int {
	if c.Batch() != nil {
		return 0
	}
	return 1
}

type measurement struct {
	t       *trial
	cell    *plan.Cell
	out     results.Cell
	records []load.Record
	tell    teller
	silent  atomic.Int64 // nanoseconds for which nothing has come, with requests in flight
	of      *looking     // whose try it is; nil: it stands alone
}

func (t *trial) measurement(c *plan.Cell) *measurement {
	m := &measurement{t: t, cell: c, tell: t.tell}
	m.tell.about.Benchmark, m.tell.about.Cell, m.tell.about.Axes = c.Benchmark, c.ID, c.Axes
	m.out = results.Cell{
		ID: c.ID, RunID: t.row.RunID, DeploymentID: t.row.ID,
		Benchmark: c.Benchmark, Axes: c.Axes, Repetition: c.Repetition,
		Identity: c.Identity(), Job: c.Task.Stored(), Started: time.Now(),
	}
	if e := c.Eval(); e != nil {
		m.out.Accuracy = e.Accuracy()
	}
	return m
}

func (m *measurement) void(why string) {
	if m.out.Summary, m.out.Error = nil, why; m.out.Accuracy != nil {
		m.out.Accuracy.Answers, m.out.Accuracy.Score = nil, accuracy.Score{}
	}
}

// keep stores what came of a cell, counts it and tells of it. A try of a search is a part of that, which counts at its end.
func (t *trial) keep(ctx context.Context, m *measurement, what string) error {
	if err := t.run.keep.cell(ctx, &m.out, m.records); err != nil {
		return err
	}
	if m.of == nil {
		t.over(m.out.Verdict().Verdict)
		e := Event{Type: End, Summary: m.out.Summary, Message: what}
		if m.out.Accuracy != nil && m.out.Summary != nil {
			e.Score = &m.out.Accuracy.Score
		}
		m.tell.tell(e)
		return nil
	}
	m.of.take(&m.out, m.records)
	found := m.of.outcome()
	m.tell.tell(Event{Type: Tried, Summary: m.out.Summary, Message: what, Capacity: &found})
	return nil
}

// begin is which cell of how many begins: of the run, or of the start of a tuning, since nobody knows how many those will be.
func (t *trial) begin() (number, of int) {
	if number, of = t.run.begin(); t.d.Tuned {
		of = len(t.d.Cells)
		number = of - len(t.left) + 1
	}
	return number, of
}

// over counts a cell that is kept, or a search that has ended. Where that makes those after it needless nobody is to measure them.
func (t *trial) over(verdict string) {
	t.run.count(verdict, t.d.Tuned)
	if len(t.left) > 0 && t.d.Enough != nil && t.d.Enough() {
		t.run.expect(-len(t.left))
		t.left = nil
	}
}

func (t *trial) keepRow(ctx context.Context) error {
	t.rowKept = true
	if len(t.rows) > 0 {
		t.row.SetMembers(t.rows)
	}
	return t.run.keep.deployment(ctx, t.row)
}

// blame is what becomes of the failure of a host that load is sent from: beside an engine
// on another host it ends only what is sent.
func (t *trial) blame(s *place.Session, err error) error {
	if err != nil && s != t.home() {
		return failed(ofTrial, s.Host, fmt.Errorf("its load is no longer sent; the next apply measures it: %w", err))
	}
	return failed(ofHost, s.Host, err)
}

// alike reports members of one role that would run different images by the same name. That somebody's
// image has no digest, as one has not that was loaded from a file, is a doubt.
func alike(rows []results.Member) (doubts []string, err error) {
	for i, m := range rows {
		other := func(known bool) int {
			return slices.IndexFunc(rows[:i], func(o results.Member) bool {
				return o.Role == m.Role && o.Digest != m.Digest && (o.Digest != "" && m.Digest != "") == known
			})
		}
		if j := other(true); j >= 0 {
			return nil, fmt.Errorf("%s is %s on %s and %s on %s: the members of a role have to run the same. Write the image with its digest",
				m.Image, rows[j].Digest, rows[j].Host, m.Digest, m.Host)
		}
		if j := other(false); j >= 0 {
			doubts = append(doubts, fmt.Sprintf("nobody knows whether %s is the same on %s and on %s: one of them has no digest of it",
				m.Image, rows[j].Host, m.Host))
		}
	}
	return doubts, nil
}
