package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/results"
	"hclbench/tune"
)

const tuneLab = `
lab "t" {}
host "h" {
  address        = "203.0.113.7"
  gpus           = "8xH200"
  price_per_hour = 60
}
model "m" { repo = "org/m" }
engine "vllm" "base" {
  host  = host.h
  model = model.m
  image = "vllm/vllm-openai:v0.7.3"
  flags = { tensor-parallel-size = 8, max-model-len = 4096 }
}
engine "sglang" "other" {
  host  = host.h
  model = model.m
  image = "lmsysorg/sglang:v0.4.3.post2-cu124"
  flags = { tp = 8 }
}
dataset "random" "d" { input_tokens = 1000 }
benchmark "chat" {
  matrix { concurrency = [8, 32] }
  engine   = engine.vllm.base
  dataset  = dataset.random.d
  requests = 100
  load {
    concurrency   = matrix.concurrency
    output_tokens = 256
  }
  slo { ttft_p95 = "2s" }
}
tune "best" {
  objective = benchmark.chat
  start     = engine.vllm.base
  stage "engine" { engines = [engine.sglang.other] }
  stage "gpus" { flags = [{ tp = 4 }, { tensor-parallel-size = 8 }, { tensor-parallel-size = 4 }] }
  stage "chunks" { flags = [{ max-num-batched-tokens = 8192 }] }
  keep   = 1
  finals = 2
  budget {
    starts = 12
    time   = "4h"
    money  = 180
  }
}
`

// tuned tells a tuning of starts until it has nothing more, each of so long; broken is the number of one, counted from 1, that
// is broken off. It returns how many were made.
func tuned(t *testing.T, x *Tune, each time.Duration, broken, most int) int {
	t.Helper()
	x.Begin(func() uint64 { return 7 })
	for n := 1; n <= most; n++ {
		s, err := x.Search()
		if err != nil {
			t.Fatal(err)
		}
		start, more := s.Next()
		if !more {
			return n - 1
		}
		d, err := x.Deployment(start)
		if err != nil {
			t.Fatal(err)
		}
		tried := results.Tried{Start: start, Deployment: d.ID, Cost: x.Cost(each)}
		if n != broken {
			score := 100.0
			if strings.Contains(d.Engine.Label(), "=4") {
				score = 200
			}
			tried.Result = &tune.Result{Outcome: tune.Measured, Score: tune.Score{Value: score + float64(n)/10}, Cost: tried.Cost}
		}
		x.Ledger.Starts = append(x.Ledger.Starts, tried)
	}
	return most
}

// TestTune: a plan says what a tuning does; its starts are deployments of their own with prompts of their own, and none costs
// more than the budget, also with one that was broken off; what was tried is known again.
func TestTune(t *testing.T) {
	p := New(readLab(t, tuneLab), Options{})
	text := printed(t, p, false)
	for _, want := range []string{
		"objective    output_throughput of benchmark chat, 2 loads in each start, the best of those within ttft_p95 2s",
		`tp=4 (not on engine.vllm.base: hcl knows of no version of "vllm" with the flag tp`,
		"tensor-parallel-size=8 (never started by itself: it is engine.vllm.base)",
		"at most 4h00m; at most $180.00", "next         start 1 (A/A): as it is",
		"of an engine, and what tune best starts.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan does not say %q:\n%s", want, text)
		}
	}
	if p.Empty() {
		t.Error("a plan with a tuning is empty")
	}
	if got, want := p.outcome(Counts{Cells: 2, Done: 2}, nil), "Plan: 0 to measure, 2 up to date; 0 starts of an engine, and what tune best starts."; !strings.HasPrefix(got, want) {
		t.Errorf("all cells are measured, and the tuning is not over: %q, want %q", got, want)
	}

	if proof, err := Prove(readLab(t, tuneLab), "", 2); err != nil || len(proof.Tunes) != 0 {
		t.Errorf("a proof tunes, too: %v", err)
	}

	x := p.Tunes[0]
	if n := tuned(t, x, 12*time.Minute, 2, 100); n > 12 || n < 8 {
		t.Errorf("%d starts, the budget has 12", n)
	}
	seen, cells := map[string]bool{}, map[string]bool{}
	for _, tried := range x.Ledger.Starts {
		d, err := x.Deployment(tried.Start)
		if err != nil || d.ID != tried.Deployment {
			t.Fatalf("start %d is deployment %s, was %s: %v", tried.Number, d.ID, tried.Deployment, err)
		}
		for _, c := range d.Cells {
			if cells[c.ID] && !seen[d.ID] { // a start that was broken off is made again
				t.Errorf("cell %s is measured in two starts", c.ID)
			}
			cells[c.ID] = true
		}
		seen[d.ID] = true
	}
	s, err := x.Search()
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Answer(); a.Starts != len(x.Ledger.Starts) || a.Spent.Time != time.Duration(a.Starts)*12*time.Minute {
		t.Errorf("%d starts that took %v are counted, with the one that was broken off there were %d", a.Starts, a.Spent.Time, len(x.Ledger.Starts))
	}
	if a := s.Answer(); a.Winner == nil || !strings.HasSuffix(a.Winner.Candidate.Settings(), "=4") {
		t.Errorf("the answer is %+v", a)
	}

	// Each other candidate of a stage races at the load of the best so far, which is measured first.
	race := x.Ledger.Starts[3].Start
	race.Race = &tune.Race{At: "concurrency=32", Least: 50}
	d, err := x.Deployment(race)
	if err != nil || len(d.Cells) != 2 || At(d.Engine.Label(), d.Cells[0].Axes) != "concurrency=32" || At(d.Engine.Label(), d.Cells[1].Axes) != "concurrency=8" {
		t.Errorf("a race at 32 begins with %v: %v", d.Cells, err)
	}
	// What was proved of the box before counts as so many more starts.
	y := *x
	y.Ledger.Starts = slices.Clone(x.Ledger.Starts)
	y.Ledger.Starts[0].Noise = &tune.Noise{Spread: 0.2, Freedom: 40}
	proved, err := y.Search()
	if err != nil {
		t.Fatal(err)
	}
	if n, alone := proved.Answer().Noise, s.Answer().Noise; n.Freedom != alone.Freedom+40 || n.Spread < 0.15 || alone.Spread > 0.1 {
		t.Errorf("the noise is %+v, with a proof %+v", alone, n)
	}

	kept, err := json.Marshal(x.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	again := New(readLab(t, tuneLab), Options{Ledgers: map[[2]string][]byte{{"t", results.LedgerName("best")}: kept}})
	if y := again.Tunes[0]; y.ToDo() || len(y.Ledger.Starts) != len(x.Ledger.Starts) {
		t.Errorf("%d of %d starts are known again, and there is more to do: %v", len(y.Ledger.Starts), len(x.Ledger.Starts), y.ToDo())
	}
	other := New(readLab(t, strings.Replace(tuneLab, "8192", "4096", 1)), Options{Ledgers: map[[2]string][]byte{{"t", results.LedgerName("best")}: kept}})
	if n := len(other.Tunes[0].Ledger.Starts); n != 0 {
		t.Errorf("%d starts of another question count", n)
	}

	// With another budget it goes on, and what other starts would have come before has cost what it has cost.
	of := func(starts string, kept []byte) *Tune {
		lab := readLab(t, strings.Replace(tuneLab, "starts = 12", starts, 1))
		return New(lab, Options{Ledgers: map[[2]string][]byte{{"t", results.LedgerName("best")}: kept}}).Tunes[0]
	}
	few := of("starts = 7", nil)
	if n := tuned(t, few, time.Minute, 0, 100); n != 7 {
		t.Errorf("%d starts of 7", n)
	}
	if kept, err = json.Marshal(few.Ledger); err != nil {
		t.Fatal(err)
	}
	more := of("starts = 30", kept)
	if s, err = more.Search(); err != nil {
		t.Fatal(err)
	}
	if next, ok := s.Next(); !ok || next.Phase != tune.Search || s.Answer().Starts != 7 {
		t.Errorf("with a greater budget %+v comes next, after %d starts", next, s.Answer().Starts)
	}
	tuned(t, more, time.Minute, 0, 100)
	if s, err = more.Search(); err != nil || s.Answer().Winner == nil || s.Answer().Starts != len(more.Ledger.Starts) {
		t.Errorf("with a greater budget the answer is %+v: %v", s.Answer(), err)
	}

	// Less money, and a start that was broken off: the budget is never exceeded.
	short := New(readLab(t, strings.Replace(tuneLab, "money  = 180", "money  = 100", 1)), Options{}).Tunes[0]
	tuned(t, short, 9*time.Minute, 3, 100)
	spent := 0.0
	for _, tried := range short.Ledger.Starts {
		spent += tried.Cost.Money
	}
	if spent > 100 || spent == 0 {
		t.Errorf("$%.2f are spent of 100", spent)
	}
}

// TestTuneEstimate: an estimate says that a tuning is not in it.
func TestTuneEstimate(t *testing.T) {
	one := New(readLab(t, tuneLab), Options{}).Deployments[0].Cells[0]
	known := map[string]results.Known{one.ID: {Verdict: "valid", Engine: "vllm.base", Host: "h", Benchmark: "chat", Axes: text(one.Axes), Repetition: 1,
		Took: time.Minute, Ready: time.Minute, Finished: time.Unix(1e9, 0), Identity: one.Identity()}}
	if got := New(readLab(t, tuneLab), Options{Known: known}).Estimate(); got == nil || !strings.HasSuffix(got.String(), "Not known, and not in it: what tune best starts.") {
		t.Errorf("the estimate says nothing of the tuning: %v", got)
	}
}

// TestTuneCapacity: of an objective that searches the plan tells the strategy; a candidate races at a load which the best certainly holds, and a
// start that was broken off goes on with what it lacks.
func TestTuneCapacity(t *testing.T) {
	lab := strings.NewReplacer("  matrix { concurrency = [8, 32] }\n", "", "  requests = 100\n", "  capacity {\n    of     = \"concurrency\"\n    within = [8, 256]\n  }\n",
		"    concurrency   = matrix.concurrency\n", "", "    time   = \"4h\"\n", "").Replace(tuneLab)
	p := New(readLab(t, lab), Options{})
	text := strings.Join(strings.Fields(printed(t, p, false)), " ")
	for _, want := range []string{
		"capacity of benchmark chat, all loads in the one start of a candidate", "search concurrency from 8 to 256, 95 % sure and within 5 %; 32 first",
		"7 to 12 starts, 7 to 204 loads; at most 12h00m of searching, beside loading; at most $180.00",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan does not say %q:\n%s", want, text)
		}
	}
	if text := printed(t, New(readLab(t, strings.Replace(lab, "starts = 12", "starts = 7", 1)), Options{}), false); !strings.Contains(text, " budget       7 starts, 7 to 119 loads; ") {
		t.Errorf("the plan says of least and most that are the same\n%s", text)
	}
	x := p.Tunes[0]
	x.Begin(func() uint64 { return 7 })
	for _, c := range []struct {
		race *tune.Race
		want float64
	}{{nil, 0}, {&tune.Race{At: "concurrency=83", Least: 99}, 83}, {&tune.Race{At: "concurrency=83", Least: 70.4}, 70}, {&tune.Race{At: "concurrency=83", Least: 7}, 0}} {
		if got := x.Worth(c.race); got != c.want {
			t.Errorf("a race %+v is at %v, want %v", c.race, got, c.want)
		}
	}
	start := tune.Start{Number: 3, Phase: tune.Search, Seed: 5, Race: &tune.Race{At: "concurrency=83", Least: 99}}
	d, err := x.Deployment(start)
	if err != nil || len(d.Cells) != 1 || d.Cells[0].Search().Question.Worth != 83 {
		t.Fatalf("%+v: %v", d.Cells, err)
	}
	other := start
	other.Seed = 6
	e, err := x.Deployment(other)
	if err != nil || e.Cells[0].Try(83, 100, 1).Load().Seed == d.Cells[0].Try(83, 100, 1).Load().Seed {
		t.Errorf("two starts send the same: %v", err)
	}
	// What a try of this start has measured is known when it was broken off, and to no other start.
	try := d.Cells[0].Try(83, 100, 1)
	x.known = map[string]results.Known{try.ID: {Verdict: "valid", RunID: "r1", Identity: try.Identity(), Repetition: 1}}
	for _, c := range []struct {
		tried results.Tried
		want  int
	}{
		{results.Tried{Start: start, Deployment: d.ID, Run: "r1"}, 1}, {results.Tried{Start: start, Deployment: d.ID, Run: "r2"}, 0},
		{results.Tried{Start: start, Deployment: d.ID, Run: "r1", Result: &tune.Result{}}, 0},
		{results.Tried{Start: start, Deployment: d.ID, Run: "r1", Loads: []results.TriedLoad{{Error: "not measured"}}}, 1},
		{results.Tried{Start: start, Deployment: d.ID, Run: "r1", Loads: []results.TriedLoad{{Doubt: "its answers were cut short"}}}, 0},
	} {
		x.Ledger.Starts = []results.Tried{c.tried}
		again, err := x.Deployment(start)
		if err != nil || len(again.Cells[0].Search().Tries) != c.want {
			t.Errorf("after %+v it knows %v tries: %v", c.tried, again.Cells[0].Search().Tries, err)
		}
	}
}

// TestTuneAsked: a variable is another question than a flag of its name.
func TestTuneAsked(t *testing.T) {
	asked := func(kind string) string {
		return New(readLab(t, strings.Replace(tuneLab, `flags = [{ max-num-batched-tokens = 8192 }]`, kind+` = [{ THREADS = "8" }]`, 1)), Options{}).Tunes[0].asked()
	}
	if asked("flags") == asked("env") {
		t.Error("what was tried of the one counts for the other")
	}
}

// TestTuneAltered: a candidate whose engine is not what its image brings says by what.
func TestTuneAltered(t *testing.T) {
	patched := strings.Replace(tuneLab, `engine "sglang" "other" {`, `engine "sglang" "other" {
  setup = ["patch -p1 < /fixes/attention.diff"]
  build {
    commands = ["make"]
    output   = "/build"
  }`, 1)
	if patched == tuneLab {
		t.Fatal("the lab has no such engine")
	}
	x := New(readLab(t, patched), Options{}).Tunes[0]
	tuned(t, x, time.Minute, 0, 40)
	s, err := x.Summary()
	if err != nil {
		t.Fatal(err)
	}
	altered := 0
	for _, c := range s.Candidates {
		want := ""
		if strings.Contains(c.Settings, "sglang.other") {
			want = "setup and build"
			altered++
		}
		if c.Altered != want {
			t.Errorf("%s is altered by %q, want %q", c.Settings, c.Altered, want)
		}
	}
	if altered == 0 {
		t.Errorf("no candidate is of that engine: %+v", s.Candidates)
	}
}
