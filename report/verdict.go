package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// verdicts are those that there are, the worst last.
func verdicts() []string { return []string{load.Valid, load.Imported, load.Suspect, load.Void} }

func isSuspect(v load.Verdict) bool { return v.Verdict == load.Suspect }

func isMeasured(r *results.Row) bool { return r.Verdict().Verdict != load.Void }

func notVoid(rows []*results.Row) []*results.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r *results.Row) bool { return !isMeasured(r) })
}

// worst is the worst verdict of some rows, and none of no rows. A verdict that nobody
// knows is as bad as none.
func worst(rows []*results.Row) string {
	if len(rows) == 0 {
		return ""
	}
	all, at := verdicts(), 0
	for _, r := range rows {
		place := slices.Index(all, r.Verdict().Verdict)
		if place < 0 {
			place = len(all) - 1
		}
		at = max(at, place)
	}
	return all[at]
}

// allSuspect is the first of the repetitions, when none of them is free of doubt.
func allSuspect(rows []*results.Row) *results.Row {
	rows = notVoid(rows)
	if len(rows) == 0 || slices.ContainsFunc(rows, func(r *results.Row) bool { return !isSuspect(r.Verdict()) }) {
		return nil
	}
	return rows[0]
}

// noneFailed reports whether it is known that no request failed in any repetition.
func noneFailed(rows []*results.Row) bool {
	values := valuesOf(failed, rows)
	return len(values) > 0 && len(values) == len(notVoid(rows)) && slices.Max(values) == 0
}

// mostFailed is how many requests failed in the worst of the repetitions.
func mostFailed(rows []*results.Row) int {
	most := 0
	for _, r := range rows {
		if r.Summary != nil {
			most = max(most, r.Summary.Failed)
		}
	}
	return most
}

// reasonOf is the first line of what stands against a row.
func reasonOf(r *results.Row) string {
	_, reason, _ := strings.Cut(reasons(r), ": ")
	return plain.Line(cmp.Or(reason, "no reason is given"))
}

// doubt is a reason against cells, which stands once however many they are.
type doubt struct {
	Text  string // with the range of each number in which its cells differ
	rows  []*results.Row
	shape string // its reasons without their numbers
}

// doubts are the reasons against some rows, numbered from 1.
type doubts []doubt

// numerals are the numbers in a sentence.
var numerals = regexp.MustCompile(`\b\d+(?:[.,]\d+)*`)

func shapeOf(text string) string { return numerals.ReplaceAllString(text, "\x00") }

// newDoubts are the reasons against rows: those that differ in their numbers alone are one.
func newDoubts(rows []results.Row) (all doubts) {
	doubtful := those(rows, func(r *results.Row) bool { return reasons(r) != "" })
	for _, of := range grouped(doubtful, func(r *results.Row) string { return shapeOf(reasons(r)) }) {
		var texts []string
		for _, r := range of {
			texts = append(texts, reasons(r))
		}
		all = append(all, doubt{ranges(texts), of, shapeOf(texts[0])})
	}
	return all
}

// ranges is a sentence of sentences that differ in their numbers alone: "8–518 ms".
func ranges(texts []string) string {
	numbers := func(text string) []string { return numerals.FindAllString(text, -1) }
	least, most := numbers(texts[0]), numbers(texts[0])
	value := func(text string) float64 { v, _ := float(text); return v } // it is one by its form
	for _, text := range texts {
		for i, n := range numbers(text) {
			if value(n) < value(least[i]) {
				least[i] = n
			}
			if value(n) > value(most[i]) {
				most[i] = n
			}
		}
	}
	n := -1
	return numerals.ReplaceAllStringFunc(texts[0], func(string) string {
		if n++; least[n] != most[n] {
			return least[n] + "–" + most[n]
		}
		return least[n]
	})
}

// number is that of the doubt about a row; 0: there is none.
func (all doubts) number(r *results.Row) int {
	shape := shapeOf(reasons(r))
	return 1 + slices.IndexFunc(all, func(d doubt) bool { return d.shape == shape })
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

// Judge holds what was measured against the SLO that the lab has now, where it is
// another than that of the day, and counts costs by the prices that it has now. records reads the requests of a row; where they cannot
// be read, a row is judged by its figures.
func Judge(rows []results.Row, planned []Planned, records func(r *results.Row) ([]load.Record, error)) {
	of := map[string]Planned{}
	for _, p := range planned {
		of[p.ID] = p
	}
	for i := range rows {
		r := &rows[i]
		p, ok := of[r.ID]
		if !ok || r.Stale {
			continue
		}
		reprice(&r.Deployment, p.Prices)
		now := p.SLO
		if r.Summary == nil || slices.Equal(now, r.Job.Workload.SLO) &&
			len(r.Summary.Objectives) == len(now) {
			continue
		}
		var all []load.Record
		if len(now) > 0 {
			all, _ = records(r) // without them the figures say it
		}
		s := r.Summary.Under(now, all)
		r.Summary, r.Job.Workload.SLO = &s, now
	}
}

// sloText is the SLO by which a row is judged.
func sloText(r *results.Row) string { return fmt.Sprint(r.Job.Workload.SLO) }

// attained says whether a cell meets every line of its SLO, and which it misses; ok is
// false where there is none.
func attained(r *results.Row) (met bool, missed []string, ok bool) {
	if !isMeasured(r) || isFast(r) || len(r.Summary.Objectives) == 0 {
		return false, nil, false
	}
	known := true
	for _, o := range r.Summary.Objectives {
		switch {
		case o.Count == 0:
			known = false // neither requests nor a figure say anything of it
		case !o.Met:
			missed = append(missed, o.Name())
		}
	}
	return missed == nil, missed, known || missed != nil
}

// metText is "met" or "missed"; empty where there is no SLO.
func metText(r *results.Row) string {
	switch met, _, ok := attained(r); {
	case !ok:
		return ""
	case met:
		return "met"
	}
	return "missed"
}

// metLine is "met" or "missed" of one line of a cell's SLO; empty where it has none.
func metLine(r *results.Row, name string) string {
	if !isMeasured(r) || isFast(r) {
		return ""
	}
	for _, o := range r.Summary.Objectives {
		switch {
		case o.Name() != name || o.Count == 0:
		case o.Met:
			return "met"
		default:
			return "missed"
		}
	}
	return ""
}
