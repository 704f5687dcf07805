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

type attachOptions struct {
	lab  labFlags
	json bool
}

func attachVerb(t *console) *cobra.Command {
	var o attachOptions
	c := verb("attach", atMost(1), func(ctx context.Context, args []string) error { return runAttach(ctx, t, o, args) })
	o.lab.addPath(c, "")
	c.Flags().BoolVar(&o.json, "json", false, "print what happens as one JSON object a line, and nothing else")
	c.ValidArgsFunction = firstOnly(journalNames)
	return c
}

func runAttach(ctx context.Context, t *console, o attachOptions, args []string) error {
	store, run, err := journalOf(o.lab, args)
	if err != nil {
		return err
	}
	end, err := follow(ctx, store, run, t.audience(o.json))
	if ctx.Err() != nil {
		return &exit{exitInterrupted, errors.New("interrupted; the run goes on")}
	}
	if err == nil && !o.json {
		_, err = fmt.Fprintln(t.stdout, end)
	}
	return err
}

type watchOptions struct {
	lab     labFlags
	address string
}

func watchVerb(t *console) *cobra.Command {
	var o watchOptions
	c := verb("watch", atMost(1), func(ctx context.Context, args []string) error { return runWatch(ctx, t, o, args) })
	o.lab.addPath(c, "")
	c.Flags().StringVar(&o.address, "web", "", "serve the page at `address`; port 0 takes a free one")
	c.ValidArgsFunction = firstOnly(journalNames)
	return c
}

func runWatch(ctx context.Context, t *console, o watchOptions, args []string) error {
	if o.address == "" {
		return usage("say where to serve the page: --web 127.0.0.1:0\nTo follow the run in this terminal: hcl attach")
	}
	store, run, err := journalOf(o.lab, args)
	if err != nil {
		return err
	}
	return serveRun(ctx, t.stdout, store, run, o.address)
}

// journalOf finds the folder and the run of a journal.
func journalOf(of labFlags, args []string) (store, run string, err error) {
	store = storeDir(of.dir())
	runs, err := results.Journals(store)
	switch {
	case err != nil:
		return "", "", err
	case len(runs) == 0:
		return "", "", fmt.Errorf("nothing was run in %s yet", relative(of.dir()))
	case len(args) == 0:
		return store, runs[0], nil
	}
	run, err = oneRun(args[0], runs)
	return store, run, err
}

// oneRun is the run of these, the newest first, whose id is text or begins with it.
func oneRun(text string, runs []string) (string, error) {
	if slices.Contains(runs, text) {
		return text, nil
	}
	if len(runs) == 0 {
		return "", usage("there is no run %s: nothing was run yet", text)
	}
	found := slices.DeleteFunc(slices.Clone(runs), func(id string) bool { return !strings.HasPrefix(id, text) })
	switch len(found) {
	case 0:
		return "", usage("there is no run whose id begins with %s; the newest is %s, and hcl runs lists them", text, runs[0])
	case 1:
		return found[0], nil
	}
	return "", usage("%s is the beginning of %d runs: %s to %s", text, len(found), found[len(found)-1], found[0])
}

func journalNames(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	runs, err := results.Journals(storeDir(labOf(c, nil).dir()))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return runs, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

const wasKilled = "run %s ended without a word: its process was killed. Its hosts clean themselves when the lease runs out; " +
	"hcl destroy does it now, and the next apply goes on from there"

// follow tells an audience what a run's journal says, and returns its end.
func follow(ctx context.Context, store, run string, to audience) (end ended, err error) {
	over := false
	err = results.Follow(ctx, store, run, func(line []byte) error {
		what, err := heardOf(line)
		if err != nil {
			return fmt.Errorf("read the journal of run %s: %w", run, err)
		}
		if e, ok := what.(ended); ok {
			end, over = e, true
		}
		to(what)
		return nil
	})
	if !over {
		to(ended{Type: "outcome", Run: run}) // the view is taken down in any case
	}
	if err == nil && !over {
		err = fmt.Errorf(wasKilled, run)
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

// heardOf is a line of a journal as what it is.
func heardOf(line []byte) (any, error) {
	var kind struct{ Type string }
	err := json.Unmarshal(line, &kind)
	switch {
	case err != nil:
		return nil, err
	case kind.Type == "run":
		return decoded[begun](line)
	case kind.Type == "outcome":
		return decoded[ended](line)
	}
	return decoded[apply.Event](line)
}

func decoded[T any](line []byte) (any, error) {
	var v T
	err := json.Unmarshal(line, &v)
	return v, err
}
