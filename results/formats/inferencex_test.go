package formats

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost/golden"
)

// onGPUs is a row of an engine on one host, with all that a row of InferenceX can have.
func onGPUs() results.Row {
	r := vllmRow()
	r.Job.Workload.Dataset, r.Job.Workload.OutputTokens = load.Dataset{Kind: load.Random, InputTokens: 1024}, 128
	r.Deployment = results.Deployment{
		ID: "0123456789ab", Engine: "sglang.h200", Kind: "sglang", Host: "h200", GPUs: "8xH200", GPUCount: 8, Model: "deepseek-ai/DeepSeek-R1-0528",
		Image:    "lmsysorg/sglang:v0.5.5",
		Command:  []string{"python3", "-m", "sglang.launch_server", "--tp", "8", "--enable-dp-attention", "--ep-size=8"},
		Identity: map[string]string{"--speculative-algorithm": "NEXTN", "gpus": "8xH200"},
	}
	r.Telemetry = &telemetry.Record{Energy: 24652.8}
	return r
}

// inRoles is a row of two prefill servers and one decode server on two hosts.
func inRoles() results.Row {
	r := onGPUs()
	member := func(role string, instance, gpus int, host string, command ...string) results.Member {
		return results.Member{Role: role, Instance: instance, Host: host, GPUs: "8xH200", GPUCount: gpus, Image: "vllm/vllm-openai:v0.11", Command: command}
	}
	r.Deployment.Kind, r.Deployment.Engine = "vllm", "group.pd"
	r.Deployment.SetMembers([]results.Member{
		member("prefill", 0, 4, "a", "vllm", "serve", "--tensor-parallel-size=4"), member("prefill", 1, 4, "a"),
		member("decode", 0, 8, "b", "vllm", "serve", "-tp", "4", "--data-parallel-size", "2", "--enable-expert-parallel"),
		member("router", 0, 0, "a"),
	})
	r.Deployment.Identity = map[string]string{"decode.config.pipeline_parallel_size": "2"}
	r.Telemetry, r.Summary.Failed, r.Summary.Requests = nil, 952, 3000
	return r
}

// TestInferenceX: rows have the names and the units that InferenceX has, and come back
// with the figures that they say.
func TestInferenceX(t *testing.T) {
	imported := onGPUs()
	imported.Summary.Unknown = []string{"failed", "requests", "ttft_ms.std"} // as of a table
	imported.Axes = axes("precision", "fp4")
	rehearsed := onGPUs()
	rehearsed.Run.Command = "rehearse"
	var b bytes.Buffer
	check(t, InferenceX(&b, []results.Row{onGPUs(), inRoles(), imported}))
	text := b.String()
	golden.Check(t, "inferencex.json", text)

	all, unused, err := Read(&b)
	check(t, err)
	if len(all) != 3 || len(unused) > 0 {
		t.Fatalf("%d rows come back, unused %q", len(all), unused)
	}
	figures := func(s *load.Summary) string {
		return fmt.Sprintf("%.6g", []float64{s.TotalThroughput, s.OutputThroughput, s.InputThroughput, s.TTFT.Mean, s.TTFT.Percentiles["99"], s.TPOT.Median, s.ITL.Std, s.E2EL.Mean})
	}
	for i, row := range []results.Row{onGPUs(), inRoles()} {
		row.Summary.InputThroughput = row.Summary.TotalThroughput - row.Summary.OutputThroughput
		if diff := cmp.Diff(figures(row.Summary), figures(all[i].Summary)); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
	}
	got := fmt.Sprint(told([]results.Cell{all[0].Cell, all[1].Cell}), all[0].Deployment.GPUs, all[0].Deployment.Kind, all[1].Deployment.GPUs, all[1].Summary.Verdict.Texts())
	want := "[[{concurrency 1024} {input_tokens 1024} {output_tokens 128} {precision fp8} {spec_decoding mtp} {dp_attention true}] " +
		"[{concurrency 1024} {input_tokens 1024} {output_tokens 128} {precision fp8} {spec_decoding none} {prefill_dp_attention false} {decode_dp_attention true}]]" +
		"8xH200sglang16xH200[952 of 3000 requests failed]"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what comes back (-want +got):\n%s", diff)
	}
	if e := all[0].Telemetry.Energy; e != 24652.8 || all[0].Summary.Completed != 2048 || fmt.Sprintf("%.4f", all[0].Summary.Duration) != "6.1632" {
		t.Errorf("energy %v, completed %d, duration %v", e, all[0].Summary.Completed, all[0].Summary.Duration)
	}

	// What was read is written again as it was.
	var again bytes.Buffer
	check(t, InferenceX(&again, []results.Row{{Cell: all[0].Cell, Deployment: all[0].Deployment}}))
	first, _, _ := strings.Cut(text, ",\n")
	if diff := cmp.Diff(first+"\n]\n", again.String()); diff != "" {
		t.Errorf("written again (-want +got):\n%s", diff)
	}

	b.Reset()
	check(t, InferenceX(&b, []results.Row{rehearsed}))
	if _, _, err := Read(&b); err == nil || !strings.Contains(err.Error(), "of a rehearsal") {
		t.Errorf("a rehearsal comes back: %v", err)
	}
}

// TestInferenceXRefuses: what a row cannot be of is an error that names the cell.
func TestInferenceXRefuses(t *testing.T) {
	open, unknown, empty := onGPUs(), onGPUs(), onGPUs()
	open.ID, open.Job.Workload.Concurrency = "c2", 0
	unknown.ID, unknown.Deployment.GPUs, unknown.Deployment.GPUCount = "c3", "", 0
	empty.ID, empty.Summary, empty.Error = "c4", nil, "the container exited"
	var b bytes.Buffer
	err := InferenceX(&b, []results.Row{onGPUs(), open, unknown, empty})
	want := "export cell c2: a row of InferenceX is of a fixed concurrency, which it has not; leave it out with --where or --benchmark\n" +
		"export cell c3: a row of InferenceX is for one GPU, and it is not known how many there were; leave it out with --where or --benchmark\n" +
		"export cell c4: there is no measurement: the container exited"
	if err == nil || err.Error() != want || b.Len() > 0 {
		t.Errorf("%v, written %q; want %s", err, b.String(), want)
	}
	for text, want := range map[string]string{
		`{"hw": "h200", "conc": 4, "tput_per_gpu": 1}`:                                                  "neither tp nor num_prefill_gpu",
		`{"hw": "h200", "conc": "x", "tput_per_gpu": 1}`:                                                `no number "conc"`,
		`{"hw": "h200", "conc": 4, "tput_per_gpu": 1, "tp": 1e9}`:                                       "it says that there are 1000000000 GPUs",
		`{"hw": "h200", "conc": 4, "tput_per_gpu": 1, "is_multinode": true, "num_prefill_gpu": 0}`:      "it says that there are 0 GPUs",
		`{"hw": "h200", "conc": 4, "tput_per_gpu": 1, "tp": 1, "benchmark_outcome": 1}`:                 "benchmark_outcome",
		`{"hw": "h200", "conc": 4, "tput_per_gpu": 1, "tp": 1, "benchmark_outcome": {"completed": -1}}`: "number of requests",
	} {
		if _, _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%s): %v, want %q", text, err, want)
		}
	}
}

// TestInferenceXApart: rows of other recipes are no repetitions, and what is not read is named.
func TestInferenceXApart(t *testing.T) {
	const row = `{"hw": "mi355x-amds", "framework": "trt", "conc": 4, "isl": 1, "osl": 2, "tput_per_gpu": 1, "recipe_fingerprint": "%s", "tp": %d, "new": [1], "score": 1.5, "median_ttft": 0.5}` + "\n"
	all, unused, err := Read(strings.NewReader(fmt.Sprintf(row, "a", 4) + fmt.Sprintf(row, "b", 4) + fmt.Sprintf(row, "a", 8)))
	check(t, err)
	want := []string{
		"[{concurrency 4} {input_tokens 1} {output_tokens 2} {recipe_fingerprint a}]",
		"[{concurrency 4} {input_tokens 1} {output_tokens 2} {recipe_fingerprint b}]",
		"[{concurrency 4} {input_tokens 1} {output_tokens 2} {recipe_fingerprint a}]", // on more GPUs
	}
	if diff := cmp.Diff(want, told([]results.Cell{all[0].Cell, all[1].Cell, all[2].Cell})); diff != "" {
		t.Errorf("axes (-want +got):\n%s", diff)
	}
	if got := strings.Join(unused, " "); got != "score new" || all[2].Deployment.GPUs != "8xMI355X" || all[0].Deployment.Kind != "trtllm" || all[0].Summary.TTFT.Median != 500 {
		t.Errorf("unused %q, %+v", got, all[2].Deployment)
	}
}

// TestLatencyNames: a latency is known by its words in any order, in its unit.
func TestLatencyNames(t *testing.T) {
	for name, want := range map[string]string{
		"mean_ttft_ms": "ttft_ms.mean ms 1", "p99.9_itl_ms": "itl_ms.p99.9 ms 1", "median_e2e_latency_ms": "e2el_ms.median ms 1",
		"TTFT (ms) avg": "ttft_ms.mean ms 1", "ttft_p99_s": "ttft_ms.p99 s 1000", "std_tpot": "tpot_ms.std  0",
		"Average Time to First Token (seconds)": "ttft_ms.mean s 1000", "inter-token latency p50 us": "itl_ms.p50 us 0.001",
		"ttft": "", "mean_ttft_h": "", "mean_max_ttft_ms": "", "mean_latency_ms": "", "p99_ttft_ms_s": "", "goodput_ttft_mean": "", "mean_ms": "",
	} {
		f, unit, ok := latencyNamed(name)
		got := ""
		if ok {
			got = fmt.Sprint(f.name, " ", unit, " ", f.ms)
		}
		if got != want {
			t.Errorf("latencyNamed(%q) = %q, want %q", name, got, want)
		}
	}
	in := importOne(t, `{"completed": 10, "duration": 60.0, "avg_ttft_ms": 5, "ttft_p50_us": 4000, "request_latency_max_s": 2}`)
	if s := in.Summary; s.TTFT.Mean != 5 || s.TTFT.Median != 4 || s.E2EL.Max != 2000 || len(in.rest) > 0 {
		t.Errorf("%+v %+v, not understood %v", s.TTFT, s.E2EL, in.rest)
	}
	_, unused, err := Read(strings.NewReader(`{"completed": 10, "duration": 60.0, "ttft": {"p99": 5}, "mean_ttft_ms": [1], "latency_h": 3}`))
	check(t, err)
	if got := strings.Join(unused, " "); got != "latency_h ttft mean_ttft_ms" {
		t.Errorf("unused %q", got)
	}
}
