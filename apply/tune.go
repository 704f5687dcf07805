package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/accuracy"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/results"
	"hclbench/tune"
)

// errBudget is why a start is broken off that would cost more than the budget has.
var errBudget = errors.New("it has cost what the budget has for it")

// downWithin is what is left of a start's time for taking the last engine down.
const downWithin = 2 * time.Minute

// tune carries a tuning out: one start after the other, each of which is known when the one before has ended. Whatever comes
// of a start is noted before the next one, so that the next apply goes on there.
func (r *run) tune(ctx context.Context, t *plan.Tune) {
	defer r.sched.give(t.Hold)
	tell := r.at(t.Hold.Host)
	t.Begin(rand.Uint64)
	var free time.Time // when its hosts were given back to it; zero: it has not had them yet
	for ctx.Err() == nil {
		search, err := t.Search()
		if err != nil {
			tell.say(Failed, "%v", err)
			return
		}
		start, more := search.Next()
		if !more {
			return
		}
		if t.Asks(search) {
			if err := r.ask(ctx, t, search); err != nil && ctx.Err() == nil {
				tell.say(Failed, "tune %s: %v", t.Name, err)
				return
			}
			continue
		}
		if start.Phase == tune.Final && t.Ledger.FinalSeed == 0 { // only now: a proposer can read what is kept
			t.Ledger.FinalSeed = rand.Uint64()
			continue
		}
		d, err := t.Deployment(start)
		if err != nil {
			tell.say(Failed, "tune %s: %v", t.Name, err)
			return
		}
		r.expect(len(d.ToDo()))
		d.Enough = func() bool { // who is out by its loads is asked nothing
			result, err := r.ofLoads(ctx, t, d, &results.Tried{Start: start, Engine: d.Engine.Label(), Deployment: d.ID})
			return err == nil && result != nil && result.Outcome != tune.Measured
		}
		tried := results.Tried{Start: start, Engine: d.Engine.Label(), Settings: start.Candidate.Settings(), Run: r.opt.Run.ID, Deployment: d.ID}
		// Until its end is noted a start counts as one that was killed: its hosts clean themselves when the lease is over.
		n := len(t.Ledger.Starts)
		note := func(cost time.Duration) error {
			tried.Cost = t.Cost(cost)
			t.Ledger.Starts = append(t.Ledger.Starts[:n], tried) // one before it with the same number was broken off, and counts beside it
			return r.keep.ledger(ctx, t)
		}
		ticking, stop := context.WithCancel(ctx)
		var ticks sync.WaitGroup
		r.sched.insert(d, t.Hold)
		failed := r.carryOut(ctx, d, func() error {
			if free.IsZero() {
				free = time.Now()
			}
			tried.Began = free
			if within := t.Within(start.Most); within > 0 {
				d.Until = free.Add(max(within/2, within-downWithin))
			}
			tell.say(Step, "tune %s: start %d (%s): %s", t.Name, start.Number, start.Phase, tried.Settings)
			err := note(r.plan.Lab.Lease)
			ticks.Go(func() {
				for flow.Pause(ticking, time.Minute) {
					note(time.Since(tried.Began) + r.plan.Lab.Lease) // what cannot be kept is said at the end
				}
			})
			return err
		})
		stop()
		ticks.Wait()
		if tried.Began.IsZero() { // its hosts could not be had, which is told of them
			return
		}
		free = time.Now()
		cost := free.Sub(tried.Began)
		result, err := r.resultOf(ctx, t, d, &tried, failed)
		if err == nil && result != nil && start.Phase == tune.AA && result.Outcome != tune.Measured {
			// Without its start there is nothing to tune, and what is wrong may be mended: the next apply tries it again.
			tell.say(Failed, "tune %s: the start %s: %s: %s", t.Name, t.Start.Address(), result.Outcome, result.Reason)
			result = nil
		}
		if err == nil && result != nil {
			result.Cost = t.Cost(cost)
			err = search.Ended(start, *result)
		}
		tried.Result = result
		if err = errors.Join(err, note(cost)); err != nil {
			tell.say(Failed, "tune %s: %v", t.Name, err)
			return
		}
		switch {
		case result != nil:
			tell.say(Step, "tune %s: %s", t.Name, said(t, tried))
		case failed == nil && ctx.Err() == nil && !d.Until.IsZero() && !free.Before(d.Until):
			tell.say(Warning, "tune %s: start %d is broken off: %v", t.Name, start.Number, errBudget)
			if start.Phase == tune.AA {
				return
			}
		default: // a host is lost, or its start does not start, which is told, or it was broken off
			if ctx.Err() == nil && (failed == nil || failed.scope <= ofDeployment) {
				r.expect(len(d.ToDo())) // which the next apply measures
			}
			return
		}
	}
}

// said is what came of a start in one line.
func said(t *plan.Tune, tried results.Tried) string {
	r := tried.Result
	if r.Outcome != tune.Measured {
		return fmt.Sprintf("%s: %s: %s", tried.Settings, r.Outcome, r.Reason)
	}
	var loads []string
	for _, l := range tried.Loads {
		text := fmt.Sprintf("%.4g", l.Figure)
		if o := l.Capacity; o != nil && o.Holds != nil {
			text += fmt.Sprintf(", certainly holds %.4g", *o.Holds)
		}
		if o := l.Capacity; o != nil && o.Breaks != nil {
			text += fmt.Sprintf(", certainly breaks by %.4g", *o.Breaks)
		}
		loads = append(loads, text)
	}
	for _, c := range tried.Checks {
		if c.Verdict != "" {
			loads = append(loads, "accuracy "+string(c.Verdict))
		}
	}
	return fmt.Sprintf("%s: %s %s", tried.Settings, t.Figure.Name, strings.Join(loads, ", "))
}

// resultOf is what came of a start, by what was kept of it; nil: nothing that is the candidate's own doing.
func (r *run) resultOf(ctx context.Context, t *plan.Tune, d *plan.Deployment, tried *results.Tried, failed *failure) (*tune.Result, error) {
	late, done := flow.Beyond(ctx, storePatience)
	defer done()
	result, err := r.ofLoads(late, t, d, tried)
	broken := slices.ContainsFunc(tried.Loads, func(l results.TriedLoad) bool { return l.Error != "" })
	switch {
	case err != nil, failed != nil && failed.scope > ofDeployment, broken && failed == nil && ctx.Err() != nil:
		return nil, err
	case failed != nil && !isItsOwn(t, tried, failed):
		r.at(t.Hold.Host).say(Warning, "tune %s: what start %d has failed by is not among the settings of its candidate; the next apply makes it again",
			t.Name, tried.Number)
		return nil, nil
	case failed != nil:
		text, _, _ := strings.Cut(failed.Error(), "\n")
		outcome := tune.DidNotStart
		if engines.IsOutOfMemory(text) {
			outcome = tune.OutOfMemory
		}
		return &tune.Result{Outcome: outcome, Reason: r.keep.secrets.Text(text)}, nil
	case result == nil || result.Outcome != tune.Measured:
		return result, nil
	}
	if result, err = r.ofAnswers(late, t, d, tried, result); err == nil && result != nil && result.Outcome == tune.NotMeasurable && ctx.Err() != nil {
		return nil, nil // it was broken off while it was asked
	}
	return result, err
}

// ofLoads is what came of the loads of a start; nil: they are not over.
func (r *run) ofLoads(ctx context.Context, t *plan.Tune, d *plan.Deployment, tried *results.Tried) (*tune.Result, error) {
	best, at, why, broke, missed := tune.Score{}, "", "", false, []string(nil)
	for _, c := range d.Cells {
		read := r.triedLoad
		switch {
		case c.Eval() != nil:
			continue
		case c.Search() != nil:
			read = r.triedSearch
		}
		l, err := read(ctx, t, tried, c)
		if err != nil {
			return nil, err
		}
		broke = broke || l.broke
		switch score := (tune.Score{Value: t.Score(l.Figure), Error: l.deviation}); {
		case l.Error != "":
			why = l.Error
		case l.Doubt != "":
			why = l.Doubt
		case l.Figure == 0:
			why = "nothing was measured of " + t.Figure.Name
		case l.Missed != nil:
			missed = append(missed, l.Missed...)
		case score.Value > best.Value:
			best, at = score, l.at
		}
		tried.Loads = append(tried.Loads, l.TriedLoad)
	}
	if len(t.Loads)+len(t.Checks) == 1 && t.Capacity() == nil {
		at = "" // a race would save nothing
	}
	broken := slices.ContainsFunc(tried.Loads, func(l results.TriedLoad) bool { return l.Error != "" })
	switch {
	case t.Capacity() == nil && beaten(t, tried.Race, tried.Loads[0].Figure):
		return &tune.Result{Outcome: tune.Beaten, Reason: fmt.Sprintf("%s %.4g at %s", t.Figure.Name, tried.Loads[0].Figure, tried.Race.At),
			Score: tune.Score{Value: t.Score(tried.Loads[0].Figure)}}, nil
	case !broken && lostRace(t, tried):
		o := tried.Loads[0].Capacity
		return &tune.Result{Outcome: tune.Beaten, Reason: fmt.Sprintf("breaks by %.4g, and the best so far certainly holds %s", *o.Breaks, tried.Race.At)}, nil
	case broken && slices.ContainsFunc(tried.Loads, func(l results.TriedLoad) bool { return l.Error == notMeasured }):
		return nil, nil
	case !broken && best.Value == 0 && broke:
		return &tune.Result{Outcome: tune.Broke, Reason: why}, nil
	case !broken && best.Value == 0 && missed != nil:
		slices.Sort(missed)
		return &tune.Result{Outcome: tune.MissedSLO, Reason: strings.Join(slices.Compact(missed), ", ")}, nil
	case broken || best.Value == 0:
		return &tune.Result{Outcome: tune.NotMeasurable, Reason: why}, nil
	}
	return &tune.Result{Outcome: tune.Measured, Score: best, At: at}, nil
}

// ofAnswers is what came of a start whose loads were measured, by what it has answered: who is worse than the baseline has failed, and what is
// not shown excludes nobody. nil: its questions are not over.
func (r *run) ofAnswers(ctx context.Context, t *plan.Tune, d *plan.Deployment, tried *results.Tried, result *tune.Result) (*tune.Result, error) {
	for _, c := range d.Cells {
		if c.Eval() == nil {
			continue
		}
		run := cmp.Or(c.Run, r.opt.Run.ID)
		scored, err := r.keep.store.Scored(ctx, results.Query{Run: run, Cell: c.ID}, nil)
		if err != nil || len(scored) == 0 {
			return nil, err
		}
		x := &scored[0]
		if v := x.Verdict(); v.Verdict == load.Void {
			why, _, _ := strings.Cut(v.Texts()[0], "\n")
			return &tune.Result{Outcome: tune.NotMeasurable, Reason: "of accuracy " + t.Accuracy + ": " + why}, nil
		}
		check := results.Check{Asker: results.Asker{Run: run, Cell: c.ID}, Axes: c.Axes}
		if tried.Phase != tune.AA {
			check.Verdict, check.Why = x.Held.Verdict, r.keep.secrets.Text(x.Held.Reason())
		}
		tried.Checks = append(tried.Checks, check)
		if check.Verdict == accuracy.Worse && result.Outcome == tune.Measured {
			result.Outcome, result.Reason = tune.FailedCheck, fmt.Sprintf("%s at %s: %s", t.Accuracy, plan.At(tried.Engine, c.Axes), check.Why)
		}
	}
	return result, nil
}

// triedNow is a load of a start as its ledger keeps it, and what its result is made of.
type triedNow struct {
	results.TriedLoad
	deviation float64 // of the figure, as a part of it; 0: not known
	at        string  // the load at which others may be raced against this candidate
	broke     bool    // it has done less than was asked for
}

// triedLoad is what a cell has measured of what is tuned, and of the box, if it was proved.
func (r *run) triedLoad(ctx context.Context, t *plan.Tune, tried *results.Tried, c *plan.Cell) (l triedNow, err error) {
	l = triedNow{TriedLoad: results.TriedLoad{Cell: c.ID, Axes: c.Axes}, at: plan.At(tried.Engine, c.Axes)}
	rows, err := r.keep.store.Rows(ctx, results.Query{Run: cmp.Or(c.Run, r.opt.Run.ID), Cell: c.ID})
	if err != nil || len(rows) == 0 {
		l.Error = notMeasured
		return l, err
	}
	row := &rows[0]
	if n := row.Noise; n != nil && n.Spread[t.Figure.Name] > 0 {
		tried.Noise = &tune.Noise{Spread: n.Spread[t.Figure.Name], Freedom: n.Starts - 1}
	}
	l.Error, _, _ = strings.Cut(row.Error, "\n")
	if row.Summary == nil {
		return l, nil
	}
	for _, a := range row.Summary.Objectives {
		if !a.Met {
			l.Missed = append(l.Missed, a.Name())
		}
	}
	var doubt *load.Reason
	if l.Figure, doubt = r.figure(t, row); doubt != nil {
		l.Doubt = r.keep.secrets.Text(doubt.Text)
		l.broke = doubt.Code != load.CodeServed
	}
	return l, nil
}

const notMeasured = "not measured"

// triedSearch is what a search has found. Its figure is what is likely: the two bounds are certain, and too far apart to compare
// candidates by.
func (r *run) triedSearch(ctx context.Context, t *plan.Tune, tried *results.Tried, c *plan.Cell) (l triedNow, err error) {
	l = triedNow{TriedLoad: results.TriedLoad{Cell: c.ID, Axes: c.Axes}}
	found, err := r.keep.store.Capacities(ctx, results.Query{Run: r.opt.Run.ID, Cell: c.ID})
	if err != nil {
		return l, err
	}
	if len(found) == 0 || !found[0].Outcome.Over {
		l.Error = notMeasured
		return l, nil
	}
	o := &found[0].Outcome
	l.Capacity = o
	stuck := o.Stuck()
	if o.Holds != nil && (o.Breaks != nil || o.AtLeast) {
		stuck = nil // it keeps the search from no bound; else what is likely beyond it is a guess at what nobody has seen
	}
	switch l.Figure, l.deviation = o.Likely(); {
	case o.Flaw != "":
		l.Doubt = o.Flaw
	case o.Breaks != nil && *o.Breaks == o.Least:
		l.Missed = []string{o.BoundBy}
	case o.Holds == nil && o.Breaks == nil, stuck != nil:
		l.Figure, l.Doubt = 0, "the budget of the search makes no load certain"
		if stuck != nil {
			l.Doubt = r.keep.secrets.Text(fmt.Sprintf("its search ended at a load of %v, which stays in doubt: %s", stuck.Load, stuck.Doubt))
		}
		rows, err := r.keep.store.Rows(ctx, results.Query{Run: r.opt.Run.ID})
		if err != nil {
			return l, err
		}
		for _, row := range rows {
			if row.DeploymentID == tried.Deployment {
				_, doubt := r.figure(t, &row)
				l.broke = l.broke || doubt != nil && doubt.Code != load.CodeServed && doubt.Code != load.CodeFailed
			}
		}
	case o.Holds != nil:
		l.at = fmt.Sprintf("%s=%v", o.Of, *o.Holds)
	}
	return l, nil
}

// lostRace reports whether a candidate that is tuned by its capacity has lost its race.
func lostRace(t *plan.Tune, tried *results.Tried) bool {
	worth, o := t.Worth(tried.Race), tried.Loads[0].Capacity
	return worth > 0 && o != nil && o.Flaw == "" && o.Breaks != nil && *o.Breaks <= worth
}

// isItsOwn reports whether a start has failed by what its candidate is. Before its engine runs that can only be another engine, with an
// image and a model of its own; then it is all but what its log says of the host.
func isItsOwn(t *plan.Tune, tried *results.Tried, f *failure) bool {
	switch f.came {
	case preparing:
		return t.Of(tried.Candidate).Base != t.Start
	case launching:
		return false
	}
	return !engines.IsOfHost(f.Error())
}

// beaten reports whether a candidate with that figure at the load of its race, 0 where there is none, has lost it. What is said of
// the noise between starts holds the error within one.
func beaten(t *plan.Tune, race *tune.Race, figure float64) bool {
	return race != nil && figure > 0 && t.Score(figure) < race.Least
}

// figure is what a cell has measured of what is tuned; 0: nothing. Of less work than was asked for it is none, since a candidate would
// win by doing less, and doubt says why. What is suspect for what the host or the generator did is no fault of the candidate, and is a figure.
func (r *run) figure(t *plan.Tune, row *results.Row) (figure float64, doubt *load.Reason) {
	for _, reason := range row.Verdict().Reasons {
		switch reason.Code {
		case load.CodeFailed, load.CodeCutShort, load.CodeOutputs, load.CodeServed:
			if reason.Concerns(t.Figure.Name) && (doubt == nil || doubt.Code == load.CodeServed) {
				doubt = &reason
			}
		}
	}
	if doubt == nil {
		figure, _ = r.opt.Figure(t.Figure.Name, row)
	}
	return figure, doubt
}

// ledger keeps what a tuning has tried with the run.
func (k *keeper) ledger(ctx context.Context, t *plan.Tune) error {
	summary, err := t.Summary()
	if err != nil {
		return err
	}
	t.Ledger.Summary = summary
	text, err := json.Marshal(t.Ledger)
	if err != nil {
		return fmt.Errorf("keep the ledger of tune %s: %w", t.Name, err)
	}
	ctx, done := flow.Beyond(ctx, storePatience)
	defer done()
	if err := k.store.PutInputs(ctx, k.run, map[string][]byte{results.LedgerName(t.Name): []byte(k.secrets.Text(string(text)))}); err != nil {
		return failed(ofRun, nil, fmt.Errorf("keep the ledger of tune %s: %w", t.Name, err))
	}
	return nil
}
