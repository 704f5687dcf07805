package hcl

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
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
	var excludes []*hclsyntax.Block
	next := tables(b)
	multiplied := len(next) > 0
	for _, n := range b.Body.Blocks {
		switch n.Type {
		case "exclude":
			excludes = append(excludes, n)
		case "reference":
			if r, ok := l.reference(n, out.References); ok {
				out.References = append(out.References, r)
			}
		}
	}
	seen := map[string]bool{}
	add := func(c *cell, from *hclsyntax.Block) {
		x, ok := l.cell(each, c)
		if !ok {
			l.lost = append(l.lost, b.DefRange())
			return
		}
		key := cellKey(x)
		if seen[key] {
			l.warn(from.DefRange(), "Cell given twice", "Some of these cells are in the benchmark already. They are measured once, in the place where they are written first.")
			return
		}
		seen[key] = true
		out.Cells = append(out.Cells, x)
	}
	left, count := 0, 0
	held := map[*hclsyntax.Block]bool{}
	expand := func(t table) {
		l.expand(out.Name, t, func(c *cell) bool {
			if count++; count > maxCells {
				l.tooManyCells(t.block)
				return false
			}
			if l.excluded(excludes, held, c) {
				left++
				return true
			}
			add(c, t.block)
			return true
		})
	}
	// Cells come in the order in which their blocks are written.
	for _, n := range b.Body.Blocks {
		switch {
		case n.Type == "include":
			multiplied = true
			if c := l.included(out.Name, n); c != nil {
				add(c, n)
			}
		case n.Type == "matrix" || n.Type == "zip" && len(next) > 0 && next[0].block.Type == "zip":
			expand(next[0])
			next = next[1:]
		}
	}
	if !multiplied {
		c := &cell{benchmark: out.Name, values: map[string]cty.Value{}, object: cty.EmptyObjectVal}
		if !l.excluded(excludes, held, c) {
			add(c, b)
		}
	}
	if left > 0 && left == count && len(out.Cells) == 0 {
		l.warn(excludes[0].DefRange(), "Every cell is excluded", "The exclude blocks leave out all %d cells of benchmark %q, so it measures nothing. Let when be true for fewer of them.", count, out.Name)
	}
	if count > 0 {
		l.warnIdleExcludes(excludes, held)
	}
	l.warnIdleAxes(b)
	l.warnOfPublished(b, out)
	return out
}

// warnIdleExcludes points at exclude blocks that leave nothing out. One that hangs on a
// variable may with another value.
func (l *lab) warnIdleExcludes(excludes []*hclsyntax.Block, held map[*hclsyntax.Block]bool) {
	if l.broken || l.problems.HasErrors() {
		return
	}
	for _, x := range excludes {
		a, ok := x.Body.Attributes["when"]
		if !ok || held[x] || slices.ContainsFunc(l.referencesOf(a.Expr).all, func(t hcl.Traversal) bool { return t.RootName() == "var" || t.RootName() == "local" }) {
			continue
		}
		l.warn(a.Expr.Range(), "Exclude without effect", "This holds for no cell, or only for such as another exclude block leaves out. A number is never equal to a text: 4 is not \"4\".")
	}
}

// warnOfPublished is about rows of published numbers that say an engine which the lab
// does not have, and about columns written in the lab that are a slip of a metric or an
// axis.
func (l *lab) warnOfPublished(b *hclsyntax.Block, out Benchmark) {
	if l.broken || l.problems.HasErrors() {
		return
	}
	var blocks []*hclsyntax.Block
	for _, n := range b.Body.Blocks {
		if n.Type == referenceBlock.name {
			blocks = append(blocks, n)
		}
	}
	if len(blocks) != len(out.References) {
		return
	}
	there := l.namesIn("engine")
	for i, r := range out.References {
		a := blocks[i].Body.Attributes["rows"]
		for _, row := range r.Rows {
			if name, ok := row["engine"].(string); ok && !slices.Contains(there, name) {
				l.warnOnce(a.Expr.Range(), "Unknown engine", "Rows of the reference %q are about an engine %q, which the lab does not have, so they stand beside nothing.%s", r.Name, name, didYouMean(name, there, nil))
				break
			}
		}
		if _, written := a.Expr.(*hclsyntax.TupleConsExpr); !written {
			continue // a table of somebody else has columns of its own
		}
		known := slices.Concat(metricNames(out.Percentiles), ColumnNames(), l.axisNames())
		for _, column := range r.Columns {
			if hint := didYouMean(column, known, nil); hint != "" && !isMetric(column) && !slices.Contains(known, column) {
				l.warn(a.Expr.Range(), "Unknown column", "The column %q of the reference %q is neither a metric nor an axis, so it stands beside nothing.%s", column, r.Name, hint)
			}
		}
	}
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

// excluded reports whether an exclude block leaves the cell out, and notes which.
func (l *lab) excluded(excludes []*hclsyntax.Block, held map[*hclsyntax.Block]bool, c *cell) bool {
	for _, x := range excludes {
		a, ok := x.Body.Attributes["when"]
		if !ok {
			continue
		}
		v := l.eval(a.Expr, c)
		if when, _ := l.convert(mustArgument(excludeBlock, "when"), v, a.Expr, c).(bool); when {
			held[x] = true
			return true
		}
	}
	return false
}

// cell evaluates a benchmark in one cell.
func (l *lab) cell(b *hclsyntax.Block, c *cell) (Cell, bool) {
	s := l.read(b.Body, benchmarkBlock, c)
	out := Cell{Workload: workload(s), Offline: get[string](s, "mode") == offline, Headers: get[[]provision.EnvVar](s, "load.headers")}
	good, sends := s.whole(), s.whole("engine", "load.headers", "load.from")
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
		out.Workload.Dataset, _ = i.value.(load.Dataset)
		l.checkOutputs(b, s, d, out.Workload)
		sends = sends && !i.incomplete
	} else {
		sends = false
	}
	good = good && sends
	if d := get[*declared](s, "load.from"); d != nil {
		i := l.instance(d, nil)
		out.From, _ = i.value.(*provision.Host)
		good = good && out.From != nil
	}
	if !l.checkWorkload(b, s, &out.Workload, out.Offline) {
		good = false
	} else if sends && !out.Offline {
		good = l.checkRules(b, s, out.Workload) && good
	}
	if good {
		good = l.checkTogether(s, out)
	}
	for _, name := range c.axes {
		v := axisValue(c.values[name])
		out.Axes = append(out.Axes, Axis{name, v})
		good = good && v != nil
	}
	return out, good
}

// offline is the mode of a benchmark that sends nothing to a server.
const offline = "offline"

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
		Ramp:         load.Duration(get[time.Duration](s, "load.ramp")),
		Stages:       get[[]load.Stage](s, "load.stages"),
		NoStream:     !getOr(s, "load.stream", true),
		CutBeginning: load.Duration(get[time.Duration](s, "load.warmup")),
		CutEnd:       load.Duration(get[time.Duration](s, "load.cooldown")),
	}
	for _, name := range sortedNames(s, "slo") {
		o, _ := parseObjective(name)
		o.Max = load.Duration(get[time.Duration](s, "slo."+name))
		w.SLO = append(w.SLO, o)
	}
	return w
}

// checkOutputs: somebody must say how long answers are, and only one.
func (l *lab) checkOutputs(b *hclsyntax.Block, s settings, d *declared, w load.Workload) {
	x, said := s["load.output_tokens"]
	at, ok := blockRange(b.Body, "load")
	switch {
	case !said && ok && !w.Dataset.OwnOutputs() && !d.wrong && !l.misspelt[at]["output_tokens"]:
		l.absent(at, "Missing argument", "The load block needs the argument \"output_tokens\": prompts of kind %q do not say how long the answers are to be. Write it, for example output_tokens = 256.", d.kind)
	case said && w.Dataset.OutputTokens > 0 && x.value != nil:
		l.errOnce(x.at, "Two output lengths", "The load block says output_tokens, and so does %s. Remove one of them.", d.address)
	}
}

// pacing are the arguments of load blocks that say when and how requests are sent.
var pacing = []string{"load.concurrency", "load.rate", "load.burstiness", "load.ramp", "load.stages", "load.stream", "load.endpoint", "load.from"}

// checkWorkload holds the arguments of a benchmark against each other.
func (l *lab) checkWorkload(b *hclsyntax.Block, s settings, w *load.Workload, offline bool) bool {
	good := true
	header := b.DefRange()
	_, requests := s["requests"]
	_, duration := s["duration"]
	_, staged := s["load.stages"]
	_, dataset := s["dataset"]
	misspelt := l.misspelt[header]
	traced := w.Dataset.Kind == load.Trace
	switch {
	case staged && (requests || duration):
		x, name := s["requests"], "requests"
		if duration {
			x, name = s["duration"], "duration"
		}
		l.err(x.at, "Two ways to end", "The stages of the load say how long a cell takes. Remove %s, or the stages.", name)
		good = false
	case offline && duration:
		l.err(s["duration"].at, "No duration offline", "An engine's offline benchmark runs a number of requests, not for a time. Say requests instead.")
		good = false
	case offline && !requests && !misspelt["requests"]:
		l.absent(header, "Missing argument", "An engine's offline benchmark runs a number of requests. Say how many, for example requests = 512.")
		good = false
	case !requests && !duration && !staged && !traced && !misspelt["requests"] && !misspelt["duration"]:
		l.absent(header, "Missing argument", "A benchmark needs to know when a cell is done. Say how many requests it measures, requests = 500, or for how long it sends them, duration = \"2m\".")
		good = false
	case requests && duration:
		l.err(s["duration"].at, "Two ways to end", "The benchmark says both requests and duration. A cell ends after so many requests or after so long; remove one of them.")
		good = false
	}
	_, concurrency := s["load.concurrency"]
	_, rate := s["load.rate"]
	if at, ok := blockRange(b.Body, "load"); ok && !concurrency && !rate && !staged && !traced && !offline && !l.misspelt[at]["concurrency"] && !l.misspelt[at]["rate"] {
		l.absent(at, "Load without a pace", "The load block says neither concurrency (so many requests in flight) nor rate (so many requests per second). Write one of them; rate = \"inf\" sends all at once.")
		good = false
	}
	if staged && rate {
		l.err(s["load.rate"].at, "Two paces", "The stages say the rate, each its own. Remove rate, or the stages.")
		good = false
	}
	if x := s["load.stages"]; staged && concurrency && slices.ContainsFunc(w.Stages, func(st load.Stage) bool { return st.Concurrency > 0 }) {
		l.err(x.at, "Two paces", "The stages say the concurrency, each its own, and the load block says one for all. Remove one of them.")
		good = false
	}
	for _, name := range pacing {
		if !offline && !traced {
			break
		}
		bare := strings.TrimPrefix(name, "load.")
		x, said := s[name]
		switch {
		case said && offline:
			l.warn(x.at, "No effect", "An engine's offline benchmark is given all requests at once and has no server, so %s has no effect.", bare)
		case said && traced && dataset && (bare == "rate" || bare == "burstiness" || bare == "ramp" || bare == "stages"):
			l.warn(x.at, "No effect", "A trace says when each request is sent, so %s has no effect. To make it faster or slower, write slowdown in the data set.", bare)
		}
	}
	if x, said := s["load.burstiness"]; said && !rate && !staged && !offline && !traced {
		l.warn(x.at, "No effect", "burstiness shapes the times between arrivals, which only a rate has. Here the next request is sent when one is done.")
	}
	if requests && w.Requests > 0 && w.Requests < w.Concurrency && !offline {
		x := s["requests"]
		l.problems.add(SeverityWarning, x.at, "Fewer requests than concurrency",
			"With fewer requests than may be in flight, the concurrency is never reached, and the numbers are those of a lower one. Write at least as many requests as the highest concurrency; several times as many is usual.",
			fmt.Sprintf("requests is %d", w.Requests), fmt.Sprintf("concurrency is %d", w.Concurrency))
	}
	return good
}

// Bench is what an offline cell runs instead of a load on a server. The error says,
// for the author of the lab, why its engine has no such benchmark.
func (c Cell) Bench(seed uint64) (engines.Bench, error) {
	w, d := c.Workload, c.Workload.Dataset
	b := engines.Batch{
		Requests: w.Requests, Kind: d.Kind, InputTokens: d.InputTokens, OutputTokens: max(w.OutputTokens, d.OutputTokens), Seed: seed,
		Groups: d.Groups, PromptsPerGroup: d.PromptsPerGroup, PrefixTokens: d.PrefixTokens, QuestionTokens: d.QuestionTokens,
		Filter: cmp.Or(d.Filter, load.ConventionSGLang),
	}
	if d.Ranged() {
		b.RangeOf, b.Ratio = cmp.Or(d.Convention, load.ConventionSGLang), *d.RangeRatio
	}
	bench, err := engines.Offline(c.Engine, b)
	if err == nil && bench.Prompts != "" {
		err = d.WithoutServer()
	}
	return bench, err
}

// checkTogether holds a cell's load against its engine.
func (l *lab) checkTogether(s settings, c Cell) bool {
	e, w := c.Engine, c.Workload
	for _, h := range c.Headers {
		if strings.EqualFold(h.Name, load.Authorization) && e.APIKey.Reveal() != "" {
			l.errOnce(s["load.headers"].at, "Two keys", "%s says api_key, which is sent as the header Authorization, and the load has one of its own. Remove one of them.", e.Address())
			return false
		}
	}
	if c.From != nil && c.From != e.Host && !c.Offline {
		if _, err := engines.RemoteURL(e); err != nil {
			l.errOnce(s["load.from"].at, "Engine out of reach", "The load is sent from host.%s, and there is no way from there to %s: %s. Let it listen on one address of its host that the other reaches, or on all, where a firewall keeps the world out:\n\n    flags = { host = \"10.0.0.5\" }", c.From.Name, e.Address(), err)
			return false
		}
	}
	if c.Offline {
		if _, err := c.Bench(0); err != nil {
			l.errOnce(s["mode"].at, "No offline benchmark", "Offline, an engine runs a benchmark of its own, and %s cannot: %s.", e.Address(), err)
			return false
		}
		if why := engines.VersionUnknown(e); why != "" {
			l.warn(s["mode"].at, "Version not known", "The version of %s decides how its offline benchmark is started, and %s. Say it in the engine:\n\n    version = \"0.7.3\"", e.Address(), why)
		}
	}
	if !l.checkWith(s, c) {
		return false
	}
	most, flag, said := engines.MaxContext(e)
	input, output := w.Longest()
	if !said || input+output <= most {
		return true
	}
	x, ok := s["load.output_tokens"]
	if !ok {
		x = s["dataset"]
	}
	l.errOnce(x.at, "Context too short", "A prompt of %d tokens and an answer of %d make %d, and the flag %s of %s allows %d in all: the server would refuse the requests. Raise the flag, ask for less, or leave these cells out:\n\n    exclude { when = … }", input, output, input+output, flag, e.Address(), most)
	return false
}

// reference reads a reference block, which holds for all cells.
func (l *lab) reference(b *hclsyntax.Block, before []Reference) (Reference, bool) {
	s := l.read(b.Body, referenceBlock, nil)
	out := Reference{Source: get[string](s, "source"), Rows: get[[]map[string]any](s, "rows"), Pos: pos(b.DefRange())}
	if len(b.Labels) == 0 || out.Rows == nil {
		return out, false
	}
	out.Name = b.Labels[0]
	for _, other := range before {
		if other.Name == out.Name {
			l.err(b.DefRange(), "Duplicate reference block", "The benchmark has a reference named %q at %s already. Give this one another name.", out.Name, other.Pos)
			return out, false
		}
	}
	out.Columns = l.columns(b.Body.Attributes["rows"].Expr, s["rows"].raw)
	return out, true
}

// columns are the columns of rows, in the order of the text as far as it shows:
// objects have no order of their own.
func (l *lab) columns(expr hclsyntax.Expression, rows cty.Value) []string {
	seen := map[string]bool{}
	for it := rows.ElementIterator(); it.Next(); {
		_, row := it.Element()
		for name := range row.AsValueMap() {
			seen[name] = true
		}
	}
	var written []string
	switch x := expr.(type) {
	case *hclsyntax.FunctionCallExpr:
		if x.Name != "csvdecode" || len(x.Args) != 1 {
			break
		}
		if v, _ := l.eval(x.Args[0], nil).Unmark(); v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			written, _ = csv.NewReader(strings.NewReader(v.AsString())).Read()
		}
	case *hclsyntax.TupleConsExpr:
		for _, e := range x.Exprs {
			object, ok := e.(*hclsyntax.ObjectConsExpr)
			if !ok {
				continue
			}
			for _, item := range object.Items {
				if name := hcl.ExprAsKeyword(item.KeyExpr); name != "" {
					written = append(written, name)
				}
			}
		}
	}
	var out []string
	for _, name := range append(written, slices.Sorted(maps.Keys(seen))...) {
		if seen[name] {
			out = append(out, name)
			delete(seen, name)
		}
	}
	return out
}

func blockRange(body *hclsyntax.Body, name string) (hcl.Range, bool) {
	for _, n := range body.Blocks {
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
	slices.Sort(parts) // the same cell, in whatever order its axes are written
	return strings.Join(parts, "\n")
}

// warnIdleAxes points at axes that nothing uses: their cells would all be the
// same.
func (l *lab) warnIdleAxes(b *hclsyntax.Block) {
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
	multiplied := map[string]bool{}
	for _, t := range tables(b) {
		for _, f := range t.factors {
			for _, a := range f.attrs {
				multiplied[a.Name] = true
			}
		}
	}
	for _, m := range b.Body.Blocks {
		for _, a := range inOrder(m.Body.Attributes) {
			// What advances with other axes, in a zip, may be there as a name.
			alone := m.Type == "include" && len(multiplied) > 0 && !multiplied[a.Name]
			if (m.Type == "matrix" || alone) && !used[a.Name] {
				l.warn(a.NameRange, "Axis without effect", "Nothing uses matrix.%s, so its values make no difference: each would be measured for nothing. Use it in the benchmark or in an engine that it names, or remove it.", a.Name)
			}
		}
	}
}
