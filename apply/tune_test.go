package apply

import (
	"errors"
	"testing"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/plan"
	"hclbench/results"
	"hclbench/tune"
)

// TestIsItsOwn: a candidate is blamed for its settings, and for the image of another engine; for its host it is not.
func TestIsItsOwn(t *testing.T) {
	start, other := &engines.Engine{Kind: "sim", Name: "start"}, &engines.Engine{Kind: "sim", Name: "other"}
	x := &plan.Tune{Tune: hcl.Tune{Start: start, Stages: []hcl.TuneStage{{Name: "engine", Options: []hcl.Option{{ID: "sim.other", Engine: other}}}}}}
	for _, c := range []struct {
		option string
		came   progress
		why    string
		want   bool
	}{
		{"", preparing, "pull the image: no such host", false},
		{"sim.other", preparing, "pull the image: manifest unknown", true},
		{"sim.other", launching, "port 8000 is in use", false},
		{"", running, "out of GPU memory: torch.OutOfMemoryError", true},
		{"sim.other", running, "the port is taken: [Errno 98]", false},
		{"", running, "the disk is full: No space left on device", false},
	} {
		tried := &results.Tried{Start: tune.Start{Candidate: tune.Candidate{Options: []string{c.option}}}}
		if got := isItsOwn(x, tried, &failure{err: errors.New(c.why), came: c.came}); got != c.want {
			t.Errorf("%+v: its own is %v", c, got)
		}
	}
}
