package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/report"
	"hclbench/results"
)

// selection is which results a verb is about.
type selection struct {
	run, cell, benchmark string
	rehearsed            bool
}

func (s *selection) add(a *app, c *cobra.Command) {
	c.Flags().StringVar(&s.run, "run", "", "only what this run measured")
	c.Flags().StringVar(&s.cell, "cell", "", "only the cell whose `id` begins so")
	c.Flags().StringVar(&s.benchmark, "benchmark", "", "only this benchmark")
	c.Flags().BoolVar(&s.rehearsed, "rehearsed", false, "what was rehearsed instead of what was measured")
	a.complete(c, "benchmark", func(cfg *hcl.Config) []string { return benchmarkNames(cfg, "") })
}

// rows reads them: of each cell the newest, unless a run is named.
func (a *app) rows(c *cobra.Command, args []string, s selection) (*results.Store, []results.Row, error) {
	dir := labDir(args)
	store, err := openExisting(c.Context(), dir)
	if err != nil {
		return nil, nil, err
	}
	if store == nil {
		return nil, nil, &exit{exitFailed, fmt.Errorf("nothing is stored for the lab in %s yet; `hcl apply` measures it", dir)}
	}
	rows, err := store.Rows(c.Context(), results.Query{
		Run: s.run, Cell: s.cell, Benchmark: s.benchmark, Rehearsed: s.rehearsed, Latest: s.run == "",
	})
	return store, rows, err
}

func (a *app) report() *cobra.Command {
	var which selection
	var asJSON bool
	c := &cobra.Command{
		Use:   "report [LAB]",
		Short: "Show what was measured",
		Long:  `Prints the newest measurement of each cell, or all of one run.`,
		Example: `  hcl report lab/
  hcl report --run 20261121-142501-k3f9 --json
  hcl report examples/quickstart --rehearsed

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			store, rows, err := a.rows(c, args, which)
			if err != nil {
				return err
			}
			defer store.Close()
			if asJSON {
				return report.JSON(a.stdout, rows)
			}
			return report.Table(a.stdout, rows, report.Options{Width: a.width(120)})
		},
	}
	which.add(a, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print exact numbers as JSON")
	return c
}

func (a *app) export() *cobra.Command {
	var which selection
	var format, output string
	var detailed bool
	formats := []string{"vllm", "vllm-text"}
	c := &cobra.Command{
		Use:   "export [LAB]",
		Short: "Write results in another tool's format",
		Long: `Writes results as vllm bench serve does: its --save-result JSON, one object a
line, or its text block. --detailed adds the figures of every request.`,
		Example: `  hcl export --format vllm --cell 3f9ac2 --output cell.json
  hcl export lab/ --format vllm-text

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(formats, format) {
				return usage("--format %s: it is vllm or vllm-text", format)
			}
			store, rows, err := a.rows(c, args, which)
			if err != nil {
				return err
			}
			defer store.Close()
			rows = slices.DeleteFunc(rows, func(r results.Row) bool { return r.Summary == nil })
			if len(rows) == 0 {
				return fmt.Errorf("no measured cell is selected")
			}
			return a.write(output, func(w io.Writer) error {
				for _, r := range rows {
					if !detailed || format != "vllm" {
						if err := formatRow(w, r, format); err != nil {
							return err
						}
						continue
					}
					records, err := store.Records(c.Context(), r.RunID, r.ID)
					if err != nil {
						return err
					}
					b, err := results.VLLMDetailedJSON(r, records)
					if err != nil {
						return err
					}
					if _, err := fmt.Fprintln(w, string(b)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	which.add(a, c)
	c.Flags().StringVar(&format, "format", "vllm", "vllm or vllm-text")
	c.Flags().BoolVar(&detailed, "detailed", false, "with the figures of every request, as --save-detailed")
	c.Flags().StringVar(&output, "output", "", "write there instead of to the terminal")
	return c
}
