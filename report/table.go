// Package report shows what was measured: tables for people, and exact numbers
// for programs.
//
// It computes nothing that a cell's summary does not hold, and knows nothing of
// where results are kept or how they were made.
package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// Options say how a table is printed.
type Options struct {
	// Width is how many characters a line may have; columns that matter less are
	// left out to fit. Zero is no limit.
	Width int
	// Columns are the metrics, by name, in order. Nil: those that matter most.
	Columns []string
}

// Table prints one line per cell in the order of rows. What is the same for all
// cells stands above the table instead of in a column; what puts a cell in doubt
// stands below it.
func Table(w io.Writer, rows []results.Row, opt Options) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "No results.")
		return err
	}
	notes := newFootnotes(rows)
	columns := slices.Concat(identity(rows), counts(rows), metrics(rows, opt.Columns))
	columns = append(columns, verdicts(rows, notes))

	var constant []string
	g := &grid{rows: len(rows)}
	for _, c := range columns {
		switch {
		case c.constant == nil || !c.same():
			g.columns = append(g.columns, c)
		case c.cells[0] != "" && c.cells[0] != none:
			constant = append(constant, c.constant(c.cells[0]))
		}
	}
	dropped := g.fit(opt.Width)

	var b bytes.Buffer
	paragraph := func(words []string, separator string) {
		for _, line := range wrap(words, separator, opt.Width) {
			fmt.Fprintln(&b, line)
		}
	}
	paragraph(origin(rows), ", ")
	if text := mark(rows[0]); text != "" && !mixed(rows) {
		fmt.Fprintln(&b, text)
	}
	paragraph(constant, ", ")
	b.WriteByte('\n')
	for _, line := range g.lines() {
		fmt.Fprintln(&b, line)
	}
	if len(notes.texts) > 0 {
		b.WriteByte('\n')
	}
	for i, text := range notes.texts {
		paragraph(strings.Fields(fmt.Sprintf("[%d] %s", i+1, text)), " ")
	}
	for _, text := range hostChanges(rows) {
		b.WriteByte('\n')
		paragraph(strings.Fields(text), " ")
	}
	if lines := spreadLines(Repetitions(rows), opt.Width); lines != nil {
		b.WriteByte('\n')
		for _, line := range lines {
			fmt.Fprintln(&b, line)
		}
	}
	if len(dropped) > 0 {
		b.WriteByte('\n')
		dropped[0] = fmt.Sprintf("Left out to fit %d columns: %s", opt.Width, dropped[0])
		paragraph(dropped, ", ")
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// none stands where there is no value.
const none = "-"

// origin says which labs and runs the cells come from.
func origin(rows []results.Row) []string {
	var labs, runs []string
	for _, r := range rows {
		if !slices.Contains(labs, r.Run.Lab) && r.Run.Lab != "" {
			labs = append(labs, r.Run.Lab)
		}
		if !slices.Contains(runs, r.RunID) {
			runs = append(runs, r.RunID)
		}
	}
	var words []string
	if len(labs) > 0 {
		words = append(words, "lab "+strings.Join(labs, ", "))
	}
	if len(runs) == 1 {
		words = append(words, "run "+runs[0])
	} else {
		words = append(words, fmt.Sprintf("%d runs from %s to %s", len(runs), slices.Min(runs), slices.Max(runs)))
	}
	return words
}

// mark says of a cell that is not a measurement of ours what it is.
func mark(r results.Row) string {
	switch r.Run.Command {
	case "rehearse":
		return "rehearsal: simulated engines, not a measurement"
	case "import":
		return "imported: measured by others"
	default:
		return ""
	}
}

// kindOfRun is the first word of [mark]: "rehearsal", "imported" or nothing.
func kindOfRun(r *results.Row) string {
	word, _, _ := strings.Cut(mark(*r), ":")
	return word
}

// mixed reports whether measurements stand beside something else.
func mixed(rows []results.Row) bool {
	return slices.ContainsFunc(rows, func(r results.Row) bool { return mark(r) != mark(rows[0]) })
}

// identity are the columns that say which cell a line is.
func identity(rows []results.Row) []column {
	text := func(weight int, name string, of func(r results.Row) string) column {
		c := column{name: plain.Line(name), left: true, weight: weight, constant: func(cell string) string { return plain.Line(name) + " " + cell }}
		for _, r := range rows {
			c.cells = append(c.cells, plain.Line(of(r)))
		}
		return c
	}
	columns := []column{
		text(0, "benchmark", func(r results.Row) string { return r.Benchmark }),
		text(0, "engine", func(r results.Row) string { return r.Deployment.Engine }),
		text(28, "model", func(r results.Row) string { return r.Deployment.Model }),
		text(58, "host", func(r results.Row) string { return r.Deployment.Host }),
		text(55, "gpus", func(r results.Row) string { return r.Deployment.GPUs }),
	}
	for _, name := range axes(rows) {
		c := text(0, name, func(r results.Row) string {
			v, ok := r.Axes.Value(name)
			if !ok {
				return none
			}
			return axisText(v)
		})
		c.left = !slices.ContainsFunc(c.cells, isNumber)
		if name == "engine" && !slices.ContainsFunc(rows, func(r results.Row) bool {
			v, ok := r.Axes.Value(name)
			return ok && v != r.Deployment.Engine
		}) {
			continue // there is that column already
		}
		columns = append(columns, c)
	}
	repetition := text(0, "rep", func(r results.Row) string { return strconv.Itoa(r.Repetition) })
	repetition.left = false
	if !repetition.same() {
		columns = append(columns, repetition)
	}
	runs := map[string]string{} // of each cell
	for _, r := range rows {
		if run, ok := runs[r.ID]; ok && run != r.RunID {
			columns = append(columns, text(0, "run", func(r results.Row) string { return r.RunID }))
			break
		}
		runs[r.ID] = r.RunID
	}
	return columns
}

// axes are the names of all axes, each benchmark's in its own order.
func axes(rows []results.Row) []string {
	var names []string
	for _, r := range rows {
		for _, a := range r.Axes {
			if !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

// axisText is the value as the lab's text has it: 6400, not 6,400.
func axisText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return plain.Line(fmt.Sprint(v))
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// counts are the columns of how many requests went well and how many did not.
func counts(rows []results.Row) []column {
	each := " each"
	if len(rows) == 1 {
		each = ""
	}
	good := column{group: "requests", name: "ok", weight: 65,
		constant: func(cell string) string { return cell + " requests" + each }}
	bad := column{group: "requests", name: "failed", weight: 95,
		constant: func(cell string) string {
			if cell == "0" {
				return "none failed"
			}
			return cell + " failed" + each
		}}
	for _, r := range rows {
		if r.Summary == nil {
			good.cells, bad.cells = append(good.cells, none), append(bad.cells, none)
			continue
		}
		good.cells = append(good.cells, countText(&r, completed))
		bad.cells = append(bad.cells, countText(&r, failed))
	}
	return []column{good, bad}
}

// countText is a count of a row, of a void one too.
func countText(r *results.Row, m metric) string {
	if v, ok := m.of(r); ok {
		return whole(int64(v))
	}
	return none
}

// chosenWeight is above that of every column that nobody has chosen.
const chosenWeight = 200

// metrics are the columns of numbers. Those of a void cell are left out: they
// are not a measurement.
func metrics(rows []results.Row, names []string) []column {
	var columns []column
	if names != nil {
		for i, m := range chosen(names) {
			weight := chosenWeight + len(names) - i
			if i == 0 {
				weight = 0 // stays
			}
			columns = append(columns, m.column(rows, weight))
		}
		return append(columns, sloColumn(rows)...)
	}
	add := func(weight int, group, name string, of func(s *load.Summary) string) {
		c := column{group: group, name: name, weight: weight}
		for _, r := range rows {
			if r.Verdict().Verdict == load.Void {
				c.cells = append(c.cells, none)
			} else {
				c.cells = append(c.cells, of(r.Summary))
			}
		}
		if slices.ContainsFunc(c.cells, func(cell string) bool { return cell != none }) || weight == 0 {
			columns = append(columns, c)
		}
	}
	others := func(weight int, m metric) {
		c := m.column(rows, weight)
		if slices.ContainsFunc(c.cells, func(cell string) bool { return cell != none }) {
			columns = append(columns, c)
		}
	}
	stat := func(weight int, metric, name string, stats func(*load.Summary) load.Stats, of func(load.Stats) (float64, bool)) {
		add(weight, metric+" ms", name, func(s *load.Summary) string {
			v, ok := of(stats(s))
			if ok && told(s, strings.ToLower(metric)+"_ms", name, stats(s).Count, v) {
				return number(v)
			}
			return none
		})
	}
	mean := func(s load.Stats) (float64, bool) { return s.Mean, true }
	median := func(s load.Stats) (float64, bool) { return s.Median, true }
	tail := tailPercentile(rows)
	worst := func(s load.Stats) (float64, bool) { v, ok := s.Percentiles[tail]; return v, ok }
	ttft := func(s *load.Summary) load.Stats { return s.TTFT }
	tpot := func(s *load.Summary) load.Stats { return s.TPOT }
	itl := func(s *load.Summary) load.Stats { return s.ITL }
	e2el := func(s *load.Summary) load.Stats { return s.E2EL }

	add(0, "tok/s", "output", func(s *load.Summary) string { return numberOrNone(s.OutputThroughput) })
	add(40, "tok/s", "total", func(s *load.Summary) string { return numberOrNone(s.TotalThroughput) })
	add(45, "", "req/s", func(s *load.Summary) string { return numberOrNone(s.RequestThroughput) })
	add(60, "", "goodput/s", func(s *load.Summary) string {
		if s.Goodput == nil {
			return none
		}
		return number(*s.Goodput)
	})
	columns = append(columns, sloColumn(rows)...)
	others(62, prefixHits)
	others(63, acceptance)
	others(63, stepTokens)
	stat(20, "TTFT", "mean", ttft, mean)
	stat(90, "TTFT", "p50", ttft, median)
	stat(80, "TTFT", "p"+tail, ttft, worst)
	stat(85, "TPOT", "mean", tpot, mean)
	stat(30, "TPOT", "p"+tail, tpot, worst)
	stat(35, "ITL", "p50", itl, median)
	stat(50, "ITL", "p"+tail, itl, worst)
	stat(70, "E2EL", "p50", e2el, median)
	stat(25, "E2EL", "p"+tail, e2el, worst)
	others(57, costOutput)
	others(10, costTotal)
	others(47, energyPerToken)
	return columns
}

// sloColumn says which cells meet their SLO, and which lines of it the others miss; nil:
// there is none.
func sloColumn(rows []results.Row) []column {
	c := column{name: "SLO", weight: 61, left: true}
	for i := range rows {
		text := none
		if met, missed, ok := attained(&rows[i]); ok && met {
			text = "met"
		} else if ok {
			text = "missed " + strings.Join(missed, ", ")
		}
		c.cells = append(c.cells, text)
	}
	if !slices.ContainsFunc(c.cells, func(cell string) bool { return cell != none }) {
		return nil
	}
	return []column{c}
}

// numberOrNone is a figure that is known when it is above zero.
func numberOrNone(v float64) string {
	if v > 0 {
		return number(v)
	}
	return none
}

// column is the metric of each row.
func (m metric) column(rows []results.Row, weight int) column {
	c := column{group: m.group, name: m.short, weight: weight}
	switch {
	case m.group == "Throughput":
		c.group = m.unit
	case m.unit == "ms":
		c.group += " ms"
	case m.group == "Energy":
		c.group = ""
		if !strings.HasPrefix(m.short, m.unit) {
			c.name += " " + m.unit
		}
	case m.group == "" && m.unit != "" && m.unit != m.short:
		c.name += " " + m.unit
	}
	for i := range rows {
		cell := none
		if v, ok := m.value(&rows[i]); ok {
			cell = number(v)
		}
		c.cells = append(c.cells, cell)
	}
	return c
}

// tailPercentile is the percentile that stands for the slowest requests: 99, or
// else the greatest that all measured cells have.
func tailPercentile(rows []results.Row) string {
	have := map[string]int{}
	measured := 0
	for _, r := range rows {
		if r.Verdict().Verdict == load.Void {
			continue
		}
		measured++
		for p := range r.Summary.TTFT.Percentiles {
			have[p]++
		}
	}
	best := "99"
	if have[best] == measured {
		return best
	}
	greatest := 0.0
	for p, n := range have {
		if v, err := strconv.ParseFloat(p, 64); err == nil && n == measured && v > greatest {
			best, greatest = p, v
		}
	}
	return best
}

// verdicts is the column that says whether a line can be trusted.
func verdicts(rows []results.Row, notes *footnotes) column {
	c := column{name: "verdict", left: true, constant: func(cell string) string {
		if len(rows) == 1 {
			return cell
		}
		return "all " + cell
	}}
	mix := mixed(rows)
	for _, r := range rows {
		text := plain.Line(r.Verdict().Verdict)
		if n := notes.number(r); n > 0 {
			text += fmt.Sprintf(" [%d]", n)
		}
		if word, _, _ := strings.Cut(mark(r), ":"); mix && word != "" {
			text += " (" + word + ")"
		}
		if r.Stale {
			text += ", stale"
		}
		c.cells = append(c.cells, text)
	}
	if len(notes.texts) > 0 {
		c.constant = nil // a doubt stands in its line
	}
	return c
}

// footnotes are the reasons against cells, each text once.
type footnotes struct{ texts []string }

func newFootnotes(rows []results.Row) *footnotes {
	f := &footnotes{}
	for _, r := range rows {
		if text := reasons(r); text != "" && !slices.Contains(f.texts, text) {
			f.texts = append(f.texts, text)
		}
	}
	return f
}

// number is the number of the cell's footnote, 0 when it has none.
func (f *footnotes) number(r results.Row) int { return slices.Index(f.texts, reasons(r)) + 1 }

// reasons are in one line each: an error may have pages, with the last log lines
// of an engine, which stay in the store.
func reasons(r results.Row) string {
	v := r.Verdict()
	all := v.Texts()
	if r.Error != "" && !slices.Contains(all, r.Error) {
		all = slices.Concat(all, []string{r.Error})
	}
	if len(all) == 0 {
		return ""
	}
	lines := make([]string, len(all))
	for i, reason := range all {
		lines[i], _, _ = strings.Cut(reason, "\n")
	}
	return plain.Line(cmp.Or(v.Verdict, "?") + ": " + strings.Join(lines, "; "))
}
