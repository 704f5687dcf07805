package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"hclbench/plan"
	"hclbench/results"
)

func (a *app) plan() *cobra.Command {
	var lab labFlags
	var cells pickFlags
	var by string
	var again againFlags
	var asJSON, detailed, verbose bool
	c := &cobra.Command{
		Use:   "plan [LAB]",
		Short: "Show what apply would do",
		Long: `Shows what apply would do: which engines are started where, which cells are
measured on them, which are up to date and which are stale, and why. Nothing is
contacted.

In front of a cell, + is to be measured, ~ is stale and to be measured again,
= is up to date.

--only and --target plan a part: cells that meet a condition on benchmark, engine,
host, repetition and the axes, or everything of an engine, a host or a benchmark.
Where there is an hcl.lock, images are named by their locked digest, and models by
their locked commit.`,
		Example: `  hcl plan
  hcl plan lab/ --var h200_address=203.0.113.7
  hcl plan --by benchmark
  hcl plan --only 'benchmark = "online" and engine = "vllm" and concurrency <= 64'
  hcl plan --target host.h200 --verbose
  hcl plan --json | jq '.summary'

Exit codes: 0 done, 1 failed, 2 the lab or the command line is wrong.
With --detailed-exitcode also 6: there is something to do.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			grouping, err := group(by)
			var p *plan.Plan
			var strange []error
			if err == nil {
				p, strange, err = a.planned(c, lab, cells, args, again)
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = p.JSON(a.stdout)
			} else {
				err = p.TextBy(a.stdout, grouping, verbose)
			}
			if err == nil && len(strange) > 0 {
				err = &exit{exitUsage, errors.Join(strange...)}
			}
			if err == nil && detailed && !p.Empty() {
				return &exit{code: exitToDo}
			}
			return err
		},
	}
	lab.add(c)
	cells.add(a, c)
	a.storeFlag(c)
	c.Flags().StringVar(&by, "by", string(plan.ByHost), "group the text by `what`: host, engine or benchmark")
	words(c, "by", string(plan.ByHost), string(plan.ByEngine), string(plan.ByBenchmark))
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit with 6 where there is something to do")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the command behind each engine")
	again.add(c)
	return c
}

// planned is what apply would do, and what is wrong with the data files that it
// would refuse. A file that is not here may be where apply is run.
func (a *app) planned(c *cobra.Command, lab labFlags, cells pickFlags, args []string, again againFlags) (p *plan.Plan, strange []error, err error) {
	selection, err := cells.selection()
	if err != nil {
		return nil, nil, err
	}
	l, err := a.openLab(lab, args)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := l.planned(c.Context())
	if err != nil {
		return nil, nil, err
	}
	a.notLocked(l)
	store, err := a.openExisting(c.Context(), cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	if store != nil {
		defer store.Close()
		if err := a.going(c.Context(), store, cfg.Lab.Name); err != nil {
			return nil, nil, err
		}
	}
	opt, err := again.options(c.Context(), store)
	if err != nil {
		return nil, nil, err
	}
	p = plan.New(cfg, opt)
	if err := pick(p, selection); err != nil {
		return nil, nil, err
	}
	missing, strange := l.inputs(p)
	for _, err := range missing {
		a.logger().Warn(err.Error())
	}
	return p, strange, nil
}

// going says which runs of the lab go on: what they are to measure is still in the plan.
func (a *app) going(ctx context.Context, store *results.Store, lab string) error {
	runs, err := store.Runs(ctx)
	if err != nil {
		return err
	}
	var open []string
	for _, r := range runs {
		if r.Outcome == "" && r.Lab == lab && r.Command == "apply" {
			open = append(open, r.ID)
		}
	}
	alive, err := store.Running(ctx, open)
	if err != nil {
		return err
	}
	for _, id := range open {
		if alive[id] {
			a.logger().Info("a run of this lab goes on, and the plan has what it is still to measure; hcl attach follows it", "run", id)
		}
	}
	return nil
}
