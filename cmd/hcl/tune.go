package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load/metric"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/report/figure"
	"hclbench/report/number"
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
	search, err := x.Search()
	if err != nil {
		return err
	}
	if o.json {
		err = t.json(answerOf(x, search))
	} else {
		err = printTune(t.stdout, x, search, t.width(120))
	}
	if err == nil && o.write != "" {
		err = writeWinner(t, x, search.Answer(), freeName(cfg, x.Name+"-best"), o.write)
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
		if p, err = plan.Rehearse(cfg, said.Speed, func(int) bool { return true }); err != nil {
			return nil, err
		}
	}
	for _, x := range p.Tunes {
		x.Know(kept[plan.LedgerName(x.Name)])
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
			if kept[plan.LedgerName(x.Name)] != nil {
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

// printTunes prints what came of the tunings of a plan.
func printTunes(w io.Writer, p *plan.Plan, width int) error {
	for _, x := range p.Tunes {
		search, err := x.Search()
		if err != nil {
			return err
		}
		if len(x.Ledger.Starts) == 0 {
			continue
		}
		if err := printTune(w, x, search, width); err != nil {
			return err
		}
	}
	return nil
}

// valueOf is a score in the unit of the objective.
func valueOf(x *plan.Tune, score float64) string {
	return number.Text(x.Score(score))
}

// spanOf is a figure with its interval; empty: there is none.
func spanOf(x *plan.Tune, f tune.Figure) string {
	if f.Starts == 0 {
		return ""
	}
	low, high := f.Low, f.High
	if x.Figure.Better == metric.Less {
		low, high = high, low
	}
	if f.Low <= 0 || math.IsInf(f.High, 0) {
		return valueOf(x, f.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", valueOf(x, f.Value), valueOf(x, low), valueOf(x, high))
}

// reason is why a candidate has its fate, as far as there is more to say than the fate.
func reason(e tune.Entry) string {
	switch {
	case e.Fate == tune.Failed:
		return string(e.Outcome) + ": " + e.Reason
	case e.Fate == tune.Missed:
		return "at every load: " + e.Reason
	case e.Why != "":
		return e.Why
	case e.SameAs() != nil:
		return "served as: " + plan.Settings(e.SameAs().Candidate)
	}
	return ""
}

// printTune prints every candidate with its fate, why, and what is certain.
func printTune(w io.Writer, x *plan.Tune, search *tune.Tuning, width int) error {
	fmt.Fprintf(w, "\ntune %s: %s of benchmark %s, begins with %s\n\n", x.Name, x.Figure.Name, x.Objective, x.Start.Address())
	const most = 50 // characters of the settings in the table
	rows, notes := [][]any{{"", "settings", "fate", "starts", "searched", "finals, 95 %"}}, []string(nil)
	for i, e := range search.Ledger() {
		settings := []rune(plan.Settings(e.Candidate))
		short := string(settings)
		why := reason(e)
		if len(settings) > most {
			short = string(settings[:most-1]) + "…"
			why = strings.TrimSuffix(string(settings)+": "+why, ": ")
		}
		rows = append(rows, []any{i + 1, short, e.Fate, e.Starts, spanOf(x, search.Searched(&e)), spanOf(x, search.Finally(&e))})
		if why != "" {
			notes = append(notes, fmt.Sprintf("%d: %s", i+1, why))
		}
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	for _, text := range append(notes, verdictOf(x, search.Answer())) {
		if _, err := fmt.Fprintf(w, "\n%s\n", strings.Join(plain.Wrap(plain.Words(text), " ", width), "\n")); err != nil {
			return err
		}
	}
	return nil
}

// verdictOf is the answer in words.
func verdictOf(x *plan.Tune, a tune.Answer) string {
	s := ""
	switch {
	case a.Winner != nil:
		s = fmt.Sprintf("Best: %s, by %.1f %%, where %.1f %% would have counted.", plan.Settings(a.Winner.Candidate), 100*a.Lead, 100*a.Floor)
	default:
		s = "No winner: " + a.Why + "."
		if len(a.Tied) > 0 && a.Lead <= a.Floor && !math.IsInf(a.Floor, 0) {
			var names []string
			for _, e := range a.Tied {
				names = append(names, plan.Settings(e.Candidate))
			}
			s = fmt.Sprintf("No winner: %s are tied, less than %.1f %% apart; the first has the fewest settings of its own.", plain.List(names, "and"), 100*a.Floor)
		}
	}
	if a.Left != nil {
		s = fmt.Sprintf("No winner: %s stays the best of those tried, as %s.", plan.Settings(a.Left.Candidate), a.Why)
	}
	if a.Winner == nil && a.Leader != nil {
		s += fmt.Sprintf(" Ahead in the finals, be it by luck: %s, by %.1f %%.", plan.Settings(a.Leader.Candidate), 100*a.Lead)
	}
	s += fmt.Sprintf(" Best of %d tried of %d. Two starts of the same lie %.1f %% apart (one standard deviation).", a.Tried, a.Of, 100*a.Noise.Spread)
	cost := fmt.Sprintf(" It took %s and %s", plain.Count(a.Starts, "start"), plan.Rough(a.Spent.Time))
	if a.Spent.Money > 0 {
		cost += fmt.Sprintf(", $%.2f", a.Spent.Money)
	}
	return s + cost + "."
}

type jsonTune struct {
	FormatVersion string           `json:"format_version"`
	Tune          string           `json:"tune"`
	Objective     string           `json:"objective"`
	Figure        string           `json:"figure"`
	Start         string           `json:"start"`
	Winner        *tune.Candidate  `json:"winner"`         // null: there is none
	Leader        *tune.Candidate  `json:"leader"`         // who is ahead in the finals, or the only one that is left; null: nobody
	Tied          []tune.Candidate `json:"tied,omitempty"` // that may be the best, where there is no winner; fewest settings of their own first
	Why           string           `json:"why,omitempty"`
	Lead          float64          `json:"lead,omitempty"`
	Floor         *float64         `json:"floor"` // null: not known
	Noise         float64          `json:"noise"`
	Tried         int              `json:"tried"`
	Of            int              `json:"of"`
	Starts        int              `json:"starts"`
	Seconds       float64          `json:"seconds"`            // that its hosts were held
	Cost          float64          `json:"cost_usd,omitempty"` // of that
	Candidates    []jsonCandidate  `json:"candidates"`
	Ledger        []plan.Tried     `json:"ledger"`
}

type jsonCandidate struct {
	Settings  string         `json:"settings"`
	Candidate tune.Candidate `json:"candidate"`
	Fate      tune.Fate      `json:"fate"`
	Why       string         `json:"why,omitempty"`
	Starts    int            `json:"starts"`
	Searched  *float64       `json:"searched"` // in the unit of the figure; null: there is none
	Finals    *float64       `json:"finals"`
}

func answerOf(x *plan.Tune, search *tune.Tuning) jsonTune {
	a := search.Answer()
	out := jsonTune{
		FormatVersion: "1.0", Tune: x.Name, Objective: x.Objective, Figure: x.Figure.Name, Start: x.Start.Label(), Why: a.Why, Lead: a.Lead,
		Noise: a.Noise.Spread, Tried: a.Tried, Of: a.Of, Starts: a.Starts, Seconds: a.Spent.Time.Seconds(), Cost: a.Spent.Money, Candidates: []jsonCandidate{}, Ledger: x.Ledger.Starts,
	}
	if a.Winner != nil {
		out.Winner = &a.Winner.Candidate
	}
	if leader := cmp.Or(a.Leader, a.Left); leader != nil {
		out.Leader = &leader.Candidate
	}
	for _, e := range a.Tied {
		out.Tied = append(out.Tied, e.Candidate)
	}
	if !math.IsInf(a.Floor, 0) {
		out.Floor = &a.Floor
	}
	value := func(f tune.Figure) *float64 {
		if f.Starts == 0 {
			return nil
		}
		v := x.Score(f.Value)
		return &v
	}
	for _, e := range search.Ledger() {
		out.Candidates = append(out.Candidates, jsonCandidate{
			plan.Settings(e.Candidate), e.Candidate, e.Fate, reason(e), e.Starts, value(search.Searched(&e)), value(search.Finally(&e)),
		})
	}
	return out
}

// writeWinner writes the winner as a block that stands beside the lab's others.
func writeWinner(t *console, x *plan.Tune, a tune.Answer, name, file string) error {
	if a.Winner == nil {
		return &exit{exitFailed, fmt.Errorf("nothing is written to %s: there is no winner: %s", file, a.Why)}
	}
	if _, err := os.Stat(file); err == nil {
		return usage("%s is there already; remove it, or name another file", file)
	}
	text, err := winnerText(x, x.Candidate(a.Winner.Candidate.Options), name)
	if err != nil {
		return err
	}
	return t.write(file, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// freeName is a name that no engine of the lab has: an earlier winner may be among them, and be what this one inherits.
func freeName(cfg *hcl.Config, name string) string {
	free := name
	for n := 2; slices.ContainsFunc(cfg.Engines, func(e *engines.Engine) bool { return e.Name == free }); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// winnerText is a candidate as lab text.
func winnerText(x *plan.Tune, c hcl.Candidate, as string) (string, error) {
	if c.Base.Kind == engines.GroupKind {
		return fmt.Sprintf("# The best of tune %q is %s as it is.\n", x.Name, c.Base.Address()), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The best of tune %q: put this file beside the lab's others.\nengine %q %q {\n  inherits = %s\n", x.Name, c.Base.Kind, as, c.Base.Address())
	secret := errors.New("its settings have a secret, which is written nowhere: take them from the lab")
	value := func(t provision.Text) string {
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(t.Reveal()))
	}
	object := func(name string, of func(line func(name, value string))) {
		var lines []string
		of(func(name, value string) {
			lines = append(lines, fmt.Sprintf("    %s = %s\n", strconv.Quote(name), value))
		})
		if lines != nil {
			fmt.Fprintf(&b, "  %s = {\n%s  }\n", name, strings.Join(lines, ""))
		}
	}
	var err error
	object("flags", func(line func(name, value string)) {
		values := map[string][]string{}
		var names []string
		for _, f := range c.Over.Flags {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
			switch {
			case f.Off:
				values[f.Name] = append(values[f.Name], "false")
			case f.Value == nil:
				values[f.Name] = append(values[f.Name], "true")
			case f.Value.IsSecret():
				err = secret
			default:
				values[f.Name] = append(values[f.Name], value(*f.Value))
			}
		}
		for _, name := range names {
			if all := values[name]; len(all) == 1 {
				line(name, all[0])
			} else {
				line(name, "["+strings.Join(all, ", ")+"]")
			}
		}
		for _, name := range c.Over.WithoutFlags {
			line(name, "null")
		}
	})
	object("env", func(line func(name, value string)) {
		for _, v := range c.Over.Env {
			if v.Value.IsSecret() {
				err = secret
			}
			line(v.Name, value(v.Value))
		}
		for _, name := range c.Over.WithoutEnv {
			line(name, "null")
		}
	})
	b.WriteString("}\n")
	return b.String(), err
}
