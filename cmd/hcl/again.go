package main

import (
	"context"

	"github.com/spf13/cobra"

	"hclbench/plan"
	"hclbench/results"
)

// againFlags say what is measured again although there is a measurement.
type againFlags struct{ rerun, strictFacts bool }

func (f *againFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.rerun, "rerun", false, "measure again what is up to date")
	c.Flags().BoolVar(&f.strictFacts, "strict-facts", false, "measure again what was measured on a host that is no longer as it was: another driver, machine, setting")
}

// options are what a plan has to know of earlier measurements; there may be no store yet.
func (f againFlags) options(ctx context.Context, store *results.Store) (opt plan.Options, err error) {
	opt = plan.Options{Rerun: f.rerun, StrictFacts: f.strictFacts}
	if store == nil {
		return opt, nil
	}
	if opt.Known, err = store.Known(ctx); err != nil {
		return opt, err
	}
	opt.Seen, err = store.Seen(ctx)
	return opt, err
}
