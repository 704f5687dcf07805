package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/plain"
	"hclbench/report/number"
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
	Sides     []string        `json:"sides,omitempty"` // what A and B of a comparison are; their cells are one group
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
func newData(current, stale, published []results.Row, all *seriesOf, listed doubts, layout *Layout) *data {
	d := &data{Doubts: [][]string{nil}, Suspect: []string{}, Series: []dataSeries{}, Group: []int{}, Note: []int{}, Notes: []string{},
		Foot: []int{}, Workloads: []*dataWorkload{}, Published: map[int]string{}}
	for _, s := range all.all {
		hue, marker, dash := s.Looks()
		d.Series = append(d.Series, dataSeries{Label: s.Label, GPU: s.GPU, Hue: hue, Marker: marker, Dash: dash})
	}
	published = slices.DeleteFunc(published, func(r results.Row) bool { return all.find(&r) == nil })
	if len(those(current, isMeasured)) == 0 {
		current, stale, published = published, slices.Concat(current, stale), nil
	}
	rows := slices.Concat(current, stale, published)
	d.Listed = len(current) + len(stale)
	for i := range rows {
		if rows[i].Run.Command == "published" {
			d.Published[i] = plain.Line(creditOf(&rows[i]))
		}
	}
	d.group(rows[:d.Listed], all, listed)
	d.columns(rows, all, layout)
	d.top(rows[:len(current)])
	d.Times = newTimes(rows[:d.Listed])
	d.Cell, d.Doubt = slices.Repeat([]int{-1}, len(rows)), make([]int, len(rows))
	at := map[*results.Row]int{} // of each row
	for i := range current {
		at[&current[i]] = i
	}
	shared := load.Verdict{Verdict: load.Suspect}
	for _, text := range sharedReasons(current) {
		for _, r := range those(current, isMeasured)[0].Verdict().Reasons {
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
	drawn := all.withVoid(samples(current, all), current)
	for n, s := range drawn {
		for _, r := range s.rows {
			if s.by != "" {
				d.Published[at[r]] = plain.Line(s.by)
			}
			d.Cell[at[r]], d.Doubt[at[r]] = n, d.doubts(s, r, known)
		}
	}
	theirs := map[string][]int{} // cells that others published, by the id of ours
	for i := range published {
		r := &published[i]
		d.Cell[d.Listed+i] = len(drawn)
		theirs[r.ID] = append(theirs[r.ID], len(drawn))
		drawn = append(drawn, all.sample([]*results.Row{r}))
	}
	d.places(drawn)
	all.refs = map[place]int{}
	for n, s := range drawn {
		all.refs[all.place(s.rows[0])] = n + 1
	}
	for _, f := range findings(current, all, layout) {
		a := f.answer
		w := newDataWorkload(f, func(s *sample) int { return d.Cell[at[s.rows[0]]] })
		for n, s := range a.cells {
			w.Cells, w.At = append(w.Cells, d.Cell[at[s.rows[0]]]), append(w.At, a.at[n])
			for _, cell := range theirs[s.rows[0].ID] {
				w.Cells, w.At = append(w.Cells, cell), append(w.At, -1)
			}
		}
		for n, s := range drawn[:len(drawn)-len(published)] {
			if s.by != "" && !s.void && a.along != nil &&
				underLoad(s.rows[0], all.told, a.along.name) == underLoad(a.cells[0].rows[0], all.told, a.along.name) {
				w.Cells, w.At = append(w.Cells, n), append(w.At, -1)
			}
		}
		d.Workloads = append(d.Workloads, w)
	}
	return d
}

// places are where cells lie.
func (d *data) places(cells []*sample) {
	for _, x := range dimensions {
		c := dataColumn{Key: x.name, Name: x.name, Title: x.title, Unit: x.unit, Values: make(numbers, len(cells))}
		for i, s := range cells {
			if v, ok := s.at[x.name]; ok {
				c.Values[i] = v
			} else {
				c.Values[i] = math.NaN()
			}
		}
		d.Places = append(d.Places, c)
	}
}

// doubts is the number of the metrics that are in doubt in a row.
func (d *data) doubts(s *sample, r *results.Row, known map[string]int) int {
	v := r.Verdict()
	if !isSuspect(v) {
		return 0
	}
	var names []string
	every := true
	for _, c := range d.Columns {
		if m, ok := metricNamed(c.Key); c.Figure && ok {
			if doubtful(v, m, s.shared) {
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
func (d *data) group(rows []results.Row, all *seriesOf, listed doubts) {
	type cell struct {
		series int
		place
	}
	known, notes := map[cell]int{}, map[string]int{"": 0}
	for i := range rows {
		r := &rows[i]
		key := cell{all.find(r).Index, placeOf(r)}
		if _, ok := known[key]; !ok {
			known[key] = len(known)
		}
		d.Group = append(d.Group, known[key])
		text := reasons(r)
		if _, ok := notes[text]; !ok {
			d.Notes, d.Foot = append(d.Notes, text), append(d.Foot, listed.number(r))
			notes[text] = len(d.Notes)
		}
		d.Note = append(d.Note, notes[text])
	}
}

// top says of each figure which groups lead under their load. A and B of a comparison are no rivals.
func (d *data) top(rows []results.Row) {
	at := map[*results.Row]int{}
	for i := range rows {
		if at[&rows[i]] = i; axisOf(rows[i].Axes, sideAxis) != "" {
			return
		}
	}
	loads, shared := rivals(rows), sharedReasons(rows)
	for i := range d.Columns {
		if m, ok := metricNamed(d.Columns[i].Key); d.Columns[i].Figure && ok {
			for _, of := range leaders(m, loads, shared) {
				d.Columns[i].Top = append(d.Columns[i].Top, d.Group[at[of[0]]])
			}
		}
	}
}

// ownColumns are the page's beside figures: an axis of the lab that is called so has a number.
var ownColumns = []string{"series", "verdict", "benchmark", "repetition", "engine", "host", "gpus", "model", "run",
	"id", "started", "slo", "clients", "adapters", "unbounded"}

// columns are who and where a row is, and every figure that any of the rows has.
func (d *data) columns(rows []results.Row, all *seriesOf, layout *Layout) {
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
	for _, s := range all.all {
		series.Texts = append(series.Texts, s.Label)
	}
	for i := range rows {
		series.Values = append(series.Values, float64(all.find(&rows[i]).Index))
	}
	d.Columns = append(d.Columns, series)
	text("verdict", true, func(r *results.Row) string { return verdictText(r) })
	differs := func(column string) bool { return len(wordsOf(rows, column)) > 1 }
	text("benchmark", differs("benchmark"), func(r *results.Row) string { return r.Benchmark })
	taken := unique{}
	for _, name := range ownColumns {
		taken[name] = true
	}
	for _, m := range allMetrics(rows) {
		taken[m.Name] = true
	}
	for _, c := range axisColumns(rows) {
		if c.key != "engine" && c.key != sideAxis {
			text(taken.name(c.key), !c.same(), func(r *results.Row) string { return axisOf(r.Axes, c.key) })
		}
	}
	text("repetition", false, func(r *results.Row) string { return strconv.Itoa(r.Repetition) })
	for _, name := range []string{"engine", "host", "gpus", "model"} {
		text(name, false, func(r *results.Row) string { return wordOf(r, name) })
	}
	text("run", false, func(r *results.Row) string { return cmp.Or(r.RunID, r.Run.ID) })
	text("id", false, func(r *results.Row) string { return r.ID })
	text("started", false, func(r *results.Row) string { return stamp(r.Started) })
	text("slo", slices.ContainsFunc(rows, func(r results.Row) bool { return metText(&r) != "" }),
		func(r *results.Row) string {
			_, missed, _ := attained(r)
			return strings.TrimSpace(metText(r) + " " + strings.Join(missed, ", "))
		})
	text("clients", false, func(r *results.Row) string { clients, _ := sharesText(r.Summary); return clients })
	text("adapters", false, func(r *results.Row) string { _, adapters := sharesText(r.Summary); return adapters })
	text("unbounded", false, func(r *results.Row) string { return strings.Join(unbounded(r.Summary), "; ") })
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
	text := noted(r.Verdict().Verdict, kindOfRun(r), forced(r))
	if r.Stale {
		text += ", stale"
	}
	return text
}

// numbers are the columns of what was measured: the lab's, or those that matter most, are shown.
func (d *data) numbers(rows []results.Row, layout *Layout) {
	named := layout.Columns
	if named == nil {
		named = []string{}
		for _, m := range paged(rows) {
			named = append(named, m.Name)
		}
	}
	place := func(m Metric) int {
		if i := slices.Index(named, m.Name); i >= 0 {
			return i
		}
		return len(named)
	}
	metrics := append(chosen(named), allMetrics(rows)...)
	slices.SortStableFunc(metrics, func(a, b Metric) int { return place(a) - place(b) })
	seen := map[string]bool{}
	for _, m := range metrics {
		c := dataColumn{Key: m.Name, Name: m.Short, Title: m.Title, Group: m.Group, Unit: m.Unit, Better: m.Better,
			Shown: place(m) < len(named), Figure: true, Values: make(numbers, len(rows))}
		known := false
		for i := range rows {
			v, ok := m.value(&rows[i])
			if c.Values[i] = v; !ok {
				c.Values[i] = math.NaN()
			}
			if n := m.lacks(&rows[i]); n > 0 {
				if c.Needs == nil {
					c.Needs = make(numbers, len(rows))
				}
				c.Needs[i] = float64(n)
			}
			known = known || ok
		}
		c.bound(m, rows)
		c.Shown = c.Shown && known
		if (known || c.Needs != nil) && !seen[m.Name] {
			d.Columns = append(d.Columns, c)
		}
		seen[m.Name] = true
	}
}
