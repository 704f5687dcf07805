package hcl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"hclbench/capacity"
	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/tune"
)

// Tune is a tune block: which settings of an engine are best for a benchmark's loads.
type Tune struct {
	Name        string
	Description string
	Objective   string          // the benchmark whose loads are measured
	Figure      metric.Metric   // what is best; of an objective that searches [heldLoad]
	Loads       []Cell          // of the objective, one for each load; their engine does not count
	Accuracy    string          // the accuracy block whose questions guard it; empty: none does
	Checks      []Cell          // of that block, one for each concurrency; likewise
	Percentiles []float64       // of the objective
	Start       *engines.Engine // what the stages begin with
	Stages      []TuneStage     // in the order in which they are tried
	Keep        int             // how many candidates survive a stage
	Finals      int             // fresh starts of each finalist
	Budget      TuneBudget
	Proposer    Proposer
	Pos         string

	proposed map[string]proposed // by the name of their candidate
}

// Proposer says who names candidates beside those of the stages; zero: nobody.
type Proposer struct {
	Command []string // a program, asked again when a stage is over
	Lines   string   // or what one would say, a JSON object on each line
}

// IsSet reports whether there is one.
func (p Proposer) IsSet() bool { return p.Command != nil || p.Lines != "" }

// Proposed are the lines of what a proposer says that have something, and how many more there are than are read at once.
func Proposed(text string) (lines []string, more int) {
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case len(lines) == mostProposed:
			more++
		default:
			lines = append(lines, line)
		}
	}
	return lines, more
}

const (
	mostProposed = 1000    // lines
	mostLine     = 4 << 10 // bytes of one
)

// proposed is what a candidate from outside is made of.
type proposed struct {
	base     *engines.Engine
	override engines.Override
}

// heldLoad is the figure of an objective that searches for the load that is held. No cell has it.
var heldLoad = metric.Metric{Name: "capacity", Title: "Load that is held", Short: "capacity", Better: metric.More}

// Capacity is what the objective searches for; nil: its loads are as they are written.
func (t *Tune) Capacity() *capacity.Question {
	if len(t.Loads) == 0 {
		return nil
	}
	return t.Loads[0].Capacity
}

// TuneBudget is what a tuning may spend at most; 0: no limit.
type TuneBudget struct {
	Starts int
	Time   time.Duration // of the hosts, from the first start on: loading and idling count
	Money  float64       // USD: that time at the hosts' prices
}

// TuneStage is a stage: its options are tried on what the stages before have left, which is left as it is too.
type TuneStage struct {
	Name    string
	Options []Option

	engines   []*engines.Engine
	overrides []engines.Override
	pace      []float64
}

// Option is one thing that a stage tries.
type Option struct {
	ID       string          // of no other option of the stage: what it says
	Engine   *engines.Engine // another engine; nil: the one that the stages before have chosen
	Override engines.Override
	Pace     float64 // how many times as fast it makes a stand-in in a rehearsal

	index int // of what is written in the stage's argument
}

// Candidate is an engine that options of the stages make.
type Candidate struct {
	Engine *engines.Engine  // of one that cannot be started as far as it can be made
	Base   *engines.Engine  // without the overrides
	Over   engines.Override // of all its options together
	Cannot string           // why it cannot be started; empty: it can
}

// maxCandidates bounds what the stages can make together.
const maxCandidates = 2000

const noPlan = "Of a tuning with %d candidates nobody reads the plan; at most %d are made. Try less in a stage, or remove one."

func tuneBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "tune", Labels: []lang.Label{{What: "name", Form: lang.Identifier}},
		Args: []lang.Argument{
			lang.Arg("objective", benchmarkOfLab, func(t *Tune, name string) { t.Objective = name }).
				Required("Whose loads are measured: `benchmark.NAME`."),
			lang.Arg("figure", tuneFigure, func(t *Tune, m metric.Metric) { t.Figure = m }),
			lang.Arg("start", measured, func(t *Tune, e *engines.Engine) { t.Start = e }).
				Required("What the stages begin with: `engine.KIND.NAME`."),
			lang.Arg("accuracy", lang.Name("accuracy", "accuracy.books"), func(t *Tune, name string) { t.Accuracy = name }),
			lang.Arg("propose", proposer, func(t *Tune, p Proposer) { t.Proposer = p }),
			lang.Arg("keep", lang.Whole(1, 20), func(t *Tune, n int) { t.Keep = n }),
			lang.Arg("finals", lang.Whole(2, 20), func(t *Tune, n int) { t.Finals = n }),
			lang.Description(func(t *Tune, s string) { t.Description = s }),
		},
		Blocks: []lang.Nested{
			{Type: stageBlock(), Many: true, Required: true},
			{Type: budgetBlock(), Required: true, Part: func(noun any, _ string) any { return &noun.(*Tune).Budget }},
		},
		Elsewhere: map[string]string{"groups": groupsAreEngines},
	}
}

const groupsAreEngines = "Groups are tried in an `engines` stage, which is the first: engines = [group.a, group.b]."

func stageBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "stage", Labels: []lang.Label{{What: "name", Form: lang.Identifier}},
		Hint: "What is tried one after the other.",
		Args: []lang.Argument{
			lang.Arg("engines", enginesOfLab, func(s *TuneStage, all []*engines.Engine) { s.engines = all }),
			lang.Arg("flags", flagOptions, func(s *TuneStage, all []engines.Override) { s.overrides = append(s.overrides, all...) }),
			lang.Arg("env", envOptions, func(s *TuneStage, all []engines.Override) { s.overrides = append(s.overrides, all...) }),
			lang.Arg("pace", paces, func(s *TuneStage, all []float64) { s.pace = all }),
		},
		Elsewhere: map[string]string{"groups": groupsAreEngines},
	}
}

func budgetBlock() *lang.BlockType {
	t := lang.BlockOf("budget",
		lang.Arg("starts", lang.Whole(1, 10_000), func(b *TuneBudget, n int) { b.Starts = n }),
		lang.Arg("time", lang.Duration, func(b *TuneBudget, d time.Duration) { b.Time = d }),
		lang.Arg("money", lang.Number(0.01, 1e9), func(b *TuneBudget, usd float64) { b.Money = usd }),
	)
	t.Hint = `What it may spend at most: starts, time, or money in USD.`
	return t
}

// Kinds of a tuning.
var (
	benchmarkOfLab = lang.Name("benchmark", "benchmark.online")
	enginesOfLab   = lang.ReferenceList[engines.Engine]("engine", "[engine.vllm.a, engine.sglang.b]", "group")
	tuneFigure     = lang.Parsed("metric", `a metric of which more or less is better, such as "output_throughput"`, func(s string) (metric.Metric, error) {
		m, ok := metric.Named(s)
		if !ok || m.Better == metric.Neither {
			names := metric.Names(metric.All(nil))
			if o, ok := load.ParseObjective(s); ok && o.Percentile > 0 { // so an SLO calls it
				s = fmt.Sprintf("p%v_%s_ms", o.Percentile, o.Metric)
				names = append(names, s)
			}
			return m, lang.Wrong("%s", strings.TrimSpace(lang.DidYouMean(s, names, nil)))
		}
		return m, nil
	})
	proposer = lang.NewKind("command or text", `a command such as ["python3", "propose.py"], or its lines, file("candidates.jsonl")`, func(v cty.Value) (p Proposer, err error) {
		if v.Type() == cty.String {
			if p.Lines = v.AsString(); strings.TrimSpace(p.Lines) == "" {
				return p, lang.Wrong("There is no candidate in it.")
			}
			return p, nil
		}
		p.Command, err = lang.Elements(v, func(e cty.Value) (string, error) {
			if e.IsNull() || e.Type() != cty.String || strings.Contains(e.AsString(), "\x00") {
				return "", lang.NoFit
			}
			return e.AsString(), nil
		})
		if err == nil && (len(p.Command) == 0 || p.Command[0] == "") {
			err = lang.NoFit
		}
		return p, err
	})
	paces = lang.ListOf("list of numbers", "a number from 0.001 to 1000 for each option, such as [1.2, 0.6]", func(v cty.Value) (float64, error) {
		f, ok := lang.AsFloat(v)
		if !ok || f < 1e-3 || f > 1e3 {
			return 0, lang.NoFit
		}
		return f, nil
	})
	flagOptions = lang.Sensitive(lang.NonEmpty(lang.ListOf("list of maps of flags", "a list of objects, such as [{}, { tp = 8 }]",
		func(v cty.Value) (o engines.Override, err error) {
			o.Flags, err = asFlags(v)
			o.WithoutFlags = nulls(v)
			return o, err
		})))
	envOptions = lang.Sensitive(lang.NonEmpty(lang.ListOf("list of maps of texts", `a list of objects, such as [{}, { NAME = "value" }]`,
		func(v cty.Value) (o engines.Override, err error) {
			o.Env, err = asEnvironment(v)
			o.WithoutEnv = nulls(v)
			return o, err
		})))
)

// nulls are the names in an object that stand for nothing.
func nulls(v cty.Value) (names []string) {
	lang.Entries(v, func(name string, e cty.Value) error {
		if e.IsNull() {
			names = append(names, name)
		}
		return nil
	})
	return names
}

// readTune reads a tune block, and finds out which candidates its stages make.
func readTune(b *lang.Block, benchmarks, asks []Benchmark) Tune {
	t := Tune{Name: b.Label, Keep: 2, Finals: 3, Figure: metric.OutputThroughput, Pos: b.Header.String()}
	read := b.Read(&t, nil)
	var stages []*lang.Block
	for _, inner := range b.Inner("stage") {
		s := TuneStage{Name: inner.Label}
		stage := inner.Read(&s, nil)
		hideSecrets(stage, &s, append([]*engines.Engine{t.Start}, s.engines...), t.Stages)
		checkStage(stage, &s, len(stages) == 0)
		read.Incomplete = read.Incomplete || stage.Incomplete
		for _, e := range s.engines {
			checkStarted(stage, "engines", e)
		}
		stages, t.Stages = append(stages, stage), append(t.Stages, s)
	}
	checkStarted(read, "start", t.Start)
	checkObjective(read, &t, benchmarks)
	checkGuard(read, &t, asks)
	if read.Arg("budget").IsSet() && t.Budget == (TuneBudget{}) {
		read.Fail(read.At("budget"), "No budget", "A tuning spends what it may. Write starts = 20, time = \"8h\" or money = 200.")
	}
	if !read.Incomplete {
		checkTuneBudget(read, &t)
		checkProposed(read, t)
		checkCandidates(read, &t, stages)
	}
	return t
}

// hideSecrets makes secrets of flags that one of the engines knows to be secret, before options are called by what they say.
func hideSecrets(b *lang.Block, s *TuneStage, of []*engines.Engine, before []TuneStage) {
	for _, stage := range before {
		of = append(of, stage.engines...)
	}
	for i, o := range s.overrides {
		for n, f := range o.Flags {
			if f.Value == nil || f.Value.IsSecret() || !slices.ContainsFunc(of, func(e *engines.Engine) bool { return e != nil && engines.IsSecret(e, f.Name) }) {
				continue
			}
			b.NoteSecret(f.Value.Reveal())
			secret := provision.Secret(f.Value.Reveal())
			o.Flags[n].Value = &secret
			b.WarnOfClearSecret(b.Element("flags", i), f.Name)
		}
	}
}

// checkStage: a stage tries one sort of thing, and other engines come first.
func checkStage(b *lang.Block, s *TuneStage, first bool) {
	var said []string
	for _, name := range []string{"engines", "flags", "env"} {
		if b.Arg(name).IsSet() {
			said = append(said, name)
		}
	}
	switch {
	case len(said) == 0:
		b.Fail(b.Header.Lacking(""), "Empty stage", "A stage tries engines, flags or env. Write, for example, flags = [{}, { tp = 8 }].")
	case len(said) > 1:
		b.Fail(b.At(said[1]), "Two things in a stage", "A stage tries one thing, and this one says %s. Give each a stage of its own.", plain.List(said, "and"))
	case said[0] == "engines" && !first:
		b.Fail(b.At("engines"), "Stages that clash", "Other engines would lose what the stages before have found out. Put this stage first.")
	}
	var all []Option
	for i, e := range s.engines {
		if e != nil {
			all = append(all, Option{ID: e.Label(), Engine: e, index: i})
		}
	}
	for i, o := range s.overrides {
		all = append(all, Option{ID: o.String(), Override: o, index: i})
	}
	if n := len(s.engines) + len(s.overrides); b.Arg("pace").IsSet() && b.Arg("pace").IsValid() && len(s.pace) != n {
		b.Fail(b.At("pace"), "Wrong pace", "The stage %q has %s and %d of pace. Write one for each, in the same order.", s.Name, plain.Count(n, "option"), len(s.pace))
		return
	}
	for _, o := range all {
		if o.Pace = 1; s.pace != nil {
			o.Pace = s.pace[o.index]
		}
		n := 1 // of those that are called the same: secrets differ in what is not told of them
		for _, other := range s.Options {
			if other.Engine == o.Engine && other.Override.String() == o.Override.String() {
				if n++; reflect.DeepEqual(other.Override, o.Override) {
					n = 0
					break
				}
			}
		}
		switch {
		case o.ID == "": // to leave things as they are is an option of every stage
		case n == 0:
			b.Fail(b.Element(said[0], o.index), "Option given twice", "The stage %q tries %s twice. Remove one.", s.Name, o.ID)
		case n > 1:
			o.ID += fmt.Sprintf(" (%d)", n)
			s.Options = append(s.Options, o)
		default:
			s.Options = append(s.Options, o)
		}
	}
	if len(said) == 1 && len(s.Options) == 0 && !b.Incomplete {
		b.Fail(b.At(said[0]), "Empty stage", "Nothing in this stage changes anything.")
	}
}

// checkStarted: what is tuned is started by hcl.
func checkStarted(b *lang.Block, name string, e *engines.Engine) {
	switch {
	case e == nil:
	case engines.ByOthers(e):
		b.Fail(b.At(name), "Nothing to start", "Others run %s, and hcl cannot start it with other settings.", e.Address())
	case e.Host() == nil:
		b.Fail(b.At(name), "Wrong value", onlyRecipe, e.Address())
	case b.UsesMatrix(e.Address()):
		b.Fail(b.At(name), "Wrong value", "%s uses matrix.*, so that it is another engine in each cell. Write one that says what it uses.", e.Address())
	}
}

// checkObjective takes the loads of the benchmark that is the objective.
func checkObjective(b *lang.Block, t *Tune, benchmarks []Benchmark) {
	i := slices.IndexFunc(benchmarks, func(of Benchmark) bool { return of.Name == t.Objective })
	if slices.ContainsFunc(benchmarks, func(of Benchmark) bool { return of.Name == t.Name }) {
		b.Fail(b.Header, "Name given twice", "Results of a tuning stand under its name, and a benchmark is named %q. Rename one.", t.Name)
	}
	if i < 0 || len(benchmarks[i].Cells) == 0 {
		b.Incomplete = true // which is told where it is written
		return
	}
	of := benchmarks[i]
	t.Percentiles = of.Percentiles
	whose := of.Cells[0].Engine
	if slices.ContainsFunc(of.Cells, func(c Cell) bool { return c.Engine == t.Start }) {
		whose = t.Start
	}
	for _, c := range of.Cells {
		if c.Engine == whose {
			t.Loads = append(t.Loads, c)
		}
	}
	at := b.At("objective")
	for _, c := range t.Loads {
		switch {
		case c.Capacity != nil && len(t.Loads) > 1:
			b.Fail(at, "Several answers", "benchmark.%s searches %d times for a capacity, and a candidate has one. Name one that searches once.", of.Name, len(t.Loads))
			return
		case c.Capacity != nil && b.Arg("figure").IsSet():
			b.Fail(b.At("figure"), "Two objectives", "benchmark.%s searches for a capacity, which is what is best. Remove figure.", of.Name)
			return
		case c.Capacity != nil:
			t.Figure = heldLoad
			return
		case c.Offline:
			b.Fail(at, "Nothing to measure", "benchmark.%s runs offline, and candidates are measured by what is sent to them. "+
				"Name one that is online.", of.Name)
			return
		case t.Figure.Name == metric.Goodput.Name && len(c.Workload.SLO) == 0:
			b.Fail(b.At("figure"), "Nothing to measure", "Without an SLO there is no goodput. Write an slo block in benchmark.%s, or another figure.", of.Name)
			return
		case t.Figure.Name == metric.Failed.Name:
			b.Fail(b.At("figure"), "Nothing to measure", "Of %s the best is 0, and a figure must be above 0 to be compared. Write another.", t.Figure.Name)
			return
		case !slices.ContainsFunc(withPercentiles(of.Percentiles), func(m metric.Metric) bool { return m.Name == t.Figure.Name }):
			b.Fail(b.At("figure"), "Nothing to measure", "benchmark.%s has no %s: write the percentile into its percentiles, or name another figure.", of.Name, t.Figure.Name)
			return
		case !c.Workload.Streams() && (t.Figure.Timing == "ttft" || t.Figure.Timing == "tpot" || t.Figure.Timing == "itl"):
			b.Fail(b.At("figure"), "Nothing to measure", "benchmark.%s streams no answers, so that there is no %s.", of.Name, t.Figure.Name)
			return
		}
	}
}

// checkGuard takes the questions of the accuracy block that guards the tuning. Its candidates are held against the start, which is what
// that block must say.
func checkGuard(b *lang.Block, t *Tune, asks []Benchmark) {
	if slices.ContainsFunc(asks, func(of Benchmark) bool { return of.Name == t.Name }) {
		b.Fail(b.Header, "Name given twice", "Results of a tuning stand under its name, and an accuracy block is named %q. Rename one.", t.Name)
	}
	if t.Accuracy == "" {
		return
	}
	i := slices.IndexFunc(asks, func(of Benchmark) bool { return of.Name == t.Accuracy })
	if i < 0 || len(asks[i].Cells) == 0 || t.Start == nil {
		b.Incomplete = true // which is told where it is written
		return
	}
	if engines.ForcesAcceptance(t.Start) != "" {
		b.Fail(b.At("start"), "Answers are not the model's", "%s, and a tuning asks on the very starts that it measures. Tune without that, or leave out accuracy.",
			unaskable(t.Start, asks[i].Cells[0].Asks.Spec))
		return
	}
	for _, c := range asks[i].Cells {
		if c.Engine == t.Start {
			t.Checks = append(t.Checks, c)
		}
	}
	if spec := asks[i].Cells[0].Asks.Spec; spec.Decides() == 0 {
		b.Fail(b.At("accuracy"), "Excludes nobody", "Task %s of accuracy.%s has no verdict. Name a block that asks questions.", spec.Task, t.Accuracy)
	}
	if asks[i].Cells[0].Asks.Baseline != t.Start.Label() {
		b.Fail(b.At("accuracy"), "Another baseline", "Candidates are held against the start, and accuracy.%s holds answers against something else. "+
			"Write baseline = %s there, or name another block.", t.Accuracy, t.Start.Address())
	}
}

// shortestStart is less than any engine takes to come up, to be measured and to end: what is known of its loads alone may be nothing.
const shortestStart = time.Second

// checkTuneBudget: the budget is enough for an answer.
func checkTuneBudget(b *lang.Block, t *Tune) {
	if t.Budget.Money > 0 && !slices.ContainsFunc(t.Hosts(), func(h *provision.Host) bool { return h.PricePerHour > 0 }) {
		b.Fail(b.At("budget.money"), "No prices", "None of its hosts says what it costs. Write price_per_hour = 20 in the host's block.")
	}
	q := t.Question()
	if q.Least.Time < shortestStart {
		q.Least = t.Cost(shortestStart)
	}
	if _, err := tune.New(q); err != nil {
		b.Fail(b.At("budget"), "Cannot be tuned", "%s.", lang.Title(err.Error()))
	}
}

// checkProposed: each line that stands in the lab is a candidate.
func checkProposed(b *lang.Block, t Tune) {
	lines, more := Proposed(t.Proposer.Lines)
	if more > 0 {
		b.Fail(b.At("propose"), "Too many candidates", "It has %d lines, and %d are read at most.", len(lines)+more, len(lines))
		return
	}
	for i, line := range lines {
		if _, err := t.Propose(line); err != nil {
			b.Fail(b.At("propose"), "Wrong candidate", "Line %d: %s.", i+1, strings.TrimSuffix(err.Error(), "."))
			return
		}
	}
}

// Hosts are those that candidates run on and that load is sent from, in the order of their first use.
func (t *Tune) Hosts() (all []*provision.Host) {
	add := func(hosts []*provision.Host) {
		for _, h := range hosts {
			if !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	for _, e := range t.Engines() {
		add(e.Placement.Hosts())
	}
	for _, c := range t.Loads {
		add(c.From)
	}
	return all
}

// With is the tuning with others in the places of its engines, and of the cells that it measures.
func (t Tune) With(engine func(*engines.Engine) *engines.Engine, cells func([]Cell) []Cell) Tune {
	t.Start, t.Loads, t.Checks, t.Stages, t.proposed = engine(t.Start), cells(t.Loads), cells(t.Checks), slices.Clone(t.Stages), nil
	for i, s := range t.Stages {
		t.Stages[i].Options = slices.Clone(s.Options)
		for n, o := range s.Options {
			if o.Engine != nil {
				t.Stages[i].Options[n].Engine = engine(o.Engine)
			}
		}
	}
	return t
}

// Engines are the start, and the engines that stages try in its place.
func (t *Tune) Engines() []*engines.Engine {
	all := []*engines.Engine{t.Start}
	for _, s := range t.Stages {
		for _, o := range s.Options {
			if o.Engine != nil && !slices.Contains(all, o.Engine) {
				all = append(all, o.Engine)
			}
		}
	}
	return all
}

// product is every choice of at most one option of each stage, by their IDs; the last stage turns fastest.
func product(stages []TuneStage) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		var turn func(chosen []string) bool
		turn = func(chosen []string) bool {
			if len(chosen) == len(stages) {
				return yield(chosen)
			}
			if !turn(append(slices.Clone(chosen), "")) {
				return false
			}
			for _, o := range stages[len(chosen)].Options {
				if !turn(append(slices.Clone(chosen), o.ID)) {
					return false
				}
			}
			return true
		}
		turn(nil)
	}
}

// Candidate is what the options of stages make of the start; where an ID is empty, the stage leaves things as they are.
func (t *Tune) Candidate(options []string) Candidate {
	base, all := t.Start, []engines.Override(nil)
	for i, id := range options {
		if n := slices.IndexFunc(t.Stages[i].Options, func(o Option) bool { return o.ID == id }); n >= 0 {
			o := t.Stages[i].Options[n]
			base, all = cmp.Or(o.Engine, base), append(all, o.Override)
		}
	}
	return t.Made(base, all...)
}

// Of is what a candidate of the search is, be it made of options or proposed.
func (t *Tune) Of(c tune.Candidate) Candidate {
	if c.Proposed == "" {
		return t.Candidate(c.Options)
	}
	p, known := t.proposed[c.Proposed]
	if !known {
		return Candidate{Engine: t.Start, Base: t.Start, Cannot: "nobody has proposed it"}
	}
	return t.Made(p.base, p.override)
}

// Propose reads a candidate that somebody proposes: {"flags": {…}, "env": {…}} that are laid over the start, or over another "engine" of the
// tuning, or {"options": […]} by stage; both with what is "predicted" of the figure, if they like.
func (t *Tune) Propose(line string) (p tune.Proposal, err error) {
	if len(line) > mostLine {
		return p, fmt.Errorf("it has more than %d bytes", mostLine)
	}
	var x struct {
		Engine    string
		Options   []string
		Flags     json.RawMessage
		Env       json.RawMessage
		Predicted *float64
	}
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&x); err != nil {
		return p, fmt.Errorf("it is no candidate: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return p, errors.New("it is more than one object")
	}
	if x.Predicted != nil {
		if !(*x.Predicted > 0) || math.IsInf(t.Score(*x.Predicted), 0) {
			return p, fmt.Errorf("%v cannot be predicted: a figure is above 0", *x.Predicted)
		}
		p.Predicted = t.Score(*x.Predicted)
	}
	if x.Options != nil {
		if x.Engine != "" || x.Flags != nil || x.Env != nil || len(x.Options) > len(t.Stages) || strings.Join(x.Options, "") == "" {
			return p, errors.New("options are those of the stages, one for each in their order, and nothing beside them")
		}
		for i, id := range x.Options {
			if id != "" && !slices.ContainsFunc(t.Stages[i].Options, func(o Option) bool { return o.ID == id }) {
				return p, fmt.Errorf("the stage %q has no option %q", t.Stages[i].Name, id)
			}
		}
		p.Candidate.Options = x.Options
		return p, nil
	}
	made := proposed{base: t.Start}
	if x.Engine != "" {
		i := slices.IndexFunc(t.Engines(), func(e *engines.Engine) bool { return e.Label() == x.Engine || e.Address() == x.Engine })
		if i < 0 {
			return p, fmt.Errorf("the tuning has no engine %q", x.Engine)
		}
		made.base = t.Engines()[i]
	}
	value := func(name string, text json.RawMessage) (v cty.Value, err error) {
		v = cty.EmptyObjectVal
		if text == nil {
			return v, nil
		}
		of, err := ctyjson.ImpliedType(text)
		if err == nil {
			v, err = ctyjson.Unmarshal(text, of)
		}
		if err == nil && (v.IsNull() || !v.Type().IsObjectType()) {
			err = errors.New("it is no object")
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return v, err
	}
	flags, err := value("flags", x.Flags)
	if err != nil {
		return p, err
	}
	env, err := value("env", x.Env)
	if err != nil {
		return p, err
	}
	o := &made.override
	if o.Flags, err = asFlags(flags); err != nil {
		return p, fmt.Errorf("flags: %s", cmp.Or(err.Error(), "a value is no text, number or list"))
	}
	if o.Env, err = asEnvironment(env); err != nil {
		return p, fmt.Errorf("env: %s", cmp.Or(err.Error(), "a value is no text"))
	}
	o.WithoutFlags, o.WithoutEnv = nulls(flags), nulls(env)
	for _, f := range o.Flags {
		if engines.IsSecret(made.base, f.Name) {
			return p, fmt.Errorf("the flag %s is a secret, which nobody proposes", f.Name)
		}
	}
	var words []string
	if made.base != t.Start {
		words, p.Overrides = append(words, made.base.Label()), 1
	}
	for _, part := range []engines.Override{{Flags: o.Flags, WithoutFlags: o.WithoutFlags}, {Env: o.Env, WithoutEnv: o.WithoutEnv}} {
		if !part.Empty() {
			words = append(words, part.String())
		}
	}
	if words == nil {
		return p, errors.New("it changes nothing")
	}
	p.Overrides += len(o.Flags) + len(o.Env) + len(o.WithoutFlags) + len(o.WithoutEnv)
	p.Candidate.Proposed = strings.Join(words, "; ")
	if t.proposed == nil {
		t.proposed = map[string]proposed{}
	}
	t.proposed[p.Candidate.Proposed] = made
	return p, nil
}

// Pace is how many times as fast as the start the stand-in of a candidate is in a rehearsal.
func (t *Tune) Pace(options []string) float64 {
	pace := 1.0
	for i, id := range options {
		if n := slices.IndexFunc(t.Stages[i].Options, func(o Option) bool { return o.ID == id }); n >= 0 {
			pace *= t.Stages[i].Options[n].Pace
		}
	}
	return pace
}

// Made is what overrides make of an engine.
func (t *Tune) Made(base *engines.Engine, all ...engines.Override) Candidate {
	c := Candidate{Engine: base, Base: base, Over: engines.Joined(base.Kind, all...)}
	if !c.Over.Empty() {
		if c.Cannot = t.overridden(&c); c.Cannot != "" {
			return c
		}
	}
	for _, at := range t.Checks {
		if c.Cannot = strings.TrimSuffix(unaskable(c.Engine, at.Asks.Spec), "."); c.Cannot != "" {
			return c
		}
	}
	return c
}

// overridden lays the overrides of a candidate over its base, and says why that cannot be started; empty: it can.
func (t *Tune) overridden(c *Candidate) (cannot string) {
	if c.Base.Kind == engines.GroupKind {
		return "the flags and variables of a group are those of its engines"
	}
	c.Engine, _ = engines.Overridden(c.Base, c.Over)
	c.Engine = engines.Variant(c.Engine, c.Over.String())
	if strange := t.strangeFlag(c.Base, c.Over); strange != "" {
		return strings.TrimSuffix(strange, ".")
	}
	if found := engines.Check(c.Engine); len(found) > 0 {
		return strings.TrimSuffix(found[0].Detail, ".")
	}
	for _, at := range t.Loads {
		if why, _ := contextTooShort(c.Engine, at.Workload); why != "" {
			return strings.TrimSuffix(why, ".")
		}
	}
	return ""
}

// Text is the candidate as an engine block of that name, below a comment. One whose settings have a secret cannot be written.
func (c Candidate) Text(as, comment string) (string, error) {
	if c.Base.Kind == engines.GroupKind {
		return fmt.Sprintf("# %s is %s as it is.\n", comment, c.Base.Address()), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: put this file beside the lab's others.\nengine %q %q {\n  inherits = %s\n", comment, c.Base.Kind, as, c.Base.Address())
	secret := errors.New("its settings have a secret, which is written nowhere: take them from the lab")
	value := func(t provision.Text) string {
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(t.Reveal()))
	}
	object := func(name string, of func(line func(name, value string))) {
		var lines []string
		of(func(name, value string) {
			lines = append(lines, fmt.Sprintf("    %s = %s\n", strconv.Quote(name), value))
		})
		if lines != nil {
			fmt.Fprintf(&b, "  %s = {\n%s  }\n", name, strings.Join(lines, ""))
		}
	}
	var err error
	object("flags", func(line func(name, value string)) {
		values := map[string][]string{}
		var names []string
		for _, f := range c.Over.Flags {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
			switch {
			case f.Off:
				values[f.Name] = append(values[f.Name], "false")
			case f.Value == nil:
				values[f.Name] = append(values[f.Name], "true")
			case f.Value.IsSecret():
				err = secret
			default:
				values[f.Name] = append(values[f.Name], value(*f.Value))
			}
		}
		for _, name := range names {
			if all := values[name]; len(all) == 1 {
				line(name, all[0])
			} else {
				line(name, "["+strings.Join(all, ", ")+"]")
			}
		}
		for _, name := range c.Over.WithoutFlags {
			line(name, "null")
		}
	})
	object("env", func(line func(name, value string)) {
		for _, v := range c.Over.Env {
			if v.Value.IsSecret() {
				err = secret
			}
			line(v.Name, value(v.Value))
		}
		for _, name := range c.Over.WithoutEnv {
			line(name, "null")
		}
	})
	b.WriteString("}\n")
	if err != nil {
		return "", err
	}
	return b.String(), nil
}

// strangeFlag says of which flag of overrides an engine knows nothing though another of the tuning does, which is of another
// kind; empty: of none. What none knows may be newer than what hcl knows, and is tried.
func (t *Tune) strangeFlag(base *engines.Engine, o engines.Override) string {
	doubts := func(base *engines.Engine) map[string]string {
		e, _ := engines.Overridden(base, o)
		found := map[string]string{}
		for _, f := range engines.Doubts(e) {
			if f.Field == "flags" && slices.ContainsFunc(o.Flags, func(own engines.Flag) bool { return own.Name == f.Key }) {
				found[f.Key] = f.Detail
			}
		}
		return found
	}
	mine := doubts(base)
	for _, other := range t.Engines() {
		if len(mine) == 0 || other.Kind == base.Kind || other.Kind == engines.GroupKind {
			continue
		}
		its := doubts(other)
		for _, f := range o.Flags {
			if _, strange := its[f.Name]; !strange && mine[f.Name] != "" {
				return mine[f.Name]
			}
		}
	}
	return ""
}

// Score is a figure as the search takes it: more is better. It is its own inverse.
func (t *Tune) Score(figure float64) float64 {
	if t.Figure.Better == metric.Less {
		return 1 / figure
	}
	return figure
}

// Question is what the room tune is asked. Its seeds are the caller's.
func (t *Tune) Question() tune.Question {
	q := tune.Question{
		Keep: t.Keep, Finals: t.Finals, Confidence: tuneConfidence, Least: t.leastCost(),
		Budget: tune.Budget{Starts: t.Budget.Starts, Time: t.Budget.Time, Money: t.Budget.Money},
	}
	for _, s := range t.Stages {
		stage := tune.Stage{Name: s.Name}
		for _, o := range s.Options {
			n := len(o.Override.Flags) + len(o.Override.Env) + len(o.Override.WithoutFlags) + len(o.Override.WithoutEnv)
			if o.Engine != nil && o.Engine != t.Start {
				n++
			}
			stage.Options = append(stage.Options, tune.Option{ID: o.ID, Overrides: n})
		}
		q.Stages = append(q.Stages, stage)
	}
	type merged struct{ identity, cannot string }
	known := map[string]merged{}
	q.Merge = func(c tune.Candidate) (identity, cannot string) {
		key := strings.Join(c.Options, "\x00") + "\xff" + c.Proposed
		m, ok := known[key]
		if !ok {
			made := t.Of(c)
			m = merged{fmt.Sprint(engines.Fingerprint(made.Engine)), made.Cannot}
			known[key] = m
		}
		return m.identity, m.cannot
	}
	return q
}

// tuneConfidence is how sure a winner is.
const tuneConfidence = 0.95

// leastCost is what a start costs at least: its loads, as far as they say how long they take.
func (t *Tune) leastCost() tune.Cost {
	var least time.Duration
	for _, c := range t.Loads {
		switch q := c.Capacity; {
		case q == nil:
			least += c.Workload.Takes()
		case !q.Whole: // of a closed loop nobody knows how long a request takes
			if s, err := capacity.New(*q); err == nil {
				least += time.Duration(float64(s.LeastRequests()) / q.Most * float64(time.Second))
			}
		}
	}
	return t.Cost(least)
}

// Price is what all of its hosts cost together, in USD an hour.
func (t *Tune) Price() (sum float64) {
	for _, h := range t.Hosts() {
		sum += h.PricePerHour
	}
	return sum
}

// Cost is what its hosts cost for so long.
func (t *Tune) Cost(d time.Duration) tune.Cost {
	return tune.Cost{Time: d, Money: t.Price() * d.Hours()}
}

// checkCandidates points at options of which nothing can be started, and that hardly work.
func checkCandidates(b *lang.Block, t *Tune, stages []*lang.Block) {
	all := 1
	for _, s := range t.Stages {
		if all *= len(s.Options) + 1; all > maxCandidates {
			b.Fail(b.Header, "Too many candidates", noPlan, all, maxCandidates)
			return
		}
	}
	type option struct {
		stage int
		id    string
	}
	first, why := map[option]Candidate{}, map[option]string{}
	for choice := range product(t.Stages) {
		c := t.Candidate(choice)
		for i, id := range choice {
			at := option{i, id}
			if _, seen := first[at]; c.Cannot == "" && !seen {
				first[at] = c
			} else if why[at] == "" {
				why[at] = c.Cannot
			}
		}
	}
	for i, s := range t.Stages {
		for _, o := range s.Options {
			at := optionPlace(stages[i], o)
			c, possible := first[option{i, o.ID}]
			if !possible {
				b.Fail(at, "Candidate that cannot start", "Nothing that this makes can be started: %s.", why[option{i, o.ID}])
				continue
			}
			for _, f := range engines.Doubts(c.Engine) {
				if f.Field == "flags" && slices.ContainsFunc(o.Override.Flags, func(own engines.Flag) bool { return own.Name == f.Key }) {
					b.Warn(at, "Doubtful flags", "%s", f.Detail)
				}
			}
		}
	}
}

// optionPlace is where an option of a stage stands.
func optionPlace(b *lang.Block, o Option) lang.Place {
	if o.Engine != nil {
		return b.Element("engines", o.index)
	}
	name := "flags"
	if b.Arg("env").IsSet() {
		name = "env"
	}
	return b.Element(name, o.index)
}
