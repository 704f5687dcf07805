package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plan"
	"hclbench/provision/rent"
	"hclbench/results"
)

type planOptions struct {
	lab      labFlags
	cells    pickFlags
	again    againFlags
	by       string
	json     bool
	detailed bool
	verbose  bool
}

func planVerb(t *console) *cobra.Command {
	var o planOptions
	c := labVerb("plan", &o.lab, func(ctx context.Context) error { return runPlan(ctx, t, o) })
	o.cells.addPick(t, c)
	o.lab.addStore(c)
	c.Flags().StringVar(&o.by, "by", string(plan.ByHost), "group the text by `what`: host, engine or benchmark")
	words(c, "by", groupings()...)
	c.Flags().BoolVar(&o.json, "json", false, "print the plan as JSON")
	c.Flags().BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 6 where there is something to do")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "show the command behind each engine, and every cell with its id")
	o.again.addAgain(c)
	return c
}

func groupings() []string {
	return []string{string(plan.ByHost), string(plan.ByEngine), string(plan.ByBenchmark)}
}

func runPlan(ctx context.Context, t *console, o planOptions) error {
	if err := checkWord("by", o.by, groupings()); err != nil {
		return err
	}
	l, p, strange, err := planOf(ctx, t, o)
	if err != nil {
		return err
	}
	p.Clusters = apply.Objects(ctx, p)
	if p.Rented, err = apply.Offers(ctx, p, l.text.Hosts, place.Options{Rent: rent.NewJournal(rentDir(o.lab.dir()))}); err != nil {
		return err
	}
	if o.json {
		err = p.JSON(t.stdout)
	} else {
		err = p.Text(t.stdout, plan.By(o.by), o.verbose)
	}
	if err == nil {
		err = asUsage(errors.Join(strange...))
	}
	if err == nil && o.detailed && !p.Empty() {
		err = &exit{code: exitToDo}
	}
	return err
}

// planOf is what apply would do, and what is wrong with the data files that it
// would refuse. A file that is not here may be where apply is run.
func planOf(ctx context.Context, t *console, o planOptions) (l *lab, p *plan.Plan, strange []error, err error) {
	l, err = o.lab.open(t)
	if err != nil {
		return nil, nil, nil, err
	}
	cfg, err := l.planned(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	l.notLocked(t.stderr)
	store, err := o.lab.look(ctx, t)
	if err != nil {
		return nil, nil, nil, err
	}
	if store != nil {
		defer store.Close()
		if err := tellGoingOn(ctx, t, store, cfg.Lab.Name); err != nil {
			return nil, nil, nil, err
		}
	}
	opt, err := o.again.options(ctx, store)
	if err != nil {
		return nil, nil, nil, err
	}
	if p, err = plan.New(cfg, opt).Select(o.cells.selection()); err != nil {
		return nil, nil, nil, asUsage(err)
	}
	missing, strange := l.inputs(p)
	wrong := readQuestions(p)
	if err := readChanges(ctx, store, p, cfg.Lab.Name); err != nil {
		t.logger().Warn("the plan does not know how answers have changed before", "err", err)
	}
	if missing != nil { // of which that says the same
		wrong = nil
	}
	for _, err := range slices.Concat(missing, wrong) {
		t.logger().Warn(err.Error())
	}
	return l, p, strange, nil
}

const goesOn = "a run of this lab goes on, and the plan has what it is still to measure; hcl attach follows it"

// tellGoingOn says which runs of the lab go on: what they are to measure is still in the plan.
func tellGoingOn(ctx context.Context, t *console, store *results.Store, lab string) error {
	runs, err := store.Runs(ctx)
	if err != nil {
		return err
	}
	runs = slices.DeleteFunc(runs, func(r results.Run) bool { return r.Lab != lab || r.Command != "apply" })
	alive, err := goingOn(ctx, store, runs)
	for _, r := range runs {
		if alive[r.ID] {
			t.logger().Info(goesOn, "run", r.ID)
		}
	}
	return err
}

// againFlags say what is measured again although there is a measurement.
type againFlags struct{ rerun, strictFacts bool }

func (f *againFlags) addAgain(c *cobra.Command) {
	c.Flags().BoolVar(&f.rerun, "rerun", false, "measure again what is up to date")
	c.Flags().BoolVar(&f.strictFacts, "strict-facts", false,
		"measure again what was measured on a host that is no longer as it was: another driver, machine, setting")
}

func (f againFlags) options(ctx context.Context, store *results.Store) (plan.Options, error) {
	opt, err := measuredBefore(ctx, store)
	opt.Rerun, opt.StrictFacts = f.rerun, f.strictFacts
	return opt, err
}

type pickFlags struct{ only, targets []string }

func (f *pickFlags) addPick(t *console, c *cobra.Command) {
	c.Flags().StringArrayVar(&f.only, "only", nil,
		"only cells that meet this `condition`, such as 'benchmark = \"online\" and concurrency <= 64'; may be repeated")
	c.Flags().StringArrayVar(&f.targets, "target", nil,
		"only this engine, host or benchmark, a `target` such as engine.vllm.h200; may be repeated")
	completes(c, "only", fromLab(t, func(cfg *hcl.Config) []string { return benchmarkNames(cfg, "benchmark=") }))
	completes(c, "target", fromLab(t, targetNames))
}

func (f *pickFlags) selection() plan.Selection {
	return plan.Selection{Only: f.only, Targets: f.targets}
}

func validateVerb(t *console) *cobra.Command {
	var lab labFlags
	var asJSON bool
	c := labVerb("validate", &lab, func(context.Context) error { return runValidate(t, lab, asJSON) })
	c.Flags().BoolVar(&asJSON, "json", false, "print the problems as JSON, with their ranges")
	return c
}

// placeOf is where the block stands that reads a file in which something is wrong; nowhere where that is not known.
func (l *lab) placeOf(err error) (at lang.Place) {
	var of *ofBlock
	if !errors.As(err, &of) {
		return at
	}
	for _, b := range l.text.Benchmarks {
		file, line, _ := strings.Cut(b.Pos, ":")
		if n, err := strconv.Atoi(line); err == nil && b.Name == of.name {
			return l.problems.LineOf(file, n)
		}
	}
	return at
}

func runValidate(t *console, lab labFlags, asJSON bool) error {
	l, err := lab.read(t)
	if err != nil {
		return err
	}
	if !asJSON {
		if err := l.shown(t); err != nil {
			return err
		}
	}
	var p *plan.Plan
	var missing, wrong []error
	if l.text != nil {
		p = plan.New(l.text, plan.Options{})
		missing, wrong = l.inputs(p)
		wrong = append(wrong, slices.DeleteFunc(readQuestions(p), func(err error) bool { return errors.Is(err, fs.ErrNotExist) })...) // which is said of missing
	}
	if !asJSON {
		for _, err := range missing { // it may be where apply is run
			t.logger().Warn(err.Error())
		}
		if err := errors.Join(wrong...); err != nil {
			return asUsage(err)
		}
		_, err = fmt.Fprintf(t.stdout, "Lab %s is right: %s.\n", l.text.Lab.Name, p.Count())
		return err
	}
	for _, err := range missing {
		l.problems.Warn(l.placeOf(err), "Missing file", "%s.", lang.Title(err.Error()))
	}
	for _, err := range wrong {
		l.problems.Fail(l.placeOf(err), "Wrong file", "%s.", lang.Title(err.Error()))
	}
	errors, warnings := l.problems.Count()
	err = t.json(struct {
		FormatVersion string         `json:"format_version"`
		Valid         bool           `json:"valid"`
		Errors        int            `json:"errors"`
		Warnings      int            `json:"warnings"`
		Problems      []lang.Problem `json:"problems"`
	}{"1.0", errors == 0, errors, warnings, slices.Concat([]lang.Problem{}, l.problems.List())})
	if err == nil && errors > 0 {
		err = &exit{code: exitUsage}
	}
	return err
}
