package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hclbench/load"
	"hclbench/report"
	"hclbench/results"
)

func (a *app) runs() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "runs [LAB]",
		Short: "List what was run",
		Long: `Lists every run whose results are kept, the newest last: what it was, when it
began, how long it took, and how many of its cells are valid, suspect and void.`,
		Example: `  hcl runs lab/
  hcl runs --json

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			store, err := a.existing(c, args)
			if err != nil {
				return err
			}
			defer store.Close()
			runs, err := store.Runs(ctx)
			if err != nil {
				return err
			}
			counts, err := store.Counts(ctx)
			if err != nil {
				return err
			}
			lab, err := labIn(store, args)
			if err != nil {
				return err
			}
			if lab != "" {
				runs = slices.DeleteFunc(runs, func(r results.Run) bool { return r.Lab != lab })
			}
			var open []string
			for _, r := range runs {
				if r.Outcome == "" {
					open = append(open, r.ID)
				}
			}
			going, err := store.Running(ctx, open)
			if err != nil {
				return err
			}
			type line struct {
				results.Run
				Valid    int `json:"valid"`
				Imported int `json:"imported"`
				Suspect  int `json:"suspect"`
				Void     int `json:"void"`
			}
			lines := make([]line, len(runs))
			for i, r := range runs {
				n := counts[r.ID]
				lines[i] = line{r, n.Valid, n.Imported, n.Suspect, n.Void}
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(map[string]any{"format_version": report.FormatVersion, "runs": lines})
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			columns := "RUN\tWHAT\tBEGAN\tTOOK\tVALID\tIMPORTED\tSUSPECT\tVOID\tOUTCOME"
			if store.Shared() {
				columns = "LAB\t" + columns
			}
			fmt.Fprintln(w, columns)
			for _, l := range lines {
				if store.Shared() {
					fmt.Fprintf(w, "%s\t", l.Lab)
				}
				took, outcome, what := "-", l.Outcome, l.Command
				if l.Bundled {
					what += " elsewhere"
				}
				if !l.Finished.IsZero() {
					took = l.Finished.Sub(l.Started).Round(time.Second).String()
				}
				if outcome == "" {
					outcome = "died"
					if going[l.ID] {
						outcome = "going on"
					}
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", l.ID, what, l.Started.Local().Format(time.DateTime), took, l.Valid, l.Imported, l.Suspect, l.Void, outcome)
			}
			return w.Flush()
		},
	}
	a.storeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func (a *app) results() *cobra.Command {
	var which selection
	var lab labFlags
	var table tableFlags
	var format string
	formats := []string{"table", "markdown", "json", "csv"}
	c := &cobra.Command{
		Use:   "results [LAB]",
		Short: "Pick measured cells by a condition",
		Long: `Prints the newest measurement of each cell that the lab asks for now, or all of one
run, that meets a condition: on axes, on metrics, and on what was measured where, by the names of
the columns that --format csv prints. The operators are =, !=, <, <=, >, >=, and,
or, not and parentheses; * in a text stands for any characters; engine is the
engine's name or its kind.`,
		Example: `  hcl results --where 'engine = "vllm" and concurrency >= 64'
  hcl results lab/ --where 'verdict != valid' --format json
  hcl results --where 'p99_ttft_ms > 5000 or failed > 0' --format csv

Exit codes: 0 done, 1 failed, 2 the condition or the command line is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(formats, format) {
				return usage("--format %s: it is %s", format, strings.Join(formats, ", "))
			}
			if err := table.check(); err != nil {
				return err
			}
			v, err := a.shown(c, lab, args, which)
			if err != nil {
				return err
			}
			defer v.store.Close()
			rows, about, err := a.about(c.Context(), v, nil)
			if err != nil {
				return err
			}
			opt := table.options(a, about.Layout.Columns)
			switch format {
			case "json":
				return report.JSON(a.stdout, rows, report.About{Version: version})
			case "csv":
				return report.CSV(a.stdout, rows)
			case "markdown":
				return report.Markdown(a.stdout, rows, report.About{Layout: report.Layout{Columns: opt.Columns}})
			}
			return report.Table(a.stdout, rows, opt)
		},
	}
	which.add(a, c)
	which.addAll(c)
	lab.add(c)
	table.add(c)
	c.Flags().StringVar(&format, "format", "table", strings.Join(formats, ", "))
	words(c, "format", formats...)
	return c
}

func (a *app) showCell() *cobra.Command {
	var dir, run string
	var lab labFlags
	var asJSON, rehearsed bool
	c := &cobra.Command{
		Use:   "show CELL",
		Short: "Show one measured cell in full",
		Long: `Prints all that is known of a cell: its figures with every percentile, what was
measured on what, what its identity is made of, and what happened meanwhile.
CELL is the beginning of its id. Without --run it is its newest measurement, under the
names that the lab has now, and says whether the lab still asks for it.`,
		Example: `  hcl show 3f9ac2
  hcl show 3f9ac2 --run 20261121-142501-k3f9 --json

Exit codes: 0 done, 1 there is no such cell or several, 2 the command line is wrong.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usage("name one cell by the beginning of its id, as hcl report --json and hcl plan --json print it\nSee '%s --help'.", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			store, err := a.existing(c, []string{dir})
			if err != nil {
				return err
			}
			defer store.Close()
			if run != "" {
				named, err := runNamed(ctx, store, "", run)
				if err != nil {
					return err
				}
				run = named.ID
			}
			rows, err := store.Rows(ctx, results.Query{Run: run, Cell: args[0], Rehearsed: rehearsed, Latest: run == ""})
			if err != nil {
				return err
			}
			switch len(rows) {
			case 0:
				return fmt.Errorf("no measured cell has an id that begins with %q", args[0])
			case 1:
			default:
				var ids []string
				for _, r := range rows {
					ids = append(ids, fmt.Sprintf("  %s  %s %s: %s", r.ID, r.Deployment.Engine, r.Benchmark, axes(r.Axes)))
				}
				return fmt.Errorf("%d cells begin with %q:\n%s", len(rows), args[0], strings.Join(ids, "\n"))
			}
			engine := rows[0].Deployment.Engine // as the events of the day call it
			if run == "" {
				if err := a.asPlanned(ctx, store, lab, dir, &rows[0]); err != nil {
					return err
				}
			}
			if asJSON {
				return report.JSON(a.stdout, rows, report.About{Version: version})
			}
			all, err := store.Events(ctx, rows[0].RunID)
			if err != nil {
				return err
			}
			var events []results.Event
			for _, e := range all {
				if e.Cell == rows[0].ID || e.Cell == "" && e.Engine == engine {
					events = append(events, e)
				}
			}
			return report.Cell(a.stdout, rows[0], events)
		},
	}
	c.Flags().StringVar(&dir, "lab", ".", "the lab's `directory` or file")
	a.storeFlag(c)
	lab.add(c)
	c.Flags().StringVar(&run, "run", "", "as the run whose `id` begins so measured it")
	a.completeRun(c, "run")
	c.Flags().BoolVar(&rehearsed, "rehearsed", false, "as it was rehearsed instead of measured")
	c.Flags().BoolVar(&asJSON, "json", false, "print exact numbers as JSON")
	return c
}

// asPlanned gives a result what the lab says of its cell now: its names, its SLO,
// whether it asks for it at all.
func (a *app) asPlanned(ctx context.Context, store *results.Store, lab labFlags, dir string, r *results.Row) error {
	cfg, err := a.labOf(ctx, lab, []string{dir})
	if err != nil || cfg == nil || r.Run.Lab != cfg.Lab.Name {
		return err
	}
	planned, err := plannedOf(ctx, cfg, store, r.Run.Command == "rehearse")
	if err != nil || planned == nil {
		return err
	}
	current, others := report.OfPlan([]results.Row{*r}, planned)
	report.Judge(current, planned, func(r *results.Row) ([]load.Record, error) { return store.Records(ctx, r.RunID, r.ID) })
	*r = slices.Concat(current, others)[0] // under the first of its names
	return nil
}

func (a *app) gc() *cobra.Command {
	var dry bool
	var older span
	var keep int
	c := &cobra.Command{
		Use:   "gc [LAB]",
		Short: "Remove what the results can do without",
		Long: `Removes files of records that belong to no cell, which a killed process leaves
behind, and journals of runs that are over. With --older-than it also removes
runs that ended so long ago, with --keep those beyond the newest so many of the
lab, with both those for which both is true: but never one that goes on or that
holds the newest measurement of a cell. Nothing has to be measured again.
Rehearsals are counted apart. Runs that came in a bundle stay.`,
		Example: `  hcl gc --dry-run
  hcl gc lab/ --keep 10
  hcl gc lab/ --older-than 30d

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if older < 0 {
				return usage("--older-than must be at least 0, such as 30d")
			}
			if keep < 1 && c.Flags().Changed("keep") {
				return usage("--keep must be at least 1, the newest run")
			}
			store, err := a.existing(c, args)
			if err != nil {
				return err
			}
			defer store.Close()
			lab, err := labIn(store, args)
			if err != nil {
				return err
			}
			if lab == "" && store.Shared() {
				return usage("%s has the results of several labs, and %s has no lab: name the one whose results may go", store.Name(), labPath(args))
			}
			which := results.Outdated{Keep: keep, Lab: lab}
			if c.Flags().Changed("older-than") {
				which.Before = time.Now().Add(-time.Duration(older))
			}
			found, err := store.Litter(ctx, which)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				_, err := fmt.Fprintln(a.stdout, "There is nothing to remove.")
				return err
			}
			var errs []error
			var gone int
			var bytes int64
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, l := range found {
				if !dry {
					if err := store.Remove(ctx, l); err != nil {
						errs = append(errs, err)
						continue
					}
				}
				gone++
				bytes += l.Bytes
				what := l.Path
				if l.Run != "" {
					what = "run " + l.Run
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", what, size(l.Bytes), l.Why)
			}
			errs = append(errs, w.Flush())
			verb := "Removed"
			if dry {
				verb = "Would remove"
			}
			fmt.Fprintf(a.stdout, "%s %s, %s.\n", verb, plural(gone, "item"), size(bytes))
			return errors.Join(errs...)
		},
	}
	a.storeFlag(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would go")
	c.Flags().IntVar(&keep, "keep", 0, "also runs beyond the newest `N` of which every cell was measured again")
	c.Flags().Var(&older, "older-than", "also runs that ended so long ago and of which every cell was measured again")
	return c
}
