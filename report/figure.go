package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
)

// figure is one or more charts that answer one question.
type figure struct {
	id       string // in file names and links: "online-concurrency"
	title    string
	under    string // what is the same for all of it: "3,200 tokens in, 800 out"
	readings []string
	hero     bool // one chart that deserves the whole width
	charts   []*chart
	wide     bool // charts of time: low and wide
}

// section are the figures of one benchmark, or of all of them.
type section struct {
	id, title string
	figures   []*figure
	left      []string // what is left out, and why
}

// maxSlices bounds the figures of one kind in one benchmark: what else there is
// stands in the table.
const maxSlices = 4

// sample is one cell with all its repetitions.
type sample struct {
	benchmark string
	series    *series
	rows      []*results.Row
	at        map[string]float64 // along each dimension, by its name
	dataset   string
	shared    []string // reasons against all cells, which set none of them apart
}

// sharedReasons are those that stand against every cell that measured something:
// they are about the report, not about a cell.
func sharedReasons(rows []results.Row) (shared []string) {
	first := true
	for i := range rows {
		v := rows[i].Verdict()
		if v.Verdict == load.Void {
			continue
		}
		if first {
			shared, first = v.Texts(), false
		}
		shared = slices.DeleteFunc(shared, func(reason string) bool { return !slices.Contains(v.Texts(), reason) })
	}
	return shared
}

// doubtful reports whether a metric of a suspect cell is so for reasons of its own.
func (s *sample) doubtful(v load.Verdict, m metric) bool {
	if v.Verdict != load.Suspect || len(v.Reasons) == 0 {
		return v.Verdict == load.Suspect
	}
	v.Reasons = slices.DeleteFunc(slices.Clone(v.Reasons), func(r load.Reason) bool { return slices.Contains(s.shared, r.Text) })
	return len(v.Reasons) > 0 && v.Doubts(m.name)
}

// samples are all cells that measured something, in their order.
func samples(rows []results.Row, all *seriesOf) []*sample {
	var out []*sample
	byKey := map[string]*sample{}
	shared := sharedReasons(rows)
	for i := range rows {
		r := &rows[i]
		if r.Verdict().Verdict == load.Void {
			continue
		}
		s := &sample{benchmark: r.Benchmark, series: all.find(r), dataset: dataset(r), shared: shared, at: map[string]float64{}}
		for _, d := range dimensions {
			if v, ok := d.value(r); ok {
				s.at[d.name] = v
			}
		}
		key := fmt.Sprint(s.series.index, "\x00", groupOf(r))
		if all.by != nil { // the lab says what is told apart; of the rest there is only the load
			load := slices.DeleteFunc(slices.Clone(r.Axes), func(a results.Axis) bool { return !ofLoad(a.Name) })
			key = fmt.Sprint(s.benchmark, "\x00", s.series.index, "\x00", s.dataset, s.at, load)
		}
		if known := byKey[key]; known != nil {
			known.rows = append(known.rows, r)
			continue
		}
		s.rows = []*results.Row{r}
		byKey[key] = s
		out = append(out, s)
	}
	return out
}

// value is the median of a metric over the repetitions, with the lowest and the
// highest: over those that are not in doubt, or, where all of them are, over all.
func (s *sample) value(m metric) (d dot, ok bool) {
	var sure, doubted []float64
	for _, r := range s.rows {
		v, ok := m.value(r)
		switch {
		case !ok:
		case s.doubtful(r.Verdict(), m):
			doubted = append(doubted, v)
		default:
			sure = append(sure, v)
		}
	}
	values := sure
	if len(sure) == 0 {
		values, d.doubt = doubted, true
	}
	if len(values) == 0 {
		return d, false
	}
	d.mark = kindOfRun(s.rows[0])
	of := spread(values)
	d.y, d.low, d.high = of.Median, of.Min, of.Max
	d.n, d.of = of.N, len(sure)+len(doubted)
	return d, true
}

// slice are the cells of a benchmark that differ in their series and along one
// dimension only.
type slice struct {
	benchmark string
	along     dimension
	samples   []*sample
	points    int
}

// slicesAlong finds the slices with a line in them, those with the most points
// first.
func slicesAlong(along dimension, samples []*sample) []slice {
	var order []string
	byKey := map[string]*slice{}
	for _, s := range samples {
		if _, ok := s.at[along.name]; !ok {
			continue
		}
		key := s.benchmark + "\x00" + s.dataset
		for _, d := range dimensions {
			if d.name != along.name && !(along.name == "batch" && d.name == "concurrency") {
				key += fmt.Sprintf("\x00%v", s.at[d.name])
			}
		}
		if byKey[key] == nil {
			order = append(order, key)
			byKey[key] = &slice{benchmark: s.benchmark, along: along}
		}
		byKey[key].samples = append(byKey[key].samples, s)
	}
	var out []slice
	for _, key := range order {
		x := byKey[key]
		values := map[*series]map[float64]bool{}
		for _, s := range x.samples {
			if values[s.series] == nil {
				values[s.series] = map[float64]bool{}
			}
			values[s.series][s.at[along.name]] = true
		}
		for _, v := range values {
			if len(v) > 1 {
				x.points += len(v)
			}
		}
		if x.points > 0 {
			out = append(out, *x)
		}
	}
	slices.SortStableFunc(out, func(a, b slice) int { return b.points - a.points })
	return out
}

// under says what is the same for all cells of the slice.
func (x slice) under() string {
	s := x.samples[0]
	var parts []string
	add := func(name, format string) {
		if v, ok := s.at[name]; ok && name != x.along.name {
			parts = append(parts, fmt.Sprintf(format, short(v)))
		}
	}
	add("input_tokens", "%s tokens in")
	add("output_tokens", "%s tokens out")
	add("concurrency", "%s in flight")
	add("rate", "%s requests per second")
	add("batch", "batches of %s")
	if s.dataset != "" && x.along.name != "" {
		parts = append(parts, s.dataset)
	}
	return strings.Join(parts, ", ")
}

// ticks are the values that the slice has along its dimension.
func (x slice) ticks() []float64 {
	seen := map[float64]float64{}
	for _, s := range x.samples {
		v := s.at[x.along.name]
		seen[v] = v
	}
	return sortedByKey(seen)
}

// lines are the series of the slice, drawn from their points in order.
func (x slice) lines(point func(s *sample) (dot, bool)) []line {
	bySeries := map[int]*line{}
	for _, s := range x.samples {
		d, ok := point(s)
		if !ok {
			continue
		}
		if bySeries[s.series.index] == nil {
			bySeries[s.series.index] = &line{series: s.series}
		}
		bySeries[s.series.index].dots = append(bySeries[s.series.index].dots, d)
	}
	var lines []line
	for _, l := range sortedByKey(bySeries) {
		lines = append(lines, *l)
	}
	return lines
}

// against is a metric along the slice's dimension.
func (x slice) against(m metric) *chart {
	c := &chart{title: m.title, better: better(m),
		x: axis{title: x.along.title, unit: x.along.unit, ticks: x.ticks()},
		y: axis{unit: m.unit, zero: true, linear: m.better > 0}}
	if t := c.x.ticks; len(t) > 2 && t[len(t)-1]/t[0] >= 4 {
		c.x.log = true
	}
	c.lines = x.lines(func(s *sample) (dot, bool) {
		d, ok := s.value(m)
		d.x = s.at[x.along.name]
		d.hover = hover(s, d, x.along.name, m)
		return d, ok
	})
	for i := range c.lines {
		slices.SortStableFunc(c.lines[i].dots, func(a, b dot) int { return cmp.Compare(a.x, b.x) })
	}
	c.seconds(false)
	return c
}

// tradeoff is one metric over another, a point for each place along the slice's
// dimension.
func (x slice) tradeoff(mx, my metric) *chart {
	c := &chart{title: my.title,
		x: axis{title: mx.title, unit: mx.unit}, y: axis{unit: my.unit, zero: true, linear: true}}
	c.lines = x.lines(func(s *sample) (dot, bool) {
		dx, okX := s.value(mx)
		d, okY := s.value(my)
		d.x, d.doubt = dx.y, d.doubt || dx.doubt
		d.label = short(s.at[x.along.name])
		d.hover = hover(s, d, x.along.name, my) + "\n" + said(dx.y, mx)
		return d, okX && okY
	})
	order := map[string]float64{}
	for _, s := range x.samples {
		order[short(s.at[x.along.name])] = s.at[x.along.name]
	}
	for i := range c.lines {
		slices.SortStableFunc(c.lines[i].dots, func(a, b dot) int { return cmp.Compare(order[a.label], order[b.label]) })
	}
	c.seconds(true)
	return c
}

// empty reports whether there is nothing to draw.
func (c *chart) empty() bool { return len(c.lines) == 0 && len(c.groups) == 0 }

// seconds turns milliseconds into seconds where they are many.
func (c *chart) seconds(x bool) {
	turn := func(a *axis, of func(d *dot) []*float64) {
		if a.unit != "ms" {
			return
		}
		most := 0.0
		for _, l := range c.lines {
			for i := range l.dots {
				most = max(most, *of(&l.dots[i])[0])
			}
		}
		if most < 5000 {
			return
		}
		a.unit = "s"
		for _, l := range c.lines {
			for i := range l.dots {
				for _, v := range of(&l.dots[i]) {
					*v /= 1000
				}
			}
		}
	}
	turn(&c.y, func(d *dot) []*float64 { return []*float64{&d.y, &d.low, &d.high} })
	if x {
		turn(&c.x, func(d *dot) []*float64 { return []*float64{&d.x} })
	}
}

func better(m metric) string {
	switch {
	case m.better > 0:
		return "higher is better"
	case m.better < 0:
		return "lower is better"
	}
	return ""
}

// said is a value with its unit: "1,234 tok/s".
func said(v float64, m metric) string {
	if m.unit == "ms" && v >= 5000 {
		return number(v/1000) + " s " + lower(m.title)
	}
	if m.unit == "" {
		return number(v) + " " + lower(m.title)
	}
	return number(v) + " " + m.unit + " " + lower(m.title)
}

// lower begins a name as it stands within a sentence.
func lower(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// hover is what a point says of itself.
func hover(s *sample, d dot, along string, m metric) string {
	lines := []string{s.series.label}
	if v, ok := s.at[along]; ok {
		lines[0] += fmt.Sprintf(", %s %s", strings.ReplaceAll(along, "_", " "), short(v))
	}
	lines = append(lines, said(d.y, m))
	if d.n > 1 {
		lines = append(lines, fmt.Sprintf("median of %d, %s to %s", d.n, number(d.low), number(d.high)))
	}
	if d.of > d.n {
		lines = append(lines, fmt.Sprintf("%d of %d repetitions: the others are suspect", d.n, d.of))
	}
	if d.doubt {
		lines = append(lines, "suspect")
	}
	return strings.Join(lines, "\n")
}

// sections are the figures of rows that the layout wants, and who is ahead where,
// whether it is drawn or not.
func sections(rows []results.Row, all *seriesOf, about About) (out []section, found []finding) {
	cells := samples(rows, all)
	layout, published := &about.Layout, published(about.References)
	if len(layout.Charts) > 0 {
		out = append(out, layout.asked(cells, rows, published))
	}
	benchmarks := benchmarkSections(cells, published)
	if layout.automatic(AutomaticBenchmarks) {
		out = append(out, benchmarks...)
	}
	more := section{id: "across", title: "Caches, tails, time"}
	for _, f := range []struct {
		kind string
		draw func() (*figure, string)
	}{
		{AutomaticPrefixCache, func() (*figure, string) { return prefixFigure(cells) }},
		{AutomaticDistributions, func() (*figure, string) { return distributionFigure(cells, about) }},
	} {
		if !layout.automatic(f.kind) {
			continue
		}
		if fig, why := f.draw(); fig != nil {
			more.figures = append(more.figures, fig)
		} else {
			more.left = append(more.left, why)
		}
	}
	if layout.automatic(AutomaticTimeLines) {
		if lines := timelines(cells); len(lines) > 0 {
			more.figures = append(more.figures, lines...)
		} else {
			more.left = append(more.left, "Time line of a cell: no result has its figures over time.")
		}
	}
	if len(more.figures)+len(more.left) > 0 {
		out = append(out, more)
	}
	ids := unique{}
	for i := range out {
		out[i].id = ids.name("section " + out[i].id)[len("section "):]
		for _, f := range out[i].figures {
			f.id = ids.name(f.id)
			for _, c := range f.charts {
				c.mark = c.marked()
			}
		}
	}
	return out, findings(benchmarks)
}

// unique gives out names, each once.
type unique map[string]bool

// name is the name, with a number where it is taken.
func (u unique) name(name string) string {
	free := name
	for n := 2; u[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	u[free] = true
	return free
}

// benchmarkSections are the figures of each benchmark.
func benchmarkSections(cells []*sample, published publishedOf) (out []section) {
	var order []string
	of := map[string][]*sample{}
	for _, s := range cells {
		if of[s.benchmark] == nil {
			order = append(order, s.benchmark)
		}
		of[s.benchmark] = append(of[s.benchmark], s)
	}
	for _, name := range order {
		if x := benchmarkSection(name, of[name], published); len(x.figures) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// findings are who is ahead in the figures, in the first of those that differ in
// what is under them only.
func findings(sections []section) (out []finding) {
	for _, s := range sections {
		found := map[string]bool{}
		for _, f := range s.figures {
			if x, ok := f.finding(s); ok && !found[f.title] {
				found[f.title] = true
				out = append(out, x)
			}
		}
	}
	return out
}

// publishedOf are the published figures of each cell, by its id.
type publishedOf map[string][]Compared

func published(all []Compared) publishedOf {
	of := publishedOf{}
	for _, c := range all {
		if c.Cell != "" {
			of[c.Cell] = append(of[c.Cell], c)
		}
	}
	return of
}

// add draws what was published of a metric for the cells of a slice, in the colours
// of their series, and returns by whom.
func (of publishedOf) add(c *chart, x slice, m metric) (names []string) {
	measured := len(c.lines)
	for i := range measured {
		l := line{series: c.lines[i].series, published: true}
		for _, s := range x.samples {
			if s.series != l.series {
				continue
			}
			for _, r := range s.rows {
				for _, p := range of[r.ID] {
					f := p.figure(m.name)
					if f == nil {
						continue
					}
					d := dot{x: s.at[x.along.name], y: f.Published, n: 1}
					d.hover = hover(s, d, x.along.name, m) + "\npublished by " + p.Reference
					if m.unit == "ms" && c.y.unit == "s" {
						d.y /= 1000
					}
					d.low, d.high = d.y, d.y
					l.dots = append(l.dots, d)
					if !slices.Contains(names, p.Reference) {
						names = append(names, p.Reference)
					}
				}
			}
		}
		slices.SortStableFunc(l.dots, func(a, b dot) int { return cmp.Compare(a.x, b.x) })
		if len(l.dots) > 0 {
			c.lines = append(c.lines, l)
		}
	}
	return names
}

// cite says who published what is drawn thin.
func (f *figure) cite(names []string) {
	for _, by := range names {
		if said := "Thin lines with crosses: published by " + by + "."; !slices.Contains(f.readings, said) {
			f.readings = append(f.readings, said)
		}
	}
}

// benchmarkSection are the figures of one benchmark.
func benchmarkSection(name string, cells []*sample, published publishedOf) section {
	out := section{id: slug(name), title: name}
	add := func(f *figure, along string, x slice, n int) {
		f.charts = slices.DeleteFunc(f.charts, func(c *chart) bool { return c.empty() })
		if len(f.charts) == 0 {
			return
		}
		f.id = out.id + "-" + along
		if n > 0 {
			f.id += fmt.Sprintf("-%d", n+1)
		}
		f.under = x.under()
		out.figures = append(out.figures, f)
	}
	var rows []results.Row
	for _, s := range cells {
		rows = append(rows, *s.rows[0])
	}
	tail := "p" + tailPercentile(rows)
	for _, d := range dimensions {
		all := slicesAlong(d, cells)
		if len(all) > maxSlices {
			out.left = append(out.left, fmt.Sprintf("%s: %d more combinations of the other axes have lines along %s; they are in the table.",
				name, len(all)-maxSlices, strings.ToLower(d.title)))
			all = all[:maxSlices]
		}
		for n, x := range all {
			var load = x.along.name == "concurrency" || x.along.name == "rate" || x.along.name == "batch"
			panels := &figure{title: "Against " + lower(d.title)}
			for _, m := range []metric{outputThroughput, medianTTFT, medianTPOT, medianE2EL, goodput, energyPerToken} {
				c := x.against(m)
				if c.empty() && m.name == outputThroughput.name {
					m = totalThroughput
					c = x.against(m)
				}
				if c.empty() && m.name == medianE2EL.name && x.along.name == "batch" {
					m = duration
					c = x.against(m)
				}
				if c.empty() && m.better < 0 && strings.HasPrefix(m.name, "median_") {
					continue
				}
				c.leads = leads(c, m)
				panels.cite(published.add(c, x, m))
				panels.charts = append(panels.charts, c)
			}
			tails := &figure{title: "Tails against " + lower(d.title)}
			for _, t := range []timing{ttft, tpot, itl, e2el} {
				m := latency(t, tail)
				tails.charts = append(tails.charts, x.against(m))
			}
			if load {
				my := outputThroughput
				mx := medianE2EL
				c := x.tradeoff(mx, my)
				if c.empty() {
					my = totalThroughput
					c = x.tradeoff(mx, my)
				}
				if c.empty() {
					mx = duration
					c = x.tradeoff(mx, my)
				}
				c.better = corner(mx, my)
				add(&figure{title: my.title + " against " + lower(mx.title), hero: true, charts: []*chart{c},
					readings: []string{"Numbers beside the points: " + lower(d.title) + "."}}, along(d.name, "latency"), x, n)
			}
			add(panels, d.name, x, n)
			if load {
				add(tails, along(d.name, "tails"), x, n)
				c := x.tradeoff(interactivity, perGPU)
				c.x.title, c.x.unit = "Interactivity", "output tokens per second per user"
				c.better = corner(interactivity, perGPU)
				f := &figure{title: "Throughput per GPU against interactivity", hero: true, charts: []*chart{c}}
				if front, said := paretoFront(c); len(front.dots) > 0 {
					c.lines = append([]line{front}, c.lines...)
					f.readings = []string{said}
				}
				add(f, along(d.name, "pareto"), x, n)
			}
		}
	}
	if len(out.figures) == 0 {
		if f := comparison(cells); f != nil {
			f.id = out.id + "-cells"
			out.figures = append(out.figures, f)
		}
	}
	return out
}

// along keeps the names of figures short: most labs turn the concurrency.
func along(dimension, of string) string {
	if dimension == "concurrency" {
		return of
	}
	return dimension + "-" + of
}

// paretoFront are the points that no other one surpasses in both directions, and
// what they say.
func paretoFront(c *chart) (line, string) {
	type owned struct {
		dot
		of *series
	}
	var all []owned
	for _, l := range c.lines {
		for _, p := range l.dots {
			if !p.doubt { // what is suspect leads nothing
				all = append(all, owned{p, l.series})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b owned) int { return cmp.Or(cmp.Compare(b.x, a.x), cmp.Compare(b.y, a.y)) })
	front := line{front: true}
	best := math.Inf(-1)
	count := map[*series]int{}
	for _, p := range all {
		if p.y > best {
			best = p.y
			front.dots = append(front.dots, dot{x: p.x, y: p.y, n: 1})
			count[p.of]++
		}
	}
	slices.Reverse(front.dots)
	if len(front.dots) == 0 || len(c.series()) < 2 {
		return front, "The dashed line joins the points that no other one surpasses in both directions."
	}
	var parts []string
	for _, s := range c.series() {
		if n := count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s.label, n))
		}
	}
	if len(parts) == 1 {
		return front, "The dashed line joins the points that no other one surpasses in both directions. All are of one series."
	}
	return front, fmt.Sprintf("The dashed line joins the %s that no other one surpasses in both directions: %s.", counted(len(front.dots), "point"), strings.Join(parts, ", "))
}

// lead is who is ahead at one place along a chart, and by how much.
type lead struct {
	x      float64
	series *series // nil: fewer than two were measured there, or two are level
	by     float64 // of the next one's value: 0.12 is 12 % more, −0.12 less
	level  bool
	// suspect is one that would be first or second, were it not in doubt: the lead says
	// nothing of it. Nil: there is none.
	suspect *series
}

// level is how little the first and the second may differ, as a share, before one
// of them is ahead.
const level = 0.01

// leads are those of a chart at each of its ticks.
func leads(c *chart, m metric) []lead {
	if m.better == 0 || len(c.lines) < 2 {
		return nil
	}
	ahead := func(a, b float64) bool { return (a-b)*float64(m.better) > 0 }
	var out []lead
	found := false
	for _, x := range c.x.ticks {
		var first, second, doubted *dot
		var of, doubtedOf *series
		for _, l := range c.lines {
			for i := range l.dots {
				d := &l.dots[i]
				switch {
				case d.x != x:
				case d.doubt:
					if doubted == nil || ahead(d.y, doubted.y) {
						doubted, doubtedOf = d, l.series
					}
				case first == nil || ahead(d.y, first.y):
					first, second, of = d, first, l.series
				case second == nil || ahead(d.y, second.y):
					second = d
				}
			}
		}
		p := lead{x: x}
		if second != nil {
			p.series, p.by = of, first.y/second.y-1
			if p.level = first.y == second.y || math.Abs(p.by) < level; p.level {
				p.series = nil
			}
			found = true
		}
		if doubted != nil && (second == nil || ahead(doubted.y, second.y)) {
			p.suspect = doubtedOf
		}
		out = append(out, p)
	}
	if !found {
		return nil
	}
	return out
}

// maxGroups bounds the bars that are worth looking at.
const maxGroups = 12

// comparison shows cells that lie along no dimension as bars.
func comparison(cells []*sample) *figure {
	f := &figure{title: "Cells side by side"}
	for _, m := range []metric{outputThroughput, totalThroughput, medianTTFT, medianTPOT, medianE2EL} {
		c := loads(cells, m, func(*sample) (string, bool) { return "", true })
		if len(c.groups) > 0 && len(c.groups) <= maxGroups && !(m.name == totalThroughput.name && len(f.charts) > 0) {
			f.charts = append(f.charts, c)
		}
	}
	if len(f.charts) == 0 {
		return nil
	}
	return f
}

// loads are a metric of cells as bars, those under the same load together; foot is
// what stands at a bar, and whether there is one.
func loads(cells []*sample, m metric, foot func(s *sample) (string, bool)) *chart {
	c := &chart{title: m.title, y: axis{unit: m.unit}, better: better(m)}
	byLoad := map[string]int{}
	for _, s := range cells {
		d, ok := s.value(m)
		label, has := foot(s)
		if !ok || !has {
			continue
		}
		load := s.load()
		i, known := byLoad[load]
		if !known {
			i = len(c.groups)
			byLoad[load] = i
			c.groups = append(c.groups, group{label: load})
		}
		c.groups[i].bars = append(c.groups[i].bars, bar{series: s.series, label: label, value: d.y, hover: hover(s, d, "", m), doubt: d.doubt, mark: d.mark})
	}
	return c
}

// load is the cell's place along the axes of the load, in words.
func (s *sample) load() string {
	var parts []string
	for _, a := range s.rows[0].Axes {
		if ofLoad(a.Name) {
			parts = append(parts, strings.ReplaceAll(a.Name, "_", " ")+" "+axisText(a.Value))
		}
	}
	return strings.Join(parts, ", ")
}

// slug is a name as a part of a file's name.
func slug(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	return cmp.Or(strings.Trim(b.String(), "-"), "x") // a name in another script
}

// counted is "1 point", "2 points".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return whole(n) + " " + what + "s"
}
