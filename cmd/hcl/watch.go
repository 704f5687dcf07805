package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/results"
)

func (a *app) attach() *cobra.Command {
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "attach [RUN]",
		Short: "Follow a run from another terminal",
		Long: `Shows what happens in a run of this lab, from its beginning on, as the terminal
that started it does. Without RUN it is the newest one; one that is over is shown
as it was. RUN is the beginning of its id. Nothing that is done here reaches the run:
Ctrl-C ends only the view.`,
		Example: `  hcl attach
  hcl attach 20261121-140311-7c2e --lab lab/
  hcl attach --json | jq -r 'select(.type == "warning").message'

Exit codes: 0 the run is over, 1 it died or cannot be followed, 2 the command line is
wrong, 130 interrupted.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			store, run, err := journalOf(dir, args)
			if err != nil {
				return err
			}
			end, err := follow(c.Context(), store, run, a.audience(asJSON))
			if c.Context().Err() != nil {
				return &exit{exitInterrupted, errors.New("interrupted; the run goes on")}
			}
			if err == nil && !asJSON {
				_, err = fmt.Fprintln(a.stdout, end)
			}
			return err
		},
	}
	c.Flags().StringVar(&dir, "lab", ".", "the lab's `directory` or file")
	c.Flags().BoolVar(&asJSON, "json", false, "print what happens as one JSON object a line, and nothing else")
	c.ValidArgsFunction = journalNames
	return c
}

func (a *app) watch() *cobra.Command {
	var dir, address string
	c := &cobra.Command{
		Use:   "watch [RUN] --web ADDRESS",
		Short: "Show a run as a web page that updates itself",
		Long: `Serves a page that shows a run of this lab while it goes on: hosts, the cells and
their figures, what happened. Without RUN it is the newest one. The page is
read-only and loads nothing from elsewhere. On an address that others can reach,
it is shown only to those who have the link that is printed.`,
		Example: `  hcl watch --web 127.0.0.1:0
  hcl watch --web 0.0.0.0:8080 --lab lab/

Exit codes: 1 there is no run or the address cannot be used, 2 the command line is
wrong, 130 stopped by Ctrl-C.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if address == "" {
				return usage("say where to serve the page: --web 127.0.0.1:0\nTo follow the run in this terminal: hcl attach")
			}
			store, run, err := journalOf(dir, args)
			if err != nil {
				return err
			}
			return a.serveRun(c.Context(), store, run, address)
		},
	}
	c.Flags().StringVar(&dir, "lab", ".", "the lab's `directory` or file")
	c.Flags().StringVar(&address, "web", "", "serve the page at `address`; port 0 takes a free one")
	c.ValidArgsFunction = journalNames
	return c
}

// journalOf finds the folder and the run of a journal.
func journalOf(dir string, args []string) (store, run string, err error) {
	store = storeDir(labDir([]string{dir}))
	runs, err := results.Journals(store)
	switch {
	case err != nil:
		return "", "", err
	case len(runs) == 0:
		return "", "", fmt.Errorf("nothing was run in %s yet", relative(labDir([]string{dir})))
	case len(args) == 0:
		return store, runs[0], nil
	case slices.Contains(runs, args[0]):
		return store, args[0], nil
	}
	found := slices.DeleteFunc(slices.Clone(runs), func(id string) bool { return !strings.HasPrefix(id, args[0]) })
	switch len(found) {
	case 0:
		return "", "", usage("there is no run %q to follow; the newest is %s", args[0], runs[0])
	case 1:
		return store, found[0], nil
	}
	return "", "", usage("%s is the beginning of %d runs: %s to %s", args[0], len(found), found[len(found)-1], found[0])
}

func journalNames(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, err := c.Flags().GetString("lab")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	runs, err := results.Journals(storeDir(labDir([]string{dir})))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return runs, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// follow tells an audience what a run's journal says, and returns its end.
func follow(ctx context.Context, store, run string, to audience) (end ended, err error) {
	over := false
	err = results.Follow(ctx, store, run, func(line []byte) error {
		var kind struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(line, &kind); err != nil {
			return fmt.Errorf("read the journal of run %s: %w", run, err)
		}
		var err error
		switch kind.Type {
		case "run":
			err = told(line, to.begin)
		case "outcome":
			over = true
			err = told(line, func(e ended) { end = e; to.end(e) })
		default:
			err = told(line, to.event)
		}
		if err != nil {
			return fmt.Errorf("read the journal of run %s: %w", run, err)
		}
		return nil
	})
	if !over {
		to.end(ended{Type: "outcome", Run: run}) // the view is taken down in any case
	}
	if err == nil && !over {
		err = errors.New("run " + run + " ended without a word: its process was killed. Its hosts clean themselves when the lease runs out; hcl destroy does it now, and the next apply goes on from there")
	}
	return end, err
}

// String says how a run ended.
func (e ended) String() string {
	s := fmt.Sprintf("Run %s is over: %d valid", e.Run, e.Valid)
	for _, n := range []struct {
		count int
		what  string
	}{{e.Suspect, "suspect"}, {e.Void, "void"}, {e.Planned - e.Valid - e.Suspect - e.Void, "not measured"}} {
		if n.count > 0 {
			s += fmt.Sprintf(", %d %s", n.count, n.what)
		}
	}
	if e.Error != "" {
		s += ". " + e.Error
	}
	return s
}

// told passes a line of the journal on as what it is.
func told[T begun | apply.Event | ended](line []byte, to func(T)) error {
	var v T
	if err := json.Unmarshal(line, &v); err != nil {
		return err
	}
	to(v)
	return nil
}
