package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/results"
)

// TestRunOwes: a run that ended before all repetitions of a cell is not held against one that has them: its own plan says
// what it owes.
func TestRunOwes(t *testing.T) {
	lab := t.TempDir()
	store, err := results.Open(t.Context(), filepath.Join(lab, ".hcl"))
	must(t, err)
	axes := results.Axes{{Name: "concurrency", Value: int64(1)}}
	for run, measured := range map[string]int{"20260101-000000-aaaa": 2, "20260102-000000-bbbb": 1} {
		must(t, store.BeginRun(t.Context(), results.Run{ID: run, Lab: "l", Command: "apply", Started: time.Now()}))
		must(t, store.PutDeployment(t.Context(), results.Deployment{ID: "d", RunID: run, Engine: "vllm.e", Host: "h"}))
		said := reported{Lab: "l"}
		for i, id := range []string{"c1" + run[14:], "c2" + run[14:]} {
			said.Planned = append(said.Planned, figure.Planned{
				ID: id, Group: "g", Benchmark: "b", Engine: "vllm.e", Host: "h", Axes: axes, Repetition: i + 1,
			})
			said.ToDo = append(said.ToDo, id)
			if i >= measured {
				continue
			}
			sum := &load.Summary{Part: load.Part{
				Figures:   load.Figures{Started: time.Now(), Duration: 10, Requests: 9, Completed: 9, OutputThroughput: 100},
				Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Valid}},
			}}
			must(t, store.PutCell(t.Context(), results.Cell{
				ID: id, RunID: run, DeploymentID: "d", Benchmark: "b", Axes: axes, Repetition: i + 1,
				Started: time.Now(), Finished: time.Now(), Summary: sum,
			}, nil))
		}
		text, err := json.Marshal(said)
		must(t, err)
		must(t, store.PutInputs(t.Context(), run, map[string][]byte{inputReport: text}))
	}
	must(t, store.Close())
	for _, c := range []struct {
		a, b string
		code int
	}{
		{"20260101-000000-aaaa", "20260102-000000-bbbb", exitCells},
		{"20260101-000000-aaaa", "20260101-000000-aaaa", exitDone},
	} {
		if code := execute(t.Context(), []string{"compare", c.a, c.b, "--lab", lab, "--fail-if", "output_throughput < -50%"}, nil, io.Discard, t.Output()); code != c.code {
			t.Errorf("compare %s %s: exit %d, want %d", c.a, c.b, code, c.code)
		}
	}
}
