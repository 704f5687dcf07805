package measure

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/load/wire"
)

// seen is one request as a client of vLLM's or SGLang's kind sees it: when it was sent, when each
// of its messages came, and what the server's usage says. Times are in seconds.
type seen struct {
	st     float64
	chunks []float64
	n, p   int // tokens out and in
}

// byTheirDefinitions are the metrics of vLLM's serve.py, written down as it defines them: ttft =
// first message − st, itl = gaps of messages, latency = last message − st, tpot = (latency −
// ttft)/(n − 1), throughputs over the duration, percentiles as numpy. SGLang's are the same where
// every message has text, and concurrency is Σ latency / duration.
func byTheirDefinitions(requests []seen, duration float64) (m load.Figures) {
	var ttfts, tpots, itls, latencies []float64
	const ms = 1000
	for _, r := range requests {
		first, last := r.chunks[0], r.chunks[len(r.chunks)-1]
		ttft, latency := first-r.st, last-r.st
		ttfts, latencies = append(ttfts, ttft*ms), append(latencies, latency*ms)
		if r.n > 1 {
			tpots = append(tpots, (latency-ttft)/float64(r.n-1)*ms)
		}
		for i := 1; i < len(r.chunks); i++ {
			itls = append(itls, (r.chunks[i]-r.chunks[i-1])*ms)
		}
		m.Completed++
		m.OutputThroughput += float64(r.n) / duration
		m.TotalThroughput += float64(r.n+r.p) / duration
		m.MeanConcurrency += latency / duration
	}
	for _, at := range requests { // the peak is reached when one is sent
		n := 0
		for _, r := range requests {
			if r.st <= at.st && at.st < r.chunks[len(r.chunks)-1] {
				n++
			}
		}
		m.PeakConcurrency = max(m.PeakConcurrency, n)
	}
	m.RequestThroughput = float64(m.Completed) / duration
	m.TTFT, m.TPOT, m.ITL, m.E2EL = naive(ttfts), naive(tpots), naive(itls), naive(latencies)
	return m
}

// byOurs are the same numbers by the stream reader and [Summarize], from the bytes
// of the same messages at the same times.
func byOurs(t *testing.T, requests []seen, duration time.Duration) load.Figures {
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
	x := Summarize(load.Workload{}, []float64{12.5, 99}, time.Time{}, duration, records)
	x.ITL.Independent = nil // only we tell
	return load.Figures{Completed: x.Completed, RequestThroughput: x.RequestThroughput, OutputThroughput: x.OutputThroughput,
		TotalThroughput: x.TotalThroughput, MeanConcurrency: x.MeanConcurrency, PeakConcurrency: x.PeakConcurrency,
		TTFT: x.TTFT, TPOT: x.TPOT, ITL: x.ITL, E2EL: x.E2EL}
}

// TestDefinitionsByHand: two requests, one of them of one token, worked out on paper.
func TestDefinitionsByHand(t *testing.T) {
	requests := []seen{
		{st: 0, chunks: []float64{0.1, 0.2, 0.4}, n: 5, p: 7}, // two messages bring two tokens each
		{st: 1, chunks: []float64{1.3}, n: 1, p: 3},
	}
	stats := func(n int, mean, median, std, low, high, p12, p99 float64) load.Stats {
		return load.Stats{Count: n, Mean: mean, Median: median, Std: std, Min: low, Max: high, Percentiles: map[string]float64{"12.5": p12, "99": p99}}
	}
	want := load.Figures{
		Completed: 2, RequestThroughput: 1, OutputThroughput: 3, TotalThroughput: 8, MeanConcurrency: 0.35, PeakConcurrency: 1,
		TTFT: stats(2, 200, 200, 100, 100, 300, 125, 298), TPOT: stats(1, 75, 75, 0, 75, 75, 75, 75),
		ITL: stats(2, 150, 150, 50, 100, 200, 112.5, 199), E2EL: stats(2, 350, 350, 50, 300, 400, 312.5, 399),
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
