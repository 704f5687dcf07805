package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/testhost/recording"
)

var vllmNames = Exports{Quantities: []Quantity{
	{Running, Gauge, []string{"vllm:num_requests_running"}, 0}, {Waiting, Gauge, []string{"vllm:num_requests_waiting"}, 0},
	{KVCache, Level, []string{"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"}, 0},
	{HitTokens, Counter, []string{"vllm:prefix_cache_hits_total"}, 0}, {QueriedTokens, Counter, []string{"vllm:prefix_cache_queries_total"}, 0},
}}

// readPages is what was read of an engine that has been asked so often, with the page that
// it gives each time.
func readPages(t *testing.T, e Exports, times int64, page func(n int64) string) *Record {
	t.Helper()
	var asked atomic.Int64
	enough := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		if n == times {
			close(enough)
		}
		fmt.Fprint(w, page(n))
	}))
	defer server.Close()
	e.URL = server.URL
	begin := time.Now()
	s := Start(t.Context(), Plan{Interval: 0.01, Engines: []Exports{e}}, nil)
	select {
	case <-enough:
	case <-time.After(10 * time.Second):
		t.Fatal("the engine is not asked")
	}
	return s.Stop(Window{Zero: begin, From: begin, To: time.Now()})
}

// TestExports reads a page of Prometheus at each tick: gauges over time, and the
// share of hits over the window.
func TestExports(t *testing.T) {
	ranks := strings.ReplaceAll(recording.Text(t, "by-hand/vllm-0.32.0/metrics-dp2.txt"), `"tiny"`, `"a {b} c"`)
	r := readPages(t, vllmNames, 6, func(n int64) string {
		page := ranks
		for sample, value := range map[string]string{
			`num_requests_running{engine="0"`: fmt.Sprint(n), `num_requests_running{engine="1"`: "2.0",
			`kv_cache_usage_perc{engine="0"`: "0.25", `kv_cache_usage_perc{engine="1"`: "0.75",
			`num_requests_waiting{engine="0"`: "NaN", `num_requests_waiting{engine="1"`: "NaN",
			`prefix_cache_hits_total{engine="0"`: fmt.Sprint(25 * n), `prefix_cache_hits_total{engine="1"`: "0",
			`prefix_cache_queries_total{engine="0"`: fmt.Sprintf("%d 1700000000000", 100*n), `prefix_cache_queries_total{engine="1"`: "0",
		} {
			page = regexp.MustCompile(`(?m)^(vllm:`+regexp.QuoteMeta(sample)+`,[^}]*\}) .*$`).ReplaceAllString(page, "${1} "+value)
		}
		return page
	})
	first := map[string]float64{}
	for _, x := range r.Series {
		if x.Of != Engine {
			t.Errorf("a series of %s", x.Of)
		}
		first[x.Name] = x.Value[0]
	}
	if diff := cmp.Diff(map[string]float64{Running: 3, KVCache: 0.5, PrefixHits: 0.25}, first); diff != "" {
		t.Errorf("first values (-want +got):\n%s", diff)
	}
	if r.PrefixHitRate == nil || *r.PrefixHitRate != 0.25 || r.Acceptance != nil || len(r.Problems) > 0 {
		t.Errorf("record %+v", r)
	}
}

// TestExportsSendElsewhere: nobody is asked whom an engine names.
func TestExportsSendElsewhere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another was asked") }))
	defer other.Close()
	engine := httptest.NewServer(http.RedirectHandler(other.URL+"/secret", http.StatusFound))
	defer engine.Close()
	_, err := newAsked(Exports{URL: engine.URL}).read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "302 Found") {
		t.Errorf("error = %v", err)
	}
}

// TestSpeculation is what speculative decoding brings: from counters over the
// window, or from what the engine says of its newest steps.
func TestSpeculation(t *testing.T) {
	counted := Exports{Quantities: []Quantity{{AcceptedTokens, Counter, []string{"accepted"}, 0},
		{DraftedTokens, Counter, []string{"drafted"}, 0}, {Drafts, Counter, []string{"drafts"}, 0}}}
	for _, test := range []struct {
		name  string
		names Exports
		page  func(n int64) string
	}{
		{"counters", counted,
			func(n int64) string {
				return fmt.Sprintf("accepted %d\ndrafted %d\ndrafts %d\n", 150*n, 300*n, 100*n)
			}},
		{"gauges", Exports{Quantities: []Quantity{{Accepted, Recent, []string{"rate"}, 0}, {StepTokens, Recent, []string{"length"}, 0}}}, func(n int64) string {
			if n == 1 { // before the first step
				return "rate 0\nlength 0\n"
			}
			return "rate{dp_rank=\"0\"} 0.4\nrate{dp_rank=\"1\"} 0.6\nlength{dp_rank=\"0\"} 2\nlength{dp_rank=\"1\"} 3\n"
		}},
		{"none", counted,
			func(int64) string { return "other 1\n" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := readPages(t, test.names, 4, test.page)
			want := []*float64{new(0.5), new(2.5)}
			if test.name == "none" {
				want = []*float64{nil, nil}
			}
			near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
			if diff := cmp.Diff(want, []*float64{r.Acceptance, r.StepTokens}, near); diff != "" {
				t.Errorf("acceptance and tokens per step (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIterations: what TensorRT-LLM tells once is added up.
func TestIterations(t *testing.T) {
	var it iterations
	for _, c := range []struct {
		text string
		want map[string]float64
	}{
		{`[{"iter": 1, "numActiveRequests": 9, "numQueuedRequests": 4, "kvCacheStats": {"usedNumBlocks": 10, "maxNumBlocks": 100, "reusedBlocks": 1, "missedBlocks": 3}, "specDecodingStats": {"numDraftTokens": 10, "numAcceptedTokens": 5}},
		   {"iter": 2, "numActiveRequests": 8, "numQueuedRequests": 0, "kvCacheStats": {"usedNumBlocks": 20, "maxNumBlocks": 100, "reusedBlocks": 2, "missedBlocks": 6}, "specDecodingStats": {"numDraftTokens": 10, "numAcceptedTokens": 7}}]`,
			map[string]float64{Running: 8, Waiting: 0, KVCache: 0.2, HitTokens: 2, QueriedTokens: 8, AcceptedTokens: 12, DraftedTokens: 20}},
		{`[{"iter": 3, "attentionDpRank": 0, "numActiveRequests": 4, "numQueuedRequests": 3, "kvCacheStats": {"usedNumBlocks": 30, "maxNumBlocks": 100, "reusedBlocks": 2, "missedBlocks": 6}, "specDecodingStats": {"numDraftTokens": 10, "numAcceptedTokens": 5}, "inflightBatchingStats": {"numScheduledRequests": 4, "numPausedRequests": 0}},
		   {"iter": 3, "attentionDpRank": 1, "numActiveRequests": 4, "numQueuedRequests": 0, "kvCacheStats": {"usedNumBlocks": 30, "maxNumBlocks": 100, "reusedBlocks": 2, "missedBlocks": 6}, "specDecodingStats": {"numDraftTokens": 10, "numAcceptedTokens": 5}, "inflightBatchingStats": {"numScheduledRequests": 2, "numPausedRequests": 1}}]`,
			map[string]float64{Running: 7, Waiting: 3, KVCache: 0.3, HitTokens: 2, QueriedTokens: 8, AcceptedTokens: 17, DraftedTokens: 30}},
		{`[]`, map[string]float64{}},
		{`[{"numActiveRequests": 1, "specDecodingStats": {"numDraftTokens": 5, "numAcceptedTokens": 5}}]`,
			map[string]float64{Running: 1, AcceptedTokens: 22, DraftedTokens: 35}},
	} {
		got, err := it.read([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("read %s (-want +got):\n%s", c.text, diff)
		}
	}
}

// TestExportsAbsent: an engine that exports nothing is told as a problem, once.
func TestExportsAbsent(t *testing.T) {
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NotFound(w, r)
		asked <- struct{}{}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s := Start(ctx, Plan{Interval: 0.01, Engines: []Exports{{URL: server.URL}}}, nil)
	for range 3 {
		select {
		case <-asked:
		case <-ctx.Done():
			t.Fatal("the engine is not asked again")
		}
	}
	if r := s.Stop(Window{}); len(r.Problems) != 1 {
		t.Errorf("problems %q", r.Problems)
	}
}

// TestCounts: what an engine has counted is what it grew by between the first request and the last answer, whatever
// was asked between; what did not happen, is not told or stays is no growth.
func TestCounts(t *testing.T) {
	e := Exports{Of: "decode 1", Quantities: []Quantity{
		{QueueTime, Histogram, []string{"queue_seconds"}, 0}, {TransferTime, Histogram, []string{`stage_ms{stage="kv"}`}, 1e-3},
		{Ended, Counter, []string{"ended_total{why}"}, 0}, {Retried, Counter, []string{"retries_total"}, 0},
		{CacheTokens, Size, []string{"info{tokens}"}, 0}, {CacheBytes, Size, []string{"info{bytes}"}, 0},
		{CachedOnGPU, Counter, []string{`cached{source="device"}`, "old_cached"}, 0},
		{Failures, Counter, []string{"a_failures"}, 0}, {Failures, Counter, []string{"b_failures"}, 0},
	}}
	pages := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, <-pages)
	}))
	defer server.Close()
	e.URL = server.URL
	page := func(n int) string {
		return fmt.Sprintf(`queue_seconds_sum{engine="0"} %d
queue_seconds_sum{engine="1"} 0.5
queue_seconds_count{engine="0"} %d
queue_seconds_count{engine="1"} 1
stage_ms_sum{stage="kv"} %d
stage_ms_count{stage="kv"} %d
stage_ms_sum{stage="other"} 9000
stage_ms_count{stage="other"} %d
ended_total{engine="0",why="length"} %d
ended_total{engine="1",why="length"} %d
ended_total{engine="0",why="abort"} 3
ended_total{engine="0",why="{a\x1b[2J"} %d
retries_total 2
info{bytes="None",kind="x",tokens="4096"} 1
old_cached %d
a_failures %d
b_failures %d
`, 2*n, 4*n, 500*n, n, n, n, n, n, 7*n, n, n)
	}
	s := Start(t.Context(), Plan{Interval: 3600, Engines: []Exports{e}}, nil)
	pages <- page(1)
	for begun := time.Now(); ; {
		s.mu.Lock()
		read := len(s.series) > 0
		s.mu.Unlock()
		if read {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the engine is not asked")
		}
		runtime.Gosched()
	}
	from := time.Now()
	pages <- page(3)
	r := s.Stop(Window{Zero: from, From: from, To: from.Add(time.Hour)})
	want := []Count{
		{"decode", Failures, "", 4, 0}, {"decode", CacheTokens, "", 4096, 0}, {"decode", TransferTime, "", 1, 2},
		{"decode", Ended, "length", 4, 0}, {"decode", Ended, "other", 2, 0}, {"decode", CachedOnGPU, "", 14, 0}, {"decode", QueueTime, "", 4, 8},
	}
	near := cmpopts.EquateApprox(0.01, 0) // the first reading was a moment before the window
	byName := cmpopts.SortSlices(func(a, b Count) bool { return a.Name+a.Label < b.Name+b.Label })
	if diff := cmp.Diff(want, r.Counts, byName, near); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	r.Add(&Record{Counts: []Count{{"decode", QueueTime, "", 1, 2}, {"prefill", QueueTime, "", 1, 1}}}, "other")
	sum := map[string]Count{}
	for _, c := range r.Counts {
		sum[c.Of+" "+c.Name] = c
	}
	if diff := cmp.Diff(Count{"decode", QueueTime, "", 5, 10}, sum["decode queue_time"], near); diff != "" || sum["prefill queue_time"].Sum != 1 {
		t.Errorf("of two hosts (-want +got):\n%s", diff)
	}
}

// TestRanks: what ranks of tensor and pipeline parallel repeat counts once, and what those of data parallel tell all.
func TestRanks(t *testing.T) {
	e := Exports{Quantities: []Quantity{{Generated, Counter, []string{"sglang:generation_tokens_total"}, 0}}}
	var page strings.Builder
	for dp := range 2 {
		for pp := range 2 {
			for tp := 2 * dp; tp < 2*dp+2; tp++ { // as with attention in data parallel
				for _, priority := range []string{"a", "b"} {
					fmt.Fprintf(&page, "sglang:generation_tokens_total{dp_rank=\"%d\",pp_rank=\"%d\",priority=%q,tp_rank=\"%d\"} 10\n", dp, pp, priority, tp)
				}
			}
		}
	}
	if got := e.Values(page.String())[Generated]; got != 40 {
		t.Errorf("%v tokens, want 40", got)
	}
}

// TestStoppedTwice: who asks again for what was read, since an answer was lost, gets the same; an engine is asked once
// for its last numbers.
func TestStoppedTwice(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "vllm:prefix_cache_queries_total %d\n", asked.Add(1))
	}))
	defer server.Close()
	e := vllmNames
	e.URL = server.URL
	begin := time.Now()
	s := Start(t.Context(), Plan{Interval: 3600, Engines: []Exports{e}}, nil)
	w := Window{Zero: begin, From: begin, To: begin.Add(time.Hour)}
	var both [2]*Record
	var stopping sync.WaitGroup
	for i := range both {
		stopping.Go(func() { both[i] = s.Stop(w) })
	}
	stopping.Wait()
	if diff := cmp.Diff(both[0], both[1]); diff != "" || asked.Load() > 2 {
		t.Errorf("asked %d times, the first and the second (-, +):\n%s", asked.Load(), diff)
	}
}

// TestCounterThatAppears: routers and SGLang show a counter first when it has counted; before that it stood at zero.
func TestCounterThatAppears(t *testing.T) {
	e := Exports{Quantities: []Quantity{{Retried, Counter, []string{"smg_worker_retries_total"}, 0}}}
	r := readPages(t, e, 6, func(n int64) string {
		if n < 4 {
			return "up 1\n"
		}
		return fmt.Sprintf("smg_worker_retries_total %d\n", n)
	})
	if len(r.Counts) != 1 || r.Counts[0].Sum < 6 {
		t.Errorf("counts %+v, want 6 retries", r.Counts)
	}
}

// TestLoads: what the scheduler says when it is asked counts, not the gauge that tells it late; a server that does not
// know the question is asked it once, and one that does and fails leaves no gauge in its place.
func TestLoads(t *testing.T) {
	busy := strings.NewReplacer(`"num_running_reqs":0`, `"num_running_reqs":4`, `"num_used_tokens":0`, `"num_used_tokens":16384`).Replace(recording.Text(t, "sglang-0.5.23/loads.json"))
	e := Exports{URL: "metrics", Loads: "loads", Quantities: []Quantity{{Running, Gauge, []string{"running"}, 0}, {PromptTokens, Counter, []string{"tokens"}, 0}}}
	answers := map[string]string{"metrics": "running 1\ntokens 7\n"}
	read := func() map[string]float64 {
		values, err := e.Read(t.Context(), func(_ context.Context, url string) ([]byte, error) {
			if answers[url] == "" {
				return nil, errors.New("404")
			}
			return []byte(answers[url]), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	for _, c := range []struct {
		loads string
		want  map[string]float64
	}{
		{busy, map[string]float64{Running: 4, Waiting: 0, KVCache: 0.25, PromptTokens: 7}},
		{"", map[string]float64{PromptTokens: 7}},
	} {
		answers["loads"] = c.loads
		if diff := cmp.Diff(c.want, read()); diff != "" {
			t.Errorf("%.40q (-want +got):\n%s", c.loads, diff)
		}
	}
	e.tellsLoads = false
	if diff := cmp.Diff(map[string]float64{Running: 1, PromptTokens: 7}, read()); diff != "" || e.Loads != "" {
		t.Errorf("of a version that does not tell (-want +got):\n%s", diff)
	}
}
