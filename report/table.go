// Package report shows what was measured: tables for people, and exact numbers for programs.
//
// It computes nothing that a cell's summary does not hold, and knows nothing of
// where results are kept or how they were made.
package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/number"
	"hclbench/results"
)

// Options say how a table is printed.
type Options struct {
	// Width is how many characters a line may have; columns that matter less are
	// left out to fit. Zero is no limit.
	Width int
	// Layout is what the lab wants: the columns, the series and what they are held against.
	Layout Layout
	// Colour marks verdicts, and the best under each load.
	Colour bool
}

// Table prints one line per cell in the order of rows; benchmarks of other axes have tables of their own.
// What is the same for all cells stands above a table instead of in a column; what puts a cell in doubt
// stands below.
func Table(w io.Writer, rows []results.Row, opt Options) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "No results.")
		return err
	}
	notes := newDoubts(rows)
	tables, common := newSheets(rows, &opt.Layout, notes)
	var dropped []string
	for _, s := range tables {
		dropped = once(dropped, s.fit(opt.Width)...)
		s.colour = opt.Colour
	}
	if len(dropped) > 0 {
		dropped[0] = fmt.Sprintf("Left out to fit %d columns: %s", opt.Width, dropped[0])
	}
	head := plain.Wrap(origin(rows), ", ", opt.Width)
	if text := commonMark(rows); text != "" {
		head = append(head, text)
	}
	head = append(head, plain.Wrap(common, ", ", opt.Width)...)
	var below [][]string
	for _, text := range slices.Concat(Findings(rows, &opt.Layout), hostChanges(rows), forcedText(rows),
		tooFew(rows, &opt.Layout, tables)) {
		below = append(below, plain.Wrap(plain.Words(text), " ", opt.Width))
	}
	below = append(below, numbered(notes.texts(), opt.Width), spreadLines(Repetitions(rows), opt.Width),
		plain.Wrap(dropped, ", ", opt.Width))
	// Only the tables have colours: their entries are plain by themselves.
	parts := []string{plain.Text(inBlocks(head))}
	for _, s := range tables {
		parts = append(parts, plain.Text(inBlocks(plain.Wrap(s.common, ", ", opt.Width))), inBlocks(s.lines()))
	}
	parts = append(parts, plain.Text(inBlocks(below...)))
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

// writeBlocks writes blocks of lines, as far as there is anything in them.
func writeBlocks(w io.Writer, blocks [][]string) error {
	_, err := io.WriteString(w, plain.Text(inBlocks(blocks...)))
	return err
}

// inBlocks are blocks of lines with an empty line between two.
func inBlocks(blocks ...[]string) string {
	var parts []string
	for _, lines := range blocks {
		if len(lines) > 0 {
			parts = append(parts, strings.Join(lines, "\n")+"\n")
		}
	}
	return strings.Join(parts, "\n")
}

// numbered are texts under numbers, from 1, in lines of at most width.
func numbered(texts []string, width int) (lines []string) {
	for i, text := range texts {
		lines = append(lines, plain.Wrap(plain.Words(fmt.Sprintf("[%d] %s", i+1, text)), " ", width)...)
	}
	return lines
}

// newSheets are the tables of rows, one for the benchmarks that have the same axes, with the metrics that
// the layout names or those that matter most, and what all of them have in common, in words.
func newSheets(rows []results.Row, layout *Layout, notes doubts) (all []*sheet, common []string) {
	shapes := map[string]string{} // of each benchmark
	for _, of := range grouped(rows, func(r results.Row) string { return r.Benchmark }) {
		own := slices.DeleteFunc(axes(of), func(name string) bool { return name == "engine" })
		slices.Sort(own)
		shapes[of[0].Benchmark] = fmt.Sprint(of[0].Job.Batch != nil, own)
	}
	begin := shortIDs(rows)
	for _, of := range grouped(rows, func(r results.Row) string { return shapes[r.Benchmark] }) {
		s := &sheet{rows: len(of), columns: slices.Concat(
			identity(of), axisColumns(of), repetitionColumns(of), figureColumns(of, layout, tabled(of)))}
		if len(rows) > 1 {
			s.columns = append(s.columns, column{key: "id", name: "cell", left: true, weight: 81}.filled(len(of),
				func(i int) string { return begin(of[i].ID) }))
		}
		s.columns = append(s.columns, verdictColumn(of, notes)...)
		s.common = s.project()
		all = append(all, s)
	}
	shared := func(text string) bool {
		return !slices.ContainsFunc(all, func(s *sheet) bool { return !slices.Contains(s.common, text) })
	}
	common = slices.DeleteFunc(slices.Clone(all[0].common), func(text string) bool { return !shared(text) })
	for _, s := range all {
		s.common = slices.DeleteFunc(s.common, func(text string) bool { return slices.Contains(common, text) })
	}
	return all, common
}

// shortestID is how much of an id is shown where less would do.
const shortestID = 6

// shortIDs cut each cell's id as far as still tells them apart: hcl show takes that.
func shortIDs(rows []results.Row) func(id string) string {
	n, ids := shortestID, map[string]bool{}
	for _, r := range rows {
		ids[r.ID] = true
	}
	begin := func(id string) string { return id[:min(n, len(id))] }
	for begun := map[string]bool{}; len(begun) < len(ids); n++ {
		clear(begun)
		for id := range ids {
			begun[begin(id)] = true
		}
	}
	n--
	return begin
}

// telling is a column that stays unless all rows have the same in it.
func telling(name string) column {
	return column{key: name, name: name, left: true, constant: func(text string) string { return name + " " + text }}
}

// identity are the columns that say what was measured on what.
func identity(rows []results.Row) (columns []column) {
	for _, x := range []struct {
		name   string
		weight int
	}{{"benchmark", 0}, {"engine", 0}, {"model", 28}, {"host", 58}, {"gpus", 55}} {
		c := telling(x.name)
		c.weight = x.weight
		columns = append(columns, c.filled(len(rows), func(i int) string { return wordOf(&rows[i], x.name) }))
	}
	return columns
}

// axisColumns are the axes, without an axis "engine" that says what a column says already.
func axisColumns(rows []results.Row) (columns []column) {
	ofCases, told := caseAxes(rows)
	for _, name := range axes(rows) {
		c := telling(plain.Line(name))
		if slices.Contains(ofCases, name) && !slices.Contains(told, name) { // the others say it too
			c.weight = 5
		}
		c = c.filled(len(rows), func(i int) string { return axisOf(rows[i].Axes, name) }).aligned()
		if name != "engine" || slices.ContainsFunc(rows, func(r results.Row) bool {
			v, ok := r.Axes.Value(name)
			return ok && v != r.Deployment.Engine
		}) {
			columns = append(columns, c)
		}
	}
	return columns
}

// repetitionColumns tell measurements of one cell apart: by their repetition, and by
// their run where several have measured it.
func repetitionColumns(rows []results.Row) (columns []column) {
	repetition := column{key: "repetition", name: "rep"}.filled(len(rows),
		func(i int) string { return strconv.Itoa(rows[i].Repetition) })
	if !repetition.same() {
		columns = append(columns, repetition)
	}
	runs := map[string]string{} // of each cell
	for _, r := range rows {
		if run, ok := runs[r.ID]; ok && run != r.RunID {
			return append(columns, telling("run").filled(len(rows), func(i int) string { return rows[i].RunID }))
		}
		runs[r.ID] = r.RunID
	}
	return columns
}

// counts are the columns of how many requests went well and how many did not, of void cells too.
func counts(rows []results.Row) []column {
	each := " each"
	if len(rows) == 1 {
		each = ""
	}
	count := func(m Metric, weight int, constant func(text string) string) column {
		c := column{key: m.Name, group: "requests", name: m.Short, weight: weight, constant: constant}
		return c.with(len(rows), func(i int) (e entry) {
			if rows[i].Summary == nil {
				return e
			}
			if v, ok := m.of(&rows[i]); ok {
				e = entry{Text: number.Whole(int64(v)), Exact: number.Exact(v)}
			}
			return e
		})
	}
	return []column{
		count(completed, 65, func(text string) string { return text + " requests" + each }),
		count(failed, 95, func(text string) string {
			if text == "0" {
				return "none failed"
			}
			return text + " failed" + each
		}),
	}
}

type weighted struct {
	weight int
	Metric
}

// tabled are the figures of a table for which nobody has chosen any.
func tabled(rows []results.Row) []weighted {
	tail := tailPercentile(rows)
	if silent(rows) {
		return []weighted{{95, inputThroughput}, {92, inputPerGPU}, {0, requestThroughput}, {60, goodput}, {0, medianE2EL},
			{80, latency(e2el, tail)}, {20, latency(e2el, "mean")}}
	}
	var shares []weighted // of several members: over all GPUs, and over those of each role
	if slices.ContainsFunc(rows, func(r results.Row) bool { return len(r.Deployment.Members) > 0 }) {
		shares = []weighted{{92, perGPU}, {83, perDecodeGPU}, {82, perPrefillGPU}}
	}
	return slices.Concat([]weighted{{0, outputThroughput}}, shares, []weighted{
		{40, totalThroughput}, {45, requestThroughput}, {60, goodput},
		{62, prefixHits}, {63, acceptance}, {63, stepTokens},
		{20, latency(ttft, "mean")}, {90, medianTTFT}, {80, latency(ttft, tail)},
		{86, latency(ttfa, "median")}, {48, latency(ttfa, tail)},
		{85, medianTPOT}, {30, latency(tpot, tail)},
		{52, streamInterval}, {35, latency(itl, "median")}, {50, latency(itl, tail)},
		{70, medianE2EL}, {25, latency(e2el, tail)},
		{57, costOutput}, {10, costTotal}, {47, energyPerToken},
	})
}

// silent reports whether no request of the measured rows has generated a token, as those for embeddings do not.
func silent(rows []results.Row) bool {
	measured := those(rows, isMeasured)
	return len(measured) > 0 && !slices.ContainsFunc(measured, func(r *results.Row) bool { return !r.Summary.Silent() })
}

// chosenWeight is above that of every column that nobody has chosen.
const chosenWeight = 200

// figureColumns are the columns of what was measured: the figures that the layout names, whether any
// row has them or not, or else those of automatic that a row has. Void cells have counts alone.
func figureColumns(rows []results.Row, layout *Layout, automatic []weighted) []column {
	names := layout.Columns
	columns := slices.DeleteFunc(counts(rows), func(c column) bool { return slices.Contains(names, c.key) })
	loads, shared := rivals(rows), sharedReasons(rows)
	for i, m := range chosen(names) {
		weight := chosenWeight + len(names) - i
		if i == 0 {
			weight = 0 // stays
		}
		c := m.column(rows, weight)
		c.markBest(m, rows, loads, shared)
		c.bound(m, rows, layout)
		columns = append(columns, c)
	}
	if names == nil {
		for _, m := range automatic {
			if c := m.column(rows, m.weight); c.known() || m.weight == 0 {
				c.markBest(m.Metric, rows, loads, shared)
				c.bound(m.Metric, rows, layout)
				columns = append(columns, c)
			}
		}
	}
	return append(columns, sloColumn(rows)...)
}

func (m Metric) column(rows []results.Row, weight int) column {
	c := column{key: m.Name, group: m.Group, name: m.Short, weight: weight}
	switch {
	case m.Group == "Throughput":
		c.group = m.Unit
	case m.Unit == "ms":
		c.group += " ms"
	case m.Group == "Energy":
		c.group = ""
		if !strings.HasPrefix(m.Short, m.Unit) {
			c.name += " " + m.Unit
		}
	case m.Group == "" && m.Unit != "" && !strings.HasSuffix(m.Short, "/s"):
		c.name += " " + m.Unit
	}
	return c.with(len(rows), func(i int) entry {
		if v, ok := m.value(&rows[i]); ok {
			return entry{Text: number.Text(v), Exact: number.Exact(v)}
		}
		return entry{Needs: m.lacks(&rows[i])}
	})
}

// markBest marks what leads under each load, of cells that were measured once each.
func (c column) markBest(m Metric, rows []results.Row, loads [][][]*results.Row, shared []string) {
	leading := map[*results.Row]bool{}
	for _, of := range leaders(m, loads, shared) {
		leading[of[0]] = len(of) == 1
	}
	for i := range rows {
		if leading[&rows[i]] {
			c.entries[i].Class = best
		}
	}
}

// sloColumn says which cells meet their SLO, and which lines of it the others miss; nil:
// there is none.
func sloColumn(rows []results.Row) []column {
	c := column{key: "slo", name: "SLO", weight: 61, left: true}.with(len(rows), func(i int) entry {
		met := metText(&rows[i])
		_, missed, _ := attained(&rows[i])
		return entry{Text: strings.TrimSpace(met + " " + strings.Join(missed, ", ")), Exact: met}
	})
	if !c.known() {
		return nil
	}
	return []column{c}
}

// verdictColumn says whether a line can be trusted. A doubt stands in its line.
func verdictColumn(rows []results.Row, notes doubts) []column {
	c := column{key: "verdict", name: "verdict", left: true}
	if len(notes) == 0 {
		c.constant = func(text string) string {
			if len(rows) == 1 {
				return text
			}
			return "all " + text
		}
	}
	mix := mixed(rows)
	return []column{c.with(len(rows), func(i int) entry {
		r := &rows[i]
		verdict := plain.Line(r.Verdict().Verdict)
		kind := ""
		if mix {
			kind = kindOfRun(r)
		}
		e := entry{Text: noted(verdict, kind, forced(r)), Exact: verdict, Class: verdict, Doubt: notes.number(r)}
		if r.Stale {
			e.Text += ", stale"
		}
		return e
	})}
}

// tailPercentile is the percentile that stands for the slowest requests: "p99", or else the greatest
// that all measured cells have and one has requests enough for.
func tailPercentile(rows []results.Row) string {
	var known []load.Stats
	for _, r := range those(rows, isMeasured) {
		known = append(known, r.Summary.TTFT)
	}
	if silent(rows) {
		for i, r := range those(rows, isMeasured) {
			known[i] = r.Summary.E2EL
		}
	}
	all := percentiles(known)
	slices.Reverse(all)
	for _, p := range append([]string{"p99"}, all...) {
		lacks := func(s load.Stats) bool { _, has := s.Percentiles[p[1:]]; return !has }
		carries := func(s load.Stats) bool { return s.Lacks(p) == 0 }
		if !slices.ContainsFunc(known, lacks) && slices.ContainsFunc(known, carries) {
			return p
		}
	}
	return "p99"
}
