package main

import (
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hclbench/plan"
	"hclbench/sim"
)

func (a *app) rehearse() *cobra.Command {
	var lab labFlags
	var cells pickFlags
	var asJSON bool
	speed := 1.0
	c := &cobra.Command{
		Use:   "rehearse [LAB]",
		Short: "Carry the lab out on this machine with simulated engines",
		Long: `Carries the whole lab out on this machine: no SSH, no Docker, no GPU. Every
engine is a simulated one that speaks like the kind it stands for. It finds
mistakes before the rental starts. Its results are marked as rehearsed and never
mixed with measured ones; every cell is run, whatever is up to date. How long it
takes is said before it begins. Faster than real, cells are not judged by how exactly
requests were sent and answers read: those limits are for real engines.`,
		Example: `  hcl rehearse examples/quickstart
  hcl rehearse lab/ --speed 20
  hcl rehearse lab/ --only 'benchmark = "online" and concurrency = 1'

Exit codes: 0 done, 1 failed, 2 the lab or the command line is wrong, 3 some cells
could not be run, 130 interrupted.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if !(speed >= slowest && speed <= fastest) { // no number is neither
				return usage("--speed is how many times faster than real the rehearsal runs: a number from %v to %v", slowest, fastest)
			}
			selection, err := cells.selection()
			if err != nil {
				return err
			}
			l, err := a.openLab(lab, args)
			if err != nil {
				return err
			}
			cfg, err := l.planned(ctx)
			if err != nil {
				return err
			}
			opt, err := a.options(ctx, connectFlags{})
			if err != nil {
				return err
			}
			p, err := plan.Rehearse(cfg, speed, freePort)
			if err != nil {
				return err
			}
			if err := pick(p, selection); err != nil {
				return err
			}
			if p.Empty() && asJSON {
				return a.nothingToDo(p, "rehearse")
			}
			if p.Empty() {
				return p.Text(a.stdout, false)
			}
			store, unlock, err := a.openLocked(ctx, cfg, "hcl rehearse")
			if err != nil {
				return err
			}
			defer store.Close()
			defer unlock()
			ctx, release := store.Held(ctx)
			defer release()
			if err := l.inputsThere(p); err != nil {
				return err
			}
			if !asJSON {
				if err := p.Text(a.stderr, false); err != nil {
					return err
				}
				fmt.Fprint(a.stderr, expected(p, speed))
			}
			opt.Run = newRun(cfg.Lab.Name, "rehearse")
			if opt.Inputs, err = inputs(l, p, references(cfg, "")); err != nil {
				return err
			}
			return a.carryOut(ctx, p, nil, layout(cfg), store, opt, asJSON)
		},
	}
	lab.add(c)
	cells.add(a, c)
	a.storeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print what happens as one JSON object a line, and nothing else")
	c.Flags().Float64Var(&speed, "speed", 1, "run this many times faster than the engines would")
	return c
}

// The bounds of --speed. What is faster than a clock ticks is no rehearsal.
const slowest, fastest = 0.01, 1000.0

// expected says how long a rehearsal takes, which the simulated engines know, and what
// would shorten it; empty when nothing is known.
func expected(p *plan.Plan, speed float64) string {
	hosts := map[string]time.Duration{}
	unknown := 0
	for _, d := range p.Deployments {
		for _, c := range d.ToDo() {
			takes := simulated(d, c)
			if takes == 0 {
				unknown++
			}
			hosts[d.Host().Name] += takes
		}
	}
	longest := slices.Max(append(slices.Collect(maps.Values(hosts)), 0))
	if longest == 0 {
		return ""
	}
	text := "It takes about " + plan.Rough(longest)
	if unknown > 0 {
		text += fmt.Sprintf(", and what %s take beside that, whose answers have no set length", plural(unknown, "cell"))
	}
	const long, quicker = 3 * time.Minute, 20.0
	if longest > long && speed < quicker {
		text += fmt.Sprintf("; with --speed %g, about %s", quicker, plan.Rough(time.Duration(float64(longest)*speed/quicker)))
	}
	return text + ".\n"
}

// simulated is how long a cell takes on a simulated engine; 0: that is not known.
func simulated(d *plan.Deployment, c *plan.Cell) time.Duration {
	l := c.Load()
	if l == nil {
		return 0
	}
	w := l.Workload
	if own := w.Takes(); own > 0 {
		return own
	}
	if len(d.Members) == 0 || w.Concurrency == 0 || w.OutputTokens == 0 {
		return 0
	}
	ct := d.Members[0].Container
	var words []string
	for _, w := range append(slices.Clone(ct.Entrypoint), ct.Command...) {
		words = append(words, w.Reveal())
	}
	at := slices.Index(words, "sim")
	if at < 0 {
		return 0
	}
	engine, _, err := sim.Command(words[at+1:])
	if err != nil {
		return 0 // it says so when it starts
	}
	rounds := math.Ceil(float64(w.Requests)/float64(w.Concurrency)) + math.Ceil(float64(w.Warmup)/float64(w.Concurrency))
	return time.Duration(rounds) * engine.Takes(w.Concurrency, w.OutputTokens)
}

// freePort finds a port that nothing listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
