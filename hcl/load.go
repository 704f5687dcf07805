package hcl

import (
	"slices"

	"github.com/zclconf/go-cty/cty/function"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/provision"
)

// Load reads a lab. The Config is nil if there is any error, and all mistakes
// that the text can show are among the Problems, which are never nil.
func Load(src *lang.Source, vars lang.Vars) (*Config, *lang.Problems) {
	r := lang.NewReader(src, vars, language(), map[string]function.Function{"mlperf_points": mlperfPointsFunc})
	c := &Config{Dir: src.Dir}
	var money lang.Setting
	c.Lab, money = readLab(r)
	r.EvaluateAll()
	for _, h := range lang.Nouns[provision.Host](r) {
		c.Hosts = append(c.Hosts, h)
	}
	for _, b := range r.Blocks("benchmark") {
		c.Benchmarks = append(c.Benchmarks, readBenchmark(b))
	}
	var asks []Benchmark
	asked := askers{}
	for _, b := range r.Blocks("accuracy") {
		asks = append(asks, readAccuracy(b, c, asked))
	}
	for _, b := range r.Blocks("tune") {
		c.Tunes = append(c.Tunes, readTune(b, c.Benchmarks, asks))
	}
	slices.SortStableFunc(asks, beforeAll)
	c.Benchmarks = append(c.Benchmarks, asks...)
	checkLengths(r, c)
	c.Engines = allEngines(r, c.Benchmarks)
	c.Report = readReport(r, c.Benchmarks)
	checkNamespaces(r, c.Hosts)
	checkMoney(r, money, c)
	r.CheckAll()
	if !r.HasErrors() && len(c.Benchmarks) > 0 {
		r.WarnOfUnused()
	} else if at, ok := r.Start(); ok && !r.HasErrors() {
		r.Warn(at, "Nothing to measure", "The lab has no benchmark block and no accuracy block, so there is nothing to plan or to apply.")
	}
	r.Finish()
	c.Secrets = r.Secrets()
	if r.HasErrors() {
		return nil, r.Problems
	}
	return c, r.Problems
}

// language is every block that may stand by itself, in the order of the reference.
func language() []*lang.BlockType {
	return []*lang.BlockType{
		labBlock(), lang.VariableBlock(), lang.LocalsBlock(), clusterBlock(), hostBlock(), modelBlock(), engineBlock(), groupBlock(),
		datasetBlock(), benchmarkBlock(), accuracyBlock(), tuneBlock(), reportBlock(),
	}
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
