package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
)

// telling is a column that stays unless all rows have the same in it.
func telling(name string) Column {
	return Column{Key: name, Name: name, Left: true, constant: func(text string) string { return name + " " + text }}
}

// Identity are the columns that say what was measured on what.
func Identity(rows []results.Row) (columns []Column) {
	for _, x := range []struct {
		name   string
		weight int
	}{{"benchmark", 0}, {"engine", 0}, {"model", 28}, {"host", 58}, {"gpus", 55}} {
		c := telling(x.name)
		c.weight = x.weight
		columns = append(columns, c.filled(len(rows), func(i int) string { return figure.WordOf(&rows[i], x.name) }))
	}
	return columns
}

// AxisColumns are the axes, without an axis "engine" that says what a column says already.
func AxisColumns(rows []results.Row) (columns []Column) {
	ofCases, told := figure.CaseAxes(rows)
	for _, name := range figure.Axes(rows) {
		c := telling(plain.Line(name))
		if slices.Contains(ofCases, name) && !slices.Contains(told, name) { // the others say it too
			c.weight = 5
		}
		c = c.filled(len(rows), func(i int) string { return figure.AxisOf(rows[i].Axes, name) }).aligned()
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
func repetitionColumns(rows []results.Row) (columns []Column) {
	repetition := Column{Key: "repetition", Name: "rep"}.filled(len(rows),
		func(i int) string { return strconv.Itoa(rows[i].Repetition) })
	if !repetition.Same() {
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

// countColumns are the columns of how many requests went well and how many did not, of void cells too.
func countColumns(rows []results.Row) []Column {
	each := " each"
	if len(rows) == 1 {
		each = ""
	}
	count := func(m figure.Metric, weight int, constant func(text string) string) Column {
		c := Column{Key: m.Name, Group: "requests", Name: m.Short, weight: weight, constant: constant}
		return c.With(len(rows), func(i int) (e Entry) {
			if rows[i].Summary == nil {
				return e
			}
			if v, ok := m.Of(&rows[i]); ok {
				e = Entry{Text: number.Whole(int64(v)), Exact: number.Exact(v)}
			}
			return e
		})
	}
	return []Column{
		count(figure.Completed, 65, func(text string) string { return text + " requests" + each }),
		count(figure.Failed, 95, func(text string) string {
			if text == "0" {
				return "none failed"
			}
			return text + " failed" + each
		}),
	}
}

// Weighted is a metric of a table, and how long it stays when there is no room.
type Weighted struct {
	Weight int
	figure.Metric
}

// tabled are the figures of a table for which nobody has chosen any.
func tabled(rows []results.Row) []Weighted {
	tail := figure.TailPercentile(rows)
	if figure.Silent(rows) {
		return []Weighted{{95, figure.InputThroughput}, {92, figure.InputPerGPU}, {0, figure.RequestThroughput}, {60, figure.Goodput}, {0, figure.MedianE2EL},
			{80, figure.Latency(figure.E2EL, tail)}, {20, figure.Latency(figure.E2EL, "mean")}}
	}
	var shares []Weighted // of several members: over all GPUs, and over those of each role
	if slices.ContainsFunc(rows, func(r results.Row) bool { return len(r.Deployment.Members) > 0 }) {
		shares = []Weighted{{92, figure.PerGPU}, {83, figure.PerDecodeGPU}, {82, figure.PerPrefillGPU}}
	}
	return slices.Concat([]Weighted{{0, figure.OutputThroughput}}, shares, []Weighted{
		{40, figure.TotalThroughput}, {45, figure.RequestThroughput}, {60, figure.Goodput},
		{62, figure.PrefixHits}, {63, figure.Acceptance}, {63, figure.StepTokens},
		{20, figure.Latency(figure.TTFT, "mean")}, {90, figure.MedianTTFT}, {80, figure.Latency(figure.TTFT, tail)},
		{86, figure.Latency(figure.TTFA, "median")}, {48, figure.Latency(figure.TTFA, tail)},
		{85, figure.MedianTPOT}, {30, figure.Latency(figure.TPOT, tail)},
		{52, figure.StreamInterval}, {35, figure.Latency(figure.ITL, "median")}, {50, figure.Latency(figure.ITL, tail)},
		{70, figure.MedianE2EL}, {25, figure.Latency(figure.E2EL, tail)},
		{57, figure.CostOutput}, {10, figure.CostTotal}, {47, figure.EnergyPerToken},
	})
}

// figureColumns are the columns of what was measured: the figures that the layout names, or else those of
// automatic, as far as these rows have them. What the layout names and none of all rows has stays, too. Void
// cells have counts alone.
func figureColumns(rows, all []results.Row, layout *figure.Layout, automatic []Weighted) []Column {
	names := layout.Columns
	columns := slices.DeleteFunc(countColumns(rows), func(c Column) bool { return slices.Contains(names, c.Key) })
	wanted := automatic
	if names != nil {
		wanted = nil
		for i, m := range figure.Chosen(names) {
			weight := chosenWeight + len(names) - i
			if i == 0 {
				weight = 0 // stays
			}
			wanted = append(wanted, Weighted{weight, m})
		}
	}
	values := map[string][]float64{} // of each timing
	for _, m := range wanted {
		for i := range rows {
			if v, ok := m.Value(&rows[i]); ok {
				values[m.Group] = append(values[m.Group], v)
			}
		}
	}
	loads, shared := figure.Rivals(rows), figure.SharedReasons(rows)
	for _, m := range wanted {
		unit, per := number.Unit(m.Unit, values[m.Group]...)
		c := columnOf(m.Metric, rows, m.Weight, unit, per)
		if m.Weight != 0 && !c.Known() {
			needed := slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Needs > 0 })
			if names == nil || !needed && figure.AnyValue(all, m.Metric) {
				continue
			}
			c.weight = 1 // the lab names it
		}
		c.markBest(m.Metric, rows, loads, shared)
		if layout.Intervals {
			c.bound(m.Metric, rows, per)
		}
		columns = append(columns, c)
	}
	return append(columns, sloColumn(rows)...)
}

// columnOf is the column of a metric, in a unit that is so many of its own.
func columnOf(m figure.Metric, rows []results.Row, weight int, unit string, per float64) Column {
	c := Column{Key: m.Name, Group: m.Group, Name: m.Short, weight: weight}
	switch {
	case m.Group == "Throughput":
		c.Group = unit
	case m.Unit == "ms":
		c.Group += " " + unit
	case m.Group == "Energy":
		c.Group = ""
		if !strings.HasPrefix(m.Short, unit) {
			c.Name += " " + unit
		}
	case m.Group == "" && unit != "" && !strings.HasSuffix(m.Short, "/s"):
		c.Name += " " + unit
	}
	return c.With(len(rows), func(i int) Entry {
		if v, ok := m.Value(&rows[i]); ok {
			return Entry{Text: number.Text(v / per), Exact: number.Exact(v)}
		}
		return Entry{Needs: m.Lacks(&rows[i])}
	})
}

// markBest marks what leads under each load, of cells that were measured once each.
func (c Column) markBest(m figure.Metric, rows []results.Row, loads [][][]*results.Row, shared []string) {
	leading := map[*results.Row]bool{}
	for _, of := range figure.Leaders(m, loads, shared) {
		leading[of[0]] = len(of) == 1
	}
	for i := range rows {
		if leading[&rows[i]] {
			c.Entries[i].Class = best
		}
	}
}

// sloColumn says which cells meet their SLO, and which lines of it the others miss; nil:
// there is none.
func sloColumn(rows []results.Row) []Column {
	c := Column{Key: "slo", Name: "SLO", weight: 61, Left: true}.With(len(rows), func(i int) Entry {
		met := figure.MetText(&rows[i])
		_, missed, _ := figure.Attained(&rows[i])
		return Entry{Text: strings.TrimSpace(met + " " + strings.Join(missed, ", ")), Exact: met}
	})
	if !c.Known() {
		return nil
	}
	return []Column{c}
}

// callColumn says how far each cell's deployment calls tools where its baseline does; nil: nobody was asked to.
func callColumn(rows []results.Row) []Column {
	c := Column{Key: "tool_call_f1", Name: "calls F1", weight: 96}.With(len(rows), func(i int) Entry {
		if rows[i].CallF1 == nil {
			return Entry{}
		}
		return Entry{Text: Ratio(*rows[i].CallF1), Exact: number.Exact(*rows[i].CallF1)}
	})
	if !c.Known() {
		return nil
	}
	return []Column{c}
}

// accuracyColumn says what the answers of each cell's deployment prove; nil: nobody was asked anything.
func accuracyColumn(rows []results.Row) []Column {
	c := Column{Key: "accuracy", Name: "accuracy", weight: 97, Left: true, constant: func(text string) string { return "accuracy " + text }}.With(len(rows),
		func(i int) Entry {
			e := Entry{Text: plain.Line(rows[i].Checked)}
			if e.Text == string(accuracy.Worse) {
				e.Class = load.Suspect
			}
			return e
		})
	if !c.Known() {
		return nil
	}
	return []Column{c}
}

func verdictColumn(rows []results.Row, notes say.Doubts) []Column {
	c := Column{Key: "verdict", Name: "verdict", Left: true}
	if !slices.ContainsFunc(rows, func(r results.Row) bool { return notes.Number(&r) > 0 }) {
		c.constant = func(text string) string {
			if len(rows) == 1 {
				return text
			}
			return "all " + text
		}
	}
	mix := say.Mixed(rows)
	return []Column{c.With(len(rows), func(i int) Entry {
		r := &rows[i]
		verdict := plain.Line(r.Verdict().Verdict)
		kind := ""
		if mix {
			kind = figure.KindOfRun(r)
		}
		e := Entry{Text: say.Noted(verdict, kind, figure.Forced(r)), Exact: verdict, Class: verdict, Doubt: notes.Number(r)}
		if r.Stale {
			e.Text += ", stale"
		}
		return e
	})}
}

// chosenWeight is above that of every column that nobody has chosen.
const chosenWeight = 200

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

// bound adds the interval of each figure in brackets, in a unit that is so many of the metric's.
func (c *Column) bound(m figure.Metric, rows []results.Row, per float64) {
	for i := range rows {
		if x, ok := m.Interval(&rows[i]); ok {
			x.Low, x.High = x.Low/per, x.High/per
			c.Entries[i].Text += " [" + say.BoundsText(x) + "]"
		}
	}
}

// marks are those of percentiles in a sheet, each once.
func (s *Sheet) marks() (marks []string) {
	for _, c := range s.Columns {
		for _, e := range c.Entries {
			if e.Needs > 0 {
				marks = figure.Once(marks, say.Fewer(e.Needs))
			}
		}
	}
	return marks
}

// explained are what columns in tables are of, and the marks of percentiles, or which one is left out as no row carries it.
func explained(rows []results.Row, layout *figure.Layout, tables []*Sheet) (sentences []string) {
	var marks []string
	for _, s := range tables {
		marks = figure.Once(marks, s.marks()...)
		if sentences == nil && slices.ContainsFunc(s.Columns, func(c Column) bool { return c.Key == figure.PrefixHits.Name }) {
			sentences = say.PrefillHits(rows)
		}
	}
	if marks != nil {
		return append(sentences, say.FewerText(marks))
	}
	m := figure.Latency(figure.TTFT, figure.TailPercentile(rows))
	for i := range rows {
		if n := m.Lacks(&rows[i]); n > 0 && layout.Columns == nil && !figure.AnyValue(rows, m) {
			return append(sentences, fmt.Sprintf("No %s: it needs %s requests.", m.Short, number.Whole(n)))
		}
	}
	return sentences
}
