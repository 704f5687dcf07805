package hcl

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"hclbench/accuracy"
	"hclbench/capacity"
	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/load"
	"hclbench/plain"
)

// Asking says of a cell that it asks the questions of a task, and what the answers are held against.
type Asking struct {
	Spec accuracy.Spec
	// Baseline is who else was asked, question by question: the label of an engine of the block, or a run that is stored. Empty:
	// nobody. Margin is the share that may be lost, of 1. Neither changes an answer.
	Baseline string
	Margin   float64
}

// accuracyDraft is an accuracy block as it is read.
type accuracyDraft struct {
	Benchmark
	Asking
	engines  []*engines.Engine
	baseline *engines.Engine
	run      string
	at       []int
}

// What an accuracy block does not say.
const defaultMargin = 0.01

func accuracyBlock() *lang.BlockType {
	spec := func(set func(*accuracy.Spec, string)) func(*accuracyDraft, string) {
		return func(d *accuracyDraft, s string) { set(&d.Spec, s) }
	}
	return &lang.BlockType{
		Name: "accuracy", Root: "accuracy", Named: true, Labels: []lang.Label{{What: "name", Form: lang.Identifier}},
		Args: []lang.Argument{
			lang.Arg("engine", enginesToAsk, func(d *accuracyDraft, all []*engines.Engine) { d.engines = all }).
				Required("Who is asked: `engine.KIND.NAME`, or a list."),
			lang.Arg("task", lang.Text, spec(func(s *accuracy.Spec, name string) { s.Task = name })).
				Required("Whose questions: `jsonl` is a file of your own."),
			lang.Arg("path", lang.Text, spec(func(s *accuracy.Spec, path string) { s.Path = path })).
				Required("The file of the questions, relative to the lab's directory."),
			lang.Arg("sha256", hexDigest, spec(func(s *accuracy.Spec, sum string) { s.SHA256 = strings.ToLower(sum) })),
			lang.Arg("shots_path", lang.Text, spec(func(s *accuracy.Spec, path string) { s.ShotsPath = path })),
			lang.Arg("shots_sha256", hexDigest, spec(func(s *accuracy.Spec, sum string) { s.ShotsSHA256 = strings.ToLower(sum) })),
			lang.Arg("protocol", lang.Text, spec(func(s *accuracy.Spec, name string) { s.Protocol = name })),
			lang.Arg("scoring", lang.OneOf(accuracy.Scorings()...), spec(func(s *accuracy.Spec, how string) { s.Scoring = how })),
			lang.Arg("pattern", lang.Text, spec(func(s *accuracy.Spec, pattern string) { s.Pattern = pattern })),
			lang.Arg("extract", lang.Text, spec(func(s *accuracy.Spec, how string) { s.Extract = how })),
			lang.Arg("endpoint", lang.OneOf(load.Chat, load.Completions, load.Generate), spec(func(s *accuracy.Spec, e string) { s.Endpoint = e })),
			lang.Arg("shots", lang.Whole(0, 100), func(d *accuracyDraft, n int) { d.Spec.Shots = &n }),
			lang.Arg("samples", lang.Whole(1, accuracy.MostSamples), func(d *accuracyDraft, n int) { d.Spec.Samples = n }),
			lang.Arg("questions", lang.Whole(1, 1_000_000), func(d *accuracyDraft, n int) { d.Spec.Questions = n }),
			lang.Arg("max_tokens", lang.Whole(1, longPrompt), func(d *accuracyDraft, n int) { d.Spec.MaxTokens = n }),
			lang.Arg("at", concurrencies, func(d *accuracyDraft, at []int) { d.at = at }),
			lang.Arg("baseline", measured, func(d *accuracyDraft, e *engines.Engine) { d.baseline = e }),
			lang.Arg("baseline_run", storedRun, func(d *accuracyDraft, run string) { d.run = run }),
			lang.Arg("margin", lang.Number(0.0001, 0.5), func(d *accuracyDraft, share float64) { d.Margin = share }),
			lang.Description(func(d *accuracyDraft, s string) { d.Description = s }),
		},
	}
}

// Kinds of an accuracy block.
var (
	enginesToAsk  = lang.OrOne(enginesOfLab, "engine", "engine.vllm.a or [engine.vllm.a, engine.sglang.b]")
	concurrencies = lang.NonEmpty(lang.ListOf("list of whole numbers", "a list of concurrencies, such as [1, 64]", func(v cty.Value) (int, error) {
		f, ok := lang.AsFloat(v)
		if !ok || f != float64(int(f)) || f < 1 || f > maxAtOnce {
			return 0, lang.Wrong("A concurrency is a whole number from 1 to %d.", maxAtOnce)
		}
		return int(f), nil
	}))
	storedRun = lang.Parsed("run", `a run that is stored, such as "20261124-171209-mgxl"`, lang.Matching(runForm))
	runForm   = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-z]{4}$`)
)

// maxAtOnce is the highest concurrency at which questions are asked.
const maxAtOnce = 100_000

// askers are the engines that answer in the place of those that accept drafted tokens whatever they are: each is one start, whichever blocks
// ask it.
type askers map[*engines.Engine]*engines.Engine

// of is the engine that answers in the place of one: as a rule itself.
func (a askers) of(e *engines.Engine) (*engines.Engine, error) {
	if a[e] == nil {
		asked, err := engines.Unforced(e)
		if err != nil {
			return nil, err
		}
		a[e] = asked
	}
	return a[e], nil
}

// readAccuracy reads an accuracy block, and makes a cell of each engine at each concurrency.
func readAccuracy(b *lang.Block, c *Config, asked askers) Benchmark {
	d := accuracyDraft{Benchmark: Benchmark{Name: b.Label, Repeat: 1, Percentiles: load.DefaultPercentiles(), Pos: b.Header.String()}}
	d.Margin = defaultMargin
	read := b.Read(&d, nil)
	for _, path := range []*string{&d.Spec.Path, &d.Spec.ShotsPath} {
		*path = b.Vars.AtHome(*path)
	}
	read.FailIfEmpty("path", "Write the name of a file, relative to the lab's directory.")
	checkTask(read, &d)
	if slices.ContainsFunc(c.Benchmarks, func(of Benchmark) bool { return of.Name == d.Name }) {
		read.Fail(read.Header, "Name given twice", "Answers stand under the name of their block, and a benchmark is named %q. Rename one.", d.Name)
	}
	if d.baseline != nil && d.run != "" {
		read.Fail(read.At("baseline_run"), "Two baselines", "Answers are held against one baseline. Remove baseline or baseline_run.")
	}
	if d.baseline != nil && !read.Incomplete && !slices.Contains(d.engines, d.baseline) {
		read.Fail(read.At("baseline"), "Baseline not asked", "%s is asked nothing in this block, so that there are no answers of it. Add it to engine.", d.baseline.Address())
	}
	for i, e := range d.engines {
		checkAsked(read, &d, i, e, asked)
	}
	for i, at := range d.at {
		if slices.Contains(d.at[:i], at) {
			read.Fail(read.Element("at", i), "Concurrency given twice", "The questions are asked at %d already. Remove one.", at)
		}
	}
	if read.Incomplete {
		return d.Benchmark
	}
	if d.Baseline = d.run; d.baseline != nil {
		d.Baseline = d.baseline.Label()
	}
	for _, e := range d.engines {
		at, asks := d.at, d.Asking
		if at == nil {
			at = concurrenciesOf(e, c.Benchmarks)
		}
		if asks.Spec.Task == accuracy.NextToken && !read.Arg("endpoint").IsSet() && e.Kind == engines.SGLang {
			asks.Spec.Endpoint = load.Generate // which alone tells of given texts
		}
		who, err := asked.of(e)
		if err != nil {
			panic(fmt.Sprintf("ask %s: %v, which was checked. This is a bug in hcl.", e, err))
		}
		for _, n := range at {
			d.Cells = append(d.Cells, Cell{
				Axes: []Axis{{"engine", e.Label()}, {"concurrency", int64(n)}}, Engine: who, Asks: &asks,
				Workload: load.Workload{Concurrency: n, Endpoint: asks.Spec.Endpoint, Dataset: load.Dataset{Kind: load.JSONL, Questions: true,
					Path: d.Spec.Path, SHA256: d.Spec.SHA256, Shots: d.Spec.ShotsPath, ShotsSHA256: d.Spec.ShotsSHA256}},
			})
		}
	}
	return d.Benchmark
}

// beforeAll orders blocks that ask: those without a verdict tell in seconds what would make hundreds of answers worthless, so they come first.
func beforeAll(a, b Benchmark) int {
	place := func(of Benchmark) int {
		if len(of.Cells) > 0 {
			return min(of.Cells[0].Asks.Spec.Decides(), 1)
		}
		return 0
	}
	return place(a) - place(b)
}

// checkTask holds what is said of the questions against what the task and its protocol are, and takes from them what it leaves open.
func checkTask(b *lang.Block, d *accuracyDraft) {
	for _, x := range []struct {
		name, of string
		said     bool
	}{{"margin", "a baseline", d.baseline != nil || d.run != ""}, {"shots_sha256", "shots_path", d.Spec.ShotsPath != ""}} {
		if b.Arg(x.name).IsSet() && !x.said && !b.Incomplete {
			b.Warn(b.At(x.name), "No effect", "%s says something of %s, and there is none.", x.name, x.of)
		}
	}
	if b.Incomplete {
		return
	}
	if d.Spec.Task == accuracy.JSONL && d.Spec.Scoring == "" {
		b.Fail(b.Header.Lacking("scoring"), "Missing argument", "How the answer to a question of your own is found, no protocol says. Write scoring: %s.",
			plain.List(accuracy.Scorings(), "or"))
		return
	}
	whole, err := d.Spec.Check()
	if err != nil {
		at := b.Header
		for _, name := range []string{"protocol", "shots", "samples", "questions", "max_tokens", "endpoint", "extract", "pattern", "scoring", "task"} {
			if x := b.Arg(name); x.IsSet() && (strings.Contains(err.Error(), name) || name == "task") {
				at = x.At
				break
			}
		}
		b.Fail(at, "Wrong questions", "%s.", lang.Title(err.Error()))
		return
	}
	d.Spec = whole
	if whole.Decides() == 0 {
		if d.Margin = 0; b.Arg("margin").IsSet() {
			b.Warn(b.At("margin"), "No effect", "There is no verdict on task %s, so that it has no margin. Remove it.", whole.Task)
		}
	}
	if takes := whole.Decides(); whole.Samples < takes && (d.baseline != nil || d.run != "") {
		at := b.Header
		if b.Arg("samples").IsSet() {
			at = b.At("samples")
		}
		b.Warn(at, "No verdict", "A verdict on task %s takes %d answers to each question, and this asks for %d. Write samples = %[2]d.", whole.Task, takes, whole.Samples)
	}
	if whole.NeedsShots() && whole.ShotsPath == "" {
		missing := fmt.Sprintf("Protocol %q takes the examples for %s from a file of their own. Write shots_path, or shots = 0.", whole.Protocol, whole.Task)
		if *whole.Shots == 0 {
			missing = fmt.Sprintf("Task %s needs a second file: the model's tokenizer.json beside its template. Write shots_path.", whole.Task)
		}
		b.Fail(b.Header.Lacking("shots_path"), "Missing argument", "%s", missing)
	}
}

// checkAsked: who is asked runs somewhere, answers as its model does, and has room for the answers.
func checkAsked(b *lang.Block, d *accuracyDraft, i int, e *engines.Engine, asked askers) {
	if e == nil {
		return
	}
	at := b.At("engine")
	if len(d.engines) > 1 {
		at = b.Element("engine", i)
	}
	why := tooLong(e, d.Spec)
	_, err := asked.of(e)
	switch {
	case slices.Contains(d.engines[:i], e):
		b.Fail(at, "Engine given twice", "%s is asked already. Remove one.", e.Address())
	case e.Host() == nil && !engines.ByOthers(e):
		b.Fail(at, "Wrong value", onlyRecipe, e.Address())
	case b.UsesMatrix(e.Address()):
		b.Fail(at, "Wrong value", "%s uses matrix.*, so that it is another engine in each cell. Write one that says what it uses.", e.Address())
	case notServed(e, d.Spec) != "":
		b.Fail(at, "No such endpoint", "%s", notServed(e, d.Spec))
	case why != "":
		b.Fail(b.At("max_tokens"), "Context too short", "%s", why)
	case err != nil:
		b.Fail(at, "Answers are not the model's", "It accepts drafted tokens whatever they are, and is asked on a start without that: %v.", err)
	}
}

// unaskable is why nobody asks an engine such questions on the start on which its loads are measured; empty: it can be asked.
func unaskable(e *engines.Engine, s accuracy.Spec) (why string) {
	if how := engines.ForcesAcceptance(e); how != "" {
		return fmt.Sprintf("%s has %s: it accepts drafted tokens whatever they are, and does not answer as its model does", e.Address(), how)
	}
	return cmp.Or(notServed(e, s), tooLong(e, s))
}

// notServed is why an engine answers nothing at the endpoint where questions go; empty: it may.
func notServed(e *engines.Engine, s accuracy.Spec) (why string) {
	if s.Endpoint == load.Generate && !engines.HasGenerate(e) {
		return fmt.Sprintf("/generate is SGLang's, and %s is of kind %q: every question would fail. Write endpoint, or another protocol.", e.Address(), e.Kind)
	}
	return ""
}

// tooLong is why an answer does not go into an engine's context; empty: it does, as far as the engine says.
func tooLong(e *engines.Engine, s accuracy.Spec) (why string) {
	if most, flag, said := engines.MaxContext(e); said && s.MaxTokens >= most {
		return fmt.Sprintf("An answer may have %d tokens, and %s of %s allows %d with its question. Raise it, or ask for less.", s.MaxTokens, flag, e.Address(), most)
	}
	return ""
}

// concurrenciesOf are those at which an engine is asked where nobody says it: the highest that it is measured or searched at, and 1.
func concurrenciesOf(e *engines.Engine, benchmarks []Benchmark) []int {
	most := 1
	for _, b := range benchmarks {
		for _, c := range b.Cells {
			if c.Engine != e || c.Offline {
				continue
			}
			most = max(most, c.Workload.Concurrency)
			// The most that nobody has said is only where a search gives up: a queue of so many would be all that answers tell of.
			if c.Capacity != nil && c.Capacity.Of() == capacity.Concurrency && c.Capacity.Most != defaultMost {
				most = max(most, int(c.Capacity.Most))
			}
			for _, s := range c.Workload.Stages {
				most = max(most, s.Concurrency)
			}
		}
	}
	if most == 1 {
		return []int{1}
	}
	return []int{1, most}
}
