package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
)

// cached reports whether a cell could find prefixes in the engine's cache, as far
// as its lab tells: by an axis with prefix in its name, else by a data set of
// shared prefixes.
func cached(r *results.Row) bool {
	for _, a := range r.Axes {
		if !strings.Contains(a.Name, "prefix") {
			continue
		}
		switch v := a.Value.(type) {
		case bool:
			return v
		case string:
			return v == "on" || v == "true" || v == "yes"
		}
	}
	kind := strings.ReplaceAll(r.Job.Prompts().Dataset.Kind, "_", "-")
	return kind == load.SharedPrefix || strings.Contains(kind, "shared-prefix") || strings.Contains(dataset(r), "shared-prefix")
}

// prefixless is all that a cell was measured with but what concerns prefixes, and the
// exact length of the prompts: the same for two of which one had shared prefixes and the
// other had not.
func prefixless(s *sample) string {
	r := s.rows[0]
	d := &r.Deployment
	identity := map[string]string{}
	for name, value := range d.Identity {
		if !strings.Contains(name, "prefix") && !strings.Contains(name, "radix") && r.Run.Command != "import" {
			identity[name] = value
		}
	}
	at := maps.Clone(s.at)
	delete(at, "input_tokens")
	var others []string
	for _, a := range r.Axes {
		if !strings.Contains(a.Name, "prefix") && !slices.Contains([]string{"dataset", "engine", "input_tokens"}, a.Name) {
			others = append(others, a.Name+"="+axisText(a.Value))
		}
	}
	slices.Sort(others)
	return fmt.Sprint(s.series.gpus, "\x00", s.series.kind, "\x00", d.Model, "\x00", d.Image, "\x00", identity, at, others, r.Job.Workload.Endpoint)
}

// promptTokens is how long the prompts of a cell were on average; 0: not known.
func promptTokens(s *sample) float64 {
	if x := s.rows[0].Summary; x.InputTokens > 0 && x.Completed > 0 {
		return float64(x.InputTokens) / float64(x.Completed)
	}
	return s.at["input_tokens"]
}

// alike is how far the lengths of prompts may lie apart, as a share, that are the same
// load with shared prefixes and without.
const alike = 0.05

// prefixPair are two cells of which one had shared prefixes.
type prefixPair struct{ without, with *sample }

// prefixPairs are the cells with shared prefixes beside those without, where all else
// that is known is the same. Where several fit, there is no pair.
func prefixPairs(cells []*sample) (pairs []prefixPair) {
	key := map[*sample]string{}
	like := map[string][]*sample{}
	for _, s := range cells {
		key[s] = prefixless(s)
		like[key[s]] = append(like[key[s]], s)
	}
	fits := func(s *sample) (found []*sample) {
		for _, o := range like[key[s]] {
			x, y := promptTokens(s), promptTokens(o)
			if cached(o.rows[0]) != cached(s.rows[0]) && x > 0 && math.Abs(x-y) <= alike*x {
				found = append(found, o)
			}
		}
		return found
	}
	for _, s := range cells {
		if cached(s.rows[0]) {
			if others := fits(s); len(others) == 1 && len(fits(others[0])) == 1 {
				pairs = append(pairs, prefixPair{without: others[0], with: s})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b prefixPair) int {
		return cmp.Or(cmp.Compare(a.without.at["concurrency"], b.without.at["concurrency"]), cmp.Compare(a.without.series.index, b.without.series.index))
	})
	return pairs
}

// prefixFigure shows what shared prefixes change.
func prefixFigure(cells []*sample) (*figure, string) {
	pairs := prefixPairs(cells)
	if len(pairs) == 0 {
		return nil, "Prefix cache on and off: no engine was measured with and without shared prefixes under the same load."
	}
	f := &figure{id: "prefix-cache", title: "Prefix cache on and off",
		under: "with shared prefixes in the series' colour, without them in grey, under the same load"}
	for _, m := range []metric{outputThroughput, medianTTFT, medianTPOT, medianE2EL} {
		c := &chart{title: m.title, y: axis{unit: m.unit}}
		for _, p := range pairs {
			without, with := p.without, p.with
			off, okOff := without.value(m)
			on, okOn := with.value(m)
			if !okOff || !okOn {
				continue
			}
			s := without.series
			label := s.label
			if c := without.at["concurrency"]; c > 0 {
				label += ", " + short(c) + " in flight"
			}
			c.groups = append(c.groups, group{label: label, bars: []bar{
				{series: s, value: off.y, before: true, doubt: off.doubt, mark: off.mark, hover: label + "\nwithout: " + said(off.y, m)},
				{series: s, value: on.y, after: percent(on.y/off.y - 1), doubt: on.doubt, mark: on.mark, hover: label + "\nwith: " + said(on.y, m)},
			}})
		}
		c.secondsOfBars()
		if len(c.groups) > 0 {
			f.charts = append(f.charts, c)
		}
	}
	if len(f.charts) == 0 {
		return nil, "Prefix cache on and off: the cells that could be compared have no figures in common."
	}
	return f, ""
}

// secondsOfBars turns milliseconds into seconds where they are many.
func (c *chart) secondsOfBars() {
	most := 0.0
	for _, g := range c.groups {
		for _, b := range g.bars {
			most = max(most, b.value)
		}
	}
	if c.y.unit != "ms" || most < 5000 {
		return
	}
	c.y.unit = "s"
	for _, g := range c.groups {
		for i := range g.bars {
			g.bars[i].value /= 1000
		}
	}
}

// percent is a change for people: "+12 %". What is more than doubled, or less than a
// tenth, is a factor: "×20", "÷700".
func percent(change float64) string {
	switch {
	case math.IsNaN(change) || math.IsInf(change, 0):
		return none
	case change > 1:
		return "×" + number(1+change)
	case change > -1 && change < -0.9:
		return "÷" + number(1/(1+change))
	}
	p := change * 100
	digits := 0
	if math.Abs(p) < 9.95 {
		digits = 1
	}
	s := strconv.FormatFloat(p, 'f', digits, 64)
	if s = strings.TrimPrefix(s, "-"); strings.Trim(s, "0.") == "" {
		return "±0 %"
	}
	sign := "+"
	if p < 0 {
		sign = "−"
	}
	return sign + thousands(s) + " %"
}

const (
	fewestQuantiles = 4   // of a distribution that is drawn
	curve           = 200 // points of one that is known from every request
)

// distributionFigure are the latencies of each series in its busiest cell of a
// benchmark as cumulative shares.
func distributionFigure(cells []*sample, about About) (*figure, string) {
	busiest := map[*series]*sample{}
	var order []*series
	for _, s := range cells {
		if len(quantiles(ttft.of(s.rows[0].Summary))) < fewestQuantiles && len(quantiles(e2el.of(s.rows[0].Summary))) < fewestQuantiles {
			continue
		}
		known := busiest[s.series]
		if known == nil {
			order = append(order, s.series)
		}
		if known == nil || s.benchmark == known.benchmark && s.rows[0].Summary.MeanConcurrency > known.rows[0].Summary.MeanConcurrency {
			busiest[s.series] = s
		}
	}
	if len(order) == 0 {
		return nil, fmt.Sprintf("Latency distributions: no cell has %d percentiles or the figures of every request.", fewestQuantiles)
	}
	if len(order) > len(palette()) {
		order = order[:len(palette())]
	}
	f := &figure{id: "distributions", title: "How latencies are distributed", under: "each series in its busiest cell"}
	curves := map[*series]map[string][]dot{}
	exact := 0
	var unread []string
	for _, s := range order {
		var err error
		if curves[s], err = about.curves(busiest[s].rows[0]); err != nil {
			unread = append(unread, fmt.Sprintf("The requests of %s cannot be read: %v.", s.label, err))
		}
		if curves[s] != nil {
			exact++
		}
	}
	switch exact {
	case len(order):
		f.readings = []string{"From every request."}
	case 0:
		f.readings = []string{"From percentiles; straight lines between them."}
	default:
		f.readings = []string{"From every request where they were kept, else from percentiles."}
	}
	f.readings = append(f.readings, unread...)
	for _, t := range []timing{ttft, tpot, e2el} {
		c := &chart{title: sentence(t.title) + ": share of requests within", x: axis{title: sentence(t.title), unit: "ms"},
			y: axis{unit: "%", zero: true, linear: true, to: 100}}
		for _, s := range order {
			x := busiest[s]
			l := line{series: s, plain: true, dots: curves[s][t.key]}
			if l.dots == nil {
				l.plain = false
				l.dots = quantiles(t.of(x.rows[0].Summary))
			}
			if len(l.dots) < fewestQuantiles {
				continue
			}
			for i := range l.dots {
				p := &l.dots[i]
				p.n = 1
				p.mark = kindOfRun(x.rows[0])
				p.hover = fmt.Sprintf("%s, %s\n%s %% within %s ms", s.label, x.load(), number(p.y), number(p.x))
			}
			c.lines = append(c.lines, l)
		}
		if len(c.lines) > 0 {
			c.seconds(true)
			f.charts = append(f.charts, c)
		}
	}
	return f, ""
}

// quantiles are the points of a distribution that a summary knows: its ends, its
// median and its percentiles.
func quantiles(s load.Stats) []dot {
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
	var dots []dot
	for share, v := range at {
		dots = append(dots, dot{x: v, y: share})
	}
	slices.SortFunc(dots, func(a, b dot) int { return cmp.Compare(a.y, b.y) })
	return dots
}

// maxCurveRequests bounds the records that are read for one curve.
const maxCurveRequests = 200_000

// curves are the distributions of a cell from every one of its requests that its
// figures are of, by the key of the timing; nil when they are not there.
func (about About) curves(r *results.Row) (map[string][]dot, error) {
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
	out := map[string][]dot{}
	for key, v := range values {
		slices.Sort(v)
		n := min(len(v), curve)
		for i := range n {
			at := i
			if n > 1 {
				at = i * (len(v) - 1) / (n - 1)
			}
			out[key] = append(out[key], dot{x: v[at], y: 100 * float64(at+1) / float64(len(v))})
		}
	}
	return out, nil
}

// maxTimelines bounds the cells that are shown over time.
const maxTimelines = 8

// timelines show the busiest cell of each series over time: what was in flight,
// what came out, and what GPUs and engine said meanwhile.
func timelines(cells []*sample) []*figure {
	busiest := map[*series]*sample{}
	var order []*series
	for _, s := range cells {
		r := s.rows[0]
		if (r.Summary.Series == nil || len(r.Summary.Series.InFlight) < 2) && r.Telemetry == nil {
			continue
		}
		known := busiest[s.series]
		if known == nil {
			order = append(order, s.series)
		}
		if known == nil || r.Summary.MeanConcurrency > known.rows[0].Summary.MeanConcurrency {
			busiest[s.series] = s
		}
	}
	if len(order) > maxTimelines {
		order = order[:maxTimelines]
	}
	var figures []*figure
	for _, s := range order {
		x := busiest[s]
		f := &figure{id: "time-line-" + slug(s.label), title: "Time line: " + s.label, under: strings.Trim(x.benchmark+", "+x.load(), ", "), wide: true}
		f.charts = overTime(x)
		if len(f.charts) > 0 {
			figures = append(figures, f)
		}
	}
	return figures
}

// nearest is the index of the time that is nearest to at, of times that rise; −1: there
// is none.
func nearest(times []float64, at float64) int {
	i, _ := slices.BinarySearch(times, at)
	if i == len(times) || i > 0 && at-times[i-1] < times[i]-at {
		i--
	}
	return i
}

// overTime are the quantities of a cell over time, each a chart.
func overTime(x *sample) []*chart {
	r := x.rows[0]
	var charts []*chart
	add := func(title, unit string, lines ...line) {
		lines = slices.DeleteFunc(lines, func(l line) bool { return len(l.dots) < 2 })
		if len(lines) == 0 {
			return
		}
		for i := range lines {
			lines[i].plain = true
			for j := range lines[i].dots {
				p := &lines[i].dots[j]
				p.n, p.mark = 1, kindOfRun(r)
				p.hover = fmt.Sprintf("%s s\n%s", number(p.x), strings.TrimSpace(number(p.y)+" "+unit))
			}
		}
		charts = append(charts, &chart{title: title, x: axis{title: "Time", unit: "s", linear: true}, y: axis{unit: unit, zero: true, linear: true}, lines: lines})
	}
	if s := r.Summary.Series; s != nil {
		every := time.Duration(s.Every).Seconds()
		list := func(values []float64) line {
			l := line{series: x.series, steps: true}
			for i, v := range values {
				l.dots = append(l.dots, dot{x: float64(i) * every, y: v})
			}
			if n := len(values); n > 0 { // the last interval has a length too
				end := max(float64(n-1)*every, min(float64(n)*every, r.Summary.Duration))
				l.dots = append(l.dots, dot{x: end, y: values[n-1]})
			}
			return l
		}
		waits := line{series: x.series}
		for i, v := range s.TTFT {
			waits.dots = append(waits.dots, dot{x: float64(i) * every, y: v})
		}
		waits.dots = slices.DeleteFunc(waits.dots, func(d dot) bool { return d.y == 0 })
		add("Requests in flight", "", list(s.InFlight))
		add("Output throughput", "tok/s", list(s.OutputTokens))
		add("Median time to first token", "ms", waits)
	}
	if r.Telemetry != nil {
		for _, q := range []struct {
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
		} {
			add(q.title, q.unit, gathered(x.series, r.Telemetry.Series, q.name, q.scale, q.sum))
		}
	}
	return charts
}

// gathered is one quantity of all its sources: their sum or their mean at each time
// that the first of them has, of the values nearest to it. Where a source has none near,
// there is none.
func gathered(s *series, all []telemetry.Series, name string, factor float64, sum bool) line {
	var of []telemetry.Series
	for _, x := range all {
		if x.Name == name && len(x.At) == len(x.Value) {
			of = append(of, x)
		}
	}
	l := line{series: s}
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
			l.dots = append(l.dots, dot{x: at, y: total * factor})
		}
	}
	return l
}
