package main

import (
	"errors"
	"fmt"

	"github.com/charmbracelet/log"
	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/results"
)

func (a *app) destroy() *cobra.Command {
	var lab labFlags
	var connect connectFlags
	var force, cache bool
	c := &cobra.Command{
		Use:   "destroy [LAB]",
		Short: "Remove everything of this lab from its hosts",
		Long: `Removes every container and process of this lab from its hosts, in the graceful
way and whoever left it there, and ends the lab's agents. They are found by their
labels; what carries none of this lab is never touched. Then it looks whether the
hosts are free: nothing of ours on a GPU, its memory given back, the ports closed.
Results are kept. --cache removes what hcl keeps on the hosts as well, which it
otherwise does 30 days after it was last used.`,
		Example: `  hcl destroy
  hcl destroy lab/ --force
  hcl destroy --cache

Exit codes: 0 done, 1 failed, 2 the lab or the command line is wrong, 5 a host is left
unclean, 130 interrupted.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			l, err := a.openLab(lab, args)
			if err != nil {
				return err
			}
			cfg := l.text
			opt, err := a.options(ctx, connect)
			if err != nil {
				return err
			}
			log := a.logger()
			id := ""
			store, unlock, err := a.openLocked(ctx, cfg, "hcl destroy")
			switch {
			case err == nil:
				defer store.Close()
				defer unlock()
				id = store.ID()
			case errors.Is(err, results.ErrLocked):
				return fmt.Errorf("%w\nStop it with Ctrl-C: it takes down what it has brought up", err)
			case ctx.Err() != nil:
				return err
			case !force:
				return fmt.Errorf("%w\nWithout its results hcl cannot tell whether what runs there is this lab's own: --force removes all the same what carries its name", err)
			default: // what costs by the hour does not wait for a disk or a database
				log.Warn("the store of results cannot be opened", "err", err)
			}
			opt.Events = func(e apply.Event) { tellRemoved(log, e) }
			removed, err := apply.Destroy(ctx, apply.ScopeOf(cfg.Lab.Name, cfg.Hosts, cfg.Engines), id, force, cache, opt)
			n := 0
			for _, p := range removed {
				n += len(p.Containers) + len(p.Processes)
			}
			if err != nil {
				return err
			}
			switch n {
			case 0:
				_, err = fmt.Fprintf(a.stdout, "Nothing of lab %s is on its hosts.\n", cfg.Lab.Name)
			case 1:
				_, err = fmt.Fprintf(a.stdout, "Removed one engine of lab %s.\n", cfg.Lab.Name)
			default:
				_, err = fmt.Fprintf(a.stdout, "Removed %d engines of lab %s.\n", n, cfg.Lab.Name)
			}
			return err
		},
	}
	lab.add(c)
	connect.add(c)
	a.storeFlag(c)
	c.Flags().BoolVar(&force, "force", false, "also where somebody else's apply of this lab holds the lease, or the store of results cannot be opened; and forget what could not be cleaned")
	c.Flags().BoolVar(&cache, "cache", false, "also remove ~/.cache/hcl from the hosts: binaries, files of data sets and what engines have built")
	return c
}

// tellRemoved says what is removed, and what could not be looked for.
func tellRemoved(to *log.Logger, e apply.Event) {
	if e.Type == apply.Warning {
		to.Warn(e.Message, "host", e.Host)
	} else {
		to.Info(e.Message, "host", e.Host)
	}
}
