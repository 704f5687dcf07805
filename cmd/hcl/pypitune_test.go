package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hclbench/results"
	"hclbench/testhost/pypi"
	"hclbench/tune"
)

// TestPyPITune tunes a real vLLM, which starts anew each time and refuses to start with one option, by its own words. An hcl that is killed in
// the second start makes that start again, and no other. How fast it is nobody knows here.
func TestPyPITune(t *testing.T) {
	t.Parallel()
	engine := pypi.VLLM(t, pypi.VLLMVersion, tokenizerOfReal)
	begin, _, _ := strings.Cut(realLab, "dataset ")
	lab := strings.Replace(begin, `["a", "b", "c"]`, `["a"]`, 1) + `
dataset "random" "d" { input_tokens = 32 }
benchmark "b" {
  engine   = engine.vllm.all["a"]
  dataset  = dataset.random.d
  requests = 8
  load {
    concurrency   = 2
    output_tokens = 8
  }
}
tune "settings" {
  objective = benchmark.b
  start     = engine.vllm.all["a"]
  stage "length" { flags = [{ max-model-len = 10000000 }] }
  keep   = 1
  finals = 2
  budget { starts = 8 }
}`
	s := newReal(t, lab, engine)
	s.begin()
	s.await("step", "tune settings: start 2 (A/A): as it is", 1)
	s.kill()
	s.begin()
	code := s.end(10 * time.Minute)
	out, said, shown := s.run("tune", "--json")
	var got struct {
		Over       bool
		Candidates []tune.Standing
		Ledger     []results.Tried
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("hcl tune: exit %d, %v\n%s%s\napply: exit %d\n%s", shown, err, out, said, code, s.told())
	}
	began, cells, runs := map[int]int{}, map[string]bool{}, map[string]bool{}
	for _, x := range got.Ledger {
		t.Logf("start %d (%s), %s: %+v, %v", x.Number, x.Phase, x.Settings, x.Result, x.Cost.Time.Round(time.Second))
		runs[x.Run] = true
		if x.Result == nil {
			continue
		}
		if began[x.Number]++; began[x.Number] > 1 {
			t.Errorf("start %d has ended twice", x.Number)
		}
		for _, l := range x.Loads {
			if cells[l.Cell] {
				t.Errorf("cell %s is of two starts", l.Cell)
			}
			cells[l.Cell] = true
		}
		refused := strings.Contains(x.Settings, "max-model-len")
		switch r := x.Result; {
		case refused && (r.Outcome != tune.DidNotStart || !strings.Contains(r.Reason, "max_model_len")):
			t.Errorf("vLLM takes %s: %+v", x.Settings, r)
		case !refused && (r.Outcome != tune.Measured || r.Score.Value <= 0 || x.Loads[0].Figure <= 0):
			t.Errorf("%s was not measured: %+v, %+v", x.Settings, r, x.Loads)
		}
	}
	if !got.Over || len(runs) != 2 || began[1] == 0 || began[2] == 0 || began[3] == 0 || len(began) != 3 || len(got.Candidates) != 2 {
		t.Errorf("over %v, %d runs, starts %v, %d candidates; exit %d\n%s", got.Over, len(runs), began, len(got.Candidates), code, s.told())
	}
	for _, c := range got.Candidates {
		if strings.Contains(c.Settings, "max-model-len") != (c.Fate == tune.Failed) {
			t.Errorf("%s: %s, %s", c.Settings, c.Fate, c.Why)
		}
	}
	s.gone(s.lease + faultGrace + busyMachine)
}
