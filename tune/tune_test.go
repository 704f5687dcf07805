package tune

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStudent: quantiles as in the tables.
func TestStudent(t *testing.T) {
	for _, x := range []struct {
		probability float64
		freedom     int
		want        float64
	}{{0.975, 1, 12.706}, {0.975, 2, 4.303}, {0.95, 3, 2.353}, {0.99, 4, 3.747}, {0.975, 5, 2.571}, {0.995, 10, 3.169}, {0.975, 120, 1.980}, {0.5, 7, 0}} {
		if got := student(x.probability, x.freedom); math.Abs(got-x.want) > 0.0006 {
			t.Errorf("student(%v, %d) = %v, want %v", x.probability, x.freedom, got, x.want)
		}
	}
}

// TestRefused: what no tuning can answer is refused before anything is started.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*Question){
		"leave at least one candidate":           func(q *Question) { q.Keep = 0 },
		"at least 2 fresh starts":                func(q *Question) { q.Finals = 1 },
		"a confidence of 1 is not":               func(q *Question) { q.Confidence = 1 },
		"a floor of NaN is not":                  func(q *Question) { q.Floor = math.NaN() },
		"a budget cannot be below 0":             func(q *Question) { q.Budget.Money = math.NaN() },
		"a budget of 8 starts is too small":      func(q *Question) { q.Budget.Starts = 8 },
		"are 9 starts of at least 10m0s":         func(q *Question) { q.Budget.Time = time.Hour },
		"are 9 starts that cost at least 5 each": func(q *Question) { q.Budget.Money = 44 },
		`stage "flag" has no options`:            func(q *Question) { q.Stages[1].Options = nil },
		`option 2 of stage "flag" has no name`:   func(q *Question) { q.Stages[1].Options[1].ID = "x" },
		"the baseline cannot be started: clash":  func(q *Question) { q.Merge = func(Candidate) (string, string) { return "", "clash" } },
	} {
		q := small()
		change(&q)
		if _, err := New(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// small is a question of two stages.
func small() Question {
	return Question{Stages: []Stage{{"engine", []Option{{"b", 1}, {"c", 1}}}, {"flag", []Option{{"x", 1}, {"y", 2}}}},
		Keep: 2, Finals: 3, Least: Cost{Time: 10 * time.Minute, Money: 5}, Confidence: 0.95, Seed: 1, FinalSeed: 2}
}

// follow answers each start, and returns what was started: "A/A", "stage engine b", "final 1 b,x".
func follow(t *testing.T, q Question, say func(s Start) Result) (*Tuning, []string) {
	t.Helper()
	tuning, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	return tuning, finish(t, tuning, say)
}

func finish(t *testing.T, tuning *Tuning, say func(s Start) Result) (path []string) {
	t.Helper()
	for range 1000 {
		s, ok := tuning.Next()
		if !ok {
			return path
		}
		at := string(s.Phase)
		if s.Phase == Search && s.Stage != "" {
			at += " " + s.Stage
		}
		if s.Round > 0 {
			at += fmt.Sprint(" ", s.Round)
		}
		path = append(path, strings.TrimSpace(at+" "+strings.Join(s.Candidate.Options, ",")+s.Candidate.Proposed))
		if err := tuning.Ended(s, say(s)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the tuning does not end")
	return nil
}

// scores answers starts with what options are worth together, but for a little that differs between starts.
func scores(worth map[string]float64) func(Start) Result {
	return func(s Start) Result {
		value := 100.0
		for _, o := range append([]string{s.Candidate.Proposed}, s.Candidate.Options...) {
			if factor, ok := worth[o]; ok {
				value *= factor
			}
		}
		return Result{Outcome: Measured, Score: Score{Value: value * (1 + 0.001*float64(s.Number%3))}, At: "64", Cost: Cost{Time: 10 * time.Minute, Money: 5}}
	}
}

var good = map[string]float64{"b": 1.5, "c": 1.3, "x": 0.9, "y": 1.2}

// TestPath: the baseline twice, stages on what the ones before have left, finals in turn.
func TestPath(t *testing.T) {
	tuning, path := follow(t, small(), scores(good))
	want := "A/A; A/A; stage engine b; stage engine c; stage flag b,x; stage flag b,y; stage flag c,x; stage flag c,y; " +
		"final 1 b,y; final 1 c,y; final 2 b,y; final 2 c,y; final 3 b,y; final 3 c,y"
	if got := strings.Join(path, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a := tuning.Answer()
	if a.Winner == nil || a.Winner.Candidate.key() != "b\x00y" || a.Tried != 7 || a.Of != 9 || a.Starts != 14 || !near3(a.Lead, 1.5/1.3-1) {
		t.Errorf("%+v", a)
	}
	if s := tuning.Summary(func(score float64) float64 { return 1 / score }); a.Next == nil || a.Next.Candidate.key() != "c\x00y" || s.Next == nil || s.Gain == nil ||
		!near3(s.Gain.Value, 1.8) || s.Gain.Low >= 1.8 || s.Gain.High <= 1.8 {
		t.Errorf("behind it is %+v, and it gains %+v", a.Next, s.Gain)
	}
	if g := tuning.Gain(a.Winner); !near3(g.Value, 1.8) || g.Low > 1.8 || g.High < 1.8 || g.Starts != 3 {
		t.Errorf("its gain is %+v", g)
	}
	if s := tuning.Strategy(); s.Least != 9 || s.Most != 14 || s.Finals != 6 || len(s.Stages) != 2 || s.Stages[1].Most != 4 || s.Time[0] != 90*time.Minute {
		t.Errorf("%+v", s)
	}
	if got, want := fates(tuning), "dominated ; dominated b; dominated c; dominated b,x; won b,y; dominated c,x; dominated c,y"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func near3(a, b float64) bool { return math.Abs(a-b) < 0.003 }

// fates are those of the ledger, "won b,y: why".
func fates(tuning *Tuning) string {
	var all []string
	for _, e := range tuning.Ledger() {
		at := string(e.Fate) + " " + strings.Join(e.Candidate.Options, ",") + e.Candidate.Proposed
		if e.Why != "" {
			at += ": " + e.Why
		}
		all = append(all, at)
	}
	return strings.Join(all, "; ")
}

// study is GPUStack's for DeepSeek-R1 on 8xH200: total tokens a second as published, of what was not measured there as the
// product of what was. vLLM and TensorRT-LLM have none of SGLang's settings.
func study() (Question, func(between float64) func(Start) Result) {
	q := Question{Keep: 2, Finals: 3, Confidence: 0.95, Stages: []Stage{
		{"engine", []Option{{"sglang", 1}, {"trtllm", 2}}},
		{"parallelism", []Option{{"dp-attention", 1}}},
		{"compile", []Option{{"torch-compile", 1}}},
		{"speculation", []Option{{"mtp", 4}}},
	}}
	q.Merge = func(c Candidate) (identity, cannot string) {
		if len(c.Options) > 1 && c.Options[0] != "sglang" && strings.Join(c.Options[1:], "") != "" {
			return "", "a setting of SGLang"
		}
		return c.key(), ""
	}
	worth := map[string]float64{"sglang": 6635.73 / 5482.59, "trtllm": 3385.88 / 5482.59, "dp-attention": 7143.30 / 6635.73,
		"torch-compile": 6804.17 / 7143.30, "mtp": 2217.12 / 6804.17}
	return q, func(between float64) func(Start) Result {
		rng, exact := rand.New(rand.NewPCG(3, 4)), scores(worth)
		return func(s Start) Result {
			r := exact(s)
			r.Score.Value *= math.Exp(between * rng.NormFloat64())
			return r
		}
	}
}

// TestStudy: the study's path and its answer are found, where starts differ by little; where they differ by 10 %, its gain of
// 7.6 % is none that can be named.
func TestStudy(t *testing.T) {
	q, results := study()
	tuning, path := follow(t, q, results(0.01))
	want := "A/A; A/A; stage engine sglang; stage engine trtllm; stage parallelism sglang,dp-attention; " +
		"stage compile sglang,dp-attention,torch-compile; stage compile sglang,,torch-compile; "
	if got := strings.Join(path, "; "); !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s…", got, want)
	}
	a := tuning.Answer()
	if a.Winner == nil || a.Winner.Candidate.key() != "sglang\x00dp-attention" || a.Of != 10 {
		t.Errorf("%+v", a)
	}
	if g := tuning.Gain(a.Winner); math.Abs(g.Value-7143.30/5482.59) > 0.03 {
		t.Errorf("its gain is %+v", g)
	}
	noisy, _ := follow(t, q, results(0.1))
	if a := noisy.Answer(); a.Winner != nil || len(a.Tied) < 2 {
		t.Errorf("with noise of 10 %%: %+v", a)
	}
}

// TestOutcomes: what failed is out, with its reason, wherever it fails; the next comes into the finals.
func TestOutcomes(t *testing.T) {
	q := small()
	q.Budget.Starts = 30
	q.Merge = func(c Candidate) (identity, cannot string) {
		switch key := c.key(); key {
		case "c\x00x":
			return "", "it does not fit"
		case "b\x00x":
			return "b", ""
		default:
			return key, ""
		}
	}
	exact := scores(good)
	tuning, path := follow(t, q, func(s Start) Result {
		r := exact(s)
		switch {
		case s.Candidate.key() == "\x00y":
			return Result{Outcome: OutOfMemory, Reason: "CUDA"}
		case s.Candidate.key() == "b\x00y" && s.Round == 2:
			return Result{Outcome: FailedCheck, Reason: "0.81"}
		}
		return r
	})
	got := strings.Join(path, "; ")
	if want := "final 1 b,y; final 1 c,y; final 2 b,y; final 1 b; final 2 c,y; final 2 b; final 3 c,y; final 3 b"; !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant …%s", got, want)
	}
	if a := tuning.Answer(); a.Winner == nil || a.Winner.Candidate.key() != "c\x00y" {
		t.Errorf("%+v", a)
	}
	for _, want := range []string{"duplicate b,x", "pruned c,x: it does not fit", "failed b,y", "won c,y"} {
		if got := fates(tuning); !strings.Contains(got, want) {
			t.Errorf("%s\nhas no %s", got, want)
		}
	}
	for _, e := range tuning.Ledger() {
		if e.Candidate.key() == "b\x00y" && (e.Outcome != FailedCheck || e.Reason != "0.81") || e.Fate == Duplicate && e.SameAs().Candidate.key() != "b" {
			t.Errorf("%+v", e)
		}
	}
	// Nothing can be said where the baseline does not start, nor where nothing else does.
	tuning, path = follow(t, small(), func(Start) Result { return Result{Outcome: DidNotStart} })
	if a := tuning.Answer(); len(path) != 1 || a.Winner != nil || a.Why != "of the baseline itself is to be said: did not start" {
		t.Errorf("%v: %+v", path, a)
	}
	tuning, _ = follow(t, small(), func(s Start) Result {
		if s.Candidate.key() != "" {
			return Result{Outcome: DidNotStart}
		}
		return exact(s)
	})
	if a := tuning.Answer(); a.Winner != nil || a.Left == nil || a.Left.Candidate.key() != "" ||
		a.Why != "all others that were tried are out: 4 did not start" {
		t.Errorf("%+v", a)
	}
	// Nor where all others lose their race.
	tuning, _ = follow(t, small(), func(s Start) Result {
		if s.Race != nil {
			return Result{Outcome: Beaten}
		}
		return exact(s)
	})
	if a := tuning.Answer(); a.Winner != nil || a.Left == nil || a.Why != "all others that were tried are out: 4 lost the race" {
		t.Errorf("%+v", a)
	}
	// What keeps the SLO at no load has a fate of its own.
	tuning, _ = follow(t, small(), func(s Start) Result {
		if s.Candidate.key() == "b" {
			return Result{Outcome: MissedSLO, Reason: "ttft_p95"}
		}
		return exact(s)
	})
	if got := fates(tuning); !strings.Contains(got, "missed the SLO b;") {
		t.Error(got)
	}
}

// TestTies: what does the same has no winner, and the fewest overrides stand first.
func TestTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	winners := 0
	for range 200 {
		tuning, _ := follow(t, small(), func(Start) Result {
			return Result{Outcome: Measured, Score: Score{Value: math.Exp(0.1 * rng.NormFloat64())}}
		})
		a := tuning.Answer()
		if a.Winner != nil {
			winners++
		} else if len(a.Tied) < 2 || a.Tied[0].Overrides > a.Tied[1].Overrides {
			t.Fatalf("%+v", a)
		}
	}
	if winners > 20 {
		t.Errorf("%d of 200 tunings of the same name a winner", winners)
	}
	// Below a floor that is given nothing is a difference.
	q := small()
	q.Floor = 0.2
	tuning, _ := follow(t, q, scores(good))
	if a := tuning.Answer(); a.Winner != nil || a.Floor < 0.1999 || len(a.Tied) != 2 {
		t.Errorf("%+v", a)
	}
}

// TestFitted: what scores higher in the search than with the seeds of the finals does not win, and what was behind it comes in.
func TestFitted(t *testing.T) {
	exact := scores(good)
	tuning, _ := follow(t, small(), func(s Start) Result {
		r := exact(s)
		if s.Phase != Final && s.Candidate.key() == "\x00x" || s.Phase != Final && s.Candidate.key() == "c\x00x" {
			r.Score.Value *= 3
		}
		return r
	})
	if a := tuning.Answer(); a.Winner == nil || a.Winner.Candidate.key() != "b\x00y" {
		t.Errorf("%+v", a)
	}
	if got := fates(tuning); !strings.Contains(got, "dominated c,x: in the finals it is surely worse than it was in the search") {
		t.Error(got)
	}
}

// TestScale: in what unit scores are changes nothing.
func TestScale(t *testing.T) {
	w := families()[0].draw(rand.New(rand.NewPCG(23, 11)))
	by := func(scale float64) (*Tuning, []string) {
		results := w.results(23)
		return follow(t, Question{Stages: w.stages, Keep: 2, Finals: 4, Confidence: 0.95, Budget: Budget{Starts: 25}}, func(s Start) Result {
			if s.Race != nil {
				s.Race = &Race{At: s.Race.At, Least: s.Race.Least / scale}
			}
			r := results(s)
			r.Score.Value *= scale
			return r
		})
	}
	tuning, path := by(1)
	tiny, same := by(1e-9)
	if !slices.Equal(path, same) || fates(tuning) != fates(tiny) {
		t.Errorf("%s\n%s\nand in another unit\n%s\n%s", path, fates(tuning), same, fates(tiny))
	}
}

// TestRace: a candidate races against the best so far, and ends where it is surely beaten.
func TestRace(t *testing.T) {
	exact, races := scores(map[string]float64{"b": 0.01}), 0
	tuning, _ := follow(t, small(), func(s Start) Result {
		r := exact(s)
		if s.Race != nil {
			races++
			if s.Race.At != "64" || s.Race.Least >= 101 || s.Race.Least < 40 {
				t.Errorf("%+v races against %+v", s, s.Race)
			}
			if r.Score.Value < s.Race.Least {
				r.Outcome = Beaten
			}
		}
		return r
	})
	if got := fates(tuning); races != 6 || !strings.Contains(got, "dominated b;") || strings.Contains(got, "b,x") {
		t.Errorf("%d races: %s", races, got)
	}
}

// TestProposed: named candidates are tried, most promising first, but not at the cost of the stages; predictions of others order
// them; nothing is tried twice, and nothing is taken that makes no sense.
func TestProposed(t *testing.T) {
	q := small()
	q.Budget.Starts = 25
	q.Merge = func(c Candidate) (identity, cannot string) {
		if c.Proposed == "as b" {
			return "b", ""
		}
		return c.key(), ""
	}
	tuning, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]Proposal{
		"neither a name nor options": {Candidate: Candidate{Proposed: "p", Options: []string{"b"}}},
		"nor options of stages":      {},
		"has no option \"z\"":        {Candidate: Candidate{Options: []string{"", "z"}}},
		"predicts -1":                {Candidate: Candidate{Proposed: "p"}, Predicted: -1},
		"predicts NaN":               {Candidate: Candidate{Proposed: "p"}, Predicted: math.NaN()},
	} {
		if err := tuning.Propose([]Proposal{{Candidate: Candidate{Proposed: "never"}}, p}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	name := func(name string, predicted float64) Proposal {
		return Proposal{Candidate: Candidate{Proposed: name}, Overrides: 3, Predicted: predicted}
	}
	if err := tuning.Propose([]Proposal{name("p", 90), name("q", 120), name("p", 999), name("as b", 0), name("r", 80),
		{Candidate: Candidate{Options: []string{"c"}}, Predicted: 500}}); err != nil {
		t.Fatal(err)
	}
	worth := maps.Clone(good)
	worth["q"], worth["as b"] = 3, good["b"]
	path := finish(t, tuning, scores(worth))
	want := "A/A; A/A; stage q; stage p; stage r; stage as b; stage engine c; stage flag b,x; stage flag b,y; "
	if got := strings.Join(path, "; "); !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s…", got, want)
	}
	if a := tuning.Answer(); a.Winner == nil || a.Winner.Candidate.Proposed != "q" || a.Of != 12 {
		t.Errorf("%+v", a)
	}
	if got := fates(tuning); strings.Contains(got, "never") || !strings.Contains(got, "duplicate b;") {
		t.Error(got)
	}
	if err := tuning.Propose([]Proposal{name("late", 1)}); err == nil {
		t.Error("a proposal is taken after the finals")
	}
}

// TestFlood: however much is proposed, the stages are tried, and the finals.
func TestFlood(t *testing.T) {
	q := small()
	q.Budget.Starts = 20
	tuning, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	var flood []Proposal
	for i := range 1000 {
		flood = append(flood, Proposal{Candidate: Candidate{Proposed: fmt.Sprint(i)}, Predicted: 1e6})
	}
	if err := tuning.Propose(flood); err != nil {
		t.Fatal(err)
	}
	path := strings.Join(finish(t, tuning, scores(good)), "; ")
	if n := strings.Count(path, "stage "); n != 12 || strings.Count(path, "engine") != 2 || strings.Count(path, "flag") != 4 || strings.Count(path, "final") != 6 {
		t.Error(path)
	}
}

// TestBudget: no tuning takes more than it may, whatever its starts cost, as long as each ends when it must; and its finals are
// begun.
func TestBudget(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		q := small()
		q.Budget = []Budget{{Starts: 9 + rng.IntN(12)}, {Time: time.Duration(90+rng.IntN(200)) * time.Minute}, {Money: 45 + 100*rng.Float64()}}[seed%3]
		exact, finals := scores(good), 0
		tuning, path := follow(t, q, func(s Start) Result {
			r := exact(s)
			r.Cost = Cost{Time: 10*time.Minute + time.Duration(rng.ExpFloat64()*5*float64(time.Minute)), Money: 5 + 2*rng.ExpFloat64()}
			if s.Most.Time > 0 {
				r.Cost.Time = min(r.Cost.Time, s.Most.Time)
			}
			if s.Most.Money > 0 {
				r.Cost.Money = min(r.Cost.Money, s.Most.Money)
			}
			if s.Phase == Final {
				finals++
			}
			return r
		})
		a, b := tuning.Answer(), q.Budget
		if b.Starts > 0 && (len(path) > b.Starts || finals != 6) || b.Time > 0 && a.Spent.Time > b.Time || b.Money > 0 && a.Spent.Money > b.Money+1e-9 {
			t.Errorf("seed %d, %+v: %d starts cost %+v, %d finals", seed, b, len(path), a.Spent, finals)
		}
	}
}

// TestShort: where starts cost so much more than was known that the finals do not fit, the answer names the budget, whose starts are
// not spent for nothing; where nothing was left to try, it does not.
func TestShort(t *testing.T) {
	dear := func(s Start) Result {
		r := scores(good)(s)
		r.Cost = Cost{Time: time.Hour, Money: 30}
		return r
	}
	for want, b := range map[string]Budget{"2h0m0s": {Time: 2 * time.Hour}, "$60.00": {Money: 60}, "7h30m0s": {Time: 450 * time.Minute}} {
		q := small()
		q.Budget = b
		tuning, path := follow(t, q, dear)
		if a := tuning.Answer(); a.Winner != nil || a.Why != "the budget of "+want+" has no room for the finals of two candidates" || len(path) != 1 {
			t.Errorf("%v: %v: %+v", want, path, a)
		}
	}
	q := small()
	q.Budget = Budget{Starts: 9}
	tuning, _ := follow(t, q, func(s Start) Result {
		if s.Candidate.key() != "" {
			return Result{Outcome: DidNotStart}
		}
		return dear(s)
	})
	if a := tuning.Answer(); a.Why != "the budget of 9 starts has no room for the finals of two candidates" {
		t.Errorf("%+v", a)
	}
}

// TestNoRoom: of what was not tried for want of budget the ledger says of which; of what was left out for other reasons it does not.
func TestNoRoom(t *testing.T) {
	q := small()
	q.Budget = Budget{Starts: 11}
	tuning, _ := follow(t, q, scores(good))
	want := "the budget of 11 starts has no room for it"
	untried := 0
	for _, e := range tuning.Ledger() {
		if e.Fate != NotTried {
			continue
		}
		if untried++; e.Why != want {
			t.Errorf("%v is not tried: %q", e.Candidate.Options, e.Why)
		}
	}
	if untried == 0 {
		t.Error("all were tried")
	}
	q.Budget = Budget{Starts: 100}
	tuning, _ = follow(t, q, scores(good))
	for _, e := range tuning.Ledger() {
		if e.Fate == NotTried && e.Why != "" {
			t.Errorf("%v is not tried: %q", e.Candidate.Options, e.Why)
		}
	}
}

// TestResumed: told again what came of its starts, at any of them a tuning goes on as it would have; a start that brought nothing is
// made again.
func TestResumed(t *testing.T) {
	w := families()[0].draw(rand.New(rand.NewPCG(17, 11)))
	q := Question{Stages: w.stages, Keep: 2, Finals: 3, Confidence: 0.95, Seed: 5, FinalSeed: 6, Budget: Budget{Starts: 200}}
	type ended struct {
		Start
		Result
	}
	var all []ended
	results := w.results(17)
	first, _ := follow(t, q, func(s Start) Result {
		r := results(s)
		all = append(all, ended{s, r})
		return r
	})
	for stop := range all {
		again, err := New(q)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range all {
			s, ok := again.Next()
			if twice, _ := again.Next(); !ok || !reflect.DeepEqual(s, x.Start) || !reflect.DeepEqual(s, twice) {
				t.Fatalf("start %d is %+v and then %+v, want %+v", i+1, s, twice, x.Start)
			}
			if i == stop {
				again.Answer()
				again.Ledger()
				again.Lost(Cost{Time: time.Minute})
				if s, ok := again.Next(); !ok || !reflect.DeepEqual(s, x.Start) {
					t.Fatalf("start %d is made again as %+v, want %+v", i+1, s, x.Start)
				}
			}
			if err := again.Ended(x.Start, x.Result); err != nil {
				t.Fatal(err)
			}
		}
		if _, more := again.Next(); more || fates(again) != fates(first) {
			t.Fatalf("stopped at %d: %s\nnot        %s", stop, fates(again), fates(first))
		}
	}
}

// TestLost: starts that bring nothing cost time and money. They cost starts of a budget that counts starts, and none where none was given.
func TestLost(t *testing.T) {
	for budget, want := range map[Budget]int{{}: 14, {Time: 24 * time.Hour}: 14, {Starts: 20}: 10} {
		q := small()
		q.Budget = budget
		tuning, err := New(q)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			tuning.Next()
			tuning.Lost(Cost{Time: time.Minute, Money: 1})
		}
		path := finish(t, tuning, scores(good))
		if a := tuning.Answer(); len(path) != want || a.Winner == nil || a.Starts != 10+want || a.Spent.Time != 10*time.Minute*time.Duration(want+1) {
			t.Errorf("%+v: %d starts beside those that were lost: %v, %+v", budget, len(path), path, a)
		}
	}
}

// TestNonsense: what makes no sense is not noted.
func TestNonsense(t *testing.T) {
	tuning, err := New(small())
	if err != nil {
		t.Fatal(err)
	}
	s, _ := tuning.Next()
	other := s
	other.Candidate = Candidate{Options: []string{"b"}}
	fine := Result{Outcome: Measured, Score: Score{Value: 1}}
	for want, x := range map[string]struct {
		Start
		Result
	}{
		"not the one that comes next": {other, fine},
		"an outcome that is none":     {s, Result{}},
		"cost less than nothing":      {s, Result{Outcome: DidNotStart, Cost: Cost{Time: -1}}},
		"a score of 0":                {s, Result{Outcome: Measured}},
		"a score of NaN":              {s, Result{Outcome: Measured, Score: Score{Value: math.NaN()}}},
		"was in no race":              {s, Result{Outcome: Beaten}},
	} {
		if err := tuning.Ended(x.Start, x.Result); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if a := tuning.Answer(); a.Starts != 0 || a.Tried != 0 || a.Why != "the tuning is not over" {
		t.Errorf("%+v", a)
	}
	if next, ok := tuning.Next(); !ok || !reflect.DeepEqual(next, s) {
		t.Errorf("the next is %+v, want %+v", next, s)
	}
}
