// Package hcl is the lab language: it turns text into a validated [Config], or into
// diagnostics that point at the text.
//
// It contacts nothing and decides nothing about order, identity or what is already done.
// Nobody outside sees a type of the HCL library: what leaves this package is plain data,
// with every matrix expanded and every reference resolved.
package hcl

import (
	"time"

	"hclbench/capacity"
	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

// Config is a lab whose text is right.
type Config struct {
	Lab   Lab
	Dir   string // where the lab's files are
	Hosts []*provision.Host
	// Engines are all that can be started, groups too: each that a cell uses, one that uses
	// matrix.* in each of its forms, and those that no cell uses. One without a host of its own
	// stands in the groups whose roles it takes, see [engines.Engine.Engines].
	Engines    []*engines.Engine
	Benchmarks []Benchmark // behind them the accuracy blocks, whose cells ask questions
	Tunes      []Tune
	Report     Report
	Secrets    []provision.Text // hidden wherever they stand in what is shown or kept
}

// Benchmark is a benchmark block, its matrix expanded; or an accuracy block, each of whose cells asks one engine at one concurrency.
type Benchmark struct {
	Name        string
	Description string
	Repeat      int // how often each cell is measured, at least 1
	Percentiles []float64
	Cells       []Cell      // in declared order, the last axis turning fastest
	References  []Reference // published numbers, to be printed beside what is measured
	Pos         string
}

// Cell is one point of a benchmark's matrix.
type Cell struct {
	Axes     []Axis
	Engine   *engines.Engine
	Workload load.Workload
	Offline  bool               // nothing is sent: the engine's own benchmark is given what it takes of the workload
	Headers  []provision.EnvVar // sent with every request, sorted by name; values may be secrets
	From     []*provision.Host  // where the load is sent from, by all together; nil: the engine's own host
	Asks     *Asking            // questions are asked, of which the workload is how; nil: a load is sent
	Capacity *capacity.Question // what load the engine holds is searched: the workload says nothing of that; nil: it is sent as it is
}

// Axis is one coordinate of a cell. Value is an int64, a float64, a bool or a
// string; an engine is its address without "engine.", such as "vllm.h200".
type Axis struct {
	Name  string
	Value any
}

// Reference is a table of numbers that someone else published.
type Reference struct {
	Name    string
	Source  string           // where they are published, usually a URL
	Columns []string         // in the order of the file, as far as the text tells it
	Rows    []map[string]any // values are int64, float64, bool or string, by column; what is empty is not there
	Pos     string
}

// Lab is the lab block: what holds for everything in it.
type Lab struct {
	Name        string // the block's label, else the directory's name
	Description string
	Lease       time.Duration // hosts clean themselves this long after losing contact
	MaxDuration time.Duration // nothing of the lab lives longer; 0: no limit
	MaxMoney    float64       // USD that its rented hosts may cost in one run; 0: no limit
	Notices     []Notice
}

// What a notice may be about.
const (
	NoticeEnd     = "end"     // a run has ended well
	NoticeFailure = "failure" // a run has ended with an error, or a host or an engine has failed
	NoticeIdle    = "idle"    // a host that costs money has nothing to do
)

// Notice is somebody who is told what becomes of a run.
type Notice struct {
	On      []string         // which of the above
	Command []provision.Text // nil: none
	URL     provision.Text   // empty: none
	Idle    time.Duration    // how long a host may have nothing to do
}

// DefaultIdle is the idle of a notice that does not say.
const DefaultIdle = 10 * time.Minute

// DefaultLease is the lease of a lab that does not say.
const DefaultLease = 15 * time.Minute

// Report is the report block: what the lab wants to show of its results.
type Report struct {
	Title       string
	Description string
	Headline    string // empty: what was found
	Notes       []string
	Output      string   // where apply writes the page, relative to the lab's directory; empty: nowhere
	Series      []string // columns; nil: not said
	Baseline    *engines.Engine
	Columns     []string // metrics; nil: not said
	Automatic   []string // of the words below; nil: all
	References  bool     // published figures are shown
	Prices      bool     // and money
	Charts      []Chart  // in the order in which they are written
}

// Chart is a chart block.
type Chart struct {
	Title string
	X     string   // a quantity of the load, a metric, or another column
	Y     []string // metrics
	Where string   // a condition of package where; empty: all cells
	Label string   // a quantity of the load; empty: not said
	Note  string
}

// The charts that a report has without being asked for them.
const (
	AutomaticBenchmarks    = "benchmarks"
	AutomaticPrefixCache   = "prefix-cache"
	AutomaticDistributions = "distributions"
	AutomaticTimeLines     = "time-lines"
)
