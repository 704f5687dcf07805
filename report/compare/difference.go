// Package compare holds two sets of results against each other and against limits, and says what changed. Who
// leads in one set, it does not ask.
package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/report/table"
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

	Searches []CapacityDiff `json:"capacities,omitempty"` // what searches have found, see [Difference.Capacities]

	rowsA, rowsB []results.Row
	onlyA, onlyB []CellDiff
	fields       figure.Fields // that a condition may be about
	scoresA      []results.Scored
	scores       []results.Scored // of B
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
	// ForcedA and ForcedB are what the engine was told to accept of its drafts; nil: nothing.
	ForcedA *table.ForcedFigures `json:"forced_acceptance_a,omitempty"`
	ForcedB *table.ForcedFigures `json:"forced_acceptance_b,omitempty"`

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
	Metric string        `json:"metric"`
	Unit   string        `json:"unit,omitempty"`
	Better string        `json:"better,omitempty"` // "higher" or "lower"
	A      figure.Spread `json:"a"`
	B      figure.Spread `json:"b"`
	Change Percent       `json:"change_percent"` // of the median of B against that of A
	P      float64       `json:"p"`              // of the Mann–Whitney U test, two-sided
	// Significant says that the repetitions tell the two apart: P is below 0.05.
	Significant bool `json:"significant"`
	// Needed is how many repetitions of each would be, by an estimate; 0: enough
	// were made, or nothing can be said.
	Needed int `json:"repetitions_needed,omitempty"`
	// Intervals says of single measurements whether those of the two are "apart" or "overlap".
	// They are of how each run varied, and know nothing of other starts. Empty: not known.
	Intervals string `json:"intervals,omitempty"`
	// Floor is the least change that the boxes of the two can show, where one was proved; 0: none was. What is
	// below it is no difference, whatever repetitions say.
	Floor Percent `json:"noise_floor_percent,omitempty"`
	// Verdict is what can be said: "better", "worse" or "changed", "level", or "unknown", as repetitions are
	// too few to tell, or A and B are judged by another SLO or price.
	Verdict string `json:"verdict"`
	// Needs is how many requests the percentile needs that a measurement has too few of: so the
	// two are not told apart by it, except to hold it against a limit. 0: all have enough.
	Needs int `json:"needs,omitempty"`

	Of   figure.Metric `json:"-"`
	a, b figure.Evidence
}

// Percent is a change. From zero it is infinite, which JSON writes as null.
type Percent float64

// String is the change for people: "+12 %", "×3.50", "from 0".
func (p Percent) String() string {
	if math.IsInf(float64(p), 0) {
		return "from 0"
	}
	return number.Change(float64(p) / 100)
}

// MarshalJSON writes a number, or null for what none can say.
func (p Percent) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(p), 0) || math.IsNaN(float64(p)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(p))
}

// DefaultMetrics are those that a comparison shows when none is named.
func DefaultMetrics() []string {
	return []string{"output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "median_e2el_ms"}
}

// Diff compares what two sets of results have of the same cells. Metrics are named
// as in [CSV]; an unknown one is an error.
func Diff(nameA string, a []results.Row, nameB string, b []results.Row, names []string) (*Difference, error) {
	var metrics []figure.Metric
	for _, name := range names {
		m, ok := figure.Named(name)
		if !ok {
			return nil, errors.New(figure.NoMetric(name))
		}
		metrics = append(metrics, m)
	}
	d := &Difference{FormatVersion: table.FormatVersion, A: nameA, B: nameB, Cells: []CellDiff{}, rowsA: a, rowsB: b,
		fields: figure.NewFields(slices.Concat(a, b))}
	// What no plan asks for, or others have measured beside a lab, is compared with nothing.
	kept := func(rows []results.Row) [][]*results.Row {
		own := figure.OwnKind(rows)
		return figure.CellsOf(rows, func(r *results.Row) bool { return !r.Stale && (figure.KindOfRun(r) != "imported" || own == "imported") })
	}
	for _, c := range match(kept(a), kept(b)) {
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
	for i, rows := range [][]results.Row{a, b} {
		for _, sentence := range say.HostChanges(rows) {
			d.Notes = append(d.Notes, "AB"[i:i+1]+": "+sentence)
		}
	}
	d.Notes = append(d.Notes, say.Noises(slices.Concat(a, b), metrics)...)
	d.OnlyA, d.OnlyB = len(d.onlyA), len(d.onlyB)
	d.Inputs = allInputs(d.Cells)
	return d, nil
}

func figureDiff(m figure.Metric, rowsA, rowsB []*results.Row) (FigureDiff, bool) {
	a, okA := figure.Weigh(m.Raw(), rowsA, nil)
	b, okB := figure.Weigh(m.Raw(), rowsB, nil)
	if !okA || !okB {
		return FigureDiff{}, false
	}
	f := FigureDiff{Metric: m.Name, Unit: m.Unit, A: a.Spread, B: b.Spread, P: figure.RankTest(a.Values, b.Values), Of: m, a: a, b: b}
	f.Better = map[int]string{1: "higher", -1: "lower"}[m.Better]
	f.Change, f.Intervals = changeOf(f.A.Median, f.B.Median), figure.Apart(m, rowsA, rowsB)
	f.Significant, f.Floor = f.P < figure.Significance, Percent(b.Floor(a)*100)
	for _, r := range slices.Concat(rowsA, rowsB) {
		f.Needs = max(f.Needs, m.Lacks(r))
	}
	f.b.Needs = f.Needs
	f.Verdict = f.verdict()
	if !f.Significant && !f.Within() {
		if f.Needed = figure.Needed(a.Values, b.Values); f.Needed == 0 && min(a.N, b.N) < figure.Fewest {
			f.Needed = figure.Fewest
		}
	}
	return f, true
}

func changeOf(a, b float64) Percent {
	switch {
	case a == b:
		return 0
	case a == 0:
		return Percent(math.Inf(cmp.Compare(b, a)))
	}
	return Percent((b - a) / math.Abs(a) * 100)
}

// unsaid is what becomes of a percentile that too few requests carry.
const unsaid = "with too few requests"

// chance reports whether there are enough repetitions to tell the two apart, or a box is known well enough, and they are not.
func (f FigureDiff) chance() bool {
	return f.b.Differs(f.a) == figure.NotSo && (f.Within() || min(f.A.N, f.B.N) >= figure.Fewest)
}

// Within reports whether the change is less than what the boxes can show.
func (f FigureDiff) Within() bool { return f.b.Within(f.a) }

// cannotShow says of which change on the boxes say nothing.
func (f FigureDiff) cannotShow() string {
	boxes := "this box"
	if f.a.Box() != f.b.Box() {
		boxes = "these boxes"
	}
	return boxes + " cannot show less than " + number.Share(float64(f.Floor)/100)
}

// verdict is what can be said of a figure.
func (f FigureDiff) verdict() string {
	up := f.Change > 0
	switch said := f.b.Differs(f.a); {
	case f.Needs > 0:
		return unsaid
	case said == figure.Unknown:
		return "unknown"
	case said == figure.NotSo:
		return "level"
	case f.Better == "":
		return "changed"
	case up == (f.Better == "higher"):
		return "better"
	}
	return "worse"
}

// Figure is that of a metric; nil: one of the two has none.
func (c *CellDiff) Figure(name string) *FigureDiff {
	for i := range c.Figures {
		if c.Figures[i].Metric == name {
			return &c.Figures[i]
		}
	}
	return nil
}

// match finds for each cell of A that of B: what is the same and is called the same;
// else what is the same, whatever it is called; else what is called the same, where
// that says which one is meant. Cells of A come first, in their order.
func match(a, b [][]*results.Row) (out []CellDiff) {
	like := map[*results.Row][]*results.Row{} // by the first row of each cell, the other's
	for _, key := range []func(r *results.Row) figure.Place{
		func(r *results.Row) figure.Place {
			return figure.Place{Label: figure.LabelOf(r), Identity: figure.IdentityOf(r)}
		},
		func(r *results.Row) figure.Place { return figure.Place{Identity: figure.IdentityOf(r)} },
		func(r *results.Row) figure.Place { return figure.Place{Label: figure.LabelOf(r)} },
	} {
		unmatched := func(cells [][]*results.Row) map[figure.Place][][]*results.Row {
			by := map[figure.Place][][]*results.Row{}
			for _, c := range cells {
				if like[c[0]] == nil {
					by[key(c[0])] = append(by[key(c[0])], c)
				}
			}
			return by
		}
		ofA, ofB := unmatched(a), unmatched(b)
		for k, x := range ofA {
			if y := ofB[k]; len(x) == 1 && len(y) == 1 {
				like[x[0][0]], like[y[0][0]] = y[0], x[0]
			}
		}
	}
	for _, c := range a {
		out = append(out, newCellDiff(c, like[c[0]]))
	}
	for _, c := range b {
		if like[c[0]] == nil {
			x := newCellDiff(nil, c)
			x.twins = slices.ContainsFunc(b,
				func(o []*results.Row) bool { return o[0] != c[0] && figure.LabelOf(o[0]) == figure.LabelOf(c[0]) })
			out = append(out, x)
		}
	}
	return out
}

func newCellDiff(a, b []*results.Row) CellDiff {
	r := slices.Concat(b, a)[0] // under the newer names
	c := CellDiff{Benchmark: r.Benchmark, Engine: r.Deployment.Engine, Axes: r.Axes, VerdictA: figure.Worst(a),
		VerdictB: figure.Worst(b), ForcedA: table.NewForced(a), ForcedB: table.NewForced(b), a: a, b: b}
	for _, x := range figure.NotVoid(a) { // what measured nothing is like anything
		for _, y := range figure.NotVoid(b) {
			for _, u := range unlike(x, y) {
				if !slices.ContainsFunc(c.Unlike, func(known Unlike) bool { return known.What == u.What }) {
					c.Unlike = append(c.Unlike, u)
				}
			}
		}
	}
	return c
}

// sameness is what has to be the same of two cells for their figures to be compared. A
// part that may be unknown is not held against what nobody knows.
var sameness = []struct {
	what    string
	unknown bool
	of      func(r *results.Row) string
}{
	{"kind of run", false, func(r *results.Row) string { return cmp.Or(figure.KindOfRun(r), "measured") }},
	{"gpus", false, gpusSaid},
	{"gpus", true, gpusSeen}, // the lab's text says little, or the same of another machine
	{"model", false, func(r *results.Row) string { return r.Deployment.Model }},
	{"load", false, loadOf},
	{"acceptance", false, figure.Forced},
}

// Differing names what may make two cells not comparable.
func Differing() (names []string) {
	for _, part := range sameness {
		names = append(names, part.what)
	}
	return slices.Compact(names)
}

// unlike says in what two cells are not of the same thing.
func unlike(a, b *results.Row) (found []Unlike) {
	for _, part := range sameness {
		x, y := part.of(a), part.of(b)
		if x != y && !(part.unknown && (x == "" || y == "")) {
			found = append(found, Unlike{part.what, x, y})
		}
	}
	return found
}

// text says what was another: "8 of 8xH200 was 8 of 8xMI300X", and of loads which members, "output_tokens 64 was 128".
func (u Unlike) text() string {
	if u.What != "load" {
		return plain.Cut(cmp.Or(u.B, table.None), 200) + " was " + plain.Cut(cmp.Or(u.A, table.None), 200)
	}
	was, is := members(u.A), members(u.B)
	var parts []string
	for _, name := range differing(was, is) {
		parts = append(parts, strings.TrimSpace(name+" "+cmp.Or(is[name], table.None)+" was "+cmp.Or(was[name], table.None)))
	}
	return plain.Cut(strings.Join(parts, ", "), 400)
}

// members are the leaves of a JSON text by name, or the text itself without one.
func members(text string) map[string]string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		v = text
	}
	all := map[string]string{}
	flatten(all, "", v)
	return all
}

// gpusSaid are the GPUs by the text of the lab.
func gpusSaid(r *results.Row) string {
	if n := r.Deployment.GPUsUsed(); n > 0 {
		return fmt.Sprintf("%d of %s", n, cmp.Or(r.Deployment.GPUs, "?"))
	}
	return r.Deployment.GPUs
}

// gpusSeen are the GPUs that were found on the hosts; empty: nobody looked.
func gpusSeen(r *results.Row) string {
	var names []string
	looked := map[string]bool{}
	for _, m := range figure.HostsOf(&r.Deployment) {
		var f figure.HostFacts
		if looked[m.Host] || json.Unmarshal(m.Facts, &f) != nil {
			continue
		}
		looked[m.Host] = true
		for _, g := range f.GPUs {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	var parts []string
	for _, same := range figure.Grouped(names, func(name string) string { return name }) {
		parts = append(parts, fmt.Sprintf("%d × %s", len(same), same[0]))
	}
	return strings.Join(parts, ", ")
}

// loadOf is what was sent, without how to judge it, how long to wait and where its data lay.
func loadOf(r *results.Row) string { return sent(r, false) }

// sent is what was sent of [loadOf], whatever the load and how long it lasted where only what a request is like counts.
func sent(r *results.Row, whateverLoad bool) string {
	t := r.Job
	w, d := &t.Workload, &t.Workload.Dataset
	if t.Batch != nil {
		b := *t.Batch
		t.Batch, d = &b, &b.Dataset
	}
	w.SLO, w.Timeout, w.Stall = nil, 0, 0
	if whateverLoad {
		w.Concurrency, w.Rate, w.Requests, w.Duration, w.Warmup, w.Ramp, w.CutBeginning, w.CutEnd = 0, 0, 0, 0, 0, 0, 0, 0
	}
	for _, file := range []struct {
		sum  string
		path *string
	}{{d.SHA256, &d.Path}, {d.TokenizerSHA256, &d.Tokenizer}, {d.ImageDirSHA256, &d.ImageDir}} {
		if file.sum != "" {
			*file.path = ""
		}
	}
	text, err := json.Marshal(t.Work())
	if err != nil {
		return fmt.Sprint(t.Work())
	}
	return string(text)
}

// InputDiff is something that went into measurements and differs.
type InputDiff struct {
	Engine string `json:"engine"`
	Name   string `json:"name"` // "--tp", "image digest", "host: kernel", "version: torch"
	A      string `json:"a"`    // empty: not there
	B      string `json:"b"`
	Cells  int    `json:"cells"` // that it concerns
}

// allInputs are what went into the cells and differs, each with how many cells it concerns.
func allInputs(cells []CellDiff) []InputDiff {
	var all []InputDiff
	for _, c := range cells {
		if a, b := ofInputs(c.a), ofInputs(c.b); a != nil && b != nil {
			all = append(all, inputDiffs(a, b)...)
		}
	}
	out := []InputDiff{}
	for _, same := range figure.Grouped(all, func(i InputDiff) InputDiff { return i }) {
		same[0].Cells = len(same)
		out = append(out, same[0])
	}
	return out
}

// ofInputs is the repetition that says what went into a cell: the first that measured
// something, or else that was tried. Nil: nothing is known to have gone in.
func ofInputs(rows []*results.Row) *results.Row {
	for _, r := range slices.Concat(figure.NotVoid(rows), rows) {
		if r.Summary != nil || r.RunID != "" {
			return r
		}
	}
	return nil
}

func inputDiffs(a, b *results.Row) []InputDiff {
	x, y := inputsOf(a), inputsOf(b)
	var out []InputDiff
	for _, name := range differing(x, y) {
		out = append(out, InputDiff{Engine: a.Deployment.Engine, Name: name, A: x[name], B: y[name]})
	}
	return out
}

// differing are the names whose values are not the same.
func differing(a, b map[string]string) []string {
	names := maps.Clone(a)
	maps.Copy(names, b)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool { return a[name] == b[name] })
}

// inputsOf is everything that is known to have gone into a measurement, by name.
func inputsOf(r *results.Row) map[string]string {
	d := &r.Deployment
	in := map[string]string{
		"engine": d.Engine, "host": d.Host, "gpus": d.GPUs, "model": d.Model, "hcl": r.Run.Version, "prefix cache": r.CacheReset,
	}
	maps.Copy(in, d.Identity)
	for name, v := range r.Identity {
		if name != "deployment" { // it sums the others up
			in[name] = v
		}
	}
	for _, m := range figure.HostsOf(d) {
		host, name := "host:", ""
		if len(d.Members) > 0 {
			host, name = "host "+m.Host+":", m.Name()+": "
			in[name+"host"] = m.Host
		}
		flatten(in, host, figure.Made(m.Facts))
		in[name+"image"], in[name+"image digest"] = m.Image, m.Digest
		for what, v := range m.Versions {
			in[name+"version: "+what] = v
		}
		var served any
		if json.Unmarshal(d.ServedBy(m), &served) == nil {
			flatten(in, name+"served:", served)
		}
	}
	return in
}

// flatten puts the leaves of a JSON value into a map: "host: gpus[0].driver".
func flatten(out map[string]string, name string, v any) {
	join := func(part string) string {
		switch {
		case name == "":
			return part
		case strings.HasSuffix(name, ":"):
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
		out[name] = number.Exact(v)
	case nil:
	default:
		out[name] = fmt.Sprint(v)
	}
}

// Outcome is what became of a cell, over all figures that are compared.
func (c *CellDiff) Outcome() string {
	switch {
	case c.b == nil:
		return "only in A"
	case c.a == nil:
		return "only in B"
	case len(c.Figures) == 0:
		return "no figures"
	case c.doubtful():
		return "suspect"
	}
	n := map[string]int{}
	for _, f := range c.Figures {
		n[f.Verdict]++
	}
	switch {
	case n["worse"] > 0 && n["better"] > 0:
		return "mixed"
	case n["worse"] > 0:
		return "worse"
	case n["better"] > 0:
		return "better"
	case n["changed"] > 0:
		return "changed"
	case n["level"] == 0 && n["unknown"] > 0:
		return "unknown"
	}
	return "level"
}

// doubtful reports whether one of the sides is suspect in all of its repetitions.
func (c *CellDiff) doubtful() bool {
	return figure.AllSuspect(c.a) != nil || figure.AllSuspect(c.b) != nil
}

// Name is the cell in a word or more: "vllm.h200 concurrency=16".
func (c CellDiff) Name() string { return figure.CellName(c.Engine, c.Axes) }

// Result is what came of holding a cell against a limit.
type Result string

// Check is one limit held against one cell.
type Check struct {
	Limit     string       `json:"limit"`
	Benchmark string       `json:"benchmark,omitempty"` // none: it is about all cells
	Cell      string       `json:"cell,omitempty"`      // its engine and axes, for people
	Axes      results.Axes `json:"axes,omitempty"`
	Result    Result       `json:"result"`
	Why       string       `json:"why,omitempty"`
}

func (c Check) String() string {
	return plain.Line(strings.TrimSpace(c.Benchmark+" "+c.Cell) + ": " + c.Limit + ": " + c.Why)
}
