package results

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// TestTask: what a store has of each task is read as it was written; also by an hcl that
// gave batches whole workloads.
func TestTask(t *testing.T) {
	random := load.Dataset{Kind: load.Random, InputTokens: 8}
	sent := Task{Job: load.Job{Target: load.Target{BaseURL: "http://a:1", Model: "m"}, Seed: 7,
		Workload: load.Workload{Dataset: random, Requests: 3, Concurrency: 2, OutputTokens: 4, Endpoint: load.Chat}}}
	batch := Task{Job: load.Job{Target: load.Target{Model: "m"}, Seed: 7}, Batch: &load.Batch{Dataset: random, Requests: 3, OutputTokens: 4}}
	const (
		dataset  = `"dataset":{"kind":"random","input_tokens":8}`
		batchNow = `{"target":{"base_url":"","model":"m"},"seed":7,"workload":{"mode":"offline",` + dataset + `,"requests":3,"output_tokens":4}}`
		sentNow  = `{"target":{"base_url":"http://a:1","model":"m"},"workload":{` + dataset +
			`,"requests":3,"concurrency":2,"output_tokens":4,"ignore_eos":false,"temperature":0,"endpoint":"chat"},"seed":7}`
		batchThen = `{"target":{"base_url":"","model":"m"},"workload":{` + dataset +
			`,"requests":3,"output_tokens":4,"ignore_eos":true,"temperature":0,"endpoint":"completions","mode":"offline"},"seed":7}`
	)
	for name, test := range map[string]struct {
		task       Task
		now, older string
	}{
		"a load":  {sent, sentNow, sentNow},
		"a batch": {batch, batchNow, batchThen},
	} {
		text, err := json.Marshal(test.task)
		if err != nil || string(text) != test.now {
			t.Errorf("%s is written %s, %v; want %s", name, text, err, test.now)
		}
		for _, stored := range []string{test.now, test.older} {
			got := Task{Batch: &load.Batch{}}
			if err := json.Unmarshal([]byte(stored), &got); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if diff := cmp.Diff(test.task, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if p := test.task.Prompts(); !cmp.Equal(p.Dataset, random) || p.Requests != 3 || p.OutputTokens != 4 {
			t.Errorf("%s: prompts %+v", name, p)
		}
	}
	if err := json.Unmarshal([]byte(`{"workload":{"mode":"dance"}}`), new(Task)); err == nil {
		t.Error("a task that nobody knows is read")
	}
}
