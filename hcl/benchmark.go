package hcl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/provision"
)

// draft is a benchmark while one of its cells is read.
type draft struct {
	*Benchmark
	Cell
}

// The modes of a benchmark.
const (
	online  = "online"
	offline = "offline" // nothing is sent to a server
)

func benchmarkBlock() *blockType {
	return &blockType{
		name: "benchmark", labels: []label{{what: "name", form: identifier}},
		args: []argument{
			arg("engine", measured, func(d *draft, e *engines.Engine) { d.Engine = e }).
				must("What is measured: `engine.KIND.NAME` or `matrix.engine`."),
			arg("dataset", datasetOfLab, func(d *draft, x *dataset) { d.Workload.Dataset = *x }).
				must("What is sent: `dataset.KIND.NAME`."),
			arg("requests", whole(1, 1<<30), func(d *draft, n int) { d.Workload.Requests = n }),
			arg("duration", longEnough, func(d *draft, t load.Duration) { d.Workload.Duration = t }),
			arg("mode", mode, func(d *draft, mode string) { d.Offline = mode == offline }),
			arg("repeat", whole(1, 1000), func(d *draft, n int) { d.Repeat = n }).inCommon(),
			arg("percentiles", percentiles, func(d *draft, list []float64) { d.Percentiles = list }).inCommon(),
			described(func(d *draft, s string) { d.Description = s }).inCommon(),
		},
		blocks: []nested{
			{typ: matrixBlock(), many: true},
			{typ: zipBlock(), many: true},
			{typ: includeBlock(), many: true},
			{typ: excludeBlock(), many: true},
			{typ: loadBlock(), required: true, part: func(noun any, _ string) any { return &noun.(*draft).Cell }},
			part(sloBlock(), func(d *draft) *load.Workload { return &d.Workload }),
			{typ: referenceBlock(), many: true},
		},
		check: checks(checkCell),
	}
}

// readBenchmark expands a benchmark block into its cells.
func readBenchmark(b *block) Benchmark {
	out := Benchmark{Name: b.label, Repeat: 1, Percentiles: load.DefaultPercentiles(), Pos: pos(b.header)}
	b.readShared(&draft{Benchmark: &out})
	out.References = readReferences(b)
	b.expand(func(c *cell) bool {
		d := draft{Benchmark: &out, Cell: Cell{Workload: load.Workload{IgnoreEOS: true, Endpoint: load.Completions}}}
		read := b.read(&d, c)
		for name, v := range c.point() {
			d.Axes = append(d.Axes, Axis{name, v})
			read.incomplete = read.incomplete || v == nil
		}
		if !read.incomplete {
			out.Cells = append(out.Cells, d.Cell)
		}
		return !read.incomplete
	})
	if out.Repeat*len(out.Cells) > maxCells {
		b.fail(b.header, "Too many cells",
			"%d cells, %d times each, are more than %d measurements. Repeat less.", len(out.Cells), out.Repeat, maxCells)
	}
	if b.settled() {
		warnOfTwins(b, out.Cells)
		warnOfReferences(b, out)
	}
	return out
}

// warnOfTwins points at an axis that makes several cells of one thing, since their engine does not
// use it though another does.
func warnOfTwins(b *block, cells []Cell) {
	first, all := map[string]Cell{}, map[string]bool{}
	twins := map[[2]string]int{} // of an engine, by the axis in which they differ
	for _, c := range cells {
		all[c.Engine.Address()] = true
		load, err := json.Marshal(c.Workload)
		if err != nil {
			return
		}
		key := fmt.Sprintf("%p %s %v %v %v", c.Engine, load, c.Offline, c.Headers, c.From)
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
	for axis, at := range b.matrixAxes() {
		if alike[axis] == len(all) {
			continue
		}
		for _, e := range slices.SortedFunc(maps.Keys(twins), func(a, b [2]string) int { return strings.Compare(a[0], b[0]) }) {
			if e[1] == axis {
				b.warn(at, "Cells that are the same", "%s of %s only repeat others: it does not use matrix.%s. "+
					"Leave them out by an exclude block.", plain.Count(twins[e], "cell"), e[0], axis)
			}
		}
	}
}

const onlyRecipe = "%s says no host: it takes a role of a group. Measure the group, or give it a host."

// checkMeasured: what is measured runs somewhere.
func checkMeasured(b *block, e *engines.Engine) {
	recipe := b.arg("engine").referred("engine")
	if b.incomplete || e == nil || recipe == nil || e.Host() != nil || engines.ByOthers(e) {
		return
	}
	b.incomplete = true
	b.later(func() {
		if takesRole(b.reader, recipe) { // else it is told where the engine is declared
			b.failIn("engine", onlyRecipe, recipe.address)
		}
	})
}

// checkCell holds what a cell says against each other, and against its engine.
func checkCell(b *block, d *draft) {
	checkMeasured(b, d.Engine)
	checkOutputs(b, d)
	before := b.incomplete // the load is looked at whatever is wrong with the engine
	b.incomplete = !b.whole("engine", "load.headers", "load.from") || !b.arg("dataset").fits()
	checkIdle(b, d)
	checkEnd(b, d)
	checkPace(b, d)
	warnOfPacing(b, d)
	if !b.incomplete && !d.Offline {
		checkRules(b, d.Workload)
	}
	if b.incomplete = b.incomplete || before; !b.incomplete {
		checkTogether(b, d.Cell)
	}
}

// checkOutputs: somebody must say how long answers are, and only one.
func checkOutputs(b *block, d *draft) {
	from := b.arg("dataset").referred("dataset")
	if from == nil {
		return
	}
	said, block := b.arg("load.output_tokens"), b.arg("load")
	switch {
	case !d.Workload.Generates() && !d.Offline:
	case !said.said() && block.said() && !d.Workload.Dataset.OwnOutputs() && !from.wrong:
		b.missing(block.at, "output_tokens", "Missing argument",
			"Prompts of kind %q do not say how long answers are. Write, for example, output_tokens = 256.", from.kind)
	case said.fits() && d.Workload.Dataset.OutputTokens > 0:
		b.fail(said.at, "Two output lengths",
			"Both the load block and %s say output_tokens. Remove one.", from.address)
	}
}

// checkEnd: something must say when a cell is done, and only one thing.
func checkEnd(b *block, d *draft) {
	requests, long := b.arg("requests"), b.arg("duration")
	staged, traced := b.arg("load.stages").said(), d.Workload.Dataset.Timed()
	misspelt := b.misspelt[b.header]
	switch {
	case staged && long.said():
		b.fail(long.at, "Two ways to end", "The stages say how long a cell takes. Remove duration, or the stages.")
	case staged && requests.said():
		b.fail(requests.at, "Two ways to end", "The stages say how long a cell takes. Remove requests, or the stages.")
	case d.Offline && long.said():
		b.fail(long.at, "No duration offline",
			"An offline benchmark runs a number of requests, not for a time. Write requests.")
	case d.Offline && !requests.said() && !misspelt["requests"]:
		b.missing(b.header, "", "Missing argument",
			"An offline benchmark runs a number of requests. Say how many, for example requests = 512.")
	case requests.said() && long.said():
		b.fail(long.at, "Two ways to end",
			"A cell ends after so many requests or after so long. Remove requests or duration.")
	case requests.said() || long.said() || staged || traced || misspelt["requests"] || misspelt["duration"]:
	default:
		b.missing(b.header, "", "Missing argument",
			`Nothing says when a cell is done. Write requests = 500, or duration = "2m".`)
	}
}

// checkPace: something must say when requests are sent, and only one thing.
func checkPace(b *block, d *draft) {
	block, stages := b.arg("load"), b.arg("load.stages")
	concurrency, rate := b.arg("load.concurrency"), b.arg("load.rate")
	paced := concurrency.said() || rate.said() || stages.said() || d.Workload.Dataset.Timed() || d.Offline
	misspelt := b.misspelt[block.at]
	if block.said() && !paced && !misspelt["concurrency"] && !misspelt["rate"] {
		b.missing(block.at, "", "Load without a pace",
			`Write concurrency, the requests in flight, or rate, those per second; rate = "inf" sends all at once.`)
	}
	if stages.said() && rate.said() {
		b.fail(rate.at, "Two paces", "Each stage says its rate. Remove rate, or the stages.")
	}
	inFlight := func(s load.Stage) bool { return s.Concurrency > 0 }
	if concurrency.said() && slices.ContainsFunc(d.Workload.Stages, inFlight) {
		b.fail(stages.at, "Two paces",
			"Each stage says its concurrency, and the load block says another. Remove one.")
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
func checkTogether(b *block, c Cell) {
	e, w := c.Engine, c.Workload
	for _, h := range c.Headers {
		if strings.EqualFold(h.Name, load.Authorization) && e.APIKey.Reveal() != "" {
			b.fail(b.arg("load.headers").at, "Two keys",
				"%s has an api_key, which is the header Authorization. Remove that or the header.", e.Address())
			return
		}
	}
	for _, of := range e.Engines() {
		if of.Container.Network == "none" && !c.Offline && engines.Runtime(of) == provision.Docker {
			b.fail(b.arg("engine").at, "Engine out of reach", noNetwork, e.Address())
			return
		}
	}
	if checkFrom(b, c); b.incomplete {
		return
	}
	if c.Offline {
		mode := b.arg("mode").at
		bench, err := c.Bench(0)
		if err != nil {
			b.fail(mode, "No offline benchmark", "%s cannot run this offline: %s.", e.Address(), err)
			return
		}
		if bench.Dropped != nil {
			b.warn(mode, "Flags without effect", "%s has no flag for %s of %s, and runs without.", bench.Tool,
				inWords(bench.Dropped, "and"), e.Address())
		}
		if why := engines.VersionUnknown(e); why != "" {
			b.warn(mode, "Version not known", "The version of %s says how its offline benchmark is started, and %s. "+
				`Write version = "0.7.3".`, e.Address(), why)
		}
	}
	if checkSent(b, c); b.incomplete {
		return
	}
	most, flag, said := engines.MaxContext(e)
	input, output := w.Longest()
	if !said || input+output <= most {
		if most, flag, said := engines.MaxPrompt(e); said && input > most {
			b.fail(b.arg("dataset").at, "Context too short", "A prompt has %d tokens, and %s of prefill of %s allows %d. "+
				"Raise it, or ask for less.", input, flag, e.Address(), most)
		}
		return
	}
	x := b.arg("load.output_tokens")
	if !x.said() {
		x = b.arg("dataset")
	}
	b.fail(x.at, "Context too short", "A prompt of %d tokens and an answer of %d make %d, and %s of %s allows %d. "+
		"Raise it, or ask for less.", input, output, input+output, flag, e.Address(), most)
}

// checkFrom holds the hosts that a load is sent from against the engine and against the load.
func checkFrom(b *block, c Cell) {
	if len(c.From) == 0 || c.Offline {
		return
	}
	e, at := c.Engine, b.arg("load.from").at
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
				b.fail(at, "One machine twice", "%s and %s are one machine, and %s would wait for itself. Write from = host.%s.",
					h, its, e.Address(), its.Name)
				return
			}
		}
		if _, err := engines.RemoteURLs(e, h); err != nil {
			b.fail(at, "Engine out of reach", "host.%s cannot reach %s: %s.", h.Name, e.Address(), err)
			return
		}
	}
	if len(c.From) == 1 {
		return
	}
	for i, h := range c.From {
		if slices.ContainsFunc(c.From[:i], h.SameMachine) {
			b.fail(at, "One client twice", "host.%s is one machine with a client before it. Two clients on one machine measure each other, "+
				"and one has room for all the streams that its machine can carry. Remove one.", h.Name)
			return
		}
		if slices.Contains(runs, h) {
			b.fail(at, "Client beside the engine", "host.%s runs %s, and would send a part of its load: what a client "+
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
		b.fail(place, "Too little to share", "%s.", title(p.Text))
	}
}
