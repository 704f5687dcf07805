package figure

import (
	"cmp"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
)

// Planned is a cell that a lab asks for, under the names that the lab has now.
type Planned struct {
	ID         string
	Group      string // the id without the repetition: what repetitions have in common; empty: not known
	Benchmark  string
	Engine     string // "vllm.h200"
	Host       string
	Axes       results.Axes
	Repetition int              // from 1
	SLO        []load.Objective `json:",omitempty"`
	// Prices are what its hosts cost an hour now, in USD, by their names; 0: nobody says. Nil: it is not known.
	Prices map[string]float64 `json:",omitempty"`

	// Row is the cell as far as it is known before it is measured; nil: the lab's text is not at hand.
	Row *results.Row `json:"-"`

	// HostChanged says in what the host is not as it was when the cell was measured.
	HostChanged []string `json:",omitempty"`
}

// OfPlan parts rows into those that a plan asks for and all others. The first are in
// the plan's order, under its names, whatever they were called when they were
// measured; rows has one measurement of each id at most. What no plan ever asked for,
// as what was imported, comes after them. The others are marked stale.
func OfPlan(rows []results.Row, planned []Planned) (current, others []results.Row) {
	byID := map[string]*results.Row{}
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	asked := map[string]bool{}
	for _, p := range planned {
		asked[p.ID] = true
		if r := byID[p.ID]; r != nil {
			current = append(current, p.name(*r))
		}
	}
	for _, r := range rows {
		switch {
		case asked[r.ID]:
		case r.Run.Command == "apply" || r.Run.Command == "rehearse":
			r.Stale = true
			others = append(others, r)
		default:
			current = append(current, r)
		}
	}
	return current, others
}

// Fresh are the rows that are not stale: what charts and summaries are made of.
func Fresh(rows []results.Row) []results.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r results.Row) bool { return r.Stale })
}

// name is the row under the names of the plan. What a run kept of its plan may lack the newer ones.
func (p Planned) name(r results.Row) results.Row {
	r.Benchmark, r.Axes, r.Group = p.Benchmark, p.Axes, p.Group
	r.Deployment.Engine = cmp.Or(p.Engine, r.Deployment.Engine)
	r.Deployment.Host = cmp.Or(p.Host, r.Deployment.Host)
	r.Repetition = cmp.Or(p.Repetition, r.Repetition)
	r.HostChanged = p.HostChanged
	return r
}

// Group says of rows what their plan said they have in common with their repetitions,
// where that is not known. It leaves their names.
func Group(rows []results.Row, planned []Planned) {
	of := map[string]string{}
	for _, p := range planned {
		of[p.ID] = p.Group
	}
	for i := range rows {
		rows[i].Group = cmp.Or(rows[i].Group, of[rows[i].ID])
	}
}

// Unmeasured are the planned cells that no row is of, as void rows.
func Unmeasured(rows []results.Row, planned []Planned) []results.Row {
	measured := map[string]bool{}
	for _, r := range rows {
		measured[r.ID] = true
	}
	var out []results.Row
	for _, p := range planned {
		if !measured[p.ID] {
			out = append(out, p.name(results.Row{Cell: results.Cell{ID: p.ID, Error: "not measured"}}))
		}
	}
	return out
}

// Sorted are the rows with those of a benchmark, and in it those of an engine, side
// by side, however hosts took turns; where a plan is known, in its order.
func Sorted(rows []results.Row, planned []Planned) []results.Row {
	at := map[string]int{} // from 1; 0: it has no place
	place := func(key string) {
		at[key] = cmp.Or(at[key], len(at)+1)
	}
	for _, p := range planned {
		place("cell " + p.ID)
	}
	for _, r := range rows {
		place("benchmark " + r.Benchmark)
		place("engine " + r.Deployment.Engine)
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b results.Row) int {
		return cmp.Or(at["cell "+a.ID]-at["cell "+b.ID], at["benchmark "+a.Benchmark]-at["benchmark "+b.Benchmark],
			at["engine "+a.Deployment.Engine]-at["engine "+b.Deployment.Engine])
	})
	return rows
}

// Place is where the cell lies, in words.
func (c Planned) Place() string {
	var parts []string
	for _, a := range c.Axes {
		part := AxisText(a.Value)
		switch a.Name {
		case "engine":
		case SideAxis:
			part = "in " + part
		default:
			part += " " + strings.ReplaceAll(a.Name, "_", " ")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
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
