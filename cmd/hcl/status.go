package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/plan"
)

func (a *app) status() *cobra.Command {
	var lab labFlags
	var connect connectFlags
	c := &cobra.Command{
		Use:   "status [LAB]",
		Short: "Show what of this lab runs where",
		Long: `Asks every host of the lab what of it is there, who is at work, also on another lab,
what a tear-down could not clean, and which settings of a host are changed for a run.`,
		Example: `  hcl status lab/

Exit codes: 0 done, 1 a host could not be asked, 2 the lab or the command line is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := a.openLab(lab, args)
			if err != nil {
				return err
			}
			cfg := l.text
			opt, err := a.options(c.Context(), connect)
			if err != nil {
				return err
			}
			all, err := apply.Status(c.Context(), apply.ScopeOf(cfg.Lab.Name, cfg.Hosts, cfg.Engines), opt)
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "HOST\tENGINE\tSTATE\tRUN\tNAME")
			for _, p := range all {
				for _, row := range statusOf(p) {
					for i := range row { // words of hosts and of others' callers
						row[i] = plain.Line(row[i])
					}
					fmt.Fprintf(w, "%s\t%s\n", p.Host.Name, strings.Join(row, "\t"))
				}
			}
			if e := w.Flush(); err == nil {
				err = e
			}
			if slices.ContainsFunc(all, func(p apply.Presence) bool { return p.Unclean != nil }) {
				fmt.Fprintln(a.stdout, "\nNothing is started on a host that is unclean. `hcl check` and `hcl apply` look again;\nso does `hcl destroy`, and --force forgets it. Memory that no process holds takes a\nreset of the GPUs by their owner, or a reboot.")
			}
			return err
		},
	}
	lab.add(c)
	connect.add(c)
	return c
}

// statusOf is what is said of a host, in rows of engine, state, run and name.
func statusOf(p apply.Presence) (rows [][]string) {
	add := func(row ...string) { rows = append(rows, row) }
	until := func(l *agent.Lease) string {
		return "until " + l.Expires.Local().Format(time.TimeOnly) + " unless renewed"
	}
	for _, f := range append(p.Containers, p.Processes...) {
		add(f.Labels[plan.LabelEngine], f.State, f.Labels[plan.LabelRun], f.Name)
	}
	if u := p.Unclean; u != nil {
		add("-", "unclean since "+u.Time.Local().Format(time.DateTime), u.Run, strings.Join(u.Left, "; "))
	}
	for _, change := range p.Changed {
		add("-", "set for a run", "-", change.String())
	}
	if l := p.Reserved; l != nil && l.Lab == "" {
		add("-", "in use by "+l.Holder, "-", "-")
	} else if l != nil {
		add("-", "in use by "+l.Holder+" for lab "+l.Lab, l.Run, until(l))
	}
	if l := p.Lease; l != nil {
		add("-", "leased by "+l.Holder, l.Run, until(l))
	}
	if p.Unseen != nil {
		add("-", "Docker does not answer", "-", p.Unseen.Error())
	}
	switch {
	case p.Err != nil:
		add("-", "could not be asked", "-", "why stands below")
	case len(rows) == 0:
		add("-", "nothing", "-", "-")
	}
	return rows
}

func (a *app) logs() *cobra.Command {
	var lab labFlags
	var connect connectFlags
	var follow bool
	var tail int
	var dir string
	c := &cobra.Command{
		Use:   "logs ENGINE",
		Short: "Show what an engine says",
		Long: `Prints the log of an engine of the lab that runs now. ENGINE is KIND.NAME, such
as vllm.h200.`,
		Example: `  hcl logs vllm.h200 --follow
  hcl logs engine.sglang.h200 --lab lab/ --tail 50

Exit codes: 0 done, 1 failed, 2 the lab or the command line is wrong, 130 interrupted.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name one engine, such as vllm.h200\nSee '%s --help'.", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			l, err := a.openLab(lab, []string{dir})
			if err != nil {
				return err
			}
			cfg := l.text
			address := "engine." + strings.TrimPrefix(args[0], "engine.")
			var names []string
			var engine *engines.Engine
			for _, e := range cfg.Engines { // several forms of one have one name, and it runs in one of them
				if !slices.Contains(names, e.Label()) {
					names = append(names, e.Label())
				}
				if e.Address() == address {
					engine = e
				}
			}
			if engine == nil || engine.Host == nil {
				return usage("there is no engine %q that runs on a host of this lab; there are: %s", args[0], strings.Join(names, ", "))
			}
			opt, err := a.options(c.Context(), connect)
			if err != nil {
				return err
			}
			err = apply.Logs(c.Context(), apply.ScopeOf(cfg.Lab.Name, cfg.Hosts, cfg.Engines), engine, follow, tail, opt, func(b []byte) error {
				_, err := a.stdout.Write(b)
				return err
			})
			if c.Context().Err() != nil && !errors.Is(err, errReaderLeft) {
				return &exit{code: exitInterrupted}
			}
			return err
		},
	}
	lab.add(c)
	connect.add(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.found(c, nil, func(cfg *hcl.Config) []string { return engineNames(cfg, "") })
	}
	c.Flags().StringVar(&dir, "lab", ".", "the lab's `directory` or file")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	c.Flags().IntVar(&tail, "tail", -1, "only the last `n` lines; -1 is all")
	return c
}
