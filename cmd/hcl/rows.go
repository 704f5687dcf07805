package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hclbench/hcl"
	"hclbench/load"
	"hclbench/lock"
	"hclbench/plan"
	"hclbench/report/figure"
	"hclbench/results"
)

func recordsOf(ctx context.Context, store *results.Store) func(*results.Row) ([]load.Record, error) {
	return func(r *results.Row) ([]load.Record, error) { return store.Records(ctx, r.RunID, r.ID) }
}

// newest are of each cell the row that was kept last.
func newest(rows []results.Row) []results.Row {
	at := map[string]int{}
	var out []results.Row
	for _, r := range rows {
		i, ok := at[r.ID]
		switch {
		case !ok:
			at[r.ID] = len(out)
			out = append(out, r)
		case !r.Kept().Before(out[i].Kept()):
			out[i] = r
		}
	}
	return out
}

// byOthers are measurements by other labs in a shared store, of cells that a lab asks for
// and has not measured itself: what one has measured is up to date for all.
func byOthers(
	ctx context.Context, store *results.Store, lab string, own []results.Row, planned []figure.Planned,
) ([]results.Row, error) {
	lacking := map[string]bool{}
	for _, p := range planned {
		lacking[p.ID] = true
	}
	for _, r := range own {
		if r.Verdict().Verdict != load.Void {
			delete(lacking, r.ID)
		}
	}
	if len(lacking) == 0 {
		return nil, nil
	}
	all, err := store.Rows(ctx, results.Query{Latest: true})
	return slices.DeleteFunc(all, func(r results.Row) bool {
		return !lacking[r.ID] || r.Run.Lab == lab || r.Verdict().Verdict == load.Void
	}), err
}

// spent is what runs had of their hosts: those that rows and scores are from, with all of their cells, as far as these held hosts;
// and of rented boxes also the runs of the lab since, that have brought nothing else. Where a run is named, it is that alone.
func spent(ctx context.Context, store *results.Store, run, lab string, rows []results.Row, scores []results.Scored) ([]figure.Spending, error) {
	for _, x := range scores {
		rows = append(slices.Clip(rows), x.Row)
	}
	seen, first := map[string]bool{}, ""
	var whole []results.Row
	for _, r := range rows {
		if seen[r.RunID] || r.Run.Command != "apply" {
			continue
		}
		if seen[r.RunID] = true; first == "" || r.RunID < first {
			first = r.RunID
		}
		for _, asked := range []bool{false, true} {
			all, err := store.Rows(ctx, results.Query{Run: r.RunID, Asked: asked})
			if err != nil {
				return nil, err
			}
			whole = append(whole, all...)
		}
	}
	stays, err := store.Stays(ctx, run)
	if err != nil || len(stays) == 0 {
		return figure.Spent(whole, nil), err
	}
	runs, err := store.Runs(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		seen[r.ID] = seen[r.ID] || r.ID == run || run == "" && !r.Bundled && (r.Lab == lab || lab == "") && r.ID >= first
	}
	return figure.Spent(whole, slices.DeleteFunc(stays, func(s results.Stay) bool { return !seen[s.RunID] })), nil
}

// plannedOf are the cells that a lab asks for now, those of a benchmark together; of
// a rehearsal at the speed of the last one. Nil: it is not known.
func plannedOf(ctx context.Context, cfg *hcl.Config, store *results.Store, rehearsed bool) (all []figure.Planned, asked map[string]results.Cell, err error) {
	var p *plan.Plan
	if rehearsed {
		speed, err := lastSpeed(ctx, store, cfg.Lab.Name)
		if err != nil || speed == 0 {
			return nil, nil, err
		}
		if p, err = plan.Rehearse(cfg, speed, hereOf(cfg, anyPort)); err != nil {
			return nil, nil, err
		}
	} else {
		earlier, err := measuredBefore(ctx, store)
		if err != nil {
			return nil, nil, err
		}
		p = plan.New(cfg, earlier)
	}
	all, asked = plannedCells(p)
	at := func(p figure.Planned) int {
		return slices.IndexFunc(cfg.Benchmarks, func(b hcl.Benchmark) bool { return b.Name == p.Benchmark })
	}
	slices.SortStableFunc(all, func(a, b figure.Planned) int { return cmp.Compare(at(a), at(b)) })
	return all, asked, nil
}

// measuredBefore is what a plan has to know of earlier measurements; there may be no store yet.
func measuredBefore(ctx context.Context, store *results.Store) (opt plan.Options, err error) {
	if store == nil {
		return opt, nil
	}
	if opt.Known, err = store.Known(ctx); err != nil {
		return opt, err
	}
	if opt.Seen, err = store.Seen(ctx); err != nil {
		return opt, err
	}
	opt.Ledgers, err = store.Ledgers(ctx)
	return opt, err
}

// plannedCells are the cells that a plan measures, and those that its tunings have made so far; and by their ids those that ask questions.
func plannedCells(p *plan.Plan) (all []figure.Planned, asked map[string]results.Cell) {
	all, asked = []figure.Planned{}, map[string]results.Cell{}
	deployments := slices.Clone(p.Deployments)
	for _, t := range p.Tunes {
		for i, tried := range t.Ledger.Starts {
			if i > 0 && t.Ledger.Starts[i-1].Deployment == tried.Deployment { // made again
				continue
			}
			if d, err := t.Deployment(tried.Start); err == nil { // one that cannot be made has no cells
				deployments = append(deployments, d)
			}
		}
	}
	for _, d := range deployments {
		wanted, prices := wanted(d), map[string]float64{}
		for _, h := range d.Hosts {
			if h.Rent == nil { // whose provider has told its price
				prices[h.Name] = h.PricePerHour
			}
		}
		var cells []*plan.Cell
		for _, c := range d.Cells {
			cells = append(cells, c.Cells()...)
		}
		for _, c := range cells {
			cell := results.Cell{ID: c.ID, Benchmark: c.Benchmark, Axes: c.Axes, Job: c.Task.Stored()}
			if e := c.Eval(); e != nil {
				cell.Accuracy = e.Accuracy()
				asked[c.ID] = cell
				continue
			}
			all = append(all, figure.Planned{
				Row: &results.Row{Cell: cell, Deployment: wanted},
				ID:  c.ID, Group: c.Group, Benchmark: c.Benchmark, Engine: d.Engine.Label(), Host: d.Where(),
				Axes: c.Axes, Repetition: c.Repetition, SLO: c.Task.Stored().Workload.SLO, Prices: prices,
				HostChanged: c.HostChanged,
			})
		}
	}
	return all, asked
}

// wanted is what a result would say of where it was measured, as far as the plan knows.
func wanted(d *plan.Deployment) results.Deployment {
	out := d.Stored()
	var members []results.Member
	for _, m := range d.Members {
		members = append(members, m.Stored())
	}
	if members != nil {
		out.SetMembers(members)
	}
	return out
}

// lastSpeed is how fast the newest rehearsal of a lab was; 0: there was none, or it did not keep that.
func lastSpeed(ctx context.Context, store *results.Store, lab string) (float64, error) {
	if store == nil {
		return 0, nil
	}
	runs, err := store.Runs(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range slices.Backward(runs) {
		if r.Command != "rehearse" || r.Bundled || r.Lab != lab {
			continue
		}
		kept, err := keptReport(ctx, store, r.ID)
		if err != nil || kept == nil {
			return 0, err
		}
		return kept.Speed, nil
	}
	return 0, nil
}

// Names under which what a run is made from is kept with it.
const (
	inputLab    = "lab/" // and the file's name
	inputPlan   = "plan.json"
	inputReport = "report.json"
)

// reported is what a run's report needs of the lab's text.
type reported struct {
	Lab         string             `json:"lab"`
	Description string             `json:"description,omitempty"`
	Speed       float64            `json:"speed,omitempty"` // of a rehearsal
	Planned     []figure.Planned   `json:"planned"`
	ToDo        []string           `json:"to_do,omitempty"` // the ids of those that the run was to measure
	References  []figure.Reference `json:"references,omitempty"`
	Layout      figure.Layout      `json:"layout"`
}

func saidOf(cfg *hcl.Config) *reported {
	r := &cfg.Report
	said := &reported{
		Lab: cfg.Lab.Name, Description: cfg.Lab.Description,
		Layout: figure.Layout{
			Title: r.Title, Description: r.Description, Headline: r.Headline, Notes: r.Notes,
			Series: r.Series, Columns: r.Columns, Automatic: r.Automatic,
			NoReferences: !r.References, NoPrices: !r.Prices,
		},
	}
	if r.Baseline != nil {
		said.Layout.Baseline = r.Baseline.Label()
	}
	for _, c := range r.Charts {
		said.Layout.Charts = append(said.Layout.Charts, figure.AskedChart(c))
	}
	for _, b := range cfg.Benchmarks {
		for _, r := range b.References {
			of := figure.Reference{Benchmark: b.Name, Name: r.Name, Source: r.Source, Rows: r.Rows}
			said.References = append(said.References, of)
		}
	}
	return said
}

// published are the published figures of one benchmark, or of all.
func (r *reported) published(benchmark string) []figure.Reference {
	if r == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.References), func(ref figure.Reference) bool {
		return benchmark != "" && ref.Benchmark != benchmark
	})
}

// inputs are what is kept with a run: the lab's text without what is sensitive,
// its lock, the plan, and what the report needs of them.
func inputs(l *lab, p *plan.Plan) (map[string][]byte, error) {
	kept := map[string][]byte{}
	for name, text := range l.problems.Text() {
		kept[inputLab+name] = text
	}
	if l.locked != nil {
		kept[inputLab+lock.Name] = l.lockText
	}
	var b bytes.Buffer
	if err := p.JSON(&b); err != nil {
		return nil, fmt.Errorf("keep the plan with the run: %w", err)
	}
	kept[inputPlan] = b.Bytes()
	said := saidOf(l.text)
	said.Speed = p.Speed
	said.Planned, _ = plannedCells(p)
	if said.Layout.NoPrices {
		for i := range said.Planned {
			said.Planned[i].Prices = nil
		}
	}
	for _, d := range p.Deployments {
		for _, c := range d.ToDo() {
			for _, x := range c.Cells() {
				if x.Status != plan.Done {
					said.ToDo = append(said.ToDo, x.ID)
				}
			}
		}
	}
	text, err := json.Marshal(said)
	if err != nil {
		return nil, fmt.Errorf("keep the report's part of the lab with the run: %w", err)
	}
	kept[inputReport] = []byte(p.Hide(string(text)))
	return kept, nil
}

// keptReport reads what was kept for the report of a run; nil: nothing was.
func keptReport(ctx context.Context, store *results.Store, run string) (*reported, error) {
	kept, err := store.Inputs(ctx, run)
	if err != nil || kept[inputReport] == nil {
		return nil, err
	}
	var of reported
	d := json.NewDecoder(bytes.NewReader(kept[inputReport]))
	d.UseNumber() // a whole number stays one
	if err := d.Decode(&of); err != nil {
		return nil, fmt.Errorf("read %s of run %s: %w", inputReport, run, err)
	}
	for _, r := range of.References {
		for _, row := range r.Rows {
			for name, v := range row {
				if row[name], err = exact(v); err != nil {
					return nil, fmt.Errorf("read %s of run %s: %w", inputReport, run, err)
				}
			}
		}
	}
	return &of, nil
}

// exact is a JSON number as the whole or broken number that it is, and anything else as it is.
func exact(v any) (any, error) {
	n, ok := v.(json.Number)
	if !ok {
		return v, nil
	}
	if whole, err := n.Int64(); err == nil {
		return whole, nil
	}
	return n.Float64()
}

func newRun(lab, command string) results.Run {
	now := time.Now()
	return results.Run{ID: results.NewRunID(now), Lab: lab, Command: command, Version: version, Started: now}
}
