package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/report"
	"hclbench/results"
)

// selection is which results a verb is about.
type selection struct {
	run, cell, benchmark, where string
	rehearsed                   bool
	all                         bool // also what the lab no longer asks for
}

func (s *selection) add(a *app, c *cobra.Command) {
	a.storeFlag(c)
	c.Flags().StringVar(&s.run, "run", "", "only what the run whose `id` begins so measured")
	c.Flags().StringVar(&s.cell, "cell", "", "only the cell whose `id` begins so")
	c.Flags().StringVar(&s.benchmark, "benchmark", "", "only this benchmark")
	c.Flags().BoolVar(&s.rehearsed, "rehearsed", false, "what was rehearsed instead of what was measured")
	c.Flags().StringVar(&s.where, "where", "", "only those that meet a `condition`, such as 'engine = \"vllm\" and concurrency >= 64'")
	a.completeRun(c, "run")
	a.complete(c, "benchmark", func(cfg *hcl.Config) []string { return benchmarkNames(cfg, "") })
}

func (s *selection) addAll(c *cobra.Command) {
	c.Flags().BoolVar(&s.all, "all", false, "also what was measured and is no longer in the lab, marked as stale")
}

// shown are the results that a verb shows: of the lab as it is now, or of one run.
type shown struct {
	store   *results.Store   // nil: nothing was ever stored
	cfg     *hcl.Config      // what is planned of the lab; nil: it is not at hand, or a run is shown
	kept    *reported        // what was kept with the run that is shown; nil: none is, or nothing was
	rows    []results.Row    // under the names of the lab, in the order of its plan
	planned []report.Planned // of what is shown; nil: it is not known
	stale   int              // results that are stored and left out, because the lab does not ask for them
}

var errNothingStored = errors.New("nothing is stored")

// results opens the store of a lab and reads what is selected: of each cell of the lab
// as it is now the newest measurement, under the names that it has now, or one run as
// it was. What is selected by name and not there is an error. The caller closes the
// store.
func (a *app) shown(c *cobra.Command, lab labFlags, args []string, s selection) (*shown, error) {
	ctx := c.Context()
	if _, err := os.Stat(labPath(args)); errors.Is(err, os.ErrNotExist) {
		return nil, usage("there is no %s: name a lab's directory or file", labPath(args))
	}
	v := &shown{}
	if s.run == "" {
		var err error
		if v.cfg, err = a.labOf(ctx, lab, args); err != nil {
			return nil, err
		}
	}
	var err error
	if v.store, err = a.existing(c, args); err != nil {
		return v, err
	}
	if err := a.read(ctx, v, args, s); err != nil {
		return nil, errors.Join(err, v.store.Close())
	}
	return v, nil
}

// read fills in what is selected of an open store.
func (a *app) read(ctx context.Context, v *shown, args []string, s selection) error {
	lab, err := labIn(v.store, args)
	if err != nil {
		return err
	}
	if s.run != "" {
		run, err := runNamed(ctx, v.store, lab, s.run)
		if err != nil {
			return err
		}
		if err := v.ofRun(ctx, run); err != nil {
			return err
		}
	} else if err := v.ofLab(ctx, lab, s); err != nil {
		return err
	}
	if err := v.pick(s); err != nil {
		return err
	}
	a.hint(ctx, v, lab, s)
	return nil
}

// runNamed is the run of a lab, or of all of them, whose id begins so.
func runNamed(ctx context.Context, store *results.Store, lab, id string) (results.Run, error) {
	runs, err := store.Runs(ctx)
	if err != nil {
		return results.Run{}, err
	}
	var all []string
	var found []results.Run
	for _, r := range runs {
		switch {
		case r.ID == id:
			return r, nil
		case lab != "" && r.Lab != lab:
			continue
		case strings.HasPrefix(r.ID, id):
			found = append(found, r)
		}
		all = append(all, r.ID)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return results.Run{}, usage("%s is the beginning of %d runs: %s to %s", id, len(found), found[0].ID, found[len(found)-1].ID)
	case len(all) == 0:
		return results.Run{}, usage("there is no run %s: nothing was run yet", id)
	}
	return results.Run{}, usage("there is no run whose id begins with %s; the newest is %s, and hcl runs lists them", id, all[len(all)-1])
}

// ofRun reads what one run measured, as it was called then.
func (v *shown) ofRun(ctx context.Context, run results.Run) (err error) {
	if v.kept, err = keptReport(ctx, v.store, run.ID); err != nil {
		return err
	}
	if v.kept != nil {
		v.planned = v.kept.Planned
	}
	if v.rows, err = v.store.Rows(ctx, results.Query{Run: run.ID}); err != nil {
		return err
	}
	report.Group(v.rows, v.planned)
	v.rows = report.Sorted(v.rows, v.planned)
	return nil
}

// ofLab reads the newest measurement of each cell.
func (v *shown) ofLab(ctx context.Context, lab string, s selection) error {
	rows, err := v.store.Rows(ctx, results.Query{Lab: lab, Rehearsed: s.rehearsed, Latest: true})
	if err != nil {
		return err
	}
	if v.cfg != nil {
		if v.planned, err = plannedOf(ctx, v.cfg, v.store, s.rehearsed); err != nil {
			return err
		}
	}
	if v.planned == nil {
		v.rows = report.Sorted(rows, nil)
		return nil
	}
	found, err := byOthers(ctx, v.store, results.Query{Lab: lab, Rehearsed: s.rehearsed}, rows, v.planned)
	if err != nil {
		return err
	}
	for _, f := range found { // in the place of attempts that brought nothing
		rows = slices.DeleteFunc(rows, func(r results.Row) bool { return r.ID == f.ID })
	}
	current, others := report.OfPlan(append(rows, found...), v.planned)
	report.Judge(current, v.planned, func(r *results.Row) ([]load.Record, error) { return v.store.Records(ctx, r.RunID, r.ID) })
	v.rows = current
	if s.all || s.cell != "" { // who names a cell wants it
		v.rows = append(v.rows, others...)
	} else {
		v.stale = len(others)
	}
	return nil
}

// byOthers are measurements by other labs in a shared store, of cells that a lab asks for
// and has not measured itself: what one has measured is up to date for all. own selects
// what the lab has of its own, which is rows.
func byOthers(ctx context.Context, store *results.Store, own results.Query, rows []results.Row, planned []report.Planned) ([]results.Row, error) {
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
			all = append(all, report.Planned{ID: c.ID, Group: c.Group, Benchmark: c.Benchmark, Engine: d.Engine.Label(), Host: host, Axes: c.Axes, Repetition: c.Repetition, SLO: c.Task.Stored().Workload.SLO, HostChanged: c.HostChanged})
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

// pick leaves what has the cell, the benchmark, and meets the condition.
func (v *shown) pick(s selection) error {
	if s.benchmark != "" {
		names := map[string]bool{}
		for _, r := range v.rows {
			names[r.Benchmark] = true
		}
		for _, p := range v.planned {
			names[p.Benchmark] = true
		}
		if !names[s.benchmark] {
			return usage("there is no benchmark %s; there is %s", s.benchmark, cmp.Or(strings.Join(slices.Sorted(maps.Keys(names)), ", "), "none"))
		}
		v.rows = slices.DeleteFunc(v.rows, func(r results.Row) bool { return r.Benchmark != s.benchmark })
		v.planned = only(v.planned, func(p report.Planned) bool { return p.Benchmark == s.benchmark })
	}
	if s.cell != "" {
		ids := func(id string) bool { return strings.HasPrefix(id, s.cell) }
		v.rows = slices.DeleteFunc(v.rows, func(r results.Row) bool { return !ids(r.ID) })
		v.planned = only(v.planned, func(p report.Planned) bool { return ids(p.ID) })
		if len(v.rows)+len(v.planned) == 0 {
			return usage("there is no cell whose id begins with %s; hcl report --json prints the ids", s.cell)
		}
	}
	if s.where != "" && len(v.rows) > 0 {
		rows, err := report.Where(v.rows, s.where)
		if err != nil {
			return &exit{exitUsage, fmt.Errorf("--where: %w", err)}
		}
		met := map[string]bool{}
		for _, r := range rows {
			met[r.ID] = true
		}
		v.rows = rows
		v.planned = only(v.planned, func(p report.Planned) bool { return met[p.ID] })
	}
	return nil
}

func only(planned []report.Planned, keep func(report.Planned) bool) []report.Planned {
	return slices.DeleteFunc(slices.Clone(planned), func(p report.Planned) bool { return !keep(p) })
}

// hint says what else there is, where that may be what was meant.
func (a *app) hint(ctx context.Context, v *shown, lab string, s selection) {
	if v.stale > 0 {
		a.logger().Info("left out what the lab no longer asks for; --all shows it", "results", v.stale)
	}
	if len(v.rows) > 0 {
		return
	}
	if s.where != "" {
		a.logger().Info("no result meets the condition", "where", s.where)
		return
	}
	if s.run == "" && !s.rehearsed {
		rehearsed, err := v.store.Rows(ctx, results.Query{Lab: lab, Rehearsed: true, Latest: true})
		if err == nil && len(rehearsed) > 0 {
			a.logger().Info("nothing is measured yet; --rehearsed shows what was rehearsed")
		}
	}
}

// about is what a report tells beside its rows, with what the layout leaves of them.
// Of one run it is what was kept with it, wherever the run is now and whatever the
// lab's text says meanwhile.
func (a *app) about(ctx context.Context, v *shown, published []report.Reference) ([]results.Row, report.About, error) {
	about := report.About{Title: "Results", Version: version, Planned: v.planned}
	if len(v.rows) > 0 {
		about.Title = cmp.Or(v.rows[0].Run.Lab, about.Title)
	}
	var wanted report.Layout
	switch {
	case v.kept != nil:
		wanted = v.kept.Layout
		about.Title, about.Description = v.kept.Lab, v.kept.Description
	case v.cfg != nil:
		wanted = layout(v.cfg)
		about.Title, about.Description = v.cfg.Lab.Name, v.cfg.Lab.Description
	}
	if v.store != nil {
		about.Records = func(r *results.Row) ([]load.Record, error) { return v.store.Records(ctx, r.RunID, r.ID) }
		whole, err := wholeRuns(ctx, v.store, v.rows)
		if err != nil {
			return nil, about, err
		}
		about.Spending = report.Spent(whole)
	}
	about.References = report.Compare(v.rows, published)
	rows, about := wanted.Apply(v.rows, about)
	return rows, about, nil
}
