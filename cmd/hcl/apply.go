package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/hcl"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

type applyOptions struct {
	workFlags
	again   againFlags
	locked  bool
	approve bool
	wait    span
}

func applyVerb(t *console) *cobra.Command {
	var o applyOptions
	c := labVerb("apply", &o.hosts.labFlags, func(ctx context.Context) error { return runApply(ctx, t, o) })
	o.add(t, c)
	o.hosts.addAccept(c)
	c.Flags().BoolVar(&o.locked, "locked", false, "refuse what is not locked in hcl.lock or has moved since")
	c.Flags().BoolVar(&o.approve, "auto-approve", false, "do not ask")
	c.Flags().Var(&o.wait, "wait", "wait so long for a host that somebody else is at work on")
	o.again.add(c)
	return c
}

func runApply(ctx context.Context, t *console, o applyOptions) error {
	w, err := o.prepare(ctx, t, "apply", func(cfg *hcl.Config) (*plan.Plan, error) {
		return plan.New(cfg, plan.Options{}), nil // what is wrong with a selection, it shows already
	})
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
	w.plan = plan.New(w.cfg, past)
	if err := pick(w.plan, w.selection); err != nil {
		return err
	}
	if w.plan.Empty() {
		if err := w.finishKilled(ctx); err != nil {
			return err
		}
		return w.nothingToDo()
	}
	if err := w.announce(); err != nil {
		return err
	}
	if !o.approve {
		if err := approved(ctx, t); err != nil {
			return err
		}
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

// finishKilled takes down what the last run has left on the hosts, when it was killed
// after its last measurement: without anything to measure nobody goes there, and a
// host would be held until its lease runs out. Hosts that cannot be asked are told of
// and no error: they may be given back long since.
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
	opt := w.opt
	opt.Events = func(e apply.Event) { tellRemoved(log, e) }
	_, err = apply.Destroy(ctx, w.lab.scope(), w.store.ID(), false, false, opt)
	switch {
	case errors.As(err, new(*provision.UncleanError)):
		return &exit{exitUnclean, err}
	case err != nil:
		log.Warn("run "+last.ID+cannotLook, "err", err)
		return nil
	}
	return w.store.FinishRun(ctx, last.ID, "interrupted", time.Now())
}
