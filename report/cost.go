package report

import (
	"cmp"
	"strconv"
	"strings"

	"hclbench/results"
)

// The figures of what tokens cost. A host's price is shared out by GPUs: an engine
// on four of eight pays half of it.
var (
	costOutput = metric{"usd_per_million_output_tokens", "Cost per million output tokens", "USD per million", "output",
		"USD", -1,
		func(r *results.Row) (float64, bool) { return perMillion(r, r.Summary.OutputThroughput) }}
	costTotal = metric{"usd_per_million_total_tokens", "Cost per million tokens, input and output", "USD per million",
		"total", "USD", -1,
		func(r *results.Row) (float64, bool) { return perMillion(r, r.Summary.TotalThroughput) }}
	energyPerToken = metric{"joules_per_output_token", "Energy per output token", "Energy", "J/token", "J", -1,
		func(r *results.Row) (float64, bool) {
			tokens := r.Summary.OutputThroughput * r.Summary.Duration // of the window that the energy is of
			if r.Telemetry == nil || r.Telemetry.Energy <= 0 || tokens <= 0 {
				return 0, false
			}
			return r.Telemetry.Energy / tokens, true
		}}
	meanPower = metric{"mean_gpu_power_w", "Power of all GPUs, on average", "Energy", "power", "W", 0,
		func(r *results.Row) (float64, bool) {
			if r.Telemetry == nil || r.Telemetry.Energy <= 0 || r.Summary.Duration <= 0 {
				return 0, false
			}
			return r.Telemetry.Energy / r.Summary.Duration, true
		}}
)

// costs are the figures of what a cell's tokens cost, by name, as far as they are
// known.
func costs(r *results.Row) map[string]float64 {
	var out map[string]float64
	for _, m := range []metric{costOutput, costTotal, energyPerToken, meanPower} {
		if v, ok := m.value(r); ok {
			if out == nil {
				out = map[string]float64{}
			}
			out[m.name] = v
		}
	}
	return out
}

// perMillion is what a million tokens cost at so many a second, in USD.
func perMillion(r *results.Row, tokensPerSecond float64) (float64, bool) {
	price := r.Deployment.PricePerHour * share(r)
	if price <= 0 || tokensPerSecond <= 0 {
		return 0, false
	}
	return price / 3600 / tokensPerSecond * 1e6, true
}

// share is the part of its host's GPUs that an engine uses.
func share(r *results.Row) float64 {
	there, used := hostGPUs(r.Deployment.GPUs), r.Deployment.GPUCount
	if used > 0 && there > used {
		return float64(used) / float64(there)
	}
	return 1
}

// gpuCount is how many GPUs the engine uses; 0: not known.
func gpuCount(r *results.Row) int { return cmp.Or(r.Deployment.GPUCount, hostGPUs(r.Deployment.GPUs)) }

// hostGPUs reads "8xH200".
func hostGPUs(gpus string) int {
	n, _, found := strings.Cut(gpus, "x")
	count, err := strconv.Atoi(n)
	if !found || err != nil {
		return 0
	}
	return count
}
