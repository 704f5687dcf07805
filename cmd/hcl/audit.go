package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/load"
	"hclbench/report"
	"hclbench/results"
)

func (a *app) audit() *cobra.Command {
	var which selection
	var asJSON bool
	c := &cobra.Command{
		Use:   "audit [LAB | FILE...]",
		Short: "Find results that cannot be true",
		Long: `Holds the figures of every result against each other, and names those that cannot
be true together: Little's law (throughput times latency is the mean number of
requests in flight), counts against duration and throughput, TTFT and TPOT
against E2EL, ITL against TPOT, percentiles out of order. It looks at what is
stored, imported results among them, or at files as hcl import reads them. Of what
is stored it also reads every request, and names the results that are not in the
store any more as they were put there.`,
		Example: `  hcl audit lab/
  hcl audit published/online.csv vllm.json
  hcl audit --run 20261121-142501-k3f9 --json

Exit codes: 0 nothing was found, 1 failed, 2 the command line is wrong or a file
cannot be understood, 3 some results cannot be true.`,
		RunE: func(c *cobra.Command, args []string) error {
			store, rows, err := a.audited(c, args, which)
			if err != nil {
				return err
			}
			if store != nil {
				defer store.Close()
			}
			type finding struct {
				Cell      string       `json:"cell,omitempty"`
				Run       string       `json:"run,omitempty"`
				Benchmark string       `json:"benchmark"`
				Engine    string       `json:"engine"`
				GPUs      string       `json:"gpus,omitempty"`
				Axes      results.Axes `json:"axes"`
				Wrong     []string     `json:"wrong"`
			}
			found := []finding{}
			for _, r := range rows {
				wrong, err := wrongIn(c.Context(), store, r)
				if err != nil {
					return err
				}
				if len(wrong) > 0 {
					found = append(found, finding{r.ID, r.RunID, r.Benchmark, r.Deployment.Engine, r.Deployment.GPUs, r.Axes, wrong})
				}
			}
			if asJSON {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				enc.SetEscapeHTML(false)
				if err := enc.Encode(map[string]any{"format_version": report.FormatVersion, "checked": len(rows), "found": found}); err != nil {
					return err
				}
			} else {
				for _, x := range found {
					fmt.Fprintln(a.stdout, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s: %s", x.Cell, x.Engine, x.GPUs, x.Benchmark, axes(x.Axes))), " "))
					for _, w := range x.Wrong {
						fmt.Fprintln(a.stdout, "  -", w)
					}
				}
				fmt.Fprintf(a.stdout, "%s looked at; %d cannot be true.\n", plural(len(rows), "result"), len(found))
			}
			if len(found) > 0 {
				return &exit{code: exitCells}
			}
			return nil
		},
	}
	which.add(a, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print what was found as JSON")
	return c
}

// wrongIn is what is wrong with a result: what cannot be true, and what of it is
// damaged in the store; nil: it is of a file.
func wrongIn(ctx context.Context, store *results.Store, r results.Row) (wrong []string, err error) {
	if r.Damaged != "" {
		return []string{r.Damaged}, nil
	}
	if r.Summary != nil {
		wrong = load.Verdict{Reasons: r.Summary.Contradictions(r.Job.Workload.Concurrency)}.Texts()
	}
	if store != nil {
		if err := store.CheckRecords(ctx, r.RunID, r.ID); errors.Is(err, results.ErrDamaged) {
			wrong = append(wrong, err.Error())
		} else if err != nil {
			return nil, err
		}
	}
	return wrong, nil
}

// audited are the results that are to be looked at: of the files, without a store, or
// of a store.
func (a *app) audited(c *cobra.Command, args []string, which selection) (*results.Store, []results.Row, error) {
	files := len(args) > 0
	for _, name := range args {
		info, err := os.Stat(name)
		files = files && err == nil && info.Mode().IsRegular() && !strings.HasSuffix(name, ".hcl")
	}
	if !files {
		if err := atMost(1)(c, args); err != nil {
			return nil, nil, err
		}
		return a.rows(c, args, which)
	}
	var rows []results.Row
	for _, name := range args {
		read, _, err := readResults(name)
		if err != nil {
			return nil, nil, &exit{exitUsage, fmt.Errorf("%s: %w", name, err)}
		}
		for _, r := range read {
			rows = append(rows, results.Row{Cell: r.cell, Deployment: r.deployment})
		}
	}
	return nil, rows, nil
}
