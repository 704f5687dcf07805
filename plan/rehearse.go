package plan

import (
	"cmp"
	"slices"
	"time"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
)

// rehearsalLease is short: what is left behind is on this machine.
const rehearsalLease = time.Minute

// Rehearse plans the lab on this machine, with every engine simulated and every
// cell to be run. speed is how many times faster than real everything happens;
// port is asked for a free port for each engine.
func Rehearse(cfg *hcl.Config, speed float64, port func() (int, error)) (*Plan, error) {
	lab := *cfg
	lab.Lab.Name += "-rehearsal"
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
	simulated := map[*engines.Engine]*engines.Engine{}
	lab.Benchmarks = nil
	for _, b := range cfg.Benchmarks {
		cells := make([]hcl.Cell, len(b.Cells))
		for i, c := range b.Cells {
			if simulated[c.Engine] == nil {
				p, err := port()
				if err != nil {
					return nil, err
				}
				simulated[c.Engine] = engines.Simulated(c.Engine, standIn, p, speed)
			}
			c.Engine = simulated[c.Engine]
			c.Workload = hurried(c.Workload, speed)
			c.From = nil // all hosts are this machine
			cells[i] = c
		}
		b.Cells = cells
		lab.Benchmarks = append(lab.Benchmarks, b)
	}
	p := New(&lab, Options{})
	p.Rehearsal, p.Speed = true, speed
	return p, nil
}

// hurried is a workload with everything that has a pace or a length speed times
// faster. How long a request may take stays: a slow machine is not in a hurry.
func hurried(w load.Workload, speed float64) load.Workload {
	faster := func(r load.Rate) load.Rate { return load.Rate(float64(r) * speed) }
	shorter := func(d load.Duration) load.Duration { return load.Duration(float64(d) / speed) }
	w.Rate, w.Duration, w.Ramp = faster(w.Rate), shorter(w.Duration), shorter(w.Ramp)
	w.CutBeginning, w.CutEnd = shorter(w.CutBeginning), shorter(w.CutEnd)
	w.Hurried = speed != 1
	w.Stages = slices.Clone(w.Stages)
	for i, s := range w.Stages {
		w.Stages[i].Rate, w.Stages[i].Duration = faster(s.Rate), shorter(s.Duration)
	}
	if w.Dataset.Kind == load.Trace {
		w.Dataset.Slowdown = cmp.Or(w.Dataset.Slowdown, 1) / speed
	}
	return w
}
