package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
)

// TestDrifting: what is said of runs that slow down or do not keep up, and that nothing is of
// those that are steady, short, or ask for something else all the time.
func TestDrifting(t *testing.T) {
	slower := toy{Workload: load.Workload{Concurrency: 16, Requests: 1000}, noise: 0.1, drift: 0.5}
	faster, short, talk, steady, few := slower, slower, slower, slower, slower
	faster.drift, short.Requests, steady.drift, few.Concurrency = -0.3, 200, 0, 128
	talk.Dataset.Kind = load.Conversation
	over := overloaded.toy
	over.Requests = 1500
	for name, x := range map[string]struct {
		toy
		want []string
	}{
		"slower": {slower, []string{
			`^drifting: the time to first token went from \d+(\.\d+)? to \d+(\.\d+)? ms over the run$`,
			`^drifting: the time between chunks went from 1\d(\.\d)? to 1\d(\.\d)? ms over the run$`}},
		"faster": {faster, []string{`^drifting: the time to first token went`, `^drifting: the time between chunks went from 1\d(\.\d)? to (\d\.\d+|1\d(\.\d)?) ms over the run$`}},
		"overloaded": {over, []string{
			`^drifting: the requests in flight went from \d+ to \d{3} over the run: the engine cannot keep up with the rate, ` +
				`and latencies are of how long the run was$`,
			`^drifting: the time to first token went from .* to .* ms over the run$`}},
		"steady": {steady, nil}, "short": {short, nil}, "conversations": {talk, nil}, "few rounds": {few, nil},
	} {
		records, _ := x.run(1)
		var found reasons
		found.drifting(x.Workload, records, always)
		if len(found) != len(x.want) {
			t.Errorf("%s: %d reasons, want %d: %+v", name, len(found), len(x.want), found)
			continue
		}
		for i, want := range x.want {
			if !regexp.MustCompile(want).MatchString(found[i].Text) || found[i].Code != "drifting" || found[i].Value <= found[i].Limit {
				t.Errorf("%s: %+v\nwant %s", name, found[i], want)
			}
		}
	}
}

// TestWatch: an open loop above capacity is found while it runs, and one below it hardly ever.
func TestWatch(t *testing.T) {
	over, below := overloaded.toy, toys[3].toy
	over.Requests, below.Requests = 4000, 2000
	for name, x := range map[string]struct {
		toy
		least, most int
	}{"overloaded": {over, 20, 20}, "open": {below, 0, 1}} {
		times := 0
		for seed := range uint64(20) {
			records, _ := x.run(seed)
			last := records[len(records)-1].Sent
			w, found := newWatch(x.Workload, shortest), false
			for at := 500 * msec; at < last; at += 500 * msec {
				sent, done := 0, 0
				for i := range records {
					if r := &records[i]; r.Sent <= at {
						sent++
						if r.End <= at {
							done++
						}
					}
				}
				found = w.look(at, sent, done, 0) || found
			}
			if found {
				times++
			}
		}
		if times < x.least || times > x.most {
			t.Errorf("%s: found in %d of 20 runs, want %d to %d", name, times, x.least, x.most)
		}
	}
	for name, w := range map[string]load.Workload{"closed": {Concurrency: 4}, "at once": {Rate: load.Inf},
		"stages": {Rate: 4, Stages: []load.Stage{{Rate: 5}}}} {
		if newWatch(w, shortest) != nil {
			t.Errorf("%s is watched", name)
		}
	}
	// A run that is ended early has something that counts.
	cut := over.Workload
	cut.CutBeginning, cut.CutEnd = load.Duration(40*time.Second), load.Duration(20*time.Second)
	w, at := newWatch(cut, shortest), time.Duration(0)
	for n := 0; !w.over && at < time.Hour; n++ {
		at += time.Second
		w.look(at, 2*n+1, n+1, 0)
	}
	if window := at - 60*time.Second; !w.over || window < shortest || window > 2*shortest {
		t.Errorf("seen at %v: %v", at, w.over)
	}
}

// endless is an engine of any capacity, whose answers all take as long.
func endless(rate load.Rate, took, run time.Duration, seed uint64) (records []load.Record) {
	rng := rand.New(rand.NewPCG(seed, 11))
	for at := time.Duration(0); at < run; at += time.Duration(rng.ExpFloat64() / float64(rate) * 1e9) {
		records = append(records, load.Record{Seq: len(records), Scheduled: at, Ready: at, Sent: at, First: at + took/10, Last: at + took, End: at + took,
			OutputTokens: 2, AskedOutput: 2, Gaps: []time.Duration{took - took/10}})
	}
	return records
}

// TestLongAnswers: an engine that answers all at once is not overloaded since its answers take long: those in
// flight rise for one of them, and vary slowly. A warm-up does not bring that back.
func TestLongAnswers(t *testing.T) {
	const runs = 100
	for _, took := range []time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute} {
		for _, rate := range []load.Rate{1, 5, 20} {
			whole, window, watched := 0, 0, 0
			for seed := range uint64(runs) {
				records := endless(rate, took, 5*time.Minute, seed)
				w := load.Workload{Rate: rate}
				var found, inWindow reasons
				found.drifting(w, records, always)
				inWindow.drifting(w, records, span{took, 5 * time.Minute})
				whole, window = whole+min(1, len(found)), window+min(1, len(inWindow))
				crowd, over := newWatch(w, shortest), false
				ends := 0
				for sent, at := 0, msec; at < 5*time.Minute; at += 500 * msec {
					for sent < len(records) && records[sent].Sent <= at {
						sent++
					}
					for ends < sent && records[ends].End <= at {
						ends++
					}
					over = crowd.look(at, sent, ends, 0) || over
				}
				if over {
					watched++
				}
			}
			if whole > 4 || window > 4 || watched > 4 {
				t.Errorf("answers of %v at %v a second: of %d runs %d drift, %d behind a warm-up, and %d were overloaded", took, rate, runs, whole, window, watched)
			}
		}
	}
}

// TestFirstRequestFails: how long answers take is not told by a request that failed at once.
func TestFirstRequestFails(t *testing.T) {
	const rate, took, run = 2, 40 * time.Second, time.Minute
	for seed := range uint64(20) {
		records := endless(rate, took, run, seed)
		records[0].Fail(10*msec, load.ClassConnect, "refused")
		w := load.Workload{Rate: rate}
		var found reasons
		if found.drifting(w, records, always); len(found) > 0 {
			t.Errorf("seed %d: %v", seed, found)
		}
		crowd := newWatch(w, shortest)
		for sent, at := 0, msec; at < run; at += 500 * msec {
			for sent < len(records) && records[sent].Sent <= at {
				sent++
			}
			done, failed := 0, 0
			for i := range sent {
				if records[i].End <= at {
					done++
					if !records[i].OK() {
						failed++
					}
				}
			}
			if crowd.look(at, sent, done, failed) {
				t.Errorf("seed %d: overloaded after %v", seed, at)
				break
			}
		}
	}
}

// TestAlike: figures whose neighbours are alike are said to drift as seldom as the documents say.
func TestAlike(t *testing.T) {
	const runs = 3000
	for _, x := range []struct{ like, most float64 }{{0, 0.002}, {0.3, 0.006}, {0.5, 0.012}, {0.7, 0.033}, {0.8, 0.052}, {0.9, 0.09}} {
		found := 0
		for seed := range uint64(runs) {
			rng := rand.New(rand.NewPCG(seed, 1))
			values, level, spread := make([]float64, batches), rng.NormFloat64(), 10+30*rng.Float64()
			for i := range values {
				values[i] = 100 + spread*level
				level = x.like*level + math.Sqrt(1-x.like*x.like)*rng.NormFloat64()
			}
			if _, _, ok := load.Trend(values); ok {
				found++
			}
		}
		if share := float64(found) / runs; share > x.most {
			t.Errorf("neighbours alike by %v: %.2f %% drift, want at most %.1f %%", x.like, 100*share, 100*x.most)
		}
	}
}

// TestRateNotReached: a cap that holds a rate up, so that latencies leave out the waiting, is a reason: of a run, of a
// part of it, and of a trace.
func TestRateNotReached(t *testing.T) {
	var held, kept []load.Record
	for i := range 3000 {
		due := time.Duration(i) * 10 * msec
		left := 2 * due // of an engine that does half as many
		held = append(held, load.Record{Seq: i, Scheduled: due, Ready: left, Sent: left, First: left + msec, Last: left + 200*msec, End: left + 200*msec, OutputTokens: 2})
		kept = append(kept, load.Record{Seq: i, Scheduled: due, Ready: due, Sent: due, First: due + msec, Last: due + 200*msec, End: due + 200*msec, OutputTokens: 2})
	}
	capped, trace, open := load.Workload{Rate: 100, Concurrency: 10}, load.Workload{Concurrency: 10}, load.Workload{Rate: 100}
	trace.Dataset.Kind = load.Trace
	part := span{10 * time.Second, 20 * time.Second}
	for name, x := range map[string]struct {
		w       load.Workload
		records []load.Record
		s       span
		want    bool
	}{"capped": {capped, held, always, true}, "a part": {capped, held, part, true}, "a trace": {trace, held, always, true},
		"kept": {capped, kept, always, false}, "a part that is kept": {capped, kept, part, false}, "no cap": {open, held, always, false}} {
		var found reasons
		found.behind(x.w, x.records, x.s)
		if (len(found) > 0) != x.want || x.want && (found[0].Code != "rate-not-reached" || found[0].Value >= found[0].Limit) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestStopsWhenOverloaded: a load that asks for it ends once its requests pile up, and says so; what
// was sent is measured.
func TestStopsWhenOverloaded(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{}) // that they pile up: until then, nobody but the first 60 is answered
	engine, asked := sim.New(instant(sim.Config{})), atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 60 {
			<-seen
		}
		engine.ServeHTTP(w, r)
	}))
	defer server.Close()
	tell := sync.OnceFunc(func() { close(seen) })
	defer tell()
	g, err := newGenerator(load.Job{Target: load.Target{BaseURL: server.URL}, Seed: 1, Workload: load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Requests: 20_000, Rate: 50,
		OutputTokens: 3, Endpoint: load.Completions, StopWhenOverloaded: true}}, func(p load.Progress) {
		if p.Overloaded {
			tell()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.client.Close()
	g.watched = time.Second
	r, err := g.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := len(r.Records)
	if n == 20_000 || r.Summary.Completed != n {
		t.Errorf("%d of 20,000 requests were sent, %d completed", n, r.Summary.Completed)
	}
	want := load.Reason{Code: "overloaded", Value: float64(n), Limit: 20_000, Text: fmt.Sprintf("overloaded: sending ended after "+
		"%d of 20000 requests, as the lab asks, since the engine cannot keep up with the rate", n)}
	if diff := cmp.Diff(want, r.Summary.Verdict.Reasons[0]); diff != "" || r.Summary.Verdict.Verdict != load.Suspect {
		t.Errorf("verdict %s (-want +got):\n%s", r.Summary.Verdict.Verdict, diff)
	}
}

// TestTrend: neighbours that are alike are no trend by themselves, nor is one great value.
func TestTrend(t *testing.T) {
	var line, wave, jump, none [batches]float64
	for i := range batches {
		line[i], wave[i], jump[i] = 100+float64(i), 100+30*float64(i/5%2), 100
	}
	jump[0] = 1000
	grown := make([]float64, batches)
	for i := range grown {
		grown[i] = float64(i * i)
	}
	if from, to, ok := load.Trend(grown); from != 0 || to < 250 || !ok {
		t.Errorf("what grows fast: from %g to %g, %v", from, to, ok)
	}
	for name, x := range map[string]struct {
		values []float64
		want   bool
	}{"line": {line[:], true}, "wave": {wave[:], false}, "jump": {jump[:], false}, "nothing": {none[:], false},
		"few": {line[:batches/2-1], false}} {
		from, to, ok := load.Trend(x.values)
		if ok != x.want || ok && (from != 100 || to != 119) {
			t.Errorf("%s: from %g to %g, %v", name, from, to, ok)
		}
	}
}

// TestIntervals: which figures have an interval, and where.
func TestIntervals(t *testing.T) {
	of := func(e toy, percentiles []float64) load.Summary {
		records, d := e.run(3)
		return Summarize(e.Workload, percentiles, time.Time{}, d, records)
	}
	closed := toy{Workload: load.Workload{Concurrency: 16, Requests: 1000}, uneven: 0.5, noise: 0.1}
	open := toy{Workload: load.Workload{Rate: 20, Requests: 1500}, uneven: 0.5, noise: 0.1}
	s := of(closed, []float64{95, 99})
	for _, name := range []string{"request_throughput", "input_throughput", "output_throughput", "total_throughput",
		"ttft_ms.mean", "ttft_ms.median", "tpot_ms.mean", "itl_ms.p95", "e2el_ms.p95", "normalized_latency_ms.median"} {
		if _, ok := s.Intervals[name]; !ok {
			t.Errorf("%s has no interval; there are %v", name, s.Intervals)
		}
	}
	for name, x := range map[string]struct {
		value, atMost float64
	}{"output_throughput": {s.OutputThroughput, 0}, "ttft_ms.mean": {s.TTFT.Mean, 0}, "ttft_ms.median": {s.TTFT.Median, s.TTFT.Max},
		"e2el_ms.p95": {s.E2EL.Percentiles["95"], s.E2EL.Max}} {
		i := s.Intervals[name]
		if i.Low >= x.value || i.High <= x.value || i.High-i.Low > 0.5*x.value || i.AtMost > x.atMost || (i.AtMost > 0) != (x.atMost > 0) {
			t.Errorf("%s is %g: %+v", name, x.value, i)
		}
	}
	unbounded(t, s, map[string]string{"ttft_ms.p99": `^the run is \d\d times as long as a request, and this needs 300 times$`})
	s = of(open, []float64{90, 95})
	if _, ok := s.Intervals["ttft_ms.p90"]; !ok {
		t.Errorf("p90 of an open loop has no interval: %v", s.Intervals)
	}
	unbounded(t, s, map[string]string{"ttft_ms.mean": `^the run is 1\d\d times as long as a request, and this needs 200 times$`,
		"e2el_ms.p95": `^the run is 1\d\d times as long as a request, and this needs 200 times$`})
	for _, name := range []string{"ttft_ms.mean", "ttft_ms.p95", "output_throughput", "queue_ms.mean"} {
		if i, ok := s.Intervals[name]; ok {
			t.Errorf("%s of an open loop is in %+v", name, i)
		}
	}
	staged, few, early := closed, closed, closed
	staged.Stages = []load.Stage{{Concurrency: 16}}
	few.Requests = 20
	early.Concurrency, early.Ramp = 4, load.Duration(2*time.Minute)
	for name, x := range map[string]struct {
		toy
		why string
	}{"stages": {staged, `^the load does not ask for the same all the time$`},
		"few requests": {few, `^the run is \d\.\d times as long as a request, and an interval needs 20 times$`},
		"ramp":         {early, `^more than half of the run are its ramp, its first requests and its end$`}} {
		s := of(x.toy, nil)
		for statistic, i := range s.Intervals {
			t.Errorf("%s: %s is in %+v", name, statistic, i)
		}
		unbounded(t, s, map[string]string{"": x.why})
	}
	lockstep := closed
	lockstep.uneven = 0
	unbounded(t, of(lockstep, []float64{95}), map[string]string{
		"ttft_ms.p95": `^its values tell as much as \d+ independent ones: it needs \d+$`})
}

// unbounded holds why figures have no interval against patterns.
func unbounded(t *testing.T, s load.Summary, want map[string]string) {
	t.Helper()
	for name, pattern := range want {
		i := slices.IndexFunc(s.Unbounded, func(u load.Unbounded) bool {
			return name == "" && u.Figures == nil || slices.Contains(u.Figures, name)
		})
		if i < 0 || !regexp.MustCompile(pattern).MatchString(s.Unbounded[i].Why) {
			t.Errorf("%q should have no interval as %q: %+v", name, pattern, s.Unbounded)
		}
	}
}

// TestGapsTell: gaps tell less than their number where neighbours are alike.
func TestGapsTell(t *testing.T) {
	moody, few := toys[2].toy, toys[0].toy
	moody.Requests, moody.Concurrency, moody.noise, few.Requests, few.Concurrency = 60, 4, 0.6, 8, 2
	once := few
	once.Rate, once.Concurrency = load.Inf, 0
	for name, x := range map[string]struct {
		toy
		lacks bool
	}{"alike": {moody, true}, "few": {few, true}, "many": {toys[0].toy, false}, "at once": {once, true}} {
		records, d := x.run(3)
		s := Summarize(x.Workload, nil, time.Time{}, d, records)
		if got := s.ITL.Lacks("p99") > 0; got != x.lacks || s.ITL.Count < 368 {
			t.Errorf("%s: %d gaps, lacks %v, want %v: %v", name, s.ITL.Count, got, x.lacks, s.ITL.Independent)
		}
	}
}
