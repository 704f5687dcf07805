package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
)

// rehearsalLease is short: what is left behind is on this machine.
const rehearsalLease = time.Minute

// RehearsalSuffix is what the name of a rehearsed lab ends with.
const RehearsalSuffix = "-rehearsal"

// Rehearse plans the lab on this machine, with every engine simulated and every
// cell to be run. speed is how many times faster than real everything happens;
// here says what there is. Prompts of files that are not there are made up, see [Plan.MadeUp].
func Rehearse(cfg *hcl.Config, speed float64, here Here) (*Plan, error) {
	lab := *cfg
	lab.Lab.Name += RehearsalSuffix
	lab.Lab.Lease = rehearsalLease
	hosts := map[*provision.Host]*provision.Host{}
	standIn := func(h *provision.Host) *provision.Host {
		if h == nil {
			h = local
		}
		if hosts[h] == nil {
			here := *local
			here.Name, here.GPUs, here.Pos = h.Name, h.GPUs, h.Pos
			hosts[h] = &here
		}
		return hosts[h]
	}
	type standing struct {
		of   *engines.Engine
		pace float64
	}
	simulated := map[standing]*engines.Engine{}
	taken := map[int]bool{}
	stand := func(e *engines.Engine, pace float64) (*engines.Engine, error) {
		as := standing{e, pace}
		if simulated[as] == nil {
			s, err := simulate(e, standIn, speed*pace, func(port int) bool { return !taken[port] && here.Free(port) })
			if err != nil {
				return nil, err
			}
			for _, m := range engines.Members(s) {
				for _, p := range m.Ports {
					taken[p.Number] = true
				}
			}
			simulated[as] = s
		}
		return simulated[as], nil
	}
	lab.Benchmarks, lab.Tunes = nil, nil
	var played madeUp
	for _, b := range cfg.Benchmarks {
		cells := make([]hcl.Cell, len(b.Cells))
		for i, c := range b.Cells {
			var err error
			if c.Engine, err = stand(c.Engine, 1); err != nil {
				return nil, err
			}
			c.Workload = hurried(played.in(c.Workload, b.Name, here.There), speed)
			c.From = nil // all hosts are this machine
			cells[i] = c
		}
		b.Cells = cells
		lab.Benchmarks = append(lab.Benchmarks, b)
	}
	for _, t := range cfg.Tunes {
		itself := func(e *engines.Engine) *engines.Engine { return e }
		lab.Tunes = append(lab.Tunes, t.With(itself, func(cells []hcl.Cell) []hcl.Cell {
			cells = slices.Clone(cells)
			for i, c := range cells {
				of := t.Objective
				if c.Asks != nil {
					of = t.Accuracy
				}
				cells[i].Workload, cells[i].From = hurried(played.in(c.Workload, of, here.There), speed), nil
			}
			return cells
		}))
	}
	p, err := draft(&lab, standIn, stand)
	if err != nil {
		return nil, err
	}
	p.Know(Options{})
	p.Rehearsal, p.Speed, p.MadeUp = true, speed, played
	return p, nil
}

// Here is what a rehearsal asks of the machine that it is on.
type Here struct {
	Free  func(port int) bool    // whether a port can be listened at
	There func(path string) bool // whether a data file of the lab is there
}

// MadeUp are prompts that a rehearsal makes up in the place of those in a file that is not there.
type MadeUp struct {
	Path       string
	Benchmarks []string // whose loads have them
	Prompts    []string // in words, each once
}

type madeUp []MadeUp

// in is a benchmark's load as it is rehearsed. What cannot be made up stays as it is: who reads it says that it is not there.
func (m *madeUp) in(w load.Workload, benchmark string, there func(string) bool) load.Workload {
	lacks := slices.DeleteFunc(w.Dataset.Inputs(), there)
	made, ok := w.MadeUp()
	if len(lacks) == 0 || !ok {
		return w
	}
	i := slices.IndexFunc(*m, func(o MadeUp) bool { return o.Path == lacks[0] })
	if i < 0 {
		i = len(*m)
		*m = append(*m, MadeUp{Path: lacks[0]})
	}
	once := func(in *[]string, word string) {
		if !slices.Contains(*in, word) {
			*in = append(*in, word)
		}
	}
	once(&(*m)[i].Benchmarks, benchmark)
	once(&(*m)[i].Prompts, made.Lengths())
	return made
}

// The ports of simulated engines are among these: above Linux gives them away by itself.
const lowestPort, highestPort = 10_000, 32_767

// simulate is an engine's stand-in at ports that are free.
func simulate(e *engines.Engine, place func(*provision.Host) *provision.Host, speed float64, free func(int) bool) (*engines.Engine, error) {
	const tries = 1000
	for range tries {
		stand := engines.Simulated(e, place, lowestPort+rand.IntN(highestPort-lowestPort), speed)
		all := true
		for _, m := range engines.Members(stand) {
			taken := func(p engines.NamedPort) bool { return p.Number > highestPort || !free(p.Number) }
			all = all && !slices.ContainsFunc(m.Ports, taken)
		}
		if all {
			return stand, nil
		}
	}
	return nil, fmt.Errorf("no free ports for %s were found on this machine", e)
}

// hurried is a workload with everything that has a pace or a length speed times
// faster. How long a request may take stays: a slow machine is not in a hurry.
func hurried(w load.Workload, speed float64) load.Workload {
	faster := func(r load.Rate) load.Rate { return load.Rate(float64(r) * speed) }
	shorter := func(d load.Duration) load.Duration {
		return max(load.Duration(float64(d)/speed), min(d, load.Duration(time.Millisecond))) // what is set is never less
	}
	w.Rate, w.Duration, w.Ramp = faster(w.Rate), shorter(w.Duration), shorter(w.Ramp)
	w.CutBeginning, w.CutEnd = shorter(w.CutBeginning), shorter(w.CutEnd)
	if speed != 1 {
		w.Speed = speed
	}
	d := &w.Dataset
	d.ThinkTime, d.ToolDelay, d.MaxDelay = shorter(d.ThinkTime), shorter(d.ToolDelay), shorter(d.MaxDelay)
	w.Stages = slices.Clone(w.Stages)
	for i, s := range w.Stages {
		w.Stages[i].Rate, w.Stages[i].Duration = faster(s.Rate), shorter(s.Duration)
	}
	if w.Dataset.Timed() {
		w.Dataset.Slowdown = cmp.Or(w.Dataset.Slowdown, 1) / speed
	}
	return w
}
