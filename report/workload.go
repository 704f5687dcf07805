package report

// dataWorkload is an answer as the page's script has it, with the cells that it is of: what each of
// them offers stands in the rows.
type dataWorkload struct {
	ID       string       `json:"id"`       // in addresses: "online-3-200-tokens-in-800-tokens-out"
	Workload string       `json:"workload"` // what its cells have in common, in words
	Finding  string       `json:"finding"`
	Tables   []*dataTable `json:"tables"` // what decides comes first
	Along    string       `json:"along"`  // the dimension that its cells lie along; empty: none
	Cells    []int        `json:"cells"`
	At       []int        `json:"at"` // of each cell, its place in tables that are not by service
}

// dataTable is a decision without its choices. What leads at a place is told, as repetitions are held
// against each other by a test; with a filter it is what the script finds.
type dataTable struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Under   string  `json:"under"`
	Metric  string  `json:"metric"`
	Unit    string  `json:"unit"`
	Better  int     `json:"better"`
	Finding string  `json:"finding"`
	Places  []place `json:"places"`
	Series  []int   `json:"series"` // a row of the table each, by their index among all series
	Best    [][]int `json:"best"`   // of each place, the series
	Beyond  [][]int `json:"beyond"`

	Baseline int `json:"baseline"` // the series that changes are against; −1: none
}

func newDataWorkload(a *answer) *dataWorkload {
	w := &dataWorkload{ID: a.ID, Workload: a.Workload, Finding: a.Finding}
	if a.along != nil {
		w.Along = a.along.name
	}
	for _, d := range a.Tables {
		t := &dataTable{ID: d.ID, Title: d.Title, Under: d.Under, Metric: d.Metric, Unit: d.Unit, Better: d.Better,
			Finding: d.Finding, Places: d.Places, Baseline: -1}
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
					best = append(best, o.series.Index)
				}
			}
			for _, o := range d.offers(i, true) {
				if o.Beyond {
					beyond = append(beyond, o.series.Index)
				}
			}
			t.Best, t.Beyond = append(t.Best, best), append(t.Beyond, beyond)
		}
		w.Tables = append(w.Tables, t)
	}
	return w
}
