package reporttest

import (
	"fmt"
	"slices"
	"time"

	"hclbench/results"
	"hclbench/tune"
)

// Tuned are the cells of a tuning named "settings" under two loads, and its ledger: batching wins by 12 %, one option ran out of
// memory, one lost its race, one equals another, one was not tried, and the fourth start was broken off.
func Tuned() (rows []results.Row, ledger results.Ledger) {
	at := func(options ...string) tune.Candidate { return tune.Candidate{Options: options} }
	baseline, batched, both := at(), at("max-num-seqs=512"), at("max-num-seqs=512", "enable-chunked-prefill=false")
	slow, big := at("max-num-seqs=32"), at("", "gpu-memory-utilization=0.99")
	try := func(number int, phase tune.Phase, stage string, round int, c tune.Candidate, value float64, o tune.Outcome) {
		s := results.Tried{Start: tune.Start{Number: number, Phase: phase, Stage: stage, Round: round, Candidate: c}, Engine: "vllm.h200",
			Settings: c.Settings(), Run: Start.Format("20060102-150405"), Began: Start, Cost: tune.Cost{Time: 7 * time.Minute, Money: 2.5}}
		if c.Options != nil {
			s.Engine += fmt.Sprintf("[%q]", c.Settings())
		}
		if o != "" {
			s.Result = &tune.Result{Outcome: o, Score: tune.Score{Value: value}, Cost: s.Cost}
		}
		for i, n := range []int64{16, 64} {
			r := Row(s.Engine, n, 300, 20)
			r.Summary.OutputThroughput = value * float64(1+i) / 2
			r.ID, r.Benchmark, r.DeploymentID = fmt.Sprintf("%s-%d-%d", "start", len(ledger.Starts)+1, n), "settings", fmt.Sprint("start-", len(ledger.Starts)+1)
			r.Identity = map[string]string{"start": r.DeploymentID}
			s.Loads = append(s.Loads, results.TriedLoad{Cell: r.ID, Axes: r.Axes, Figure: r.Summary.OutputThroughput})
			switch {
			case value == 0:
				r.Summary, r.Error = nil, "does not serve: out of GPU memory"
			case o == tune.Beaten && i == 1:
				continue
			}
			rows = append(rows, r)
		}
		if o == tune.Measured {
			s.Result.At = "concurrency=64"
		}
		ledger.Starts = append(ledger.Starts, s)
	}
	try(1, tune.AA, "", 0, baseline, 2010, tune.Measured)
	try(2, tune.AA, "", 0, baseline, 1985, tune.Measured)
	try(3, tune.Search, "batching", 0, batched, 2290, tune.Measured)
	try(4, tune.Search, "batching", 0, slow, 900, "")
	try(4, tune.Search, "batching", 0, slow, 900, tune.Beaten)
	try(5, tune.Search, "memory", 0, both, 2310, tune.Measured)
	try(6, tune.Search, "memory", 0, big, 0, tune.OutOfMemory)
	for i, v := range [][2]float64{{2240, 2262}, {2251, 2249}, {2236, 2255}} {
		try(7+3*i, tune.Final, "", i+1, baseline, 2000+float64(i), tune.Measured)
		try(8+3*i, tune.Final, "", i+1, batched, v[0], tune.Measured)
		try(9+3*i, tune.Final, "", i+1, both, v[1], tune.Measured)
	}
	estimate := func(v, half float64, n int) *tune.Estimate {
		return &tune.Estimate{Value: v, Low: v - half, High: v + half, Starts: n}
	}
	standing := func(c tune.Candidate, stage string, fate tune.Fate, why string, starts int, searched, finals *tune.Estimate) tune.Standing {
		return tune.Standing{Settings: c.Settings(), Candidate: c, Stage: stage, Overrides: len(slices.DeleteFunc(slices.Clone(c.Options), func(s string) bool { return s == "" })),
			Fate: fate, Why: why, Starts: starts, Searched: searched, Finals: finals}
	}
	ledger.Summary = &tune.Summary{Tune: "settings", Objective: "chat", Figure: "output_throughput", Start: "vllm.h200", Confidence: 0.95, Over: true,
		Tied: []tune.Candidate{batched, both}, Leader: &both, Next: &batched, Gain: estimate(1.127, 0.015, 3), Lead: 0.006, Floor: new(0.014), Shows: new(0.023), Noise: 0.008,
		Why:   "the best differ by less than starts of the same do",
		Tried: 5, Of: 12, Starts: 16, Seconds: 16 * 420, Cost: 40, Text: "engine \"vllm\" \"settings-best\" {\n  inherits = engine.vllm.h200\n}\n",
		Candidates: []tune.Standing{
			standing(baseline, "", tune.Dominated, "", 5, estimate(1997, 30, 2), estimate(2001, 18, 3)),
			standing(batched, "batching", tune.Tied, "", 4, estimate(2290, 45, 1), estimate(2242, 20, 3)),
			standing(at("max-num-seqs=256"), "batching", tune.Duplicate, "served as: as it is", 0, nil, nil),
			standing(slow, "batching", tune.Dominated, "it lost its race: output_throughput 900 at concurrency=64", 1, nil, nil),
			standing(both, "memory", tune.Tied, "", 4, estimate(2310, 46, 1), estimate(2255, 20, 3)),
			standing(big, "memory", tune.Failed, "out of memory: does not serve: out of GPU memory", 1, nil, nil),
			standing(at("max-num-seqs=512", "gpu-memory-utilization=0.99"), "memory", tune.NotTried, "", 0, nil, nil),
		}}
	return rows, ledger
}
