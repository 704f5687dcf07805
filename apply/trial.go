package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

	left    []*plan.Cell // that are not dealt with
	doubts  []string     // why every measurement of this start is suspect
	context int          // see [serving.context]
}

func newTrial(r *run, d *plan.Deployment, at sessions) *trial {
	d = d.On(at.pods())
	tell := teller{about: Event{Host: d.Host.Name, Engine: d.Engine.Label()}, to: r.told}
	t := &trial{engine: &engine{d: d, at: at, tell: tell, secrets: r.keep.secrets, log: r.opt.Log}, run: r, left: d.ToDo()}
	t.row = d.Stored()
	t.row.ID, t.row.RunID, t.row.Started = d.ID, r.opt.Run.ID, time.Now()
	t.row.Image, t.row.Identity = d.Engine.Image, d.Identity
	if at == nil { // it will not be carried out
		return t
	}
	t.row.Facts = t.home().FactsText()
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
		m.Image, m.Price, m.Facts = in.Engine.Image, in.Host.PricePerHour, t.at[in.Host].FactsText()
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

// carryOut measures the deployment's cells, and starts the engine as often as it is lost:
// each start deals with a cell, so that it ends.
func (t *trial) carryOut() {
	ctx, done := t.held()
	defer done()
	t.settle(ctx, t.prepare(ctx))
	for len(t.left) > 0 {
		t.settle(ctx, t.attempt(ctx))
	}
}

// settle decides what failures cost, each by its scope.
func (t *trial) settle(ctx context.Context, err error) {
	for _, f := range failures(err, ofDeployment) {
		left := t.left
		if f.scope >= ofDeployment {
			t.left = nil
		}
		switch {
		case f.scope == ofRun:
			t.tell.say(Failed, "%v", f)
			t.run.stop(f)
		case f.scope == ofHost:
			t.run.sched.lose(f.host, f.err)
		case ctx.Err() != nil: // it was broken off, which is no failure
		case f.scope == ofStart:
			t.tell.say(Warning, "the engine is lost: %v", f)
		case f.scope == ofDeployment:
			why := fmt.Errorf("%s: %w", t.d.Engine, f)
			t.tell.say(Failed, "%v", why)
			t.settle(ctx, t.giveUp(ctx, left, why))
		case f.scope == ofTrial:
			t.tell.say(Failed, "%s: %v", t.d.Engine, f)
		}
	}
	if ctx.Err() != nil {
		t.left = nil
	}
}

func (t *trial) giveUp(ctx context.Context, cells []*plan.Cell, why error) error {
	if err := t.keepRow(ctx); err != nil {
		return err
	}
	what, _, _ := strings.Cut(why.Error(), "\n")
	for _, c := range cells {
		m := t.measurement(c)
		m.out.Finished, m.out.Error = m.out.Started, why.Error()
		if err := t.keep(ctx, m, what); err != nil {
			return err
		}
	}
	return nil
}

// keep stores what came of a cell, counts it and tells of it.
func (t *trial) keep(ctx context.Context, m *measurement, what string) error {
	if err := t.run.keep.cell(ctx, &m.out, m.records); err != nil {
		return err
	}
	t.run.count(m.out.Verdict().Verdict)
	m.tell.tell(Event{Type: End, Summary: m.out.Summary, Message: what})
	return nil
}

func (t *trial) keepRow(ctx context.Context) error {
	if len(t.rows) > 0 {
		t.row.SetMembers(t.rows)
	}
	return t.run.keep.deployment(ctx, t.row)
}

// attempt measures the next cell by the engine's own tool, or starts the engine for all others.
func (t *trial) attempt(ctx context.Context) (err error) {
	if err := t.readyAgain(ctx); err != nil {
		return err
	}
	t.row.Phases, t.row.Served, t.row.Stopped = slices.Clone(t.built), nil, time.Time{}
	if t.left[0].Batch() != nil {
		return t.cell(ctx, (*measurement).batch)
	}
	defer func() { err = errors.Join(err, t.stop(ctx)) }()
	if err := t.start(ctx); err != nil {
		return err
	}
	for len(t.left) > 0 {
		if err := t.cell(ctx, (*measurement).load); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// readyAgain sees to it that each place is as it was made ready, before anything is measured.
func (t *trial) readyAgain(ctx context.Context) error {
	for _, h := range t.d.Needs() {
		switch err := t.at[h].ReadyAgain(ctx); {
		case err != nil && ctx.Err() != nil: // another host is lost, or the run is broken off
			return context.Cause(ctx)
		case err != nil:
			return t.blame(t.at[h], err)
		}
	}
	t.row.Facts = t.home().FactsText()
	for i, m := range t.parts {
		t.rows[i].Facts = t.at[m.Host].FactsText()
	}
	return nil
}

// cell measures the next cell and keeps what came of it. It returns what costs more than that.
func (t *trial) cell(ctx context.Context, how func(*measurement, context.Context) error) error {
	m := t.measurement(t.left[0])
	m.tell.about.Number, m.tell.about.Of = t.run.begin()
	m.tell.tell(Event{Type: Begin})
	var more []error
	for _, f := range failures(how(m, ctx), ofCell) {
		switch f.scope {
		case ofStart:
			tail := t.tail(ctx)
			m.void(withTail("the engine was lost in mid-cell: "+f.Error()+t.lostBy(tail), tail))
			more = append(more, f)
		case ofCell:
			m.void(f.Error())
		default:
			more = append(more, f)
		}
	}
	for _, h := range t.d.Needs() {
		if t.at[h].Anew() { // what it was measured with was no longer set
			why := fmt.Sprintf("%s has cleaned itself, or was restarted, in mid-cell", h)
			if m.out.Summary != nil {
				m.void(why)
			}
			more = append(more, failed(ofStart, nil, errors.New(why)))
		}
	}
	if m.out.Summary == nil && m.out.Error == "" || ctx.Err() != nil && m.out.Summary == nil {
		return errors.Join(more...) // interrupted: not a measurement, and not a failure
	}
	t.left = t.left[1:]
	if m.out.Finished.IsZero() {
		m.out.Finished = time.Now()
	}
	return errors.Join(append(more, t.keep(ctx, m, m.out.Error))...)
}

// compareFacts warns when a host is not as it was when cells were measured there, or sent from there.
func (t *trial) compareFacts(context.Context) error {
	for _, h := range t.d.Needs() {
		told := map[string]int{}
		for _, c := range t.d.Cells {
			if was := c.Facts[h]; c.Status == plan.Done && was != nil {
				if changed := strings.Join(t.at[h].Facts.Differences(*was), ", "); changed != "" {
					told[changed]++
				}
			}
		}
		for _, changed := range slices.Sorted(maps.Keys(told)) {
			t.tell.say(Warning, "%s has changed since %d of the cells that are up to date were measured: %s; "+
				"--strict-facts measures them again", h, told[changed], changed)
		}
	}
	return nil
}
