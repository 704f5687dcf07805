package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hclbench/plain"
	"hclbench/report/table"
	"hclbench/results"
)

func runsVerb(t *console) *cobra.Command {
	var lab labFlags
	var asJSON bool
	c := verb("runs", atMost(1), func(ctx context.Context, args []string) error {
		lab.named(args)
		return runRuns(ctx, t, lab, asJSON)
	})
	lab.addStore(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func runRuns(ctx context.Context, t *console, of labFlags, asJSON bool) error {
	store, lab, err := of.results(ctx, t)
	if err != nil {
		return err
	}
	defer store.Close()
	runs, err := store.Runs(ctx)
	if err != nil {
		return err
	}
	if lab != "" {
		runs = slices.DeleteFunc(runs, func(r results.Run) bool { return r.Lab != lab })
	}
	counts, err := store.Counts(ctx)
	if err != nil {
		return err
	}
	going, err := goingOn(ctx, store, runs)
	if err != nil {
		return err
	}
	lines := make([]runLine, len(runs))
	for i, r := range runs {
		lines[i] = runLine{r, counts[r.ID], going[r.ID]}
	}
	if asJSON {
		return t.json(map[string]any{"format_version": table.FormatVersion, "runs": lines})
	}
	return writeRuns(t.stdout, lines, store.Shared())
}

type runLine struct {
	results.Run
	results.Count
	going bool
}

// goingOn are those of the runs that go on, by id.
func goingOn(ctx context.Context, store *results.Store, runs []results.Run) (map[string]bool, error) {
	var open []string
	for _, r := range runs {
		if r.Outcome == "" {
			open = append(open, r.ID)
		}
	}
	return store.Running(ctx, open)
}

func writeRuns(out io.Writer, lines []runLine, shared bool) error {
	rows := [][]any{{"LAB", "RUN", "WHAT", "BEGAN", "TOOK", "VALID", "IMPORTED", "SUSPECT", "VOID", "OUTCOME"}}
	for _, l := range lines {
		what, took, outcome := l.Command, "-", l.Outcome
		if l.Bundled {
			what += " elsewhere"
		}
		if !l.Finished.IsZero() {
			took = l.Finished.Sub(l.Started).Round(time.Second).String()
		}
		switch {
		case l.going:
			outcome = "going on"
		case outcome == "":
			outcome = "died"
		case outcome == "done": // it came to its end, and perhaps not to all of its cells, as its exit code said
			if l.Suspect > 0 && l.Command == "apply" {
				outcome += fmt.Sprintf(", %d suspect", l.Suspect)
			}
			if l.Void > 0 {
				outcome += fmt.Sprintf(", %d void", l.Void)
			}
		}
		began := l.Started.Local().Format(time.DateTime)
		rows = append(rows, []any{l.Lab, l.ID, what, began, took, l.Valid, l.Imported, l.Suspect, l.Void, outcome})
	}
	if !shared { // all are of one lab
		for i, row := range rows {
			rows[i] = row[1:]
		}
	}
	return writeTable(out, rows)
}

type gcOptions struct {
	lab   labFlags
	dry   bool
	keep  int
	older span
	said  func(flag string) bool // on the command line
}

func gcVerb(t *console) *cobra.Command {
	var o gcOptions
	c := verb("gc", atMost(1), func(ctx context.Context, args []string) error {
		o.lab.named(args)
		return runGC(ctx, t, o)
	})
	o.said = c.Flags().Changed
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
	if o.keep < 1 && o.said("keep") {
		return usage("--keep must be at least 1, the newest run")
	}
	store, lab, err := o.lab.results(ctx, t)
	if err != nil {
		return err
	}
	if !o.dry { // now to be changed
		if err := store.Close(); err != nil {
			return err
		}
		if store, err = o.lab.openStore(ctx, t); err != nil {
			return err
		}
	}
	defer store.Close()
	if lab == "" && store.Shared() {
		return usage("%s has the results of several labs, and %s has no lab: name the one whose results may go", store.Name(), o.lab.path)
	}
	which := results.Outdated{Keep: o.keep, Lab: lab}
	if o.said("older-than") {
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
	var rows [][]any
	var errs []error
	var bytes int64
	for _, l := range found {
		if !o.dry {
			if err := store.Remove(ctx, l); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		what := l.Path
		if l.Run != "" {
			what = "run " + l.Run
		}
		bytes += l.Bytes
		rows = append(rows, []any{what, plain.Bytes(l.Bytes), l.Why})
	}
	errs = append(errs, writeTable(t.stdout, rows))
	verb := "Removed"
	if o.dry {
		verb = "Would remove"
	}
	_, err = fmt.Fprintf(t.stdout, "%s %s, %s.\n", verb, plain.Count(len(rows), "item"), plain.Bytes(bytes))
	return errors.Join(append(errs, err)...)
}
