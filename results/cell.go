// Package results keeps what was measured.
//
// It knows what a measurement is, not how one is made: hosts, engines and
// deployments are text here. The database is imported here and nowhere else.
package results

import (
	"encoding/json"
	"fmt"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/telemetry"
)

// Run is one hcl apply, rehearse or bench.
type Run struct {
	ID       string    `json:"id"` // sorts by start time
	Lab      string    `json:"lab"`
	Command  string    `json:"command"` // "apply", "rehearse", "bench", [Proving]
	Version  string    `json:"version"` // of hcl
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"` // zero: still going, or died
	Outcome  string    `json:"outcome,omitempty"` // "done", "failed", "interrupted", …; empty: see Finished
	Bundled  bool      `json:"-"`                 // it was measured elsewhere and came in a bundle
}

// Proving is the command of a run that finds out the [Noise] of a box. Its cells are no results of the lab.
const Proving = "check --prove"

// Cell is one measured cell.
type Cell struct {
	ID           string            `json:"id"`
	RunID        string            `json:"run_id"`
	DeploymentID string            `json:"deployment_id"`
	Benchmark    string            `json:"benchmark"`
	Axes         Axes              `json:"axes"`
	Repetition   int               `json:"repetition"` // from 1
	Identity     map[string]string `json:"identity"`   // what the cell id is the hash of
	Job          Task              `json:"job"`
	Started      time.Time         `json:"started,omitzero"`      // zero: not known
	Finished     time.Time         `json:"finished,omitzero"`     // likewise
	CacheReset   string            `json:"cache_reset,omitempty"` // of the prefix cache: "flushed", "unsupported", "failed: …"
	Error        string            `json:"error,omitempty"`       // why there is no measurement
	Summary      *load.Summary     `json:"summary,omitempty"`
	Telemetry    *telemetry.Record `json:"telemetry,omitempty"` // of the GPUs and the engine; nil: nothing was read
	Origin       *Origin           `json:"origin,omitempty"`    // what it was read from; nil: we have measured it
	Accuracy     *Accuracy         `json:"accuracy,omitempty"`  // of questions that were asked; nil: it is no such cell
}

// Task is what a cell did: it sent a load to a server, or it gave a batch to the
// engine's own benchmark, which draws its prompts by the job's seed. In JSON either is the workload, told apart by its mode.
type Task struct {
	load.Job             // of a load; of a batch without a workload
	Batch    *load.Batch // nil: a load
}

// batchJob is the form of a batch in JSON.
type batchJob struct {
	load.Job
	Batch *load.Batch `json:"workload"`
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
	return json.Marshal(batchJob(t))
}

// UnmarshalJSON reads a job, whatever its task.
func (t *Task) UnmarshalJSON(text []byte) error {
	var is struct {
		Workload struct {
			Mode string `json:"mode"`
		} `json:"workload"`
	}
	if err := json.Unmarshal(text, &is); err != nil {
		return err
	}
	switch *t = (Task{}); is.Workload.Mode {
	case "":
		return json.Unmarshal(text, &t.Job)
	case load.Offline:
		var in batchJob
		err := json.Unmarshal(text, &in)
		t.Job, t.Batch = in.Job, in.Batch
		return err
	}
	return fmt.Errorf("no task of mode %q is known", is.Workload.Mode)
}

// Origin is what a cell was read from, when another tool has measured it.
type Origin struct {
	Format string `json:"format"` // one of OriginFormats
	// Fields are the tool's own object, spelt as it was, less what the records of
	// the cell hold: with them it can be written again without loss.
	Fields json.RawMessage `json:"fields"`
}

// The tools whose results are read.
const (
	OriginVLLM       = "vllm"            // vllm bench serve
	OriginSGLang     = "sglang"          // bench_serving
	OriginThroughput = "vllm-throughput" // vllm bench throughput
	OriginLatency    = "vllm-latency"    // vllm bench latency
	OriginInferenceX = "inferencex"      // a row of InferenceX
	OriginReport     = "benchmark-report"
	OriginAIPerf     = "aiperf"   // aiperf profile
	OriginGuideLLM   = "guidellm" // a benchmark of guidellm run
)

// OriginFormats are all of them.
func OriginFormats() []string {
	return []string{OriginVLLM, OriginSGLang, OriginThroughput, OriginLatency, OriginInferenceX, OriginReport, OriginAIPerf, OriginGuideLLM}
}

// Verdict is the cell's verdict; a cell without a measurement is void.
func (c *Cell) Verdict() load.Verdict {
	if c.Summary == nil {
		reason := c.Error
		if reason == "" {
			reason = "not measured"
		}
		return load.Verdict{Verdict: load.Void, Reasons: load.Because(load.CodeNotMeasured, reason)}
	}
	return c.Summary.Verdict
}

// Row is a cell with the deployment and the run that it belongs to: what a table
// or an export shows.
type Row struct {
	Cell
	Deployment Deployment `json:"deployment"`
	Run        Run        `json:"run"`
	// Group is what the repetitions of a cell have in common: the id of the cell
	// without its repetition, where a plan is at hand.
	Group string `json:"group,omitempty"`
	// Stale says that a plan is at hand and does not ask for this cell.
	Stale bool `json:"stale,omitempty"`
	// HostChanged says in what the host is not as it was when the cell was measured
	// there, as far as it was seen since: "driver 550.54.15 → 570.86.15".
	HostChanged []string `json:"host_changed,omitempty"`
	// Noise is what is known of the noise of the box that it was measured on; nil: nothing.
	Noise *Noise `json:"noise,omitempty"`
	// Checked is what the answers of its deployment prove: a verdict of package accuracy, or "baseline". Empty: nobody has asked
	// any deployment anything, or it is not looked at.
	Checked string `json:"accuracy_verdict,omitempty"`
	// CallF1 is how far its deployment calls tools where its baseline does, as of [accuracy.Trigger]: the lowest of all that it was
	// asked, from 0 to 1. Nil: nobody has asked, or there is no baseline.
	CallF1 *float64 `json:"tool_call_f1,omitempty"`
	// Damaged says what of it cannot be read in the store; empty: nothing. The cell is
	// then void, and says so.
	Damaged string `json:"-"`
}

// Kept is when the row became the newest of its cell: when it was measured, or when somebody
// imported it.
func (r *Row) Kept() time.Time {
	if r.Run.Command == "import" {
		return r.Run.Started
	}
	return r.Finished
}

// damage notes that something of the row cannot be read.
func (r *Row) damage(what string, err error) {
	if err == nil || r.Damaged != "" {
		return
	}
	r.Damaged = plain.Line(fmt.Sprintf("%s is damaged in the store: %v; measuring it again mends it", what, err))
	r.Summary, r.Telemetry, r.Origin, r.Error = nil, nil, nil, r.Damaged
}
