package plan

import (
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
			hosts[h] = &provision.Host{Name: h.Name, Address: provision.LocalAddress, GPUs: h.GPUs, Runtime: provision.Process, Pos: h.Pos}
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
				simulated[c.Engine] = engines.Simulated(c.Engine, standIn(c.Engine.Host), p, speed)
			}
			c.Engine = simulated[c.Engine]
			c.Workload.Rate = load.Rate(float64(c.Workload.Rate) * speed)
			c.Workload.Duration = load.Duration(float64(c.Workload.Duration) / speed)
			cells[i] = c
		}
		b.Cells = cells
		lab.Benchmarks = append(lab.Benchmarks, b)
	}
	p := New(&lab, Options{})
	p.Rehearsal = true
	return p, nil
}
