package results

import (
	"encoding/json"
	"fmt"

	"hclbench/load"
)

// Task is what a cell did: it sent a load to a server, or it gave a batch to the
// engine's own benchmark, which draws its prompts by the job's seed.
type Task struct {
	load.Job             // of a load; of a batch without a workload
	Batch    *load.Batch // nil: a load
}

// Work is what the task was about: a [load.Workload] or a [load.Batch].
func (t Task) Work() any {
	if t.Batch != nil {
		return t.Batch
	}
	return t.Workload
}

// Prompts are what any task has: a data set, and how much of it.
func (t Task) Prompts() load.Batch {
	if t.Batch != nil {
		return *t.Batch
	}
	w := t.Workload
	return load.Batch{Dataset: w.Dataset, Requests: w.Requests, OutputTokens: w.OutputTokens}
}

// MarshalJSON writes a job; a batch stands in the place of its workload.
func (t Task) MarshalJSON() ([]byte, error) {
	if t.Batch == nil {
		return json.Marshal(t.Job)
	}
	return json.Marshal(struct {
		load.Job
		Batch *load.Batch `json:"workload"`
	}{t.Job, t.Batch})
}

// UnmarshalJSON reads a job, whatever its task.
func (t *Task) UnmarshalJSON(text []byte) error {
	var w struct {
		load.Workload
		Mode string `json:"mode"`
	}
	in := struct {
		*load.Job
		Workload any `json:"workload"`
	}{&t.Job, &w}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	switch t.Workload, t.Batch = w.Workload, nil; w.Mode {
	case "":
	case offline:
		t.Workload, t.Batch = load.Workload{}, &load.Batch{Dataset: w.Dataset, Requests: w.Requests, OutputTokens: w.OutputTokens}
	default:
		return fmt.Errorf("no task of mode %q is known", w.Mode)
	}
	return nil
}

// offline is the mode of a batch in JSON.
const offline = "offline"
