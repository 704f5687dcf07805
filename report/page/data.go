package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/plain"
	"hclbench/report/chart"
	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/report/table"
	"hclbench/results"
)

// data is all that the page's script draws and lists, each value once: columns of rows, and which
// rows are one cell.
type data struct {
	Series    []dataSeries    `json:"series"`
	Columns   []dataColumn    `json:"columns"`
	Listed    int             `json:"listed"`    // rows from there on were published: they are drawn, not listed
	Published map[int]string  `json:"published"` // by whom, of each row that others published
	Cell      []int           `json:"cell"`      // of each row; −1: it is in no chart
	Group     []int           `json:"group"`     // of each that is listed: repetitions have the same
	Doubt     []int           `json:"doubt"`     // of each row, its place in Doubts; 0: none
	Doubts    [][]string      `json:"doubts"`    // metrics that are in doubt together; "*": all
	Suspect   []string        `json:"suspect"`   // metrics that are suspect in all cells, which sets none apart
	Note      []int           `json:"note"`      // of each that is listed, its place in Notes, from 1; 0: nothing
	Notes     []string        `json:"notes"`     // what stands against a row
	Foot      []int           `json:"foot"`      // of each of Notes, the number that the page lists it under
	Places    []dataColumn    `json:"places"`    // of cells, along each dimension
	Workloads []*dataWorkload `json:"workloads"`
	Times     dataTimes       `json:"times"`
	// Counted is, of a row, what its engine has counted: names and values.
	Counted map[int][][]string `json:"counted,omitempty"`
	// Larger are the units in which many of another are read.
	Larger map[string]number.Larger `json:"larger"`
	Sides  []string                 `json:"sides,omitempty"` // what A and B of a comparison are; their cells are one group
}

type dataSeries struct {
	Label  string `json:"label"`
	GPU    int    `json:"gpu"`
	Side   string `json:"side,omitempty"`   // of a comparison: "A" or "B"
	Beside *int   `json:"beside,omitempty"` // the series of A that this one of B is held against
	Hue    int    `json:"hue"`
	Marker int    `json:"marker"`
	Dash   int    `json:"dash"`
}

// dataColumn has texts, each value being a place among them, or numbers.
type dataColumn struct {
	Key    string   `json:"key"`
	Name   string   `json:"name"`
	Called string   `json:"called"` // in the filter, besides its key
	Title  string   `json:"title"`  // where it stands alone
	Group  string   `json:"group,omitempty"`
	Unit   string   `json:"unit,omitempty"`
	Reads  string   `json:"reads,omitempty"` // the unit in which the table has it, of a figure
	Per    float64  `json:"per,omitempty"`   // of its own make one of that
	Better int      `json:"better,omitempty"`
	Shown  bool     `json:"shown,omitempty"`
	Figure bool     `json:"figure,omitempty"` // it was measured
	Texts  []string `json:"texts,omitzero"`
	Values numbers  `json:"values,omitzero"` // left out where each row has a text of its own: 0, 1, 2, …
	// Low and High are where the truth lies in 95 of 100 runs; left out where no run tells.
	Low  numbers `json:"low,omitempty"`
	High numbers `json:"high,omitempty"`
	// Needs is how many values a percentile needs, of rows that have too few; left out where none has.
	Needs numbers `json:"needs,omitempty"`
	// Top are the groups that lead under their load.
	Top []int `json:"top,omitempty"`
}

// numbers are numbers with as many digits as a page needs, whole ones with all; what is not a number
// is none.
type numbers []float64

func (f numbers) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 8*len(f)+2), '[')
	for i, v := range f {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
		} else if v == math.Trunc(v) && math.Abs(v) < exact {
			b = strconv.AppendFloat(b, v, 'f', -1, 64)
		} else {
			b = append(b, inDigits(v)...)
		}
	}
	return append(b, ']'), nil
}

// digits are more than two measurements of one thing have in common.
const digits = 5

// inDigits is a number in so few digits that who reads it, rounded once more, reads the same as of all of them.
func inDigits(v float64) (text string) {
	want := number.Text(v)
	for n := digits; n < 17; n++ {
		text = strconv.FormatFloat(v, 'g', n, 64)
		if short, _ := strconv.ParseFloat(text, 64); number.Text(short) == want && number.Text(short*(1+1e-12)) == want {
			break
		}
	}
	return text
}

const exact = 1 << 53 // whole numbers below it are themselves as float64

// newData are the current rows, all else that is listed, and what others published, with the answers
// of what was measured, or else of what was published.
func newData(current, stale, published []results.Row, all *figure.Series, listed say.Doubts, about *figure.About) *data {
	d := &data{Doubts: [][]string{nil}, Suspect: []string{}, Series: []dataSeries{}, Group: []int{}, Note: []int{}, Notes: []string{},
		Foot: []int{}, Workloads: []*dataWorkload{}, Published: map[int]string{}, Larger: number.LargerUnits()}
	for _, s := range all.All {
		hue, marker, dash := s.Looks()
		d.Series = append(d.Series, dataSeries{Label: s.Label, GPU: s.GPU, Hue: hue, Marker: marker, Dash: dash})
	}
	published = slices.DeleteFunc(published, func(r results.Row) bool { return all.Find(&r) == nil })
	if len(figure.Those(current, figure.IsMeasured)) == 0 {
		current, stale, published = published, slices.Concat(current, stale), nil
	}
	rows := slices.Concat(current, stale, published)
	d.Listed = len(current) + len(stale)
	for i := range rows {
		if rows[i].Run.Command == "published" {
			d.Published[i] = plain.Line(figure.CreditOf(&rows[i]))
		}
	}
	d.group(rows[:d.Listed], all, listed)
	found, tunings := all.Capacities(rows, about.Capacities), figure.Tunings(rows, about.Tunings)
	d.columns(rows, all, about, found)
	d.top(rows[:len(current)])
	d.Times = newTimes(rows[:d.Listed])
	d.Counted = newCounted(rows[:d.Listed])
	d.Cell, d.Doubt = slices.Repeat([]int{-1}, len(rows)), make([]int, len(rows))
	at := map[*results.Row]int{} // of each row
	for i := range current {
		at[&current[i]] = i
	}
	shared := load.Verdict{Verdict: load.Suspect}
	for _, text := range figure.SharedReasons(current) {
		for _, r := range figure.Those(current, figure.IsMeasured)[0].Verdict().Reasons {
			if r.Text == text {
				shared.Reasons = append(shared.Reasons, r)
			}
		}
	}
	for _, c := range d.Columns {
		if c.Figure && shared.Reasons != nil && shared.Doubts(c.Key) {
			d.Suspect = append(d.Suspect, c.Key)
		}
	}
	known := map[string]int{"": 0}
	drawn := all.WithVoid(figure.Samples(current, all), current)
	for n, s := range drawn {
		for _, r := range s.Rows {
			if s.By != "" {
				d.Published[at[r]] = plain.Line(s.By)
			}
			d.Cell[at[r]], d.Doubt[at[r]] = n, d.doubts(s, r, known)
		}
	}
	theirs := map[string][]int{} // cells that others published, by the id of ours
	for i := range published {
		r := &published[i]
		d.Cell[d.Listed+i] = len(drawn)
		theirs[r.ID] = append(theirs[r.ID], len(drawn))
		drawn = append(drawn, all.Sample([]*results.Row{r}))
	}
	d.places(drawn)
	all.Refs = map[figure.Place]int{}
	for n, s := range drawn {
		all.Refs[all.Place(s.Rows[0])] = n + 1
	}
	for _, f := range say.Findings(current, all, &about.Layout) {
		a := f.Answer
		w := newDataWorkload(f, func(s *figure.Sample) int { return d.Cell[at[s.Rows[0]]] })
		w.answered(answerOf(found, tunings, a.Cells))
		for n, s := range a.Cells {
			w.Cells, w.At = append(w.Cells, d.Cell[at[s.Rows[0]]]), append(w.At, a.At[n])
			for _, cell := range theirs[s.Rows[0].ID] {
				w.Cells, w.At = append(w.Cells, cell), append(w.At, -1)
			}
		}
		for n, s := range drawn[:len(drawn)-len(published)] {
			if s.By != "" && !s.Void && a.Along != nil &&
				figure.LoadOf(s.Rows[0], all.Told, a.Along.Name) == figure.LoadOf(a.Cells[0].Rows[0], all.Told, a.Along.Name) {
				w.Cells, w.At = append(w.Cells, n), append(w.At, -1)
			}
		}
		d.Workloads = append(d.Workloads, w)
	}
	return d
}

// places are where cells lie.
func (d *data) places(cells []*figure.Sample) {
	for _, x := range figure.Dimensions {
		c := dataColumn{Key: x.Name, Name: x.Name, Title: x.Title, Unit: x.Unit, Values: make(numbers, len(cells))}
		for i, s := range cells {
			if v, ok := s.At[x.Name]; ok {
				c.Values[i] = v
			} else {
				c.Values[i] = math.NaN()
			}
		}
		d.Places = append(d.Places, c)
	}
}

// doubts is the number of the metrics that are in doubt in a row.
func (d *data) doubts(s *figure.Sample, r *results.Row, known map[string]int) int {
	v := r.Verdict()
	if !figure.IsSuspect(v) {
		return 0
	}
	var names []string
	every := true
	for _, c := range d.Columns {
		if m, ok := figure.Named(c.Key); c.Figure && ok {
			if figure.Doubtful(v, m, s.Shared) {
				names = append(names, c.Key)
			} else {
				every = false
			}
		}
	}
	if every {
		names = []string{"*"}
	}
	key := strings.Join(names, " ")
	if _, ok := known[key]; !ok {
		known[key] = len(d.Doubts)
		d.Doubts = append(d.Doubts, names)
	}
	return known[key]
}

// group numbers what are measurements of one thing, and what stands against each row.
func (d *data) group(rows []results.Row, all *figure.Series, listed say.Doubts) {
	type cell struct {
		series int
		figure.Place
	}
	known, notes := map[cell]int{}, map[string]int{"": 0}
	for i := range rows {
		r := &rows[i]
		key := cell{all.Find(r).Index, figure.PlaceOf(r)}
		if _, ok := known[key]; !ok {
			known[key] = len(known)
		}
		d.Group = append(d.Group, known[key])
		text := say.Reasons(r)
		if _, ok := notes[text]; !ok {
			d.Notes, d.Foot = append(d.Notes, text), append(d.Foot, listed.Number(r))
			notes[text] = len(d.Notes)
		}
		d.Note = append(d.Note, notes[text])
	}
}

// top says of each figure which groups lead under their load. A and B of a comparison are no rivals.
func (d *data) top(rows []results.Row) {
	at := map[*results.Row]int{}
	for i := range rows {
		if at[&rows[i]] = i; figure.AxisOf(rows[i].Axes, figure.SideAxis) != "" {
			return
		}
	}
	loads, shared := figure.Rivals(rows), figure.SharedReasons(rows)
	for i := range d.Columns {
		if m, ok := figure.Named(d.Columns[i].Key); d.Columns[i].Figure && ok {
			for _, of := range figure.Leaders(m, loads, shared) {
				d.Columns[i].Top = append(d.Columns[i].Top, d.Group[at[of[0]]])
			}
		}
	}
}

// ownColumns are the page's beside figures: an axis of the lab that is called so has a number.
var ownColumns = []string{"series", "verdict", "benchmark", "repetition", "engine", "kind", "host", "gpus", "model", "run",
	"id", "started", "capacity", "accuracy", "tool_call_f1", "slo", "clients", "adapters", "unbounded"}

// columns are who and where a row is, and every figure that any of the rows has.
func (d *data) columns(rows []results.Row, all *figure.Series, about *figure.About, found []*figure.Capacity) {
	layout := &about.Layout
	text := func(key string, shown bool, of func(r *results.Row) string) {
		c := textColumn(key, shown, len(rows), func(i int) string { return of(&rows[i]) })
		if len(c.Texts) == len(rows) {
			c.Values = nil
		}
		opened := slices.Contains([]string{"run", "id", "started"}, key) ||
			slices.Contains([]string{"clients", "adapters", "unbounded"}, key) && strings.Join(c.Texts, "") != ""
		if len(c.Texts) > 1 || shown || opened { // a cell opened has these
			d.Columns = append(d.Columns, c)
		}
	}
	series := dataColumn{Key: "series", Name: "series", Title: "series", Shown: true, Texts: []string{}}
	for _, s := range all.All {
		series.Texts = append(series.Texts, s.Label)
	}
	for i := range rows {
		series.Values = append(series.Values, float64(all.Find(&rows[i]).Index))
	}
	d.Columns = append(d.Columns, series)
	verdict := textColumn("verdict", true, len(rows), func(i int) string { return verdictText(&rows[i]) })
	// What is the same for all, and nothing against any, stands on the strip.
	verdict.Shown = len(verdict.Texts) > 1 || slices.ContainsFunc(rows, func(r results.Row) bool { return say.Reasons(&r) != "" })
	d.Columns = append(d.Columns, verdict)
	differs := func(column string) bool { return len(figure.WordsOf(rows, column)) > 1 }
	text("benchmark", differs("benchmark"), func(r *results.Row) string { return r.Benchmark })
	taken := figure.Unique{}
	for _, name := range ownColumns {
		taken[name] = true
	}
	for _, m := range figure.AllMetrics(rows) {
		taken[m.Name] = true
	}
	for _, c := range table.AxisColumns(rows) {
		if c.Key != "engine" && c.Key != figure.SideAxis {
			text(taken.Name(c.Key), !c.Same(), func(r *results.Row) string { return figure.AxisOf(r.Axes, c.Key) })
		}
	}
	text("repetition", false, func(r *results.Row) string { return strconv.Itoa(r.Repetition) })
	for _, name := range []string{"engine", "kind", "host", "gpus", "model"} {
		text(name, false, func(r *results.Row) string { return figure.WordOf(r, name) })
	}
	text("run", false, func(r *results.Row) string { return cmp.Or(r.RunID, r.Run.ID) })
	text("id", false, func(r *results.Row) string { return r.ID })
	text("started", false, func(r *results.Row) string { return figure.Stamp(r.Started) })
	text("capacity", found != nil, func(r *results.Row) string {
		if _, l := figure.TriedBy(found, r); l != nil {
			return string(l.Verdict)
		}
		return ""
	})
	text("accuracy", slices.ContainsFunc(rows, func(r results.Row) bool { return r.Checked != "" }), func(r *results.Row) string { return r.Checked })
	text("tool_call_f1", slices.ContainsFunc(rows, func(r results.Row) bool { return r.CallF1 != nil }), func(r *results.Row) string {
		if r.CallF1 == nil {
			return ""
		}
		return table.Ratio(*r.CallF1)
	})
	text("slo", slices.ContainsFunc(rows, func(r results.Row) bool { return figure.MetText(&r) != "" }),
		func(r *results.Row) string {
			_, missed, _ := figure.Attained(r)
			return strings.TrimSpace(figure.MetText(r) + " " + strings.Join(missed, ", "))
		})
	text("clients", false, func(r *results.Row) string { clients, _ := say.SharesText(r.Summary); return clients })
	text("adapters", false, func(r *results.Row) string { _, adapters := say.SharesText(r.Summary); return adapters })
	text("unbounded", false, func(r *results.Row) string { return strings.Join(say.Unbounded(r.Summary), "; ") })
	d.numbers(rows, layout)
	for i := range d.Columns {
		c := &d.Columns[i]
		c.Called = cmp.Or(metric.Heading(c.Group+" "+c.Name), c.Key)
	}
}

// textColumn is a column of what is said of each of n rows.
func textColumn(key string, shown bool, n int, say func(i int) string) dataColumn {
	c := dataColumn{Key: key, Name: strings.ReplaceAll(key, "_", " "), Shown: shown, Texts: []string{}}
	c.Title = c.Name
	at := map[string]int{}
	for i := range n {
		word := plain.Line(say(i))
		if _, ok := at[word]; !ok {
			at[word] = len(c.Texts)
			c.Texts = append(c.Texts, word)
		}
		c.Values = append(c.Values, float64(at[word]))
	}
	return c
}

// verdictText is whether a row can be trusted, and what it is where that is no measurement.
func verdictText(r *results.Row) string {
	text := say.Noted(r.Verdict().Verdict, figure.KindOfRun(r), figure.Forced(r))
	if r.Stale {
		text += ", stale"
	}
	return text
}

// numbers are the columns of what was measured: the lab's, or those that matter most, are shown.
func (d *data) numbers(rows []results.Row, layout *figure.Layout) {
	named := layout.Columns
	if named == nil {
		named = []string{}
		for _, m := range paged(rows) {
			named = append(named, m.Name)
		}
	}
	place := func(m figure.Metric) int {
		if i := slices.Index(named, m.Name); i >= 0 {
			return i
		}
		return len(named)
	}
	metrics := append(figure.Chosen(named), figure.AllMetrics(rows)...)
	slices.SortStableFunc(metrics, func(a, b figure.Metric) int { return place(a) - place(b) })
	seen, side, others := map[string]bool{}, map[string][]float64{}, map[string][]float64{} // what stands side by side, and what might
	for _, m := range metrics {
		c := dataColumn{Key: m.Name, Name: m.Short, Title: m.Title, Group: m.Group, Unit: m.Unit, Better: m.Better,
			Shown: place(m) < len(named), Figure: true, Values: make(numbers, len(rows))}
		known := false
		for i := range rows {
			v, ok := m.Value(&rows[i])
			if c.Values[i] = v; !ok {
				c.Values[i] = math.NaN()
			}
			if n := m.Lacks(&rows[i]); n > 0 {
				if c.Needs == nil {
					c.Needs = make(numbers, len(rows))
				}
				c.Needs[i] = float64(n)
			}
			known = known || ok
			if group := m.Group + m.Unit; ok && place(m) < len(named) {
				side[group] = append(side[group], v)
			} else if ok {
				others[group] = append(others[group], v)
			}
		}
		c.bound(m, rows)
		c.Shown = c.Shown && known
		if (known || c.Needs != nil) && !seen[m.Name] {
			d.Columns = append(d.Columns, c)
		}
		seen[m.Name] = true
	}
	for i := range d.Columns {
		if c := &d.Columns[i]; c.Figure {
			group := c.Group + c.Unit
			if side[group] == nil {
				side[group] = others[group]
			}
			c.Reads, c.Per = number.Unit(c.Unit, side[group]...)
		}
	}
}

// dataWorkload is an answer as the page's script has it, with the cells that it is of: what each of
// them offers stands in the rows.
type dataWorkload struct {
	ID       string       `json:"id"`       // in addresses: "online-3-200-tokens-in-800-tokens-out"
	Workload string       `json:"workload"` // what its cells have in common, in words
	Headline string       `json:"headline"` // the first sentence of the finding
	Finding  string       `json:"finding"`
	Tables   []*dataTable `json:"tables"` // what decides comes first
	Along    string       `json:"along"`  // the dimension that its cells lie along; empty: none
	Fronts   [][]int      `json:"fronts"` // of each kind of GPU the cells that none surpasses in both: service and the first table's metric
	Cells    []int        `json:"cells"`
	At       []int        `json:"at"` // of each cell, its place in tables that are not by service; −1: it is drawn, and in no table
}

// dataTable is a decision without its choices: the script shows of each series what is best of what a
// filter lets through. What leads is said here, and by no script.
type dataTable struct {
	ID      string        `json:"id"`
	Title   string        `json:"title"`
	Under   string        `json:"under"`
	Metric  string        `json:"metric"`
	Unit    string        `json:"unit"`
	Better  int           `json:"better"`
	Finding string        `json:"finding"`
	Places  []figure.Spot `json:"places"`
	Series  []int         `json:"series"` // a row of the table each, by their index among all series
	Best    [][]int       `json:"best"`   // of each place, the cells
	Beyond  [][]int       `json:"beyond"`

	Baseline int `json:"baseline"` // the series that changes are against; −1: none
}

// headline is the first sentence of a finding.
func headline(finding string) string {
	first, _, more := strings.Cut(finding, ". ")
	if more {
		first += "."
	}
	return first
}

// Rest is the finding without its headline.
func (w *dataWorkload) Rest() string {
	return strings.TrimSpace(strings.TrimPrefix(w.Finding, w.Headline))
}

// answerOf is what searches or tunings have found that have tried all of these cells, in the place of who leads at which load:
// they leave a load as soon as it is clear, and of many starts the best is too good. Empty: they have not.
func answerOf(found []*figure.Capacity, tunings []*figure.Tuning, cells []*figure.Sample) string {
	var searched []*figure.Capacity
	var texts []string
	for _, s := range cells {
		c, _ := figure.TriedBy(found, s.Rows[0])
		t := slices.IndexFunc(tunings, func(t *figure.Tuning) bool { return t.Made(s.Rows[0]) })
		switch {
		case t >= 0: // be it by searches: of many starts the best is too good
			texts = figure.Once(texts, say.Tuned(tunings[t]))
		case c != nil:
			searched = figure.Once(searched, c)
		default:
			return ""
		}
	}
	if searched != nil {
		texts = append([]string{say.Answered(searched)}, texts...)
	}
	return strings.Join(texts, " ")
}

// answered has an answer in the place of what the tables say.
func (w *dataWorkload) answered(text string) {
	if text == "" {
		return
	}
	w.Finding = text
	w.Headline = headline(w.Finding)
	for _, t := range w.Tables {
		t.Finding = ""
	}
}

func newDataWorkload(f say.Finding, cell func(s *figure.Sample) int) *dataWorkload {
	a := f.Answer
	w := &dataWorkload{ID: a.ID, Workload: a.Workload, Headline: headline(f.Text), Finding: f.Text, Fronts: [][]int{}}
	if a.Along != nil {
		w.Along = a.Along.Name
	}
	if d := a.Tables[0]; d.ByService() {
		fronts, _ := draw.Fronts(draw.Tradeoff(figure.Slice{Along: *a.Along, Samples: a.Cells}, figure.Interactivity, d.Of), d.Of)
		for _, l := range fronts {
			var front []int
			for _, p := range l.Dots {
				front = append(front, p.Ref-1)
			}
			w.Fronts = append(w.Fronts, front)
		}
	}
	for n, d := range a.Tables {
		t := &dataTable{ID: d.ID, Title: d.Title, Under: d.Under, Metric: d.Metric, Unit: d.Unit, Better: d.Better,
			Finding: f.Sentences[n], Places: d.Places, Baseline: -1}
		for _, r := range d.Rows {
			t.Series = append(t.Series, r.Series.Index)
		}
		if d.Baseline >= 0 {
			t.Baseline = t.Series[d.Baseline]
		}
		for i := range d.Places {
			best, beyond := []int{}, []int{}
			for _, o := range d.Offers(i, false) {
				if o.Best {
					best = append(best, cell(o.Cell))
				}
			}
			for _, o := range d.Offers(i, true) {
				if o.Beyond {
					beyond = append(beyond, cell(o.Cell))
				}
			}
			t.Best, t.Beyond = append(t.Best, best), append(t.Beyond, beyond)
		}
		w.Tables = append(w.Tables, t)
	}
	return w
}

// dataTimes are cells over time: of as many as a page has room for, the busiest first.
type dataTimes struct {
	Names []dataName          `json:"names"`
	Rows  map[int][]dataCurve `json:"rows"`
	Left  []int               `json:"left"` // rows that there was no room for
}

type dataName struct {
	Title string `json:"title"`
	Unit  string `json:"unit"`
}

// dataCurve is a quantity of a cell over time, a letter for each of its parts, which are of the same length.
type dataCurve struct {
	Of    int     `json:"of"`    // its place among the names
	Range numbers `json:"range"` // from where to where: seconds, values of letters, values read
	At    string  `json:"at"`    // [curveLetters], and a point where nothing was read
}

// curveLetters stand for 64 steps from the least to the greatest: as fine as a small picture.
const curveLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

const (
	curveRoom   = 100_000 // letters that a page has room for
	curveHead   = 24      // letters that the rest of a curve is worth
	fewestParts = 24
	mostParts   = 60
	curvesOf    = 7 // that a cell has, about
)

// newTimes are those of rows, first of a repetition of each cell.
func newTimes(rows []results.Row) dataTimes {
	t := dataTimes{Names: []dataName{}, Left: []int{}, Rows: map[int][]dataCurve{}}
	var order []int
	for i := range rows {
		if s := rows[i].Summary; s != nil && (s.Series != nil || rows[i].Telemetry != nil) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &rows[i], &rows[j]
		return cmp.Or(a.Repetition-b.Repetition, cmp.Compare(b.Summary.MeanConcurrency, a.Summary.MeanConcurrency))
	})
	parts := min(max(curveRoom/max(1, curvesOf*len(order))-curveHead, fewestParts), mostParts)
	room, place := curveRoom, map[dataName]int{}
	for _, i := range order {
		lines := draw.Timed(&rows[i])
		if room < 0 && len(lines) > 0 {
			t.Left = append(t.Left, i)
			continue
		}
		var curves []dataCurve
		for _, l := range lines {
			name := dataName{l.Title, l.Unit}
			if _, ok := place[name]; !ok {
				place[name] = len(t.Names)
				t.Names = append(t.Names, name)
			}
			c := curveOf(l.Line.Dots, parts)
			c.Of = place[name]
			curves, room = append(curves, c), room-len(c.At)-curveHead
		}
		if room < 0 {
			t.Left = append(t.Left, i)
		} else if curves != nil {
			t.Rows[i] = curves
		}
	}
	slices.Sort(t.Left)
	return t
}

// countedRoom is how many letters of what engines have counted a page has room for.
const countedRoom = 60_000

// newCounted is what engines have counted, of as many rows as there is room for: `hcl show` has all.
func newCounted(rows []results.Row) map[int][][]string {
	all, room := map[int][][]string{}, countedRoom
	for i := range rows {
		var facts [][]string
		for _, f := range table.Counted(&rows[i]) {
			facts, room = append(facts, []string{f.Name, plain.Line(f.Value)}), room-len(f.Name)-len(f.Value)
		}
		if room < 0 {
			break
		}
		if facts != nil {
			all[i] = facts
		}
	}
	return all
}

// curveOf is a line, two points at least, in no more parts than that: of each part its mean.
func curveOf(dots []chart.Dot, parts int) dataCurve {
	from, to, least, most, n := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1), min(parts, len(dots))
	for _, d := range dots {
		from, to, least, most = min(from, d.X), max(to, d.X), min(least, d.Y), max(most, d.Y)
	}
	sums, counts := make([]float64, n), make([]float64, n)
	for _, d := range dots {
		at := 0
		if to > from {
			at = min(n-1, int((d.X-from)/(to-from)*float64(n)))
		}
		sums[at] += d.Y
		counts[at]++
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i := range sums {
		if counts[i] > 0 {
			sums[i] /= counts[i]
			low, high = min(low, sums[i]), max(high, sums[i])
		}
	}
	letters := make([]byte, n)
	for i, v := range sums {
		switch {
		case counts[i] == 0:
			letters[i] = '.'
		case high == low:
			letters[i] = curveLetters[0]
		default:
			letters[i] = curveLetters[int(math.Round((v-low)/(high-low)*float64(len(curveLetters)-1)))]
		}
	}
	return dataCurve{Range: numbers{from, to, low, high, least, most}, At: string(letters)}
}

// bound gives a column of the page the intervals of its figures, where there are any.
func (c *dataColumn) bound(m figure.Metric, rows []results.Row) {
	for i := range rows {
		x, ok := m.Interval(&rows[i])
		if ok && c.Low == nil {
			c.Low, c.High = slices.Repeat(numbers{math.NaN()}, len(rows)), slices.Repeat(numbers{math.NaN()}, len(rows))
		}
		if ok {
			c.Low[i], c.High[i] = x.Low, x.High
		}
	}
}

// paged are the figures of the page's table when nobody has chosen any.
func paged(rows []results.Row) (metrics []table.Weighted) {
	all := []figure.Metric{figure.Duration, figure.RequestThroughput, figure.Goodput, figure.OutputThroughput, figure.TotalThroughput,
		figure.PerGPU, figure.PerDecodeGPU, figure.PerPrefillGPU}
	tail := figure.TailPercentile(rows)
	for _, t := range figure.Timings {
		mid := figure.Latency(t, "median")
		if !figure.AnyValue(rows, mid) {
			mid = figure.Latency(t, "mean")
		}
		all = append(all, mid, figure.Latency(t, tail))
	}
	for _, m := range append(all, figure.Interactivity, figure.CostOutput, figure.CostTotal, figure.EnergyPerToken) {
		metrics = append(metrics, table.Weighted{Weight: 1, Metric: m})
	}
	return metrics
}
