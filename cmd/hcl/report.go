package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/load"
	"hclbench/report"
	"hclbench/results"
)

// rows are the newest measurements of everything that is stored, or all of a run.
func (a *app) rows(c *cobra.Command, args []string, s selection) (*results.Store, []results.Row, error) {
	v := &shown{}
	var err error
	if v.store, err = a.existing(c, args); err != nil {
		return nil, nil, err
	}
	if err := a.read(c.Context(), v, args, s); err != nil {
		return nil, nil, errors.Join(err, v.store.Close())
	}
	return v.store, v.rows, nil
}

func (a *app) report() *cobra.Command {
	var which selection
	var lab labFlags
	var out reportFlags
	c := &cobra.Command{
		Use:   "report [LAB]",
		Short: "Show what was measured: a table, a page, charts",
		Long: `Prints the newest measurement of each cell that the lab asks for now, under the names
that it has now, or all of one run, and below it what the lab's reference blocks say
was published, with the difference in percent. What was measured and is no longer in
the lab is shown with --all, as stale.

--html writes one page with everything in it: charts, the table to sort and to
filter, published figures, time and money, verdicts, the environment. It opens
from disk and asks the network for nothing. --svg and --png write each chart as a
file, with its data beside it.`,
		Example: `  hcl report lab/
  hcl report lab/ --html report.html
  hcl report --run 20261121-14 --json
  hcl report lab/ --columns output_throughput,p99_ttft_ms --wide
  hcl report lab/ --benchmark online --svg charts/ --png charts/
  hcl report lab/ --csv > cells.csv
  hcl report examples/quickstart --rehearsed --markdown

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			v, err := a.shown(c, lab, args, which)
			var published []report.Reference
			if v != nil {
				published = v.published(which.benchmark)
			}
			switch {
			case err == nil:
				defer v.store.Close()
			case errors.Is(err, errNothingStored) && len(published) > 0:
				a.logger().Info("nothing is measured yet; this is what was published")
			default:
				return err
			}
			rows, about, err := a.about(c.Context(), v, published)
			if err != nil {
				return err
			}
			if out.title != "" {
				about.Title = out.title
			}
			return a.writeReport(rows, about, out)
		},
	}
	which.add(a, c)
	which.addAll(c)
	lab.add(c)
	out.add(c)
	return c
}

// reportFlags say in which forms a report is written.
type reportFlags struct {
	html, svg, png, title   string
	asJSON, asCSV, markdown bool
	table                   tableFlags
}

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
			return usage("--columns: there is no metric %q; there are %s, and percentiles such as p99_ttft_ms", name, strings.Join(report.MetricNames(), ", "))
		}
	}
	return nil
}

// options are those of a table with the columns of a layout, unless others are said.
func (f *tableFlags) options(a *app, columns []string) report.Options {
	opt := report.Options{Width: a.width(120), Columns: columns}
	if f.wide {
		opt.Width = 0
	}
	if f.columns != nil {
		opt.Columns = f.columns
	}
	return opt
}

func (f *reportFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.html, "html", "", "write a page to this `file`")
	c.Flags().StringVar(&f.svg, "svg", "", "write every chart as SVG into this `folder`")
	c.Flags().StringVar(&f.png, "png", "", "write every chart as PNG into this `folder`")
	c.Flags().StringVar(&f.title, "title", "", "the page's title; else the lab's")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print exact numbers as JSON")
	c.Flags().BoolVar(&f.asCSV, "csv", false, "print exact numbers as comma-separated values")
	c.Flags().BoolVar(&f.markdown, "markdown", false, "print the table as Markdown")
	f.table.add(c)
}

func (f *reportFlags) check() error {
	n := 0
	for _, on := range []bool{f.asJSON, f.asCSV, f.markdown} {
		if on {
			n++
		}
	}
	if n > 1 {
		return usage("--json, --csv and --markdown all print: take one of them")
	}
	return f.table.check()
}

// writeReport writes the files that are asked for, and prints: the table, unless
// there is something else.
func (a *app) writeReport(rows []results.Row, about report.About, f reportFlags) error {
	written := false
	about.Layout.Columns = f.table.options(a, about.Layout.Columns).Columns
	if f.html != "" {
		if err := a.write(f.html, func(w io.Writer) error { return report.HTML(w, rows, about) }); err != nil {
			return err
		}
		written = true
	}
	for _, folder := range []struct {
		dir   string
		write func(string, []results.Row, report.About) ([]string, error)
	}{{f.svg, report.SVG}, {f.png, report.PNG}} {
		if folder.dir == "" {
			continue
		}
		names, err := folder.write(folder.dir, rows, about)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "Written to %s: %s\n", folder.dir, plural(len(names), "file"))
		written = true
	}
	switch {
	case f.asJSON:
		return report.JSON(a.stdout, rows, about)
	case f.asCSV:
		return report.CSV(a.stdout, rows)
	case f.markdown:
		return report.Markdown(a.stdout, rows, about)
	case written:
		return nil
	}
	return a.printTables(rows, about, f.table)
}

// printTables prints the table, below it what hosts with a price were held for, and
// the published figures: of the cells that were measured, or all when none was.
func (a *app) printTables(rows []results.Row, about report.About, f tableFlags) error {
	opt := f.options(a, about.Layout.Columns)
	references := about.References
	if len(rows) > 0 || len(references) == 0 {
		if err := report.Table(a.stdout, rows, opt); err != nil {
			return err
		}
	}
	for i, s := range about.Spending {
		if s.Price > 0 {
			if i == 0 {
				fmt.Fprintln(a.stdout)
			}
			fmt.Fprintln(a.stdout, s)
		}
	}
	measured, rest := report.Measured(references)
	if len(measured) > 0 {
		references = measured
	}
	if len(references) == 0 || len(rows) > 0 && len(measured) == 0 {
		return nil
	}
	if len(rows) > 0 {
		fmt.Fprintln(a.stdout)
	}
	if err := report.References(a.stdout, references, opt); err != nil {
		return err
	}
	if len(measured) > 0 && rest > 0 {
		_, err := fmt.Fprintf(a.stdout, "Published, but not measured here: %s\n", plural(rest, "row"))
		return err
	}
	return nil
}

// labOf is what is planned of the lab whose results are reported, or nil: a report
// needs no lab, only what was published and what was planned is in its text.
func (a *app) labOf(ctx context.Context, f labFlags, args []string) (*hcl.Config, error) {
	l, err := a.readLab(f, args)
	if errors.Is(err, hcl.ErrNoLab) {
		return nil, nil // a folder with results alone
	}
	if err != nil {
		return nil, err
	}
	if l.text == nil {
		a.logger().Warn("the lab's text has mistakes or lacks variables, so that what it plans and what was published is left out, and stale results stand beside the others; hcl validate shows them")
		return nil, nil
	}
	return l.planned(ctx)
}

// published are the published figures of what is shown.
func (v *shown) published(benchmark string) []report.Reference {
	if v.kept != nil {
		return v.kept.published(benchmark)
	}
	return references(v.cfg, benchmark)
}

// references are the published figures of a lab.
func references(cfg *hcl.Config, benchmark string) []report.Reference {
	if cfg == nil {
		return nil
	}
	var out []report.Reference
	for _, b := range cfg.Benchmarks {
		if benchmark != "" && b.Name != benchmark {
			continue
		}
		for _, r := range b.References {
			out = append(out, report.Reference{Benchmark: b.Name, Name: r.Name, Source: r.Source, Rows: r.Rows})
		}
	}
	return out
}

// layout is what the lab's report block says.
func layout(cfg *hcl.Config) report.Layout {
	r := &cfg.Report
	l := report.Layout{
		Title: r.Title, Description: r.Description, Notes: r.Notes,
		Series: r.Series, Columns: r.Columns, Automatic: r.Automatic,
		NoReferences: !r.References, NoPrices: !r.Prices,
	}
	for _, c := range r.Charts {
		l.Charts = append(l.Charts, report.Chart(c))
	}
	return l
}

// wholeRuns are all cells of the runs that rows are from. They are read again
// only where some are not among the rows.
func wholeRuns(ctx context.Context, store *results.Store, rows []results.Row) ([]results.Row, error) {
	counts, err := store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var order []string
	of := map[string][]results.Row{}
	for _, r := range rows {
		if of[r.RunID] == nil {
			order = append(order, r.RunID)
		}
		of[r.RunID] = append(of[r.RunID], r)
	}
	var whole []results.Row
	for _, id := range order {
		n := counts[id]
		if here := of[id]; len(here) == n.Cells() {
			whole = append(whole, here...)
			continue
		}
		all, err := store.Rows(ctx, results.Query{Run: id})
		if err != nil {
			return nil, err
		}
		whole = append(whole, all...)
	}
	return whole, nil
}

func (a *app) export() *cobra.Command {
	var which selection
	var lab labFlags
	var format, output string
	var detailed bool
	c := &cobra.Command{
		Use:   "export [LAB]",
		Short: "Write results in another tool's format",
		Long: `Writes the newest measurement of each cell that the lab asks for now, or all of one
run, in a format that other tools read:

` + formatsHelp + `

--detailed adds the figures of every request to vllm and sglang, as
--save-detailed and --output-details do.`,
		Example: `  hcl export --format vllm --cell 3f9ac2 --output cell.json
  hcl export lab/ --format sglang --detailed --output results.jsonl
  hcl export lab/ --format records --benchmark online

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkFormat(format, formats()); err != nil {
				return err
			}
			if detailed && format != "vllm" && format != "sglang" {
				return usage("--detailed goes with --format vllm or sglang; --format records has every request of itself")
			}
			v, err := a.shown(c, lab, args, which)
			if err != nil {
				return err
			}
			defer v.store.Close()
			rows := slices.DeleteFunc(v.rows, func(r results.Row) bool { return r.Summary == nil })
			if len(rows) == 0 {
				return fmt.Errorf("no measured cell is selected")
			}
			return a.write(output, func(w io.Writer) error {
				return writeRows(w, rows, format, detailed, func(r results.Row) ([]load.Record, error) {
					return v.store.Records(c.Context(), r.RunID, r.ID)
				})
			})
		},
	}
	which.add(a, c)
	which.addAll(c)
	lab.add(c)
	c.Flags().StringVar(&format, "format", "vllm", "json, vllm, vllm-text, sglang, sglang-text or records")
	words(c, "format", formats()...)
	c.Flags().BoolVar(&detailed, "detailed", false, "with the figures of every request, for vllm and sglang")
	c.Flags().StringVar(&output, "output", "", "write there instead of to the terminal")
	return c
}
