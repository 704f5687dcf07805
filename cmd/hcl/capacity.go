package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/load/measure"
	"hclbench/load/wire"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/report/table"
	"hclbench/results"
)

// capacityFlags are what the command line asks of the load that a server holds.
type capacityFlags struct {
	of, within, budget    string
	confidence, precision float64
}

func (f *capacityFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.of, "capacity", "", "find how much of it the server holds under --slo: `concurrency` or rate")
	words(c, "capacity", capacity.Concurrency, capacity.Rate)
	flags.StringVar(&f.within, "within", "1-1024", "with --capacity: the `range` of loads, LEAST-MOST")
	flags.Float64Var(&f.confidence, "confidence", 0.95, "with --capacity: of the whole answer")
	flags.Float64Var(&f.precision, "precision", 0.05, "with --capacity: how near its two bounds come, as a part of the lower")
	flags.StringVar(&f.budget, "budget", "1h", "with --capacity: the most `time` or requests that it takes, 1h or 20000")
	var rules []noUse
	for _, flag := range []string{"within", "confidence", "precision", "budget"} {
		rules = append(rules, noUse{flag: flag, other: "capacity"})
	}
	others := []string{"repeat"}
	for _, a := range load.Arguments() {
		if a.Searched {
			others = append(others, a.FlagName())
		}
	}
	for _, flag := range others {
		rules = append(rules, noUse{flag: flag, other: "capacity", beside: true})
	}
	refuses(c, append(rules, noUse{"from", "capacity", true, ": a search is sent from this machine. Run hcl bench there, or write a lab whose " +
		"benchmark has a capacity block, and a load block with from."})...)
}

// search is the search that the flags ask for.
func (f *capacityFlags) search(w load.Workload) (*capacity.Search, error) {
	q := capacity.Question{SLO: w.SLO, Whole: f.of == capacity.Concurrency, Confidence: f.confidence, Precision: f.precision}
	if err := checkWord("capacity", f.of, []string{capacity.Concurrency, capacity.Rate}); err != nil {
		return nil, err
	}
	if len(w.SLO) == 0 {
		return nil, usage("--capacity needs --slo: what a load must hold, such as ttft_p95=2s")
	}
	if w.Dataset.Talks() || w.Dataset.Timed() {
		return nil, usage("--capacity judges requests that stand alone, at a pace of its own: --dataset %s has neither", w.Dataset.Kind)
	}
	low, high, _ := strings.Cut(f.within, "-")
	least, err1 := strconv.ParseFloat(low, 64)
	most, err2 := strconv.ParseFloat(high, 64)
	if q.Least, q.Most = least, most; err1 != nil || err2 != nil || most > 1e6 || least < 1e-3 {
		return nil, usage("--within %s: write the least load and the most, such as 8-256; they are from 0.001 to a million", f.within)
	}
	if n, err := strconv.Atoi(f.budget); err == nil {
		q.Budget = float64(n)
	} else {
		d, err := time.ParseDuration(f.budget)
		if err != nil {
			return nil, usage("--budget %s: write a time or a number of requests, such as 1h or 20000", f.budget)
		}
		q.Timed, q.Budget = true, d.Seconds()
	}
	s, err := capacity.New(q)
	if err != nil {
		return nil, usage("--capacity: %w", err)
	}
	return s, nil
}

// searched is what came of a search, so far.
type searched struct {
	*capacity.Search
	rows     []results.Row // a measurement each
	requests int
	took     time.Duration
}

func (x *searched) outcome() capacity.Outcome { return x.Outcome(x.took, x.requests) }

// runCapacity looks for the load that a server holds. What was found is shown also when it is interrupted.
func runCapacity(ctx context.Context, t *console, o benchOptions, job load.Job, s *capacity.Search) error {
	if job.Target.Model == "" {
		model, err := onlyModel(ctx, job, wire.DirectBy(nil))
		if err != nil {
			return err
		}
		job.Target.Model = model
	}
	job.Calibrated = calibrated(slog.New(t.logger()))
	if d := job.Workload.Dataset; d.Path != "" && !d.Fresh() {
		t.logger().Warn("the prompts of a file are sent again at every load, and a prefix cache has them by then: say --salt", "file", d.Path)
	}
	x := searched{Search: s}
	began, failed := time.Now(), error(nil)
	for failed == nil {
		try, ok := s.Next()
		if !ok {
			break
		}
		started := time.Now()
		job.Workload = s.Workload(job.Workload, try.Load, try.Most)
		try.Begin()
		var result *load.Result
		result, failed = measure.RunUntil(ctx, job, benchProgress(t), try.Over)
		if terminal(t.stderr) {
			fmt.Fprint(t.stderr, "\r\x1b[K")
		}
		if result == nil {
			break
		}
		doubt, drifts := capacity.Against(result.Summary.Verdict, s.SLO)
		if failed != nil {
			doubt, drifts = "", false // a part of a load is what it is
		}
		s.Tried(try, s.Cost(result.Summary.Requests, time.Since(started)), doubt, drifts)
		x.requests += result.Summary.Requests
		x.rows = append(x.rows, benchRow(job, len(x.rows)+1, started, result))
		x.took = time.Since(began)
		o := x.outcome()
		t.logger().Info(say.Tried(&o, try.Load))
		job.Seed++ // no cache knows the prompts of the next
		if failed == nil {
			failed = capacity.Lacking(s.SLO, result.Records)
		}
	}
	if len(x.rows) == 0 {
		return failed
	}
	if ctx.Err() != nil {
		failed = &exit{exitInterrupted, errors.New("interrupted; the answer is as wide as what was measured until then")}
	}
	err := t.write(o.output, func(w io.Writer) error {
		if o.format == "json" {
			return x.json(w)
		}
		return x.text(w, t.widthOf(o.output))
	})
	switch a := x.outcome(); {
	case failed != nil:
	case a.Ended != "":
		last := x.rows[len(x.rows)-1].Summary
		text := strings.Join(append([]string{"the search ends early: " + a.Ended}, last.ErrorSamples...), "\n")
		if advice := wantsText(job.Workload, last); advice != "" {
			text += "\n" + advice
		}
		failed = &exit{exitCells, errors.New(text)}
	case a.Holds == nil && a.Breaks == nil:
		failed = &exit{exitCells, errors.New("there is no answer: " + say.Capacity(&a))}
	}
	return errors.Join(err, failed)
}

// at is the last measurement of a load; nil: there is none.
func (x *searched) at(load *float64) *results.Row {
	for i := range slices.Backward(x.rows) {
		w := x.rows[i].Job.Job.Workload
		if load != nil && max(float64(w.Concurrency), float64(w.Rate)) == *load {
			return &x.rows[i]
		}
	}
	return nil
}

func (x *searched) text(w io.Writer, width int) error {
	o, t := x.outcome(), x.rows[0].Job.Target
	var b bytes.Buffer
	fmt.Fprintf(&b, "%-19s %s at %s\n%-19s %s\n\n", "Model", plain.Line(t.Model), strings.Join(append([]string{t.BaseURL}, t.BaseURLs...), ", "),
		"Capacity", say.Capacity(&o))
	columns := []table.Column{{Name: say.LoadUnit(o.Of)}, {Name: "tries"}, {Name: "requests"}}
	for _, o := range x.SLO {
		columns = append(columns, table.Column{Name: fmt.Sprintf("%s ≤ %s", o.Name(), o.Max)})
	}
	columns = append(columns, table.Column{Name: "verdict", Left: true})
	var lines [][]string
	for i := range o.Loads {
		l, most := &o.Loads[i], 0
		var attained []string
		for _, s := range l.Lines {
			most = max(most, s.Counted)
			share := "-"
			if s.Counted > 0 {
				share = fmt.Sprintf("%.2f %%", 100*float64(s.Within)/float64(s.Counted))
			}
			attained = append(attained, share)
		}
		line := append([]string{number.Exact(l.Load), strconv.Itoa(l.Tries), number.Whole(most)}, attained...)
		lines = append(lines, append(line, say.LoadVerdict(l)))
	}
	for _, line := range table.Tabulate(columns, lines).Lines() {
		fmt.Fprintln(&b, line)
	}
	at, row := o.Holds, x.at(o.Holds)
	if row == nil {
		at, row = o.Breaks, x.at(o.Breaks)
	}
	if row != nil {
		fmt.Fprintf(&b, "\nThe last measurement at %s %s:\n\n", number.Exact(*at), say.LoadUnit(o.Of))
		if err := table.Summary(&b, row.Summary, width); err != nil {
			return err
		}
	}
	_, err := b.WriteTo(w)
	return err
}

// json has the answer, the loads, and each measurement as `--format json` without --capacity has it.
func (x *searched) json(w io.Writer) error {
	var measurements bytes.Buffer
	if err := table.JSON(&measurements, x.rows, figure.About{}); err != nil {
		return err
	}
	o := x.outcome()
	return table.WriteJSON(w, struct {
		Answer string `json:"answer"`
		capacity.Outcome
		Measured json.RawMessage `json:"measured"`
	}{say.Capacity(&o), o, measurements.Bytes()})
}
