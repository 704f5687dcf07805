package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/plain"
	"hclbench/report"
	"hclbench/results"
)

// tableFlags say what a table shows.
type tableFlags struct {
	wide    bool
	columns []string
}

func (f *tableFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.wide, "wide", false, "leave no column out to fit the terminal")
	c.Flags().StringSliceVar(&f.columns, "columns", nil, "show these `metrics`, named as in --csv; else the lab's, or those that matter most")
}

func (f *tableFlags) check() error {
	for _, name := range f.columns {
		if !report.IsMetric(name) {
			return usage("--columns: there is no metric %q; there are %s, and percentiles such as p99_ttft_ms",
				name, strings.Join(report.MetricNames(), ", "))
		}
	}
	return nil
}

// options are those of a table with the columns of a layout, unless others are said.
func (f *tableFlags) options(t *console, columns []string) report.Options {
	opt := report.Options{Width: t.width(120), Columns: columns}
	if f.wide {
		opt.Width = 0
	}
	if f.columns != nil {
		opt.Columns = f.columns
	}
	return opt
}

// printTables prints the table, below it what hosts with a price were held for, and
// the published figures: of the cells that were measured, or all when none was.
func printTables(t *console, rows []results.Row, about report.About, f tableFlags) error {
	opt := f.options(t, about.Layout.Columns)
	if len(rows) > 0 || len(about.References) == 0 {
		if err := report.Table(t.stdout, rows, opt); err != nil {
			return err
		}
	}
	for i, s := range about.Spending {
		if s.Price > 0 {
			if i == 0 {
				fmt.Fprintln(t.stdout)
			}
			fmt.Fprintln(t.stdout, s)
		}
	}
	return printReferences(t.stdout, about.References, opt, len(rows) > 0)
}

func printReferences(w io.Writer, references []report.Compared, opt report.Options, below bool) error {
	measured, rest := report.Measured(references)
	if len(measured) > 0 {
		references = measured
	}
	if len(references) == 0 || below && len(measured) == 0 {
		return nil
	}
	if below {
		fmt.Fprintln(w)
	}
	err := report.References(w, references, opt)
	if err == nil && len(measured) > 0 && rest > 0 {
		_, err = fmt.Fprintf(w, "Published, but not measured here: %s\n", plain.Count(rest, "row"))
	}
	return err
}
