package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// Difference is what changed between two sets of results.
type Difference struct {
	FormatVersion string      `json:"format_version"`
	A             string      `json:"a"` // what they are: runs, files
	B             string      `json:"b"`
	Cells         []CellDiff  `json:"cells"`     // that both have
	OnlyA         int         `json:"only_in_a"` // cells that the other has not
	OnlyB         int         `json:"only_in_b"`
	Inputs        []InputDiff `json:"inputs"`           // what went in and is not the same
	Notes         []string    `json:"notes,omitempty"`  // what holds of either as a whole
	Checks        []Check     `json:"checks,omitempty"` // of limits, where there are any

	onlyA, onlyB []CellDiff
	fields       fields // that a condition may be about
}

// CellDiff is one cell as both have it.
type CellDiff struct {
	Benchmark string       `json:"benchmark"`
	Engine    string       `json:"engine"`
	Axes      results.Axes `json:"axes"`
	VerdictA  string       `json:"verdict_a"` // the worst of its repetitions
	VerdictB  string       `json:"verdict_b"`
	Figures   []FigureDiff `json:"figures"` // that both have
	// Unlike is why the two are not of the same thing: other GPUs, another model,
	// another load. Empty: they are, as far as is known.
	Unlike []Unlike `json:"unlike,omitempty"`

	a, b  []*results.Row
	twins bool // B has different things of this name
}

// Unlike is something that makes two cells not comparable.
type Unlike struct {
	What string `json:"what"` // one of [Differing]
	A    string `json:"a"`
	B    string `json:"b"`
}

// FigureDiff is one metric of a cell.
type FigureDiff struct {
	Metric string  `json:"metric"`
	Unit   string  `json:"unit,omitempty"`
	Better string  `json:"better,omitempty"` // "higher" or "lower"
	A      Spread  `json:"a"`
	B      Spread  `json:"b"`
	Change Percent `json:"change_percent"` // of the median of B against that of A
	P      float64 `json:"p"`              // of the Mann–Whitney U test, two-sided
	// Significant says that the repetitions tell the two apart: P is below 0.05.
	Significant bool `json:"significant"`
	// Needed is how many repetitions of each would be, by an estimate; 0: enough
	// were made, or nothing can be said.
	Needed int `json:"repetitions_needed,omitempty"`

	of metric
}

// Percent is a change. From zero it is infinite, which JSON writes as null.
type Percent float64

// MarshalJSON writes a number, or null for what none can say.
func (p Percent) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(p), 0) || math.IsNaN(float64(p)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(p))
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
	var metrics []metric
	for _, name := range names {
		m, ok := metricNamed(name)
		if !ok {
			var known []string
			for _, m := range allMetrics(slices.Concat(a, b)) {
				known = append(known, m.name)
			}
			return nil, fmt.Errorf("there is no metric %q; there are %s", name, strings.Join(slices.Sorted(slices.Values(known)), ", "))
		}
		metrics = append(metrics, m)
	}
	d := &Difference{FormatVersion: FormatVersion, A: nameA, B: nameB, Cells: []CellDiff{}, Inputs: []InputDiff{}, fields: newFields(slices.Concat(a, b))}
	for _, c := range match(setsOf(a), setsOf(b)) {
		switch {
		case c.b == nil:
			d.onlyA = append(d.onlyA, c)
		case c.a == nil:
			d.onlyB = append(d.onlyB, c)
		default:
			for _, m := range metrics {
				if f, ok := figureDiff(m, c.a, c.b); ok {
					c.Figures = append(c.Figures, f)
				}
			}
			d.Cells = append(d.Cells, c)
		}
	}
	for _, side := range []struct {
		name string
		rows []results.Row
	}{{"A", a}, {"B", b}} {
		for _, sentence := range hostChanges(side.rows) {
			d.Notes = append(d.Notes, side.name+": "+sentence)
		}
	}
	d.OnlyA, d.OnlyB = len(d.onlyA), len(d.onlyB)
	d.Inputs = append(d.Inputs, allInputs(d.Cells)...)
	return d, nil
}

// set are the repetitions of one cell.
type set struct {
	label, identity string
	rows            []*results.Row
	taken           bool // it has found its like
}

// setsOf puts repetitions together. What a plan no longer asks for is compared with
// nothing.
func setsOf(rows []results.Row) []*set {
	var out []*set
	byGroup := map[string]*set{}
	for i := range rows {
		r := &rows[i]
		if r.Stale {
			continue
		}
		key := groupOf(r)
		if byGroup[key] == nil {
			byGroup[key] = &set{label: labelOf(r), identity: identityOf(r)}
			out = append(out, byGroup[key])
		}
		byGroup[key].rows = append(byGroup[key].rows, r)
	}
	return out
}

// match finds for each cell of A that of B: what is the same and is called the same;
// else what is the same, whatever it is called; else what is called the same, where
// that says which one is meant. Cells of A come first, in their order.
func match(a, b []*set) []CellDiff {
	like := map[*set]*set{}
	for _, key := range []func(*set) string{
		func(s *set) string { return s.label + "\x00" + s.identity },
		func(s *set) string { return s.identity },
		func(s *set) string { return s.label },
	} {
		ofA, ofB := byKey(a, key), byKey(b, key)
		for k, x := range ofA {
			if y := ofB[k]; len(x) == 1 && len(y) == 1 {
				like[x[0]] = y[0]
				x[0].taken, y[0].taken = true, true
			}
		}
	}
	var out []CellDiff
	for _, s := range a {
		if x := like[s]; x != nil {
			out = append(out, newCellDiff(s.rows, x.rows))
		} else {
			out = append(out, newCellDiff(s.rows, nil))
		}
	}
	for _, s := range b {
		if !s.taken {
			c := newCellDiff(nil, s.rows)
			c.twins = slices.ContainsFunc(b, func(o *set) bool { return o != s && o.label == s.label })
			out = append(out, c)
		}
	}
	return out
}

// byKey are the sets that have found nothing yet, by a key.
func byKey(sets []*set, key func(*set) string) map[string][]*set {
	out := map[string][]*set{}
	for _, s := range sets {
		if !s.taken {
			out[key(s)] = append(out[key(s)], s)
		}
	}
	return out
}

func newCellDiff(a, b []*results.Row) CellDiff {
	r := slices.Concat(b, a)[0] // under the newer names
	c := CellDiff{Benchmark: r.Benchmark, Engine: r.Deployment.Engine, Axes: r.Axes, VerdictA: worst(a), VerdictB: worst(b), a: a, b: b}
	for _, x := range notVoid(a) { // what measured nothing is like anything
		for _, y := range notVoid(b) {
			for _, u := range unlike(x, y) {
				if !slices.ContainsFunc(c.Unlike, func(known Unlike) bool { return known.What == u.What }) {
					c.Unlike = append(c.Unlike, u)
				}
			}
		}
	}
	return c
}

// worst is the worst verdict of some rows, and none of no rows. A verdict that nobody
// knows is as bad as none.
func worst(rows []*results.Row) string {
	if len(rows) == 0 {
		return ""
	}
	verdicts := []string{load.Valid, load.Imported, load.Suspect, load.Void}
	at := 0
	for _, r := range rows {
		place := slices.Index(verdicts, r.Verdict().Verdict)
		if place < 0 {
			place = len(verdicts) - 1
		}
		at = max(at, place)
	}
	return verdicts[at]
}

func figureDiff(m metric, rowsA, rowsB []*results.Row) (FigureDiff, bool) {
	a, b := trusted(m, rowsA), trusted(m, rowsB)
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
	f.Change = changeOf(f.A.Median, f.B.Median)
	f.Significant = f.P < significance
	if !f.Significant {
		if f.Needed = needed(a, b); f.Needed == 0 && (len(a) < fewest || len(b) < fewest) {
			f.Needed = fewest
		}
	}
	return f, true
}

// changeOf is the change from a to b in percent.
func changeOf(a, b float64) Percent {
	switch {
	case a == b:
		return 0
	case a == 0:
		return Percent(math.Inf(cmp.Compare(b, a)))
	}
	return Percent((b - a) / math.Abs(a) * 100)
}

// trusted are the values of a metric over repetitions: of those that are not suspect,
// or, where all are, of all.
func trusted(m metric, rows []*results.Row) []float64 {
	sure := slices.DeleteFunc(slices.Clone(rows), func(r *results.Row) bool { return r.Verdict().Verdict == load.Suspect })
	if values := valuesOf(m, sure); len(values) > 0 {
		return values
	}
	return valuesOf(m, rows)
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

// Differing names what may make two cells not comparable.
func Differing() []string { return []string{"kind of run", "gpus", "model", "load"} }

// unlike says in what two cells are not of the same thing.
func unlike(a, b *results.Row) []Unlike {
	ofRun := func(r *results.Row) string {
		word, _, _ := strings.Cut(mark(*r), ":")
		return cmp.Or(word, "measured")
	}
	gpus := func(r *results.Row) string {
		if n := gpuCount(r); n > 0 {
			return fmt.Sprintf("%d of %s", n, cmp.Or(r.Deployment.GPUs, "?"))
		}
		return r.Deployment.GPUs
	}
	if x, y := gpusSeen(a), gpusSeen(b); gpus(a) == gpus(b) && x != "" && y != "" {
		gpus = gpusSeen // the lab's text says little, or the same of another machine
	}
	var out []Unlike
	for i, of := range []func(*results.Row) string{ofRun, gpus, func(r *results.Row) string { return r.Deployment.Model }, loadOf} {
		if x, y := of(a), of(b); x != y {
			out = append(out, Unlike{Differing()[i], x, y})
		}
	}
	return out
}

// gpusSeen are the GPUs that were found on the host; empty: nobody looked.
func gpusSeen(r *results.Row) string {
	var f hostFacts
	if json.Unmarshal(r.Deployment.Facts, &f) != nil || len(f.GPUs) == 0 {
		return ""
	}
	n := map[string]int{}
	for _, g := range f.GPUs {
		n[g.Name]++
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d × %s", n[name], name))
	}
	return strings.Join(parts, ", ")
}

// loadOf is what was sent, as JSON, without what says how to judge it, how long to
// wait for it and where its data lay.
func loadOf(r *results.Row) string {
	t := r.Job
	w, d := &t.Workload, &t.Workload.Dataset
	if t.Batch != nil {
		b := *t.Batch
		t.Batch, d = &b, &b.Dataset
	}
	w.SLO, w.Timeout, w.Stall = nil, 0, 0
	if d.SHA256 != "" {
		d.Path = ""
	}
	if d.TokenizerSHA256 != "" {
		d.Tokenizer = ""
	}
	text, err := json.Marshal(t.Work())
	if err != nil {
		return fmt.Sprint(t.Work())
	}
	return string(text)
}

// allInputs are what went into the cells and differs, each with how many cells it
// concerns.
func allInputs(cells []CellDiff) []InputDiff {
	n := map[InputDiff]int{}
	var order []InputDiff
	for _, c := range cells {
		a, b := ofInputs(c.a), ofInputs(c.b)
		if a == nil || b == nil {
			continue
		}
		for _, i := range inputDiffs(a, b) {
			if n[i] == 0 {
				order = append(order, i)
			}
			n[i]++
		}
	}
	for i := range order {
		order[i].Cells = n[order[i]]
	}
	return order
}

// ofInputs is the repetition that says what went into a cell: the first that measured
// something, or else that was tried. Nil: nothing is known to have gone in.
func ofInputs(rows []*results.Row) *results.Row {
	for _, r := range slices.Concat(notVoid(rows), rows) {
		if r.Summary != nil || r.RunID != "" {
			return r
		}
	}
	return nil
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
	_, err := io.WriteString(w, plain.Text(b.String()))
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
		title := m.title
		if m.unit != "" {
			title += ", " + m.unit
		}
		if sure.same() && sure.cells[0] != "" { // said once
			g.columns = g.columns[:5]
			title += ": " + sure.cells[0]
		}
		titles = append(titles, title)
		grids = append(grids, g)
	}
	return titles, grids
}

// notesBelow leaves numbers of what the last column says, where there is no room for
// its sentences, and returns them.
func (g *grid) notesBelow(width int) (notes []string) {
	last := &g.columns[len(g.columns)-1]
	if _, total := g.layout(); width == 0 || total <= width || !last.left {
		return nil
	}
	for i, text := range last.cells {
		if text == "" {
			continue
		}
		n := slices.Index(notes, text)
		if n < 0 {
			n, notes = len(notes), append(notes, text)
		}
		last.cells[i] = fmt.Sprintf("[%d]", n+1)
	}
	return notes
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
	if f.chance() {
		return "~"
	}
	return f.Change.text()
}

// chance reports whether there are enough repetitions to tell the two apart, and they
// do not.
func (f FigureDiff) chance() bool { return !f.Significant && min(f.A.N, f.B.N) >= fewest }

// text is a change for people. What is more than doubled is said as a factor.
func (p Percent) text() string {
	v := math.Round(float64(p)*10) / 10
	switch {
	case math.IsInf(v, 0):
		return "from 0"
	case v == 0:
		return "0.0 %"
	case v > 100:
		return "×" + number(1+float64(p)/100)
	}
	return fmt.Sprintf("%+.1f %%", v)
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
	for _, side := range []struct {
		name, verdict string
		rows          []*results.Row
		used          int
	}{{"A", c.VerdictA, c.a, f.A.N}, {"B", c.VerdictB, c.b, f.B.N}} {
		switch {
		case side.verdict == load.Valid:
		case side.used < len(side.rows):
			words = append(words, fmt.Sprintf("%s %d of %d, the others %s", side.name, side.used, len(side.rows), side.verdict))
		default:
			words = append(words, side.name+" "+side.verdict)
		}
	}
	for _, u := range c.Unlike {
		words = append(words, "another "+u.What)
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
	var voidA, voidB int
	for _, c := range d.Cells {
		if len(notVoid(c.a)) == 0 {
			voidA++
		}
		if len(notVoid(c.b)) == 0 {
			voidB++
		}
	}
	s := counted(len(d.Cells), "cell") + " in both"
	if voidA > 0 {
		s += fmt.Sprintf(" (%d void in A)", voidA)
	}
	if voidB > 0 {
		s += fmt.Sprintf(" (%d void in B)", voidB)
	}
	if len(words) > 0 {
		s += ", " + strings.Join(words, ", ")
	}
	return s
}

// verdicts say of each metric in a line how many cells are better and worse.
func (d *Difference) verdicts() (lines []string) {
	n := map[string]map[string]int{}
	var order []string
	for _, c := range d.Cells {
		for _, f := range c.Figures {
			if n[f.Metric] == nil {
				n[f.Metric] = map[string]int{}
				order = append(order, f.Metric)
			}
			n[f.Metric][f.verdict()]++
		}
	}
	for _, name := range order {
		var parts []string
		for _, word := range []string{"worse", "better", "changed", "level"} {
			if k := n[name][word]; k > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", k, word))
			}
		}
		lines = append(lines, name+": "+strings.Join(parts, ", "))
	}
	return lines
}

// verdict is what became of a figure: "level" is what chance explains, or, with too
// few repetitions to tell, less than 1 %.
func (f FigureDiff) verdict() string {
	switch up := f.Change > 0; {
	case f.chance() || !f.Significant && math.Abs(float64(f.Change)) < 100*level:
		return "level"
	case f.Better == "":
		return "changed"
	case up == (f.Better == "higher"):
		return "better"
	default:
		return "worse"
	}
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
	fmt.Fprintf(b, "A: %s\nB: %s\n%s\n", plain.Line(d.A), plain.Line(d.B), d.rest())
	for _, line := range slices.Concat(d.Notes, d.verdicts()) {
		fmt.Fprintln(b, plain.Line(line))
	}
	titles, grids := d.tables()
	for i, g := range grids {
		fmt.Fprintf(b, "\n%s\n", titles[i])
		below := g.notesBelow(width)
		g.fit(width)
		for _, line := range g.lines() {
			fmt.Fprintln(b, line)
		}
		for n, text := range below {
			for _, line := range wrap(strings.Fields(fmt.Sprintf("[%d] %s", n+1, text)), " ", width) {
				fmt.Fprintln(b, line)
			}
		}
	}
	compared := slices.ContainsFunc(d.Cells, func(c CellDiff) bool { return ofInputs(c.a) != nil && ofInputs(c.b) != nil })
	switch {
	case !compared:
		return
	case len(d.Inputs) == 0:
		b.WriteString("\nEverything that is known to have gone in is the same.\n")
		return
	}
	b.WriteString("\nWhat else is not the same\n")
	for _, line := range d.inputGrid().lines() {
		fmt.Fprintln(b, line)
	}
}

func (d *Difference) markdown(b *bytes.Buffer) {
	var escaped []string
	for _, note := range d.Notes {
		escaped = append(escaped, markdownText(note))
	}
	fmt.Fprintf(b, "A: %s  \nB: %s  \n%s\n", markdownText(d.A), markdownText(d.B), strings.Join(slices.Concat([]string{d.rest()}, escaped, d.verdicts()), "  \n"))
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
	name := []rune(cmp.Or(clean(c.Benchmark), "cell"))
	name[0] = unicode.ToUpper(name[0])
	parts := []string{string(name), "engine=" + clean(c.Engine)}
	for _, x := range c.Axes {
		if x.Name != "engine" {
			parts = append(parts, clean(x.Name+"="+axisText(x.Value)))
		}
	}
	return strings.Join(parts, "/")
}
