package report

import (
	"cmp"
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
