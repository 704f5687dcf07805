package report

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
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/telemetry"
)

const (
	fewestQuantiles = 4   // of a distribution that is drawn
	curve           = 200 // points of one that is known from every request
)

// distributionFigures are the latencies of each series in its busiest cell, as cumulative shares.
func distributionFigures(cells []*sample, about About) ([]*figure, string) {
	cells = singles(cells)
	busy := busiest(cells, true, func(s *sample) bool {
		x := s.rows[0].Summary
		return max(len(quantiles(ttft.of(x))), len(quantiles(e2el.of(x)))) >= fewestQuantiles
	})
	if len(busy) == 0 {
		return nil, fmt.Sprintf("Latency distributions: no cell has %d percentiles or the figures of every request.",
			fewestQuantiles)
	}
	busy = busy[:min(len(busy), len(chart.Palette()))]
	f := &figure{ID: "distributions", Title: "How latencies are distributed", Under: "each series in its busiest cell"}
	curves := map[*sample]map[string][]chart.Dot{}
	var unread []string
	for _, s := range busy {
		curve, err := about.curves(s.rows[0])
		if err != nil {
			unread = append(unread, fmt.Sprintf("The requests of %s cannot be read: %v.", s.series.Label, err))
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
	for _, t := range []timing{ttft, tpot, e2el} {
		c := &chart.Panel{Title: sentence(t.Title) + ": share of requests within",
			X: chart.Axis{Title: sentence(t.Title), Unit: "ms"},
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
	return []*figure{f}, ""
}

// distribution is that of one timing of a cell: its curve, or else what its summary knows.
func distribution(s *sample, t timing, curve []chart.Dot) chart.Line {
	l := chart.Line{Series: s.series, Plain: curve != nil, Dots: curve}
	if curve == nil {
		l.Dots = quantiles(t.of(s.rows[0].Summary))
	}
	for i := range l.Dots {
		p := &l.Dots[i]
		p.N, p.Trust = 1, s.trust()
		p.Hover = fmt.Sprintf("%s, %s\n%s %% within %s ms", s.series.Label, s.load(), number.Text(p.Y), number.Text(p.X))
	}
	return l
}

// busiest is the busiest of the cells of each series that have something to show, in the
// order of their first; or the busiest of that first one's benchmark.
func busiest(cells []*sample, ofBenchmark bool, shows func(s *sample) bool) (out []*sample) {
	for _, s := range cells {
		if !shows(s) {
			continue
		}
		i := slices.IndexFunc(out, func(o *sample) bool { return o.series == s.series })
		switch {
		case i < 0:
			out = append(out, s)
		case ofBenchmark && s.benchmark != out[i].benchmark:
		case s.rows[0].Summary.MeanConcurrency > out[i].rows[0].Summary.MeanConcurrency:
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

// curves are the distributions of a cell from every one of its requests that its
// figures are of, by the key of the timing; nil when they are not there.
func (about About) curves(r *results.Row) (map[string][]chart.Dot, error) {
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
		if r.Job.Workload.Streams() {
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

// singles are the cells by one of their repetitions each: by the first that is not suspect, or else the first.
func singles(cells []*sample) (out []*sample) {
	for _, s := range cells {
		one := *s
		i := slices.IndexFunc(s.rows, func(r *results.Row) bool { return !isSuspect(r.Verdict()) })
		one.rows = s.rows[max(i, 0):][:1]
		out = append(out, &one)
	}
	return out
}

// trust is that of a cell as a whole.
func (s *sample) trust() chart.Trust {
	v := s.rows[0].Verdict()
	return chart.Trust{Kind: kindOfRun(s.rows[0]), Suspect: isSuspect(v),
		Doubt: isSuspect(v) && slices.ContainsFunc(v.Texts(), func(text string) bool { return !slices.Contains(s.shared, text) })}
}

// which says which repetition is shown, where there are several.
func (s *sample) which() string {
	if r := s.rows[0]; r.Repetition > 1 {
		return fmt.Sprintf("repetition %d", r.Repetition)
	}
	return ""
}

// maxTimelines bounds the cells that are shown over time.
const maxTimelines = 8

// timelines show the busiest cell of each series over time: what was in flight,
// what came out, and what GPUs and engine said meanwhile.
func timelines(cells []*sample, _ About) (figures []*figure, why string) {
	cells = singles(cells)
	busy := busiest(cells, false, func(s *sample) bool {
		r := s.rows[0]
		return r.Summary.Series != nil && len(r.Summary.Series.InFlight) > 1 || r.Telemetry != nil
	})
	for _, s := range busy[:min(len(busy), maxTimelines)] {
		f := &figure{ID: "time-line-" + slug(s.series.Label), Title: "Time line: " + s.series.Label,
			Under: listedWith(", ", s.benchmark, s.load(), s.which()), Wide: true, Charts: overTime(s)}
		if f.drawn() {
			figures = append(figures, f)
		}
	}
	return figures, "Time line of a cell: no result has its figures over time."
}

// overTime are the quantities of a cell over time, each a chart.
func overTime(x *sample) (charts []*chart.Panel) {
	for _, t := range timed(x.rows[0]) {
		l := t.line
		l.Series, l.Plain = x.series, true
		for j := range l.Dots {
			p := &l.Dots[j]
			p.N, p.Trust = 1, x.trust()
			p.Hover = fmt.Sprintf("%s s\n%s", number.Text(p.X), strings.TrimSpace(number.Text(p.Y)+" "+t.unit))
		}
		charts = append(charts, &chart.Panel{Title: t.title, Lines: []chart.Line{l},
			X: chart.Axis{Title: "Time", Unit: "s", Linear: true}, Y: chart.Axis{Unit: t.unit, Zero: true, Linear: true}})
	}
	return charts
}

// timedLine is a quantity of a cell over time.
type timedLine struct {
	title, unit string
	line        chart.Line
}

// timed are the quantities of a row that it has at two times at least; what generates nothing has no output.
func timed(r *results.Row) (all []timedLine) {
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
	for _, q := range read {
		for _, role := range rolesTold(r.Telemetry, q.name) {
			of := slices.DeleteFunc(slices.Clone(r.Telemetry.Series), func(s telemetry.Series) bool { return roleOf(s) != role })
			title := q.title
			if role != "" {
				title = strings.TrimSuffix(title, " in the engine") + " in " + role
			}
			add(title, q.unit, gathered(of, q.name, q.scale, q.sum))
		}
	}
	return all
}

// read are the quantities that are read meanwhile, as charts show them.
var read = []struct {
	name, title, unit string
	scale             float64
	sum               bool // over GPUs, or over the members of a role
}{
	{telemetry.Running, "Requests running in the engine", "", 1, true},
	{telemetry.Waiting, "Requests waiting in the engine", "", 1, true},
	{telemetry.KVCache, "KV cache in use", "%", 100, false},
	{telemetry.Power, "Power of all GPUs", "W", 1, true},
	{telemetry.Utilisation, "Utilisation of the GPUs, on average", "%", 1, false},
	{telemetry.SMClock, "Clock of the GPUs, on average", "MHz", 1, false},
	{telemetry.Sent, "Sent by the network devices", "MB/s", 1e-6, true},
	{telemetry.Received, "Received by the network devices", "MB/s", 1e-6, true},
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
