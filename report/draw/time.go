package draw

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
	"hclbench/telemetry"
)

// curvesOf are the distributions of a cell from every one of its requests that its
// figures are of, by the key of the timing; nil when they are not there.
func curvesOf(about figure.About, r *results.Row) (map[string][]chart.Dot, error) {
	if about.Records == nil || r.Summary.Requests > maxCurveRequests {
		return nil, nil
	}
	records, err := about.Records(r)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	first := slices.MinFunc(records, func(a, b load.Record) int { return cmp.Compare(a.Sent, b.Sent) }).Sent
	values := map[string][]float64{}
	for i := range records {
		q := &records[i]
		at := load.Duration(q.Sent - first)
		if w := r.Summary.Window; !q.OK() || w != nil && (at < w.From || at >= w.To) {
			continue
		}
		add := func(key string, ns float64) { values[key] = append(values[key], ns/1e6) }
		add("e2el", float64(q.Last-q.Sent))
		if r.Job.Workload.TimesTokens() {
			add("ttft", float64(q.First-q.Sent))
			if q.OutputTokens > 1 {
				add("tpot", float64(q.Last-q.First)/float64(q.OutputTokens-1))
			}
		}
	}
	out := map[string][]chart.Dot{}
	for key, v := range values {
		slices.Sort(v)
		n := min(len(v), curve)
		for i := range n {
			at := i
			if n > 1 {
				at = i * (len(v) - 1) / (n - 1)
			}
			out[key] = append(out[key], chart.Dot{X: v[at], Y: 100 * float64(at+1) / float64(len(v))})
		}
	}
	return out, nil
}

// trustOf is that of a cell as a whole.
func trustOf(s *figure.Sample) chart.Trust {
	v := s.Rows[0].Verdict()
	return chart.Trust{Kind: figure.KindOfRun(s.Rows[0]), Suspect: figure.IsSuspect(v),
		Doubt: figure.IsSuspect(v) && slices.ContainsFunc(v.Texts(), func(text string) bool { return !slices.Contains(s.Shared, text) })}
}

// repetitionShown says which repetition is shown, where there are several.
func repetitionShown(s *figure.Sample) string {
	if r := s.Rows[0]; r.Repetition > 1 {
		return fmt.Sprintf("repetition %d", r.Repetition)
	}
	return ""
}

// pairBars is a metric of both as bars; false: one of them has none.
func pairBars(p figure.PrefixPair, m figure.Metric) (chart.Group, bool) {
	off, okOff := p.Without.Value(m)
	on, okOn := p.With.Value(m)
	s := p.Without.Series
	label := s.Label
	if c := p.Without.At["concurrency"]; c > 0 {
		label += ", " + number.Short(c) + " in flight"
	}
	return chart.Group{Label: label, Bars: []chart.Bar{
		{Series: s, Label: "without", Value: off.Y, Before: true, Trust: off.Trust,
			Hover: label + "\nwithout: " + say.Value(off.Y, m)},
		{Series: s, Label: "with", Value: on.Y, After: number.Change(on.Y/off.Y - 1), Trust: on.Trust,
			Hover: label + "\nwith: " + say.Value(on.Y, m)},
	}}, okOff && okOn
}

const (
	fewestQuantiles = 4   // of a distribution that is drawn
	curve           = 200 // points of one that is known from every request
)

// distributionFigures are the latencies of each series in its busiest cell, as cumulative shares.
func distributionFigures(cells []*figure.Sample, about figure.About) ([]*Figure, string) {
	cells = singles(cells)
	busy := busiest(cells, true, func(s *figure.Sample) bool {
		x := s.Rows[0].Summary
		return max(len(quantiles(figure.TTFT.Of(x))), len(quantiles(figure.E2EL.Of(x)))) >= fewestQuantiles
	})
	if len(busy) == 0 {
		return nil, fmt.Sprintf("Latency distributions: no cell has %d percentiles or the figures of every request.",
			fewestQuantiles)
	}
	busy = busy[:min(len(busy), len(chart.Palette()))]
	f := &Figure{ID: "distributions", Title: "How latencies are distributed", Under: "each series in its busiest cell"}
	curves := map[*figure.Sample]map[string][]chart.Dot{}
	var unread []string
	for _, s := range busy {
		curve, err := curvesOf(about, s.Rows[0])
		if err != nil {
			unread = append(unread, fmt.Sprintf("The requests of %s cannot be read: %v.", s.Series.Label, err))
		}
		if curve != nil {
			curves[s] = curve
		}
	}
	from := "From every request where they were kept, else from percentiles."
	switch len(curves) {
	case len(busy):
		from = "From every request."
	case 0:
		from = "From percentiles; straight lines between them."
	}
	f.Notes = append([]string{from}, unread...)
	for _, t := range []figure.Timing{figure.TTFT, figure.TPOT, figure.E2EL} {
		c := &chart.Panel{Title: say.Sentence(t.Title) + ": share of requests within",
			X: chart.Axis{Title: say.Sentence(t.Title), Unit: "ms"},
			Y: chart.Axis{Unit: "%", Zero: true, Linear: true, To: 100}}
		for _, s := range busy {
			if l := distribution(s, t, curves[s][t.Key]); len(l.Dots) >= fewestQuantiles {
				c.Lines = append(c.Lines, l)
			}
		}
		c.Seconds()
		f.Charts = append(f.Charts, c)
	}
	f.drawn()
	return []*Figure{f}, ""
}

// distribution is that of one timing of a cell: its curve, or else what its summary knows.
func distribution(s *figure.Sample, t figure.Timing, curve []chart.Dot) chart.Line {
	l := chart.Line{Series: s.Series, Plain: curve != nil, Dots: curve}
	if curve == nil {
		l.Dots = quantiles(t.Of(s.Rows[0].Summary))
	}
	for i := range l.Dots {
		p := &l.Dots[i]
		p.N, p.Trust = 1, trustOf(s)
		p.Hover = fmt.Sprintf("%s, %s\n%s %% within %s ms", s.Series.Label, s.Load(), number.Text(p.Y), number.Text(p.X))
	}
	return l
}

// busiest is the busiest of the cells of each series that have something to show, in the
// order of their first; or the busiest of that first one's benchmark.
func busiest(cells []*figure.Sample, ofBenchmark bool, shows func(s *figure.Sample) bool) (out []*figure.Sample) {
	for _, s := range cells {
		if !shows(s) {
			continue
		}
		i := slices.IndexFunc(out, func(o *figure.Sample) bool { return o.Series == s.Series })
		switch {
		case i < 0:
			out = append(out, s)
		case ofBenchmark && s.Benchmark != out[i].Benchmark:
		case s.Rows[0].Summary.MeanConcurrency > out[i].Rows[0].Summary.MeanConcurrency:
			out[i] = s
		}
	}
	return out
}

// quantiles are the points of a distribution that a summary knows and its requests carry.
func quantiles(s load.Stats) []chart.Dot {
	at := map[float64]float64{}
	for p, v := range s.Percentiles {
		if share, err := strconv.ParseFloat(p, 64); err == nil && v > 0 && s.Lacks("p"+p) == 0 {
			at[share] = v
		}
	}
	for share, v := range map[float64]float64{0: s.Min, 50: s.Median, 100: s.Max} {
		if v > 0 {
			at[share] = v
		}
	}
	var dots []chart.Dot
	for share, v := range at {
		dots = append(dots, chart.Dot{X: v, Y: share})
	}
	slices.SortStableFunc(dots, func(a, b chart.Dot) int { return cmp.Compare(a.Y, b.Y) })
	return dots
}

// maxCurveRequests bounds the records that are read for one curve.
const maxCurveRequests = 200_000

// singles are the cells by one of their repetitions each: by the first that is not suspect, or else the first.
func singles(cells []*figure.Sample) (out []*figure.Sample) {
	for _, s := range cells {
		one := *s
		i := slices.IndexFunc(s.Rows, func(r *results.Row) bool { return !figure.IsSuspect(r.Verdict()) })
		one.Rows = s.Rows[max(i, 0):][:1]
		out = append(out, &one)
	}
	return out
}

// maxTimelines bounds the cells that are shown over time.
const maxTimelines = 8

// timelines show the busiest cell of each series over time: what was in flight,
// what came out, and what GPUs and engine said meanwhile.
func timelines(cells []*figure.Sample, _ figure.About) (figures []*Figure, why string) {
	cells = singles(cells)
	busy := busiest(cells, false, func(s *figure.Sample) bool {
		r := s.Rows[0]
		return r.Summary.Series != nil && len(r.Summary.Series.InFlight) > 1 || r.Telemetry != nil
	})
	for _, s := range busy[:min(len(busy), maxTimelines)] {
		f := &Figure{ID: "time-line-" + figure.Slug(s.Series.Label), Title: "Time line: " + s.Series.Label,
			Under: figure.ListedWith(", ", s.Benchmark, s.Load(), repetitionShown(s)), Wide: true}
		var idle []string
		for _, c := range OverTime(s) {
			if slices.ContainsFunc(c.Lines[0].Dots, func(d chart.Dot) bool { return d.Y != 0 }) {
				f.Charts = append(f.Charts, c)
			} else {
				idle = append(idle, say.Lower(c.Title))
			}
		}
		if idle != nil {
			f.Notes = append(f.Notes, say.Sentence(say.Listed(idle))+": 0 throughout.")
		}
		if f.drawn() {
			figures = append(figures, f)
		}
	}
	return figures, "Time line of a cell: no result has its figures over time."
}

// OverTime are the quantities of a cell over time, each a chart.
func OverTime(x *figure.Sample) (charts []*chart.Panel) {
	for _, t := range Timed(x.Rows[0]) {
		l := t.Line
		l.Series, l.Plain = x.Series, true
		for j := range l.Dots {
			p := &l.Dots[j]
			p.N, p.Trust = 1, trustOf(x)
			p.Hover = fmt.Sprintf("%s s\n%s", number.Text(p.X), strings.TrimSpace(number.Text(p.Y)+" "+t.Unit))
		}
		charts = append(charts, &chart.Panel{Title: t.Title, Lines: []chart.Line{l},
			X: chart.Axis{Title: "Time", Unit: "s", Linear: true}, Y: chart.Axis{Unit: t.Unit, Zero: true, Linear: true}})
	}
	return charts
}

// timedLine is a quantity of a cell over time.
type timedLine struct {
	Title, Unit string
	Line        chart.Line
}

// Timed are the quantities of a row that it has at two times at least; what generates nothing has no output.
func Timed(r *results.Row) (all []timedLine) {
	add := func(title, unit string, l chart.Line) {
		if len(l.Dots) > 1 {
			all = append(all, timedLine{title, unit, l})
		}
	}
	if s := r.Summary.Series; s != nil {
		every := time.Duration(s.Every).Seconds()
		add("Requests in flight", "", intervals(s.InFlight, every, r.Summary.Duration))
		if !r.Summary.Silent() {
			add("Output throughput", "tok/s", intervals(s.OutputTokens, every, r.Summary.Duration))
		}
		var waits chart.Line
		for i, v := range s.TTFT {
			if v != 0 {
				waits.Dots = append(waits.Dots, chart.Dot{X: float64(i) * every, Y: v})
			}
		}
		add("Median time to first token", "ms", waits)
	}
	if r.Telemetry == nil {
		return all
	}
	for _, q := range figure.Quantities(telemetry.Engine, figure.GPUs, figure.Network) {
		if q.Chart == "" {
			continue
		}
		for _, role := range q.Sources(r.Telemetry, telemetry.Series.Role) {
			of := slices.DeleteFunc(slices.Clone(r.Telemetry.Series), func(s telemetry.Series) bool { return s.Role() != role })
			title := q.Chart
			if role != "" {
				title = strings.TrimSuffix(title, " in the engine") + " in " + role
			}
			add(title, q.Unit, gathered(of, q.Name, q.Scale, q.Sum))
		}
	}
	return all
}

// intervals are values of which each holds for one interval, until the end of the run.
func intervals(values []float64, every, duration float64) chart.Line {
	l := chart.Line{Steps: true}
	for i, v := range values {
		l.Dots = append(l.Dots, chart.Dot{X: float64(i) * every, Y: v})
	}
	if n := len(values); n > 0 { // the last interval has a length too
		end := max(float64(n-1)*every, min(float64(n)*every, duration))
		l.Dots = append(l.Dots, chart.Dot{X: end, Y: values[n-1]})
	}
	return l
}

// nearest is the index of the time that is nearest to at, of times that rise; −1: there is none.
func nearest(times []float64, at float64) int {
	i, _ := slices.BinarySearch(times, at)
	if i == len(times) || i > 0 && at-times[i-1] < times[i]-at {
		i--
	}
	return i
}

// gathered is one quantity of all its sources: their sum or their mean at each time that the first
// of them has, of the values nearest to it. Where a source has none near, there is none.
func gathered(all []telemetry.Series, name string, factor float64, sum bool) (l chart.Line) {
	of := slices.DeleteFunc(slices.Clone(all),
		func(x telemetry.Series) bool { return x.Name != name || len(x.At) != len(x.Value) })
	if len(of) == 0 {
		return l
	}
	near := math.Inf(1) // half a step
	for i := 1; i < len(of[0].At); i++ {
		near = min(near, (of[0].At[i]-of[0].At[i-1])/2)
	}
	for _, at := range of[0].At {
		total, n := 0.0, 0
		for _, x := range of {
			if i := nearest(x.At, at); i >= 0 && math.Abs(x.At[i]-at) <= near {
				total += x.Value[i]
				n++
			}
		}
		if !sum {
			total /= float64(n)
		}
		if n == len(of) {
			l.Dots = append(l.Dots, chart.Dot{X: at, Y: total * factor})
		}
	}
	return l
}

func prefixFigures(cells []*figure.Sample, _ figure.About) ([]*Figure, string) {
	pairs := figure.PrefixPairs(cells)
	if len(pairs) == 0 {
		return nil, "Prefix cache on and off: no engine was measured with and without shared prefixes under the same load."
	}
	f := &Figure{ID: "prefix-cache", Title: "Prefix cache on and off",
		Under: "with shared prefixes and, in grey, without them, under the same load"}
	for _, m := range []figure.Metric{figure.OutputThroughput, figure.MedianTTFT, figure.MedianTPOT, figure.MedianE2EL} {
		c := &chart.Panel{Title: m.Title, Y: chart.Axis{Unit: m.Unit}}
		for _, p := range pairs {
			if g, ok := pairBars(p, m); ok {
				c.Groups = append(c.Groups, g)
			}
		}
		c.Seconds()
		f.Charts = append(f.Charts, c)
	}
	if !f.drawn() {
		return nil, "Prefix cache on and off: the cells that could be compared have no figures in common."
	}
	return []*Figure{f}, ""
}
