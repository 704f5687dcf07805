// Package hcl is the lab language: it turns text into a validated [Config], or into
// diagnostics that point at the text.
//
// It contacts nothing and decides nothing about order, identity or what is already done.
// Nobody outside sees a type of the HCL library: what leaves this package is plain data,
// with every matrix expanded and every reference resolved.
package hcl

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

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
func Load(src *Source, vars Vars) (*Config, *Problems) {
	r := newReader(src, vars, language())
	return r.load(), r.Problems
}

// load reads the lab; nil: there are errors.
func (r *reader) load() *Config {
	names, varsFile := r.src.labFiles()
	for _, name := range names {
		r.bodies = append(r.bodies, r.parse(name, r.src.Files[name]))
	}
	for _, body := range r.bodies {
		(&checker{r.scope}).declareAll(body)
	}
	for _, body := range r.bodies {
		r.splatRepeated(body)
	}
	r.setVariables(varsFile)

	c := &Config{Dir: r.src.Dir, Lab: r.readLab()}
	for _, d := range r.order {
		r.finish(d, c)
	}
	for _, b := range r.blocks["benchmark"] {
		c.Benchmarks = append(c.Benchmarks, r.benchmark(b, r.typeOf(b.Type)))
	}
	r.checkLengths(c)
	c.Engines = r.engines(c.Benchmarks)
	c.Report = r.readReport(c.Benchmarks)
	for _, check := range r.late {
		check()
	}
	r.checkNames()
	r.checkNamespaces(c.Hosts)
	r.warnOfUnused(names)
	r.admitLosses()
	r.Problems.finish()
	for _, word := range slices.Sorted(maps.Keys(r.secrets)) {
		c.Secrets = append(c.Secrets, provision.Secret(word))
	}
	if r.HasErrors() {
		return nil
	}
	return c
}

func newReader(src *Source, vars Vars, types []*blockType) *reader {
	s := &scope{
		Problems:  newProblems(),
		register:  &register{types: types, declared: map[string]*declared{}, blocks: map[string][]*hclsyntax.Block{}},
		refs:      map[hclsyntax.Expression]*references{},
		constants: map[hclsyntax.Expression]cty.Value{},
	}
	s.functions = functionSet(src, vars, s.sensitive)
	r := &reader{scope: s, src: src, vars: vars}
	s.fill = r.readInstance
	return r
}

// admitLosses reports what is missing though nothing is wrong: no lab is smaller than its text.
func (r *reader) admitLosses() {
	if !r.HasErrors() && r.unknown.Filename != "" {
		r.fail(r.unknown, "Value not known",
			"This value is known only in a cell of a benchmark. Use matrix.* itself, or the engine that uses it.")
	}
	if !r.HasErrors() && len(r.lost) > 0 {
		r.fail(r.lost[0], "Cell left out",
			"Something in a cell of this benchmark is wrong, and hcl does not say what. This is a bug in hcl.")
	}
}

// finish evaluates what is declared even if nothing refers to it, and puts hosts into the Config.
func (r *reader) finish(d *declared, c *Config) {
	switch {
	case d.wrong:
	case d.typ.make == nil:
		r.value(d, nil)
	default:
		for _, member := range r.all(d) {
			if h, ok := r.instance(member, nil).noun.(*provision.Host); ok {
				c.Hosts = append(c.Hosts, h)
			}
		}
	}
}

// engines are all engines of the lab, in the order of their blocks: of one that uses
// matrix.* every form that a cell gives it; without any, what can be said without one.
func (r *reader) engines(benchmarks []Benchmark) []*engines.Engine {
	inCells := map[*engines.Engine]bool{}
	for _, b := range benchmarks {
		for _, c := range b.Cells {
			inCells[c.Engine] = true
		}
	}
	var all []*engines.Engine
	for _, d := range r.order {
		for _, m := range r.all(d) {
			all = append(all, formsOf(m, inCells)...)
		}
	}
	return all
}

// formsOf are the engines that a block has become in cells, as they were evaluated; else one.
func formsOf(d *declared, inCells map[*engines.Engine]bool) []*engines.Engine {
	var all []*engines.Engine
	for _, i := range d.evaluated {
		if e, ok := i.noun.(*engines.Engine); ok && runs(i, e) {
			all = append(all, e)
		}
	}
	if used := slices.DeleteFunc(slices.Clone(all), func(e *engines.Engine) bool { return !inCells[e] }); len(used) > 0 {
		return used
	}
	return all[:min(1, len(all))]
}

// runs reports whether an engine can be started by itself: one that only takes roles cannot.
func runs(i *instance, e *engines.Engine) bool {
	if e.Kind == engines.GroupKind {
		return !i.incomplete
	}
	return e.Host() != nil || engines.ByOthers(e)
}

// warnOfUnused points at blocks that change nothing.
func (r *reader) warnOfUnused(files []string) {
	if r.HasErrors() || len(files) == 0 {
		return
	}
	if len(r.blocks["benchmark"]) == 0 {
		at := hcl.Range{Filename: files[0], Start: hcl.InitialPos, End: hcl.InitialPos}
		r.warn(at, "Nothing to measure", "The lab has no benchmark block, so there is nothing to plan or to apply.")
		return
	}
	for _, d := range r.order {
		if !d.used && d.typ.make != nil {
			r.warn(d.header, "Unused "+d.typ.name,
				"Nothing in the lab refers to %s, so it has no effect. Use it, or remove the block.", d.address)
		}
	}
}
