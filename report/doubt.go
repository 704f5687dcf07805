package report

import (
	"cmp"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/results"
)

// doubt is a reason against cells, which stands once however many they are.
type doubt struct {
	Text string
	rows []*results.Row
}

// doubts are the reasons against some rows, numbered from 1.
type doubts []doubt

func newDoubts(rows []results.Row) (all doubts) {
	for i := range rows {
		text := reasons(rows[i])
		if text == "" {
			continue
		}
		n := all.number(text)
		if n == 0 {
			all = append(all, doubt{Text: text})
			n = len(all)
		}
		all[n-1].rows = append(all[n-1].rows, &rows[i])
	}
	return all
}

// number is that of a text; 0: it is none of these.
func (all doubts) number(text string) int {
	return slices.IndexFunc(all, func(d doubt) bool { return d.Text == text }) + 1
}

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
