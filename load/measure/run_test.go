package measure

import (
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/sim"
)

// engine starts a simulated engine for one test.
func engine(t *testing.T, c sim.Config) (*sim.Server, load.Target) {
	t.Helper()
	s := sim.New(c)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, load.Target{BaseURL: h.URL, Model: sim.DefaultModel}
}

// instant is an engine that never makes a test wait.
func instant(c sim.Config) sim.Config {
	c.TTFT, c.ITL = -1, -1
	return c
}

func run(t *testing.T, target load.Target, w load.Workload) *load.Result {
	t.Helper()
	r, err := Run(t.Context(), load.Job{Target: target, Workload: w, Seed: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !near(got, want, share) {
		t.Errorf("%s is %.4g, and the truth is %.4g: more than %.1f %% off", what, got, want, share*100)
	}
}

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

// besideTruth measures a server and asks it what it did.
func besideTruth(t *testing.T, concurrency int, itl time.Duration, tokens int) (load.Summary, sim.Truth) {
	t.Helper()
	server, target := engine(t, sim.Config{TTFT: 50 * time.Millisecond, ITL: itl})
	r := run(t, target, load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 100}, Requests: 2 * concurrency, Concurrency: concurrency,
		OutputTokens: tokens, IgnoreEOS: true, Endpoint: load.Completions,
	})
	return r.Summary, server.Truth()
}

// TestTruth holds the generator against what the server knows that it sent. Counts are equal in
// every run. Times are those of a machine that others use too, and a generator that gets no
// processor for 50 ms cannot tell when something came: of five runs, one has to be undisturbed.
func TestTruth(t *testing.T) {
	concurrency, itl, tokens := 64, 20*time.Millisecond, 128
	if raceDetector {
		concurrency, itl, tokens = 16, 40*time.Millisecond, 64
	}
	for range 5 {
		s, truth := besideTruth(t, concurrency, itl, tokens)
		type totals struct {
			Completed     int
			Input, Output int64
			Gaps, Peak    int
		}
		want := totals{truth.Completed, truth.PromptTokens, truth.CompletionTokens, truth.ITL.Count, truth.PeakInFlight}
		if diff := cmp.Diff(want, totals{s.Completed, s.InputTokens, s.OutputTokens, s.ITL.Count, s.PeakConcurrency}); diff != "" {
			t.Fatalf("totals (-server +generator):\n%s", diff)
		}
		if n := int64(2 * concurrency); s.OutputTokens != n*int64(tokens) || s.InputTokens != n*100 {
			t.Fatalf("%d output and %d input tokens, want %d and %d", s.OutputTokens, s.InputTokens, n*int64(tokens), n*100)
		}
		if s.TTFT.Mean < truth.TTFT.Mean {
			t.Fatalf("mean TTFT %v ms is below the server's own %v ms", s.TTFT.Mean, truth.TTFT.Mean)
		}
		t.Logf("generator and truth: mean TPOT %.3f, %.3f, median ITL %.3f, %.3f, mean TTFT %.2f, %.2f ms",
			s.TPOT.Mean, truth.TPOT.Mean, s.ITL.Median, truth.ITL.Median, s.TTFT.Mean, truth.TTFT.Mean)
		if near(s.TPOT.Mean, truth.TPOT.Mean, 0.01) && near(s.ITL.Mean, truth.ITL.Mean, 0.01) && near(s.ITL.Median, truth.ITL.Median, 0.01) {
			return
		}
	}
	t.Error("mean TPOT, mean ITL and median ITL were never all within 1 % of the truth")
}

// TestRate: the rate that was asked for is the rate that is sent.
func TestRate(t *testing.T) {
	server, target := engine(t, instant(sim.Config{}))
	w := load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 10}, Requests: 1000, Rate: 200,
		OutputTokens: 2, IgnoreEOS: true, Endpoint: load.Completions,
	}
	for name, burstiness := range map[string]load.Rate{"poisson": 1, "constant": load.Inf} {
		t.Run(name, func(t *testing.T) {
			server.ResetTruth()
			w.Burstiness = burstiness
			r := run(t, target, w)
			if truth := server.Truth(); r.Summary.Completed != 1000 || truth.Completed != 1000 {
				t.Fatalf("%d completed, %d by the server: %v", r.Summary.Completed, truth.Completed, r.Summary.Errors)
			}
			// From the start of the schedule to its last request: 5 s. A busy machine sends it late.
			last := r.Records[999]
			within(t, "rate", 1000/last.Scheduled.Seconds(), 200, 0.01)
			if last.Sent < last.Scheduled {
				t.Errorf("due at %v and sent at %v", last.Scheduled, last.Sent)
			}
		})
	}
}

// TestEndpoints: prompts and answers are counted exactly by every protocol.
func TestEndpoints(t *testing.T) {
	for _, endpoint := range []string{load.Completions, load.Chat, load.Generate} {
		t.Run(endpoint, func(t *testing.T) {
			server, target := engine(t, instant(sim.Config{}))
			r := run(t, target, load.Workload{
				Dataset: load.Dataset{Kind: load.Random, InputTokens: 300, RangeRatio: new(0.5)}, Requests: 20, Concurrency: 4,
				OutputTokens: 30, IgnoreEOS: true, Endpoint: endpoint,
			})
			s, truth := r.Summary, server.Truth()
			if s.Completed != 20 || s.UsageMissing != 0 {
				t.Errorf("%d completed, %d without usage: %v", s.Completed, s.UsageMissing, s.ErrorSamples)
			}
			if s.InputTokens != s.AskedInput || s.InputTokens != truth.PromptTokens || s.InputTokens < 20*150 || s.InputTokens > 20*300 {
				t.Errorf("%d input tokens, %d asked for, %d by the server", s.InputTokens, s.AskedInput, truth.PromptTokens)
			}
			if s.OutputTokens != s.AskedOutput || s.OutputTokens != truth.CompletionTokens {
				t.Errorf("%d output tokens, %d asked for, %d by the server", s.OutputTokens, s.AskedOutput, truth.CompletionTokens)
			}
			if int64(s.ITL.Count) != s.OutputTokens-20 {
				t.Errorf("%d gaps of %d tokens in 20 requests", s.ITL.Count, s.OutputTokens)
			}
		})
	}
}

// TestNaturalEnds: answers that end by themselves have as many gaps as the engine has sent, and as its usage counts.
func TestNaturalEnds(t *testing.T) {
	for _, as := range []string{sim.VLLM, sim.SGLang} {
		for _, endpoint := range []string{load.Completions, load.Chat, load.Generate, load.Responses} {
			for _, tokens := range []int{1, 2, 9} {
				server, target := engine(t, instant(sim.Config{As: as, StopAfter: tokens}))
				w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 3}, Requests: 4, Concurrency: 2, OutputTokens: 30, Endpoint: endpoint}
				s, truth := run(t, target, w).Summary, server.Truth()
				if s.Completed != 4 || s.UsageMissing > 0 || s.OutputTokens != int64(4*tokens) || s.ITL.Count != truth.ITL.Count || s.ITL.Count != 4*(tokens-1) {
					t.Errorf("%s, %s: %d of 4 answers of %d tokens (%v), %d tokens, %d gaps, %d by the engine", as, endpoint, s.Completed, tokens, s.ErrorSamples,
						s.OutputTokens, s.ITL.Count, truth.ITL.Count)
				}
			}
		}
	}
}

// TestImages: the engine takes the images that were made, and its count of the prompts' tokens has those of images,
// of which nobody says that they are too many.
func TestImages(t *testing.T) {
	server, target := engine(t, instant(sim.Config{}))
	s := run(t, target, load.Workload{
		Dataset: load.Dataset{Kind: load.RandomImages, InputTokens: 30, Images: 2,
			ImageSizes: []load.ImageSize{{Width: 57, Height: 28, Share: 1}}}, // three squares of 28 pixels
		Requests: 40, Concurrency: 4, Warmup: 3, OutputTokens: 5, IgnoreEOS: true, Endpoint: load.Chat,
	}).Summary
	truth := server.Truth()
	if s.Completed != 40 || s.InputTokens != 40*(30+2*3) || s.AskedInput != 40*30 {
		t.Errorf("%d completed (%v), %d input tokens, %d asked for", s.Completed, s.ErrorSamples, s.InputTokens, s.AskedInput)
	}
	if truth.Images != 43*2 || truth.ImageTokens != 43*2*3 || truth.PromptTokens != s.InputTokens+3*(30+2*3) {
		t.Errorf("the server has seen %d images of %d tokens, %d tokens in all", truth.Images, truth.ImageTokens, truth.PromptTokens)
	}
	for _, r := range s.Verdict.Reasons {
		if strings.Contains(r.Text, "prompt") {
			t.Errorf("it is doubted: %s", r.Text)
		}
	}
}

// TestConnectionsAreKept: a worker sends all its requests over one connection.
func TestConnectionsAreKept(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(sim.New(instant(sim.Config{})))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	s := run(t, load.Target{BaseURL: server.URL}, load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 2000}, Requests: 200, Concurrency: 4, OutputTokens: 20, Endpoint: load.Completions,
	}).Summary
	// One that is free a moment too late for the next request makes it open
	// another; that happens now and then, not every time.
	if s.Completed != 200 || opened.Load() > 20 {
		t.Errorf("%d completed over %d connections, want 200 over about 4", s.Completed, opened.Load())
	}
}

func TestSpeculative(t *testing.T) {
	server, target := engine(t, sim.Config{TTFT: time.Millisecond, ITL: 5 * time.Millisecond, TokensPerChunk: 4})
	s := run(t, target, load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Requests: 8, Concurrency: 8, OutputTokens: 41, IgnoreEOS: true, Endpoint: load.Completions,
	}).Summary
	truth := server.Truth()
	if s.OutputTokens != 8*41 || s.ITL.Count != 8*10 {
		t.Errorf("%d tokens, %d gaps, want %d and %d", s.OutputTokens, s.ITL.Count, 8*41, 8*10)
	}
	within(t, "mean TPOT", s.TPOT.Mean, truth.TPOT.Mean, 0.1)
	within(t, "mean ITL", s.ITL.Mean, truth.ITL.Mean, 0.1)
}

func TestFaults(t *testing.T) {
	w := load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Requests: 12, Concurrency: 3, OutputTokens: 8, IgnoreEOS: true, Endpoint: load.Completions,
	}
	suspicion := func(t *testing.T, s load.Summary, part string) {
		t.Helper()
		if s.Verdict.Verdict != load.Suspect || !strings.Contains(strings.Join(s.Verdict.Texts(), "\n"), part) {
			t.Errorf("verdict %q, want suspect with %q", s.Verdict, part)
		}
	}
	t.Run("fails now and then", func(t *testing.T) {
		_, target := engine(t, instant(sim.Config{FailEvery: 4}))
		s := run(t, target, w).Summary
		if s.Completed != 9 || s.Failed != 3 || s.Errors[load.ClassStatus] != 3 || !strings.Contains(s.ErrorSamples[0], "simulated failure") || len(s.ErrorSamples) != 1 {
			t.Errorf("%d completed, %d failed, %v, %q", s.Completed, s.Failed, s.Errors, s.ErrorSamples)
		}
		suspicion(t, s, "3 of 12 requests failed (25.0 %): 3 × HTTP 500")
	})
	t.Run("stops early", func(t *testing.T) {
		_, target := engine(t, instant(sim.Config{StopAfter: 2}))
		r := run(t, target, w)
		if r.Summary.OutputTokens != 24 || r.Records[0].Finish != "stop" {
			t.Errorf("%d tokens, finish %q, want 24, stop", r.Summary.OutputTokens, r.Records[0].Finish)
		}
		suspicion(t, r.Summary, "12 of 12 requests did not bring the output tokens asked for (24 instead of 96 in all)")
	})
	t.Run("hangs", func(t *testing.T) {
		_, target := engine(t, instant(sim.Config{HangAfter: 9}))
		w := w
		w.Stall = load.Duration(100 * time.Millisecond)
		s := run(t, target, w).Summary
		if s.Completed != 9 || s.Errors[load.ClassStall] != 3 {
			t.Errorf("%d completed, %v, want 9 and 3 stalls", s.Completed, s.Errors)
		}
	})
	t.Run("is not there", func(t *testing.T) {
		s := run(t, load.Target{BaseURL: "http://127.0.0.1:1"}, w).Summary
		if s.Verdict.Verdict != load.Void || s.Errors[load.ClassConnect] != 12 {
			t.Errorf("verdict %v, %v", s.Verdict, s.Errors)
		}
	})
	t.Run("fails while warming up", func(t *testing.T) {
		_, target := engine(t, instant(sim.Config{FailEvery: 17}))
		w := w
		w.Warmup = 20
		s := run(t, target, w).Summary
		if s.Requests != 12 || s.Completed != 12 || s.Warmup != 20 || s.WarmupFailed != 1 {
			t.Errorf("%d of %d completed, %d of %d warm-up requests failed, want 12 of 12 and 1 of 20", s.Completed, s.Requests, s.WarmupFailed, s.Warmup)
		}
		suspicion(t, s, "1 of 20 warm-up requests failed")
	})
}

func TestProgress(t *testing.T) {
	_, target := engine(t, sim.Config{TTFT: 300 * time.Millisecond, ITL: -1})
	var seen []load.Progress
	_, err := Run(t.Context(), load.Job{Target: target, Workload: load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Requests: 8, Concurrency: 2, OutputTokens: 3, Endpoint: load.Completions, Warmup: 2,
	}}, func(p load.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if !seen[0].Warmup || seen[0].Total != 2 || seen[0].Done != 2 {
		t.Errorf("first %+v, want the end of the warm-up", seen[0])
	}
	if len(seen) < 3 {
		t.Errorf("%d reports in more than a second", len(seen))
	}
	last := seen[len(seen)-1]
	last.Elapsed = 0
	if diff := cmp.Diff(load.Progress{Sent: 8, Done: 8, OutputTokens: 24, Total: 8}, last); diff != "" {
		t.Errorf("last (-want +got):\n%s", diff)
	}
}

// TestBadJobs: what cannot be run is said before anything is sent. load's own tests have
// the rules of workloads.
func TestBadJobs(t *testing.T) {
	good := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Requests: 1, Concurrency: 1, OutputTokens: 1, Endpoint: load.Completions}
	shareGPT, many := good, good
	shareGPT.Dataset = load.Dataset{Kind: load.ShareGPT, Path: "no/such.json"}
	many.Concurrency, many.Rate, many.Requests = 0, load.Inf, 1<<30
	for _, c := range []struct {
		url  string
		w    load.Workload
		want string
	}{
		{"http://127.0.0.1:1", load.Workload{}, "nothing says when to stop"},
		{"http://127.0.0.1:1", shareGPT, "open data set file such.json: no such file or directory"},
		{"http://127.0.0.1:1", many, "open files"},
		{"", good, "base URL"},
	} {
		r, err := Run(t.Context(), load.Job{Target: load.Target{BaseURL: c.url}, Workload: c.w}, nil)
		if r != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Run() = %v, %v, want an error with %q", r, err, c.want)
		}
	}
}

// TestGapsAreBounded: a run keeps no more gaps than its tally may hold.
func TestGapsAreBounded(t *testing.T) {
	_, target := engine(t, instant(sim.Config{}))
	g, err := newGenerator(load.Job{Target: target, Workload: load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 4}, Requests: 16, Concurrency: 2, OutputTokens: 6, IgnoreEOS: true, Endpoint: load.Completions,
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.client.Close()
	total, err := g.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := g.newPhase(prompts.ForPrompt, total)
	p.tally.limit = 20
	p.follow(t.Context(), t.Context(), paceOf(g.job.Workload, 1, nil))
	kept, all := 0, 0
	for _, r := range p.collect() {
		kept += len(r.Gaps)
		all += len(r.Gaps) + r.Dropped
	}
	if kept > 20 || kept == 0 || all != 16*5 {
		t.Errorf("%d of %d gaps are kept, want at most 20 of 80", kept, all)
	}
}

// TestGapsStay: whatever the order in which requests leave, each has its gaps.
func TestGapsStay(t *testing.T) {
	p := &phase{tally: tally{limit: maxGaps}}
	for seq := range 10 {
		r := load.Record{Seq: seq, Sent: time.Duration(seq*7%10) * msec, Gaps: []time.Duration{time.Duration(seq)}}
		p.tally.settle(&r)
		p.records = append(p.records, []load.Record{r})
	}
	for i, r := range p.collect() {
		if r.Sent != time.Duration(i)*msec || r.Dropped != 0 || len(r.Gaps) != 1 || r.Gaps[0] != time.Duration(r.Seq) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
}

// TestRunUntil: no more is sent once enough is known, of a closed loop as of an open one; what is in flight is waited for,
// and the warm-up tells nothing.
func TestRunUntil(t *testing.T) {
	for name, w := range map[string]load.Workload{"closed": {Concurrency: 4}, "open": {Rate: 500}} {
		w.Requests, w.Warmup, w.OutputTokens, w.Endpoint = 100_000, 3, 1, load.Completions
		w.Dataset = load.Dataset{Kind: load.Random, InputTokens: 4}
		server := httptest.NewServer(sim.New(sim.Config{TTFT: 2 * time.Millisecond}))
		defer server.Close()
		over := 0
		result, err := RunUntil(t.Context(), load.Job{Target: load.Target{BaseURL: server.URL, Model: "sim"}, Workload: w}, nil,
			func(r *load.Record) bool {
				over++
				return over == 20
			})
		if err != nil {
			t.Fatal(name, err)
		}
		if n := result.Summary.Completed; n < 20 || n > 20_000 || n != over || result.Summary.Failed > 0 {
			t.Errorf("%s: %d requests are over, %d were told of, %d failed", name, n, over, result.Summary.Failed)
		}
	}
}
