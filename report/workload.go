package report

import "strings"

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
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Under   string  `json:"under"`
	Metric  string  `json:"metric"`
	Unit    string  `json:"unit"`
	Better  int     `json:"better"`
	Finding string  `json:"finding"`
	Places  []spot  `json:"places"`
	Series  []int   `json:"series"` // a row of the table each, by their index among all series
	Best    [][]int `json:"best"`   // of each place, the cells
	Beyond  [][]int `json:"beyond"`

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

func newDataWorkload(f finding, cell func(s *sample) int) *dataWorkload {
	a := f.answer
	w := &dataWorkload{ID: a.ID, Workload: a.Workload, Headline: headline(f.Text), Finding: f.Text, Fronts: [][]int{}}
	if a.along != nil {
		w.Along = a.along.name
	}
	if d := a.Tables[0]; d.byService() {
		fronts, _ := fronts(slice{along: *a.along, samples: a.cells}.tradeoff(interactivity, d.of), d.of)
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
			t.Series = append(t.Series, r.series.Index)
		}
		if d.Baseline >= 0 {
			t.Baseline = t.Series[d.Baseline]
		}
		for i := range d.Places {
			best, beyond := []int{}, []int{}
			for _, o := range d.offers(i, false) {
				if o.Best {
					best = append(best, cell(o.cell))
				}
			}
			for _, o := range d.offers(i, true) {
				if o.Beyond {
					beyond = append(beyond, cell(o.cell))
				}
			}
			t.Best, t.Beyond = append(t.Best, best), append(t.Beyond, beyond)
		}
		w.Tables = append(w.Tables, t)
	}
	return w
}
