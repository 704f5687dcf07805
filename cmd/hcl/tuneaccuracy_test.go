package main

import (
	"bufio"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/accuracy"
	"hclbench/results"
	"hclbench/tune"
)

// tuneGuardLab is a tuning whose fastest engine answers worst, and whose next has a few answers wrong.
const tuneGuardLab = `
host "here" {
  address = "local"
  runtime = "process"
}

engine "sim" "full" {
  host  = host.here
  port  = PORT1
  flags = { ttft = "5ms", itl = "40ms", answers = file("full.jsonl") }
}

engine "sim" "few" {
  host  = host.here
  port  = PORT2
  flags = { ttft = "5ms", itl = "4ms", answers = file("few.jsonl") }
}

engine "sim" "coarse" {
  host  = host.here
  port  = PORT3
  flags = { ttft = "5ms", itl = "1ms", answers = file("coarse.jsonl") }
}

dataset "random" "d" { input_tokens = 16 }

benchmark "chat" {
  engine   = engine.sim.full
  dataset  = dataset.random.d
  requests = 4
  load {
    concurrency   = 4
    output_tokens = 16
  }
}

accuracy "sums" {
  engine     = engine.sim.full
  task       = "jsonl"
  path       = "questions.jsonl"
  scoring    = "numeric"
  baseline   = engine.sim.full
  margin     = 0.05
  at         = [20]
  max_tokens = 64
}

tune "guarded" {
  objective = benchmark.chat
  start     = engine.sim.full
  accuracy  = accuracy.sums
  stage "engine" { engines = [engine.sim.coarse, engine.sim.few] }
  keep   = 1
  finals = 2
  budget { starts = 12 }
}
`

// TestTuneAccuracy: the fastest candidate, which answers worse, is out, and one of which that is not shown wins. All are held against the
// first start of the baseline, and its second says what two of them differ in. Killed while it asks, a tuning measures and asks
// nothing twice.
func TestTuneAccuracy(t *testing.T) {
	t.Parallel()
	lab := tuneGuardLab
	for _, name := range []string{"PORT1", "PORT2", "PORT3"} {
		port, err := freePort()
		must(t, err)
		lab = strings.Replace(lab, name, strconv.Itoa(port), 1)
	}
	u := newLocal(t, lab)
	sums(t, u.lab, map[string]func(int) bool{
		"full":   func(i int) bool { return i%10 != 0 },
		"few":    func(i int) bool { return i%10 != 0 && i%30 != 1 },
		"coarse": func(i int) bool { return i%10 != 0 && i%4 != 1 },
	})
	if out, _, code := u.run("plan"); code != exitDone || !strings.Contains(strings.Join(strings.Fields(out), " "),
		"sums at concurrency=20, after the loads of each start that they leave in: 100 questions, held against sim.full: it may lose 5 points") {
		t.Errorf("the plan says, exit %d:\n%s", code, out)
	}
	cmd := u.command("apply", "--json")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	begun := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		begun = begun || strings.Contains(lines.Text(), "start 2 (A/A)")
		if begun && strings.Contains(lines.Text(), `"concurrency":20`) { // the questions take 0.6 s
			break
		}
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()

	if out, said, code := u.run("apply"); code != exitDone && code != exitCells {
		t.Fatalf("apply: exit %d\n%s%s", code, out, said)
	}
	var got struct {
		Winner     *tune.Candidate
		Candidates []tune.Standing
		Ledger     []results.Tried
	}
	u.json(&got, "tune", "--json")
	if got.Winner == nil || strings.Join(got.Winner.Options, "") != "sim.few" {
		t.Errorf("the winner is %+v", got.Winner)
	}
	var fates []string
	for _, c := range got.Candidates {
		why := "" // of others it is how fast they were, which a busy machine has its say in
		if c.Fate == tune.Failed {
			why, _, _ = strings.Cut(c.Why, " (")
		}
		fates = append(fates, strings.Join([]string{c.Settings, string(c.Fate), c.Accuracy, why}, ", "))
		if (c.Unproved != "") != (c.Accuracy == "not shown") {
			t.Errorf("%s is %s, and unproved is %q", c.Settings, c.Accuracy, c.Unproved)
		}
	}
	if diff := cmp.Diff([]string{"as it is, dominated, baseline, ",
		"sim.coarse, failed, worse, failed accuracy: sums at concurrency=20: of 100 questions it has lost 25 and gained 0, which is −25.0 points",
		"sim.few, won, not shown, "}, fates); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
	var first results.Tried
	broken := 0
	for _, s := range got.Ledger {
		switch {
		case s.Result == nil:
			broken++
		case s.Phase == tune.AA && len(s.Checks) == 1 && s.Checks[0].Verdict == "":
			if first.Number == 0 {
				first = s
			}
		case s.Candidate.IsBaseline() != (len(s.Checks) == 0):
			t.Errorf("start %d, %s of %s, was asked %+v", s.Number, s.Phase, s.Settings, s.Checks)
		}
	}
	if broken != 1 {
		t.Errorf("%d starts were broken off, want 1", broken)
	}
	s, err := results.Look(t.Context(), filepath.Join(u.lab, ".hcl"))
	must(t, err)
	defer s.Close()
	scored, err := s.Scored(t.Context(), results.Query{}, nil)
	must(t, err)
	for _, x := range scored {
		if x.Benchmark != "guarded" || x.IsBaseline() {
			continue
		}
		if x.Baseline == nil || x.Baseline.ID != first.Checks[0].Cell || x.Held.Again == nil || x.Held.Again.Questions != 100 {
			t.Errorf("%s is held against %+v, and two starts of that differ by %+v", x.Deployment.Engine, x.Baseline, x.Held.Again)
		}
		if x.Deployment.Engine == "sim.few" && x.Held.Verdict != accuracy.NotShown {
			t.Errorf("sim.few: %s", x.Held)
		}
	}
	seen := map[string]bool{}
	for _, asked := range []bool{false, true} {
		rows, err := s.Rows(t.Context(), results.Query{Asked: asked})
		must(t, err)
		for _, r := range rows {
			if r.Summary != nil && seen[r.ID] {
				t.Errorf("%s %v of %s is measured twice", r.Benchmark, r.Axes, r.Deployment.Engine)
			}
			seen[r.ID] = seen[r.ID] || r.Summary != nil
		}
	}
	if out, said, code := u.run("tune"); code != exitDone || !strings.Contains(out, "That its answers hold is not shown.") ||
		!strings.Contains(out, "accuracy not shown, which excludes nobody") {
		t.Errorf("tune: exit %d\n%s%s", code, out, said)
	}
}
