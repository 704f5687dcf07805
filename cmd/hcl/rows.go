package main

import (
	"cmp"
	"context"
	"slices"

	"hclbench/hcl"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/report"
	"hclbench/results"
)

// recordsOf reads the requests of a result.
func recordsOf(ctx context.Context, store *results.Store) func(*results.Row) ([]load.Record, error) {
	return func(r *results.Row) ([]load.Record, error) { return store.Records(ctx, r.RunID, r.ID) }
}

// newest are of each cell the row that was finished last.
func newest(rows []results.Row) []results.Row {
	at := map[string]int{}
	var out []results.Row
	for _, r := range rows {
		i, ok := at[r.ID]
		switch {
		case !ok:
			at[r.ID] = len(out)
			out = append(out, r)
		case !r.Finished.Before(out[i].Finished):
			out[i] = r
		}
	}
	return out
}

// byOthers are measurements by other labs in a shared store, of cells that a lab asks for
// and has not measured itself: what one has measured is up to date for all. own selects
// what the lab has of its own, which is rows.
func byOthers(
	ctx context.Context, store *results.Store, own results.Query, rows []results.Row, planned []report.Planned,
) ([]results.Row, error) {
	if own.Lab == "" || own.Rehearsed {
		return nil, nil
	}
	lacking := map[string]bool{}
	for _, p := range planned {
		lacking[p.ID] = true
	}
	for i := range rows {
		if rows[i].Verdict().Verdict != load.Void {
			delete(lacking, rows[i].ID)
		}
	}
	if len(lacking) == 0 {
		return nil, nil
	}
	all, err := store.Rows(ctx, results.Query{Latest: true})
	return slices.DeleteFunc(all, func(r results.Row) bool {
		return !lacking[r.ID] || r.Run.Lab == own.Lab || r.Verdict().Verdict == load.Void
	}), err
}

// wholeRuns are all cells of the runs that rows are from. They are read again
// only where some are not among the rows.
func wholeRuns(ctx context.Context, store *results.Store, rows []results.Row) ([]results.Row, error) {
	counts, err := store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var order []string
	of := map[string][]results.Row{}
	for _, r := range rows {
		if of[r.RunID] == nil {
			order = append(order, r.RunID)
		}
		of[r.RunID] = append(of[r.RunID], r)
	}
	var whole []results.Row
	for _, id := range order {
		n := counts[id]
		if here := of[id]; len(here) == n.Cells() {
			whole = append(whole, here...)
			continue
		}
		all, err := store.Rows(ctx, results.Query{Run: id})
		if err != nil {
			return nil, err
		}
		whole = append(whole, all...)
	}
	return whole, nil
}

// plannedOf are the cells that a lab asks for now, those of a benchmark together; of
// a rehearsal at the speed of the last one. Nil: it is not known.
func plannedOf(ctx context.Context, cfg *hcl.Config, store *results.Store, rehearsed bool) ([]report.Planned, error) {
	var p *plan.Plan
	if rehearsed {
		speed, err := lastSpeed(ctx, store, cfg.Lab.Name)
		if err != nil || speed == 0 {
			return nil, err
		}
		if p, err = plan.Rehearse(cfg, speed, func() (int, error) { return 1, nil }); err != nil {
			return nil, err
		}
	} else {
		past, err := againFlags{}.options(ctx, store)
		if err != nil {
			return nil, err
		}
		p = plan.New(cfg, past)
	}
	all := plannedCells(p)
	at := map[string]int{}
	for i, b := range cfg.Benchmarks {
		at[b.Name] = i
	}
	slices.SortStableFunc(all, func(a, b report.Planned) int { return cmp.Compare(at[a.Benchmark], at[b.Benchmark]) })
	return all, nil
}

// plannedCells are the cells of a plan, as reports want them.
func plannedCells(p *plan.Plan) []report.Planned {
	all := []report.Planned{}
	for _, d := range p.Deployments {
		host := ""
		if h := d.Host(); h != nil {
			host = h.Name
		}
		for _, c := range d.Cells {
			all = append(all, report.Planned{
				ID: c.ID, Group: c.Group, Benchmark: c.Benchmark, Engine: d.Engine.Label(), Host: host,
				Axes: c.Axes, Repetition: c.Repetition, SLO: c.Task.Stored().Workload.SLO, HostChanged: c.HostChanged,
			})
		}
	}
	return all
}

// lastSpeed is how fast the newest rehearsal of a lab was; 0: there was none, or it
// did not keep that.
func lastSpeed(ctx context.Context, store *results.Store, lab string) (float64, error) {
	if store == nil {
		return 0, nil
	}
	runs, err := store.Runs(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range slices.Backward(runs) {
		if r.Command != "rehearse" || r.Bundled || r.Lab != lab {
			continue
		}
		kept, err := keptReport(ctx, store, r.ID)
		if err != nil || kept == nil {
			return 0, err
		}
		return kept.Speed, nil
	}
	return 0, nil
}
