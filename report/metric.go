package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/results"
	"hclbench/telemetry"
)

// Metric is one of the table of metrics, and how it is read out of a row.
type Metric struct {
	metric.Metric
	of     func(r *results.Row) (float64, bool)
	needs  func(r *results.Row) int    // values; 0: it has enough. Nil: any number is enough
	judged func(r *results.Row) string // by what, beside what was measured; nil: by nothing
}

// value is what the cell measured and its requests carry; a void cell measured nothing.
func (m Metric) value(r *results.Row) (float64, bool) {
	if !isMeasured(r) || m.lacks(r) > 0 {
		return 0, false
	}
	return m.of(r)
}

// lacks is how many values a percentile needs that the cell has of too few; 0: of enough, or of none.
func (m Metric) lacks(r *results.Row) int {
	if m.needs == nil || !isMeasured(r) {
		return 0
	}
	if _, ok := m.of(r); !ok {
		return 0
	}
	return m.needs(r)
}

// raw is the metric whether requests carry it or not: for programs, and who asks for it by name.
func (m Metric) raw() Metric {
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
	requestThroughput = Metric{Metric: metric.RequestThroughput,
		of: fromSummary(func(s *load.Summary) float64 { return s.RequestThroughput })}
	outputThroughput = Metric{Metric: metric.OutputThroughput,
		of: fromSummary(func(s *load.Summary) float64 { return s.OutputThroughput })}
	totalThroughput = Metric{Metric: metric.TotalThroughput,
		of: fromSummary(func(s *load.Summary) float64 { return s.TotalThroughput })}
	inputThroughput = Metric{Metric: metric.InputThroughput,
		of: fromSummary(func(s *load.Summary) float64 { return s.InputThroughput })}
	peakThroughput = Metric{Metric: metric.PeakThroughput,
		of: fromSummary(func(s *load.Summary) float64 { return s.PeakOutputThroughput })}
	goodput = Metric{Metric: metric.Goodput,
		of: func(r *results.Row) (float64, bool) {
			if r.Summary.Goodput == nil || isFast(r) {
				return 0, false
			}
			return *r.Summary.Goodput, true
		}, judged: sloText}
	duration = Metric{Metric: metric.Duration,
		of: fromSummary(func(s *load.Summary) float64 { return s.Duration })}
	completed = Metric{Metric: metric.Completed,
		of: func(r *results.Row) (float64, bool) {
			return float64(r.Summary.Completed), requestsKnown(r) && r.Summary.Knows("completed")
		}}
	failed = Metric{Metric: metric.Failed,
		of: func(r *results.Row) (float64, bool) {
			return float64(r.Summary.Failed), requestsKnown(r) && r.Summary.Knows("failed")
		}}
	inputTokens = Metric{Metric: metric.InputTokens,
		of: fromSummary(func(s *load.Summary) float64 { return float64(s.InputTokens) })}
	outputTokens = Metric{Metric: metric.OutputTokens,
		of: fromSummary(func(s *load.Summary) float64 { return float64(s.OutputTokens) })}
	meanConcurrency = Metric{Metric: metric.MeanConcurrency,
		of: fromSummary(func(s *load.Summary) float64 { return s.MeanConcurrency })}

	steadyFrom = Metric{Metric: metric.SteadyFrom,
		of: ofSteady(func(x *load.Part) float64 { return time.Duration(x.Window.From).Seconds() })}
	steadyTo = Metric{Metric: metric.SteadyTo,
		of: ofSteady(func(x *load.Part) float64 { return time.Duration(x.Window.To).Seconds() })}
	steadyOutput = Metric{Metric: metric.SteadyOutput,
		of: ofSteady(func(x *load.Part) float64 { return x.OutputThroughput })}

	prefixHits = Metric{Metric: metric.PrefixHits,
		of: fromTelemetry(100, func(t *telemetry.Record) *float64 { return t.PrefixHitRate })}
	acceptance = Metric{Metric: metric.Acceptance,
		of: fromTelemetry(100, func(t *telemetry.Record) *float64 { return t.Acceptance })}
	stepTokens = Metric{Metric: metric.StepTokens,
		of: fromTelemetry(1, func(t *telemetry.Record) *float64 { return t.StepTokens })}
	forcedAcceptance = Metric{Metric: metric.ForcedAcceptance,
		of: func(r *results.Row) (float64, bool) {
			tokens, _ := r.Deployment.ForcedAcceptance()
			return tokens, tokens > 0
		}}

	medianTTFT = latency(ttft, "median")
	medianTPOT = latency(tpot, "median")
	medianE2EL = latency(e2el, "median")

	perGPU = Metric{Metric: metric.OutputPerGPU,
		of: func(r *results.Row) (float64, bool) {
			n := r.Deployment.GPUsUsed()
			return r.Summary.OutputThroughput / float64(max(n, 1)), n > 0 && r.Summary.OutputThroughput > 0
		}}
	inputPerGPU = Metric{Metric: metric.InputPerGPU,
		of: func(r *results.Row) (float64, bool) {
			n := r.Deployment.GPUsUsed()
			return r.Summary.InputThroughput / float64(max(n, 1)), n > 0 && r.Summary.InputThroughput > 0
		}}
	perDecodeGPU = Metric{Metric: metric.OutputPerDecodeGPU,
		of: perRole("decode", func(s *load.Summary) float64 { return s.OutputThroughput })}
	perPrefillGPU = Metric{Metric: metric.InputPerPrefillGPU,
		of: perRole("prefill", func(s *load.Summary) float64 { return s.InputThroughput })}
	streamInterval = Metric{Metric: metric.StreamInterval,
		of: func(r *results.Row) (float64, bool) {
			n := r.Deployment.StreamInterval()
			return float64(n), n > 1
		}}
	interactivity = Metric{Metric: metric.Interactivity,
		of: func(r *results.Row) (float64, bool) {
			v, ok := medianTPOT.of(r)
			return 1000 / max(v, 1e-9), ok && v > 0
		}}
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

// timing is one of the latencies, and how it is read out of a summary.
type timing struct {
	metric.Timing
	of func(s *load.Summary) load.Stats
}

var (
	ttft = timing{metric.TTFT, func(s *load.Summary) load.Stats { return s.TTFT }}
	// where it is another than the time to the first token
	ttfa = timing{metric.TTFA, func(s *load.Summary) load.Stats {
		if s.TTFA == nil {
			return load.Stats{}
		}
		return *s.TTFA
	}}
	tpot = timing{metric.TPOT, func(s *load.Summary) load.Stats { return s.TPOT }}
	itl  = timing{metric.ITL, func(s *load.Summary) load.Stats { return s.ITL }}
	e2el = timing{metric.E2EL, func(s *load.Summary) load.Stats { return s.E2EL }}

	timings = []timing{ttft, ttfa, tpot, itl, e2el}
)

// latency is one statistic of a timing: "mean", "median", "std", "min", "max", or
// a percentile such as "p99".
func latency(t timing, statistic string) Metric {
	m := Metric{Metric: t.Timing.Metric(statistic)}
	m.of = func(r *results.Row) (float64, bool) {
		return figureOf(r.Summary, t.of(r.Summary), t.Key+"_ms", statistic)
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

// figures are the metrics that are no statistic of a timing.
func figures() []Metric {
	return []Metric{duration, completed, failed, inputTokens, outputTokens,
		requestThroughput, goodput, inputThroughput, outputThroughput, totalThroughput, peakThroughput, perGPU,
		perDecodeGPU, perPrefillGPU, inputPerGPU, interactivity, meanConcurrency, steadyFrom, steadyTo, steadyOutput,
		prefixHits, acceptance, stepTokens, forcedAcceptance, streamInterval, costOutput, costTotal, energyPerToken, meanPower}
}

// readers are how a row is read for a metric of the table.
func readers() func(m metric.Metric) Metric {
	all := figures()
	return func(m metric.Metric) Metric {
		if m.Timing == "" {
			return all[slices.IndexFunc(all, func(f Metric) bool { return f.Name == m.Name })]
		}
		return latency(timingOf(m.Timing), m.Statistic)
	}
}

func timingOf(key string) timing {
	return timings[slices.IndexFunc(timings, func(t timing) bool { return t.Key == key })]
}

// metricNamed is a metric by its name, whether any row has it or not.
func metricNamed(name string) (Metric, bool) {
	m, ok := metric.Named(name)
	if !ok {
		return Metric{}, false
	}
	return readers()(m), true
}

// allMetrics are all there are, the latencies with every percentile that any of the rows has.
func allMetrics(rows []results.Row) []Metric {
	table := metric.All(func(of metric.Timing) []string {
		t := timingOf(of.Key)
		var known []load.Stats
		for i := range rows {
			if s := rows[i].Summary; s != nil {
				known = append(known, t.of(s))
			}
		}
		return percentiles(known)
	})
	all, read := make([]Metric, len(table)), readers()
	for i, m := range table {
		all[i] = read(m)
	}
	return all
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
