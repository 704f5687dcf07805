package formats

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
	"hclbench/testhost/golden"
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

func sglangRow() results.Row {
	r := vllmRow()
	s := r.Summary
	s.Duration, s.RequestThroughput, s.InputThroughput, s.OutputThroughput = 6.2992, 325.12, 10403.99, 41615.96
	s.TotalThroughput, s.PeakOutputThroughput, s.PeakConcurrency, s.MeanConcurrency = 52019.96, 61140, 1549, 968.46
	metric := func(mean, median, std, p90, p95, p99, max float64) load.Stats {
		return load.Stats{Count: 9, Mean: mean, Median: median, Std: std, Max: max, Percentiles: map[string]float64{"50": 1, "90": p90, "95": p95, "99": p99}}
	}
	s.E2EL = metric(2978.74, 2982.13, 1, 3100.90, 3113.70, 3194.94, 0)
	s.TTFT = metric(426.36, 441.23, 2, 546.96, 569.96, 589.59, 0)
	s.TPOT = metric(20.10, 20.03, 3, 21.32, 21.77, 22.68, 0)
	s.ITL = metric(20.10, 0.01, 4, 54.83, 84.47, 154.86, 329.05)
	return r
}

// optional is a row with what only some measurements have.
func optional(row results.Row) results.Row {
	goodput, share, step := 2.25, 0.25, 2.5
	row.Summary.Goodput = &goodput
	row.Summary.TTFT.Percentiles = map[string]float64{"99.9": 4, "50": 2, "9": 1, "99": 3}
	row.Telemetry = &telemetry.Record{PrefixHitRate: &share, Acceptance: &share, StepTokens: &step}
	row.Deployment = results.Deployment{Kind: "sglang", Served: json.RawMessage(`{"model_path":"m"}`)}
	row.Job.Workload = load.Workload{
		Dataset:  load.Dataset{Kind: load.Random, InputTokens: 32},
		Duration: load.Duration(time.Minute), Rate: 2, Burstiness: 0.5, OutputTokens: 128, Endpoint: load.Chat,
	}
	return row
}

// TestExport holds what is written against files, to the character: vllm-serve.txt and
// sglang-serve.txt are what the tools have printed.
func TestExport(t *testing.T) {
	ms := time.Millisecond
	records := []load.Record{
		{Sent: 500 * ms, First: 750 * ms, Last: 1000 * ms, Gaps: []time.Duration{125 * ms, 125 * ms}, InputTokens: 10, OutputTokens: 3},
		{Sent: 1000 * ms, AskedInput: 12, Class: load.ClassStatus, Error: "503"},
	}
	for name, c := range map[string]struct {
		tool Tool
		row  results.Row
		what string
	}{
		"vllm-serve.txt":       {vllm(), vllmRow(), "text"},
		"vllm-optional.txt":    {vllm(), optional(vllmRow()), "text"},
		"vllm.json":            {vllm(), vllmRow(), "object"},
		"vllm-optional.json":   {vllm(), optional(vllmRow()), "object"},
		"vllm-detailed.json":   {vllm(), vllmRow(), "detailed"},
		"sglang-serve.txt":     {sglang(), sglangRow(), "text"},
		"sglang.json":          {sglang(), sglangRow(), "object"},
		"sglang-optional.json": {sglang(), optional(sglangRow()), "detailed"},
	} {
		var b bytes.Buffer
		var line []byte
		var err error
		switch c.what {
		case "text":
			err = c.tool.Text(&b, c.row)
		case "object":
			line, err = c.tool.JSON(c.row)
		case "detailed":
			line, err = c.tool.Detailed(c.row, records)
		}
		check(t, err)
		// We never tokenize an answer again.
		const before, theirs = "Request throughput (req/s):              325.12", "Total generated tokens (retokenized):    262144    \n"
		golden.Check(t, name, strings.Replace(b.String()+string(line), before, theirs+before, 1))
	}
	for f, want := range map[float64]string{10: "10.0", 0.1: "0.1", 1e-5: "1e-05", 1.5e17: "1.5e+17", 0: "0.0"} {
		if got := pythonFloat(f); got != want {
			t.Errorf("pythonFloat(%v) = %s, want %s", f, got, want)
		}
	}
	row := results.Row{Cell: results.Cell{ID: "c1", Error: "the container exited"}}
	if _, err := vllm().JSON(row); err == nil || !strings.Contains(err.Error(), "cell c1: there is no measurement: the container exited") {
		t.Errorf("JSON of a cell without a measurement: %v", err)
	}
	if err := vllm().Text(new(bytes.Buffer), row); err == nil {
		t.Error("Text of a cell without a measurement: no error")
	}
}

// TestExportOfAPart: an export says what it is of, a part of a run or of the figures, and its import says no more.
func TestExportOfAPart(t *testing.T) {
	window := vllmRow()
	window.Job.Workload.Requests = 3000 // of which the rest was sent before and after
	line, err := vllm().JSON(window)
	check(t, err)
	if s := importOne(t, string(line)).Summary; s.Requests != 2048 || s.Failed != 0 {
		t.Errorf("of a window: %d requests, %d failed", s.Requests, s.Failed)
	}
	part := onGPUs()
	part.Summary.TotalThroughput, part.Summary.Unknown = 0, []string{"total_throughput"}
	var b bytes.Buffer
	check(t, InferenceX(&b, []results.Row{part}))
	for _, key := range []string{`"tput_per_gpu"`, `"input_tput_per_gpu"`} {
		if strings.Contains(b.String(), key) {
			t.Errorf("%s is there, and the total is not known", key)
		}
	}
	all, _, err := Read(&b)
	check(t, err)
	if s := all[0].Summary; s.Knows("total_throughput") || s.OutputThroughput != part.Summary.OutputThroughput {
		t.Errorf("it comes back as %+v", s)
	}
}
