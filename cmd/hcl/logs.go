package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/engines"
	"hclbench/hcl"
)

type logsOptions struct {
	hosts  hostFlags
	follow bool
	tail   int
}

func logsVerb(t *console) *cobra.Command {
	var o logsOptions
	c := verb("logs", exactly(1, "name one engine, such as vllm.h200"),
		func(ctx context.Context, args []string) error { return runLogs(ctx, t, o, args[0]) })
	o.hosts.add(c)
	o.hosts.addPath(c, "")
	o.hosts.addAccept(c)
	c.ValidArgsFunction = firstOnly(fromLab(t, func(cfg *hcl.Config) []string { return engineNames(cfg, "") }))
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what comes")
	c.Flags().IntVar(&o.tail, "tail", -1, "only the last `n` lines; -1 is all")
	return c
}

func runLogs(ctx context.Context, t *console, o logsOptions, name string) error {
	l, opt, err := o.hosts.reach(ctx, t)
	if err != nil {
		return err
	}
	engine, err := engineNamed(l.text, name)
	if err != nil {
		return err
	}
	write := func(b []byte) error {
		_, err := t.stdout.Write(b)
		return err
	}
	err = apply.Logs(ctx, l.scope(), apply.Log{Engine: engine, Follow: o.follow, Tail: o.tail, Write: write}, opt)
	if ctx.Err() != nil && !errors.Is(err, errReaderLeft) {
		return &exit{code: exitInterrupted}
	}
	return err
}

// engineNamed is the engine of that name that runs on a host.
func engineNamed(cfg *hcl.Config, name string) (*engines.Engine, error) {
	address := "engine." + strings.TrimPrefix(name, "engine.")
	var names []string
	var found *engines.Engine
	for _, e := range cfg.Engines { // several forms of one have one name, and it runs in one of them
		if !slices.Contains(names, e.Label()) {
			names = append(names, e.Label())
		}
		if e.Address() == address {
			found = e
		}
	}
	if found == nil || found.Host == nil {
		return nil, usage("there is no engine %q that runs on a host of this lab; there are: %s", name, strings.Join(names, ", "))
	}
	return found, nil
}
