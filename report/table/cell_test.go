package table

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/telemetry"
)

func TestCell(t *testing.T) {
	r := reporttest.Row("vllm.h200", 16, 240, 27.33)
	r.Identity = map[string]string{"deployment": "d1", "--tp": "8"}
	d := &r.Deployment
	d.Image, d.Digest = "vllm/vllm-openai:v0.7.3", "sha256:abc"
	d.Command = []string{"vllm", "serve"}
	d.Versions = map[string]string{"vllm": "0.7.3", "torch": "2.5.1"}
	d.Facts = json.RawMessage(`{"os":"Ubuntu","gpus":[{"name":"H100","memory_bytes":80e9},{"name":"H100","memory_bytes":80e9}]}`)
	d.Phases = []results.Phase{{Name: "loading weights", Seconds: 61.5}}
	r.CacheReset = "flushed"
	hit := 0.5
	r.Telemetry = &telemetry.Record{
		Interval: 1, Expected: 4, Missing: 1, Energy: 2 * float64(r.Summary.OutputTokens), PrefixHitRate: &hit,
		Problems: []string{"engine: no answer"},
		Series: []telemetry.Series{
			{Of: "gpu0", Name: telemetry.Power, Value: []float64{600, 700}}, {Of: "gpu1", Name: telemetry.Power, Value: []float64{500}},
			{Of: "gpu0", Name: telemetry.Throttled, Value: []float64{0, 0}},
			{Of: "gpu0", Name: telemetry.Memory, Value: []float64{70 << 30}},
			{Of: telemetry.Host, Name: telemetry.Memory, Value: []float64{1 << 40}},
			{Of: telemetry.Engine, Name: telemetry.KVCache, Value: []float64{0.25, 0.75}},
		},
	}
	got := cellText(t, r, results.Event{Time: r.Started, Level: "warn", Message: "hot\nvery"})
	reporttest.Holds(t, got, "Engine              vllm.h200 on h200 8xH200\n",
		"Image               vllm/vllm-openai:v0.7.3 sha256:abc\n",
		"Ready               61.5 s for loading weights\n",
		"Versions            torch 2.5.1\n                    vllm 0.7.3\n",
		"Host                gpus: 2 × memory 80.0 GB, name H100\n                    os: Ubuntu\n",
		"Identity            --tp: 8\n                    deployment: d1\n",
		"Prefix cache        flushed\n",
		"Latency  TTFT ms  TPOT ms",
		"Power of a GPU (W)      600   500   700\n",
		"Memory of a GPU (GiB)  70.0  70.0  70.0\n",
		"KV cache in use (%)    50.0  25.0  75.0\n",
		" J of all its GPUs, 2.00 per output token\n",
		"Prefix cache        50.0 % of prompt tokens were in it\n",
		"Readings            1 of 4 did not come\n",
		"Not read            engine: no answer\n",
		" warn  hot\n    very\n",
	)
	if strings.Contains(got, "throttled") {
		t.Errorf("what never happened is told:\n%s", got)
	}
	reporttest.Trimmed(t, got)

	r.Summary, r.Error = nil, "the engine was lost"
	got = cellText(t, r)
	if reporttest.Holds(t, got, "Error               the engine was lost"); strings.Contains(got, "TTFT") {
		t.Errorf("a cell without a measurement:\n%s", got)
	}
}

// TestCellInShort: a table of answers that an engine is told is not printed whole, in its command or in its identity.
func TestCellInShort(t *testing.T) {
	r := reporttest.Row("vllm.h200", 16, 240, 27.33)
	answers := strings.Repeat("60 are left. ", 400)
	r.Deployment.Command, r.Identity = []string{"hcl", "sim", answers}, map[string]string{"--answers": answers}
	got := cellText(t, r)
	if short := "(5.2 kB, whole in --json)"; strings.Count(got, short) != 2 || strings.Count(got, "60 are left.") > 80 {
		t.Errorf("want %q twice:\n%s", short, got)
	}
}

// TestNeverServed: an engine that never served was not ready after 0 s, and its command
// can be run as it is printed.
func TestNeverServed(t *testing.T) {
	r := reporttest.Row("vllm.h200", 16, 240, 27.33)
	r.Summary, r.Error = nil, "CUDA out of memory"
	r.Deployment.Command = []string{"sh", "-c", "echo it's $HOME"}
	reporttest.Holds(t, cellText(t, r), "Ready               never, as far as is known\n", `sh -c 'echo it'\''s $HOME'`)
	script := "set -e\nexec vllm serve " + strings.Repeat("--a-flag value ", 10)
	r.Deployment.Command = []string{"sh", "-c", script}
	narrow := reporttest.Written(t, func(w io.Writer) error { return Cell(w, r, figure.Found{}, nil, 80) })
	reporttest.Holds(t, narrow, "\n"+strings.Repeat(" ", factWidth)+strings.Split(script, "\n")[1])
}

// What others have published without counts is shown, and what they have not is not 0.
func TestCellOfOthers(t *testing.T) {
	r := reporttest.Row("vllm.h200", 16, 240, 27)
	r.Started, r.Finished, r.Run.Command = time.Time{}, time.Time{}, "import"
	r.Identity = map[string]string{"axes": "[{engine vllm.h200}]", "imported": "true"}
	r.Summary = &load.Summary{
		Part: load.Part{Figures: load.Figures{
			OutputThroughput: 500,
			TTFT:             load.Stats{Median: 111, Percentiles: map[string]float64{"99": 333}},
		}, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Imported}}},
		Unknown: []string{"requests", "completed", "failed", "duration_s", "input_tokens", "output_tokens", "asked_input_tokens",
			"asked_output_tokens", "request_throughput", "input_throughput", "total_throughput", "ttft_ms.mean",
			"ttft_ms.std", "ttft_ms.min", "ttft_ms.max"},
	}
	counted := r
	s := *r.Summary
	s.TTFT.Count = 512
	counted.Summary = &s
	for name, r := range map[string]results.Row{"alone": r, "with counts": counted} {
		for where, got := range map[string]string{"cell": cellText(t, r), "table": table(t, []results.Row{r}, 0)} {
			reporttest.Holds(t, got, "111", "333")
			for _, wrong := range []string{"0001-", " 0 tokens", " 0 requests/s", " 0 s ", " 0 input", "  0 ", "0.00", "unknown", "[{"} {
				if strings.Contains(got, wrong) {
					t.Errorf("%s, %s: %q stands for what is not known:\n%s", name, where, wrong, got)
				}
			}
		}
	}
}

// cellText is a cell as [Cell] prints it.
func cellText(t *testing.T, r results.Row, events ...results.Event) string {
	t.Helper()
	return reporttest.Written(t, func(w io.Writer) error { return Cell(w, r, figure.Found{}, events, 0) })
}

// TestCounted: what an engine counts stands beside what our own clock says, by role; where sources of prompts are told
// nothing is said of a cache that one role alone looks into.
func TestCounted(t *testing.T) {
	r := reporttest.Row("vllm.h200", 16, 240, 27.33)
	none := 0.0
	r.Summary.TTFT.Mean = 250
	r.Telemetry = &telemetry.Record{PrefixHitRate: &none, Counts: []telemetry.Count{
		{Name: telemetry.QueueTime, Sum: 0.032, Times: 64}, {Name: telemetry.EngineTTFT, Sum: 15.4, Times: 63.6},
		{Name: telemetry.EngineE2EL, Sum: 124, Times: 62}, {Name: telemetry.Computed, Sum: 900}, {Name: telemetry.CachedOnHost, Sum: 100},
		{Name: telemetry.Ended, Label: "length", Sum: 64}, {Name: telemetry.Refused, Label: "max_num_queued_reqs", Sum: 3},
		{Name: telemetry.CacheTokens, Sum: 1048576}, {Name: telemetry.CacheBytes, Sum: 1 << 30}, {Name: telemetry.HandedOver, Sum: 5},
	}}
	got := cellText(t, r)
	reporttest.Holds(t, got, "\nEngine's clock      62 to 64 requests: queue 0.500 ms, TTFT 242 ms (ours 250 ms), E2EL 2,000 ms (ours",
		"\nPrompt tokens       900 computed (90.0 %), 100 from the host's memory (10.0 %)\n",
		"\nRequests ended      64 (length), 3 refused (max_num_queued_reqs)\n",
		"\nKV cache            room for 1,048,576 tokens, 1.1 GB\n")
	if strings.Contains(got, "Prefix cache") {
		t.Errorf("a cache is spoken of besides:\n%s", got)
	}
	r.Deployment.Members = []results.Member{{Role: "prefill"}, {Role: "decode"}}
	r.Telemetry.Counts = []telemetry.Count{
		{Of: "prefill", Name: telemetry.PrefillTime, Sum: 68.46, Times: 29}, {Of: "prefill", Name: telemetry.DecodeTime, Times: 29}, {Of: "decode", Name: telemetry.DecodeTime, Sum: 103.25, Times: 21},
		{Of: "decode", Name: telemetry.Fetched, Sum: 4872}, {Of: "decode", Name: telemetry.Transferred, Sum: 5636096, Times: 22},
		{Of: "decode", Name: telemetry.TransferTime, Sum: 4.114, Times: 22}, {Of: "decode", Name: telemetry.TransferBlocks, Sum: 60, Times: 22},
		{Of: "router", Name: telemetry.Retried, Sum: 2},
	}
	reporttest.Holds(t, cellText(t, r), "\nEngine's clock      prefill: 29 requests: prefill 2,361 ms\n                    decode: 21 requests: decode 4,917 ms\n",
		"\nPrompt tokens       decode: 4,872 from another instance (100 %)\n",
		"\nRequests ended      router: 2 sent again\n",
		"\nKV transferred      decode: 22 transfers: 5.6 MB in all, 60 descriptors, 187 ms each\n")
}
