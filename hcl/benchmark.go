package hcl

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
	"hclbench/load"
)

// benchmark expands a benchmark block into its cells.
func (l *lab) benchmark(b *hclsyntax.Block) Benchmark {
	out := Benchmark{Name: b.Labels[0], Repeat: 1, Percentiles: load.DefaultPercentiles(), Pos: pos(b.DefRange())}
	all, each := split(b, "description", "repeat", "percentiles")
	for _, a := range inOrder(all.Attributes) {
		if mentionsMatrix(a.Expr) {
			l.err(a.Expr.Range(), "No matrix here", "%q holds for all cells of a benchmark, so it cannot depend on matrix.*. Write two benchmarks.", a.Name)
			delete(all.Attributes, a.Name)
		}
	}
	s := l.read(all, benchmarkBlock, nil)
	out.Description = get[string](s, "description")
	out.Repeat = int(getOr(s, "repeat", int64(1)))
	out.Percentiles = getOr(s, "percentiles", out.Percentiles)
	var matrices, excludes []*hclsyntax.Block
	for _, n := range b.Body.Blocks {
		switch n.Type {
		case "matrix":
			matrices = append(matrices, n)
		case "exclude":
			excludes = append(excludes, n)
		}
	}
	if len(matrices) == 0 {
		c := &cell{benchmark: out.Name, values: map[string]cty.Value{}, object: cty.EmptyObjectVal}
		if x, ok := l.cell(each, c); ok && !l.excluded(excludes, c) {
			out.Cells = append(out.Cells, x)
		}
	}
	seen := map[string]bool{}
	left, count := 0, 0
	for _, m := range matrices {
		l.expand(out.Name, m, func(c *cell) bool {
			if count++; count > maxCells {
				l.tooManyCells(m)
				return false
			}
			if l.excluded(excludes, c) {
				left++
				return true
			}
			x, ok := l.cell(each, c)
			if !ok {
				return true
			}
			key := cellKey(x)
			if seen[key] {
				l.warn(m.DefRange(), "Cell given twice", "Some cells of this matrix are in another matrix of the benchmark too. They are measured once, in the place where they are written first.")
				return true
			}
			seen[key] = true
			out.Cells = append(out.Cells, x)
			return true
		})
	}
	if left > 0 && left == count {
		l.warn(excludes[0].DefRange(), "Every cell is excluded", "The exclude blocks leave out all %d cells of benchmark %q, so it measures nothing.", count, out.Name)
	}
	l.warnIdleAxes(b, matrices)
	return out
}

// split separates the named arguments of a benchmark, which hold for all of its
// cells, from what each cell has for itself.
func split(b *hclsyntax.Block, names ...string) (all *hclsyntax.Body, each *hclsyntax.Block) {
	all = &hclsyntax.Body{Attributes: hclsyntax.Attributes{}}
	body, block := *b.Body, *b
	body.Attributes = maps.Clone(b.Body.Attributes)
	for _, name := range names {
		if a, ok := body.Attributes[name]; ok {
			all.Attributes[name] = a
			delete(body.Attributes, name)
		}
	}
	block.Body = &body
	return all, &block
}

// excluded reports whether an exclude block leaves the cell out.
func (l *lab) excluded(excludes []*hclsyntax.Block, c *cell) bool {
	for _, x := range excludes {
		a, ok := x.Body.Attributes["when"]
		if !ok {
			continue
		}
		v := l.eval(a.Expr, c)
		if when, _ := l.convert(mustArgument(excludeBlock, "when"), v, a.Expr, c).(bool); when {
			return true
		}
	}
	return false
}

// cell evaluates a benchmark in one cell.
func (l *lab) cell(b *hclsyntax.Block, c *cell) (Cell, bool) {
	s := l.read(b.Body, benchmarkBlock, c)
	out := Cell{Workload: workload(s)}
	good := l.checkWorkload(b, s, &out.Workload) && s.whole()
	if d := get[*declared](s, "engine"); d != nil {
		i := l.instance(d, c)
		e, _ := i.value.(*engines.Engine)
		out.Engine = e
		good = good && e != nil && !i.incomplete
	} else {
		good = false
	}
	if d := get[*declared](s, "dataset"); d != nil {
		i := l.instance(d, c)
		out.Dataset = d.address
		out.Workload.Dataset, _ = i.value.(load.Dataset)
		good = good && !i.incomplete
	} else {
		good = false
	}
	for _, name := range c.axes {
		v := axisValue(c.values[name])
		out.Axes = append(out.Axes, Axis{name, v})
		good = good && v != nil
	}
	return out, good
}

func workload(s settings) load.Workload {
	w := load.Workload{
		Requests:     int(get[int64](s, "requests")),
		Duration:     load.Duration(get[time.Duration](s, "duration")),
		Concurrency:  int(get[int64](s, "load.concurrency")),
		Rate:         get[load.Rate](s, "load.rate"),
		Burstiness:   get[load.Rate](s, "load.burstiness"),
		OutputTokens: int(get[int64](s, "load.output_tokens")),
		IgnoreEOS:    getOr(s, "load.ignore_eos", true),
		Temperature:  get[float64](s, "load.temperature"),
		Endpoint:     getOr(s, "load.endpoint", load.Completions),
		ExtraBody:    get[string](s, "load.extra_body"),
		Warmup:       int(get[int64](s, "load.warmup_requests")),
		Timeout:      load.Duration(get[time.Duration](s, "load.timeout")),
		Stall:        load.Duration(get[time.Duration](s, "load.stall")),
	}
	for _, name := range sortedNames(s, "slo") {
		o, _ := parseObjective(name)
		o.Max = load.Duration(get[time.Duration](s, "slo."+name))
		w.SLO = append(w.SLO, o)
	}
	return w
}

// checkWorkload holds the arguments of a benchmark against each other.
func (l *lab) checkWorkload(b *hclsyntax.Block, s settings, w *load.Workload) bool {
	good := true
	header := b.DefRange()
	_, requests := s["requests"]
	_, duration := s["duration"]
	misspelt := l.misspelt[header]
	if !requests && !duration && !misspelt["requests"] && !misspelt["duration"] {
		l.absent(header, "Missing argument", "A benchmark needs to know when a cell is done. Say how many requests it measures, requests = 500, or for how long it sends them, duration = \"2m\".")
		good = false
	}
	if requests && duration {
		l.err(s["duration"].at, "Two ways to end", "The benchmark says both requests and duration. A cell ends after so many requests or after so long; remove one of them.")
		good = false
	}
	_, concurrency := s["load.concurrency"]
	_, rate := s["load.rate"]
	if at, ok := blockRange(b, "load"); ok && !concurrency && !rate && !l.misspelt[at]["concurrency"] && !l.misspelt[at]["rate"] {
		l.absent(at, "Load without a pace", "The load block says neither concurrency (so many requests in flight) nor rate (so many requests per second). Write one of them; rate = \"inf\" sends all at once.")
		good = false
	}
	if x := s["load.rate"]; w.Rate == load.Inf && !concurrency && !requests {
		l.err(x.at, "All at once without an end", "With rate = \"inf\" every request is sent at once, and nothing says how many there are. Say requests, or bound how many are in flight with concurrency.")
		good = false
	}
	if x, said := s["load.burstiness"]; said && !rate {
		l.warn(x.at, "No effect", "burstiness shapes the times between arrivals, which only a rate has. Here the next request is sent when one is done.")
	}
	if requests && w.Requests > 0 && w.Requests < w.Concurrency {
		x := s["requests"]
		l.problems.add(SeverityWarning, x.at, "Fewer requests than concurrency",
			"With fewer requests than may be in flight, the concurrency is never reached, and the numbers are those of a lower one. Write at least as many requests as the highest concurrency; several times as many is usual.",
			fmt.Sprintf("requests is %d", w.Requests), fmt.Sprintf("concurrency is %d", w.Concurrency))
	}
	return good
}

func blockRange(b *hclsyntax.Block, name string) (hcl.Range, bool) {
	for _, n := range b.Body.Blocks {
		if n.Type == name {
			return n.DefRange(), true
		}
	}
	return hcl.Range{}, false
}

// cellKey tells the cells of a benchmark apart.
func cellKey(c Cell) string {
	parts := make([]string, 0, len(c.Axes))
	for _, a := range c.Axes {
		parts = append(parts, fmt.Sprintf("%s=%#v", a.Name, a.Value))
	}
	return strings.Join(parts, "\n")
}

// warnIdleAxes points at axes that nothing uses: their cells would all be the
// same.
func (l *lab) warnIdleAxes(b *hclsyntax.Block, matrices []*hclsyntax.Block) {
	if l.broken || l.problems.HasErrors() {
		return
	}
	used := map[string]bool{}
	note := func(t hcl.Traversal) {
		if t.RootName() == "matrix" {
			axis := ""
			if len(t) > 1 {
				axis, _ = stepName(t[1])
			}
			used[axis] = true
		}
		for _, d := range l.targets(t) {
			for axis := range l.axesOf(d) {
				used[axis] = true
			}
		}
	}
	var walk func(body *hclsyntax.Body)
	walk = func(body *hclsyntax.Body) {
		for _, a := range body.Attributes {
			for _, t := range a.Expr.Variables() {
				note(t)
			}
		}
		for _, n := range body.Blocks {
			walk(n.Body)
		}
	}
	walk(b.Body)
	for _, d := range l.order {
		if d.typ == localsBlock || d.typ == engineBlock && len(l.axesOf(d)) > 0 {
			for axis := range l.axesOf(d) {
				used[axis] = true
			}
		}
	}
	if used[""] {
		return
	}
	for _, m := range matrices {
		for _, a := range inOrder(m.Body.Attributes) {
			if !used[a.Name] {
				l.warn(a.NameRange, "Axis without effect", "Nothing uses matrix.%s, so its values make no difference: each would be measured for nothing. Use it in the benchmark or in an engine that it names, or remove it.", a.Name)
			}
		}
	}
}
