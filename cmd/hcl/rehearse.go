package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"hclbench/plan"
)

func (a *app) rehearse() *cobra.Command {
	var lab labFlags
	var cells pickFlags
	var asJSON bool
	speed := 1.0
	c := &cobra.Command{
		Use:   "rehearse [LAB]",
		Short: "Carry the lab out on this machine with simulated engines",
		Long: `Carries the whole lab out on this machine: no SSH, no Docker, no GPU. Every
engine is a simulated one that speaks like the kind it stands for. It finds
mistakes before the rental starts. Its results are marked as rehearsed and never
mixed with measured ones; every cell is run, whatever is up to date.`,
		Example: `  hcl rehearse examples/quickstart
  hcl rehearse lab/ --speed 20
  hcl rehearse lab/ --only 'benchmark = "online" and concurrency = 1'

Exit codes: 0 done, 1 failed, 2 the lab or the command line is wrong, 3 some cells
could not be run, 130 interrupted.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if !(speed > 0) {
				return usage("--speed is how many times faster than real the rehearsal runs; it must be above 0")
			}
			selection, err := cells.selection()
			if err != nil {
				return err
			}
			l, err := a.openLab(lab, args)
			if err != nil {
				return err
			}
			cfg, err := l.planned(ctx)
			if err != nil {
				return err
			}
			opt, err := a.options(ctx, connectFlags{})
			if err != nil {
				return err
			}
			p, err := plan.Rehearse(cfg, speed, freePort)
			if err != nil {
				return err
			}
			if err := pick(p, selection); err != nil {
				return err
			}
			if p.Empty() {
				return p.Text(a.stdout, false)
			}
			store, unlock, err := a.openLocked(ctx, cfg, "hcl rehearse")
			if err != nil {
				return err
			}
			defer store.Close()
			defer unlock()
			if err := l.inputsThere(p); err != nil {
				return err
			}
			if !asJSON {
				if err := p.Text(a.stderr, false); err != nil {
					return err
				}
			}
			opt.Run = newRun(cfg.Lab.Name, "rehearse")
			if opt.Inputs, err = inputs(l, p, references(cfg, "")); err != nil {
				return err
			}
			return a.carryOut(ctx, p, nil, layout(cfg), store, opt, asJSON)
		},
	}
	lab.add(c)
	cells.add(a, c)
	a.storeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print what happens as one JSON object a line, and nothing else")
	c.Flags().Float64Var(&speed, "speed", 1, "run this many times faster than the engines would")
	return c
}

// freePort finds a port that nothing listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
