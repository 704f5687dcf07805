package hcl

import (
	"time"

	"hclbench/load"
	"hclbench/provision"
)

func loadBlock() *blockType {
	return &blockType{
		name: "load",
		hint: "How requests are sent. Say `concurrency`, `rate`, or both, or `stages`; offline, and with a trace, neither.",
		args: append(paceArguments(), requestArguments()...),
	}
}

// paceArguments say when requests are sent.
func paceArguments() []argument {
	return []argument{
		arg("concurrency", whole(1, 1_000_000), func(c *Cell, n int) { c.Workload.Concurrency = n }),
		arg("rate", rate, func(c *Cell, r load.Rate) { c.Workload.Rate = r }),
		arg("burstiness", rate, func(c *Cell, r load.Rate) { c.Workload.Burstiness = r }),
		arg("ramp", span, func(c *Cell, d load.Duration) { c.Workload.Ramp = d }),
		arg("stages", stages, func(c *Cell, list []load.Stage) { c.Workload.Stages = list }),
	}
}

// requestArguments say what is sent, and what counts.
func requestArguments() []argument {
	return []argument{
		arg("output_tokens", whole(1, 1<<24), func(c *Cell, n int) { c.Workload.OutputTokens = n }),
		arg("ignore_eos", truth, func(c *Cell, on bool) { c.Workload.IgnoreEOS = on }),
		arg("temperature", number(0, 100), func(c *Cell, t float64) { c.Workload.Temperature = t }),
		arg("extra_body", object, func(c *Cell, json string) { c.Workload.ExtraBody = json }),
		arg("headers", headers, func(c *Cell, list []provision.EnvVar) { c.Headers = list }),
		arg("endpoint", endpoint, func(c *Cell, s string) { c.Workload.Endpoint = s }),
		arg("stream", truth, func(c *Cell, on bool) { c.Workload.NoStream = !on }),
		arg("warmup_requests", whole(0, 1_000_000), func(c *Cell, n int) { c.Workload.Warmup = n }),
		arg("warmup", span, func(c *Cell, d load.Duration) { c.Workload.CutBeginning = d }),
		arg("cooldown", span, func(c *Cell, d load.Duration) { c.Workload.CutEnd = d }),
		arg("timeout", span, func(c *Cell, d load.Duration) { c.Workload.Timeout = d }),
		arg("stall", span, func(c *Cell, d load.Duration) { c.Workload.Stall = d }),
		arg("from", hostOfLab, func(c *Cell, h *provision.Host) { c.From = h }),
	}
}

func sloBlock() *blockType {
	bound := free(lasting[load.Duration](time.Nanosecond, 0), func(w *load.Workload, name string, most load.Duration) {
		o, _ := load.ParseObjective(name)
		o.Max = most
		w.SLO = append(w.SLO, o)
	})
	bound.named = func(name string) bool {
		_, ok := load.ParseObjective(name)
		return ok
	}
	bound.hint = "A bound is named for a metric (ttft, tpot, itl, e2el or normalized_latency), " +
		"alone or with a percentile: ttft_p99"
	return &blockType{
		name: "slo",
		free: bound,
	}
}
