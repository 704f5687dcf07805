package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"hclbench/lock"
	"hclbench/plan"
	"hclbench/report"
	"hclbench/results"
)

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
	Planned     []report.Planned   `json:"planned"`
	References  []report.Reference `json:"references,omitempty"`
	Layout      report.Layout      `json:"layout"`
}

// inputs are what is kept with a run: the lab's text without what is sensitive,
// its lock, the plan, and what the report needs of them.
func inputs(l *lab, p *plan.Plan, published []report.Reference) (map[string][]byte, error) {
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
	of := reported{
		Lab: l.text.Lab.Name, Description: l.text.Lab.Description, Speed: p.Speed,
		Planned: plannedCells(p), References: published, Layout: layout(l.text),
	}
	text, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("keep the report's part of the lab with the run: %w", err)
	}
	kept[inputReport] = text
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
				if row[name], err = number(v); err != nil {
					return nil, fmt.Errorf("read %s of run %s: %w", inputReport, run, err)
				}
			}
		}
	}
	return &of, nil
}

// number is a JSON number as the whole or broken number that it is, and anything else as
// it is.
func number(v any) (any, error) {
	n, ok := v.(json.Number)
	if !ok {
		return v, nil
	}
	if whole, err := n.Int64(); err == nil {
		return whole, nil
	}
	return n.Float64()
}

// published are the published rows of one benchmark, or of all.
func (r *reported) published(benchmark string) []report.Reference {
	return slices.DeleteFunc(slices.Clone(r.References), func(ref report.Reference) bool {
		return benchmark != "" && ref.Benchmark != benchmark
	})
}
