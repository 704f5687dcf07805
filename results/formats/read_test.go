package formats

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/load"
	"hclbench/results"
)

func importOne(t *testing.T, text string) Result {
	t.Helper()
	all, _, err := Read(strings.NewReader(text))
	check(t, err)
	if len(all) != 1 {
		t.Fatalf("Import found %d results, want 1", len(all))
	}
	return all[0]
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// axes are axes, each name before its value.
func axes(pairs ...any) (all results.Axes) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, results.Axis{Name: pairs[i].(string), Value: pairs[i+1]})
	}
	return all
}

// vllmSaved is an object of --save-result --save-detailed with what vLLM may put
// there: metadata, a ramp, speculative decoding, and a member that nobody knows.
const vllmSaved = `{"date": "20261120-093000", "endpoint_type": "openai-chat", "backend": "openai-chat", "label": "nightly", ` +
	`"model_id": "m", "tokenizer_id": "t", "num_prompts": 3, "gpu": "H200", "request_rate": 2.50, "burstiness": 1.0, ` +
	`"max_concurrency": 8, "ramp_up_strategy": "linear", "duration": 4.0, "completed": 2, "failed": 1, ` +
	`"total_input_tokens": 20, "total_output_tokens": 6, "request_throughput": 0.5, "request_goodput": 0.25, ` +
	`"output_throughput": 1.5, "total_token_throughput": 6.5, "max_output_tokens_per_s": 3.0, "max_concurrent_requests": 3, ` +
	`"rtfx": 0.0, "spec_decode_acceptance_rate": 47.16, "spec_decode_acceptance_length": 4.77, "spec_decode_num_drafts": 446819, ` +
	`"spec_decode_draft_tokens": 3574552, "spec_decode_accepted_tokens": 1685779, ` +
	`"spec_decode_per_position_acceptance_rates": [0.8227, 0.6616], ` +
	`"mean_ttft_ms": 250.0, "median_ttft_ms": 250.0, "std_ttft_ms": 0.0, "p99_ttft_ms": 250.0, "p99.9_ttft_ms": 251.0, ` +
	`"tomorrow": {"z": 1, "a": [1e3]}, "generated_texts": ["a", "b", ""]`

const vllmArrays = `, "input_lens": [10, 10, 10], "output_lens": [3, 3, 0], "ttfts": [0.25, 0.25, 0], ` +
	`"itls": [[0.125, 0.125], [0.5, 0.25], []], "start_times": [0, 1.5, 2], "errors": ["", "", "Bad Gateway"]`

// generatorOnly are the figures that only this program's generator measures of itself.
func generatorOnly() []string {
	return []string{"asked_input_tokens", "asked_output_tokens", "client_cpu_share", "merged_chunks", "merged_share", "normalized_latency_ms", "queue_ms", "send_lag_ms"}
}

func TestImportVLLM(t *testing.T) {
	got := importOne(t, vllmSaved+vllmArrays+"}")
	goodput := 0.25
	when := time.Date(2026, 11, 20, 9, 30, 0, 0, time.Local)
	want := results.Cell{
		Started: when, Finished: when.Add(4 * time.Second),
		Axes: axes("concurrency", int64(8), "rate", 2.5, "input_tokens", int64(10), "output_tokens", int64(3), "label", "nightly"),
		Job: results.Task{Job: load.Job{
			Target:   load.Target{Model: "m"},
			Workload: load.Workload{Requests: 3, Concurrency: 8, Rate: 2.5, Burstiness: 1, Endpoint: load.Chat},
		}},
		Summary: &load.Summary{
			Part: load.Part{Figures: load.Figures{
				Started: when, Duration: 4, Requests: 3, Completed: 2, Failed: 1, InputTokens: 20, OutputTokens: 6,
				RequestThroughput: 0.5, InputThroughput: 5, OutputThroughput: 1.5, TotalThroughput: 6.5,
				PeakOutputThroughput: 3, PeakConcurrency: 3,
				TTFT: load.Stats{Count: 2, Mean: 250, Median: 250, Percentiles: map[string]float64{"99": 250, "99.9": 251}},
				TPOT: load.Stats{Percentiles: map[string]float64{}}, ITL: load.Stats{Percentiles: map[string]float64{}}, E2EL: load.Stats{Percentiles: map[string]float64{}},
			}, Judgement: load.Judgement{
				Goodput: &goodput,
				Verdict: load.Verdict{Verdict: load.Suspect, Reasons: load.Because(load.CodeFailed, "1 of 3 requests failed")},
			}},
			Unknown: append(generatorOnly(), "mean_concurrency", "ttft_ms.max", "ttft_ms.min"),
		},
		Origin: &results.Origin{Format: "vllm", Fields: got.Origin.Fields},
	}
	if diff := cmp.Diff(want, got.Cell, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("cell (-want +got):\n%s", diff)
	}
	ms := time.Millisecond
	records := []load.Record{
		{First: 250 * ms, Last: 500 * ms, End: 500 * ms, Gaps: []time.Duration{125 * ms, 125 * ms}, InputTokens: 10, OutputTokens: 3, AskedInput: 10, AskedOutput: 3},
		{Seq: 1, Scheduled: 1500 * ms, Ready: 1500 * ms, Sent: 1500 * ms, First: 1750 * ms, Last: 2500 * ms, End: 2500 * ms,
			Gaps: []time.Duration{500 * ms, 250 * ms}, InputTokens: 10, OutputTokens: 3, AskedInput: 10, AskedOutput: 3},
		{Seq: 2, Scheduled: 2000 * ms, Ready: 2000 * ms, Sent: 2000 * ms, Last: 2000 * ms, End: 2000 * ms, InputTokens: 10, AskedInput: 10,
			Class: "elsewhere", Error: "Bad Gateway"},
	}
	if diff := cmp.Diff(records, got.Records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestImportLosesNothing: what another tool wrote is written again as it was,
// member for member and digit for digit.
func TestImportLosesNothing(t *testing.T) {
	in := importOne(t, vllmSaved+vllmArrays+"}")
	got, err := vllm().Detailed(results.Row{Cell: in.Cell}, in.Records)
	check(t, err)
	if diff := cmp.Diff(compact(t, vllmSaved+vllmArrays+"}"), compact(t, string(got))); diff != "" {
		t.Errorf("vLLM, detailed (-want +got):\n%s", diff)
	}
	got, err = vllm().JSON(results.Row{Cell: in.Cell})
	check(t, err)
	if diff := cmp.Diff(compact(t, vllmSaved+"}"), compact(t, string(got))); diff != "" {
		t.Errorf("vLLM (-want +got):\n%s", diff)
	}

	line, err := sglang().Detailed(sglangRow(), []load.Record{{First: time.Second, Gaps: []time.Duration{time.Millisecond}, InputTokens: 4, OutputTokens: 2}})
	check(t, err)
	in = importOne(t, string(line))
	got, err = sglang().Detailed(results.Row{Cell: in.Cell}, in.Records)
	check(t, err)
	if diff := cmp.Diff(members(t, line), members(t, got)); diff != "" {
		t.Errorf("SGLang, detailed (-want +got):\n%s", diff)
	}

	for file, tool := range map[string]Tool{
		"testdata/vllm-serve.txt": vllm(), "testdata/vllm-spec.txt": vllm(), "testdata/sglang-serve.txt": sglang(),
	} {
		text, err := os.ReadFile(file)
		check(t, err)
		in := importOne(t, "some log\n"+string(text)+"the end\n")
		var again bytes.Buffer
		check(t, tool.Text(&again, results.Row{Cell: in.Cell}))
		if diff := cmp.Diff(string(text), again.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// compact is JSON without its white space, and otherwise as it is spelt.
func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	check(t, json.Compact(&b, []byte(text)))
	return b.String()
}

// members reads an object as any reader of JSON would.
func members(t *testing.T, text []byte) (values map[string]any) {
	t.Helper()
	check(t, json.Unmarshal(text, &values))
	return values
}

// TestImportOfOurs: what we export comes back with the figures that it had.
func TestImportOfOurs(t *testing.T) {
	row := sglangRow()
	figures := func(s *load.Summary) any {
		return []any{s.Duration, s.Completed, s.InputTokens, s.OutputTokens, s.RequestThroughput, s.OutputThroughput,
			s.TotalThroughput, s.PeakConcurrency, s.PeakOutputThroughput, s.TTFT.Mean, s.TPOT.Median, s.ITL.Std, s.E2EL.Percentiles["99"]}
	}
	for format, write := range map[string]func(results.Row) ([]byte, error){"vllm": vllm().JSON, "sglang": sglang().JSON} {
		line, err := write(row)
		check(t, err)
		in := importOne(t, string(line))
		if in.Origin.Format != format {
			t.Errorf("what we wrote as %s is taken for %s", format, in.Origin.Format)
		}
		if diff := cmp.Diff(figures(row.Summary), figures(in.Summary)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
		if got := in.Job.Workload.Concurrency; got != 1024 {
			t.Errorf("%s: concurrency %d", format, got)
		}
	}
}

// TestImportSeveral: files that were appended to, arrays, and what Python writes
// for infinity.
func TestImportSeveral(t *testing.T) {
	one := `{"backend": "sglang", "dataset_name": "Infinity \" Infinity", "request_rate": Infinity, "max_concurrency": null, "accept_length": NaN, "duration": 2.0, "completed": 4}`
	for name, text := range map[string]string{"lines": one + "\n" + one + "\n", "array": "[" + one + ",\n" + one + "]"} {
		all, _, err := Read(strings.NewReader(text))
		check(t, err)
		if len(all) != 2 {
			t.Fatalf("%s: %d results, want 2", name, len(all))
		}
		w := all[1].Job.Workload
		if w.Rate != load.Inf || w.Endpoint != load.Generate || w.Dataset.Kind != `Infinity " Infinity` {
			t.Errorf("%s: workload %+v", name, w)
		}
		if line, err := sglang().JSON(results.Row{Cell: all[1].Cell}); err != nil || !json.Valid(line) {
			t.Errorf("%s: %v: not JSON: %s", name, err, line)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "neither an object nor",
		"hello":                            "neither an object nor",
		`{"completed": 1}`:                 `result 1: it has no number "duration"`,
		`{"completed": 1, "duration": 1`:   "result 1",
		`[1]`:                              "result 1: it is not an object",
		`{"duration": 1, "completed": -1}`: `no number "completed"`,
		`{"duration": 1, "completed": 1, "ttfts": "x"}`: "ttfts",
	} {
		if _, _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%q): %v, want %q", text, err, want)
		}
	}
}

// TestImportContradiction: published figures that cannot be true together are
// named.
func TestImportContradiction(t *testing.T) {
	in := importOne(t, `{"dataset_name": "random", "max_concurrency": 4, "duration": 5630.8, "completed": 500, "mean_e2e_latency_ms": 45046.0, "concurrency": 111.06}`)
	got := strings.Join(in.Summary.Verdict.Texts(), "\n")
	if want := "the mean concurrency is given as 111.06, but 500 requests of 45.05 s in 5630.80 s make it 4.00 (Little's law)"; !strings.Contains(got, want) {
		t.Errorf("reasons:\n%s\nwant %q", got, want)
	}
}

// TestReadCopiesLittle: a large file takes few times its size to read.
func TestReadCopiesLittle(t *testing.T) {
	const requests = 400
	gaps := strings.TrimSuffix(strings.Repeat("["+strings.TrimSuffix(strings.Repeat("0.012345678901234,", 999), ",")+"],", requests), ",")
	each := func(v string) string { return strings.TrimSuffix(strings.Repeat(v+",", requests), ",") }
	text := `{"date": "20250101-000000", "backend": "vllm", "model_id": "m", "num_prompts": 400, "completed": 400, "duration": 100,
		"input_lens": [` + each("10") + `], "output_lens": [` + each("1000") + `], "ttfts": [` + each("0.1") + `],
		"errors": [` + each(`""`) + `], "itls": [` + gaps + `]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all, _, err := Read(strings.NewReader(text))
	runtime.ReadMemStats(&after)
	if err != nil || len(all) != 1 || len(all[0].Records) != requests {
		t.Fatalf("%d results, %v", len(all), err)
	}
	if times := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(text)); times > 12 {
		t.Errorf("reading %d MB took %.1f times as much", len(text)>>20, times)
	}
}
