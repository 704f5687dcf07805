package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hclbench/capacity"
	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plan"
	"hclbench/report/figure"
	"hclbench/report/table"
	"hclbench/results"
	"hclbench/tune"
)

// tuneLab is a tuning whose candidates lie far apart, so that a busy machine cannot hide which is best.
const tuneLab = `
host "here" {
  address = "local"
  runtime = "process"
}

engine "sim" "slow" {
  host  = host.here
  port  = PORT
  flags = { ttft = "5ms", itl = "40ms" }
}

dataset "random" "d" { input_tokens = 16 }

benchmark "chat" {
  engine   = engine.sim.slow
  dataset  = dataset.random.d
  requests = 4
  load {
    concurrency   = 4
    output_tokens = 16
  }
}

tune "pace" {
  objective = benchmark.chat
  start     = engine.sim.slow
  stage "pace" {
    flags = [
      { itl = "2ms" },
      { itl = "40ms" },
      { itl = "1ms", stop-after = 1 },
      { fail-start = "torch.OutOfMemoryError: CUDA out of memory" },
    ]
  }
  keep   = 1
  finals = 2
  budget { starts = 12 }
}
`

// TestTune: a tuning that is killed in its second start goes on with that start, and finds the best; what cannot start is a
// result; the winner is written as a block; then nothing is left to do.
func TestTune(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	must(t, err)
	u := newLocal(t, strings.Replace(tuneLab, "PORT", strconv.Itoa(port), 1))
	cmd := u.command("apply", "--json")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	for lines, begun := bufio.NewScanner(out), false; lines.Scan(); {
		if begun && strings.Contains(lines.Text(), "starting") { // so that the ledger has it
			break
		}
		begun = begun || strings.Contains(lines.Text(), "start 2 (A/A)")
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()

	again, said, code := u.run("apply")
	if code != exitDone && code != exitCells {
		t.Fatalf("apply: exit %d\n%s%s", code, again, said)
	}
	if !strings.Contains(said, "cell 1 of 1") || strings.Contains(said, "cell 2 of") { // a start has one; how many starts come nobody knows
		t.Errorf("cells are counted beyond their start:\n%s", said)
	}
	var got struct {
		Winner     *tune.Candidate
		Tried      int
		Candidates []struct {
			Settings, Fate, Why string
			Starts              int
		}
		Ledger []struct {
			Number int
			Run    string
			Result *tune.Result
		}
	}
	u.json(&got, "tune", "--json")
	if got.Winner == nil || strings.Join(got.Winner.Options, " ") != "itl=2ms" || got.Tried != 4 {
		t.Errorf("the winner is %v of %d tried, want itl=2ms of 4", got.Winner, got.Tried)
	}
	fates := map[string]string{}
	for _, c := range got.Candidates {
		fates[c.Settings] = c.Fate
		if strings.HasPrefix(c.Settings, "fail-start") && (!strings.Contains(c.Why, "out of memory") || c.Starts != 1) {
			t.Errorf("%s was started %d times and has failed by %q", c.Settings, c.Starts, c.Why)
		}
		if strings.Contains(c.Settings, "stop-after") && (c.Fate != "failed" || !strings.Contains(c.Why, "broke answers")) {
			t.Errorf("%s, which answers with one token of 16, has %s: %s", c.Settings, c.Fate, c.Why)
		}
	}
	if fates["as it is"] != "dominated" || fates["itl=40ms"] != "duplicate" || fates["itl=2ms"] != "won" {
		t.Errorf("fates are %v", fates)
	}
	var numbers []int
	broken := 0
	for _, s := range got.Ledger {
		if s.Result == nil {
			broken++
			continue
		}
		numbers = append(numbers, s.Number)
	}
	// The start that was killed counts in the budget beside the one that was made in its place.
	if len(got.Ledger) == 0 || got.Ledger[0].Run == got.Ledger[len(got.Ledger)-1].Run || broken != 1 {
		t.Errorf("the ledger is %+v", got.Ledger)
	}
	for i, n := range numbers {
		if n != i+1 {
			t.Errorf("starts are %v: one is measured twice, or not", numbers)
			break
		}
	}

	if _, said, code := u.run("tune", "--write", "best.hcl"); code != exitDone {
		t.Errorf("tune --write: exit %d, %s", code, said)
	}
	text, err := os.ReadFile(filepath.Join(u.lab, "best.hcl"))
	must(t, err)
	if !strings.Contains(string(text), `"itl" = "2ms"`) {
		t.Errorf("the winner is written as\n%s", text)
	}
	if _, said, code := u.run("validate"); code != exitDone {
		t.Errorf("validate: exit %d, %s", code, said)
	}
	var planned struct {
		Tunes []struct {
			Starts int
			Next   string
		}
	}
	u.json(&planned, "plan", "--json")
	if text, _ := json.Marshal(planned); len(planned.Tunes) != 1 || planned.Tunes[0].Next != "" || planned.Tunes[0].Starts != len(got.Ledger) {
		t.Errorf("the plan says %s", text)
	}
	if _, said, code := u.run("plan", "--detailed-exitcode"); code != exitDone {
		t.Errorf("a plan with nothing left exits with %d, %s", code, said)
	}
}

// raceLab tunes over another engine, whose port the test holds at first, and over a flag that loses its race.
const raceLab = `
host "here" {
  address = "local"
  runtime = "process"
}

engine "sim" "slow" {
  host  = host.here
  port  = PORT
  flags = { ttft = "5ms", itl = "20ms" }
}

engine "sim" "other" {
  host  = host.here
  port  = TAKEN
  flags = { ttft = "5ms", itl = "2ms" }
}

dataset "random" "d" { input_tokens = 16 }

benchmark "chat" {
  matrix { concurrency = [8, 16] }
  engine   = engine.sim.slow
  dataset  = dataset.random.d
  requests = 16
  load {
    concurrency   = matrix.concurrency
    output_tokens = 8
  }
}

tune "race" {
  objective = benchmark.chat
  start     = engine.sim.slow
  stage "engine" { engines = [engine.sim.other] }
  stage "pace" { flags = [{ itl = "500ms" }] }
  keep   = 1
  finals = 2
  budget { starts = 10 }
}
`

// TestTuneOfWorld: what the box was proved to differ by counts, a port that somebody else has is no fate of the candidate, whose start is
// made again, and who loses a race is measured at no other load.
func TestTuneOfWorld(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	must(t, err)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	lab := strings.Replace(raceLab, "PORT", strconv.Itoa(port), 1)
	u := newLocal(t, strings.Replace(lab, "TAKEN", strconv.Itoa(taken.Addr().(*net.TCPAddr).Port), 1))
	out, proof, code := u.run("check", "--prove", "--starts", "2")
	if code != exitDone && code != exitCells {
		t.Fatalf("check --prove: exit %d\n%s%s", code, out, proof)
	}
	var got struct {
		Ledger []results.Tried
	}
	last := func() results.Tried {
		t.Helper()
		got.Ledger = nil
		u.json(&got, "tune", "--json")
		if len(got.Ledger) < 3 {
			t.Fatalf("the ledger is %+v", got.Ledger)
		}
		return got.Ledger[len(got.Ledger)-1]
	}
	_, said, _ := u.run("apply")
	if x := last(); len(got.Ledger) != 3 || x.Result != nil || !strings.Contains(said, "is not among the settings of its candidate") ||
		!strings.Contains(said, "left to the next apply") {
		t.Errorf("with its port taken it is %+v\n%s", x.Result, said)
	}
	if n := got.Ledger[0].Noise; n == nil || n.Freedom != 1 {
		t.Errorf("of the box that was proved the ledger says %+v:\n%s%s", n, out, proof)
	}
	taken.Close()
	if out, said, code := u.run("apply"); code != exitDone && code != exitCells || strings.Contains(said, "left to the next apply") {
		t.Fatalf("apply: exit %d\n%s%s", code, out, said) // of who has lost a race there is nothing left to measure
	}
	last()
	if again, r := got.Ledger[3], got.Ledger[3].Result; again.Number != 3 || r == nil || r.Outcome != tune.Measured || r.At == "" {
		t.Errorf("the start that had failed is made again as %+v, %+v", again, r)
	}
	x := got.Ledger[4]
	if x.Race == nil || x.Result == nil || len(x.Loads) != 2 || x.Loads[0].Figure == 0 {
		t.Fatalf("the race is %+v, %+v", x, x.Result)
	}
	lost := x.Loads[0].Figure < x.Race.Least // on a busy machine starts of the same may lie so far apart that nobody does
	if (x.Result.Outcome == tune.Beaten) != lost || (x.Loads[1].Figure == 0) != lost {
		t.Errorf("against %+v it is %+v with %+v", x.Race, x.Result, x.Loads)
	}
}

// TestTuneUnmeasurable: a start that cannot be measured leaves its cells to the next apply, which is no success; and who has only
// rehearsed is told how to see that.
func TestTuneUnmeasurable(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	must(t, err)
	lab := strings.Replace(tuneLab, "PORT", strconv.Itoa(port), 1)
	u := newLocal(t, strings.Replace(lab, `itl = "40ms" }`, `itl = "1ms", stop-after = 1 }`, 1))
	if _, said, code := u.run("rehearse"); code != exitCells {
		t.Errorf("rehearse: exit %d\n%s", code, said)
	}
	if _, said, code := u.run("tune"); code != exitFailed || !strings.Contains(said, "what was rehearsed shows with --run ") {
		t.Errorf("tune after a rehearsal: exit %d, %s", code, said)
	}
	if _, said, code := u.run("apply"); code != exitCells || !strings.Contains(said, "broke answers") || !strings.Contains(said, "left to the next apply") {
		t.Errorf("apply: exit %d\n%s", code, said)
	}
}

// answered is a tuning of the lab whose starts have the figures that of says.
func answered(t *testing.T, text string, of func(settings string) float64) (*plan.Tune, *hcl.Config) {
	t.Helper()
	cfg, problems := hcl.Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
	if problems.HasErrors() {
		problems.Write(t.Output(), 100, false)
		t.Fatal("the lab is wrong")
	}
	x := plan.New(cfg, plan.Options{}).Tunes[0]
	x.Begin(func() uint64 { return math.MaxUint64 - 7 })
	for range 100 {
		search, err := x.Search()
		must(t, err)
		start, more := search.Next()
		if !more {
			x.Ledger.Summary, err = x.Summary()
			must(t, err)
			return x, cfg
		}
		figure := of(start.Candidate.Settings()) * (1 + 0.001*float64(start.Number%3))
		x.Ledger.Starts = append(x.Ledger.Starts, results.Tried{Start: start, Loads: []results.TriedLoad{{Figure: figure}},
			Result: &tune.Result{Outcome: tune.Measured, Score: tune.Score{Value: x.Score(figure)}}})
	}
	t.Fatal("the tuning does not end")
	return nil, nil
}

// TestTuneLess: of a figure that is better when it is less JSON has the figure itself, seeds are exact for every reader, and the winner of a
// second round inherits that of the first.
func TestTuneLess(t *testing.T) {
	text := strings.Replace(strings.Replace(tuneLab, "PORT", "8123", 1), "start     = engine", "figure = \"mean_tpot_ms\"\n  start = engine", 1)
	x, _ := answered(t, text, func(settings string) float64 {
		if settings == "itl=2ms" {
			return 2
		}
		return 40
	})
	out, err := json.Marshal(x.Ledger)
	must(t, err)
	var got struct {
		Summary tune.Summary
		Starts  []struct{ Seed string }
	}
	must(t, json.Unmarshal(out, &got))
	if s := got.Summary; s.Winner == nil || s.Leader == nil || s.Leader.Options[0] != "itl=2ms" {
		t.Errorf("the winner is %+v, ahead is %+v", s.Winner, s.Leader)
	}
	for _, c := range got.Summary.Candidates {
		if want := 2.0; c.Settings == "itl=2ms" && (c.Finals == nil || math.Abs(c.Finals.Value-want) > 0.01 || math.Abs(c.Searched.Value-want) > 0.01 ||
			c.Finals.Low > c.Finals.High) {
			t.Errorf("%+v, want %v", c, want)
		}
	}
	if seed, err := strconv.ParseUint(got.Starts[0].Seed, 10, 64); err != nil || seed != x.Ledger.Starts[0].Seed {
		t.Errorf("the seed is told as %q: %v", got.Starts[0].Seed, err)
	}

	text += x.Ledger.Summary.Text
	text = strings.Replace(text, "start = engine.sim.slow", "start = engine.sim.pace-best", 1)
	text = strings.Replace(text, `{ itl = "40ms" },`, `{ itl = "1ms" },`, 1)
	x, _ = answered(t, text, func(settings string) float64 {
		if settings == "itl=1ms" {
			return 1
		}
		return 2
	})
	text += x.Ledger.Summary.Text
	if _, cfg := answered(t, text, func(string) float64 { return 1 }); len(cfg.Engines) != 3 {
		t.Errorf("%d engines", len(cfg.Engines))
	}
	if !strings.Contains(text, `engine "sim" "pace-best-2" {`) || !strings.Contains(text, "inherits = engine.sim.pace-best\n") {
		t.Error(text)
	}
}

// TestTunePropose: a program names the best candidate, and others that are none; it is told no seed, and finds none of the finals in the
// store, its words are kept and asked for once, and what it predicts stands beside what was measured.
func TestTunePropose(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	must(t, err)
	lab := strings.Replace(strings.Replace(tuneLab, "PORT", strconv.Itoa(port), 1), "  keep   = 1", "  propose = [\"./propose\"]\n  keep   = 1", 1)
	lab = strings.Replace(lab, `{ itl = "2ms" }`, `{ itl = "20ms" }`, 1) // so slow that on a busy machine, too, it is not the best
	u := newLocal(t, lab)
	must(t, os.WriteFile(filepath.Join(u.lab, "propose"), []byte(`#!/bin/sh
cat >>heard
echo asked >>times
cat .hcl/results.db* >>store
echo '{"flags": {"itl": "2ms"}, "predicted": 4321}'
echo '{"flags": {"itl": "2ms"}}'
echo '{"engine": "sim.none", "flags": {"itl": "1us"}}'
echo 'I think that 1 ms is best.'
`), 0o755))
	said := u.tells("apply", applied, "the proposer: line 2: itl=2ms is there already", "line 3: the tuning has no engine", "line 4: it is no candidate")
	var got struct {
		Winner     *tune.Candidate
		Candidates []struct {
			Settings, Fate string
			Predicted      float64
		}
		Asked []struct{ Lines []string }
	}
	u.json(&got, "tune", "--json")
	if got.Winner == nil || got.Winner.Proposed != "itl=2ms" || len(got.Asked) == 0 || len(got.Asked[0].Lines) != 1 {
		t.Errorf("the winner is %+v, asked %+v\n%s", got.Winner, got.Asked, said)
	}
	predicted := 0.0
	for _, c := range got.Candidates {
		if c.Settings == "itl=2ms" {
			predicted = c.Predicted
		}
	}
	if predicted != 4321 {
		t.Errorf("what was predicted is %v", predicted)
	}
	times, err := os.ReadFile(filepath.Join(u.lab, "times"))
	must(t, err)
	heard, err := os.ReadFile(filepath.Join(u.lab, "heard"))
	must(t, err)
	if n := strings.Count(string(times), "asked"); n != len(got.Asked) || strings.Contains(string(heard), "seed") || !strings.Contains(string(heard), `"stages"`) {
		t.Errorf("it was asked %d times, %d are kept, and is told\n%s", n, len(got.Asked), heard)
	}
	seen, err := os.ReadFile(filepath.Join(u.lab, "store"))
	must(t, err)
	now, err := os.ReadFile(filepath.Join(u.lab, ".hcl", "results.db"))
	must(t, err)
	if strings.Contains(string(seen), "final_seed") || !strings.Contains(string(seen), `"seed"`) || !strings.Contains(string(now), "final_seed") {
		t.Errorf("the seed of the finals is in the store while it is asked: %v; and at the end: %v", strings.Contains(string(seen), "final_seed"),
			strings.Contains(string(now), "final_seed"))
	}
	if _, said, code := u.run("tune", "--write", "best.hcl"); code != exitDone {
		t.Errorf("tune --write: exit %d, %s", code, said)
	}
	text, err := os.ReadFile(filepath.Join(u.lab, "best.hcl"))
	must(t, err)
	if !strings.Contains(string(text), `"itl" = "2ms"`) {
		t.Errorf("the winner is written as\n%s", text)
	}
	u.tells("plan", exitDone, "Up to date")
	if again, err := os.ReadFile(filepath.Join(u.lab, "times")); err != nil || len(again) != len(times) {
		t.Errorf("it was asked again: %s, %v", again, err)
	}
}

// TestTuneBounds: of a candidate that is tuned by its capacity the tables say what all its starts certainly hold and break by, and what each does.
func TestTuneBounds(t *testing.T) {
	x, _ := answered(t, strings.Replace(tuneLab, "PORT", "8123", 1), func(settings string) float64 {
		if settings == "itl=2ms" {
			return 80
		}
		return 40
	})
	for i := range x.Ledger.Starts {
		s := &x.Ledger.Starts[i]
		if holds, breaks := 60.0+float64(i), 131.0+float64(i); s.Candidate.Settings() == "itl=2ms" {
			s.Loads[0].Capacity = &capacity.Outcome{Holds: &holds, Breaks: &breaks}
		}
	}
	var err error
	x.Ledger.Summary, err = x.Summary()
	must(t, err)
	var first, last int
	for i, s := range x.Ledger.Starts {
		if s.Candidate.Settings() == "itl=2ms" {
			last = i
			if first == 0 {
				first = i
			}
		}
	}
	var out strings.Builder
	must(t, table.Tuning(&out, figure.NewTuning(&x.Ledger), 200))
	for _, want := range []string{fmt.Sprintf("holds %d, breaks by %d", 60+first, 131+last), fmt.Sprintf("holds %d, breaks by %d", 60+last, 131+last)} {
		if first == last || !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}
