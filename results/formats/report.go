package formats

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"hclbench/results"
)

// The Benchmark Report of llm-d, version 0.2.1, as far as it is written and read here. Its
// schema forbids members that it does not have, but for those of generic components and of
// native configurations.
type benchmarkReport struct {
	Version  string         `json:"version"`
	Run      reportRun      `json:"run"`
	Scenario reportScenario `json:"scenario"`
	Results  struct {
		Requests struct {
			Aggregate reportAggregate `json:"aggregate"`
		} `json:"request_performance"`
		Observability *reportObservability `json:"observability,omitempty"`
	} `json:"results"`
}

type reportRun struct {
	ID          string     `json:"uid"`
	Experiment  string     `json:"eid,omitempty"`
	Time        reportTime `json:"time,omitzero"`
	Description string     `json:"description,omitempty"`
	Keywords    []string   `json:"keywords,omitempty"`
}

type reportTime struct {
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Duration string    `json:"duration,omitempty"`
}

type reportScenario struct {
	Stack []reportComponent `json:"stack"`
	Load  *reportLoad       `json:"load,omitempty"`
}

type reportComponent struct {
	Metadata struct {
		Label string `json:"label"`
		ID    string `json:"cfg_id"`
	} `json:"metadata"`
	Native struct {
		Config any `json:"config,omitempty"`
	} `json:"native"`
	Is struct {
		Kind        string             `json:"kind"` // inference_engine or generic
		Tool        string             `json:"tool"`
		ToolVersion string             `json:"tool_version"`
		Role        string             `json:"role,omitempty"` // replica, prefill or decode
		Replicas    int                `json:"replicas,omitempty"`
		Model       *reportName        `json:"model,omitempty"`
		Accelerator *reportAccelerator `json:"accelerator,omitempty"`
	} `json:"standardized"`
}

type reportConfig struct {
	Image    string            `json:"image,omitempty"`
	Command  []string          `json:"command,omitempty"`
	Versions map[string]string `json:"versions,omitempty"`
}

type reportName struct {
	Name string `json:"name"`
}

// reportAccelerator is what one replica has.
type reportAccelerator struct {
	Model string         `json:"model"`
	Count int            `json:"count"`
	Along map[string]int `json:"parallelism"` // tp, dp, dp_local, workers, ep, pp
}

type reportLoad struct {
	Metadata struct {
		ID string `json:"cfg_id,omitempty"`
	} `json:"metadata"`
	Native struct {
		Config json.RawMessage `json:"config,omitempty"`
	} `json:"native"`
	Is struct {
		Tool        string        `json:"tool"`
		ToolVersion string        `json:"tool_version"`
		Source      string        `json:"source"` // random, sampled or unknown
		Input       reportLength  `json:"input_seq_len"`
		Output      *reportLength `json:"output_seq_len,omitempty"`
		Prefix      *reportPrefix `json:"prefix,omitempty"`
		Rate        float64       `json:"rate_qps,omitempty"`
		Concurrency any           `json:"concurrency,omitempty"` // a whole number, or infinity
	} `json:"standardized"`
}

type reportLength struct {
	Distribution string  `json:"distribution"` // fixed, gaussian, uniform or other
	Value        float64 `json:"value"`
	Min          *int    `json:"min,omitempty"`
	Max          *int    `json:"max,omitempty"`
}

type reportPrefix struct {
	Length   reportLength `json:"prefix_len"`
	Groups   int          `json:"num_groups"`
	Users    int          `json:"num_users_per_group"`
	Prefixes int          `json:"num_prefixes"` // in a group
}

type reportAggregate struct {
	Requests struct {
		Total      int              `json:"total"`
		Failures   *int             `json:"failures,omitempty"`
		Incomplete *int             `json:"incomplete,omitempty"`
		Input      reportStatistics `json:"input_length,omitempty"`
		Output     reportStatistics `json:"output_length,omitempty"`
	} `json:"requests"`
	Latency    map[string]reportStatistics `json:"latency,omitempty"`
	Throughput map[string]reportStatistics `json:"throughput,omitempty"`
}

type reportObservability struct {
	Components []reportObserved `json:"components"`
}

type reportObserved struct {
	Label     string                      `json:"component_label"`
	Aggregate map[string]reportStatistics `json:"aggregate"`
}

// reportStatistics has "units" and numbers by their names: mean, p99.
type reportStatistics map[string]any

// reportNames are those of statistics, each with ours.
var reportNames = [][2]string{
	{"mean", "mean"}, {"stddev", "std"}, {"min", "min"}, {"p0p1", "p0.1"}, {"p1", "p1"}, {"p5", "p5"},
	{"p10", "p10"}, {"p25", "p25"}, {"p50", "median"}, {"p75", "p75"},
	{"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}, {"p99p9", "p99.9"}, {"max", "max"},
}

// reportLatencies are those of a report, each with ours and the unit that it is written in.
var reportLatencies = [][3]string{
	{"time_to_first_token", "ttft", "ms"}, {"time_per_output_token", "tpot", "ms/token"},
	{"inter_token_latency", "itl", "ms/token"},
	{"normalized_time_per_output_token", "normalized_latency", "ms/token"},
	{"request_latency", "e2el", "ms"},
}

// reportThroughputs are those of a report, each with ours and its unit.
var reportThroughputs = [][3]string{
	{"request_rate", "request_throughput", "queries/s"}, {"input_token_rate", "input_throughput", "tokens/s"},
	{"output_token_rate", "output_throughput", "tokens/s"}, {"total_token_rate", "total_throughput", "tokens/s"},
}

// ownDocument is what a report of ours has in the native configuration of its load, as a
// report has no place for it.
type ownDocument struct {
	Benchmark  string          `json:"benchmark"`
	Axes       results.Axes    `json:"axes"`
	Repetition int             `json:"repetition"`
	Rehearsal  bool            `json:"rehearsal,omitempty"`
	Task       results.Task    `json:"task"`
	Summary    json.RawMessage `json:"summary"`
}

// BenchmarkReport writes cells as Benchmark Reports, each as JSON, which is YAML. Before the
// second and every further one stands a line with three dashes.
func BenchmarkReport(w io.Writer, rows []results.Row) error {
	for i, r := range rows {
		text, err := reportText(&r)
		if err != nil {
			return fmt.Errorf("export cell %s: %w", r.ID, err)
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// ReportFile is the name under which llm-d's tools find the report of a cell.
func ReportFile(r results.Row) string { return "benchmark_report_v0.2,_" + r.ID + ".yaml" }

// isoDuration is one in seconds: PT6.5S.
func isoDuration(seconds float64) string {
	return "PT" + strconv.FormatFloat(seconds, 'f', -1, 64) + "S"
}
