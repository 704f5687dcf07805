package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hclbench/load"
	"hclbench/results"
)

// Difference is what changed between two sets of results.
type Difference struct {
	FormatVersion string      `json:"format_version"`
	A             string      `json:"a"` // what they are: runs, files
	B             string      `json:"b"`
	Cells         []CellDiff  `json:"cells"`
	OnlyA         int         `json:"only_in_a"` // cells that the other has not
	OnlyB         int         `json:"only_in_b"`
	Inputs        []InputDiff `json:"inputs"` // what went in and is not the same
}

// CellDiff is one cell, by its benchmark and its axes, as both have it.
type CellDiff struct {
	Benchmark string       `json:"benchmark"`
	Engine    string       `json:"engine"`
	Axes      results.Axes `json:"axes"`
	VerdictA  string       `json:"verdict_a"` // the worst of its repetitions
	VerdictB  string       `json:"verdict_b"`
	Figures   []FigureDiff `json:"figures"`

	a, b []*results.Row
}

// FigureDiff is one metric of a cell.
type FigureDiff struct {
	Metric string  `json:"metric"`
	Unit   string  `json:"unit,omitempty"`
	Better string  `json:"better,omitempty"` // "higher" or "lower"
	A      Spread  `json:"a"`
	B      Spread  `json:"b"`
	Change float64 `json:"change_percent"` // of the median of B against that of A
	P      float64 `json:"p"`              // of the Mann–Whitney U test, two-sided
	// Significant says that the repetitions tell the two apart: P is below 0.05.
	Significant bool `json:"significant"`
	// Needed is how many repetitions of each would be, by an estimate; 0: enough
	// were made, or nothing can be said.
	Needed int `json:"repetitions_needed,omitempty"`

	of metric
}

// Spread is a metric over the repetitions of a cell.
type Spread struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// InputDiff is something that went into measurements and differs.
type InputDiff struct {
	Engine string `json:"engine"`
	Name   string `json:"name"` // "--tp", "image digest", "host: kernel", "version: torch"
	A      string `json:"a"`    // empty: not there
	B      string `json:"b"`
	Cells  int    `json:"cells"` // that it concerns
}

// DefaultMetrics are those that a comparison shows when none is named.
func DefaultMetrics() []string {
	return []string{"output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "median_e2el_ms"}
}

// Diff compares what two sets of results have of the same cells. Metrics are named
// as in [CSV]; an unknown one is an error.
func Diff(nameA string, a []results.Row, nameB string, b []results.Row, names []string) (*Difference, error) {
	known := map[string]metric{}
	for _, m := range allMetrics(slices.Concat(a, b)) {
		known[m.name] = m
	}
	var metrics []metric
	for _, name := range names {
		m, ok := known[name]
		if !ok && !slices.Contains(DefaultMetrics(), name) {
			return nil, fmt.Errorf("there is no metric %q in these results; there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if ok {
			metrics = append(metrics, m)
		}
	}
	d := &Difference{FormatVersion: FormatVersion, A: nameA, B: nameB, Cells: []CellDiff{}, Inputs: []InputDiff{}}
	order, cellsA := byCell(a)
	orderB, cellsB := byCell(b)
	inputs := map[InputDiff]int{}
	var inputOrder []InputDiff
	for _, key := range order {
		rowsA, rowsB := cellsA[key], cellsB[key]
		if rowsB == nil {
			d.OnlyA++
			continue
		}
		r := rowsA[0]
		c := CellDiff{Benchmark: r.Benchmark, Engine: r.Deployment.Engine, Axes: r.Axes, VerdictA: worst(rowsA), VerdictB: worst(rowsB), a: rowsA, b: rowsB}
		for _, m := range metrics {
			if f, ok := figureDiff(m, rowsA, rowsB); ok {
				c.Figures = append(c.Figures, f)
			}
		}
		d.Cells = append(d.Cells, c)
		for _, i := range inputDiffs(r, rowsB[0]) {
			if inputs[i] == 0 {
				inputOrder = append(inputOrder, i)
			}
			inputs[i]++
		}
	}
	for _, key := range orderB {
		if cellsA[key] == nil {
			d.OnlyB++
		}
	}
	for _, i := range inputOrder {
		n := inputs[i]
		i.Cells = n
		d.Inputs = append(d.Inputs, i)
	}
	return d, nil
}

// byCell groups rows by what they measured: benchmark and axes, whatever served.
func byCell(rows []results.Row) (order []string, cells map[string][]*results.Row) {
	cells = map[string][]*results.Row{}
	for i := range rows {
		r := &rows[i]
		key := r.Benchmark + "\x00" + fmt.Sprint(r.Axes)
		if _, engine := r.Axes.Value("engine"); !engine {
			key += "\x00" + r.Deployment.Engine
		}
		if cells[key] == nil {
			order = append(order, key)
		}
		cells[key] = append(cells[key], r)
	}
	return order, cells
}

// worst is the worst verdict of some rows.
func worst(rows []*results.Row) string {
	verdicts := []string{load.Valid, load.Imported, load.Suspect, load.Void}
	at := 0
	for _, r := range rows {
		at = max(at, slices.Index(verdicts, r.Verdict().Verdict))
	}
	return verdicts[at]
}

func figureDiff(m metric, rowsA, rowsB []*results.Row) (FigureDiff, bool) {
	a, b := valuesOf(m, rowsA), valuesOf(m, rowsB)
	if len(a) == 0 || len(b) == 0 {
		return FigureDiff{}, false
	}
	f := FigureDiff{Metric: m.name, Unit: m.unit, A: spread(a), B: spread(b), P: rankTest(a, b), of: m}
	switch m.better {
	case 1:
		f.Better = "higher"
	case -1:
		f.Better = "lower"
	}
	if f.A.Median != 0 {
		f.Change = (f.B.Median/f.A.Median - 1) * 100
	}
	f.Significant = f.P < significance
	if !f.Significant {
		if f.Needed = needed(a, b); f.Needed == 0 && (len(a) < fewest || len(b) < fewest) {
			f.Needed = fewest
		}
	}
	return f, true
}

func valuesOf(m metric, rows []*results.Row) []float64 {
	var values []float64
	for _, r := range rows {
		if v, ok := m.value(r); ok {
			values = append(values, v)
		}
	}
	return values
}

func spread(values []float64) Spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Spread{N: n, Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// inputDiffs are what went into two measurements of a cell and differs.
func inputDiffs(a, b *results.Row) []InputDiff {
	x, y := inputsOf(a), inputsOf(b)
	names := maps.Clone(x)
	maps.Copy(names, y)
	var out []InputDiff
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if x[name] != y[name] {
			out = append(out, InputDiff{Engine: a.Deployment.Engine, Name: name, A: x[name], B: y[name]})
		}
	}
	return out
}

// inputsOf is everything that is known to have gone into a measurement, by name.
func inputsOf(r *results.Row) map[string]string {
	d := &r.Deployment
	in := map[string]string{
		"engine": d.Engine, "host": d.Host, "gpus": d.GPUs, "model": d.Model, "image": d.Image, "image digest": d.Digest,
		"hcl": r.Run.Version, "prefix cache": r.CacheReset,
	}
	for name, v := range d.Identity {
		in[name] = v
	}
	for name, v := range r.Identity {
		if name != "deployment" { // it sums the others up
			in[name] = v
		}
	}
	for name, v := range d.Versions {
		in["version: "+name] = v
	}
	flatten(in, "host:", made(d.Facts))
	var served any
	if json.Unmarshal(d.Served, &served) == nil {
		flatten(in, "served:", served)
	}
	return in
}

// flatten puts the leaves of a JSON value into a map: "host: gpus[0].driver".
func flatten(out map[string]string, name string, v any) {
	join := func(part string) string {
		if strings.HasSuffix(name, ":") {
			return name + " " + part
		}
		return name + "." + part
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(out, join(k), x)
		}
	case []any:
		for i, x := range v {
			flatten(out, fmt.Sprintf("%s[%d]", name, i), x)
		}
	case float64:
		out[name] = strconv.FormatFloat(v, 'f', -1, 64)
	case nil:
	default:
		out[name] = fmt.Sprint(v)
	}
}

// Write writes the comparison: "text", "markdown", "json" or "benchstat", which is
// the benchmark format of Go with each repetition on a line of its own.
func (d *Difference) Write(w io.Writer, format string, width int) error {
	var b bytes.Buffer
	switch format {
	case "json":
		enc := json.NewEncoder(&b)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(d); err != nil {
			return err
		}
	case "benchstat":
		d.benchstat(&b)
	case "markdown":
		d.markdown(&b)
	default:
		d.text(&b, width)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// tables are the cells, a table for each metric.
func (d *Difference) tables() (titles []string, grids []*grid) {
	var order []metric
	for _, c := range d.Cells {
		for _, f := range c.Figures {
			if !slices.ContainsFunc(order, func(m metric) bool { return m.name == f.Metric }) {
				order = append(order, f.of)
			}
		}
	}
	for _, m := range order {
		g := &grid{}
		cell, axes := column{name: "benchmark", left: true}, column{name: "cell", left: true}
		a, b := column{name: "A"}, column{name: "B"}
		change, sure := column{name: "change"}, column{name: "", left: true}
		for _, c := range d.Cells {
			i := slices.IndexFunc(c.Figures, func(f FigureDiff) bool { return f.Metric == m.name })
			if i < 0 {
				continue
			}
			f := c.Figures[i]
			g.rows++
			cell.cells = append(cell.cells, c.Benchmark)
			axes.cells = append(axes.cells, c.name())
			a.cells, b.cells = append(a.cells, f.A.text()), append(b.cells, f.B.text())
			change.cells = append(change.cells, f.text())
			sure.cells = append(sure.cells, f.doubt(c))
		}
		g.columns = []column{cell, axes, a, b, change, sure}
		unit := m.unit
		if unit != "" {
			unit = ", " + unit
		}
		titles = append(titles, fmt.Sprintf("%s%s", m.title, unit))
		grids = append(grids, g)
	}
	return titles, grids
}

// name is the cell's engine and axes.
func (c CellDiff) name() string {
	parts := []string{c.Engine}
	for _, x := range c.Axes {
		if x.Name != "engine" {
			parts = append(parts, fmt.Sprintf("%s=%s", x.Name, axisText(x.Value)))
		}
	}
	return strings.Join(parts, " ")
}

// text is the median, with half the range of the repetitions.
func (s Spread) text() string {
	t := number(s.Median)
	if s.N > 1 && s.Median > 0 {
		t += fmt.Sprintf(" ±%.0f%%", math.Ceil(max(s.Max-s.Median, s.Median-s.Min)/s.Median*100))
	}
	return t
}

// text is the change, or ~ where the repetitions do not tell the two apart.
func (f FigureDiff) text() string {
	if !f.Significant && min(f.A.N, f.B.N) >= fewest {
		return "~"
	}
	return fmt.Sprintf("%+.1f %%", f.Change)
}

// doubt says how sure a change is.
func (f FigureDiff) doubt(c CellDiff) string {
	var words []string
	switch n := min(f.A.N, f.B.N); {
	case f.Significant || n >= fewest:
		words = append(words, fmt.Sprintf("p=%.3f n=%d+%d", f.P, f.A.N, f.B.N))
		if !f.Significant && f.Needed > 0 {
			words = append(words, fmt.Sprintf("some %d repetitions would tell", f.Needed))
		}
	default:
		words = append(words, fmt.Sprintf("n=%d+%d, at least %d tell chance apart", f.A.N, f.B.N, max(f.Needed, fewest)))
	}
	for _, v := range []struct{ side, verdict string }{{"A", c.VerdictA}, {"B", c.VerdictB}} {
		if v.verdict != load.Valid {
			words = append(words, v.side+" "+v.verdict)
		}
	}
	return strings.Join(words, ", ")
}

// rest says what was not compared.
func (d *Difference) rest() string {
	var words []string
	for _, side := range []struct {
		n    int
		name string
	}{{d.OnlyA, "A"}, {d.OnlyB, "B"}} {
		if side.n > 0 {
			words = append(words, fmt.Sprintf("%d only in %s", side.n, side.name))
		}
	}
	s := fmt.Sprintf("%d cells in both", len(d.Cells))
	if len(words) > 0 {
		s += ", " + strings.Join(words, ", ")
	}
	return s
}

func (d *Difference) inputGrid() *grid {
	engine, name := column{name: "engine", left: true}, column{name: "what went in", left: true}
	a, b, cells := column{name: "A", left: true}, column{name: "B", left: true}, column{name: "cells"}
	for _, i := range d.Inputs {
		engine.cells, name.cells = append(engine.cells, i.Engine), append(name.cells, i.Name)
		a.cells, b.cells = append(a.cells, orNone(i.A)), append(b.cells, orNone(i.B))
		cells.cells = append(cells.cells, strconv.Itoa(i.Cells))
	}
	return &grid{columns: []column{engine, name, a, b, cells}, rows: len(d.Inputs)}
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

func (d *Difference) text(b *bytes.Buffer, width int) {
	fmt.Fprintf(b, "A: %s\nB: %s\n%s\n", d.A, d.B, d.rest())
	titles, grids := d.tables()
	for i, g := range grids {
		fmt.Fprintf(b, "\n%s\n", titles[i])
		g.fit(width)
		for _, line := range g.lines() {
			fmt.Fprintln(b, line)
		}
	}
	if len(d.Cells) == 0 {
		return
	}
	if len(d.Inputs) == 0 {
		b.WriteString("\nEverything that is known to have gone in is the same.\n")
		return
	}
	b.WriteString("\nWhat else is not the same\n")
	for _, line := range d.inputGrid().lines() {
		fmt.Fprintln(b, line)
	}
}

func (d *Difference) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "A: %s  \nB: %s  \n%s\n", markdownText(d.A), markdownText(d.B), d.rest())
	titles, grids := d.tables()
	for i, g := range grids {
		fmt.Fprintf(b, "\n**%s**\n\n", titles[i])
		markdownTable(b, g.columns)
	}
	if len(d.Inputs) > 0 {
		b.WriteString("\n**What else is not the same**\n\n")
		markdownTable(b, d.inputGrid().columns)
	}
}

// benchstat writes the rows of both sides, told apart by the key "side":
// benchstat -col side.
func (d *Difference) benchstat(b *bytes.Buffer) {
	for _, side := range []struct {
		name, of string
		rows     func(CellDiff) []*results.Row
	}{{"A", d.A, func(c CellDiff) []*results.Row { return c.a }}, {"B", d.B, func(c CellDiff) []*results.Row { return c.b }}} {
		fmt.Fprintf(b, "side: %s\nresults: %s\n", side.name, strings.Join(strings.Fields(side.of), " "))
		for _, c := range d.Cells {
			for _, r := range side.rows(c) {
				var figures []string
				for _, f := range c.Figures {
					if v, ok := f.of.value(r); ok {
						unit := strings.ReplaceAll(f.Metric, "_ms", "-ms")
						figures = append(figures, fmt.Sprintf("%s %s", exact(v), unit))
					}
				}
				if len(figures) > 0 {
					fmt.Fprintf(b, "Benchmark%s\t1\t%s\n", benchmarkName(c), strings.Join(figures, "\t"))
				}
			}
		}
	}
}

// benchmarkName is a cell in the form of Go's benchmarks: Online/engine=vllm.h200/concurrency=4.
func benchmarkName(c CellDiff) string {
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || r == '/' {
				return '_'
			}
			return r
		}, s)
	}
	name := []rune(clean(c.Benchmark))
	name[0] = unicode.ToUpper(name[0])
	parts := []string{string(name), "engine=" + clean(c.Engine)}
	for _, x := range c.Axes {
		if x.Name != "engine" {
			parts = append(parts, clean(x.Name+"="+axisText(x.Value)))
		}
	}
	return strings.Join(parts, "/")
}

// Limit is a change that must not be, such as "output_throughput < -5%".
type Limit struct {
	Metric string
	Below  bool    // fails when the change is below, else above
	At     float64 // percent
	Text   string
}

// ParseLimit reads "METRIC < -5%" or "METRIC > 10%".
func ParseLimit(text string) (Limit, error) {
	for _, op := range []string{"<", ">"} {
		metric, rest, ok := strings.Cut(text, op)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "%")), 64)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(rest), "%") || strings.TrimSpace(metric) == "" {
			break
		}
		return Limit{Metric: strings.TrimSpace(metric), Below: op == "<", At: v, Text: text}, nil
	}
	return Limit{}, fmt.Errorf("%q is not a limit; write for example 'output_throughput < -5%%' or 'p99_ttft_ms > 10%%'", text)
}

// Broken is a limit that a cell breaks.
type Broken struct {
	Limit Limit
	Cell  CellDiff
	By    FigureDiff
}

func (b Broken) String() string {
	return fmt.Sprintf("%s %s: %s changed by %+.1f %% (%s to %s)", b.Cell.Benchmark, b.Cell.name(), b.Limit.Metric, b.By.Change, number(b.By.A.Median), number(b.By.B.Median))
}

// Check returns what breaks the limits. A change that enough repetitions show to
// be chance breaks none; with too few to tell, the medians decide.
func (d *Difference) Check(limits []Limit) []Broken {
	var found []Broken
	for _, c := range d.Cells {
		for _, l := range limits {
			for _, f := range c.Figures {
				beyond := l.Below && f.Change < l.At || !l.Below && f.Change > l.At
				chance := !f.Significant && min(f.A.N, f.B.N) >= fewest
				if f.Metric == l.Metric && beyond && !chance {
					found = append(found, Broken{l, c, f})
				}
			}
		}
	}
	return found
}

// JUnit writes the limits as test cases that CI systems show: one for each limit
// of each cell.
func (d *Difference) JUnit(w io.Writer, limits []Limit) error {
	type failure struct {
		Message string `xml:"message,attr"`
	}
	type testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	s := suite{Name: "hcl compare"}
	broken := d.Check(limits)
	for _, c := range d.Cells {
		for _, l := range limits {
			if !slices.ContainsFunc(c.Figures, func(f FigureDiff) bool { return f.Metric == l.Metric }) {
				continue
			}
			t := testCase{Class: c.Benchmark, Name: c.name() + ": " + l.Text}
			if i := slices.IndexFunc(broken, func(b Broken) bool {
				return b.Limit == l && b.Cell.name() == c.name() && b.Cell.Benchmark == c.Benchmark
			}); i >= 0 {
				t.Failure = &failure{broken[i].String()}
				s.Failures++
			}
			s.Tests++
			s.Cases = append(s.Cases, t)
		}
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}
