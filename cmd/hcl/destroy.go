package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/charmbracelet/log"
	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/plain"
	"hclbench/results"
)

type destroyOptions struct {
	hosts hostFlags
	force bool
	cache bool
}

func destroyVerb(t *console) *cobra.Command {
	var o destroyOptions
	c := labVerb("destroy", &o.hosts.labFlags, func(ctx context.Context) error { return runDestroy(ctx, t, o) })
	o.hosts.addAccept(c)
	o.hosts.addStore(c)
	c.Flags().BoolVar(&o.force, "force", false, "also where somebody else's apply of this lab holds the lease, "+
		"or the store of results cannot be opened; and forget what could not be cleaned")
	c.Flags().BoolVar(&o.cache, "cache", false,
		"also remove ~/.cache/hcl from the hosts: binaries, files of data sets and what engines have built")
	return c
}

func runDestroy(ctx context.Context, t *console, o destroyOptions) error {
	l, opt, err := o.hosts.reach(ctx, t)
	if err != nil {
		return err
	}
	store, done, err := o.locked(ctx, t, l)
	if err != nil {
		return err
	}
	defer done()
	log := t.logger()
	opt.Events = func(e apply.Event) { tellRemoved(log, e) }
	removed, err := apply.Destroy(ctx, l.scope(), store, o.force, o.cache, opt)
	if err != nil {
		return err
	}
	n := 0
	for _, p := range removed {
		n += len(p.Containers) + len(p.Processes)
	}
	if n == 0 {
		_, err = fmt.Fprintf(t.stdout, "Nothing of lab %s is on its hosts.\n", l.text.Lab.Name)
	} else {
		_, err = fmt.Fprintf(t.stdout, "Removed %s of lab %s.\n", plain.Count(n, "engine"), l.text.Lab.Name)
	}
	return err
}

const (
	stopItFirst = "%w\nStop it with Ctrl-C: it takes down what it has brought up"
	whoseIsIt   = "%w\nWithout its results hcl cannot tell whether what runs there is this lab's own: " +
		"--force removes all the same what carries its name"
)

// locked is the id of the lab's store, which nobody measures into until done; empty:
// it cannot be opened, and that was told.
func (o destroyOptions) locked(ctx context.Context, t *console, l *lab) (id string, done func(), err error) {
	store, done, err := o.hosts.locked(ctx, t, l.text.Lab.Name, "hcl destroy")
	switch {
	case err == nil:
		return store.ID(), done, nil
	case errors.Is(err, results.ErrLocked):
		return "", nil, fmt.Errorf(stopItFirst, err)
	case ctx.Err() != nil:
		return "", nil, err
	case !o.force:
		return "", nil, fmt.Errorf(whoseIsIt, err)
	}
	// What costs by the hour does not wait for a disk or a database.
	t.logger().Warn("the store of results cannot be opened", "err", err)
	return "", func() {}, nil
}

// tellRemoved says what is removed, and what could not be looked for.
func tellRemoved(to *log.Logger, e apply.Event) {
	if e.Type == apply.Warning {
		to.Warn(e.Message, "host", e.Host)
	} else {
		to.Info(e.Message, "host", e.Host)
	}
}
