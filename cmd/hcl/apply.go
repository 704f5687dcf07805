package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/report/figure"
	"hclbench/report/page"
	"hclbench/results"
)

type applyOptions struct {
	workFlags
	again   againFlags
	locked  bool
	approve bool
	wait    span
	keep    span
	said    func(flag string) bool
}

func applyVerb(t *console) *cobra.Command {
	var o applyOptions
	c := labVerb("apply", &o.hosts.labFlags, func(ctx context.Context) error { return runApply(ctx, t, o) })
	o.addWork(t, c)
	o.hosts.addAccept(c)
	c.Flags().BoolVar(&o.locked, "locked", false, "refuse what is not locked in hcl.lock or has moved since")
	c.Flags().BoolVar(&o.approve, "auto-approve", false, "do not ask")
	c.Flags().Var(&o.wait, "wait", "wait so long for a host that somebody else is at work on")
	c.Flags().Var(&o.keep, "keep", "rented boxes stay so long for the next run, whatever their blocks say")
	c.Flags().Lookup("keep").DefValue = "" // their blocks'
	o.said = c.Flags().Changed
	o.again.addAgain(c)
	return c
}

// draft plans a lab, whose rented boxes stay as long as --keep says.
func (o applyOptions) draft(cfg *hcl.Config) (*plan.Plan, error) {
	if !o.said("keep") {
		return plan.Draft(cfg), nil
	}
	rented := slices.DeleteFunc(slices.Clone(cfg.Hosts), func(h *provision.Host) bool { return h.Rent == nil })
	if o.keep < 0 || len(rented) == 0 {
		return nil, usage("--keep says how long rented boxes stay, and lab %s rents %s", cfg.Lab.Name, plain.Count(len(rented), "host"))
	}
	for _, h := range rented {
		if time.Duration(o.keep) >= h.Rent.TTL {
			return nil, usage("--keep %s is too long for host %s: its hard end is %s after its beginning", &o.keep, h.Name, h.Rent.TTL)
		}
		h.Rent.Keep = time.Duration(o.keep)
	}
	return plan.Draft(cfg), nil
}

func runApply(ctx context.Context, t *console, o applyOptions) error {
	w, err := o.prepare(ctx, t, "apply", o.draft)
	if err != nil {
		return err
	}
	if o.locked {
		if err := w.lab.unmoved(ctx); err != nil {
			return err
		}
	}
	w.lab.notLocked(t.stderr)
	ctx, done, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	past, err := o.again.options(ctx, w.store)
	if err != nil {
		return err
	}
	w.whole.Know(past)
	if w.plan, err = w.whole.Select(w.selection); err != nil {
		return asUsage(err)
	}
	if w.plan.Empty() {
		err := errors.Join(w.giveBackLeft(ctx), w.finishKilled(ctx))
		if err = errors.Join(err, apply.KeepStays(context.WithoutCancel(ctx), w.store, w.opt.Rent)); err != nil {
			return err
		}
		return w.nothingToDo()
	}
	if !o.json {
		if w.plan.Rented, err = apply.Offers(ctx, w.plan, w.lab.text.Hosts, w.opt.Options); err != nil {
			return err
		}
	}
	if err := w.announce(); err != nil {
		return err
	}
	if !o.approve {
		if err := approved(ctx, t); err != nil {
			return err
		}
	}
	if err := w.giveBackLeft(ctx); err != nil {
		return err
	}
	w.opt.Wait = time.Duration(o.wait)
	return errors.Join(w.carryOut(ctx), w.writePage(context.WithoutCancel(ctx)))
}

const nobodyToAsk = `nobody can be asked whether to carry this plan out: standard input is no terminal. To do it without asking:

    hcl apply --auto-approve`

// approved asks the person at the terminal; without a yes it is an error.
func approved(ctx context.Context, t *console) error {
	if !terminal(t.in) {
		return usage(nobodyToAsk)
	}
	yes, err := t.ask(ctx, "Carry this plan out?")
	if err == nil && !yes {
		err = &exit{exitFailed, errors.New("not approved; nothing was done")}
	}
	return err
}

const cannotLook = " was killed, and what it may have left cannot be looked for; hosts clean themselves when its lease runs out"

// finishKilled takes down what the last run has left on the hosts, when it was killed after its last
// measurement: without anything to measure nobody goes there, and a host would be held until its lease
// runs out. Hosts that cannot be asked are told of and no error: they may be given back long since.
func (w *work) finishKilled(ctx context.Context) error {
	runs, err := w.store.Runs(ctx)
	if err != nil {
		return err
	}
	var last results.Run
	for _, r := range runs {
		if r.Command == "apply" && r.Lab == w.cfg.Lab.Name && !r.Bundled && r.ID > last.ID {
			last = r
		}
	}
	if last.ID == "" || !last.Finished.IsZero() {
		return nil
	}
	log := w.logger()
	_, err = place.Destroy(ctx, w.lab.scope(), agent.Destroying{Store: w.store.ID()}, w.opt.Options, tellPlace(log))
	switch {
	case errors.Is(err, provision.ErrUnclean):
		return &exit{exitUnclean, err}
	case err != nil:
		log.Warn("run "+last.ID+cannotLook, "err", err)
		return nil
	}
	return w.store.FinishRun(ctx, last.ID, "interrupted", time.Now())
}

type workFlags struct {
	hosts hostFlags
	cells pickFlags
	json  bool
}

// addWork adds all but those of the lab.
func (f *workFlags) addWork(t *console, c *cobra.Command) {
	f.cells.addPick(t, c)
	f.hosts.addStore(c)
	c.Flags().BoolVar(&f.json, "json", false, "print what happens as one JSON object a line, and nothing else")
}

// work is a plan that is to be carried out, and what that takes.
type work struct {
	*console
	flags     workFlags
	command   string // apply or rehearse
	lab       *lab
	cfg       *hcl.Config // what is planned of it
	selection plan.Selection
	whole     *plan.Plan
	plan      *plan.Plan     // what is selected of it
	store     *results.Store // see [work.open]
	opt       apply.Options
}

// prepare reads the lab and drafts its plan. What is wrong with the command line or the
// lab is said before anything is opened: it must leave no trace.
func (f workFlags) prepare(
	ctx context.Context, t *console, command string, draft func(*hcl.Config) (*plan.Plan, error),
) (*work, error) {
	w := &work{console: t, flags: f, command: command, selection: f.cells.selection()}
	var err error
	if w.lab, w.opt.Options, err = f.hosts.reach(ctx, t); err == nil {
		err = w.lab.shown(t)
	}
	if err != nil {
		return nil, err
	}
	if w.cfg, err = w.lab.planned(ctx); err != nil {
		return nil, err
	}
	if w.whole, err = draft(w.cfg); err != nil {
		return nil, err
	}
	w.plan, err = w.whole.Select(w.selection)
	return w, asUsage(err)
}

// open opens the store, into which nobody else measures this lab until done. The context
// ends also when that is no longer sure.
func (w *work) open(ctx context.Context) (held context.Context, done func(), err error) {
	store, unlock, err := w.flags.hosts.locked(ctx, w.console, w.cfg.Lab.Name, "hcl "+w.command)
	if err != nil {
		return ctx, nil, err
	}
	w.store = store
	held, release := store.Held(ctx)
	return held, func() {
		release()
		unlock()
	}, nil
}

// announce says what is going to be done, unless a program reads along; data files that
// are not there, or of no use, are an error.
func (w *work) announce() error {
	if err := w.lab.inputsThere(w.plan); err != nil || w.flags.json {
		return err
	}
	return w.plan.Text(w.stderr, plan.ByHost, false)
}

// nothingToDo says so, also to a program that reads events.
func (w *work) nothingToDo() error {
	if !w.flags.json {
		return w.plan.Text(w.stdout, plan.ByHost, false)
	}
	told := outlets{newOutlet(w.audience(true), readPatience)}
	told.tell(beginning(w.plan, results.Run{Lab: w.plan.Lab.Name, Command: w.command, Version: version}))
	return told.end(context.Background(), ending("", apply.Outcome{}, nil))
}

// readPatience is how long after an interruption those who read along are waited for.
const readPatience = 5 * time.Second

// carryOut carries the plan out, and prints what came of it, also when it failed half way:
// what was measured has cost money.
func (w *work) carryOut(ctx context.Context) error {
	w.opt.Run = newRun(w.cfg.Lab.Name, w.command)
	var err error
	if w.opt.Inputs, err = inputs(w.lab, w.plan); err != nil {
		return err
	}
	done, runErr, err := w.measure(ctx)
	if err != nil {
		return err
	}
	err = w.printRun(context.WithoutCancel(ctx))
	if runErr != nil && ctx.Err() != nil {
		next := "the next apply goes on from here"
		if w.plan.Rehearsal {
			next = "the next rehearsal begins from the start"
		}
		interrupted := &exit{exitInterrupted, errors.New("interrupted; what ran is taken down, and " + next)}
		return errors.Join(interrupted, leftBy(runErr), err)
	}
	return errors.Join(exitAfter(w.plan, done, runErr), err)
}

// measure runs the plan while everybody is told who wants to know. err is why it did not begin.
func (w *work) measure(ctx context.Context) (done apply.Outcome, runErr, err error) {
	journal, err := results.NewJournal(w.store.Path(), w.opt.Run.ID)
	if err != nil {
		return done, nil, err
	}
	defer journal.Close()
	tell := newNotices(ctx, w.plan.Lab.Notices)
	told := outlets{
		newOutlet(recorder(journal.Write), readPatience),
		newOutlet(w.audience(w.flags.json), readPatience),
		newOutlet(tell.hear, noticeTimeout+readPatience),
	}
	told.tell(beginning(w.plan, w.opt.Run))
	w.opt.Figure = tuneFigure
	w.opt.Events = func(e apply.Event) { told.tell(e) }
	done, runErr = apply.Run(ctx, w.plan, w.store, w.opt)
	if err := errors.Join(told.end(ctx, ending(w.opt.Run.ID, done, runErr)), tell.problems()); err != nil {
		w.logger().Warn("not everybody could be told", "err", err)
	}
	return done, runErr, nil
}

func (w *work) printRun(ctx context.Context) error {
	rows, err := w.store.Rows(ctx, results.Query{Run: w.opt.Run.ID})
	planned, asked := plannedCells(w.whole) // others of a part's may be held against what it leaves out
	v := &shown{store: w.store, asked: asked}
	v.find(ctx, results.Query{Run: w.opt.Run.ID})
	if err != nil || w.flags.json {
		return err
	}
	v.warn(w.logger())
	about, said := figure.About{Found: v.found}, saidOf(w.cfg)
	about.Spending, err = spent(ctx, w.store, w.opt.Run.ID, "", rows, v.found.Scores)
	if err != nil || len(rows)+len(v.found.Scores)+len(about.Spending) == 0 {
		return err
	}
	if !w.plan.Rehearsal {
		about.References = figure.Compare(rows, said.References)
	}
	fmt.Fprintln(w.stdout)
	rows, about = said.Layout.Apply(v.found.Check(figure.Sorted(rows, planned)), about)
	if len(rows)+len(about.Scores) == 0 { // nothing came of it
		return printSpending(w.stdout, about.Spending)
	}
	if err := printTables(w.console, rows, about, tableFlags{}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.stdout, "\nStored as run %s in %s\n", w.opt.Run.ID, placeOf(w.store))
	return err
}

// writePage writes the page that the lab's report block asks for: the newest
// measurement of each cell, also when the run failed half way.
func (w *work) writePage(ctx context.Context) error {
	file := w.cfg.Report.Output
	if file == "" {
		return nil
	}
	v := &shown{store: w.store, cfg: w.cfg, said: saidOf(w.cfg)}
	if err := v.ofLab(ctx, w.cfg.Lab.Name, selection{}); err != nil || len(v.rows) == 0 {
		return err
	}
	rows, about, err := v.about(ctx, v.said.References)
	if err != nil {
		return err
	}
	file = relative(w.plan.Local(file))
	if err := w.write(file, func(w io.Writer) error { return page.HTML(w, rows, about) }); err != nil {
		return fmt.Errorf("write the report block's output: %w", err)
	}
	return nil
}

func exitAfter(p *plan.Plan, o apply.Outcome, err error) error {
	switch {
	case errors.Is(err, provision.ErrUnclean):
		return &exit{exitUnclean, brief(err)}
	case errors.Is(err, place.ErrContract):
		return &exit{exitContract, brief(err)}
	case err != nil:
		return brief(err)
	case o.Planned > 0 && o.Valid+o.Suspect == 0:
		return &exit{exitFailed, errors.New("no cell could be measured")}
	}
	var doubts []string
	if o.Suspect > 0 {
		doubts = append(doubts, fmt.Sprintf("%d suspect", o.Suspect))
	}
	if o.Void > 0 {
		doubts = append(doubts, fmt.Sprintf("%d without a measurement", o.Void))
	}
	later := o.Planned - o.Valid - o.Suspect - o.Void
	if later > 0 {
		doubts = append(doubts, fmt.Sprintf("%d left to the next apply", later))
	}
	if o.Void+later > 0 || o.Suspect > 0 && !p.Rehearsal {
		return &exit{exitCells, fmt.Errorf("of %s, %s", plain.Count(o.Planned, "cell"), strings.Join(doubts, " and "))}
	}
	return nil
}

// brief is err without what was shown when it happened: of hosts that failed only the names are left.
func brief(err error) error {
	failed := new(apply.Error)
	if !errors.As(err, &failed) || len(failed.Hosts) == 0 {
		return err
	}
	var hosts []string
	for _, h := range failed.Hosts {
		hosts = append(hosts, h.Host)
	}
	early := fmt.Errorf("the work on host %s ended early; the reason stands above", strings.Join(hosts, ", "))
	return errors.Join(failed.Cause, failed.Store, early)
}

// leftBy is what an interrupted run could not clean or keep.
func leftBy(err error) error {
	failed := new(apply.Error)
	if !errors.As(err, &failed) {
		return err
	}
	return errors.Join(failed.AtHosts(), failed.Store)
}
