package hcl

import (
	"time"

	"github.com/zclconf/go-cty/cty"

	"hclbench/capacity"
	"hclbench/hcl/lang"
	"hclbench/load"
)

// What a capacity block does not say.
const (
	defaultMost       = 1024
	defaultConfidence = 0.95
	defaultPrecision  = 0.05
	defaultBudget     = time.Hour
)

func capacityBlock() *lang.BlockType {
	return lang.BlockOf("capacity",
		lang.Arg("of", lang.OneOf(capacity.Concurrency, capacity.Rate), func(q *capacity.Question, of string) { q.Whole = of == capacity.Concurrency }).
			Required("What is varied: `concurrency`, the requests in flight, or `rate`, those per second."),
		lang.Arg("within", loadRange, func(q *capacity.Question, r [2]float64) { q.Least, q.Most = r[0], r[1] }),
		lang.Arg("confidence", lang.Number(0.5, 0.9999), func(q *capacity.Question, x float64) { q.Confidence = x }),
		lang.Arg("precision", lang.Number(0.001, 1), func(q *capacity.Question, x float64) { q.Precision = x }),
		lang.Arg("budget", searchBudget, func(q *capacity.Question, b budget) { q.Budget, q.Timed = b.most, b.timed }),
	)
}

// capacityPart is the question of a cell that has such a block.
func capacityPart(d *draft) *capacity.Question {
	d.Capacity = &capacity.Question{Least: 1, Most: defaultMost, Confidence: defaultConfidence, Precision: defaultPrecision,
		Budget: defaultBudget.Seconds(), Timed: true}
	return d.Capacity
}

// budget is what a search may spend: seconds where it is timed, or requests.
type budget struct {
	most  float64
	timed bool
}

var (
	loadRange = lang.NewKind("list of two numbers", "the least load and the most, such as [8, 256]", func(v cty.Value) (r [2]float64, err error) {
		list, err := lang.Elements(v, func(e cty.Value) (float64, error) {
			f, ok := lang.AsFloat(e)
			if !ok || f < 1e-3 || f > 1e6 {
				return 0, lang.Wrong("A load is a number from 0.001 to a million.")
			}
			return f, nil
		})
		if err == nil && len(list) != 2 {
			err = lang.NoFit
		}
		copy(r[:], list)
		return r, err
	})
	searchTime   = lang.DurationBetween[time.Duration](time.Second, longCell)
	searchBudget = lang.NewKind("duration or number", `a time such as "1h", or a number of requests such as 20000`, func(v cty.Value) (budget, error) {
		if n, ok := lang.AsFloat(v); ok && v.Type() == cty.Number {
			return budget{n, false}, nil
		}
		d, err := searchTime.Convert(v)
		return budget{d.Seconds(), true}, err
	})
)

// checkCapacity holds a search against the benchmark that asks for it, and returns the load of its tries.
func checkCapacity(b *lang.Block, d *draft) load.Workload {
	const wrong = "Wrong capacity"
	q, w, at := d.Capacity, d.Workload, b.At("capacity")
	q.SLO = w.SLO
	if d.Offline {
		b.Fail(at, wrong, "An offline benchmark has no load that could be more or less. Remove the block, or mode.")
	}
	for _, a := range load.Arguments() {
		if !a.Searched {
			continue
		}
		x := b.Find("load." + a.Name)
		if a.Place == load.InBenchmark {
			x = b.Find(a.Name)
		}
		if x.IsSet() {
			b.Fail(x.At, wrong, "The search says how fast requests are sent and for how long, and none is left out. Remove %s.", a.Name)
		}
		a.Copy(&w, new(load.Workload))
	}
	if d.Repeat > 1 {
		b.Fail(b.Written("repeat"), wrong, "A search tries a load again as often as its answer needs it. Remove repeat.")
	}
	if len(d.From) > 1 {
		b.Fail(b.At("load.from"), wrong, "A search hears of each request as it is over, from one client. Name one host.")
	}
	if x := b.Arg("dataset"); x.IsValid() && (w.Dataset.Talks() || w.Dataset.Timed()) {
		b.Fail(x.At, wrong, "A search judges requests that stand alone, at a pace of its own: a data set of kind %q has neither.", w.Dataset.Kind)
	}
	for name, axis := range b.MatrixAxes() {
		if name == capacity.Concurrency || name == capacity.Rate {
			b.Fail(axis, wrong, "The loads that a search tries are its cells' axis %q. Remove this one, or the capacity block.", name)
		}
	}
	problems := q.Problems()
	if !b.Arg("capacity.of").IsValid() { // which is told
		problems = nil
	}
	for _, p := range problems {
		x, known := b.Find(p.Field), true
		if !x.IsSet() {
			x = b.Find("capacity." + p.Field)
		}
		switch {
		case x.IsSet():
			known = x.IsValid()
		case p.Field == "slo" && !b.Find("slo").IsSet():
			x.At = at.Lacking("slo")
		default:
			x.At = at
		}
		if known {
			b.Fail(x.At, wrong, "%s.", lang.Title(p.Text))
		}
	}
	if d := w.Dataset; b.Arg("dataset").IsValid() && d.Path != "" && !d.Fresh() && !d.Talks() && !d.Timed() {
		b.Warn(b.At("dataset"), "Prompts sent again", "The prompts of a file are sent again at every load, and a prefix cache has them by then: "+
			"a load that is tried on an engine whose cache cannot be dropped tells nothing. Write salt = true in the data set.")
	}
	return q.Workload(w, q.Most, 1)
}
