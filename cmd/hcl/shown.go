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

	"github.com/charmbracelet/log"
	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/report/figure"
	"hclbench/results"
)

// selection is which results a verb is about.
type selection struct {
	lab                         labFlags
	run, cell, benchmark, where string
	rehearsed                   bool
	all                         bool // also what the lab no longer asks for
}

func (s *selection) addSelection(t *console, c *cobra.Command) {
	s.lab.addStore(c)
	c.Flags().StringVar(&s.run, "run", "", "only what the run whose `id` begins so measured")
	c.Flags().StringVar(&s.cell, "cell", "", "only the cell whose `id` begins so")
	c.Flags().StringVar(&s.benchmark, "benchmark", "", "only this benchmark")
	c.Flags().BoolVar(&s.rehearsed, "rehearsed", false, "what was rehearsed instead of what was measured")
	c.Flags().StringVar(&s.where, "where", "",
		"only those that meet a `condition`, such as 'engine = \"vllm\" and concurrency >= 64'")
	refuses(c, noUse{flag: "rehearsed", other: "run", beside: true}, noUse{flag: "all", other: "run", beside: true})
	completes(c, "where", conditions(t))
	completes(c, "run", runIDs(t))
	completes(c, "benchmark", fromLab(t, func(cfg *hcl.Config) []string { return benchmarkNames(cfg, "") }))
}

func (s *selection) addAll(c *cobra.Command) {
	c.Flags().BoolVar(&s.all, "all", false, "also what was measured and is no longer in the lab, marked as stale")
}

// shown are the results that a verb shows: of the lab as it is now, or of one run.
type shown struct {
	store   *results.Store          // nil: nothing was ever stored
	lab     string                  // whose results are shown; empty: of all that are stored
	run     string                  // that is shown; empty: all
	cfg     *hcl.Config             // what is planned of the lab; nil: it is not at hand, or a run is shown
	said    *reported               // by the lab's text now, or with the run that is shown; nil: nothing
	rows    []results.Row           // under the names of the lab, in the order of its plan
	planned []figure.Planned        // of what is shown; nil: it is not known
	asked   map[string]results.Cell // that the lab asks questions with now, by their ids; nil: it is not known
	found   figure.Found
	scores  []results.Scored // those of found that are shown; the others still say what rows are worth
	damaged error            // why some of that is left out
	stale   int              // results that are stored and left out, because the lab does not ask for them
}

// shown opens the store of a lab and reads what is selected: of each cell of the lab as it is now the
// newest measurement, under the names that it has now, or one run as it was. What is selected by name and
// not there is an error. The caller closes the store.
func (s selection) shown(ctx context.Context, t *console) (*shown, error) {
	if _, err := os.Stat(s.lab.path); errors.Is(err, os.ErrNotExist) {
		return nil, usage("there is no %s: name a lab's directory or file", s.lab.path)
	}
	v := &shown{}
	if s.run == "" {
		cfg, err := s.lab.planned(ctx, t)
		if err != nil {
			return nil, err
		}
		if cfg != nil {
			v.cfg, v.said = cfg, saidOf(cfg)
		}
	}
	return v, s.read(ctx, t, v)
}

// read opens the store and fills in what is selected of it.
func (s selection) read(ctx context.Context, t *console, v *shown) (err error) {
	var lab string
	if v.store, lab, err = s.lab.results(ctx, t); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.store.Close())
		}
	}()
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
	v.hint(ctx, t.logger(), lab, s)
	return nil
}

const textIsWrong = "the lab's text has mistakes or lacks variables, so that what it plans and what was published is left out, " +
	"and stale results stand beside the others; hcl validate shows them"

// planned is what is planned of the lab whose results are shown, or nil: they need no
// lab, only what was published and what was planned is in its text.
func (f labFlags) planned(ctx context.Context, t *console) (*hcl.Config, error) {
	l, err := f.read(t)
	if errors.Is(err, lang.ErrNoLab) {
		return nil, nil // a folder with results alone
	}
	if err != nil {
		return nil, err
	}
	if l.text == nil {
		t.logger().Warn(textIsWrong)
		return nil, nil
	}
	return l.planned(ctx)
}

// runNamed is the run of a lab, or of all of them, whose id begins so.
func runNamed(ctx context.Context, store *results.Store, lab, id string) (results.Run, error) {
	runs, err := store.Runs(ctx)
	if err != nil {
		return results.Run{}, err
	}
	var ids []string
	for _, r := range slices.Backward(runs) {
		if lab == "" || r.Lab == lab || r.ID == id {
			ids = append(ids, r.ID)
		}
	}
	if id, err = oneRun(id, ids); err != nil {
		return results.Run{}, err
	}
	return runs[slices.IndexFunc(runs, func(r results.Run) bool { return r.ID == id })], nil
}

// oneRun is the run of these, the newest first, whose id is text or begins with it.
func oneRun(text string, runs []string) (string, error) {
	if slices.Contains(runs, text) {
		return text, nil
	}
	if len(runs) == 0 {
		return "", usage("there is no run %s: nothing was run yet", text)
	}
	found := slices.DeleteFunc(slices.Clone(runs), func(id string) bool { return !strings.HasPrefix(id, text) })
	switch len(found) {
	case 0:
		return "", usage("there is no run whose id begins with %s; the newest is %s, and hcl runs lists them", text, runs[0])
	case 1:
		return found[0], nil
	}
	return "", usage("%s is the beginning of %d runs: %s to %s", text, len(found), found[len(found)-1], found[0])
}

// ofRun reads what one run measured, as it was called then.
func (v *shown) ofRun(ctx context.Context, run results.Run) (err error) {
	v.run = run.ID
	if v.said, err = keptReport(ctx, v.store, run.ID); err != nil {
		return err
	}
	if v.said != nil {
		v.planned = v.said.Planned
	}
	if v.rows, err = v.store.Rows(ctx, results.Query{Run: run.ID}); err != nil {
		return err
	}
	figure.Group(v.rows, v.planned)
	v.rows = figure.Sorted(v.rows, v.planned)
	v.find(ctx, results.Query{Run: run.ID})
	return nil
}

// find reads what was found by the cells that q selects, as far as it can be read.
func (v *shown) find(ctx context.Context, q results.Query) {
	var searches, tunings, scores error
	v.found.Capacities, searches = v.store.Capacities(ctx, q)
	v.found.Tunings, tunings = v.store.Tunings(ctx, q)
	v.found.Scores, scores = v.store.Scored(ctx, q, v.asked)
	v.scores = slices.Clone(v.found.Scores)
	v.damaged = errors.Join(searches, tunings, scores)
}

// ofLab reads the newest measurement of each cell.
func (v *shown) ofLab(ctx context.Context, lab string, s selection) error {
	v.lab = lab
	newest := results.Query{Lab: lab, Rehearsed: s.rehearsed, Latest: true}
	rows, err := v.store.Rows(ctx, newest)
	if err != nil {
		return err
	}
	others, err := v.underPlan(ctx, rows, lab, s.rehearsed, func(own, found []results.Row) []results.Row {
		for _, f := range found { // in the place of attempts that brought nothing
			own = slices.DeleteFunc(own, func(r results.Row) bool { return r.ID == f.ID })
		}
		return append(own, found...)
	})
	v.find(ctx, newest)
	every, damaged := v.store.Scored(ctx, newest, nil) // what the lab does not ask any more too
	v.damaged = errors.Join(v.damaged, damaged)
	if s.all || s.cell != "" { // who names a cell wants it
		v.rows, v.scores = append(v.rows, others...), every
		return err
	}
	v.stale = len(others) + len(every) - len(v.scores)
	return err
}

// unmeasured is a lab of which nothing is stored: its plan, or that of one benchmark of it.
func (v *shown) unmeasured(ctx context.Context, benchmark string) (err error) {
	v.planned, _, err = plannedOf(ctx, v.cfg, nil, false)
	v.planned = slices.DeleteFunc(v.planned, func(p figure.Planned) bool { return benchmark != "" && p.Benchmark != benchmark })
	return err
}

// underPlan shows rows of a lab under the names of its plan, joined with what others have
// measured for it, and judges them by its SLO. It returns the rows that the plan has no
// cell for. Without a plan it shows them all.
func (v *shown) underPlan(
	ctx context.Context, rows []results.Row, lab string, rehearsed bool, join func(own, found []results.Row) []results.Row,
) (others []results.Row, err error) {
	if v.cfg != nil {
		if v.planned, v.asked, err = plannedOf(ctx, v.cfg, v.store, rehearsed); err != nil {
			return nil, err
		}
	}
	if v.planned == nil {
		v.rows = figure.Sorted(rows, nil)
		return nil, nil
	}
	if lab != "" && !rehearsed {
		found, err := byOthers(ctx, v.store, lab, rows, v.planned)
		if err != nil {
			return nil, err
		}
		rows = join(rows, found)
	}
	v.rows, others = figure.OfPlan(rows, v.planned)
	figure.Judge(v.rows, v.planned, recordsOf(ctx, v.store))
	return others, nil
}

// pick leaves what has the cell, the benchmark, and meets the condition.
func (v *shown) pick(s selection) error {
	leave := func(is func(benchmark, cell string) bool) {
		v.rows = slices.DeleteFunc(v.rows, func(r results.Row) bool { return !is(r.Benchmark, r.ID) })
		v.scores = slices.DeleteFunc(v.scores, func(x results.Scored) bool { return !is(x.Benchmark, x.ID) })
		v.planned = slices.DeleteFunc(slices.Clone(v.planned), func(p figure.Planned) bool { return !is(p.Benchmark, p.ID) })
	}
	if s.benchmark != "" {
		names := map[string]bool{}
		leave(func(benchmark, _ string) bool {
			names[benchmark] = true
			return benchmark == s.benchmark
		})
		if !names[s.benchmark] {
			return usage("there is no benchmark %s; there is %s", s.benchmark, cmp.Or(strings.Join(slices.Sorted(maps.Keys(names)), ", "), "none"))
		}
	}
	if s.cell != "" {
		leave(func(_, cell string) bool { return strings.HasPrefix(cell, s.cell) })
		if len(v.rows)+len(v.scores)+len(v.planned) == 0 {
			return usage("there is no cell whose id begins with %s; hcl report --json prints the ids", s.cell)
		}
	}
	all := slices.Clone(v.rows)
	for _, x := range v.scores {
		all = append(all, x.Row)
	}
	if s.where != "" && len(all) > 0 {
		rows, err := figure.Matching(all, s.where)
		if err != nil {
			return &exit{exitUsage, fmt.Errorf("--where: %w", err)}
		}
		met := map[string]bool{}
		for _, r := range rows {
			met[r.ID] = true
		}
		leave(func(_, cell string) bool { return met[cell] })
		v.rows = slices.DeleteFunc(rows, func(r results.Row) bool { return r.Accuracy != nil })
	}
	return nil
}

// warn says what cannot be read.
func (v *shown) warn(log *log.Logger) {
	if v.damaged != nil {
		log.Warn("left out what was found", "err", v.damaged)
	}
}

// hint says what else there is, where that may be what was meant.
func (v *shown) hint(ctx context.Context, log *log.Logger, lab string, s selection) {
	if v.stale > 0 {
		log.Info("left out what the lab no longer asks for; --all shows it", "results", v.stale)
	}
	v.warn(log)
	switch {
	case len(v.rows)+len(v.scores) > 0:
	case s.where != "":
		log.Info("no result meets the condition", "where", s.where)
	case s.run == "" && !s.rehearsed:
		rehearsed, err := v.store.Rows(ctx, results.Query{Lab: lab, Rehearsed: true, Latest: true})
		if err == nil && len(rehearsed) > 0 {
			log.Info("nothing is measured yet; --rehearsed shows what was rehearsed")
		}
	}
}

// about is what a report tells beside its rows, with what the layout leaves of them. Of one run it is
// what was kept with it, wherever the run is now and whatever the lab's text says meanwhile.
func (v *shown) about(ctx context.Context, published []figure.Reference) ([]results.Row, figure.About, error) {
	about := figure.About{Title: "Results", Version: version, Planned: v.planned, Found: v.found}
	about.Scores = v.scores
	if len(v.rows) > 0 {
		about.Title = cmp.Or(v.rows[0].Run.Lab, about.Title)
	}
	var wanted figure.Layout
	if v.said != nil {
		wanted = v.said.Layout
		about.Title, about.Description = v.said.Lab, v.said.Description
	}
	if v.store != nil {
		about.Records = recordsOf(ctx, v.store)
		var err error
		if about.Spending, err = spent(ctx, v.store, v.run, v.lab, v.rows, v.scores); err != nil {
			return nil, about, err
		}
	}
	about.References = figure.Compare(v.rows, published)
	rows, about := wanted.Apply(v.found.Check(v.rows), about)
	return rows, about, nil
}
