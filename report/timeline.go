package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/telemetry"
)

// maxTimelines bounds the cells that are shown over time.
const maxTimelines = 8

// timelines show the busiest cell of each series over time: what was in flight,
// what came out, and what GPUs and engine said meanwhile.
func timelines(cells []*sample, _ About) (figures []*figure, why string) {
	busy := busiest(cells, false, func(s *sample) bool {
		r := s.rows[0]
		return r.Summary.Series != nil && len(r.Summary.Series.InFlight) > 1 || r.Telemetry != nil
	})
	for _, s := range busy[:min(len(busy), maxTimelines)] {
		f := &figure{ID: "time-line-" + slug(s.series.Label), Title: "Time line: " + s.series.Label,
			Under: strings.Trim(s.benchmark+", "+s.load(), ", "), Wide: true, Charts: overTime(s)}
		if f.drawn() {
			figures = append(figures, f)
		}
	}
	return figures, "Time line of a cell: no result has its figures over time."
}

// overTime are the quantities of a cell over time, each a chart.
func overTime(x *sample) (charts []*chart.Panel) {
	r := x.rows[0]
	add := func(title, unit string, l chart.Line) {
		if len(l.Dots) < 2 {
			return
		}
		l.Series, l.Plain = x.series, true
		for j := range l.Dots {
			p := &l.Dots[j]
			p.N, p.Mark = 1, kindOfRun(r)
			p.Hover = fmt.Sprintf("%s s\n%s", number.Text(p.X), strings.TrimSpace(number.Text(p.Y)+" "+unit))
		}
		charts = append(charts, &chart.Panel{Title: title, Lines: []chart.Line{l},
			X: chart.Axis{Title: "Time", Unit: "s", Linear: true}, Y: chart.Axis{Unit: unit, Zero: true, Linear: true}})
	}
	if s := r.Summary.Series; s != nil {
		every := time.Duration(s.Every).Seconds()
		add("Requests in flight", "", intervals(s.InFlight, every, r.Summary.Duration))
		add("Output throughput", "tok/s", intervals(s.OutputTokens, every, r.Summary.Duration))
		var waits chart.Line
		for i, v := range s.TTFT {
			if v != 0 {
				waits.Dots = append(waits.Dots, chart.Dot{X: float64(i) * every, Y: v})
			}
		}
		add("Median time to first token", "ms", waits)
	}
	if r.Telemetry != nil {
		for _, q := range read {
			add(q.title, q.unit, gathered(r.Telemetry.Series, q.name, q.scale, q.sum))
		}
	}
	return charts
}

// read are the quantities that are read meanwhile, as charts show them.
var read = []struct {
	name, title, unit string
	scale             float64
	sum               bool // over GPUs
}{
	{telemetry.Running, "Requests running in the engine", "", 1, false},
	{telemetry.Waiting, "Requests waiting in the engine", "", 1, false},
	{telemetry.KVCache, "KV cache in use", "%", 100, false},
	{telemetry.Power, "Power of all GPUs", "W", 1, true},
	{telemetry.Utilisation, "Utilisation of the GPUs, on average", "%", 1, false},
	{telemetry.SMClock, "Clock of the GPUs, on average", "MHz", 1, false},
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
	var of []telemetry.Series
	for _, x := range all {
		if x.Name == name && len(x.At) == len(x.Value) {
			of = append(of, x)
		}
	}
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
