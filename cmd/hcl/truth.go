package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
	"hclbench/sim"
)

const (
	played = 200_000              // requests tell what a simulated engine holds
	adds   = 2 * time.Millisecond // is what this machine may add to the time of a request
)

// truth is what a search of a rehearsal is to find.
type truth struct {
	Type   string   `json:"type"` // "truth"
	Cell   string   `json:"cell"`
	Engine string   `json:"engine"`
	Holds  *float64 `json:"holds"`         // the highest load of the range that meets the SLO; null: none does
	Breaks *float64 `json:"breaks"`        // the lowest that does not; null: likewise
	Agrees *bool    `json:"agrees"`        // whether what the search is certain of fits it; null: there is no answer
	Why    string   `json:"why,omitempty"` // nobody knows it; empty: it is known
	least  float64  // that it holds with what this machine may add; 0: none
	answer string
	unit   string
}

func isSearch(c *plan.Cell) bool { return c.Search() != nil }

// trueCapacity is what a deployment holds by the schedule of its simulated engine, where all happens speed times faster and its
// requests take longer by what is added.
func trueCapacity(d *plan.Deployment, c *plan.Cell, speed float64, added time.Duration) (holds, breaks float64, err error) {
	engine, ok := simulated(d)
	switch {
	case !ok:
		return 0, 0, errors.New("its engine is not a simulated one")
	case len(d.Members) > 1:
		return 0, 0, errors.New("it is of several members")
	}
	return trulyHolds(engine, c.Search().Question, c.Search().Workload, speed, added)
}

// trulyHolds is the highest load that an engine holds by its schedule, and the lowest that it does not.
func trulyHolds(engine sim.Config, q capacity.Question, w load.Workload, speed float64, added time.Duration) (holds, breaks float64, err error) {
	length := load.Lengths(w.OutputTokens, w.Dataset.RangeRatio, w.Dataset.Convention)
	switch {
	case length.Low != length.High:
		return 0, 0, fmt.Errorf("its answers have %d to %d tokens", length.Low, length.High)
	case w.NoStream:
		return 0, 0, errors.New("its answers are not streamed")
	case engine.Reasoning > 0 && slices.ContainsFunc(q.SLO, func(o load.Objective) bool { return o.Metric == "ttfa" }):
		return 0, 0, errors.New("its answers have reasoning")
	case !q.Whole && w.Burstiness > 0 && w.Burstiness != 1 && !math.IsInf(float64(w.Burstiness), 0):
		return 0, 0, fmt.Errorf("its arrivals have a burstiness of %v", w.Burstiness)
	}
	return q.Truth(func(at float64) ([]load.Record, error) {
		l := sim.Loop{InFlight: int(at), Tokens: w.OutputTokens}
		if !q.Whole {
			l.InFlight, l.Gap = 0, func(rng *rand.Rand) time.Duration {
				gap := rng.ExpFloat64()
				if math.IsInf(float64(w.Burstiness), 0) {
					gap = 1
				}
				return time.Duration(gap / (at * cmp.Or(speed, 1)) * float64(time.Second))
			}
		}
		replies, err := engine.Play(l, played)
		var all []load.Record
		for _, r := range replies {
			x := load.Record{First: r.First + added, Last: r.Last + added, End: r.Last + added, OutputTokens: r.Tokens}
			if r.Failed {
				x.Class = load.ClassStatus
			}
			all = append(all, x)
		}
		return all, err
	})
}

// printTruth prints what the engines of a rehearsal truly hold, and whether the searches are certain of nothing else.
func (w *work) printTruth(ctx context.Context, speed float64) error {
	found, err := w.store.Capacities(ctx, results.Query{Run: w.opt.Run.ID})
	if err != nil {
		return err
	}
	out := json.NewEncoder(w.stdout)
	if !w.flags.json {
		fmt.Fprintln(w.stdout, "\nTruth, by the schedules of the simulated engines:")
	}
	for _, d := range w.plan.Deployments {
		for _, c := range d.ToDo() {
			if !isSearch(c) {
				continue
			}
			t := truth{Type: "truth", Cell: c.ID, Engine: d.Engine.Label(), unit: say.LoadUnit(c.Search().Question.Of()), answer: "there is no answer"}
			holds, breaks, err := trueCapacity(d, c, speed, 0)
			if err == nil {
				t.least, _, err = trueCapacity(d, c, speed, adds)
			}
			if err != nil {
				t.Why = err.Error()
			}
			if holds > 0 {
				t.Holds = &holds
			}
			if breaks > 0 {
				t.Breaks = &breaks
			}
			for _, f := range found {
				if f.ID != c.ID || f.Outcome.Holds == nil && f.Outcome.Breaks == nil {
					continue
				}
				if t.answer = say.Bounds(&f.Outcome); t.Why == "" {
					t.Agrees = new(f.Outcome.Agrees(t.least, breaks))
				}
			}
			if !w.flags.json {
				fmt.Fprintln(w.stdout, "  "+c.Benchmark+", "+t.String())
			} else if err := out.Encode(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// String is "sim.cliff truly holds 14 concurrent, and the answer agrees: holds 12, breaks by 15 concurrent (95 %)".
func (t truth) String() string {
	var text string
	switch {
	case t.Why != "":
		return fmt.Sprintf("%s: it is not known, as %s; the answer: %s", t.Engine, t.Why, t.answer)
	case t.Holds == nil:
		text = fmt.Sprintf("%s truly holds no load of the range, not even %s %s", t.Engine, number.Short(*t.Breaks), t.unit)
	case t.Breaks == nil:
		text = fmt.Sprintf("%s truly holds all of the range, up to %s %s", t.Engine, number.Short(*t.Holds), t.unit)
	default:
		text = fmt.Sprintf("%s truly holds %s %s", t.Engine, number.Short(*t.Holds), t.unit)
	}
	if t.Holds != nil && t.least < *t.Holds {
		text += fmt.Sprintf(" (%s with %s more for this machine)", number.Short(t.least), adds)
	}
	switch {
	case t.Agrees == nil:
		return text + "; " + t.answer
	case *t.Agrees:
		return text + ", and the answer agrees: " + t.answer
	}
	return text + ", and the answer is WRONG: " + t.answer
}
