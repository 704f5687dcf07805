package report

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

// answer is what was measured of one workload, as tables to decide by.
type answer struct {
	ID       string      // in addresses: "online-3-200-tokens-in-800-tokens-out"
	Workload string      // what its cells have in common, in words
	Tables   []*decision // what decides comes first

	cells  []*sample
	along  *dimension // that they lie along; nil: none
	places []spot     // where they are: their loads or their cases
	at     []int      // of each cell, its place
	main   []Metric   // that matter most
}

// finding is what is said of a workload.
type finding struct {
	*answer
	Text      string   // a sentence or two, of the tables that matter most
	Sentences []string // what each of its tables says
}

// maxAnswers bounds the workloads that are answered: what else there is stands in the table.
const maxAnswers = 60

// findings are those of all workloads.
func findings(rows []results.Row, all *seriesOf, layout *Layout) (out []finding) {
	fast := fastText(rows)
	for _, a := range answers(rows, all, layout) {
		f := finding{answer: a, Text: fast, Sentences: make([]string, len(a.Tables))}
		if fast == "" {
			for i, d := range a.Tables {
				f.Sentences[i] = d.say()
			}
			f.say(layout)
		}
		out = append(out, f)
	}
	agree(out)
	return out[:min(len(out), maxAnswers)]
}

// answers are those of all workloads: of the slices, those with the most points first, and of the
// cells that lie along nothing, side by side.
func answers(rows []results.Row, all *seriesOf, layout *Layout) (out []*answer) {
	cells := owned(samples(rows, all))
	lying := map[*sample]bool{}
	var found []slice
	for _, of := range grouped(cells, func(s *sample) string { return s.benchmark }) {
		for _, d := range dimensions {
			for _, x := range slicesAlong(d, of) {
				if pushed(d) || x.busiest(of) { // of lengths, the greatest load says it
					found = append(found, x)
				}
				for _, s := range x.samples {
					lying[s] = true
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b slice) int { return b.points - a.points })
	for _, x := range found {
		out = append(out, x.answer(layout))
	}
	if rest := slices.DeleteFunc(cells, func(s *sample) bool { return lying[s] }); len(rest) > 0 {
		out = append(out, sideBySide(rest, layout))
	}
	out = slices.DeleteFunc(out, func(a *answer) bool { return len(a.Tables) == 0 })
	ids := unique{}
	for _, a := range out {
		a.ID = ids.name(slug(a.Workload))
	}
	return out
}

// agree says below the first of several workloads in how many of them its leader leads.
func agree(all []finding) {
	if len(all) < 2 || all[0].Text == "" {
		return
	}
	who, n := all[0].Tables[0].leader(), 0
	for _, f := range all {
		if who != nil && f.Tables[0].leader() == who {
			n++
		}
	}
	if n > 0 {
		all[0].Text += fmt.Sprintf(" %s leads in %d of %d workloads.", who.Label, n, len(all))
	}
}

// maxFindings bounds what stands below a table.
const maxFindings = 3

// Findings are what rows say, a sentence or two for each workload, those with the most points first,
// below the headline of the lab.
func Findings(rows []results.Row, layout *Layout) (texts []string) {
	if layout.Headline != "" {
		texts = append(texts, plain.Line(layout.Headline))
	}
	if rows = fresh(rows); len(rows) < 2 {
		return texts
	}
	all := findings(rows, newSeries(rows, layout.Series), layout)
	for _, f := range all[:min(len(all), maxFindings)] {
		text := f.Text
		if len(all) > 1 {
			text = sentence(f.Workload) + ". " + text
		}
		if f.Text != "" {
			texts = append(texts, plain.Line(text))
		}
	}
	if text := absent(rows, layout); text != "" {
		texts = append(texts, plain.Line(text))
	}
	return texts
}

// absent names the series of which nothing was measured: no table that decides has them.
func absent(rows []results.Row, layout *Layout) string {
	names := unmeasured(rows, newSeries(rows, layout.Series))
	if len(names) == 0 {
		return ""
	}
	return "Nothing was measured of " + strings.Join(names, ", ") + "."
}

// unmeasured are the series without figures, with their cells, where others have some.
func unmeasured(rows []results.Row, all *seriesOf) (names []string) {
	cells := map[*chart.Series][]*results.Row{}
	for i := range rows {
		x := all.find(&rows[i])
		cells[x] = append(cells[x], &rows[i])
	}
	for _, x := range all.all {
		if n := len(cells[x]); n > 0 && len(notVoid(cells[x])) == 0 {
			names = append(names, fmt.Sprintf("%s (%s)", x.Label, number.Count(n, "cell")))
		}
	}
	if len(names) == len(cells) {
		return nil
	}
	return names
}

// busiest reports whether none of these cells was under a greater load than the slice, prompts
// being of the same data set.
func (x slice) busiest(cells []*sample) bool {
	own := x.samples[0]
	return !slices.ContainsFunc(cells, func(s *sample) bool {
		return s.dataset == own.dataset && slices.ContainsFunc(dimensions, func(d dimension) bool {
			return pushed(d) && s.at[d.name] > own.at[d.name]
		})
	})
}

// answer is that of a slice: who gives how much at which service, and every figure along it.
func (x slice) answer(layout *Layout) *answer {
	name := strings.Trim(x.samples[0].benchmark+": "+x.under(), ": ")
	if !pushed(x.along) {
		name += ", by " + strings.ToLower(x.along.title)
	}
	a, ticks := &answer{Workload: name, cells: x.samples, along: &x.along}, x.ticks()
	for _, v := range ticks {
		a.places = append(a.places, spot{Name: number.Short(v), value: number.Short(v)})
	}
	for _, s := range x.samples {
		a.at = append(a.at, slices.Index(ticks, s.at[x.along.name]))
	}
	throughput, wait := throughputOf(x.samples, layout, true), central(ttft, x.samples, layout)
	a.main = []Metric{throughput, wait}
	if pushed(x.along) {
		a.add(x.byService(throughput), layout)
	}
	for _, m := range []Metric{wait, throughput, central(tpot, x.samples, layout), central(e2el, x.samples, layout),
		goodput, costOutput, energyPerToken} {
		a.add(a.byPlace(m), layout)
	}
	return a
}

// sideBySide is the answer of cells that lie along nothing: each load is a place.
func sideBySide(cells []*sample, layout *Layout) *answer {
	a := &answer{Workload: "loads side by side", cells: cells}
	names := caseNames(cells)
	var keys []string
	for _, s := range cells {
		key := s.caseKey()
		if i := slices.Index(keys, key); i >= 0 {
			a.at = append(a.at, i)
			continue
		}
		a.at = append(a.at, len(keys))
		keys, a.places = append(keys, key), append(a.places, spot{Name: names[key], value: names[key]})
	}
	if len(names) == 1 {
		a.Workload = strings.Trim(cells[0].benchmark+": "+slice{samples: cells[:1]}.under(), ": ")
	}
	throughput, wait := throughputOf(cells, layout, false), central(ttft, cells, layout)
	a.main = []Metric{throughput, wait}
	for _, m := range []Metric{throughput, wait, central(tpot, cells, layout), central(e2el, cells, layout),
		goodput, costOutput, energyPerToken} {
		a.add(a.byPlace(m), layout)
	}
	return a
}

// add keeps a table that has something in it, as it is to be read.
func (a *answer) add(d *decision, layout *Layout) {
	var first *decision
	if len(a.Tables) > 0 {
		first = a.Tables[0]
	}
	if d.judge(layout, first); len(d.Rows) > 0 {
		a.Tables = append(a.Tables, d)
	}
}

// say makes the text of what the first table of each of the main metrics says, as far as the lab's
// columns have them.
func (f *finding) say(layout *Layout) {
	var said []string
	for _, m := range f.main {
		if layout.Columns != nil && !slices.Contains(layout.Columns, m.Name) {
			continue
		}
		for i, d := range f.Tables {
			if d.Metric == m.Name && f.Sentences[i] != "" {
				said = append(said, f.Sentences[i])
				break
			}
		}
	}
	if text := f.price(said); text != "" {
		said = append(said, text)
	}
	f.Text = strings.Join(said, " ")
}

// price says what gets worse with the series that the finding holds against the baseline, of the main figures
// that it does not name; empty: nothing does by more than 1 %.
func (f *finding) price(said []string) string {
	tables := f.Tables
	if len(said) == 0 || tables[0].Baseline < 0 {
		return ""
	}
	held := tables[0].held()
	for at, d := range tables {
		if held == nil || slices.Contains(said, f.Sentences[at]) || d.Baseline < 0 {
			continue
		}
		i := slices.IndexFunc(d.Rows, func(r decisionRow) bool { return r.series == held.series })
		var parts []string
		for n := range d.Places {
			if i < 0 {
				break
			}
			c, base := &d.Rows[i].Choices[n], &d.Rows[d.Baseline].Choices[n]
			if c.Change != nil && *c.Change*float64(d.Better) < -level && !c.Doubt && !base.Doubt && !c.even(base.evidence) {
				parts = append(parts, d.Places[n].value+" "+number.Change(*c.Change))
			}
		}
		if parts != nil {
			return fmt.Sprintf("At the price of %s: %s.", lower(d.Title), strings.Join(parts, ", "))
		}
	}
	return ""
}

// prompts that outweigh answers so many times make the total the throughput that tells more.
const promptsOutweigh = 10

// throughputOf is the throughput that cells are compared by: the first that the lab's columns name,
// or else output, of each GPU where that is wanted and known of all.
func throughputOf(cells []*sample, layout *Layout, each bool) Metric {
	choice := []Metric{outputThroughput, totalThroughput, requestThroughput}
	lacks := func(s *sample) bool { _, ok := s.value(perGPU); return !ok }
	prompts := func(s *sample) bool {
		r := s.rows[0].Summary
		return r.OutputTokens > 0 && r.InputTokens >= promptsOutweigh*r.OutputTokens
	}
	embeds := func(s *sample) bool { return s.rows[0].Summary.Silent() }
	switch {
	case len(cells) > 0 && !slices.ContainsFunc(cells, func(s *sample) bool { return !embeds(s) }):
		choice = []Metric{inputThroughput, requestThroughput}
	case each && !slices.ContainsFunc(cells, lacks):
		choice = slices.Insert(choice, 0, perGPU)
	case !each && slices.ContainsFunc(cells, prompts):
		choice = slices.Insert(choice, 0, totalThroughput)
	}
	for _, m := range slices.Backward(chosen(layout.Columns)) {
		if m.Better > 0 && (m.Group == "Throughput" || m.Name == requestThroughput.Name) {
			choice = slices.Insert(choice, 0, m)
		}
	}
	return knownOf(cells, choice...)
}

// central is the statistic that stands for a timing wherever there is room for one: the first of the
// lab's columns, or else the median, or the mean where nobody has the median.
func central(t timing, cells []*sample, layout *Layout) Metric {
	choice := []Metric{latency(t, "median"), latency(t, "mean")}
	for _, m := range slices.Backward(chosen(layout.Columns)) {
		if m.Group == choice[0].Group {
			choice = slices.Insert(choice, 0, m)
		}
	}
	return knownOf(cells, choice...)
}

// knownOf is the first of some metrics that any of the cells has, or else the first.
func knownOf(cells []*sample, choice ...Metric) Metric {
	for _, m := range choice {
		if slices.ContainsFunc(cells, func(s *sample) bool { _, ok := s.value(m); return ok }) {
			return m
		}
	}
	return choice[0]
}

// seriesIn are the series of cells, in their order.
func seriesIn(cells []*sample) (all []*chart.Series) {
	for _, s := range cells {
		all = once(all, s.series)
	}
	slices.SortFunc(all, func(a, b *chart.Series) int { return a.Index - b.Index })
	return all
}
