package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/accuracy"
	"hclbench/hcl/lang"
	"hclbench/plain"
	"hclbench/report/compare"
	"hclbench/report/figure"
	"hclbench/report/page"
	"hclbench/report/table"
	"hclbench/results"
	"hclbench/results/door"
)

type compareOptions struct {
	lab     labFlags
	metrics []string
	failIf  []string
	allowed []string
	format  string
	junit   string
	html    string
	title   string
}

func compareVerb(t *console) *cobra.Command {
	var o compareOptions
	c := verb("compare", between(2, 2, "name two sets of results: runs, labs or files"),
		func(ctx context.Context, args []string) error { return runCompare(ctx, t, o, [2]string(args)) })
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return runNames(t, c, nil, begun), cobra.ShellCompDirectiveKeepOrder // files and labs too
	}
	o.lab.addPath(c, ", to which runs belong")
	o.lab.addStore(c)
	o.lab.addVars(c)
	f := c.Flags()
	f.StringArrayVar(&o.metrics, "metric", compare.DefaultMetrics(),
		"compare this `metric`, named as in hcl report --csv; may be repeated")
	words(c, "metric", compare.DefaultMetrics()...)
	f.StringArrayVar(&o.failIf, "fail-if", nil,
		"a `limit` on a change, 'output_throughput < -5%', or on B, 'p99_ttft_ms > 500'; may be repeated")
	f.StringSliceVar(&o.allowed, "allow", nil, "what may be so in spite of a limit: "+strings.Join(allowable(), ", "))
	f.StringVar(&o.format, "format", "text", plain.List(diffFormats(), "or"))
	words(c, "format", diffFormats()...)
	f.StringVar(&o.html, "html", "", "also write a page to this `file`: of every cell A beside B")
	f.StringVar(&o.title, "title", "", "the page's title; else the lab's name")
	f.StringVar(&o.junit, "junit", "", "write every limit of every cell as a test to this `file`")
	refuses(c, noUse{flag: "allow", other: "fail-if"}, noUse{flag: "junit", other: "fail-if"}, noUse{flag: "title", other: "html"})
	return c
}

func diffFormats() []string { return []string{"text", "markdown", "json", "benchstat"} }

// allowable is what a gate can be told not to mind.
func allowable() []string { return append(compare.Differing(), compare.Suspects) }

const nothingInCommon = "the two have no cell in common: cells are the same when their benchmark and all their axes are"

// compared are results that are held against others.
type compared struct {
	name   string
	rows   []results.Row
	found  []results.Capacity // by searches
	scores []results.Scored   // of answers
}

func runCompare(ctx context.Context, t *console, o compareOptions, sets [2]string) error {
	limits, err := o.check()
	if err != nil {
		return err
	}
	var of [2]compared
	for i, what := range sets {
		if of[i], err = o.results(ctx, t, what); err != nil {
			return err
		}
	}
	a, b := of[0], of[1]
	d, err := compare.Diff(a.name, a.rows, b.name, b.rows, o.compared(limits))
	if err != nil {
		return &exit{exitUsage, err}
	}
	d.Capacities(a.found, b.found)
	d.Answers(a.scores, b.scores)
	if err := d.Check(limits, o.allowed); err != nil {
		return &exit{exitUsage, fmt.Errorf("--fail-if: %w", err)}
	}
	if len(d.Cells) == 0 && len(d.Searches) == 0 && limits == nil {
		return errors.New(nothingInCommon)
	}
	if err := d.Write(t.stdout, o.format, t.width(0)); err != nil {
		return err
	}
	html := func(w io.Writer) error { return page.Comparison(w, d, figure.About{Title: o.title, Version: version}) }
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{o.html, html}, {o.junit, d.JUnit}} {
		if file.name == "" {
			continue
		}
		if err := t.write(file.name, file.write); err != nil {
			return err
		}
	}
	return brokenLimits(d.Failing())
}

// check reads the limits, and refuses flags that cannot be.
func (o compareOptions) check() (limits []compare.GateLimit, err error) {
	if err := checkWord("format", o.format, diffFormats()); err != nil {
		return nil, err
	}
	for _, text := range o.failIf {
		l, err := compare.ParseLimit(text)
		if err != nil {
			return nil, usage("--fail-if: %w", err)
		}
		limits = append(limits, l)
	}
	for _, what := range o.allowed {
		if !slices.Contains(allowable(), what) {
			return nil, usage("--allow %s: it is %s", what, strings.Join(allowable(), ", "))
		}
	}
	return limits, nil
}

// compared are the metrics that are compared: those that are asked for and those with a limit.
func (o compareOptions) compared(limits []compare.GateLimit) []string {
	metrics := slices.Clone(o.metrics)
	for _, l := range limits {
		if l.Metric != "" && l.Metric != compare.Capacity && !slices.Contains(metrics, l.Metric) {
			metrics = append(metrics, l.Metric)
		}
	}
	return metrics
}

// brokenLimits is the error of a gate that does not open; nil: it does.
func brokenLimits(failing []compare.Check) error {
	if len(failing) == 0 {
		return nil
	}
	const most = 20 // are named
	lines := []string{plain.Count(len(failing), "limit") + " not kept:"}
	for _, c := range failing[:min(len(failing), most)] {
		lines = append(lines, c.String())
	}
	if more := len(failing) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return &exit{exitCells, errors.New(strings.Join(lines, "\n  "))}
}

// results reads a set of results: a lab's, a file's, or a run's.
func (o compareOptions) results(ctx context.Context, t *console, what string) (c compared, err error) {
	info, err := os.Stat(what)
	of := o.lab
	var store *results.Store
	switch {
	case results.IsShared(what):
		store, err = lookAt(ctx, t, what, of.dir())
	case err == nil && info.IsDir():
		of.path = what
		_, none := os.Stat(filepath.Join(storeDir(what), "results.db"))
		if !errors.Is(none, os.ErrNotExist) { // its own goes before the one that is shared
			store, err = lookAt(ctx, t, "", what)
		} else {
			store, err = of.existing(ctx, t)
		}
	case err == nil:
		return readRows(what)
	default:
		return o.ofRun(ctx, t, what)
	}
	if err == nil && store == nil {
		err = nothingIn(what)
	}
	if err != nil {
		return c, err
	}
	defer store.Close()
	if c.name = "the newest of " + what; results.IsShared(what) {
		c.name = "the newest of " + store.Name() // without the password
	}
	err = c.attempts(ctx, t, store, of)
	return c, err
}

func (o compareOptions) ofRun(ctx context.Context, t *console, id string) (c compared, err error) {
	store, err := o.lab.existing(ctx, t)
	if err != nil {
		return c, fmt.Errorf("%s is neither a file nor a lab: %w", id, err)
	}
	defer store.Close()
	run, err := runNamed(ctx, store, "", id)
	if err != nil {
		return c, fmt.Errorf("%s is neither a file nor a lab: %w", id, err)
	}
	v := shown{store: store}
	if err := v.ofRun(ctx, run); err != nil {
		return c, err
	}
	v.warn(t.logger())
	c = compared{"run " + run.ID, v.found.Check(v.rows), v.found.Capacities, v.found.Scores}
	if v.said != nil {
		owed := slices.DeleteFunc(slices.Clone(v.planned), func(p figure.Planned) bool { return !slices.Contains(v.said.ToDo, p.ID) })
		c.rows = append(c.rows, figure.Unmeasured(v.rows, owed)...)
	}
	return c, nil
}

// attempts takes the newest attempt at each cell that the lab asks for now, whatever came of it: an older
// measurement must not hide that there is none any more. Cells without an attempt are among them, as not
// measured. Without the lab's text it is the newest attempt at everything.
func (c *compared) attempts(ctx context.Context, t *console, store *results.Store, of labFlags) error {
	name, err := of.labIn(store)
	if err != nil {
		return err
	}
	rows, err := store.Rows(ctx, results.Query{Lab: name})
	if err != nil {
		return err
	}
	rows = newest(rows)
	v := &shown{store: store}
	find := func(rows []results.Row) {
		v.find(ctx, results.Query{Lab: name, Latest: true})
		v.warn(t.logger())
		c.rows, c.found, c.scores = v.found.Check(rows), v.found.Capacities, v.found.Scores
	}
	l, err := of.read(t)
	if errors.Is(err, lang.ErrNoLab) {
		find(rows)
		return nil
	}
	if err == nil && l.text == nil { // what is current cannot be said
		err = l.shown(t)
	}
	if err != nil {
		return err
	}
	if v.cfg, err = l.planned(ctx); err != nil {
		return err
	}
	join := func(own, found []results.Row) []results.Row { return newest(append(own, found...)) }
	_, err = v.underPlan(ctx, rows, name, false, join)
	find(v.rows)
	c.rows = append(c.rows, figure.Unmeasured(v.rows, v.planned)...)
	c.scores = append(c.scores, unasked(v.found.Scores, v.asked)...)
	return err
}

// unasked are the cells that ask questions and have no attempt.
func unasked(all []results.Scored, asked map[string]results.Cell) (none []results.Scored) {
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		if slices.ContainsFunc(all, func(s results.Scored) bool { return s.ID == id }) {
			continue
		}
		s := results.Scored{Row: results.Row{Cell: asked[id]}, Held: accuracy.Comparison{Verdict: accuracy.Unchecked, Why: []string{"it was not asked"}}}
		engine, _ := s.Axes.Value("engine")
		s.Deployment.Engine = fmt.Sprint(engine)
		none = append(none, s)
	}
	return none
}

// readRows reads a file: ours, or one of those that hcl import reads.
func readRows(name string) (c compared, err error) {
	in, err := os.Open(name) // which may be what another command writes: <(ssh box hcl report --json)
	if err != nil {
		return c, err
	}
	defer in.Close()
	text, err := door.File(in)
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	c.name = name
	var ours struct {
		FormatVersion string             `json:"format_version"`
		Rows          []results.Row      `json:"rows"`
		Capacities    []results.Capacity `json:"capacities"`
		Scores        []results.Scored   `json:"scores"`
	}
	if json.Unmarshal(text, &ours) == nil && ours.FormatVersion != "" {
		if read, _, _ := strings.Cut(table.FormatVersion, "."); !strings.HasPrefix(ours.FormatVersion, read+".") {
			return c, fmt.Errorf("%s: its format is %s, and results of format %s.x are read", name, plain.Quote(ours.FormatVersion), read)
		}
		for i := range ours.Capacities { // what contradicts itself is no answer
			if err := door.Capacity(&ours.Capacities[i], ours.Capacities[i].RunID); err != nil {
				return c, fmt.Errorf("%s: %w", name, err)
			}
		}
		c.rows, c.found = ours.Rows, ours.Capacities
		c.scores = slices.DeleteFunc(ours.Scores, func(s results.Scored) bool { return s.Accuracy == nil })
		return c, nil
	}
	c.rows, err = foreignRows(name)
	return c, err
}
