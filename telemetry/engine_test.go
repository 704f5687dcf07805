package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var vllmNames = Exports{
	Running: []string{"vllm:num_requests_running"}, Waiting: []string{"vllm:num_requests_waiting"},
	KVCache: []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
	Hits:    []string{"vllm:prefix_cache_hits_total"}, Queries: []string{"vllm:prefix_cache_queries_total"},
}

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
	r := readPages(t, vllmNames, 6, func(n int64) string {
		return fmt.Sprintf(`# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a {b} c"} %d.0
vllm:num_requests_running{engine="1",model_name="a {b} c"} 2.0
vllm:gpu_cache_usage_perc{engine="0"} 0.25
vllm:gpu_cache_usage_perc{engine="1"} 0.75
vllm:num_requests_waiting NaN
vllm:prefix_cache_hits_total{engine="0"} %d
vllm:prefix_cache_queries_total{engine="0"} %d 1700000000000
`, n, 25*n, 100*n)
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

// TestCounterNames: counters are found with and without the ending that newer forms of
// the format give them, and the gauge of one is not taken for another.
func TestCounterNames(t *testing.T) {
	for _, text := range []string{
		"vllm:prefix_cache_hits_total 25\nvllm:prefix_cache_queries_total 100\n",
		"vllm:prefix_cache_hits 25\nvllm:prefix_cache_queries 100\n",
		"vllm:prefix_cache_hits 1\nvllm:prefix_cache_hits_total 25\nvllm:prefix_cache_queries{a=\"b\"} 100\n",
	} {
		values := vllmNames.Values(text)
		if diff := cmp.Diff(map[string]float64{hits: 25, queries: 100}, values); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestExportsSendElsewhere: nobody is asked whom an engine names.
func TestExportsSendElsewhere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another was asked") }))
	defer other.Close()
	engine := httptest.NewServer(http.RedirectHandler(other.URL+"/secret", http.StatusFound))
	defer engine.Close()
	e := Exports{URL: engine.URL}
	err := e.source()(t.Context(), time.Millisecond, func(time.Time, ...Reading) {})
	if err == nil || !strings.Contains(err.Error(), "302 Found") {
		t.Errorf("error = %v", err)
	}
}

// TestSpeculation is what speculative decoding brings: from counters over the
// window, or from what the engine says of its newest steps.
func TestSpeculation(t *testing.T) {
	for _, test := range []struct {
		name  string
		names Exports
		page  func(n int64) string
	}{
		{"counters", Exports{Accepted: []string{"accepted"}, Drafted: []string{"drafted"}, Drafts: []string{"drafts"}},
			func(n int64) string {
				return fmt.Sprintf("accepted %d\ndrafted %d\ndrafts %d\n", 150*n, 300*n, 100*n)
			}},
		{"gauges", Exports{AcceptRate: []string{"rate"}, StepTokens: []string{"length"}}, func(n int64) string {
			if n == 1 { // before the first step
				return "rate 0\nlength 0\n"
			}
			return "rate{tp_rank=\"0\"} 0.4\nrate{tp_rank=\"1\"} 0.6\nlength{tp_rank=\"0\"} 2\nlength{tp_rank=\"1\"} 3\n"
		}},
		{"none", Exports{Accepted: []string{"accepted"}, Drafted: []string{"drafted"}, Drafts: []string{"drafts"}},
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
			map[string]float64{Running: 8, Waiting: 0, KVCache: 0.2, hits: 2, queries: 8, accepted: 12, drafted: 20}},
		{`[{"iter": 3, "attentionDpRank": 0, "numActiveRequests": 4, "numQueuedRequests": 3, "kvCacheStats": {"usedNumBlocks": 30, "maxNumBlocks": 100, "reusedBlocks": 2, "missedBlocks": 6}, "specDecodingStats": {"numDraftTokens": 10, "numAcceptedTokens": 5}, "inflightBatchingStats": {"numScheduledRequests": 4, "numPausedRequests": 0}},
		   {"iter": 3, "attentionDpRank": 1, "numActiveRequests": 4, "numQueuedRequests": 0, "kvCacheStats": {"usedNumBlocks": 30, "maxNumBlocks": 100, "reusedBlocks": 2, "missedBlocks": 6}, "specDecodingStats": {"numDraftTokens": 10, "numAcceptedTokens": 5}, "inflightBatchingStats": {"numScheduledRequests": 2, "numPausedRequests": 1}}]`,
			map[string]float64{Running: 7, Waiting: 3, KVCache: 0.3, hits: 2, queries: 8, accepted: 17, drafted: 30}},
		{`[]`, map[string]float64{}},
		{`[{"numActiveRequests": 1, "specDecodingStats": {"numDraftTokens": 5, "numAcceptedTokens": 5}}]`,
			map[string]float64{Running: 1, accepted: 22, drafted: 35}},
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

func TestSum(t *testing.T) {
	const text = `# HELP vllm:prompt_tokens_by_source Tokens.
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 5
vllm:prompt_tokens_by_source_total{engine="1",source="local_compute"} 7
vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"} 100
vllm:generation_tokens{engine="0"} 3
`
	for _, c := range []struct {
		name, label string
		want        float64
		ok          bool
	}{
		{"vllm:prompt_tokens_by_source_total", `source="local_compute"`, 12, true},
		{"vllm:prompt_tokens_by_source_total", "", 112, true},
		{"vllm:prompt_tokens_by_source_total", `source="other"`, 0, false},
		{"vllm:generation_tokens_total", "", 3, true},
		{"vllm:other_total", "", 0, false},
	} {
		if got, ok := Sum(text, c.name, c.label); got != c.want || ok != c.ok {
			t.Errorf("Sum of %s with %s = %g, %v, want %g, %v", c.name, c.label, got, ok, c.want, c.ok)
		}
	}
}
