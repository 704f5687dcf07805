package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"hclbench/sim"
)

func simVerb(t *console) *cobra.Command {
	c := verb("sim", nil, nil)
	c.Long += "\n\n" + sim.Usage()
	c.DisableFlagParsing = true // the engines' own spellings
	c.RunE = func(c *cobra.Command, args []string) error {
		if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
			return c.Help()
		}
		return runSim(c.Context(), t, args)
	}
	return c
}

// runSim is an engine that serves, or the engine's own benchmark.
func runSim(ctx context.Context, t *console, args []string) error {
	batch, ok, err := sim.BatchCommand(args)
	if err == nil && ok {
		return batch.Run(ctx, t.stderr)
	}
	var cfg sim.Config
	var listen string
	if err == nil {
		cfg, listen, err = sim.Command(args)
	}
	if err != nil {
		return usage("%w\nSee 'hcl sim --help'.", err)
	}
	return sim.Serve(ctx, cfg, listen, t.stderr)
}
