package main

import (
	"context"

	"github.com/spf13/cobra"

	"hclbench/report"
)

type resultsOptions struct {
	which  selection
	table  tableFlags
	format string
}

func resultsVerb(t *console) *cobra.Command {
	var o resultsOptions
	c := labVerb("results", &o.which.lab, func(ctx context.Context) error { return runResults(ctx, t, o) })
	o.which.add(t, c)
	o.which.addAll(c)
	o.table.add(c)
	c.Flags().StringVar(&o.format, "format", "table", oneOf(tableFormats()))
	words(c, "format", tableFormats()...)
	return c
}

func tableFormats() []string { return []string{"table", "markdown", "json", "csv"} }

func runResults(ctx context.Context, t *console, o resultsOptions) error {
	if err := checkFormat(o.format, tableFormats()); err != nil {
		return err
	}
	if err := o.table.check(); err != nil {
		return err
	}
	v, err := o.which.shown(ctx, t)
	if err != nil {
		return err
	}
	defer v.store.Close()
	rows, about, err := v.about(ctx, nil)
	if err != nil {
		return err
	}
	opt := o.table.options(t, about.Layout.Columns)
	switch o.format {
	case "json":
		return report.JSON(t.stdout, rows, report.About{Version: version})
	case "csv":
		return report.CSV(t.stdout, rows)
	case "markdown":
		return report.Markdown(t.stdout, rows, report.About{Layout: report.Layout{Columns: opt.Columns}})
	}
	return report.Table(t.stdout, rows, opt)
}
