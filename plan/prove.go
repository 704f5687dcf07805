package plan

import (
	"fmt"
	"time"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
)

// Prove plans that one engine of the lab is started several times, from 2 on, to find out how far its starts lie apart:
// each start measures the first and the last load of the lab on it, made short. Nothing of it is done before, and
// nothing of it is a result of the lab. Without a label it is the first engine that can be started.
func Prove(cfg *hcl.Config, label string, starts int) (*Plan, error) {
	var of *engines.Engine
	var loads []hcl.Benchmark // each with one cell
	for _, b := range cfg.Benchmarks {
		for _, c := range b.Cells {
			if c.Offline || c.Asks != nil || engines.ByOthers(c.Engine) || label != "" && c.Engine.Label() != label || of != nil && c.Engine != of {
				continue
			}
			of = c.Engine
			one := b
			one.Repeat, one.Cells = 1, []hcl.Cell{c}
			loads = append(loads, one)
		}
	}
	switch {
	case of == nil && label == "":
		return nil, fmt.Errorf("no benchmark sends load to an engine that hcl starts: there is nothing to prove its hosts with")
	case of == nil:
		return nil, fmt.Errorf("no benchmark sends load to an engine %s that hcl starts", label)
	case len(loads) > 2:
		loads = []hcl.Benchmark{loads[0], loads[len(loads)-1]}
	}
	proof := *cfg
	proof.Benchmarks, proof.Tunes = nil, nil
	for range starts {
		again := *of // which is another engine to a plan, and equal
		for _, b := range loads {
			c := b.Cells[0]
			c.Engine, c.Workload = &again, shortened(c.Workload)
			b.Cells = []hcl.Cell{c}
			proof.Benchmarks = append(proof.Benchmarks, b)
		}
	}
	return New(&proof, Options{}), nil
}

// What is sent to prove a box, where the lab sends more.
const (
	provedWithin = time.Minute // at a rate, or for a time
	provedRounds = 4           // of all that are in flight
	provedLeast  = 64          // requests
)

// shortened is a workload of the same kind that takes about a minute; one that cannot be cut stays.
func shortened(w load.Workload) load.Workload {
	short := w
	if w.Requests > 0 {
		enough := max(provedLeast, provedRounds*w.Concurrency)
		if w.Rate != load.Inf {
			enough = max(enough, int(float64(w.Rate)*provedWithin.Seconds()))
		}
		short.Requests = min(w.Requests, enough)
	}
	if w.Duration > 0 {
		short.Duration = min(w.Duration, load.Duration(provedWithin)+w.CutBeginning+w.CutEnd+w.Ramp)
	}
	if short.Check() != nil {
		return w
	}
	return short
}
