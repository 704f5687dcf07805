package hcl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/provision"
)

func benchmarkBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "benchmark", Root: "benchmark", Named: true, Labels: []lang.Label{{What: "name", Form: lang.Identifier}},
		Args: slices.Concat([]lang.Argument{
			lang.Arg("engine", measured, func(d *draft, e *engines.Engine) { d.Engine = e }).
				Required("What is measured: `engine.KIND.NAME` or `matrix.engine`."),
			lang.Arg("dataset", datasetOfLab, func(d *draft, x *load.Dataset) { d.Workload.Dataset = *x }).
				Required("What is sent: `dataset.KIND.NAME`."),
		}, loadArguments(load.InBenchmark, func(d *draft) *load.Workload { return &d.Workload }), []lang.Argument{
			lang.Arg("mode", mode, func(d *draft, mode string) { d.Offline = mode == offline }),
			lang.Arg("repeat", lang.Whole(1, 1000), func(d *draft, n int) { d.Repeat = n }).Shared(),
			lang.Arg("percentiles", percentiles, func(d *draft, list []float64) { d.Percentiles = list }).Shared(),
			lang.Description(func(d *draft, s string) { d.Description = s }).Shared(),
		}),
		Blocks: append(lang.MatrixBlocks(),
			lang.Nested{Type: loadBlock(), Required: true, Part: func(noun any, _ string) any { return &noun.(*draft).Cell }},
			lang.Part(sloBlock(), func(d *draft) *load.Workload { return &d.Workload }),
			lang.Part(capacityBlock(), capacityPart),
			lang.Nested{Type: referenceBlock(), Many: true},
		),
		Check: lang.Checks(checkCell),
	}
}

// readBenchmark expands a benchmark block into its cells.
func readBenchmark(b *lang.Block) Benchmark {
	out := Benchmark{Name: b.Label, Repeat: 1, Percentiles: load.DefaultPercentiles(), Pos: b.Header.String()}
	b.ReadShared(&draft{Benchmark: &out})
	out.References = readReferences(b)
	b.Expand(func(c *lang.Cell) bool {
		d := draft{Benchmark: &out, Cell: Cell{Workload: load.Workload{IgnoreEOS: true, Endpoint: load.Completions}}}
		read := b.Read(&d, c)
		for name, v := range c.Axes() {
			d.Axes = append(d.Axes, Axis{name, v})
			read.Incomplete = read.Incomplete || v == nil
		}
		if !read.Incomplete {
			out.Cells = append(out.Cells, d.Cell)
		}
		return !read.Incomplete
	})
	if out.Repeat*len(out.Cells) > lang.MaxCells {
		b.Fail(b.Header, "Too many cells",
			"%d cells, %d times each, are more than %d measurements. Repeat less.", len(out.Cells), out.Repeat, lang.MaxCells)
	}
	if b.Settled() {
		warnOfTwins(b, out.Cells)
		warnOfReferences(b, out)
	}
	return out
}

// warnOfTwins points at an axis that makes several cells of one thing, since their engine does not
// use it though another does.
func warnOfTwins(b *lang.Block, cells []Cell) {
	first, all := map[string]Cell{}, map[string]bool{}
	twins := map[[2]string]int{} // of an engine, by the axis in which they differ
	for _, c := range cells {
		all[c.Engine.Address()] = true
		load, err := json.Marshal(c.Workload)
		if err != nil {
			return
		}
		key := fmt.Sprintf("%p %s %v %v %v %v", c.Engine, load, c.Offline, c.Headers, c.From, c.Capacity)
		before, seen := first[key]
		if !seen {
			first[key] = c
			continue
		}
		var differs []string
		for i, a := range c.Axes {
			if i < len(before.Axes) && before.Axes[i] != a {
				differs = append(differs, a.Name)
			}
		}
		if len(differs) == 1 {
			twins[[2]string{c.Engine.Address(), differs[0]}]++
		}
	}
	alike := map[string]int{} // engines that do not use an axis; all of them: that nothing uses it is told already
	for e := range twins {
		alike[e[1]]++
	}
	for axis, at := range b.MatrixAxes() {
		if alike[axis] == len(all) {
			continue
		}
		for _, e := range slices.SortedFunc(maps.Keys(twins), func(a, b [2]string) int { return strings.Compare(a[0], b[0]) }) {
			if e[1] == axis {
				b.Warn(at, "Cells that are the same", "%s of %s only repeat others: it does not use matrix.%s. "+
					"Leave them out by an exclude block.", plain.Count(twins[e], "cell"), e[0], axis)
			}
		}
	}
}

const onlyRecipe = "%s says no host: it takes a role of a group. Measure the group, or give it a host."

// checkMeasured: what is measured runs somewhere.
func checkMeasured(b *lang.Block, e *engines.Engine) {
	recipe := b.Arg("engine").Referred("engine")
	if b.Incomplete || e == nil || recipe == nil || e.Host() != nil || engines.ByOthers(e) {
		return
	}
	b.Incomplete = true
	b.Later(func() {
		if takesRole(b.Reader, recipe) { // else it is told where the engine is declared
			b.Fail(b.ValueOf("engine"), "Wrong value", onlyRecipe, recipe.Address)
		}
	})
}

// checkCell holds what a cell says against each other, and against its engine.
func checkCell(b *lang.Block, d *draft) {
	checkMeasured(b, d.Engine)
	checkOutputs(b, d)
	before := b.Incomplete // the load is looked at whatever is wrong with the engine
	b.Incomplete = !b.AllValid("engine", "load.headers", "load.from") || !b.Arg("dataset").IsValid()
	checkIdle(b, d)
	sent := d.Workload
	if d.Capacity != nil {
		sent = checkCapacity(b, d)
	}
	warnOfPacing(b, d, &sent)
	checkRules(b, d, sent)
	if b.Incomplete = b.Incomplete || before; !b.Incomplete {
		checkTogether(b, d.Cell)
	}
}

// checkOutputs: somebody must say how long answers are, and only one.
func checkOutputs(b *lang.Block, d *draft) {
	from := b.Arg("dataset").Referred("dataset")
	if from == nil {
		return
	}
	said, block := b.Arg("load.output_tokens"), b.Arg("load")
	switch {
	case !d.Workload.Generates() && !d.Offline:
	case !said.IsSet() && block.IsSet() && !d.Workload.Dataset.OwnOutputs() && !from.Wrong:
		b.Fail(block.At.Lacking("output_tokens"), "Missing argument",
			"Prompts of kind %q do not say how long answers are. Write, for example, output_tokens = 256.", from.Kind)
	case said.IsValid() && d.Workload.Dataset.OutputTokens > 0:
		b.Fail(said.At, "Two output lengths",
			"Both the load block and %s say output_tokens. Remove one.", from.Address)
	}
}

// Bench is what an offline cell runs instead of a load on a server. The error says,
// for the author of the lab, why its engine has no such benchmark.
func (c Cell) Bench(seed uint64) (engines.Bench, error) {
	w, d := c.Workload, c.Workload.Dataset
	b := engines.Batch{
		Requests: w.Requests, Kind: d.Kind, InputTokens: d.InputTokens,
		OutputTokens: max(w.OutputTokens, d.OutputTokens), Seed: seed,
		Groups: d.Groups, PromptsPerGroup: d.PromptsPerGroup,
		PrefixTokens: d.PrefixTokens, QuestionTokens: d.QuestionTokens,
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

const noNetwork = "%s has network = \"none\" in its container, so that no request gets to it. Remove that, or measure offline."

// checkTogether holds a cell's load against its engine.
func checkTogether(b *lang.Block, c Cell) {
	e, w := c.Engine, c.Workload
	for _, h := range c.Headers {
		if strings.EqualFold(h.Name, load.Authorization) && e.APIKey.Reveal() != "" {
			b.Fail(b.At("load.headers"), "Two keys",
				"%s has an api_key, which is the header Authorization. Remove that or the header.", e.Address())
			return
		}
	}
	for _, of := range e.Engines() {
		if of.Container.Network == "none" && !c.Offline && engines.Runtime(of) == provision.Docker {
			b.Fail(b.At("engine"), "Engine out of reach", noNetwork, e.Address())
			return
		}
	}
	if checkFrom(b, c); b.Incomplete {
		return
	}
	if c.Offline {
		mode := b.At("mode")
		bench, err := c.Bench(0)
		if err != nil {
			b.Fail(mode, "No offline benchmark", "%s cannot run this offline: %s.", e.Address(), err)
			return
		}
		if bench.Dropped != nil {
			b.Warn(mode, "Flags without effect", "%s has no flag for %s of %s, and runs without.", bench.Tool,
				plain.List(bench.Dropped, "and"), e.Address())
		}
		if why := engines.VersionUnknown(e); why != "" {
			b.Warn(mode, "Version not known", "The version of %s says how its offline benchmark is started, and %s. "+
				`Write version = "0.7.3".`, e.Address(), why)
		}
	}
	if checkSent(b, c); b.Incomplete {
		return
	}
	if why, ofPrompt := contextTooShort(e, w); why != "" {
		x := b.Arg("load.output_tokens")
		if !x.IsSet() || ofPrompt {
			x = b.Arg("dataset")
		}
		b.Fail(x.At, "Context too short", "%s Raise it, or ask for less.", why)
	}
}

// contextTooShort says why what is sent, or of it the prompt alone, does not go into an engine's context; empty: it does, as
// far as is known.
func contextTooShort(e *engines.Engine, w load.Workload) (why string, ofPrompt bool) {
	input, output := w.Longest()
	if most, flag, said := engines.MaxContext(e); said && input+output > most {
		return fmt.Sprintf("A prompt of %d tokens and an answer of %d make %d, and %s of %s allows %d.",
			input, output, input+output, flag, e.Address(), most), false
	}
	if most, flag, said := engines.MaxPrompt(e); said && input > most {
		return fmt.Sprintf("A prompt has %d tokens, and %s of prefill of %s allows %d.", input, flag, e.Address(), most), true
	}
	return "", false
}

// checkFrom holds the hosts that a load is sent from against the engine and against the load.
func checkFrom(b *lang.Block, c Cell) {
	if len(c.From) == 0 || c.Offline {
		return
	}
	e, at := c.Engine, b.At("load.from")
	var runs []*provision.Host // nothing of an engine that others run
	if !engines.ByOthers(e) {
		runs = e.Placement.Hosts()
	}
	for _, h := range c.From {
		if len(c.From) == 1 && h == e.Host() {
			return
		}
		for _, its := range runs {
			if its != h && h.SameMachine(its) {
				b.Fail(at, "One machine twice", "%s and %s are one machine, and %s would wait for itself. Write from = host.%s.",
					h, its, e.Address(), its.Name)
				return
			}
		}
		if _, err := engines.RemoteURLs(e, h); err != nil {
			b.Fail(at, "Engine out of reach", "host.%s cannot reach %s: %s.", h.Name, e.Address(), err)
			return
		}
	}
	if len(c.From) == 1 {
		return
	}
	for i, h := range c.From {
		if slices.ContainsFunc(c.From[:i], h.SameMachine) {
			b.Fail(at, "One client twice", "host.%s is one machine with a client before it. Two clients on one machine measure each other, "+
				"and one has room for all the streams that its machine can carry. Remove one.", h.Name)
			return
		}
		if slices.Contains(runs, h) {
			b.Fail(at, "Client beside the engine", "host.%s runs %s, and would send a part of its load: what a client "+
				"there takes of the processors, the others do not, and its way is shorter. Send from other hosts, or "+
				"from it alone.", h.Name, e.Address())
			return
		}
	}
	for _, p := range c.Workload.ShareProblems(len(c.From)) {
		place, said := placeOf(b, p.Field)
		if !said {
			place = at
		}
		b.Fail(place, "Too little to share", "%s.", lang.Title(p.Text))
	}
}
