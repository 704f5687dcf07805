package formats

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/results"
)

func stats(mean, median, std, p99 float64) load.Stats {
	return load.Stats{Mean: mean, Median: median, Std: std, Percentiles: map[string]float64{"99": p99}}
}

// vllmRow is the run whose block is in testdata/vllm-serve.txt, as vLLM printed it.
func vllmRow() results.Row {
	return results.Row{Cell: results.Cell{
		ID: "c1",
		Job: results.Task{Job: load.Job{
			Target:   load.Target{Model: "m<1>"},
			Workload: load.Workload{Requests: 2048, Concurrency: 1024, Endpoint: load.Completions},
		}},
		Summary: &load.Summary{
			Part: load.Part{Figures: load.Figures{
				Started: time.Date(2026, 11, 21, 14, 25, 1, 0, time.Local), Duration: 6.1632, Requests: 2048, Completed: 2048,
				InputTokens: 65536, OutputTokens: 262144,
				RequestThroughput: 332.30, OutputThroughput: 42533.89, TotalThroughput: 53167.36,
				PeakOutputThroughput: 51128, PeakConcurrency: 2047,
				TTFT: stats(347.39, 357.09, 10, 523.97), TPOT: stats(20.08, 19.87, 20, 22.36),
				ITL: stats(20.08, 19.99, 30, 64.18), E2EL: stats(2897.21, 2841.78, 40, 3330.21),
			}},
		},
	}}
}

func TestVLLMText(t *testing.T) {
	want, err := os.ReadFile("testdata/vllm-serve.txt")
	check(t, err)
	var got bytes.Buffer
	check(t, vllm().Text(&got, vllmRow()))
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("VLLMText (-want +got):\n%s", diff)
	}
}

func TestVLLMTextOptionalRows(t *testing.T) {
	row := vllmRow()
	row.Job.Workload.Concurrency, row.Job.Workload.Rate = 0, 2.5
	goodput := 1.5
	row.Summary.Goodput = &goodput
	row.Summary.TTFT.Percentiles = map[string]float64{"99.9": 4, "50": 2, "9": 1, "99": 3}
	var got bytes.Buffer
	check(t, vllm().Text(&got, row))
	for _, want := range []string{
		"Failed requests:                         0         \nRequest rate configured (RPS):           2.50      \nBenchmark duration",
		"Request throughput (req/s):              332.30    \nRequest goodput (req/s):                 1.50      \nOutput",
		"P9 TTFT (ms):                            1.00      \nP50 TTFT (ms):                           2.00      \n" +
			"P99 TTFT (ms):                           3.00      \nP99.9 TTFT (ms):                         4.00      \n---",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("VLLMText lacks %q:\n%s", want, got.String())
		}
	}
}

// members reads an object as any reader of JSON would, and the order of its keys.
func members(t *testing.T, text []byte) (keys []string, values map[string]any) {
	t.Helper()
	check(t, json.Unmarshal(text, &values))
	dec := json.NewDecoder(bytes.NewReader(text))
	_, err := dec.Token()
	check(t, err)
	for dec.More() {
		key, err := dec.Token()
		check(t, err)
		keys = append(keys, key.(string))
		check(t, dec.Decode(new(any)))
	}
	return keys, values
}

func TestVLLMJSON(t *testing.T) {
	text, err := vllm().JSON(vllmRow())
	check(t, err)
	if bytes.Count(text, []byte("\n")) != 1 {
		t.Errorf("not one line: %s", text)
	}
	keys, got := members(t, text)
	wantKeys := strings.Fields(`date endpoint_type backend label model_id tokenizer_id num_prompts
		request_rate burstiness max_concurrency
		duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput
		output_throughput total_token_throughput max_output_tokens_per_s max_concurrent_requests rtfx
		mean_ttft_ms median_ttft_ms std_ttft_ms p99_ttft_ms
		mean_tpot_ms median_tpot_ms std_tpot_ms p99_tpot_ms
		mean_itl_ms median_itl_ms std_itl_ms p99_itl_ms
		mean_e2el_ms median_e2el_ms std_e2el_ms p99_e2el_ms`)
	if diff := cmp.Diff(wantKeys, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"date": "20261121-142501", "endpoint_type": "openai", "backend": "openai", "label": nil,
		"model_id": "m<1>", "tokenizer_id": "m<1>", "num_prompts": 2048.0,
		"request_rate": "inf", "burstiness": 1.0, "max_concurrency": 1024.0,
		"duration": 6.1632, "completed": 2048.0, "failed": 0.0, "total_input_tokens": 65536.0, "total_output_tokens": 262144.0,
		"request_throughput": 332.30, "request_goodput": nil, "output_throughput": 42533.89, "total_token_throughput": 53167.36,
		"max_output_tokens_per_s": 51128.0, "max_concurrent_requests": 2047.0, "rtfx": 0.0,
		"mean_ttft_ms": 347.39, "median_ttft_ms": 357.09, "std_ttft_ms": 10.0, "p99_ttft_ms": 523.97,
		"mean_tpot_ms": 20.08, "median_tpot_ms": 19.87, "std_tpot_ms": 20.0, "p99_tpot_ms": 22.36,
		"mean_itl_ms": 20.08, "median_itl_ms": 19.99, "std_itl_ms": 30.0, "p99_itl_ms": 64.18,
		"mean_e2el_ms": 2897.21, "median_e2el_ms": 2841.78, "std_e2el_ms": 40.0, "p99_e2el_ms": 3330.21,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestVLLMJSONOpenLoop(t *testing.T) {
	row := vllmRow()
	goodput := 2.25
	row.Job.Workload = load.Workload{Duration: load.Duration(time.Minute), Rate: 2.5, Burstiness: 0.5, Endpoint: load.Chat}
	row.Summary.Goodput = &goodput
	text, err := vllm().JSON(row)
	check(t, err)
	_, got := members(t, text)
	for key, want := range map[string]any{
		"backend": "openai-chat", "num_prompts": 2048.0, "request_rate": 2.5, "burstiness": 0.5,
		"max_concurrency": nil, "request_goodput": 2.25,
	} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
}

func TestVLLMDetailedJSON(t *testing.T) {
	ms := time.Millisecond
	text, err := vllm().Detailed(vllmRow(), []load.Record{
		{Sent: 500 * ms, First: 750 * ms, Last: 1000 * ms, Gaps: []time.Duration{125 * ms, 125 * ms}, InputTokens: 10, OutputTokens: 3},
		{Sent: 1000 * ms, AskedInput: 12, Class: load.ClassStatus, Error: "503"},
	})
	check(t, err)
	keys, got := members(t, text)
	order := strings.Join(keys, " ")
	if want := "input_lens output_lens ttfts itls start_times generated_texts errors"; !strings.Contains(order, want) {
		t.Errorf("keys are %s; want among them %s", order, want)
	}
	want := map[string]any{
		"input_lens": []any{10.0, 12.0}, "output_lens": []any{3.0, 0.0},
		"ttfts": []any{0.25, 0.0}, "itls": []any{[]any{0.125, 0.125}, []any{}}, "start_times": []any{0.5, 1.0},
		"generated_texts": []any{"", ""}, "errors": []any{"", "status: 503"},
	}
	for key, w := range want {
		if diff := cmp.Diff(w, got[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

func TestVLLMWithoutMeasurement(t *testing.T) {
	row := results.Row{Cell: results.Cell{ID: "c1", Error: "the container exited"}}
	if _, err := vllm().JSON(row); err == nil || !strings.Contains(err.Error(), "cell c1: there is no measurement: the container exited") {
		t.Errorf("VLLMJSON: %v", err)
	}
	if err := vllm().Text(new(bytes.Buffer), row); err == nil {
		t.Error("VLLMText: no error")
	}
}
