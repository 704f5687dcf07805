package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/load/metric"
	"hclbench/plain"
	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/page"
	"hclbench/report/say"
	"hclbench/report/table"
	"hclbench/results"
)

func reportVerb(t *console) *cobra.Command {
	var which selection
	var out reportFlags
	c := labVerb("report", &which.lab, func(ctx context.Context) error { return runReport(ctx, t, which, out) })
	which.addSelection(t, c)
	which.addAll(c)
	out.addOutput(c)
	refuses(c, noUse{flag: "rehearsed", other: "run", beside: true}, noUse{flag: "all", other: "run", beside: true}, noUse{flag: "title", other: "html"})
	return c
}

func runReport(ctx context.Context, t *console, which selection, out reportFlags) error {
	if err := out.check(); err != nil {
		return err
	}
	v, err := which.shown(ctx, t)
	var published []figure.Reference
	if v != nil {
		published = v.said.published(which.benchmark)
	}
	switch {
	case err == nil:
		defer v.store.Close()
	case errors.Is(err, errNothingStored) && len(published) > 0:
		t.logger().Info("nothing is measured yet; this is what was published")
		if err := v.unmeasured(ctx, which.benchmark); err != nil {
			return err
		}
	default:
		return err
	}
	rows, about, err := v.about(ctx, published)
	if err != nil {
		return err
	}
	about.Title = cmp.Or(out.title, about.Title)
	return writeReport(t, rows, about, out)
}

type reportFlags struct {
	html, svg, png, title   string
	asJSON, asCSV, markdown bool
	table                   tableFlags
}

func (f *reportFlags) addOutput(c *cobra.Command) {
	c.Flags().StringVar(&f.html, "html", "", "write a page to this `file`")
	c.Flags().StringVar(&f.svg, "svg", "", "write every chart as SVG into this `folder`")
	c.Flags().StringVar(&f.png, "png", "", "write every chart as PNG into this `folder`")
	c.Flags().StringVar(&f.title, "title", "", "the page's title; else the lab's")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print exact numbers as JSON")
	c.Flags().BoolVar(&f.asCSV, "csv", false, "print exact numbers as comma-separated values")
	c.Flags().BoolVar(&f.markdown, "markdown", false, "print the table as Markdown")
	f.table.addTable(c)
}

func (f *reportFlags) check() error {
	if f.asJSON && f.asCSV || f.markdown && (f.asJSON || f.asCSV) {
		return usage("--json, --csv and --markdown all print: take one of them")
	}
	return f.table.check()
}

// writeReport writes the files that are asked for, and prints: the table, unless there is something else.
func writeReport(t *console, rows []results.Row, about figure.About, f reportFlags) error {
	written := false
	about.Layout = f.table.options(t, about.Layout).Layout
	if f.html != "" {
		if err := t.write(f.html, func(w io.Writer) error { return page.HTML(w, rows, about) }); err != nil {
			return err
		}
		written = true
	}
	for _, folder := range []struct {
		dir   string
		write func(string, []results.Row, figure.About) (draw.Pictures, error)
	}{{f.svg, draw.SVG}, {f.png, draw.PNG}} {
		if folder.dir == "" {
			continue
		}
		made, err := folder.write(folder.dir, rows, about)
		if err != nil {
			return err
		}
		fmt.Fprintf(t.stderr, "Written to %s: %s\n", folder.dir, plain.Count(len(made.Names), "file"))
		if made.Boxes != "" {
			fmt.Fprintf(t.stderr, "PNG has no letters for %s and shows boxes; --svg shows them in the reader's fonts\n",
				plain.Cut(plain.Line(made.Boxes), 60))
		}
		written = true
	}
	switch {
	case f.asJSON:
		return table.JSON(t.stdout, rows, about)
	case f.asCSV:
		return table.CSV(t.stdout, rows, about)
	case f.markdown:
		return table.Markdown(t.stdout, rows, about)
	case written:
		return nil
	}
	return printTables(t, rows, about, f.table)
}

type tableFlags struct {
	wide, intervals bool
	columns         []string
}

func (f *tableFlags) addTable(c *cobra.Command) {
	c.Flags().BoolVar(&f.wide, "wide", false, "leave no column out to fit the terminal")
	c.Flags().BoolVar(&f.intervals, "intervals", false,
		"put beside each figure where the truth lies in 95 of 100 runs, as far as its run tells")
	c.Flags().StringSliceVar(&f.columns, "columns", nil,
		"show these `metrics`, named as in --csv; else the lab's, or those that matter most")
}

func (f *tableFlags) check() error {
	for _, name := range f.columns {
		if _, ok := metric.Named(name); !ok {
			return usage("--columns: %s", figure.NoMetric(name))
		}
	}
	return nil
}

// options are those of a table of this layout, with other columns if they are said.
func (f *tableFlags) options(t *console, layout figure.Layout) table.Options {
	opt := table.Options{Width: t.width(120), Layout: layout, Colour: coloured(t.stdout)}
	if f.wide {
		opt.Width = 0
	}
	if f.columns != nil {
		opt.Layout.Columns = f.columns
	}
	opt.Layout.Intervals = f.intervals
	return opt
}

// printTables prints the table, below it what hosts with a price were held for, and
// the published figures: of the cells that were measured, or all, and what they say, when none was.
func printTables(t *console, rows []results.Row, about figure.About, f tableFlags) error {
	opt := f.options(t, about.Layout)
	opt.Found = about.Found
	if len(rows)+len(about.Scores) > 0 || len(about.References) == 0 {
		if err := table.Table(t.stdout, rows, opt); err != nil {
			return err
		}
	}
	paid := figure.Paid(about.Spending)
	if len(paid) > 0 {
		fmt.Fprintln(t.stdout)
	}
	if err := printSpending(t.stdout, paid); err != nil {
		return err
	}
	if err := printReferences(t.stdout, about.References, opt, len(rows) > 0); err != nil || len(rows) > 0 {
		return err
	}
	for _, text := range say.PublishedFindings(about) {
		fmt.Fprintln(t.stdout, strings.Join(plain.Wrap(plain.Words(text), " ", opt.Width), "\n"))
	}
	return nil
}

// printSpending prints what runs had of hosts, a line for each.
func printSpending(w io.Writer, all []figure.Spending) error {
	for _, s := range all {
		if _, err := fmt.Fprintln(w, say.Spent(s)); err != nil {
			return err
		}
	}
	return nil
}

func printReferences(w io.Writer, references []figure.Compared, opt table.Options, below bool) error {
	measured, rest := figure.Measured(references)
	if len(measured) > 0 {
		references = measured
	}
	if len(references) == 0 || below && len(measured) == 0 {
		return nil
	}
	if below {
		fmt.Fprintln(w)
	}
	err := table.References(w, references, opt)
	if err == nil && len(measured) > 0 && rest > 0 {
		_, err = fmt.Fprintf(w, "Published, but not measured here: %s\n", plain.Count(rest, "row"))
	}
	return err
}

type resultsOptions struct {
	which  selection
	table  tableFlags
	format string
}

func resultsVerb(t *console) *cobra.Command {
	var o resultsOptions
	c := labVerb("results", &o.which.lab, func(ctx context.Context) error { return runResults(ctx, t, o) })
	o.which.addSelection(t, c)
	o.which.addAll(c)
	o.table.addTable(c)
	c.Flags().StringVar(&o.format, "format", "table", plain.List(tableFormats(), "or"))
	words(c, "format", tableFormats()...)
	return c
}

func tableFormats() []string { return []string{"table", "markdown", "json", "csv"} }

func runResults(ctx context.Context, t *console, o resultsOptions) error {
	if err := checkWord("format", o.format, tableFormats()); err != nil {
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
	about = figure.About{Version: version, Found: about.Found, Layout: figure.Layout{Columns: about.Layout.Columns, Intervals: about.Layout.Intervals}}
	as := reportFlags{asJSON: o.format == "json", asCSV: o.format == "csv", markdown: o.format == "markdown", table: o.table}
	return writeReport(t, rows, about, as)
}

type showOptions struct {
	lab       labFlags
	run       string
	rehearsed bool
	json      bool
}

const nameOneCell = "name one cell by the beginning of its id, as hcl report --json and hcl plan --json print it"

func showVerb(t *console) *cobra.Command {
	var o showOptions
	c := verb("show", between(1, 1, nameOneCell), func(ctx context.Context, args []string) error { return runShow(ctx, t, o, args[0]) })
	o.lab.addPath(c, "")
	o.lab.addStore(c)
	o.lab.addVars(c)
	c.Flags().StringVar(&o.run, "run", "", "as the run whose `id` begins so measured it")
	completes(c, "run", runIDs(t))
	c.Flags().BoolVar(&o.rehearsed, "rehearsed", false, "as it was rehearsed instead of measured")
	refuses(c, noUse{flag: "rehearsed", other: "run", beside: true})
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
	var asks map[string]results.Cell
	if o.run == "" {
		if row, asks, err = asPlanned(ctx, t, store, o.lab, row); err != nil {
			return err
		}
	}
	of := results.Query{Run: o.run, Lab: row.Run.Lab, Rehearsed: row.Run.Command == "rehearse", Latest: o.run == ""}
	var found figure.Found
	if found.Capacities, err = store.Capacities(ctx, of); err != nil {
		t.logger().Warn("left out what a search has found", "err", err)
	}
	of.Cell = row.ID
	if found.Scores, err = store.Scored(ctx, of, asks); err != nil {
		t.logger().Warn("left out what its answers are worth", "err", err)
	}
	if o.json {
		return table.JSON(t.stdout, []results.Row{row}, figure.About{Version: version, Found: found})
	}
	events, err := store.Events(ctx, row.RunID)
	if err != nil {
		return err
	}
	events = slices.DeleteFunc(events, func(e results.Event) bool { return e.Cell != row.ID && (e.Cell != "" || e.Engine != engine) })
	return table.Cell(t.stdout, row, found, events, t.width(0))
}

func oneCell(ctx context.Context, store *results.Store, q results.Query) (results.Row, error) {
	rows, err := store.Rows(ctx, q)
	if err == nil {
		var asked []results.Row
		q.Asked = true
		asked, err = store.Rows(ctx, q)
		rows = append(rows, asked...)
	}
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

// asPlanned is a result with what the lab says of its cell now: its names, its SLO, whether it asks for it at all. asks are the cells that the
// lab asks questions with, where the result is of one; else nil.
func asPlanned(ctx context.Context, t *console, store *results.Store, of labFlags, r results.Row) (_ results.Row, asks map[string]results.Cell, err error) {
	cfg, err := of.planned(ctx, t)
	if err != nil || cfg == nil || r.Run.Lab != cfg.Lab.Name {
		return r, nil, err
	}
	v := &shown{store: store, cfg: cfg}
	others, err := v.underPlan(ctx, []results.Row{r}, "", r.Run.Command == "rehearse", nil)
	if err != nil {
		return r, nil, err
	}
	if is, asked := v.asked[r.ID]; asked {
		r.Benchmark, r.Axes = is.Benchmark, is.Axes
		return r, v.asked, nil
	}
	return slices.Concat(v.rows, others)[0], nil, nil // under the first of its names
}
