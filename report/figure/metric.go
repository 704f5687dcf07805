// Package figure is what was measured, put together: metrics, cells with their evidence, series, slices, and
// who leads where. It names things and says nothing of them: it knows no sentence and no layout.
package figure

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/telemetry"
)

// Metric is one of the table of metrics, and how it is read out of a row.
type Metric struct {
	metric.Metric
	Of     func(r *results.Row) (float64, bool)
	needs  func(r *results.Row) int    // values; 0: it has enough. Nil: any number is enough
	judged func(r *results.Row) string // by what, beside what was measured; nil: by nothing
}

// Value is what the cell measured and its requests carry; a void cell measured nothing.
func (m Metric) Value(r *results.Row) (float64, bool) {
	if !IsMeasured(r) || m.Lacks(r) > 0 {
		return 0, false
	}
	return m.Of(r)
}

// Lacks is how many values a percentile needs that the cell has of too few; 0: of enough, or of none.
func (m Metric) Lacks(r *results.Row) int {
	if m.needs == nil || !IsMeasured(r) {
		return 0
	}
	if _, ok := m.Of(r); !ok {
		return 0
	}
	return m.needs(r)
}

// Raw is the metric whether requests carry it or not: for programs, and who asks for it by name.
func (m Metric) Raw() Metric {
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
	RequestThroughput = Metric{Metric: metric.RequestThroughput,
		Of: fromSummary(func(s *load.Summary) float64 { return s.RequestThroughput })}
	OutputThroughput = Metric{Metric: metric.OutputThroughput,
		Of: fromSummary(func(s *load.Summary) float64 { return s.OutputThroughput })}
	TotalThroughput = Metric{Metric: metric.TotalThroughput,
		Of: fromSummary(func(s *load.Summary) float64 { return s.TotalThroughput })}
	InputThroughput = Metric{Metric: metric.InputThroughput,
		Of: fromSummary(func(s *load.Summary) float64 { return s.InputThroughput })}
	peakThroughput = Metric{Metric: metric.PeakThroughput,
		Of: fromSummary(func(s *load.Summary) float64 { return s.PeakOutputThroughput })}
	Goodput = Metric{Metric: metric.Goodput,
		Of: func(r *results.Row) (float64, bool) {
			if r.Summary.Goodput == nil || IsFast(r) {
				return 0, false
			}
			return *r.Summary.Goodput, true
		}, judged: sloText}
	Duration = Metric{Metric: metric.Duration,
		Of: fromSummary(func(s *load.Summary) float64 { return s.Duration })}
	Completed = Metric{Metric: metric.Completed,
		Of: func(r *results.Row) (float64, bool) {
			return float64(r.Summary.Completed), requestsKnown(r) && r.Summary.Knows("completed")
		}}
	Failed = Metric{Metric: metric.Failed,
		Of: func(r *results.Row) (float64, bool) {
			return float64(r.Summary.Failed), requestsKnown(r) && r.Summary.Knows("failed")
		}}
	inputTokens = Metric{Metric: metric.InputTokens,
		Of: fromSummary(func(s *load.Summary) float64 { return float64(s.InputTokens) })}
	outputTokens = Metric{Metric: metric.OutputTokens,
		Of: fromSummary(func(s *load.Summary) float64 { return float64(s.OutputTokens) })}
	meanConcurrency = Metric{Metric: metric.MeanConcurrency,
		Of: fromSummary(func(s *load.Summary) float64 { return s.MeanConcurrency })}

	steadyFrom = Metric{Metric: metric.SteadyFrom,
		Of: ofSteady(func(x *load.Part) float64 { return time.Duration(x.Window.From).Seconds() })}
	steadyTo = Metric{Metric: metric.SteadyTo,
		Of: ofSteady(func(x *load.Part) float64 { return time.Duration(x.Window.To).Seconds() })}
	steadyOutput = Metric{Metric: metric.SteadyOutput,
		Of: ofSteady(func(x *load.Part) float64 { return x.OutputThroughput })}

	PrefixHits = Metric{Metric: metric.PrefixHits,
		Of: fromTelemetry(100, func(t *telemetry.Record) *float64 { return t.PrefixHitRate })}
	Acceptance = Metric{Metric: metric.Acceptance,
		Of: fromTelemetry(100, func(t *telemetry.Record) *float64 { return t.Acceptance })}
	StepTokens = Metric{Metric: metric.StepTokens,
		Of: fromTelemetry(1, func(t *telemetry.Record) *float64 { return t.StepTokens })}
	forcedAcceptance = Metric{Metric: metric.ForcedAcceptance,
		Of: func(r *results.Row) (float64, bool) {
			tokens, _ := r.Deployment.ForcedAcceptance()
			return tokens, tokens > 0
		}}

	MedianTTFT = Latency(TTFT, "median")
	MedianTPOT = Latency(TPOT, "median")
	MedianE2EL = Latency(E2EL, "median")

	PerGPU = Metric{Metric: metric.OutputPerGPU,
		Of: func(r *results.Row) (float64, bool) {
			n := r.Deployment.GPUsUsed()
			return r.Summary.OutputThroughput / float64(max(n, 1)), n > 0 && r.Summary.OutputThroughput > 0
		}}
	InputPerGPU = Metric{Metric: metric.InputPerGPU,
		Of: func(r *results.Row) (float64, bool) {
			n := r.Deployment.GPUsUsed()
			return r.Summary.InputThroughput / float64(max(n, 1)), n > 0 && r.Summary.InputThroughput > 0
		}}
	PerDecodeGPU = Metric{Metric: metric.OutputPerDecodeGPU,
		Of: perRole("decode", func(s *load.Summary) float64 { return s.OutputThroughput })}
	PerPrefillGPU = Metric{Metric: metric.InputPerPrefillGPU,
		Of: perRole("prefill", func(s *load.Summary) float64 { return s.InputThroughput })}
	StreamInterval = Metric{Metric: metric.StreamInterval,
		Of: func(r *results.Row) (float64, bool) {
			n := r.Deployment.StreamInterval()
			return float64(n), n > 1
		}}
	Interactivity = Metric{Metric: metric.Interactivity,
		Of: func(r *results.Row) (float64, bool) {
			v, ok := MedianTPOT.Of(r)
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

// Timing is one of the latencies, and how it is read out of a summary.
type Timing struct {
	metric.Timing
	Of func(s *load.Summary) load.Stats
}

var (
	TTFT = Timing{metric.TTFT, func(s *load.Summary) load.Stats { return s.TTFT }}
	// where it is another than the time to the first token
	TTFA = Timing{metric.TTFA, func(s *load.Summary) load.Stats {
		if s.TTFA == nil {
			return load.Stats{}
		}
		return *s.TTFA
	}}
	TPOT = Timing{metric.TPOT, func(s *load.Summary) load.Stats { return s.TPOT }}
	ITL  = Timing{metric.ITL, func(s *load.Summary) load.Stats { return s.ITL }}
	E2EL = Timing{metric.E2EL, func(s *load.Summary) load.Stats { return s.E2EL }}

	Timings = []Timing{TTFT, TTFA, TPOT, ITL, E2EL}
)

// Latency is one statistic of a timing: "mean", "median", "std", "min", "max", or
// a percentile such as "p99".
func Latency(t Timing, statistic string) Metric {
	m := Metric{Metric: t.Timing.Metric(statistic)}
	m.Of = func(r *results.Row) (float64, bool) {
		return FigureOf(r.Summary, t.Of(r.Summary), t.Key+"_ms", statistic)
	}
	m.needs = func(r *results.Row) int { return t.Of(r.Summary).Lacks(statistic) }
	return m
}

// FigureOf is one statistic of a timing, whose member of a summary is this; ok is false where
// nobody knows it. A 0 is known where values were counted and nobody says that it is not.
func FigureOf(s *load.Summary, of load.Stats, member, statistic string) (v float64, ok bool) {
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
	return []Metric{Duration, Completed, Failed, inputTokens, outputTokens,
		RequestThroughput, Goodput, InputThroughput, OutputThroughput, TotalThroughput, peakThroughput, PerGPU,
		PerDecodeGPU, PerPrefillGPU, InputPerGPU, Interactivity, meanConcurrency, steadyFrom, steadyTo, steadyOutput,
		PrefixHits, Acceptance, StepTokens, forcedAcceptance, StreamInterval, CostOutput, CostTotal, EnergyPerToken, meanPower}
}

// readers are how a row is read for a metric of the table.
func readers() func(m metric.Metric) Metric {
	all := figures()
	return func(m metric.Metric) Metric {
		if m.Timing == "" {
			return all[slices.IndexFunc(all, func(f Metric) bool { return f.Name == m.Name })]
		}
		return Latency(timingOf(m.Timing), m.Statistic)
	}
}

func timingOf(key string) Timing {
	return Timings[slices.IndexFunc(Timings, func(t Timing) bool { return t.Key == key })]
}

// AllMetrics are all there are, the latencies with every percentile that any of the rows has.
func AllMetrics(rows []results.Row) []Metric {
	table := metric.All(func(of metric.Timing) []string {
		t := timingOf(of.Key)
		var known []load.Stats
		for i := range rows {
			if s := rows[i].Summary; s != nil {
				known = append(known, t.Of(s))
			}
		}
		return Percentiles(known)
	})
	all, read := make([]Metric, len(table)), readers()
	for i, m := range table {
		all[i] = read(m)
	}
	return all
}

// Percentiles are those that any of the timings has, rising, but for the median: "p90".
func Percentiles(all []load.Stats) []string {
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

// The figures of what tokens cost. A host's price is shared out by GPUs: an engine
// on four of eight pays half of it.
var (
	CostOutput = Metric{Metric: metric.CostOutput,
		Of: func(r *results.Row) (float64, bool) { return perMillion(r, r.Summary.OutputThroughput) }, judged: priceText}
	CostTotal = Metric{Metric: metric.CostTotal,
		Of: func(r *results.Row) (float64, bool) { return perMillion(r, r.Summary.TotalThroughput) }, judged: priceText}
	EnergyPerToken = Metric{Metric: metric.EnergyPerToken,
		Of: func(r *results.Row) (float64, bool) {
			tokens := r.Summary.OutputThroughput * r.Summary.Duration // of the window that the energy is of
			if r.Telemetry == nil || r.Telemetry.Energy <= 0 || tokens <= 0 {
				return 0, false
			}
			return r.Telemetry.Energy / tokens, true
		}}
	meanPower = Metric{Metric: metric.MeanPower,
		Of: func(r *results.Row) (float64, bool) {
			if r.Telemetry == nil || r.Telemetry.Energy <= 0 || r.Summary.Duration <= 0 {
				return 0, false
			}
			return r.Telemetry.Energy / r.Summary.Duration, true
		}}
)

// derivation is a figure that another one alone decides, as a multiple of it or as so much over it.
type derivation struct {
	Metric
	from Metric
	over bool // it is a constant over the other: the more of that, the less of this
}

// derived are all of them. Energy is none: how much power was drawn varies too.
var derived = []derivation{
	{PerGPU, OutputThroughput, false}, {PerDecodeGPU, OutputThroughput, false}, {PerPrefillGPU, InputThroughput, false},
	{InputPerGPU, InputThroughput, false},
	{Interactivity, MedianTPOT, true}, {CostOutput, OutputThroughput, true}, {CostTotal, TotalThroughput, true},
}

// Interval is where the truth behind a figure lies in 95 of 100 runs; ok is false where the
// run does not tell.
func (m Metric) Interval(r *results.Row) (x load.Interval, ok bool) {
	v, measured := m.Value(r)
	if !measured {
		return x, false
	}
	for _, d := range derived {
		if d.Name == m.Name {
			return d.bounds(r, v)
		}
	}
	name := m.Name
	if m.Timing != "" {
		name = m.Timing + "_ms." + m.Statistic
	}
	x, ok = r.Summary.Intervals[name]
	return x, ok
}

// bounds is the interval of what the figure is derived from, as the figure's own, which is v.
func (d derivation) bounds(r *results.Row, v float64) (load.Interval, bool) {
	x, ok := d.from.Interval(r)
	of, known := d.from.Value(r)
	switch {
	case !ok || !known || of <= 0 || d.over && x.Low <= 0:
		return load.Interval{}, false
	case d.over:
		return load.Interval{Low: v * of / x.High, High: v * of / x.Low}, true
	}
	return load.Interval{Low: v / of * x.Low, High: v / of * x.High}, true
}

// DerivedIntervals are those of the figures of a row that its summary does not have, by name.
func DerivedIntervals(r *results.Row) map[string]load.Interval {
	all := map[string]load.Interval{}
	for _, d := range derived {
		if x, ok := d.Interval(r); ok {
			all[d.Name] = x
		}
	}
	return all
}

// Apart says of single measurements whether their intervals, which say nothing of other starts
// of the engines, have a value in common; empty where either has none.
func Apart(m Metric, a, b []*results.Row) string {
	if len(a) != 1 || len(b) != 1 {
		return ""
	}
	x, ofA := m.Interval(a[0])
	y, ofB := m.Interval(b[0])
	switch {
	case !ofA || !ofB:
		return ""
	case x.High < y.Low || y.High < x.Low:
		return "apart"
	}
	return "overlap"
}

// Bounded reports whether a timing of a summary has an interval.
func Bounded(s *load.Summary, member string) bool {
	for name := range s.Intervals {
		if strings.HasPrefix(name, member+".") {
			return true
		}
	}
	return false
}

// TailPercentile is the percentile that stands for the slowest requests: "p99", or else the greatest
// that all measured cells have and one has requests enough for.
func TailPercentile(rows []results.Row) string {
	var known []load.Stats
	for _, r := range Those(rows, IsMeasured) {
		known = append(known, r.Summary.TTFT)
	}
	if Silent(rows) {
		for i, r := range Those(rows, IsMeasured) {
			known[i] = r.Summary.E2EL
		}
	}
	all := Percentiles(known)
	slices.Reverse(all)
	for _, p := range append([]string{"p99"}, all...) {
		lacks := func(s load.Stats) bool { _, has := s.Percentiles[p[1:]]; return !has }
		carries := func(s load.Stats) bool { return s.Lacks(p) == 0 }
		if !slices.ContainsFunc(known, lacks) && slices.ContainsFunc(known, carries) {
			return p
		}
	}
	return "p99"
}

// Silent reports whether no request of the measured rows has generated a token, as those for embeddings do not.
func Silent(rows []results.Row) bool {
	measured := Those(rows, IsMeasured)
	return len(measured) > 0 && !slices.ContainsFunc(measured, func(r *results.Row) bool { return !r.Summary.Silent() })
}

// AnyValue reports whether any of the rows has the metric.
func AnyValue(rows []results.Row, m Metric) bool {
	return slices.ContainsFunc(rows, func(r results.Row) bool { _, ok := m.Value(&r); return ok })
}

// Chosen are the metrics of these names, as far as there are any.
func Chosen(names []string) []Metric {
	var out []Metric
	for _, name := range names {
		if m, ok := Named(name); ok {
			out = append(out, m)
		}
	}
	return out
}

// Named is a metric by its name, whether any row has it or not.
func Named(name string) (Metric, bool) {
	m, ok := metric.Named(name)
	if !ok {
		return Metric{}, false
	}
	return readers()(m), true
}

// perMillion is what a million tokens cost at so many a second, in USD.
func perMillion(r *results.Row, tokensPerSecond float64) (float64, bool) {
	price := price(&r.Deployment)
	if price <= 0 || tokensPerSecond <= 0 {
		return 0, false
	}
	return price / 3600 / tokensPerSecond * 1e6, true
}

func priceText(r *results.Row) string { return number.Exact(price(&r.Deployment)) + " USD an hour" }

// price is what an engine costs an hour, in USD: of each host the share of its GPUs. A host
// none of whose GPUs are known to be used counts whole.
func price(d *results.Deployment) (usd float64) {
	if d.PricePerHour <= 0 {
		return 0
	}
	for _, of := range Grouped(HostsOf(d), func(m results.Member) string { return m.Host }) {
		share, there, used := 1.0, results.CountGPUs(of[0].GPUs), 0
		for _, m := range of {
			used += m.GPUCount
		}
		if used > 0 && there > used {
			share = float64(used) / float64(there)
		}
		usd += of[0].Price * share
	}
	return usd
}
