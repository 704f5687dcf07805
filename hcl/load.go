// Package hcl is the lab language: it turns text into a validated [Config], or into
// diagnostics that point at the text.
//
// It contacts nothing and decides nothing about order, identity or what is already done.
// Nobody outside sees a type of the HCL library: what leaves this package is plain data,
// with every matrix expanded and every reference resolved.
package hcl

import (
	"slices"

	"github.com/zclconf/go-cty/cty/function"

	"hclbench/engines"
	"hclbench/hcl/lang"
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
	Benchmarks []Benchmark
	Report     Report
	Secrets    []provision.Text // hidden wherever they stand in what is shown or kept
}

// Benchmark is a benchmark block, its matrix expanded.
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
}

// Axis is one coordinate of a cell. Value is an int64, a float64, a bool or a
// string; an engine is its address without "engine.", such as "vllm.h200".
type Axis struct {
	Name  string
	Value any
}

// Load reads a lab. The Config is nil if there is any error, and all mistakes
// that the text can show are among the Problems, which are never nil.
func Load(src *lang.Source, vars lang.Vars) (*Config, *lang.Problems) {
	return readConfig(lang.NewReader(src, vars, language(), functions()))
}

// language is every block that may stand by itself, in the order of the reference.
func language() []*lang.BlockType {
	return []*lang.BlockType{
		labBlock(), lang.VariableBlock(), lang.LocalsBlock(), clusterBlock(), hostBlock(), modelBlock(), engineBlock(), groupBlock(),
		datasetBlock(), benchmarkBlock(), reportBlock(),
	}
}

// functions are those of the language that no other has.
func functions() map[string]function.Function {
	return map[string]function.Function{"mlperf_points": mlperfPointsFunc}
}

// readConfig makes the Config of what is declared.
func readConfig(r *lang.Reader) (*Config, *lang.Problems) {
	c := &Config{Dir: r.Source.Dir, Lab: readLab(r)}
	r.EvaluateAll()
	for _, h := range lang.Nouns[provision.Host](r) {
		c.Hosts = append(c.Hosts, h)
	}
	for _, b := range r.Blocks("benchmark") {
		c.Benchmarks = append(c.Benchmarks, readBenchmark(b))
	}
	checkLengths(r, c)
	c.Engines = allEngines(r, c.Benchmarks)
	c.Report = readReport(r, c.Benchmarks)
	checkNamespaces(r, c.Hosts)
	r.CheckAll()
	if !r.HasErrors() && len(c.Benchmarks) > 0 {
		r.WarnOfUnused()
	} else if at, ok := r.Start(); ok && !r.HasErrors() {
		r.Warn(at, "Nothing to measure", "The lab has no benchmark block, so there is nothing to plan or to apply.")
	}
	r.Finish()
	c.Secrets = r.Secrets()
	if r.HasErrors() {
		return nil, r.Problems
	}
	return c, r.Problems
}

// allEngines are all engines of the lab, in the order of their blocks: of one that uses
// matrix.* every form that a cell gives it; without any, what can be said without one.
func allEngines(r *lang.Reader, benchmarks []Benchmark) []*engines.Engine {
	inCells := map[*engines.Engine]bool{}
	for _, b := range benchmarks {
		for _, c := range b.Cells {
			inCells[c.Engine] = true
		}
	}
	var all []*engines.Engine
	for _, d := range r.Declared("engine", "group") {
		var forms []*engines.Engine // that can be started by themselves: one that only takes roles cannot
		for _, i := range d.Evaluated {
			e, ok := i.Noun.(*engines.Engine)
			if ok && (e.Kind == engines.GroupKind && !i.Incomplete || e.Host() != nil && e.Kind != engines.GroupKind || engines.ByOthers(e)) {
				forms = append(forms, e)
			}
		}
		used := slices.DeleteFunc(slices.Clone(forms), func(e *engines.Engine) bool { return !inCells[e] })
		if len(used) == 0 {
			used = forms[:min(1, len(forms))]
		}
		all = append(all, used...)
	}
	return all
}
