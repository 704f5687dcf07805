package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/report"
	"hclbench/results"
)

type showOptions struct {
	lab       labFlags
	run       string
	rehearsed bool
	json      bool
}

const nameOneCell = "name one cell by the beginning of its id, as hcl report --json and hcl plan --json print it"

func showVerb(t *console) *cobra.Command {
	var o showOptions
	c := verb("show", exactly(1, nameOneCell), func(ctx context.Context, args []string) error { return runShow(ctx, t, o, args[0]) })
	o.lab.addPath(c, "")
	o.lab.addStore(c)
	o.lab.add(c)
	c.Flags().StringVar(&o.run, "run", "", "as the run whose `id` begins so measured it")
	completes(c, "run", runIDs(t))
	c.Flags().BoolVar(&o.rehearsed, "rehearsed", false, "as it was rehearsed instead of measured")
	c.Flags().BoolVar(&o.json, "json", false, "print exact numbers as JSON")
	return c
}

func runShow(ctx context.Context, t *console, o showOptions, cell string) error {
	if cell == "" {
		return usage(nameOneCell)
	}
	store, err := o.lab.existing(ctx, t)
	if err != nil {
		return err
	}
	defer store.Close()
	if o.run != "" {
		named, err := runNamed(ctx, store, "", o.run)
		if err != nil {
			return err
		}
		o.run = named.ID
	}
	row, err := oneCell(ctx, store, results.Query{Run: o.run, Cell: cell, Rehearsed: o.rehearsed, Latest: o.run == ""})
	if err != nil {
		return err
	}
	engine := row.Deployment.Engine // as the events of the day call it
	if o.run == "" {
		if row, err = asPlanned(ctx, t, store, o.lab, row); err != nil {
			return err
		}
	}
	if o.json {
		return report.JSON(t.stdout, []results.Row{row}, report.About{Version: version})
	}
	events, err := store.Events(ctx, row.RunID)
	if err != nil {
		return err
	}
	events = slices.DeleteFunc(events, func(e results.Event) bool { return e.Cell != row.ID && (e.Cell != "" || e.Engine != engine) })
	return report.Cell(t.stdout, row, events)
}

// oneCell is the result that the query finds, if it is one.
func oneCell(ctx context.Context, store *results.Store, q results.Query) (results.Row, error) {
	rows, err := store.Rows(ctx, q)
	switch {
	case err != nil:
		return results.Row{}, err
	case len(rows) == 1:
		return rows[0], nil
	case len(rows) == 0:
		return results.Row{}, fmt.Errorf("no measured cell has an id that begins with %q", q.Cell)
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, fmt.Sprintf("  %s  %s %s: %s", r.ID, r.Deployment.Engine, r.Benchmark, axes(r.Axes)))
	}
	return results.Row{}, fmt.Errorf("%d cells begin with %q:\n%s", len(rows), q.Cell, strings.Join(ids, "\n"))
}

// asPlanned is a result with what the lab says of its cell now: its names, its SLO,
// whether it asks for it at all.
func asPlanned(ctx context.Context, t *console, store *results.Store, of labFlags, r results.Row) (results.Row, error) {
	cfg, err := of.planned(ctx, t)
	if err != nil || cfg == nil || r.Run.Lab != cfg.Lab.Name {
		return r, err
	}
	planned, err := plannedOf(ctx, cfg, store, r.Run.Command == "rehearse")
	if err != nil || planned == nil {
		return r, err
	}
	current, others := report.OfPlan([]results.Row{r}, planned)
	report.Judge(current, planned, recordsOf(ctx, store))
	return slices.Concat(current, others)[0], nil // under the first of its names
}
