// Package results keeps what was measured, and reads and writes the formats of
// other tools.
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
	Command  string    `json:"command"` // "apply", "rehearse", "bench"
	Version  string    `json:"version"` // of hcl
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"` // zero: still going, or died
	Outcome  string    `json:"outcome,omitempty"` // "done", "failed", "interrupted", …; empty: see Finished
	Bundled  bool      `json:"-"`                 // it was measured elsewhere and came in a bundle
}

// Deployment is one start of an engine.
type Deployment struct {
	ID       string            `json:"id"`
	RunID    string            `json:"run_id"`
	Engine   string            `json:"engine"` // "vllm.h200"
	Kind     string            `json:"kind"`
	Host     string            `json:"host"`
	GPUs     string            `json:"gpus"` // "8xH200"
	Model    string            `json:"model"`
	Image    string            `json:"image"`           // as written
	Digest   string            `json:"digest"`          // what really ran; empty for a process
	Command  []string          `json:"command"`         // secrets redacted
	Identity map[string]string `json:"identity"`        // what the deployment id is the hash of
	Facts    json.RawMessage   `json:"facts,omitempty"` // of the host, when it was measured
	Started  time.Time         `json:"started"`
	Ready    float64           `json:"ready_s"` // from container start to the first proven token

	GPUCount     int               `json:"gpu_count,omitempty"`      // GPUs that the engine uses; 0: not known
	PricePerHour float64           `json:"price_per_hour,omitempty"` // USD for the whole host; 0: not known
	Versions     map[string]string `json:"versions,omitempty"`       // inside the container: "vllm", "torch", "cuda", …
	Served       json.RawMessage   `json:"served,omitempty"`         // the configuration that the engine says it runs with
	Phases       []Phase           `json:"phases,omitempty"`         // what getting ready took
	CompileCache string            `json:"compile_cache,omitempty"`  // "cold" or "warm": whether an earlier start had left kernels; empty: none is kept
	Listener     *Listener         `json:"listener,omitempty"`       // whether the run's own engine answered; nil: not known, or somebody else runs it
	Stopped      time.Time         `json:"stopped,omitzero"`         // when it was taken down; zero: not known
}

// Phase is a part of getting ready: pulling, loading weights, compiling, capturing
// graphs.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Listener is whether the server that answered on an engine's port was the one that
// the run had started, and not an older one or somebody else's.
type Listener struct {
	Proved bool   `json:"proved"`
	By     string `json:"by"` // what proved it, or why it could not be
}

// String is the proof for people.
func (l Listener) String() string {
	if l.Proved {
		return l.By
	}
	return "not proved to be the one that was started: " + l.By
}

// Cell is one measured cell.
type Cell struct {
	ID           string            `json:"id"`
	RunID        string            `json:"run_id"`
	DeploymentID string            `json:"deployment_id"`
	Benchmark    string            `json:"benchmark"`
	Axes         Axes              `json:"axes"`
	Repetition   int               `json:"repetition"` // from 1
	Identity     map[string]string `json:"identity"`   // what the cell id is the hash of
	Job          load.Job          `json:"job"`
	Started      time.Time         `json:"started"`
	Finished     time.Time         `json:"finished"`
	CacheReset   string            `json:"cache_reset,omitempty"` // what was done to the prefix cache before it: "flushed", "unsupported", "failed: …"
	Error        string            `json:"error,omitempty"`       // why there is no measurement; Summary is then nil or partial
	Summary      *load.Summary     `json:"summary,omitempty"`
	Telemetry    *telemetry.Record `json:"telemetry,omitempty"` // of the GPUs and the engine; nil: nothing was read
	Origin       *Origin           `json:"origin,omitempty"`    // what it was read from; nil: we have measured it
}

// Verdict is the cell's verdict; a cell without a measurement is void.
func (c *Cell) Verdict() load.Verdict {
	if c.Summary == nil {
		reason := c.Error
		if reason == "" {
			reason = "not measured"
		}
		return load.Verdict{Verdict: load.Void, Reasons: []string{reason}}
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
	// Damaged says what of it cannot be read in the store; empty: nothing. The cell is
	// then void, and says so.
	Damaged string `json:"-"`
}

// damage notes that something of the row cannot be read.
func (r *Row) damage(what string, err error) {
	if err == nil || r.Damaged != "" {
		return
	}
	r.Damaged = plain.Line(fmt.Sprintf("%s is damaged in the store: %v; measuring it again mends it", what, err))
	r.Summary, r.Telemetry, r.Origin, r.Error = nil, nil, nil, r.Damaged
}
