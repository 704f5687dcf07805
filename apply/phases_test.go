package apply

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/results"
)

// TestComingUp: what is told of progress, with an estimate, and how long the
// phases took.
func TestComingUp(t *testing.T) {
	begin := time.Unix(1700000000, 0)
	c := comingUp{since: begin}
	var told []string
	for _, e := range []struct {
		at float64
		p  engines.Progress
	}{
		{1, engines.Progress{Phase: "loading weights"}},
		{2, engines.Progress{Phase: "loading weights", N: 1, Of: 10}},
		{2.5, engines.Progress{Phase: "loading weights", N: 2, Of: 10}},
		{5, engines.Progress{Phase: "loading weights", N: 5, Of: 10}},
		{10, engines.Progress{Phase: "loading weights", N: 10, Of: 10}},
		{11, engines.Progress{Phase: "compiling"}},
		{12, engines.Progress{Phase: "compiling"}},
	} {
		if text := c.see(e.p, begin.Add(time.Duration(e.at*float64(time.Second)))); text != "" {
			told = append(told, text)
		}
	}
	want := []string{"loading weights", "loading weights 1 of 10, about 9s left", "loading weights 5 of 10, about 4s left", "loading weights 10 of 10", "compiling"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	phases := []results.Phase{{Name: "loading weights", Seconds: 10}, {Name: "compiling", Seconds: 4}}
	if diff := cmp.Diff(phases, c.end(begin.Add(15*time.Second))); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}
