package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
)

// The bounds of --starts: with more the floor hardly falls.
const fewestStarts, mostStarts = 2, 20

// noise starts one engine of the lab several times as apply does, and keeps how far its starts lie apart.
func (f checkFlags) noise(ctx context.Context, t *console) (*results.Noise, error) {
	flags := workFlags{hosts: f.hostFlags}
	w, err := flags.prepare(ctx, t, results.Proving, func(cfg *hcl.Config) (*plan.Plan, error) {
		p, err := plan.Prove(cfg, f.engine, f.starts)
		return p, asUsage(err)
	})
	if err != nil {
		return nil, err
	}
	ctx, done, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := w.announce(); err != nil {
		return nil, err
	}
	w.opt.Run = newRun(w.cfg.Lab.Name, w.command)
	if w.opt.Inputs, err = inputs(w.lab, w.plan); err != nil {
		return nil, err
	}
	outcome, runErr, err := w.measure(ctx)
	if err != nil {
		return nil, err
	}
	if runErr != nil && ctx.Err() != nil {
		interrupted := &exit{exitInterrupted, errors.New("interrupted; what ran is taken down, and nothing is known of the noise")}
		return nil, errors.Join(interrupted, leftBy(runErr))
	}
	kept := context.WithoutCancel(ctx)
	rows, err := w.store.Rows(kept, results.Query{Run: w.opt.Run.ID})
	if err != nil {
		return nil, errors.Join(exitAfter(w.plan, outcome, runErr), err)
	}
	n, ok := figure.NoiseOf(rows)
	switch {
	case !ok:
		tooFew := &exit{exitFailed, errors.New("no load was measured in every start, and in two or more: nothing is known of the noise")}
		return nil, errors.Join(brief(runErr), tooFew)
	case n.Box == "":
		const unnamed = "the noise is not kept: the starts were on several machines, or the machine has neither GPUs that tell " +
			"their numbers nor /etc/machine-id"
		t.logger().Warn(unnamed, "host", n.Host)
	default:
		err = w.store.PutNoise(kept, n)
	}
	return &n, errors.Join(exitAfter(w.plan, outcome, runErr), err)
}

// noiseTable shows what starts of an engine have differed by.
func noiseTable(out io.Writer, n *results.Noise) error {
	fmt.Fprintf(out, "\n%s %s on %s, %s, run %s\n", n.Engine, n.Version, n.Host, plain.Count(n.Starts, "start"), n.RunID)
	rows := [][]any{{"  FIGURE", "SPREAD", "CANNOT SHOW LESS THAN"}}
	for _, m := range figure.Floors() {
		if least := figure.LeastShown(n, m); least > 0 {
			rows = append(rows, []any{"  " + m.Title, number.Share(n.Spread[m.Name]), number.Share(least)})
		}
	}
	err := writeTable(out, rows)
	if err == nil && n.Box != "" {
		_, err = fmt.Fprintln(out, "\nKept for this box: hcl compare calls nothing below that a difference.")
	}
	return err
}
