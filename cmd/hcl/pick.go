package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/plan"
)

// pickFlags are the flags of every verb that can do a part of a plan.
type pickFlags struct{ only, targets []string }

func (f *pickFlags) add(t *console, c *cobra.Command) {
	c.Flags().StringArrayVar(&f.only, "only", nil,
		"only cells that meet this `condition`, such as 'benchmark = \"online\" and concurrency <= 64'; may be repeated")
	c.Flags().StringArrayVar(&f.targets, "target", nil,
		"only this engine, host or benchmark, a `target` such as engine.vllm.h200; may be repeated")
	completes(c, "only", fromLab(t, func(cfg *hcl.Config) []string { return benchmarkNames(cfg, "benchmark=") }))
	completes(c, "target", fromLab(t, targetNames))
}

// selection reads the flags before anything else is looked at.
func (f *pickFlags) selection() (plan.Selection, error) {
	s, err := plan.ParseSelection(f.only, f.targets)
	if err != nil {
		return s, &exit{exitUsage, err}
	}
	return s, nil
}

// pick restricts a plan.
func pick(p *plan.Plan, s plan.Selection) error {
	if err := p.Select(s); err != nil {
		return &exit{exitUsage, err}
	}
	return nil
}

// group is what hcl plan --by names.
func group(by string) (plan.By, error) {
	switch by := plan.By(by); by {
	case plan.ByHost, plan.ByEngine, plan.ByBenchmark:
		return by, nil
	}
	return "", usage("--by %s: it is host, engine or benchmark", by)
}

// benchmarkNames are the names of the lab's benchmarks behind a prefix.
func benchmarkNames(cfg *hcl.Config, prefix string) []string {
	var out []string
	for _, b := range cfg.Benchmarks {
		out = append(out, prefix+b.Name+"\t"+oneLine(b.Description, fmt.Sprintf("%d cells", len(b.Cells))))
	}
	return out
}

// engineNames are KIND.NAME of the lab's engines behind a prefix.
func engineNames(cfg *hcl.Config, prefix string) []string {
	var out []string
	for _, e := range cfg.Engines {
		out = append(out, prefix+e.Label()+"\t"+oneLine(e.Description, e.Image))
	}
	return slices.Compact(out)
}

func targetNames(cfg *hcl.Config) []string {
	out := engineNames(cfg, "engine.")
	for _, h := range cfg.Hosts {
		out = append(out, "host."+h.Name+"\t"+oneLine(h.Description, h.GPUs.String()))
	}
	return append(out, benchmarkNames(cfg, "benchmark.")...)
}

// oneLine is the first of the texts that says something, as a completion's
// description.
func oneLine(texts ...string) string {
	for _, t := range texts {
		if first, _, _ := strings.Cut(strings.TrimSpace(t), "\n"); first != "" {
			return first
		}
	}
	return ""
}
