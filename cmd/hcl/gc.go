package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hclbench/plain"
	"hclbench/results"
)

type gcOptions struct {
	lab   labFlags
	dry   bool
	keep  int
	older span
	kept  bool // keep is meant
	aged  bool // older is meant
}

func gcVerb(t *console) *cobra.Command {
	var o gcOptions
	c := verb("gc", atMost(1), func(ctx context.Context, args []string) error {
		o.lab.named(args)
		return runGC(ctx, t, o)
	})
	c.PreRun = func(c *cobra.Command, _ []string) {
		o.kept, o.aged = c.Flags().Changed("keep"), c.Flags().Changed("older-than")
	}
	o.lab.addStore(c)
	c.Flags().BoolVar(&o.dry, "dry-run", false, "only say what would go")
	c.Flags().IntVar(&o.keep, "keep", 0, "also runs beyond the newest `N` of which every cell was measured again")
	c.Flags().Var(&o.older, "older-than", "also runs that ended so long ago and of which every cell was measured again")
	return c
}

func runGC(ctx context.Context, t *console, o gcOptions) error {
	if o.older < 0 {
		return usage("--older-than must be at least 0, such as 30d")
	}
	if o.keep < 1 && o.kept {
		return usage("--keep must be at least 1, the newest run")
	}
	store, lab, err := o.lab.results(ctx, t)
	if err != nil {
		return err
	}
	defer store.Close()
	if lab == "" && store.Shared() {
		return usage("%s has the results of several labs, and %s has no lab: name the one whose results may go", store.Name(), o.lab.path)
	}
	which := results.Outdated{Keep: o.keep, Lab: lab}
	if o.aged {
		which.Before = time.Now().Add(-time.Duration(o.older))
	}
	found, err := store.Litter(ctx, which)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(t.stdout, "There is nothing to remove.")
		return err
	}
	var errs []error
	if !o.dry {
		found, errs = removed(ctx, store, found)
	}
	return errors.Join(append(errs, writeLitter(t.stdout, found, o.dry))...)
}

// removed removes litter; what could not be removed is an error and not among it.
func removed(ctx context.Context, store *results.Store, all []results.Litter) (gone []results.Litter, errs []error) {
	for _, l := range all {
		if err := store.Remove(ctx, l); err != nil {
			errs = append(errs, err)
		} else {
			gone = append(gone, l)
		}
	}
	return gone, errs
}

func writeLitter(out io.Writer, gone []results.Litter, dry bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var bytes int64
	for _, l := range gone {
		what := l.Path
		if l.Run != "" {
			what = "run " + l.Run
		}
		bytes += l.Bytes
		fmt.Fprintf(w, "%s\t%s\t%s\n", what, plain.Bytes(l.Bytes), l.Why)
	}
	verb := "Removed"
	if dry {
		verb = "Would remove"
	}
	fmt.Fprintf(w, "%s %s, %s.\n", verb, plain.Count(len(gone), "item"), plain.Bytes(bytes))
	return w.Flush()
}
