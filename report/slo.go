package report

import (
	"slices"

	"hclbench/load"
	"hclbench/results"
)

// Judge holds what was measured against the SLO that the lab has now, where it is
// another than that of the day. records reads the requests of a row; where they cannot
// be read, a row is judged by its figures.
func Judge(rows []results.Row, planned []Planned, records func(r *results.Row) ([]load.Record, error)) {
	slo := map[string][]load.Objective{}
	for _, p := range planned {
		slo[p.ID] = p.SLO
	}
	for i := range rows {
		r := &rows[i]
		now, ok := slo[r.ID]
		if !ok || r.Stale || r.Summary == nil || slices.Equal(now, r.Job.Workload.SLO) &&
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

// attained says whether a cell meets every line of its SLO, and which it misses; ok is
// false where there is none.
func attained(r *results.Row) (met bool, missed []string, ok bool) {
	if !isMeasured(r) || len(r.Summary.Objectives) == 0 {
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
	if !isMeasured(r) {
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
