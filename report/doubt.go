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
	for _, of := range grouped(those(rows, func(r *results.Row) bool { return reasons(r) != "" }), reasons) {
		all = append(all, doubt{reasons(of[0]), of})
	}
	return all
}

func (all doubts) texts() (texts []string) {
	for _, d := range all {
		texts = append(texts, d.Text)
	}
	return texts
}

// reasons are in one line each: an error may have pages, with the last log lines
// of an engine, which stay in the store.
func reasons(r *results.Row) string {
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
