package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/report/figure"
	"hclbench/report/table"
	"hclbench/results"
	"hclbench/tune"
)

type tuneOptions struct {
	lab   labFlags
	tune  string
	run   string
	write string
	json  bool
}

func tuneVerb(t *console) *cobra.Command {
	var o tuneOptions
	c := labVerb("tune", &o.lab, func(ctx context.Context) error { return runTune(ctx, t, o) })
	o.lab.addStore(c)
	c.Flags().StringVar(&o.tune, "tune", "", "the `name` of the tuning, of a lab with several")
	c.Flags().StringVar(&o.run, "run", "", "what was tried until this `run`, which may be a rehearsal")
	c.Flags().StringVar(&o.write, "write", "", "write the winner into this `file`, as a block of the lab")
	c.Flags().BoolVar(&o.json, "json", false, "print the answer as JSON")
	return c
}

func runTune(ctx context.Context, t *console, o tuneOptions) error {
	l, err := o.lab.open(t)
	if err != nil {
		return err
	}
	cfg, err := l.planned(ctx)
	if err != nil {
		return err
	}
	store, err := o.lab.existing(ctx, t)
	if err != nil {
		return err
	}
	defer store.Close()
	p, err := tuned(ctx, cfg, store, o.run)
	if err != nil {
		return err
	}
	var names []string
	for _, x := range p.Tunes {
		names = append(names, x.Name)
	}
	i := slices.Index(names, o.tune)
	switch {
	case len(names) == 0:
		return usage("the lab has no tune block")
	case o.tune == "" && len(names) == 1:
		i = 0
	case o.tune == "":
		return usage("the lab has several tune blocks: say which one, --tune %s", plain.List(names, "or"))
	case i < 0:
		return usage("the lab has no tune block %q. There are: %s", o.tune, plain.List(names, "and"))
	}
	x := p.Tunes[i]
	if len(x.Ledger.Starts) == 0 {
		return nothingTried(ctx, store, p, x)
	}
	if x.Ledger.Summary, err = x.Summary(); err != nil { // by the budget that the lab has now
		return err
	}
	if o.json {
		err = t.json(struct {
			FormatVersion string `json:"format_version"`
			*tune.Summary
			Ledger []results.Tried `json:"ledger"`
			Asked  []results.Asked `json:"asked,omitempty"`
		}{"1.0", x.Ledger.Summary, x.Ledger.Starts, x.Ledger.Asked})
	} else {
		err = table.Tuning(t.stdout, figure.NewTuning(&x.Ledger), t.width(120))
	}
	if err == nil && o.write != "" {
		err = writeWinner(t, x, o.write)
	}
	return err
}

// tuned is the lab's plan with what its tunings have tried, until a run where one is named.
func tuned(ctx context.Context, cfg *hcl.Config, store *results.Store, run string) (*plan.Plan, error) {
	if run == "" {
		past, err := measuredBefore(ctx, store)
		return plan.New(cfg, past), err
	}
	named, err := runNamed(ctx, store, "", run)
	if err != nil {
		return nil, err
	}
	run = named.ID
	kept, err := store.Inputs(ctx, run)
	if err != nil {
		return nil, err
	}
	said, err := keptReport(ctx, store, run)
	if err != nil {
		return nil, err
	}
	p := plan.New(cfg, plan.Options{})
	if said != nil && said.Speed != 0 {
		if p, err = plan.Rehearse(cfg, said.Speed, hereOf(cfg, anyPort)); err != nil {
			return nil, err
		}
	}
	for _, x := range p.Tunes {
		x.Know(kept[results.LedgerName(x.Name)])
	}
	return p, nil
}

// nothingTried is why there is no answer: nobody has tried anything, but for what was rehearsed.
func nothingTried(ctx context.Context, store *results.Store, p *plan.Plan, x *plan.Tune) error {
	runs, err := store.Runs(ctx)
	if err != nil {
		return err
	}
	rehearsal := ""
	for _, r := range slices.Backward(runs) {
		if r.Command == "rehearse" && strings.TrimSuffix(r.Lab, plan.RehearsalSuffix) == strings.TrimSuffix(p.Lab.Name, plan.RehearsalSuffix) {
			kept, err := store.Inputs(ctx, r.ID)
			if err != nil {
				return err
			}
			if kept[results.LedgerName(x.Name)] != nil {
				rehearsal = fmt.Sprintf("; what was rehearsed shows with --run %s", r.ID)
				break
			}
		}
	}
	return &exit{exitFailed, fmt.Errorf("nothing was tried yet of tune %s as it stands in the lab; `hcl apply` does%s", x.Name, rehearsal)}
}

// tuneFigure reads a metric out of a cell, for [apply.Options].
func tuneFigure(name string, r *results.Row) (float64, bool) {
	m, ok := figure.Named(name)
	if !ok {
		return 0, false
	}
	return m.Raw().Value(r)
}

// writeWinner writes the winner as a block that stands beside the lab's others.
func writeWinner(t *console, x *plan.Tune, file string) error {
	s := x.Ledger.Summary
	if s.Winner == nil {
		return &exit{exitFailed, fmt.Errorf("nothing is written to %s: there is no winner: %s", file, s.Why)}
	}
	if _, err := os.Stat(file); err == nil {
		return usage("%s is there already; remove it, or name another file", file)
	}
	text, err := x.Text(*s.Winner)
	if err != nil {
		return err
	}
	return t.write(file, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
