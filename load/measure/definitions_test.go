package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/load/wire"
)

// seen is one request as a client of vLLM's or SGLang's kind sees it: when it was
// sent, when each of its messages came, and what the server's usage says. Times
// are in seconds.
type seen struct {
	st     float64
	chunks []float64
	n, p   int // tokens out and in
}

// defined are the metrics of vLLM's serve.py, written down as it defines them:
// ttft = first message − st, itl = gaps of messages, latency = last message − st,
// tpot = (latency − ttft)/(n − 1), throughputs over the duration, percentiles as
// numpy. SGLang's are the same where every message has text, and concurrency is
// Σ latency / duration.
type defined struct {
	Completed                               int
	RequestRate, Output, Total, Concurrency float64
	MeanTTFT, MedianTTFT, StdTTFT, P99TTFT  float64
	MeanTPOT, MedianTPOT, StdTPOT, P99TPOT  float64
	MeanITL, MedianITL, StdITL, P99ITL      float64
	MeanE2EL, MedianE2EL, StdE2EL, P99E2EL  float64
}

func byTheirDefinitions(requests []seen, duration float64) (m defined) {
	var ttfts, tpots, itls, latencies []float64
	for _, r := range requests {
		first, last := r.chunks[0], r.chunks[len(r.chunks)-1]
		ttft, latency := first-r.st, last-r.st
		ttfts, latencies = append(ttfts, ttft), append(latencies, latency)
		if r.n > 1 {
			tpots = append(tpots, (latency-ttft)/float64(r.n-1))
		}
		for i := 1; i < len(r.chunks); i++ {
			itls = append(itls, r.chunks[i]-r.chunks[i-1])
		}
		m.Completed++
		m.Output += float64(r.n) / duration
		m.Total += float64(r.n+r.p) / duration
		m.Concurrency += latency / duration
	}
	m.RequestRate = float64(m.Completed) / duration
	m.MeanTTFT, m.MedianTTFT, m.StdTTFT, m.P99TTFT = inMilliseconds(ttfts)
	m.MeanTPOT, m.MedianTPOT, m.StdTPOT, m.P99TPOT = inMilliseconds(tpots)
	m.MeanITL, m.MedianITL, m.StdITL, m.P99ITL = inMilliseconds(itls)
	m.MeanE2EL, m.MedianE2EL, m.StdE2EL, m.P99E2EL = inMilliseconds(latencies)
	return m
}

func inMilliseconds(x []float64) (mean, median, std, p99 float64) {
	if len(x) == 0 {
		return 0, 0, 0, 0
	}
	x = slices.Sorted(slices.Values(x))
	for i := range x {
		x[i] *= 1000
		mean += x[i] / float64(len(x))
	}
	for _, v := range x {
		std += (v - mean) * (v - mean) / float64(len(x))
	}
	at := func(p float64) float64 {
		h := float64(len(x)-1) * p / 100
		low := math.Floor(h)
		return x[int(low)] + (h-low)*(x[min(int(low)+1, len(x)-1)]-x[int(low)])
	}
	return mean, at(50), math.Sqrt(std), at(99)
}

// byOurs are the same numbers by the stream reader and [Summarize], from the bytes
// of the same messages at the same times.
func byOurs(t *testing.T, requests []seen, duration time.Duration) defined {
	t.Helper()
	var records []load.Record
	var count atomic.Int64
	for i, r := range requests {
		rec := load.Record{Seq: i, Sent: seconds(r.st), Scheduled: seconds(r.st), Ready: seconds(r.st), AskedOutput: r.n, AskedInput: r.p}
		var s wire.Stream
		s.Reset(wire.Exchange{Record: &rec, Chunks: &count})
		feed := func(at float64, read int, text string) (over bool) {
			over, err := s.Feed([]byte(text), seconds(at), read)
			if err != nil {
				t.Fatal(err)
			}
			return over
		}
		for j, at := range r.chunks {
			feed(at, j, "data: {\"choices\":[{\"text\":\" a\"}]}\n\n")
		}
		last := r.chunks[len(r.chunks)-1]
		feed(last, len(r.chunks), fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n", r.p, r.n))
		if !feed(last, len(r.chunks)+1, "data: [DONE]\n\n") {
			t.Fatal("the stream is not over")
		}
		records = append(records, rec)
	}
	x := Summarize(load.Workload{}, []float64{99}, time.Time{}, duration, records)
	return defined{
		Completed: x.Completed, RequestRate: x.RequestThroughput, Output: x.OutputThroughput, Total: x.TotalThroughput, Concurrency: x.MeanConcurrency,
		MeanTTFT: x.TTFT.Mean, MedianTTFT: x.TTFT.Median, StdTTFT: x.TTFT.Std, P99TTFT: x.TTFT.Percentiles["99"],
		MeanTPOT: x.TPOT.Mean, MedianTPOT: x.TPOT.Median, StdTPOT: x.TPOT.Std, P99TPOT: x.TPOT.Percentiles["99"],
		MeanITL: x.ITL.Mean, MedianITL: x.ITL.Median, StdITL: x.ITL.Std, P99ITL: x.ITL.Percentiles["99"],
		MeanE2EL: x.E2EL.Mean, MedianE2EL: x.E2EL.Median, StdE2EL: x.E2EL.Std, P99E2EL: x.E2EL.Percentiles["99"],
	}
}

// TestDefinitionsByHand: two requests, one of them of one token, worked out on
// paper.
func TestDefinitionsByHand(t *testing.T) {
	requests := []seen{
		{st: 0, chunks: []float64{0.1, 0.2, 0.4}, n: 5, p: 7}, // two messages bring two tokens each
		{st: 1, chunks: []float64{1.3}, n: 1, p: 3},
	}
	want := defined{
		Completed: 2, RequestRate: 1, Output: 3, Total: 8, Concurrency: 0.35,
		MeanTTFT: 200, MedianTTFT: 200, StdTTFT: 100, P99TTFT: 298,
		MeanTPOT: 75, MedianTPOT: 75, StdTPOT: 0, P99TPOT: 75,
		MeanITL: 150, MedianITL: 150, StdITL: 50, P99ITL: 199,
		MeanE2EL: 350, MedianE2EL: 350, StdE2EL: 50, P99E2EL: 399,
	}
	if diff := cmp.Diff(want, byOurs(t, requests, 2*time.Second), approx(1e-6)); diff != "" {
		t.Errorf("ours (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, byTheirDefinitions(requests, 2), approx(1e-6)); diff != "" {
		t.Errorf("the definitions, as this test has them (-want +got):\n%s", diff)
	}
}

// TestDefinitions: on random streams our numbers are those of the definitions.
func TestDefinitions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var requests []seen
		end := 0.0
		for range 1 + r.IntN(40) {
			x := seen{st: r.Float64() * 5, n: 1 + r.IntN(3), p: 1 + r.IntN(9)}
			at := x.st
			for range 1 + r.IntN(30) {
				at += r.ExpFloat64() * 0.02
				x.chunks = append(x.chunks, at)
			}
			x.n *= len(x.chunks)
			end = max(end, at)
			requests = append(requests, x)
		}
		d := seconds(end)
		if diff := cmp.Diff(byTheirDefinitions(requests, d.Seconds()), byOurs(t, requests, d), approx(1e-4)); diff != "" {
			t.Fatalf("metrics (-theirs +ours):\n%s", diff)
		}
	}
}
