package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hclbench/hcl"
	"hclbench/provision"
	"hclbench/results"
)

// Status says what apply does with a cell.
type Status string

const (
	Measure Status = "measure" // there is no measurement of it
	Done    Status = "done"    // there is one, with the same identity
	Stale   Status = "stale"   // there is one, of something else: Why tells the difference
)

// Cell is one measurement.
type Cell struct {
	ID         string // of the measurement; of one that is done the id in the store
	Group      string // the id of all the repetitions of the cell together
	Benchmark  string
	Axes       results.Axes
	Repetition int // from 1
	Task       Task
	Status     Status
	Why        string           // of the status, for people: "measured 2026-11-20, suspect: …", "--tp 8 → 4"
	Digest     string           // of a cell that is done: the image that it was measured with
	Facts      *provision.Facts // of a cell that is done: what its host was then; nil: not known
	// HostChanged says, of a cell that is done, in what its host is not as it was then, as
	// far as it was seen since.
	HostChanged []string

	deployment *Deployment
	load       loadIdentity
	occurrence int           // from 1: of equal loads on the same deployment
	takes      time.Duration // estimated; 0: not known
}

// cell fills in what is measured.
func cell(d *Deployment, b hcl.Benchmark, c hcl.Cell, out *Cell) *Cell {
	out.Benchmark, out.deployment = b.Name, d
	task, err := newTask(d.Engine, b, c, out.seed())
	if err != nil {
		panic(fmt.Sprintf("plan a cell of benchmark %s: %v. The text was checked: this is a bug in hcl.", b.Name, err))
	}
	out.Task = task
	for _, a := range c.Axes {
		out.Axes = append(out.Axes, results.Axis(a))
	}
	return out
}

// label is the cell's coordinates without the engine, which the lines above say.
func (c *Cell) label() string {
	var parts []string
	for _, a := range c.Axes {
		if a.Name != "engine" {
			parts = append(parts, fmt.Sprintf("%s=%v", a.Name, a.Value))
		}
	}
	if c.Repetition > 1 {
		parts = append(parts, fmt.Sprintf("repetition=%d", c.Repetition))
	}
	if len(parts) == 0 {
		return "one cell"
	}
	return strings.Join(parts, " ")
}

// text is the form in which the store gives a cell's axes.
func text(a results.Axes) string {
	b, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("marshal axes: %v. This is a bug in hcl.", err))
	}
	return string(b)
}
