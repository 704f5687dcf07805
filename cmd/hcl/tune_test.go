package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "start 2 (A/A)") {
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
	if got.Winner == nil || strings.Join(got.Winner.Options, " ") != "itl=2ms" || got.Tried != 3 {
		t.Errorf("the winner is %v of %d tried, want itl=2ms of 3", got.Winner, got.Tried)
	}
	fates := map[string]string{}
	for _, c := range got.Candidates {
		fates[c.Settings] = c.Fate
		if strings.HasPrefix(c.Settings, "fail-start") && (!strings.Contains(c.Why, "out of memory") || c.Starts != 1) {
			t.Errorf("%s was started %d times and has failed by %q", c.Settings, c.Starts, c.Why)
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
	// The start that was killed had begun, or was about to.
	if len(got.Ledger) == 0 || got.Ledger[0].Run == got.Ledger[len(got.Ledger)-1].Run || broken > 1 {
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
