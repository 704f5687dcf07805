package figure

import (
	"testing"

	"hclbench/load"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// A series has one colour and one marker in all charts, whichever of them it is in.
func TestSeries(t *testing.T) {
	rows := reporttest.Dstack(t)
	labels := func(all *Series) (labels []string) {
		for i, s := range all.All {
			if s.Index != i {
				t.Errorf("%s has the index %d at %d", s.Label, s.Index, i)
			}
			labels = append(labels, s.Label)
		}
		return labels
	}
	want := []string{"MI300X · vLLM", "MI300X · SGLang", "H200 · SGLang", "H200 · vLLM", "H200 · TensorRT-LLM"}
	reporttest.Check(t, "series", want, labels(NewSeries(rows, nil)))

	// What differs is in the name: the number of GPUs, an axis of the engine, the
	// engine's own name where several are of a kind.
	rows = reporttest.Matrix()
	for i := range rows {
		rows[i].Deployment.GPUs = []string{"4xH200", "8xH200"}[i/3]
		rows[i].Axes = append(rows[i].Axes, results.Axis{Name: "attention", Value: []string{"flash", "mla"}[i/5]})
		rows[i].Deployment.Kind = "vllm"
	}
	rows[4].Deployment.Engine = "vllm.tuned"
	want = []string{"4×H200 · vLLM, attention flash", "8×H200 · vLLM, attention flash",
		"8×H200 · vLLM tuned, attention flash", "8×H200 · vLLM, attention mla"}
	reporttest.Check(t, "series", want, labels(NewSeries(rows, nil)))

	// In a rehearsal the simulated engine stands in for each; the first are sglang.h200.
	want[0] = "4×H200 · SGLang, attention flash"
	for i := range rows {
		rows[i].Deployment.Kind = "sim"
	}
	reporttest.Check(t, "labels of a rehearsal", want, labels(NewSeries(rows, nil)))
}

// A reason against all cells sets none of them apart.
func TestSharedReasons(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "it was published")}
	}
	rows[1].Summary.Verdict.Reasons = append(rows[1].Summary.Verdict.Reasons, load.Because("", "percentiles are out of order")...)
	rows[2].Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("", "all requests failed")}
	reporttest.Check(t, "shared", []string{"it was published"}, SharedReasons(rows))
	doubts := func() (n int) {
		for _, s := range Samples(rows, NewSeries(rows, nil)) {
			if d, _ := s.Value(OutputThroughput); d.Doubt {
				n++
			}
		}
		return n
	}
	if n := doubts(); n != 1 {
		t.Errorf("%d cells are in doubt for reasons of their own, want 1", n)
	}
	rows[0].Summary.Verdict = load.Verdict{Verdict: load.Valid}
	if n := doubts(); n != 4 {
		t.Errorf("beside a valid cell %d are in doubt, want 4", n)
	}
}
