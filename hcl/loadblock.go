package hcl

import (
	"regexp"
	"strconv"
	"time"

	"hclbench/load"
	"hclbench/provision"
)

func loadBlock() *blockType {
	return &blockType{
		name: "load",
		doc:  "How requests are sent. Say `concurrency`, `rate`, or both, or `stages`; offline, and with a trace, neither.",
		args: append(paceArguments(), requestArguments()...),
	}
}

// paceArguments say when requests are sent.
func paceArguments() []argument {
	return []argument{
		arg("concurrency", whole(1, 1_000_000), func(c *Cell, n int) { c.Workload.Concurrency = n },
			"no limit; required without `rate` or `stages`",
			"At most this many requests in flight. Without `rate`, the next is sent when one is done."),
		arg("rate", rate, func(c *Cell, r load.Rate) { c.Workload.Rate = r }, "as fast as `concurrency` allows",
			"Requests per second, whatever the server does; `\"inf\"` sends all at once."),
		arg("burstiness", rate, func(c *Cell, r load.Rate) { c.Workload.Burstiness = r }, "`1`",
			"Gamma shape of the times between arrivals: 1 is Poisson, less is burstier, `\"inf\"` is constant."),
		lasts("ramp", func(w *load.Workload) *load.Duration { return &w.Ramp }, "full pace from the start",
			"The rate, or the concurrency, grows evenly to its full value over this long."),
		arg("stages", stages, func(c *Cell, list []load.Stage) { c.Workload.Stages = list }, "one pace",
			"Parts with a pace of their own, one after the other: "+
				"`[{ duration = \"1m\", rate = 2 }, { duration = \"1m\", rate = 4 }]`, each with a `rate` or a `concurrency`. "+
				"Instead of `requests` and `duration`."),
	}
}

// requestArguments say what is sent, and what counts.
func requestArguments() []argument {
	return []argument{
		arg("output_tokens", whole(1, 1<<24), func(c *Cell, n int) { c.Workload.OutputTokens = n },
			"required, unless the data set has answers of its own", "Tokens asked for, per request."),
		arg("ignore_eos", truth, func(c *Cell, on bool) { c.Workload.IgnoreEOS = on }, "`true`",
			"Generate to the full length even where the model would end."),
		arg("temperature", number(0, 100), func(c *Cell, t float64) { c.Workload.Temperature = t }, "`0`",
			"Sampling temperature; 0 is greedy."),
		arg("extra_body", object, func(c *Cell, json string) { c.Workload.ExtraBody = json }, "nothing",
			"Merged into the body of every request."),
		arg("headers", headers, func(c *Cell, list []provision.EnvVar) { c.Headers = list }, "none",
			"Sent with every request: `{ X-Tenant = \"bench\" }`. Values may be sensitive; the others are stored with the results."),
		arg("endpoint", word(load.Completions, load.Chat, load.Generate),
			func(c *Cell, s string) { c.Workload.Endpoint = s }, "`\"completions\"`",
			"`/v1/completions`, `/v1/chat/completions`, or SGLang's `/generate`."),
		arg("stream", truth, func(c *Cell, on bool) { c.Workload.NoStream = !on }, "`true`",
			"Ask for responses token by token. Without it there is no time to first token."),
		arg("warmup_requests", whole(0, 1_000_000), func(c *Cell, n int) { c.Workload.Warmup = n }, "`0`",
			"Sent and waited for before the measurement."),
		lasts("warmup", func(w *load.Workload) *load.Duration { return &w.CutBeginning }, "nothing is cut",
			"This much of the run's beginning does not count."),
		lasts("cooldown", func(w *load.Workload) *load.Duration { return &w.CutEnd }, "nothing is cut",
			"This much of the run's end does not count."),
		lasts("timeout", func(w *load.Workload) *load.Duration { return &w.Timeout }, "`\"6h\"`", "For one request in all."),
		lasts("stall", func(w *load.Workload) *load.Duration { return &w.Stall }, "`\"5m\"`",
			"A request that brings no token for this long has failed."),
		arg("from", hostOfLab, func(c *Cell, h *provision.Host) { c.From = h }, "the engine's own host",
			"Send from this host instead: `host.NAME`. See [load from another host](#load-from-another-host)."),
	}
}

// lasts is an argument for a time of the load.
func lasts(name string, field func(*load.Workload) *load.Duration, fallback, doc string) argument {
	set := func(c *Cell, d time.Duration) { *field(&c.Workload) = load.Duration(d) }
	return arg(name, duration, set, fallback, doc)
}

func sloBlock() *blockType {
	bound := free(lasting(time.Nanosecond, 0), func(w *load.Workload, name string, most time.Duration) {
		o, _ := parseObjective(name)
		o.Max = load.Duration(most)
		w.SLO = append(w.SLO, o)
	})
	bound.named = func(name string) bool {
		_, ok := parseObjective(name)
		return ok
	}
	bound.hint = "A bound is named for a metric (ttft, tpot, itl, e2el or normalized_latency), " +
		"alone or with a percentile: ttft_p99"
	return &blockType{
		name: "slo",
		doc: "What counts as good: upper bounds. An argument is a metric, `ttft`, `tpot`, `itl`, `e2el` or " +
			"`normalized_latency`, alone (each request) or with a percentile: `ttft_p99 = \"5s\"`, `e2el_p99_9 = \"60s\"`.",
		free: bound,
	}
}

var objectiveName = regexp.MustCompile(`^(ttft|tpot|itl|e2el|normalized_latency)(?:_p(\d{1,2})(?:_(\d+))?)?$`)

// parseObjective reads "ttft_p99" or "e2el_p99_9".
func parseObjective(name string) (load.Objective, bool) {
	m := objectiveName.FindStringSubmatch(name)
	if m == nil {
		return load.Objective{}, false
	}
	o := load.Objective{Metric: m[1]}
	if m[2] == "" {
		return o, true
	}
	p, err := strconv.ParseFloat(m[2]+"."+m[3]+"0", 64)
	o.Percentile = p
	return o, err == nil && p > 0 && p < 100
}
