package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// Search looks for the load that a deployment holds. Each load that it tries is a cell of its own, see [Cell.Try], and
// those that were tried before are not measured again.
type Search struct {
	Load     // of each try, but for what the search says
	Question capacity.Question
	Tries    []*Cell // that are known, by load and repetition: done, or without a measurement

	least, loads int     // requests where all is clear, and loads at most
	first        float64 // that is tried
}

// loadCapacity is the name in identities of what a search varies: its tries are no cells of a benchmark without one.
const loadCapacity = "load.capacity"

// newSearch is a search for the answer to a question, whose times are as fast as the workload's.
func newSearch(of Load, q capacity.Question) (*Search, error) {
	s, err := capacity.New(q)
	if err != nil {
		return nil, err
	}
	out := &Search{Load: of, Question: q, least: s.LeastRequests(), loads: s.MostLoads(), first: s.First()}
	out.Question.SLO = slices.Clone(q.SLO)
	for i := range out.Question.SLO {
		out.Question.SLO[i].Max = load.Duration(float64(q.SLO[i].Max) / out.speed())
	}
	return out, nil
}

// speed is how many times faster than real everything happens.
func (s *Search) speed() float64 { return cmp.Or(s.Workload.Speed, 1) }

// Cost is what so many requests in so long a time cost of the budget.
func (s *Search) Cost(requests int, took time.Duration) float64 {
	return s.Question.Cost(requests, time.Duration(float64(took)*s.speed()))
}

// Asked is the question as one text: another one is another answer.
func (s *Search) Asked() string {
	text, err := json.Marshal(s.Question)
	if err != nil {
		panic(fmt.Sprintf("marshal a question: %v. This is a bug in hcl.", err))
	}
	return string(text)
}

// budget is what the search may spend: "1h" or "20,000 requests".
func (s *Search) budget() string {
	if s.Question.Timed {
		return Rough(time.Duration(s.Question.Budget * float64(time.Second)))
	}
	return plain.Count(int(s.Question.Budget), "request")
}

// String is the strategy: "concurrency from 1 to 1024, 4 first, then twice as many for as long as it holds, …".
func (s *Search) String() string {
	q := s.Question
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	unknown := ""
	if q.Timed && q.Whole { // how long a request takes
		unknown = ", and whether these fit nobody knows before"
	}
	return fmt.Sprintf("%s from %s to %s, %s %% sure and within %s %%; %s first, then twice as many for as long as it holds, then those between that tell the most; "+
		"at most %s; from %s to %s%s", q.Of(), number(q.Least), number(q.Most), number(100*q.Confidence), number(100*q.Precision), number(s.first),
		plain.Count(s.loads, "load"), plain.Count(s.least, "request"), s.budget(), unknown)
}

// Search is the cell's task when it is one; else nil.
func (c *Cell) Search() *Search {
	s, _ := c.Task.(*Search)
	return s
}

// words implement [Task].
func (s *Search) words() []string { return append([]string{""}, s.Workload.Told()...) }

// Stored implements [Task].
func (s *Search) Stored() results.Task { return s.Load.Stored() }

// Try is the cell of a search that sends a load, for the given time, from 1, until it is known whether it holds or so much is spent.
func (c *Cell) Try(at, most float64, repetition int) *Cell {
	s := c.Search()
	q := s.Question
	axis := results.Axis{Name: q.Of(), Value: at}
	if q.Whole {
		axis.Value = int64(at)
	}
	out := &Cell{
		Benchmark: c.Benchmark, Axes: append(slices.Clone(c.Axes), axis), Repetition: repetition, Status: Measure,
		deployment: c.deployment, occurrence: c.occurrence,
	}
	out.load.pairs = maps.Clone(c.load.pairs)
	out.load.pairs["load."+q.Of()] = fmt.Sprint(axis.Value)
	out.load.text = canonical(out.load.pairs)
	sent := s.Load
	sent.Workload = q.Workload(sent.Workload, at, most)
	sent.Workload.Duration = load.Duration(float64(sent.Workload.Duration) / s.speed())
	sent.Workload.Rate *= load.Rate(s.speed())
	sent.Seed = out.seed() ^ c.seed() ^ s.Seed // as the cell's own differs from what it would be by itself: in a tuning
	out.Task = &sent
	out.ID, out.Group = out.id(c.deployment.ID), out.group(c.deployment.ID)
	return out
}

// Cells are what is measured of a cell, as far as it is known: itself, or the tries of a search, at least that which is first.
func (c *Cell) Cells() []*Cell {
	s := c.Search()
	switch {
	case s == nil:
		return []*Cell{c}
	case len(s.Tries) == 0:
		return []*Cell{c.Try(s.first, s.Question.Budget, 1)}
	}
	return s.Tries
}

// tried are the tries of a search that are known, under the ids that they have in the store.
func (c *Cell) tried(known map[string]results.Known, opt Options, seen *seen) (tries []*Cell) {
	type try struct {
		load       float64
		repetition int
	}
	of, met := c.Search().Question.Of(), map[try]bool{}
	for _, k := range known {
		if k.Identity[loadCapacity] != of || k.Capacity != nil {
			continue
		}
		at, err := strconv.ParseFloat(k.Identity["load."+of], 64)
		if x := (try{at, k.Repetition}); err == nil && !met[x] {
			met[x] = true
			t := c.Try(at, 0, k.Repetition)
			if id, k, ok := c.deployment.measured(t, known); ok {
				t.known(id, k, opt, seen)
				tries = append(tries, t)
			}
		}
	}
	slices.SortFunc(tries, func(a, b *Cell) int {
		va, _ := a.Axes.Value(of)
		vb, _ := b.Axes.Value(of)
		return cmp.Or(cmp.Compare(number(va), number(vb)), a.Repetition-b.Repetition)
	})
	return tries
}

// number is an axis' value.
func number(v any) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	f, _ := v.(float64)
	return f
}

// lacks reports whether a load that a search has tried brought no measurement.
func (s *Search) lacks(found *capacity.Outcome) bool {
	return slices.ContainsFunc(s.Tries, func(c *Cell) bool {
		v, _ := c.Axes.Value(s.Question.Of())
		at := number(v)
		l := found.At(&at)
		return c.Status != Done && l != nil && l.Doubt != "" && c.Repetition <= l.Tries
	})
}

// goesOn says of a search that is not over, or was asked something else, what of it is there.
func (c *Cell) goesOn(k *results.Capacity) {
	s := c.Search()
	done := 0
	for _, t := range s.Tries {
		if t.Status == Done {
			done++
		}
	}
	if done == 0 {
		return
	}
	c.Status, c.Why = Measure, "goes on from "+plain.Count(done, "measurement")
	if k != nil && k.Question != s.Asked() {
		c.Why += ", and another question is asked"
	}
}
