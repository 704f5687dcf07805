package hcl

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MetricNames are the metrics that a report block may name, besides percentiles of
// the four timings: p99_ttft_ms.
func MetricNames() []string {
	return append(figures(), timed(statistics())...)
}

// figures are the metrics that are no statistic of a timing.
func figures() []string {
	return strings.Fields(`
		duration_s completed failed total_input_tokens total_output_tokens
		request_throughput goodput input_throughput output_throughput total_throughput peak_output_throughput
		output_throughput_per_gpu interactivity mean_concurrency
		prefix_cache_hit_rate speculative_acceptance tokens_per_step
		usd_per_million_output_tokens usd_per_million_total_tokens joules_per_output_token mean_gpu_power_w`)
}

func timings() []string    { return []string{"ttft", "tpot", "itl", "e2el"} }
func statistics() []string { return []string{"mean", "median", "std", "min", "max"} }

// timed are statistics of each timing.
func timed(statistics []string) []string {
	var names []string
	for _, timing := range timings() {
		for _, statistic := range statistics {
			names = append(names, statistic+"_"+timing+"_ms")
		}
	}
	return names
}

// metricNames are all metrics, with these percentiles.
func metricNames(percentiles []float64) []string {
	of := make([]string, len(percentiles))
	for i, p := range percentiles {
		of[i] = "p" + strconv.FormatFloat(p, 'f', -1, 64)
	}
	return append(MetricNames(), timed(of)...)
}

var percentileName = regexp.MustCompile(`^p[0-9]{1,2}(\.[0-9]+)?_(ttft|tpot|itl|e2el)_ms$`)

func isMetric(name string) bool {
	return slices.Contains(MetricNames(), name) || percentileName.MatchString(name)
}

// ColumnNames are the other columns of results that its conditions may be about,
// besides the axes of the lab.
func ColumnNames() []string {
	return slices.Concat(loadColumns(), seriesColumns(),
		strings.Fields("dataset lab run command cell digest verdict slo repetition gpu_count"))
}

// loadColumns are the quantities of the load that charts have along an axis.
func loadColumns() []string {
	return []string{"concurrency", "rate", "batch", "input_tokens", "output_tokens"}
}

// seriesColumns are those that set series apart.
func seriesColumns() []string {
	return []string{"gpus", "engine", "kind", "host", "model", "image", "benchmark"}
}
