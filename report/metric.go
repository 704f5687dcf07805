package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
)

// metric is one figure of a cell. The name is that of the columns in CSV and JSON
// and never changes; docs/report.md lists them.
type metric struct {
	name   string // "median_ttft_ms"
	title  string // in a chart: "Median time to first token"
	group  string // of a table's header: "TTFT"
	short  string // below it: "p50"
	unit   string // "tok/s", "ms"; empty: a count
	better int    // more is better: 1; less is: −1; neither: 0
	of     func(r *results.Row) (float64, bool)
	needs  func(r *results.Row) int    // values; 0: it has enough. Nil: any number is enough
	judged func(r *results.Row) string // by what, beside what was measured; nil: by nothing
}

// value is what the cell measured and its requests carry; a void cell measured nothing.
func (m metric) value(r *results.Row) (float64, bool) {
	if !isMeasured(r) || m.lacks(r) > 0 {
		return 0, false
	}
	return m.of(r)
}

// lacks is how many values a percentile needs that the cell has of too few; 0: of enough, or of none.
func (m metric) lacks(r *results.Row) int {
	if m.needs == nil || !isMeasured(r) {
		return 0
	}
	if _, ok := m.of(r); !ok {
		return 0
	}
	return m.needs(r)
}

// raw is the metric whether requests carry it or not: for programs, and who asks for it by name.
func (m metric) raw() metric {
	m.needs = nil
	return m
}

// fromSummary is a figure that is there when it is above zero: no throughput and
// no latency of a measured cell is zero.
func fromSummary(of func(s *load.Summary) float64) func(r *results.Row) (float64, bool) {
	return func(r *results.Row) (float64, bool) {
		v := of(r.Summary)
		return v, v > 0
	}
}

// requestsKnown reports whether a row counts its requests: what others published may not,
// and a cell in which none was completed is void.
func requestsKnown(r *results.Row) bool {
	return r.Summary.Completed > 0 || r.Summary.Failed > 0 || r.Summary.Verdict.Verdict == load.Void
}

// ofSteady is a figure of the time in which a closed loop was full, where one was found.
func ofSteady(of func(x *load.Part) float64) func(r *results.Row) (float64, bool) {
	return func(r *results.Row) (float64, bool) {
		x := r.Summary.Steady
		if x == nil || x.Window == nil {
			return 0, false
		}
		return of(x), true
	}
}

// fromTelemetry is a figure that the engine has told, in so many parts of its unit: 100 makes percent.
func fromTelemetry(parts float64, of func(t *telemetry.Record) *float64) func(r *results.Row) (float64, bool) {
	return func(r *results.Row) (float64, bool) {
		if r.Telemetry == nil || of(r.Telemetry) == nil {
			return 0, false
		}
		return parts * *of(r.Telemetry), true
	}
}

// The figures that tables and charts are made of.
var (
	requestThroughput = metric{"request_throughput", "Requests per second", "", "req/s", "req/s", 1,
		fromSummary(func(s *load.Summary) float64 { return s.RequestThroughput }), nil, nil}
	outputThroughput = metric{"output_throughput", "Output throughput", "Throughput", "output", "tok/s", 1,
		fromSummary(func(s *load.Summary) float64 { return s.OutputThroughput }), nil, nil}
	totalThroughput = metric{"total_throughput", "Total throughput", "Throughput", "total", "tok/s", 1,
		fromSummary(func(s *load.Summary) float64 { return s.TotalThroughput }), nil, nil}
	inputThroughput = metric{"input_throughput", "Input throughput", "Throughput", "input", "tok/s", 1,
		fromSummary(func(s *load.Summary) float64 { return s.InputThroughput }), nil, nil}
	peakThroughput = metric{"peak_output_throughput", "Output throughput, best second", "Throughput", "peak", "tok/s", 1,
		fromSummary(func(s *load.Summary) float64 { return s.PeakOutputThroughput }), nil, nil}
	goodput = metric{"goodput", "Goodput: requests within the SLO", "", "goodput/s", "req/s", 1,
		func(r *results.Row) (float64, bool) {
			if r.Summary.Goodput == nil || isFast(r) {
				return 0, false
			}
			return *r.Summary.Goodput, true
		}, nil, sloText}
	duration = metric{"duration_s", "Duration of the run", "", "duration", "s", -1,
		fromSummary(func(s *load.Summary) float64 { return s.Duration }), nil, nil}
	completed = metric{"completed", "Requests completed", "Requests", "ok", "", 0,
		func(r *results.Row) (float64, bool) {
			return float64(r.Summary.Completed), requestsKnown(r) && r.Summary.Knows("completed")
		}, nil, nil}
	failed = metric{"failed", "Requests failed", "Requests", "failed", "", -1,
		func(r *results.Row) (float64, bool) {
			return float64(r.Summary.Failed), requestsKnown(r) && r.Summary.Knows("failed")
		}, nil, nil}
	inputTokens = metric{"total_input_tokens", "Input tokens", "Tokens", "input", "", 0,
		fromSummary(func(s *load.Summary) float64 { return float64(s.InputTokens) }), nil, nil}
	outputTokens = metric{"total_output_tokens", "Output tokens", "Tokens", "output", "", 0,
		fromSummary(func(s *load.Summary) float64 { return float64(s.OutputTokens) }), nil, nil}
	meanConcurrency = metric{"mean_concurrency", "Requests in flight, on average", "", "in flight", "", 0,
		fromSummary(func(s *load.Summary) float64 { return s.MeanConcurrency }), nil, nil}

	steadyFrom = metric{"steady_from_s", "Steady state begins", "Steady", "from", "s", 0,
		ofSteady(func(x *load.Part) float64 { return time.Duration(x.Window.From).Seconds() }), nil, nil}
	steadyTo = metric{"steady_to_s", "Steady state ends", "Steady", "to", "s", 0,
		ofSteady(func(x *load.Part) float64 { return time.Duration(x.Window.To).Seconds() }), nil, nil}
	steadyOutput = metric{"steady_output_throughput", "Output throughput in the steady state", "Steady", "output", "tok/s",
		1,
		ofSteady(func(x *load.Part) float64 { return x.OutputThroughput }), nil, nil}

	prefixHits = metric{"prefix_cache_hit_rate", "Prompt tokens found in the prefix cache", "", "cache hits", "%", 0,
		fromTelemetry(100, func(t *telemetry.Record) *float64 { return t.PrefixHitRate }), nil, nil}
	acceptance = metric{"speculative_acceptance", "Drafted tokens that were accepted", "", "accepted", "%", 1,
		fromTelemetry(100, func(t *telemetry.Record) *float64 { return t.Acceptance }), nil, nil}
	stepTokens = metric{"tokens_per_step", "Tokens per step of speculative decoding", "", "per step", "", 1,
		fromTelemetry(1, func(t *telemetry.Record) *float64 { return t.StepTokens }), nil, nil}
	forcedAcceptance = metric{"forced_acceptance", "Tokens per step that the engine was told to accept", "", "forced", "", 0,
		func(r *results.Row) (float64, bool) {
			tokens, _ := r.Deployment.ForcedAcceptance()
			return tokens, tokens > 0
		}, nil, nil}

	medianTTFT = latency(ttft, "median")
	medianTPOT = latency(tpot, "median")
	medianE2EL = latency(e2el, "median")

	perGPU = metric{"output_throughput_per_gpu", "Output throughput per GPU", "Throughput", "per GPU", "tok/s", 1,
		func(r *results.Row) (float64, bool) {
			n := r.Deployment.GPUsUsed()
			return r.Summary.OutputThroughput / float64(max(n, 1)), n > 0 && r.Summary.OutputThroughput > 0
		}, nil, nil}
	inputPerGPU = metric{"input_throughput_per_gpu", "Input throughput per GPU", "Throughput", "in/GPU", "tok/s", 1,
		func(r *results.Row) (float64, bool) {
			n := r.Deployment.GPUsUsed()
			return r.Summary.InputThroughput / float64(max(n, 1)), n > 0 && r.Summary.InputThroughput > 0
		}, nil, nil}
	perDecodeGPU = metric{"output_throughput_per_decode_gpu", "Output throughput per decode GPU", "Throughput",
		"out/decode GPU", "tok/s", 1,
		perRole("decode", func(s *load.Summary) float64 { return s.OutputThroughput }), nil, nil}
	perPrefillGPU = metric{"input_throughput_per_prefill_gpu", "Input throughput per prefill GPU", "Throughput",
		"in/prefill GPU", "tok/s", 1,
		perRole("prefill", func(s *load.Summary) float64 { return s.InputThroughput }), nil, nil}
	streamInterval = metric{"stream_interval", "Tokens that the engine sends at a time", "", "tok/chunk", "", 0,
		func(r *results.Row) (float64, bool) {
			n := r.Deployment.StreamInterval()
			return float64(n), n > 1
		}, nil, nil}
	interactivity = metric{"interactivity", "Interactivity", "", "per user", "tok/s", 1,
		func(r *results.Row) (float64, bool) {
			v, ok := medianTPOT.of(r)
			return 1000 / max(v, 1e-9), ok && v > 0
		}, nil, nil}
)

// perRole shares a throughput out to the GPUs of the members of a role, where all are known.
func perRole(role string, of func(s *load.Summary) float64) func(r *results.Row) (float64, bool) {
	return func(r *results.Row) (float64, bool) {
		gpus, v := 0, of(r.Summary)
		for _, m := range r.Deployment.Members {
			switch {
			case m.Role != role:
			case m.GPUCount == 0:
				return 0, false
			default:
				gpus += m.GPUCount
			}
		}
		return v / float64(max(gpus, 1)), gpus > 0 && v > 0
	}
}

// timing is one of the latencies of a summary.
type timing struct {
	key   string // in column names
	title string
	of    func(s *load.Summary) load.Stats
}

var (
	ttft = timing{"ttft", "time to first token", func(s *load.Summary) load.Stats { return s.TTFT }}
	// where it is another than the time to the first token
	ttfa = timing{"ttfa", "time to first token of the answer", func(s *load.Summary) load.Stats {
		if s.TTFA == nil {
			return load.Stats{}
		}
		return *s.TTFA
	}}
	tpot = timing{"tpot", "time per output token", func(s *load.Summary) load.Stats { return s.TPOT }}
	itl  = timing{"itl", "inter-token latency", func(s *load.Summary) load.Stats { return s.ITL }}
	e2el = timing{"e2el", "end-to-end latency", func(s *load.Summary) load.Stats { return s.E2EL }}

	timings = []timing{ttft, ttfa, tpot, itl, e2el}
)

// latency is one statistic of a timing: "mean", "median", "std", "min", "max", or
// a percentile such as "p99".
func latency(t timing, statistic string) metric {
	m := metric{name: statistic + "_" + t.key + "_ms", title: sentence(statistic + " " + t.title),
		group: strings.ToUpper(t.key), short: statistic, unit: "ms", better: -1}
	if statistic == "median" {
		m.short = "p50"
	}
	m.of = func(r *results.Row) (float64, bool) {
		return figureOf(r.Summary, t.of(r.Summary), t.key+"_ms", statistic)
	}
	m.needs = func(r *results.Row) int { return t.of(r.Summary).Lacks(statistic) }
	return m
}

// figureOf is one statistic of a timing, whose member of a summary is this; ok is false where
// nobody knows it. A 0 is known where values were counted and nobody says that it is not.
func figureOf(s *load.Summary, of load.Stats, member, statistic string) (v float64, ok bool) {
	switch statistic {
	case "mean":
		v = of.Mean
	case "median":
		v = of.Median
	case "std":
		v = of.Std
	case "min":
		v = of.Min
	case "max":
		v = of.Max
	default:
		if v, ok = of.Percentiles[statistic[1:]]; !ok {
			return 0, false
		}
	}
	return v, v > 0 || v == 0 && of.Count > 0 && s.Knows(member+"."+statistic)
}

// allMetrics are all there are, the latencies with every percentile that any of the rows has.
func allMetrics(rows []results.Row) []metric {
	metrics := []metric{duration, completed, failed, inputTokens, outputTokens,
		requestThroughput, goodput, inputThroughput, outputThroughput, totalThroughput, peakThroughput, perGPU,
		perDecodeGPU, perPrefillGPU, inputPerGPU, interactivity, meanConcurrency, steadyFrom, steadyTo, steadyOutput,
		prefixHits, acceptance, stepTokens, forcedAcceptance, streamInterval}
	for _, t := range timings {
		var known []load.Stats
		for i := range rows {
			if s := rows[i].Summary; s != nil {
				known = append(known, t.of(s))
			}
		}
		for _, statistic := range append([]string{"mean", "median", "std", "min", "max"}, percentiles(known)...) {
			metrics = append(metrics, latency(t, statistic))
		}
	}
	return append(metrics, costOutput, costTotal, energyPerToken, meanPower)
}

// percentiles are those that any of the timings has, rising, but for the median: "p90".
func percentiles(all []load.Stats) []string {
	at := map[string]float64{}
	for _, s := range all {
		for p := range s.Percentiles {
			if v, err := strconv.ParseFloat(p, 64); err == nil && v != 50 {
				at["p"+p] = v
			}
		}
	}
	return slices.SortedFunc(maps.Keys(at), func(a, b string) int { return cmp.Compare(at[a], at[b]) })
}
