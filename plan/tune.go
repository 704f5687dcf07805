package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/accuracy"
	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/results"
	"hclbench/tune"
)

// Tune is a tuning: which deployments it makes is known only as it goes on.
type Tune struct {
	hcl.Tune
	Hosts  []*provision.Host // that its candidates use, held from its first start to its last
	Hold   *Deployment       // stands for all that it may start: it holds the hosts, and is never started
	Ledger results.Ledger    // what was tried so far
	Guard  []*Cell           // what starts are asked, as Hold would be; empty: nothing

	lab   string
	known map[string]results.Known                                // what is measured, by cell
	best  string                                                  // what the winner is called as a block: no engine of the lab has that name
	stand func(*engines.Engine, float64) (*engines.Engine, error) // what is started in the place of an engine, so many times as fast; nil: itself
}

// newTune plans a tuning, whose winner is called best. place says on which host a host's work is done.
func newTune(of hcl.Tune, lab, best string, place func(*provision.Host) *provision.Host, stand func(*engines.Engine, float64) (*engines.Engine, error)) (*Tune, error) {
	t := &Tune{Tune: of, lab: lab, best: best, stand: stand}
	for _, h := range of.Hosts() {
		if h = place(h); !slices.Contains(t.Hosts, h) {
			t.Hosts = append(t.Hosts, h)
		}
	}
	for i, e := range of.Engines() {
		d, err := t.deployment(e, 1)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			t.Hold = d
			t.Hold.Hosts = t.Hosts
			continue
		}
		t.Hold.Members = append(t.Hold.Members, d.Members...)
	}
	for _, c := range t.Checks {
		t.Guard = append(t.Guard, t.check(t.Hold, c))
	}
	return t, nil
}

// check is the cell of a start that asks what guards the tuning: the same as in each other start, held against the baseline's first.
func (t *Tune) check(d *Deployment, c hcl.Cell) *Cell {
	x := t.cell(d, c)
	e := x.Eval()
	e.Baseline = t.Hold.Engine.Label()
	for _, s := range t.Ledger.Starts {
		for _, had := range s.Checks {
			if s.Phase == tune.AA && s.Result != nil && s.Deployment != d.ID && At(s.Engine, had.Axes) == At(d.Engine.Label(), x.Axes) {
				e.Against = append(e.Against, had.Asker)
			}
		}
	}
	return x
}

// cell is one of the objective's cells, or of those that guard it, in a start.
func (t *Tune) cell(d *Deployment, c hcl.Cell) *Cell {
	was := c.Engine.Label()
	c.Engine = d.Engine
	if len(c.From) == 1 && c.From[0] == d.Host {
		c.From = nil
	}
	c.Axes = slices.Clone(c.Axes)
	for i, a := range c.Axes {
		if a.Value == was {
			c.Axes[i].Value = d.Engine.Label()
		}
	}
	b := hcl.Benchmark{Name: t.Name, Percentiles: t.Percentiles}
	return cell(d, b, c, &Cell{Repetition: 1, load: loadOf(c, d), occurrence: 1, Status: Measure})
}

func (t *Tune) deployment(e *engines.Engine, pace float64) (*Deployment, error) {
	if t.stand != nil {
		var err error
		if e, err = t.stand(e, pace); err != nil {
			return nil, err
		}
	}
	return deployment(e), nil
}

// Deployment is a start of the tuning, with a cell for each load. Its prompts are its own. What it has measured before it was broken off
// is done.
func (t *Tune) Deployment(s tune.Start) (*Deployment, error) {
	d, err := t.deployment(t.Of(s.Candidate).Engine, t.Pace(s.Candidate.Options))
	if err != nil {
		return nil, err
	}
	d.Tuned = true
	d.Identity = maps.Clone(d.Identity)
	d.Identity["start"] = fmt.Sprintf("%s %d", t.Name, s.Number)
	d.ID = hash(canonical(d.Identity))
	for _, c := range t.Loads {
		if c.Capacity != nil {
			q := *c.Capacity
			q.Worth = t.Worth(s.Race)
			c.Capacity = &q
		}
		x := t.cell(d, c)
		x.Load().Seed ^= s.Seed
		if s.Race != nil && At(d.Engine.Label(), x.Axes) == s.Race.At {
			d.Cells = slices.Insert(d.Cells, 0, x)
		} else {
			d.Cells = append(d.Cells, x)
		}
	}
	if s.Phase == tune.AA || !s.Candidate.IsBaseline() {
		for _, c := range t.Checks {
			d.Cells = append(d.Cells, t.check(d, c))
		}
	}
	d.identify(t.lab)
	known := maps.Clone(t.known)
	maps.DeleteFunc(known, func(_ string, k results.Known) bool {
		return !slices.ContainsFunc(t.Ledger.Starts, func(x results.Tried) bool {
			inDoubt := slices.ContainsFunc(x.Loads, func(l results.TriedLoad) bool { return l.Doubt != "" }) // and would be so for ever
			return x.Deployment == d.ID && x.Result == nil && x.Run == k.RunID && !inDoubt
		})
	})
	for _, c := range d.Cells {
		if search := c.Search(); search != nil {
			search.Tries = c.tried(known, Options{}, newSeen(t.lab, nil))
		} else if id, k, ok := d.measured(c, known); ok {
			c.known(id, k, Options{}, newSeen(t.lab, nil))
		}
	}
	return d, nil
}

// Worth is the load at which a candidate races that is tuned by its capacity: one which the best so far certainly holds, and whose loss no
// noise between starts explains. 0: there is no race.
func (t *Tune) Worth(race *tune.Race) float64 {
	q := t.Capacity()
	if race == nil || q == nil {
		return 0
	}
	_, held, _ := strings.Cut(race.At, "=")
	at, err := strconv.ParseFloat(held, 64)
	if at = min(at, race.Least); q.Whole {
		at = math.Floor(at)
	}
	if err != nil || at < q.Least {
		return 0
	}
	return min(at, q.Most)
}

// At names the load of a cell of an engine by its axes, the same in each start of a tuning: "concurrency=8", or of the only one "its load".
func At(engine string, axes results.Axes) string {
	var words []string
	for _, a := range axes {
		if a.Value != engine {
			words = append(words, fmt.Sprintf("%s=%v", a.Name, a.Value))
		}
	}
	return cmp.Or(strings.Join(words, " "), "its load")
}

// asked is a hash of what is asked: the stages, what is measured, and by what.
func (t *Tune) asked() string {
	var all []string
	add := func(what ...any) { all = append(all, fmt.Sprintln(what...)) }
	add(t.Figure.Name, t.Keep, t.Finals)
	if t.Proposer.IsSet() {
		add(t.Proposer)
	}
	for _, e := range t.Engines() {
		add(canonical(engines.Fingerprint(e)))
	}
	for _, s := range t.Stages {
		add(s.Name)
		for _, o := range s.Options {
			add(o.ID)
			if len(o.Override.Env)+len(o.Override.WithoutEnv) > 0 { // which is called as a flag of that name is
				add("env")
			}
		}
	}
	for _, c := range t.Loads {
		add(loadOf(c, t.Hold).text, c.Workload.SLO)
		if c.Capacity != nil {
			add(*c.Capacity)
		}
	}
	for _, c := range t.Checks {
		add(loadOf(c, t.Hold).text, c.Asks.Margin)
	}
	return hash(strings.Join(all, ""))
}

// Know takes what earlier runs have tried, as far as the question is the same.
func (t *Tune) Know(kept []byte) {
	var l results.Ledger
	if json.Unmarshal(kept, &l) == nil && l.Question == t.asked() {
		t.Ledger = l
	}
}

// Begin begins the ledger, unless something was tried. seed draws that of the search; that of the finals is drawn when they begin.
func (t *Tune) Begin(seed func() uint64) {
	if t.Ledger.Question == "" {
		t.Ledger = results.Ledger{Question: t.asked(), Seed: seed()}
	}
}

// Search is the search as far as it has come by the ledger.
func (t *Tune) Search() (*tune.Tuning, error) {
	q := t.Question()
	q.Seed, q.FinalSeed = t.Ledger.Seed, t.Ledger.FinalSeed
	for _, tried := range t.Ledger.Starts {
		if tried.Phase == tune.AA && tried.Noise != nil { // a later proof would change what was chosen by then
			q.Known = *tried.Noise
		}
	}
	s, err := tune.New(q)
	if err != nil {
		return nil, err
	}
	for i, tried := range t.Ledger.Starts {
		t.proposeTo(s, i)
		if tried.Result == nil {
			s.Lost(tried.Cost)
			continue
		}
		s.Next()
		switch err := s.Ended(tried.Start, *tried.Result); {
		case errors.Is(err, tune.ErrNotNext): // the budget is not what it was: it has cost what it has cost
			s.Lost(tried.Cost)
		case err != nil:
			return nil, fmt.Errorf("go on with tuning %s: %w", t.Name, err)
		}
	}
	t.proposeTo(s, len(t.Ledger.Starts))
	return s, nil
}

// Summary is what came of the tuning, as far as it has come by the ledger.
func (t *Tune) Summary() (*tune.Summary, error) {
	search, err := t.Search()
	if err != nil {
		return nil, err
	}
	s := search.Summary(t.Score)
	s.Tune, s.Objective, s.Figure, s.Start = t.Name, t.Objective, t.Figure.Name, t.Start.Label()
	for i := range s.Candidates {
		s.Candidates[i].Altered = engines.Altered(t.Of(s.Candidates[i].Candidate).Engine)
	}
	t.checked(&s)
	t.bounded(&s)
	if s.Winner != nil {
		s.Text, _ = t.Text(*s.Winner) // one with a secret is written nowhere
	}
	return &s, nil
}

// checked says of each candidate what its answers prove: the worst of all its starts.
func (t *Tune) checked(s *tune.Summary) {
	worst := accuracy.Verdicts()
	for _, tried := range t.Ledger.Starts {
		place := s.Place(tried.Candidate)
		for _, c := range tried.Checks {
			if place == 0 || tried.Result == nil {
				continue
			}
			x := &s.Candidates[place-1]
			switch was := slices.Index(worst, accuracy.Verdict(x.Accuracy)); {
			case c.Verdict == "":
				x.Accuracy = tune.Baseline
			case was < 0 || slices.Index(worst, c.Verdict) < was:
				x.Accuracy, x.Unproved = string(c.Verdict), ""
				if c.Verdict == accuracy.NotShown || c.Verdict == accuracy.Unchecked {
					x.Unproved = c.Why
				}
			}
		}
	}
}

// bounded says of each candidate that was searched for its capacity what all its starts certainly hold, and break by.
func (t *Tune) bounded(s *tune.Summary) {
	seen := map[int]bool{}
	for _, tried := range t.Ledger.Starts {
		place := s.Place(tried.Candidate)
		if place == 0 || tried.Result == nil || len(tried.Loads) == 0 || tried.Loads[0].Capacity == nil || tried.Loads[0].Capacity.Flaw != "" {
			continue
		}
		x, o := &s.Candidates[place-1], tried.Loads[0].Capacity
		if !seen[place] {
			x.Holds, x.Breaks, seen[place] = o.Holds, o.Breaks, true
			continue
		}
		if o.Holds == nil || x.Holds != nil && *o.Holds < *x.Holds {
			x.Holds = o.Holds
		}
		if o.Breaks == nil || x.Breaks != nil && *o.Breaks > *x.Breaks {
			x.Breaks = o.Breaks
		}
	}
}

// Text is a candidate as a block that stands beside the lab's others. One whose settings have a secret cannot be written.
func (t *Tune) Text(c tune.Candidate) (string, error) {
	return t.Of(c).Text(t.best, fmt.Sprintf("The best of tune %q", t.Name))
}

// proposeTo tells a search what was proposed after so many starts.
func (t *Tune) proposeTo(s *tune.Tuning, after int) {
	for _, a := range t.Ledger.Asked {
		if a.After != after {
			continue
		}
		for _, line := range a.Lines {
			if p, err := t.Propose(line); err == nil { // the lab may not be what it was
				_ = s.Propose([]tune.Proposal{p}) // after the finals have begun it is too late
			}
		}
	}
}

// Proposed is [hcl.Proposed].
func (t *Tune) Proposed(text string) (lines []string, more int) { return hcl.Proposed(text) }

// Asks reports whether the proposer is to be asked: before the first start, and when stages are over, until the finals begin. Lines that
// stand in the lab are read once.
func (t *Tune) Asks(s *tune.Tuning) bool {
	asked := t.Ledger.Asked
	switch {
	case !t.Proposer.IsSet(), slices.ContainsFunc(t.Ledger.Starts, func(x results.Tried) bool { return x.Phase == tune.Final }):
		return false
	case len(asked) == 0:
		return true
	}
	return t.Proposer.Command != nil && asked[len(asked)-1].Stages < s.StagesOver()
}

// Known is what a proposer is told, a JSON object on each line: the tuning with its stages, then each candidate that is known, with its
// fate and figures so far. Seeds are not in it.
func (t *Tune) Known(s *tune.Tuning) []byte {
	type stage struct {
		Name    string   `json:"name"`
		Options []string `json:"options"`
	}
	about := struct {
		Tune    string   `json:"tune"`
		Figure  string   `json:"figure"`
		Better  string   `json:"better"` // "more" or "less"
		Start   string   `json:"start"`
		Engines []string `json:"engines"`
		Stages  []stage  `json:"stages"`
	}{Tune: t.Name, Figure: t.Figure.Name, Better: "more", Start: t.Start.Label()}
	if t.Score(2) < 1 {
		about.Better = "less"
	}
	for _, e := range t.Engines() {
		about.Engines = append(about.Engines, e.Label())
	}
	for _, of := range t.Stages {
		x := stage{Name: of.Name}
		for _, o := range of.Options {
			x.Options = append(x.Options, o.ID)
		}
		about.Stages = append(about.Stages, x)
	}
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	_ = lines.Encode(about) // of texts and numbers, into memory
	for _, e := range s.Ledger() {
		x := struct {
			Settings  string       `json:"settings"`
			Options   []string     `json:"options,omitempty"`
			Fate      tune.Fate    `json:"fate"`
			Outcome   tune.Outcome `json:"outcome,omitempty"`
			Why       string       `json:"why,omitempty"`
			Starts    int          `json:"starts"`
			Figure    float64      `json:"figure,omitempty"`
			Predicted float64      `json:"predicted,omitempty"`
		}{Settings: e.Candidate.Settings(), Options: e.Candidate.Options, Fate: e.Fate, Outcome: e.Outcome, Why: cmp.Or(e.Reason, e.Why), Starts: e.Starts}
		if f := s.Searched(&e); f.Starts > 0 {
			x.Figure = t.Score(f.Value)
		}
		if e.Predicted > 0 {
			x.Predicted = t.Score(e.Predicted)
		}
		_ = lines.Encode(x)
	}
	return out.Bytes()
}

// Within is how long a start may take by what it may cost; 0: there is no limit.
func (t *Tune) Within(most tune.Cost) time.Duration {
	d := most.Time
	if price := t.Price(); most.Money > 0 && price > 0 {
		if buys := max(1, time.Duration(most.Money/price*float64(time.Hour))); d == 0 || buys < d {
			d = buys
		}
	}
	return d
}

// ToDo reports whether there is something left to start.
func (t *Tune) ToDo() bool {
	s, err := t.Search()
	if err != nil {
		return true // which apply says
	}
	_, more := s.Next()
	return more
}

// ProposeWithin is how long a proposer may take.
const ProposeWithin = time.Minute

const tuningLine = "  %-12s %s\n"

// tuning writes what a tuning does.
func (t *printer) tuning(x *Tune) {
	s, err := x.Search()
	if err != nil {
		t.printf("\ntune %s: %v\n", x.Name, err)
		return
	}
	way := s.Strategy()
	t.printf("\ntune %s\n", x.Name)
	search := x.Hold.searchOf(x.Loads)
	if search == nil {
		t.printf(tuningLine, "objective", fmt.Sprintf("%s of benchmark %s, %s in each start%s", x.Figure.Name, x.Objective,
			plain.Count(len(x.Loads), "load"), underSLO(x)))
	} else {
		t.printf(tuningLine, "objective", fmt.Sprintf("%s of benchmark %s, all loads in the one start of a candidate", x.Figure.Name, x.Objective))
		t.named("  ", "search       ", search.String())
		t.named("  ", "race         ", "a candidate's first load is one that the best so far certainly holds; its start ends when it surely does not hold that")
	}
	for _, c := range x.Guard {
		t.named("  ", "accuracy     ", fmt.Sprintf("%s at %s, after the loads of each start that they leave in: %s. Who is worse is out; what is not shown excludes nobody",
			x.Accuracy, At(x.Hold.Engine.Label(), c.Axes), c.Eval()))
	}
	t.printf(tuningLine, "start", fmt.Sprintf("%s, started twice first: below what two starts of the same differ in, nothing is a difference", x.Start.Address()))
	for _, stage := range x.Stages {
		t.printf("  stage %s\n", stage.Name)
		for _, o := range stage.Options {
			line := o.ID
			if note := x.fate(stage, o); note != "" {
				line += " (" + note + ")"
			}
			t.printf("    %s\n", line)
		}
	}
	if p := x.Proposer; p.Command != nil {
		t.printf(tuningLine, "proposals", fmt.Sprintf("by %s, asked on this machine before the first start and after each stage, %s each time at most; taken where the budget has room beside stages and finals",
			plain.Line(strings.Join(p.Command, " ")), Rough(ProposeWithin)))
	} else if lines, _ := hcl.Proposed(p.Lines); p.IsSet() {
		t.printf(tuningLine, "proposals", plain.Count(len(lines), "candidate")+
			"; taken where the budget has room beside stages and finals")
	}
	t.printf(tuningLine, "finals", fmt.Sprintf("%d candidates in turn, %s each, by prompts that nothing was chosen by", max(2, x.Keep), plain.Count(x.Finals, "fresh start")))
	loads, what := len(x.Loads), "measurement"
	if search != nil {
		loads, what = search.loads, "load"
	}
	most := counts(way.Least, way.Most, "start") + ", " + counts(way.Least*len(x.Loads), way.Most*loads, what)
	if way.Least > way.Most {
		most = fmt.Sprintf("at most %s, %s", plain.Count(way.Most, "start"), plain.Count(way.Most*loads, what))
	}
	between := func(least, most string) string {
		if least != "" {
			return "; " + least + " to " + most
		}
		return "; at most " + most
	}
	least, cost := "", ""
	if way.Time[0] > 0 && way.Least <= way.Most {
		least = Rough(way.Time[0])
	}
	if way.Money[0] > 0 && way.Least <= way.Most {
		cost = fmt.Sprintf("$%.2f", way.Money[0])
	}
	if d := way.Time[1]; d > 0 {
		most += between(least, Rough(d))
	} else if search != nil && search.Question.Timed {
		each := time.Duration(search.Question.Budget * float64(time.Second))
		most += between(least, Rough(time.Duration(way.Most)*each)) + " of searching, beside loading"
	}
	if m := way.Money[1]; m > 0 {
		most += between(cost, fmt.Sprintf("$%.2f", m))
	} else if price, d := x.Price(), way.Time[1]; price > 0 && d > 0 {
		most += between(cost, fmt.Sprintf("$%.2f", price*d.Hours()))
	}
	t.printf(tuningLine, "budget", most)
	if n := len(x.Ledger.Starts); n > 0 {
		t.printf(tuningLine, "so far", plain.Count(n, "start"))
	}
	if next, ok := s.Next(); ok {
		t.printf(tuningLine, "next", fmt.Sprintf("start %d (%s): %s", next.Number, next.Phase, next.Candidate.Settings()))
		return
	}
	t.printf(tuningLine, "next", fmt.Sprintf("nothing; hcl tune --tune %s shows the answer", x.Name))
}

// counts is so many of something between least and most: "9 to 12 starts", "9 starts".
func counts(least, most int, what string) string {
	if least == most {
		return plain.Count(most, what)
	}
	return fmt.Sprintf("%d to %s", least, plain.Count(most, what))
}

// json is the tuning for programs.
func (t *Tune) json() (jsonTune, error) {
	s, err := t.Search()
	if err != nil {
		return jsonTune{}, err
	}
	way := s.Strategy()
	out := jsonTune{
		Name: t.Name, Objective: t.Objective, Figure: t.Figure.Name, Start: t.Start.Label(), Loads: len(t.Loads),
		LeastStarts: way.Least, MostStarts: way.Most, MostSeconds: way.Time[1].Seconds(), MostCost: way.Money[1], Starts: len(t.Ledger.Starts),
	}
	for _, c := range t.Guard {
		out.Accuracy, out.Questions = t.Accuracy, out.Questions+c.Eval().Questions
	}
	for _, stage := range t.Stages {
		x := jsonStage{Name: stage.Name, Options: []jsonOption{}}
		for _, o := range stage.Options {
			x.Options = append(x.Options, jsonOption{o.ID, t.fate(stage, o)})
		}
		out.Stages = append(out.Stages, x)
	}
	if next, more := s.Next(); more {
		out.Next = next.Candidate.Settings()
	}
	return out, nil
}

// searchOf is the search that is made of loads, as it is without a race; nil: they are loads as they are.
func (d *Deployment) searchOf(loads []hcl.Cell) *Search {
	if len(loads) == 0 || loads[0].Capacity == nil {
		return nil
	}
	return cell(d, hcl.Benchmark{}, loads[0], &Cell{Repetition: 1}).Search()
}

// underSLO says under which SLO a figure counts.
func underSLO(x *Tune) string {
	for _, c := range x.Loads {
		if len(c.Workload.SLO) > 0 {
			var lines []string
			for _, o := range c.Workload.SLO {
				lines = append(lines, o.Name()+" "+time.Duration(o.Max).String())
			}
			return ", the best of those within " + strings.Join(lines, " and ")
		}
	}
	return ", the best of them"
}

// fate says of an option what is known of it before it is tried; empty: it is tried.
func (t *Tune) fate(stage hcl.TuneStage, o hcl.Option) string {
	i := slices.IndexFunc(t.Stages, func(s hcl.TuneStage) bool { return s.Name == stage.Name })
	options := make([]string, i+1)
	options[i] = o.ID
	alone := t.Candidate(options)
	same := func(e *engines.Engine) bool {
		return canonical(engines.Fingerprint(e)) == canonical(engines.Fingerprint(alone.Engine))
	}
	if alone.Cannot != "" {
		return fmt.Sprintf("not on %s: %s", t.Start.Address(), alone.Cannot)
	}
	if same(t.Start) {
		return fmt.Sprintf("never started by itself: it is %s", t.Start.Address())
	}
	for _, other := range stage.Options {
		if other.ID == o.ID {
			break
		}
		options[i] = other.ID
		if c := t.Candidate(options); c.Cannot == "" && same(c.Engine) {
			return fmt.Sprintf("never started by itself: it equals %s", other.ID)
		}
	}
	return ""
}
