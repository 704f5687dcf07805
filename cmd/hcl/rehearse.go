package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/sim"
)

type rehearseOptions struct {
	workFlags
	speed float64
	truth bool
}

func rehearseVerb(t *console) *cobra.Command {
	var o rehearseOptions
	c := labVerb("rehearse", &o.hosts.labFlags, func(ctx context.Context) error { return runRehearse(ctx, t, o) })
	o.addWork(t, c)
	c.Flags().Float64Var(&o.speed, "speed", 1, "run this many times faster than the engines would")
	c.Flags().BoolVar(&o.truth, "truth", false, "print what the simulated engines truly hold beside what a search has found")
	return c
}

func runRehearse(ctx context.Context, t *console, o rehearseOptions) error {
	if !(o.speed >= slowest && o.speed <= fastest) { // no number is neither
		return usage("--speed is how many times faster than real the rehearsal runs: a number from %v to %v", slowest, fastest)
	}
	w, err := o.prepare(ctx, t, "rehearse", func(cfg *hcl.Config) (*plan.Plan, error) {
		return plan.Rehearse(cfg, o.speed, hereOf(cfg, isFree))
	})
	if err != nil {
		return err
	}
	for _, m := range w.plan.MadeUp {
		t.logger().Warn("a data file is not there, which a rehearsal does without: prompts are made up", "file", m.Path,
			"benchmarks", plain.List(m.Benchmarks, "and"), "prompts", strings.Join(m.Prompts, "; "))
	}
	if o.truth && !slices.ContainsFunc(w.plan.Deployments, func(d *plan.Deployment) bool { return slices.ContainsFunc(d.ToDo(), isSearch) }) {
		return usage("--truth is of benchmarks with a capacity block, and none is to be run")
	}
	if w.plan.Empty() {
		return w.nothingToDo()
	}
	ctx, done, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := w.announce(); err != nil {
		return err
	}
	if !o.json {
		fmt.Fprint(t.stderr, duration(w.plan, o.speed))
	}
	err = w.carryOut(ctx)
	if o.truth {
		err = errors.Join(err, w.printTruth(context.WithoutCancel(ctx), o.speed))
	}
	return err
}

// The bounds of --speed. What is faster than a clock ticks is no rehearsal.
const slowest, fastest = 0.01, 1000.0

// duration says how long a rehearsal takes, which the simulated engines know, and what
// would shorten it; empty when nothing is known.
func duration(p *plan.Plan, speed float64) string {
	hosts := map[string]time.Duration{}
	unknown := 0
	for _, d := range p.Deployments {
		for _, c := range d.ToDo() {
			takes := simulatedTime(d, c)
			if takes == 0 {
				unknown++
			}
			hosts[d.Host.Name] += takes
		}
	}
	longest := slices.Max(append(slices.Collect(maps.Values(hosts)), 0))
	if longest == 0 {
		return ""
	}
	text := "It takes about " + plan.Rough(longest)
	if unknown > 0 {
		text += fmt.Sprintf(", and what %s take beside that, whose answers have no set length", plain.Count(unknown, "cell"))
	}
	const long, quicker = 3 * time.Minute, 20.0
	if longest > long && speed < quicker {
		text += fmt.Sprintf("; with --speed %g, about %s", quicker, plan.Rough(time.Duration(float64(longest)*speed/quicker)))
	}
	if speed > 1 {
		text += ", where this machine keeps up"
	}
	return text + ".\n"
}

// simulatedTime is how long a cell takes on a simulated engine; 0: that is not known.
func simulatedTime(d *plan.Deployment, c *plan.Cell) time.Duration {
	l := c.Load()
	if l == nil {
		return 0
	}
	w := l.Workload
	if own := w.Takes(); own > 0 {
		return own
	}
	engine, ok := simulated(d)
	if !ok || w.Concurrency == 0 || w.OutputTokens == 0 && w.Generates() {
		return 0
	}
	rounds := math.Ceil(float64(w.Requests)/float64(w.Concurrency)) + math.Ceil(float64(w.Warmup)/float64(w.Concurrency))
	return time.Duration(rounds)*engine.Takes(w.Concurrency, w.OutputTokens) + w.Waits()
}

// simulated is the engine of a deployment that is a simulated one, of which nothing else is known here than the command
// that starts its first member; false: it is none, or will say what is wrong with its command.
func simulated(d *plan.Deployment) (engine sim.Config, ok bool) {
	if len(d.Members) == 0 {
		return sim.Config{}, false
	}
	ct := d.Members[0].Container
	var words []string
	for _, w := range append(slices.Clone(ct.Entrypoint), ct.Command...) {
		words = append(words, w.Reveal())
	}
	at := slices.Index(words, "sim")
	if at < 0 {
		return sim.Config{}, false
	}
	engine, _, err := sim.Command(words[at+1:])
	return engine, err == nil
}

// hereOf is what a lab's rehearsal finds on this machine.
func hereOf(cfg *hcl.Config, free func(port int) bool) plan.Here {
	there := func(path string) bool {
		if !filepath.IsAbs(path) {
			path = filepath.Join(cfg.Dir, path)
		}
		_, err := os.Stat(path)
		return err == nil || !errors.Is(err, fs.ErrNotExist)
	}
	return plan.Here{Free: free, There: there}
}

// anyPort is for who plans a rehearsal again that has run: its own ports may be taken by now.
func anyPort(int) bool { return true }

// isFree reports whether nothing listens on a port.
func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func simVerb(t *console) *cobra.Command {
	c := verb("sim", nil, nil)
	c.Long += "\n\n" + sim.Usage()
	c.DisableFlagParsing = true // the engines' own spellings
	c.RunE = func(c *cobra.Command, args []string) error {
		if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
			return c.Help()
		}
		return runSim(c.Context(), t, args)
	}
	return c
}

func runSim(ctx context.Context, t *console, args []string) error {
	batch, ok, err := sim.BatchCommand(args)
	if err == nil && ok {
		return batch.Run(ctx, t.stderr)
	}
	var cfg sim.Config
	var listen string
	if err == nil {
		cfg, listen, err = sim.Command(args)
	}
	if err != nil {
		return usage("%w\nSee 'hcl sim --help'.", err)
	}
	return sim.Serve(ctx, cfg, listen, t.stderr)
}
