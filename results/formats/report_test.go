package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost/golden"
)

// reported is a row with all that a report has a place for.
func reported() results.Row {
	r := inRoles()
	r.Benchmark, r.RunID, r.Repetition, r.Axes = "online", "20261122-101500-abcd", 2, axes("engine", "group.pd", "concurrency", int64(1024))
	r.Run = results.Run{ID: r.RunID, Version: "v1", Command: "apply"}
	s := r.Summary
	s.Started = time.Date(2026, 11, 22, 10, 15, 0, 0, time.UTC)
	r.Finished, s.Verdict = s.Started.Add(6163200*time.Microsecond), load.Verdict{Verdict: load.Valid}
	s.TTFT.Percentiles = map[string]float64{"0.1": 1, "50": 357.09, "90": 500, "99": 523.97, "99.9": 530}
	s.PerToken = stats(22.5, 22, 1, 30)
	s.Requests, s.Failed = 2050, 2
	r.Telemetry = &telemetry.Record{Series: []telemetry.Series{
		{Of: "gpu0", Name: telemetry.Power, Value: []float64{600, 700}}, {Of: "gpu1", Name: telemetry.Power, Value: []float64{500, 600}},
		{Of: "decode 0", Name: telemetry.KVCache, Value: []float64{0.25, 0.75}}, {Of: "decode 0", Name: telemetry.Waiting, Value: []float64{0, 0}},
	}}
	return r
}

func reportOne(t *testing.T, rows ...results.Row) string {
	t.Helper()
	var b bytes.Buffer
	check(t, BenchmarkReport(&b, rows))
	return b.String()
}

// TestBenchmarkReport: a report is of the published schema, and comes back with the figures
// that it says, as JSON, as YAML, alone and with others.
func TestBenchmarkReport(t *testing.T) {
	text := reportOne(t, reported())
	golden.Check(t, "benchmark-report.json", text)
	if wrong := violations(reportShapes(t), "report", "Report", any(members(t, []byte(text)))); len(wrong) > 0 {
		t.Errorf("it is not of the schema:\n%s", strings.Join(wrong, "\n"))
	}

	first := importOne(t, text)
	s, want := first.Summary, reported().Summary
	figures := func(s *load.Summary) []any {
		return []any{s.Duration, s.Requests, s.Completed, s.Failed, s.InputTokens, s.OutputTokens, s.RequestThroughput, s.InputThroughput,
			s.OutputThroughput, s.TotalThroughput, s.TTFT.Mean, s.TTFT.Median, s.TTFT.Std, s.TTFT.Percentiles, s.TPOT.Mean, s.ITL.Std,
			s.E2EL.Percentiles["99"], s.PerToken.Mean, s.Started}
	}
	if diff := cmp.Diff(figures(want), figures(s)); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	d := first.Deployment
	got := fmt.Sprint(first.Benchmark, first.Axes, d.Kind, d.GPUs, d.Model, first.Job.Workload.Concurrency, s.Verdict, s.Knows("normalized_latency_ms"))
	if want := "online[{concurrency 1024}]vllm16xH200deepseek-ai/DeepSeek-R1-05281024 imported true"; got != want {
		t.Errorf("what comes back: %s\nwant %s", got, want)
	}

	// What was read is written again as it was, and several stand in one file.
	row := results.Row{Cell: first.Cell, Deployment: first.Deployment}
	both := reportOne(t, row, row)
	if diff := cmp.Diff(text+"---\n"+text, both); diff != "" {
		t.Errorf("written again (-want +got):\n%s", diff)
	}
	all, unused, err := Read(strings.NewReader(both))
	check(t, err)
	if diff := cmp.Diff(figures(want), figures(all[1].Summary)); diff != "" || len(all) != 2 {
		t.Errorf("the second of %d (-want +got):\n%s", len(all), diff)
	}
	if got := strings.Join(unused, " "); got != "results.observability" {
		t.Errorf("unused %q", got)
	}
	rehearsed := reported()
	rehearsed.Run.Command = "rehearse"
	if _, _, err := Read(strings.NewReader(reportOne(t, rehearsed))); err == nil || !strings.Contains(err.Error(), "of a rehearsal") {
		t.Errorf("a rehearsal comes back: %v", err)
	}
}

// TestOurReport: a report of ours brings back what hcl thought of the cell, which one it was and its aims.
func TestOurReport(t *testing.T) {
	row := reported()
	row.Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: []load.Reason{{Text: "it drifts", Code: "drift", Metrics: []string{"ttft"}}}}
	row.Job.Workload.SLO = []load.Objective{{Metric: "ttft", Percentile: 99, Max: load.Duration(time.Second)}}
	got := importOne(t, reportOne(t, row))
	if diff := cmp.Diff(row.Summary.Verdict, got.Summary.Verdict); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(row.Job.Workload.SLO, got.Job.Workload.SLO); diff != "" || got.Repetition != 2 {
		t.Errorf("repetition %d, SLO (-want +got):\n%s", got.Repetition, diff)
	}
	if !got.Summary.Knows("peak_concurrency") || got.Summary.PeakConcurrency != row.Summary.PeakConcurrency {
		t.Errorf("peak concurrency %d, known: %v", got.Summary.PeakConcurrency, got.Summary.Knows("peak_concurrency"))
	}
}

// othersReport is a report as other tools write them.
const othersReport = `results:
  request_performance:
    aggregate:
      latency:
        time_to_first_token: {mean: 0.05, p50: 0.04, p99p9: 5.0e-1, mode: 0.04, units: s}
        inter_token_latency: {mean: 0.02, units: s/token}
      requests:
        total: 500
        failures: 10
        input_length: {mean: 100.0, units: count}
      throughput:
        output_token_rate: {mean: 2262.5, units: tokens/s}
    time_series: {}
  session_performance: {sessions: {total: 5}}
  component_health: []
run:
  uid: a
  eid: sweep 1
  time: {start: 2025-11-05T18:00:00Z, duration: PT1M40.5S}
scenario:
  load:
    metadata: {}
    native: {}
    standardized:
      concurrency: .inf
      input_seq_len: {distribution: fixed, value: 100}
      rate_qps: 10.0
      source: sampled
      tool: inference-perf
      tool_version: 0.3.0
  stack:
  - metadata: {cfg_id: c, label: vllm-svc-0}
    native: {}
    standardized:
      accelerator: {count: 8, model: H100, parallelism: {tp: 8}}
      kind: inference_engine
      model: {name: Qwen/Qwen3-0.6B}
      replicas: 2
      role: decode
      tool: llm-d
      tool_version: ghcr.io/llm-d/llm-d-cuda:0.3.1
version: "0.2"
`

// TestReadBenchmarkReport reads what others write, and refuses what is none.
func TestReadBenchmarkReport(t *testing.T) {
	all, unused, err := Read(strings.NewReader("# by hand\n" + othersReport + "---\n" + othersReport))
	check(t, err)
	r := all[1]
	s, d := r.Summary, r.Deployment
	got := fmt.Sprintf("%d %s %v %s %s %s %.6g %.6g %.6g %d/%d %d %.1f %s %q", len(all), r.Benchmark, r.Axes, d.Kind, d.GPUs, d.Model, s.TTFT.Mean,
		s.TTFT.Percentiles["99.9"], s.ITL.Mean, s.Completed, s.Requests, s.InputTokens, s.Duration, r.Started, unused)
	want := `2 sweep 1 [{rate 10} {input_tokens 100}] llm-d 16xH100 Qwen/Qwen3-0.6B 50 500 20 490/500 49000 100.5 2025-11-05 18:00:00 +0000 UTC ["results.session_performance"]`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if again := reportOne(t, results.Row{Cell: r.Cell}); !strings.Contains(again, `"concurrency": null`) {
		t.Errorf("no limit is written again as another thing: %s", again)
	}
	if s.Knows("ttft_ms.std") || !s.Knows("failed") || s.Knows("total_throughput") || s.OutputThroughput != 2262.5 {
		t.Errorf("known otherwise than told: %v", s.Unknown)
	}
	for old, new := range map[string][2]string{
		"units: s}":      {"units: h}", `time_to_first_token: `},
		"total: 500":     {"total: -500", "number of requests"},
		`version: "0.2"`: {`version: "0.1"`, `of version "0.1"; 0.2 and 0.2.1 are read`},
		"PT1M40.5S":      {"soon", `the duration "soon" is none of ISO 8601`},
		"  uid: a":       {"  uid: [a", "read document 1: "},
		"failures: 10":   {"failures: many", "failures"},
		"mean: 2262.5":   {"mean: fast", "output_token_rate: mean is fast tokens/s"},
	} {
		_, _, err := Read(strings.NewReader(strings.Replace(othersReport, old, new[0], 1)))
		if err == nil || !strings.Contains(err.Error(), new[1]) {
			t.Errorf("%s: %v, want %q", new[0], err, new[1])
		}
	}
}

// randomRow is any row: measured, imported or odd.
func randomRow(r *rand.Rand) results.Row {
	pick := func(all ...results.Row) results.Row { return all[r.IntN(len(all))] }
	row := pick(vllmRow(), sglangRow(), optional(vllmRow()), onGPUs(), inRoles(), reported())
	s, w := row.Summary, &row.Job.Workload
	if r.IntN(3) == 0 {
		s.Unknown = []string{"failed", "ttft_ms.mean", "duration_s", "input_throughput", "tpot_ms.std"}
	}
	if r.IntN(4) == 0 {
		*s = load.Summary{Unknown: generatorOnly()}
	}
	ratio := []float64{0, 0.5, 1}[r.IntN(3)]
	w.Dataset.Kind, w.Dataset.RangeRatio = append(load.DatasetKinds(), "")[r.IntN(len(load.DatasetKinds())+1)], &ratio
	w.Rate, w.OutputTokens = []load.Rate{0, 0.5, load.Inf}[r.IntN(3)], r.IntN(3)
	if r.IntN(5) == 0 {
		row.Job.Batch = &load.Batch{Requests: 4}
	}
	if r.IntN(5) == 0 {
		row.Deployment.GPUs, row.Deployment.GPUCount = "", 0
	}
	s.E2EL.Mean *= []float64{1, 1e-9, 1e9, 0}[r.IntN(4)]
	return row
}

// TestAnyRow: whatever a row has, its report is of the schema, its InferenceX row is whole
// or refused, and both are read again.
func TestAnyRow(t *testing.T) {
	shapes := reportShapes(t)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 200 {
		row := randomRow(r)
		text := reportOne(t, row)
		if wrong := violations(shapes, "report", "Report", any(members(t, []byte(text)))); len(wrong) > 0 {
			t.Fatalf("row %d:\n%s\n%s", i, strings.Join(wrong, "\n"), text)
		}
		again := importOne(t, text)
		if s := again.Summary; row.Summary.Knows("output_throughput") && s.OutputThroughput != row.Summary.OutputThroughput {
			t.Fatalf("row %d: output %v of %v", i, s.OutputThroughput, row.Summary.OutputThroughput)
		}
		var b bytes.Buffer
		if err := InferenceX(&b, []results.Row{row}); err != nil {
			continue
		}
		if !json.Valid(b.Bytes()) || strings.Contains(b.String(), `_per_gpu": null`) {
			t.Fatalf("row %d: %s", i, &b)
		}
		importOne(t, b.String())
	}
}

// FuzzRead: no file of others breaks anything, and what is read can be written in every format.
func FuzzRead(f *testing.F) {
	for _, text := range []string{vllmSaved + vllmArrays + "}", othersReport, "version: 0.2\nresults:\n",
		`[{"hw": "h200", "conc": 4, "tput_per_gpu": 1, "median_ttft": 0.5, "benchmark_outcome": {"completed": 3}}]`,
		`{"avg_latency": 1.5, "percentiles": {"10": 1.3}}`, `{"version": "0.2.1", "run": {}, "results": {}}`, "============ Serving Benchmark Result ============\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, _, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, one := range all {
			row := results.Row{Cell: one.Cell, Deployment: one.Deployment}
			var b bytes.Buffer
			if err := BenchmarkReport(&b, []results.Row{row}); err != nil || !json.Valid(b.Bytes()) {
				t.Errorf("as a report: %v\n%s", err, &b)
			}
			b.Reset()
			if err := InferenceX(&b, []results.Row{row}); err == nil && !json.Valid(b.Bytes()) {
				t.Errorf("as InferenceX: %s", &b)
			}
			for _, tool := range tools() {
				if line, err := tool.JSON(row); err != nil || !json.Valid(line) {
					t.Errorf("as %s: %v\n%s", tool.format, err, line)
				}
			}
		}
	})
}
