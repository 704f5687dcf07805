package main

import (
	"github.com/spf13/cobra"

	"hclbench/plan"
)

func (a *app) plan() *cobra.Command {
	var lab labFlags
	var asJSON, detailed, verbose, rerun bool
	c := &cobra.Command{
		Use:   "plan [LAB]",
		Short: "Show what apply would do",
		Long: `Shows what apply would do: which engines are started where, which cells are
measured on them, which are up to date and which are stale, and why. Nothing is
contacted.

In front of a cell, + is to be measured, ~ is stale and to be measured again,
= is up to date.`,
		Example: `  hcl plan
  hcl plan lab/ --var h200_address=203.0.113.7
  hcl plan --json | jq '.summary'

Exit codes: 0 done, 1 failed, 2 the lab or the command line is wrong.
With --detailed-exitcode: 0 nothing to do, 1 failed or wrong, 2 something to do.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := a.planned(c, lab, args, rerun)
			if err != nil {
				if detailed {
					return failed(err)
				}
				return err
			}
			if asJSON {
				err = p.JSON(a.stdout)
			} else {
				err = p.Text(a.stdout, verbose)
			}
			if err == nil && detailed && !p.Empty() {
				return &exit{code: exitUsage}
			}
			return err
		},
	}
	lab.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "answer with the exit code: 0 nothing to do, 1 error, 2 something to do")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the command behind each engine")
	c.Flags().BoolVar(&rerun, "rerun", false, "plan to measure again what is up to date")
	return c
}

func (a *app) planned(c *cobra.Command, lab labFlags, args []string, rerun bool) (*plan.Plan, error) {
	cfg, err := a.load(lab, args)
	if err != nil {
		return nil, err
	}
	store, err := openExisting(c.Context(), cfg.Dir)
	if err != nil {
		return nil, err
	}
	if store != nil {
		defer store.Close()
	}
	measured, err := known(c.Context(), store)
	if err != nil {
		return nil, err
	}
	return plan.New(cfg, plan.Options{Known: measured, Rerun: rerun}), nil
}

// failed is err with the exit code 1, whatever it had.
func failed(err error) error {
	e, ok := err.(*exit)
	if !ok {
		return err
	}
	return &exit{exitFailed, e.err}
}
