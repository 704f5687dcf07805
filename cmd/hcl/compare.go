package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/load"
	"hclbench/report"
	"hclbench/results"
)

func (a *app) compare() *cobra.Command {
	var lab labFlags
	var dir, format, junit string
	var metrics, failIf, allowed []string
	formats := []string{"text", "markdown", "json", "benchstat"}
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Show what changed between two runs, and why",
		Long: `Compares the cells that two sets of results have in common: the medians over
their repetitions, the change in percent, and whether the repetitions tell the
two apart (Mann–Whitney U test, p below 0.05). A change that they do not tell
from chance is shown as ~, with how many repetitions would tell. Then it lists
everything that went in and is not the same: image digests, versions, flags,
environment, host.

A and B are each a run (the beginning of its id), a lab's directory (the newest attempt
at each cell that the lab asks for now), the URL of a shared store (the same, of the
lab that --lab names), what hcl report --json has written, or a file that hcl import
reads.

--fail-if makes it a gate: a limit on the change of a metric ('goodput < -5%'), or a
condition on B ('p99_ttft_ms > 500', 'failed > 0') as hcl results --where reads it,
which no repetition of a cell may meet. The exit code is 3 when a cell breaks one, and
also when it cannot be said whether it does: the cell is missing or void in B, or
suspect, requests fail in it that did not in A, its figure is not known, or it is of
other GPUs, another model or another load. --allow names what may be so on purpose.`,
		Example: `  hcl compare 20261120-1 20261121-1
  hcl compare baseline.json . --fail-if 'output_throughput < -5%' --junit compare.xml
  hcl compare old-lab/ new-lab/ --metric p99_ttft_ms --metric goodput
  hcl compare main.json . --fail-if 'p99_ttft_ms > 500' --fail-if 'failed > 0'
  hcl compare h100.json . --fail-if 'goodput < 0%' --allow gpus
  hcl compare postgres://ada@db.example/bench . --lab .
  hcl compare A B --format benchstat | benchstat -col side -

Exit codes: 0 done, and every cell keeps every limit, 1 failed, 2 the command line is
wrong, 3 a limit of --fail-if is broken, or it is not known that it is kept.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("name two sets of results: runs, labs or files\nSee '%s --help'.", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(formats, format) {
				return usage("--format %s: it is %s", format, strings.Join(formats, ", "))
			}
			var limits []report.Limit
			for _, text := range failIf {
				l, err := report.ParseLimit(text)
				if err != nil {
					return usage("--fail-if: %w", err)
				}
				limits = append(limits, l)
				if l.Metric != "" && !slices.Contains(metrics, l.Metric) {
					metrics = append(metrics, l.Metric)
				}
			}
			if junit != "" && limits == nil {
				return usage("--junit writes what came of limits: give one, --fail-if 'output_throughput < -5%%'")
			}
			exceptions := append(report.Differing(), report.Suspects)
			for _, what := range allowed {
				if !slices.Contains(exceptions, what) {
					return usage("--allow %s: it is %s", what, strings.Join(exceptions, ", "))
				}
			}
			var names [2]string
			var rows [2][]results.Row
			for i, what := range args {
				var err error
				if names[i], rows[i], err = a.resultsOf(c.Context(), lab, dir, what); err != nil {
					return err
				}
			}
			d, err := report.Diff(names[0], rows[0], names[1], rows[1], metrics)
			if err != nil {
				return &exit{exitUsage, err}
			}
			if err := d.Check(limits, allowed); err != nil {
				return &exit{exitUsage, fmt.Errorf("--fail-if: %w", err)}
			}
			if len(d.Cells) == 0 && limits == nil {
				return errors.New("the two have no cell in common: cells are the same when their benchmark and all their axes are")
			}
			if err := d.Write(a.stdout, format, a.width(0)); err != nil {
				return err
			}
			if junit != "" {
				if err := a.write(junit, d.JUnit); err != nil {
					return err
				}
			}
			return brokenLimits(d.Failing())
		},
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.runNames(c, nil, begun), cobra.ShellCompDirectiveKeepOrder // files and labs too
	}
	c.Flags().StringVar(&dir, "lab", ".", "the lab's `directory` or file, to which runs belong")
	a.storeFlag(c)
	lab.add(c)
	c.Flags().StringArrayVar(&metrics, "metric", report.DefaultMetrics(), "compare this `metric`, named as in hcl report --csv; may be repeated")
	words(c, "metric", report.DefaultMetrics()...)
	c.Flags().StringArrayVar(&failIf, "fail-if", nil, "a `limit` on a change, 'output_throughput < -5%', or on B, 'p99_ttft_ms > 500'; may be repeated")
	c.Flags().StringSliceVar(&allowed, "allow", nil, "what may be so in spite of a limit: "+strings.Join(append(report.Differing(), report.Suspects), ", "))
	c.Flags().StringVar(&format, "format", "text", strings.Join(formats, ", "))
	words(c, "format", formats...)
	c.Flags().StringVar(&junit, "junit", "", "write every limit of every cell as a test to this `file`")
	return c
}

// mostLimits bounds the broken limits that an error names.
const mostLimits = 20

// brokenLimits is the error of a gate that does not open; nil: it does.
func brokenLimits(failing []report.Check) error {
	if len(failing) == 0 {
		return nil
	}
	lines := []string{plural(len(failing), "limit") + " not kept:"}
	for i, c := range failing {
		if i == mostLimits {
			lines = append(lines, fmt.Sprintf("and %d more", len(failing)-i))
			break
		}
		lines = append(lines, c.String())
	}
	return &exit{exitCells, errors.New(strings.Join(lines, "\n  "))}
}

// resultsOf reads a set of results: a lab's, a file's, or a run's.
func (a *app) resultsOf(ctx context.Context, lab labFlags, dir, what string) (name string, rows []results.Row, err error) {
	info, err := os.Stat(what)
	switch {
	case results.IsShared(what):
		store, err := a.openPlace(ctx, what, dir)
		if err != nil {
			return "", nil, err
		}
		defer store.Close()
		rows, err := a.attempts(ctx, store, lab, dir)
		return "the newest of " + store.Name(), rows, err
	case err == nil && info.IsDir():
		store, err := a.openStoreOf(ctx, what)
		if err != nil {
			return "", nil, err
		}
		if store == nil {
			return "", nil, fmt.Errorf("nothing is stored for the lab in %s", what)
		}
		defer store.Close()
		rows, err := a.attempts(ctx, store, lab, what)
		return "the newest of " + what, rows, err
	case err == nil:
		rows, err := readRows(what)
		return what, rows, err
	}
	store, err := a.openExisting(ctx, labDir([]string{dir}))
	if err != nil {
		return "", nil, err
	}
	if store == nil {
		return "", nil, fmt.Errorf("%s is neither a file nor a lab, and nothing is stored for the lab in %s", what, labDir([]string{dir}))
	}
	defer store.Close()
	run, err := runNamed(ctx, store, "", what)
	if err != nil {
		return "", nil, fmt.Errorf("%s is neither a file nor a lab: %w", what, err)
	}
	v := shown{store: store}
	err = v.ofRun(ctx, run)
	return "run " + run.ID, v.rows, err
}

// attempts are the newest attempt at each cell that the lab asks for now, whatever
// came of it: an older measurement must not hide that there is none any more. Cells
// without an attempt are among them, as not measured. Without the lab's text it is the
// newest attempt at everything.
func (a *app) attempts(ctx context.Context, store *results.Store, lab labFlags, dir string) ([]results.Row, error) {
	name, err := labIn(store, []string{dir})
	if err != nil {
		return nil, err
	}
	rows, err := store.Rows(ctx, results.Query{Lab: name})
	if err != nil {
		return nil, err
	}
	rows = newest(rows)
	l, err := a.readLab(lab, []string{dir})
	if errors.Is(err, hcl.ErrNoLab) {
		return rows, nil
	}
	if err != nil {
		return nil, err
	}
	if l.text == nil { // what is current cannot be said
		return nil, errors.Join(a.show(l.problems), &exit{code: exitUsage})
	}
	cfg, err := l.planned(ctx)
	if err != nil {
		return nil, err
	}
	planned, err := plannedOf(ctx, cfg, store, false)
	if err != nil {
		return nil, err
	}
	found, err := byOthers(ctx, store, results.Query{Lab: name}, rows, planned)
	if err != nil {
		return nil, err
	}
	current, _ := report.OfPlan(newest(append(rows, found...)), planned)
	report.Judge(current, planned, func(r *results.Row) ([]load.Record, error) { return store.Records(ctx, r.RunID, r.ID) })
	return append(current, report.Unmeasured(current, planned)...), nil
}

// newest are of each cell the row that was finished last.
func newest(rows []results.Row) []results.Row {
	at := map[string]int{}
	var out []results.Row
	for _, r := range rows {
		i, ok := at[r.ID]
		switch {
		case !ok:
			at[r.ID] = len(out)
			out = append(out, r)
		case !r.Finished.Before(out[i].Finished):
			out[i] = r
		}
	}
	return out
}

// readRows reads a file: ours, or one of those that hcl import reads.
func readRows(name string) ([]results.Row, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var ours struct {
		FormatVersion string        `json:"format_version"`
		Rows          []results.Row `json:"rows"`
	}
	if json.Unmarshal(text, &ours) == nil && ours.FormatVersion != "" {
		return ours.Rows, nil
	}
	read, _, err := readResults(name)
	if err != nil {
		return nil, &exit{exitUsage, fmt.Errorf("%s: %w", name, err)}
	}
	var rows []results.Row
	for _, r := range read {
		rows = append(rows, results.Row{Cell: r.cell, Deployment: r.deployment, Run: results.Run{Command: "import"}})
	}
	return rows, nil
}
