package report

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// CSV writes every row with exact numbers: who and where it is, a column for each
// axis, then every metric that any row has. docs/report.md names the columns.
func CSV(w io.Writer, rows []results.Row) error {
	s := &sheet{rows: len(rows)}
	text := func(name string, of func(r *results.Row) string) {
		c := column{key: csvText(name)}.with(len(rows), func(i int) entry { return entry{Text: csvText(of(&rows[i]))} })
		s.columns = append(s.columns, c)
	}
	for _, word := range textColumns {
		text(word.name, word.of)
	}
	for _, name := range axes(rows) {
		text("axis_"+name, func(r *results.Row) string { return axisOf(r.Axes, name) })
	}
	if slices.ContainsFunc(rows, func(r results.Row) bool { return len(r.Deployment.Members) > 0 }) {
		text("members", membersText)
	}
	text("repetition", func(r *results.Row) string { return strconv.Itoa(r.Repetition) })
	text("started", func(r *results.Row) string { return stamp(r.Started) })
	text("finished", func(r *results.Row) string { return stamp(r.Finished) })
	text("verdict", func(r *results.Row) string { return r.Verdict().Verdict })
	text("reasons", func(r *results.Row) string { return strings.Join(r.Verdict().Texts(), "; ") })
	if slices.ContainsFunc(rows, func(r results.Row) bool { return metText(&r) != "" }) {
		text("slo", metText)
	}
	if slices.ContainsFunc(rows, func(r results.Row) bool { return r.Stale }) {
		text("stale", func(r *results.Row) string { return strconv.FormatBool(r.Stale) })
	}
	for _, m := range allMetrics(rows) {
		if c := m.raw().column(rows, 0); c.known() {
			s.columns = append(s.columns, c)
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

// csv writes the sheet under the keys of its columns.
func (s *sheet) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	line := make([]string, len(s.columns))
	for row := -1; row < s.rows; row++ {
		for i, c := range s.columns {
			if line[i] = c.key; row >= 0 {
				line[i] = c.exact(row)
			}
		}
		_ = out.Write(line) // Error says it
	}
	out.Flush()
	return out.Error()
}

// csvText is text that no spreadsheet takes for a formula and no terminal for a command.
func csvText(s string) string {
	s = plain.Line(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) && !isNumber(s) {
		return "'" + s
	}
	return s
}

// stamp is a time as text; what is not known is empty.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// FormatVersion is the version of what JSON writes. Its second number grows when
// members are added, its first when any changes its meaning or goes.
const FormatVersion = "1.6"

// JSON writes every row with exact numbers, published figures beside measured
// ones, and what runs had of their hosts; docs/results.md lists the members.
func JSON(w io.Writer, rows []results.Row, about About) error {
	type row struct {
		results.Row
		Verdict load.Verdict       `json:"verdict"` // also of a cell without a summary
		Costs   map[string]float64 `json:"costs,omitempty"`
		// Intervals are of figures that follow from others, as costs do.
		Intervals map[string]load.Interval `json:"intervals,omitempty"`
		Forced    *forcedFigures           `json:"forced_acceptance,omitempty"`
	}
	doc := struct {
		FormatVersion string     `json:"format_version"`
		Rows          []row      `json:"rows"`
		Repeated      []Repeated `json:"repeated,omitempty"`
		References    []Compared `json:"references,omitempty"`
		Spending      []Spending `json:"spending,omitempty"`
	}{FormatVersion, make([]row, len(rows)), Repetitions(rows), about.References, about.Spending}
	for i, r := range rows {
		doc.Rows[i] = row{r, r.Verdict(), costs(&r), derivedIntervals(&r), newForced([]*results.Row{&r})}
	}
	return writeJSON(w, doc)
}

// forcedFigures are what an engine was told to accept of its drafts.
type forcedFigures struct {
	TokensPerStep float64 `json:"tokens_per_step,omitempty"` // the model's own among them; 0: not known
	By            string  `json:"by"`                        // the setting that says it
}

// newForced is that of the first of some rows; nil: it was told nothing.
func newForced(rows []*results.Row) *forcedFigures {
	if len(rows) > 0 {
		if tokens, by := rows[0].Deployment.ForcedAcceptance(); by != "" {
			return &forcedFigures{tokens, by}
		}
	}
	return nil
}

func writeJSON(w io.Writer, doc any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}
