// Package metric is the table of the figures of a run: their names, their headings, and which way is
// better. It knows no result: who reads the figures out of one adds how.
package metric

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Which way of a metric is better.
const (
	More    = 1
	Neither = 0
	Less    = -1
)

// Metric is one figure of a run.
type Metric struct {
	Name   string // as JSON, CSV and labs have it, "median_ttft_ms"; it never changes
	Title  string // where it stands alone: "Median time to first token"
	Group  string // of a table's header: "TTFT"; empty: none
	Short  string // below it: "p50"
	Unit   string // "tok/s", "ms"; empty: a count
	Better int    // [More], [Less] or [Neither]

	Timing    string // of a latency, the key of its [Timing]: "ttft"
	Statistic string // of a latency: one of [Statistics], or a percentile, "p99"
}

// The metrics that are no statistic of a timing.
var (
	Duration     = Metric{Name: "duration_s", Title: "Duration of the run", Short: "duration", Unit: "s", Better: Less}
	Completed    = Metric{Name: "completed", Title: "Requests completed", Group: "Requests", Short: "ok"}
	Failed       = Metric{Name: "failed", Title: "Requests failed", Group: "Requests", Short: "failed", Better: Less}
	InputTokens  = Metric{Name: "total_input_tokens", Title: "Input tokens", Group: "Tokens", Short: "input"}
	OutputTokens = Metric{Name: "total_output_tokens", Title: "Output tokens", Group: "Tokens", Short: "output"}

	RequestThroughput = Metric{Name: "request_throughput", Title: "Requests per second", Short: "req/s", Unit: "req/s", Better: More}
	Goodput           = Metric{Name: "goodput", Title: "Goodput: requests within the SLO", Short: "goodput/s", Unit: "req/s",
		Better: More}
	InputThroughput = Metric{Name: "input_throughput", Title: "Input throughput", Group: "Throughput", Short: "input",
		Unit: "tok/s", Better: More}
	OutputThroughput = Metric{Name: "output_throughput", Title: "Output throughput", Group: "Throughput", Short: "output",
		Unit: "tok/s", Better: More}
	TotalThroughput = Metric{Name: "total_throughput", Title: "Total throughput", Group: "Throughput", Short: "total",
		Unit: "tok/s", Better: More}
	PeakThroughput = Metric{Name: "peak_output_throughput", Title: "Output throughput, best second", Group: "Throughput",
		Short: "peak", Unit: "tok/s", Better: More}
	OutputPerGPU = Metric{Name: "output_throughput_per_gpu", Title: "Output throughput per GPU", Group: "Throughput",
		Short: "per GPU", Unit: "tok/s", Better: More}
	OutputPerDecodeGPU = Metric{Name: "output_throughput_per_decode_gpu", Title: "Output throughput per decode GPU",
		Group: "Throughput", Short: "out/decode GPU", Unit: "tok/s", Better: More}
	InputPerPrefillGPU = Metric{Name: "input_throughput_per_prefill_gpu", Title: "Input throughput per prefill GPU",
		Group: "Throughput", Short: "in/prefill GPU", Unit: "tok/s", Better: More}
	InputPerGPU = Metric{Name: "input_throughput_per_gpu", Title: "Input throughput per GPU", Group: "Throughput",
		Short: "in/GPU", Unit: "tok/s", Better: More}
	Interactivity = Metric{Name: "interactivity", Title: "Interactivity", Short: "per user", Unit: "tok/s", Better: More}

	MeanConcurrency = Metric{Name: "mean_concurrency", Title: "Requests in flight, on average", Short: "in flight"}
	SteadyFrom      = Metric{Name: "steady_from_s", Title: "Steady state begins", Group: "Steady", Short: "from", Unit: "s"}
	SteadyTo        = Metric{Name: "steady_to_s", Title: "Steady state ends", Group: "Steady", Short: "to", Unit: "s"}
	SteadyOutput    = Metric{Name: "steady_output_throughput", Title: "Output throughput in the steady state", Group: "Steady",
		Short: "output", Unit: "tok/s", Better: More}

	PrefixHits = Metric{Name: "prefix_cache_hit_rate", Title: "Prompt tokens found in the prefix cache", Short: "cache hits",
		Unit: "%"}
	Acceptance = Metric{Name: "speculative_acceptance", Title: "Drafted tokens that were accepted", Short: "accepted", Unit: "%",
		Better: More}
	StepTokens = Metric{Name: "tokens_per_step", Title: "Tokens per step of speculative decoding", Short: "per step",
		Better: More}
	ForcedAcceptance = Metric{Name: "forced_acceptance", Title: "Tokens per step that the engine was told to accept",
		Short: "forced"}
	StreamInterval = Metric{Name: "stream_interval", Title: "Tokens that the engine sends at a time", Short: "tok/chunk"}

	CostOutput = Metric{Name: "usd_per_million_output_tokens", Title: "Cost per million output tokens",
		Group: "USD per million", Short: "output", Unit: "USD", Better: Less}
	CostTotal = Metric{Name: "usd_per_million_total_tokens", Title: "Cost per million tokens, input and output",
		Group: "USD per million", Short: "total", Unit: "USD", Better: Less}
	EnergyPerToken = Metric{Name: "joules_per_output_token", Title: "Energy per output token", Group: "Energy", Short: "J/token",
		Unit: "J", Better: Less}
	MeanPower = Metric{Name: "mean_gpu_power_w", Title: "Power of all GPUs, on average", Group: "Energy", Short: "power",
		Unit: "W"}
)

// Figures are the metrics that are no statistic of a timing.
func Figures() []Metric { return slices.Concat(measured(), spent()) }

func measured() []Metric {
	return []Metric{Duration, Completed, Failed, InputTokens, OutputTokens,
		RequestThroughput, Goodput, InputThroughput, OutputThroughput, TotalThroughput, PeakThroughput, OutputPerGPU,
		OutputPerDecodeGPU, InputPerPrefillGPU, InputPerGPU, Interactivity, MeanConcurrency, SteadyFrom, SteadyTo,
		SteadyOutput, PrefixHits, Acceptance, StepTokens, ForcedAcceptance, StreamInterval}
}

// spent are the figures of what was paid for what was measured: they stand at the end of a table.
func spent() []Metric { return []Metric{CostOutput, CostTotal, EnergyPerToken, MeanPower} }

// Timing is one of the latencies of a run, which has a metric for each statistic, in milliseconds.
type Timing struct {
	Key   string // in names: "ttft"
	Title string // "time to first token"
}

// The latencies of a run. TTFA is there where it is another than TTFT.
var (
	TTFT = Timing{Key: "ttft", Title: "time to first token"}
	TTFA = Timing{Key: "ttfa", Title: "time to first token of the answer"}
	TPOT = Timing{Key: "tpot", Title: "time per output token"}
	ITL  = Timing{Key: "itl", Title: "inter-token latency"}
	E2EL = Timing{Key: "e2el", Title: "end-to-end latency"}
)

// Timings are all latencies.
func Timings() []Timing { return []Timing{TTFT, TTFA, TPOT, ITL, E2EL} }

// Statistics are those that every timing has, besides percentiles.
func Statistics() []string { return []string{"mean", "median", "std", "min", "max"} }

// Metric is one statistic of the timing: one of [Statistics], or a percentile such as "p99".
func (t Timing) Metric(statistic string) Metric {
	m := Metric{
		Name: statistic + "_" + t.Key + "_ms", Title: strings.ToUpper(statistic[:1]) + statistic[1:] + " " + t.Title,
		Group: strings.ToUpper(t.Key), Short: statistic, Unit: "ms", Better: Less, Timing: t.Key, Statistic: statistic,
	}
	if statistic == "median" {
		m.Short = "p50"
	}
	return m
}

// All are all metrics in the order of columns, with the percentiles that a timing has, "p99"; nil: none.
func All(percentiles func(Timing) []string) []Metric {
	all := measured()
	for _, t := range Timings() {
		statistics := Statistics()
		if percentiles != nil {
			statistics = append(statistics, percentiles(t)...)
		}
		for _, statistic := range statistics {
			all = append(all, t.Metric(statistic))
		}
	}
	return append(all, spent()...)
}

// Named is the metric of that name, which may be any percentile of a timing: "p99.9_ttft_ms".
func Named(name string) (m Metric, ok bool) {
	statistic, key, _ := strings.Cut(strings.TrimSuffix(name, "_ms"), "_")
	for _, m := range Figures() {
		if m.Name == name {
			return m, true
		}
	}
	for _, t := range Timings() {
		if t.Key == key && isStatistic(statistic) {
			m = t.Metric(statistic)
		}
	}
	return m, m.Name == name && name != ""
}

var percentile = regexp.MustCompile(`^p\d+(\.\d+)?$`)

func isStatistic(s string) bool {
	if percentile.MatchString(s) {
		p, err := strconv.ParseFloat(s[1:], 64)
		return err == nil && p <= 100
	}
	return slices.Contains(Statistics(), s)
}

// Names are the names of metrics.
func Names(metrics []Metric) []string {
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.Name
	}
	return names
}

// Heading is what conditions and filters call the metric besides its name: "ttft_p50".
func (m Metric) Heading() string { return Heading(m.Group + " " + m.Short) }

// Heading is what stands above a column as a name: in small letters, joined by underscores.
func Heading(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r != '.' && r != '%' && !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	}), "_")
}
