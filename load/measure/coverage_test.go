package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hclbench/load"
)

// answer is how long answers of toys are, on average.
const answer = 50

// toy is an engine that batches, without a clock: a step takes the longer the more it serves and
// the more prompts it reads, and neighbouring steps are alike.
type toy struct {
	load.Workload
	uneven float64 // how far from it they are
	noise  float64
	memory float64 // of one step for the one before
	drift  float64 // how much slower the last step is than the first, as a share
	most   int     // requests at once; 0: no bound
}

func (e toy) run(seed uint64) (records []load.Record, d time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 7))
	type job struct{ i, left int }
	var waiting, active []job
	now, level := time.Duration(0), 0.0
	gap := func() time.Duration { return time.Duration(rng.ExpFloat64() / float64(e.Rate) * 1e9) }
	arrive := func(at time.Duration) {
		length := max(1, int(float64(answer)*(1+e.uneven*(2*rng.Float64()-1))))
		records = append(records, load.Record{Seq: len(records), Scheduled: at, Ready: at, Sent: at, InputTokens: 100, AskedInput: 100, OutputTokens: length, AskedOutput: length})
		waiting = append(waiting, job{len(records) - 1, length})
	}
	for range e.Concurrency {
		arrive(0)
	}
	due := time.Duration(0)
	if e.Rate > 0 {
		due = gap()
	}
	for done := 0; done < e.Requests; {
		for e.Rate > 0 && len(records) < e.Requests && due <= now {
			arrive(due)
			due += gap()
		}
		if len(waiting)+len(active) == 0 {
			now = due
			continue
		}
		joined := 0
		for len(waiting) > 0 && joined < 8 && (e.most == 0 || len(active) < e.most) {
			active = append(active, waiting[0])
			waiting = waiting[1:]
			joined++
		}
		level = e.memory*level + math.Sqrt(1-e.memory*e.memory)*rng.NormFloat64()
		slower := math.Exp(e.noise*level) * (1 + e.drift*float64(done)/float64(e.Requests))
		took := time.Duration(slower * (float64(10*msec)*(1+float64(len(active))/64) + float64(3*msec)*float64(joined)))
		now += took
		for k := 0; k < len(active); k++ {
			j := &active[k]
			r := &records[j.i]
			at := now + time.Duration(rng.Float64()*float64(200*time.Microsecond))
			if r.First == 0 {
				r.First = at
			} else {
				r.Gaps = append(r.Gaps, at-r.Last)
			}
			r.Last, r.End = at, at
			if j.left--; j.left > 0 {
				continue
			}
			done++
			d = max(d, at)
			active = slices.Delete(active, k, k+1)
			k--
			if e.Rate == 0 && len(records) < e.Requests {
				arrive(at)
			}
		}
	}
	slices.SortStableFunc(records, func(a, b load.Record) int { return int(a.Sent - b.Sent) })
	return records, d
}

// toys are engines and loads that differ in what is like what before it.
var toys = []named{
	{"same", toy{Workload: load.Workload{Concurrency: 16, Requests: 1000}, noise: 0.1}},
	{"mixed", toy{Workload: load.Workload{Concurrency: 16, Requests: 1000}, uneven: 0.5, noise: 0.1}},
	{"moody", toy{Workload: load.Workload{Concurrency: 16, Requests: 1000}, uneven: 0.5, noise: 0.2, memory: 0.95}},
	{"open", toy{Workload: load.Workload{Rate: 20, Requests: 4000}, uneven: 0.5, noise: 0.1, memory: 0.9}},
	{"busy", toy{Workload: load.Workload{Rate: 26, Requests: 4000}, uneven: 0.5, noise: 0.1, memory: 0.9, most: 32}},
}

type named struct {
	name string
	toy
}

// overloaded is asked for more than it can do.
var overloaded = named{"overloaded", toy{Workload: load.Workload{Rate: 45}, uneven: 0.5, noise: 0.1, most: 32}}

// unseen is the first of the seeds of the benchmarks: the estimators were made with others.
const unseen = 4000

// BenchmarkCoverage says how many of 100 intervals hold the truth, which is that of all runs together.
func BenchmarkCoverage(b *testing.B) {
	const runs = 500
	for _, x := range toys {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				found, ttft, itl, throughput, goodput := map[string][]load.Interval{}, []float64(nil), load.Histogram{}, 0.0, 0.0
				x.SLO = []load.Objective{{Metric: "e2el", Max: load.Duration(answer * 14 * msec)}}
				for seed := range uint64(runs) {
					records, d := x.run(unseen + seed)
					s := Summarize(x.Workload, []float64{95}, time.Time{}, d, records)
					for name, interval := range s.Intervals {
						found[name] = append(found[name], interval)
					}
					throughput += s.OutputThroughput / runs
					goodput += *s.Goodput / runs
					for _, r := range records {
						ttft = append(ttft, load.Ms(r.First-r.Sent))
						for _, g := range r.Gaps {
							itl.Add(g)
						}
					}
				}
				slices.Sort(ttft)
				for _, f := range []struct {
					name  string
					truth float64
				}{{"ttft_ms.p95", load.Percentile(ttft, 95)}, {"itl_ms.median", itl.Stats(nil).Median}, {"output_throughput", throughput}, {"goodput", goodput}} {
					held := 0
					for _, i := range found[f.name] {
						if i.Low <= f.truth && f.truth <= i.High {
							held++
						}
					}
					if n := len(found[f.name]); n > 0 {
						b.ReportMetric(100*float64(held)/float64(n), f.name+"-%")
						b.ReportMetric(float64(n), f.name+"-of")
					}
				}
			}
		})
	}
}

// BenchmarkDrift says of how many runs of 100 it is said that they drift.
func BenchmarkDrift(b *testing.B) {
	for _, x := range append(slices.Clone(toys), overloaded) {
		for _, drift := range []float64{0, 0.2, 0.3, 0.5} {
			b.Run(fmt.Sprintf("%s/%g", x.name, drift), func(b *testing.B) {
				for b.Loop() {
					x.Requests, x.drift = 1500, drift
					said := 0
					for seed := range uint64(100) {
						records, _ := x.run(unseen + seed)
						var found reasons
						if found.drifting(x.Workload, records, always); len(found) > 0 {
							said++
						}
					}
					b.ReportMetric(float64(said), "found")
				}
			})
		}
	}
}
