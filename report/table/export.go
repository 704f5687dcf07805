package table

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/tune"
)

// CSV writes every row with exact numbers: who and where it is, a column for each
// axis, then every metric that any row has. docs/report.md names the columns.
func CSV(w io.Writer, rows []results.Row, about figure.About) error {
	s := &Sheet{Rows: len(rows)}
	text := func(name string, of func(r *results.Row) string) {
		c := Column{Key: plain.CSV(name)}.With(len(rows), func(i int) Entry { return Entry{Text: plain.CSV(of(&rows[i]))} })
		s.Columns = append(s.Columns, c)
	}
	for _, word := range figure.TextColumns {
		text(word.Name, word.Of)
	}
	for _, name := range figure.Axes(rows) {
		text("axis_"+name, func(r *results.Row) string { return figure.AxisOf(r.Axes, name) })
	}
	if slices.ContainsFunc(rows, func(r results.Row) bool { return len(r.Deployment.Members) > 0 }) {
		text("members", membersText)
	}
	text("repetition", func(r *results.Row) string { return strconv.Itoa(r.Repetition) })
	text("started", func(r *results.Row) string { return figure.Stamp(r.Started) })
	text("finished", func(r *results.Row) string { return figure.Stamp(r.Finished) })
	text("verdict", func(r *results.Row) string { return r.Verdict().Verdict })
	text("reasons", func(r *results.Row) string { return strings.Join(r.Verdict().Texts(), "; ") })
	if slices.ContainsFunc(rows, func(r results.Row) bool { return figure.MetText(&r) != "" }) {
		text("slo", figure.MetText)
	}
	if all := figure.Capacities(rows, about.Capacities); all != nil {
		of := func(name string, of func(c *figure.Capacity, l *capacity.Load) string) {
			text(name, func(r *results.Row) string {
				if c, l := figure.TriedBy(all, r); l != nil {
					return of(c, l)
				}
				return ""
			})
		}
		bound := func(v *float64) string {
			if v == nil {
				return ""
			}
			return number.Exact(*v)
		}
		of("capacity", func(_ *figure.Capacity, l *capacity.Load) string { return string(l.Verdict) })
		of("capacity_holds", func(c *figure.Capacity, _ *capacity.Load) string { return bound(c.Outcome.Holds) })
		of("capacity_breaks", func(c *figure.Capacity, _ *capacity.Load) string { return bound(c.Outcome.Breaks) })
	}
	if slices.ContainsFunc(rows, func(r results.Row) bool { return r.Checked != "" }) {
		text("accuracy", func(r *results.Row) string { return r.Checked })
	}
	s.Columns = append(s.Columns, callColumn(rows)...)
	if slices.ContainsFunc(rows, func(r results.Row) bool { return r.Stale }) {
		text("stale", func(r *results.Row) string { return strconv.FormatBool(r.Stale) })
	}
	for _, m := range figure.AllMetrics(rows) {
		if c := columnOf(m.Raw(), rows, 0, m.Unit, 1); c.Known() {
			s.Columns = append(s.Columns, c)
		}
	}
	return s.csv(w)
}

// membersText names the members of an engine of several, each with its host: "decode 0 rank 1
// on n2; router on n0".
func membersText(r *results.Row) string {
	var all []string
	for _, m := range r.Deployment.Members {
		all = append(all, m.Name()+" on "+m.Host)
	}
	return strings.Join(all, "; ")
}

// FormatVersion is the version of what JSON writes. Its second number grows when
// members are added, its first when any changes its meaning or goes.
const FormatVersion = "1.11"

// JSON writes every row with exact numbers, published figures beside measured
// ones, and what runs had of their hosts; docs/results.md lists the members.
func JSON(w io.Writer, rows []results.Row, about figure.About) error {
	type row struct {
		results.Row
		Verdict load.Verdict       `json:"verdict"` // also of a cell without a summary
		Costs   map[string]float64 `json:"costs,omitempty"`
		// Intervals are of figures that follow from others, as costs do.
		Intervals map[string]load.Interval `json:"intervals,omitempty"`
		Forced    *ForcedFigures           `json:"forced_acceptance,omitempty"`
	}
	doc := struct {
		FormatVersion string            `json:"format_version"`
		Rows          []row             `json:"rows"`
		Repeated      []figure.Repeated `json:"repeated,omitempty"`
		References    []figure.Compared `json:"references,omitempty"`
		Spending      []figure.Spending `json:"spending,omitempty"`
		Capacities    []Searched        `json:"capacities,omitempty"`
		Tunings       []*tune.Summary   `json:"tunings,omitempty"`
		Scores        []results.Scored  `json:"scores,omitempty"` // of cells that ask questions, each as a row and what is held against its baseline
	}{FormatVersion, make([]row, len(rows)), figure.Repetitions(rows), about.References, about.Spending, searched(rows, about.Capacities), nil, about.Scores}
	for _, t := range figure.Tunings(rows, about.Tunings) {
		doc.Tunings = append(doc.Tunings, t.Summary)
	}
	for i, r := range rows {
		doc.Rows[i] = row{r, r.Verdict(), figure.Costs(&r), figure.DerivedIntervals(&r), NewForced([]*results.Row{&r})}
	}
	return WriteJSON(w, doc)
}

// WriteJSON writes a document with two blanks a level.
func WriteJSON(w io.Writer, doc any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// ForcedFigures are what an engine was told to accept of its drafts.
type ForcedFigures struct {
	TokensPerStep float64 `json:"tokens_per_step,omitempty"` // the model's own among them; 0: not known
	By            string  `json:"by"`                        // the setting that says it
}

// NewForced is that of the first of some rows; nil: it was told nothing.
func NewForced(rows []*results.Row) *ForcedFigures {
	if len(rows) > 0 {
		if tokens, by := rows[0].Deployment.ForcedAcceptance(); by != "" {
			return &ForcedFigures{tokens, by}
		}
	}
	return nil
}
