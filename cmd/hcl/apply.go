package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/hcl"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/report"
	"hclbench/results"
)

func (a *app) apply() *cobra.Command {
	var lab labFlags
	var cells pickFlags
	var connect connectFlags
	var again againFlags
	var asJSON, approve, locked bool
	var wait span
	c := &cobra.Command{
		Use:   "apply [LAB]",
		Short: "Bring the engines up, measure, take everything down, report",
		Long: `Carries the plan out: connects to the hosts and holds them against their blocks,
takes the images, starts the engines, waits until they really serve, measures
every cell that is not up to date, takes everything down, stores the results in
.hcl beside the lab and prints them.

An interrupted apply goes on where it stopped. Ctrl-C takes everything down and
ends; a second Ctrl-C leaves at once, and the hosts clean themselves when the
lab's lease runs out. Before it begins apply asks; without a terminal to ask at it takes
--auto-approve.

--only and --target carry out a part; the rest stays to be measured. --locked
asks the registries and the model hub again, and refuses what hcl.lock does not
hold or what has moved since.

A host is reserved while engines run there. Where somebody else is at work apply says
who, and ends; --wait says how long to wait for them instead.`,
		Example: `  hcl apply
  hcl apply lab/ --auto-approve --json
  hcl apply --only 'benchmark = "online" and concurrency = 1'
  hcl apply --locked
  hcl apply --wait 1h

Exit codes: 0 done, 1 failed, 2 the lab or the command line is wrong, 3 some cells
are suspect or could not be measured, 4 a host is not what its block says, 5 a host
is left unclean, 130 interrupted.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			selection, err := cells.selection()
			if err != nil {
				return err
			}
			l, err := a.openLab(lab, args)
			if err != nil {
				return err
			}
			if locked {
				if err := l.unmoved(ctx); err != nil {
					return err
				}
			}
			cfg, err := l.planned(ctx)
			if err != nil {
				return err
			}
			a.notLocked(l)
			if !selection.Empty() { // a wrong one must leave no trace
				if err := pick(plan.New(cfg, plan.Options{}), selection); err != nil {
					return err
				}
			}
			opt, err := a.options(ctx, connect)
			if err != nil {
				return err
			}
			store, unlock, err := a.openLocked(ctx, cfg, "hcl apply")
			if err != nil {
				return err
			}
			defer store.Close()
			defer unlock()
			ctx, release := store.Held(ctx)
			defer release()
			past, err := again.options(ctx, store)
			if err != nil {
				return err
			}
			p := plan.New(cfg, past)
			if err := pick(p, selection); err != nil {
				return err
			}
			if p.Empty() {
				if err := a.finishKilled(ctx, cfg, store, opt); err != nil {
					return err
				}
				if asJSON {
					return a.nothingToDo(p, "apply")
				}
				return p.Text(a.stdout, false)
			}
			if err := l.inputsThere(p); err != nil {
				return err
			}
			if !asJSON {
				if err := p.Text(a.stderr, false); err != nil {
					return err
				}
			}
			switch {
			case approve:
			case !terminal(a.in):
				return usage("nobody can be asked whether to carry this plan out: standard input is no terminal. To do it without asking:\n\n    hcl apply --auto-approve")
			default:
				yes, err := a.ask(ctx, "Carry this plan out?")
				if err != nil {
					return err
				}
				if !yes {
					return &exit{exitFailed, errors.New("not approved; nothing was done")}
				}
			}
			opt.Run, opt.Wait = newRun(cfg.Lab.Name, "apply"), time.Duration(wait)
			published := references(cfg, "")
			if opt.Inputs, err = inputs(l, p, published); err != nil {
				return err
			}
			return errors.Join(a.carryOut(ctx, p, published, layout(cfg), store, opt, asJSON), a.writePage(context.WithoutCancel(ctx), store, cfg, published))
		},
	}
	lab.add(c)
	cells.add(a, c)
	connect.add(c)
	a.storeFlag(c)
	c.Flags().BoolVar(&locked, "locked", false, "refuse what is not locked in hcl.lock or has moved since")
	c.Flags().BoolVar(&approve, "auto-approve", false, "do not ask")
	c.Flags().BoolVar(&asJSON, "json", false, "print what happens as one JSON object a line, and nothing else")
	c.Flags().Var(&wait, "wait", "wait so long for a host that somebody else is at work on")
	again.add(c)
	return c
}

// finishKilled takes down what the last run has left on the hosts, when it was killed
// after its last measurement: without anything to measure nobody goes there, and a
// host would be held until its lease runs out. Hosts that cannot be asked are told of
// and no error: they may be given back long since.
func (a *app) finishKilled(ctx context.Context, cfg *hcl.Config, store *results.Store, opt apply.Options) error {
	runs, err := store.Runs(ctx)
	if err != nil {
		return err
	}
	var last results.Run
	for _, r := range runs {
		if r.Command == "apply" && r.Lab == cfg.Lab.Name && !r.Bundled && r.ID > last.ID {
			last = r
		}
	}
	if last.ID == "" || !last.Finished.IsZero() {
		return nil
	}
	l := a.logger()
	opt.Events = func(e apply.Event) { tellRemoved(l, e) }
	_, err = apply.Destroy(ctx, apply.ScopeOf(cfg.Lab.Name, cfg.Hosts, cfg.Engines), store.ID(), false, false, opt)
	switch {
	case errors.As(err, new(*provision.UncleanError)):
		return &exit{exitUnclean, err}
	case err != nil:
		l.Warn("run "+last.ID+" was killed, and what it may have left cannot be looked for; hosts clean themselves when its lease runs out", "err", err)
		return nil
	}
	return store.FinishRun(ctx, last.ID, "interrupted", time.Now())
}

// nothingToDo tells a program that reads events of a run that did not have to begin.
func (a *app) nothingToDo(p *plan.Plan, command string) error {
	told := outlets{newOutlet(a.audience(true), readPatience)}
	told.begin(beginning(p, results.Run{Lab: p.Lab.Name, Command: command, Version: version}))
	return errors.Join(told.end(context.Background(), ending("", apply.Outcome{}, nil))...)
}

// readPatience is how long after an interruption those who read along are waited for.
const readPatience = 5 * time.Second

// carryOut runs the plan, shows it running, and prints what came of it beside
// what was published, also when it failed half way: what was measured has cost
// money.
func (a *app) carryOut(ctx context.Context, p *plan.Plan, published []report.Reference, wanted report.Layout, store *results.Store, opt apply.Options, asJSON bool) error {
	journal, err := results.NewJournal(store.Path(), opt.Run.ID)
	if err != nil {
		return err
	}
	defer journal.Close()
	tell := newNotices(ctx, p.Lab.Notices)
	told := outlets{
		newOutlet(&recorder{write: journal.Write}, readPatience),
		newOutlet(a.audience(asJSON), readPatience),
		newOutlet(tell, noticeTimeout+readPatience),
	}
	told.begin(beginning(p, opt.Run))
	opt.Events = told.event
	done, runErr := apply.Run(ctx, p, store, opt)
	problems := told.end(ctx, ending(opt.Run.ID, done, runErr))
	if err := errors.Join(append(problems, tell.problems())...); err != nil {
		a.logger().Warn("not everybody could be told", "err", err)
	}

	rows, err := store.Rows(context.WithoutCancel(ctx), results.Query{Run: opt.Run.ID})
	if err != nil {
		return errors.Join(runErr, err)
	}
	if !asJSON && len(rows) > 0 {
		fmt.Fprintln(a.stdout)
		rows, about := wanted.Apply(report.Sorted(rows, plannedCells(p)), report.About{References: report.Compare(rows, published), Spending: report.Spent(rows)})
		err = a.printTables(rows, about, tableFlags{})
		if err == nil {
			_, err = fmt.Fprintf(a.stdout, "\nStored as run %s in %s\n", opt.Run.ID, placeOf(store))
		}
	}
	if runErr != nil && ctx.Err() != nil {
		next := "the next apply goes on from here"
		if p.Rehearsal {
			next = "the next rehearsal begins from the start"
		}
		return errors.Join(&exit{exitInterrupted, errors.New("interrupted; what ran is taken down, and " + next)}, unclean(runErr), err)
	}
	return errors.Join(outcome(p, done, runErr), err)
}

// writePage writes the page that the lab's report block asks for: the newest
// measurement of each cell, also when the run failed half way.
func (a *app) writePage(ctx context.Context, store *results.Store, cfg *hcl.Config, published []report.Reference) error {
	file := cfg.Report.Output
	if file == "" {
		return nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(cfg.Dir, file)
	}
	v := &shown{store: store, cfg: cfg}
	if err := v.ofLab(ctx, cfg.Lab.Name, selection{}); err != nil || len(v.rows) == 0 {
		return err
	}
	rows, about, err := a.about(ctx, v, published)
	if err != nil {
		return err
	}
	if err := a.write(relative(file), func(w io.Writer) error { return report.HTML(w, rows, about) }); err != nil {
		return fmt.Errorf("write the report block's output: %w", err)
	}
	return nil
}

// relative shortens a path below the working directory.
func relative(path string) string {
	if wd, err := filepath.Abs("."); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}
