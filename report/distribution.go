package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

const (
	fewestQuantiles = 4   // of a distribution that is drawn
	curve           = 200 // points of one that is known from every request
)

// distributionFigures are the latencies of each series in its busiest cell of a
// benchmark as cumulative shares.
func distributionFigures(cells []*sample, about About) ([]*figure, string) {
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
		c := &chart.Panel{Title: sentence(t.title) + ": share of requests within",
			X: chart.Axis{Title: sentence(t.title), Unit: "ms"},
			Y: chart.Axis{Unit: "%", Zero: true, Linear: true, To: 100}}
		for _, s := range busy {
			if l := distribution(s, t, curves[s][t.key]); len(l.Dots) >= fewestQuantiles {
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
		p.N, p.Mark = 1, kindOfRun(s.rows[0])
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

// quantiles are the points of a distribution that a summary knows: its ends, its
// median and its percentiles.
func quantiles(s load.Stats) []chart.Dot {
	at := map[float64]float64{}
	for p, v := range s.Percentiles {
		if share, err := strconv.ParseFloat(p, 64); err == nil && v > 0 {
			at[share] = v
		}
	}
	if s.Median > 0 {
		at[50] = s.Median
	}
	if s.Min > 0 {
		at[0] = s.Min
	}
	if s.Max > 0 {
		at[100] = s.Max
	}
	var dots []chart.Dot
	for share, v := range at {
		dots = append(dots, chart.Dot{X: v, Y: share})
	}
	sortDots(dots, func(d chart.Dot) float64 { return d.Y })
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
		if !r.Job.Workload.NoStream {
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
