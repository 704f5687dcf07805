package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/results"
	"hclbench/testhost"
)

// TestAccuracyFaults breaks an apply while it asks its second engine questions. The answers of the first are kept and its questions not asked
// again; of the second nothing is, as answers of two starts are none of one. The next apply asks it all, and the verdict is as without the fault.
func TestAccuracyFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name   string
		code   int // of the apply that breaks
		says   string
		strike func(s *scene)
	}{
		{"kill -9 of the caller", -1, "", (*scene).kill},
		{"Ctrl-C", exitInterrupted, "interrupted", func(s *scene) { must(s, s.cmd.Process.Signal(syscall.SIGINT)) }},
		{"the engine dies", exitCells, "of 2 cells, 1 ", func(s *scene) { s.signalEngine(syscall.SIGKILL) }},
		{"the host is lost", exitFailed, "out of reach", (*scene).hang},
	} {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			host := testhost.New(t, testhost.Options{Namespace: true})
			text := strings.NewReplacer(`lab "sums" {}`, `lab "sums" { lease = "5s" }`, "address = \"local\"", "%HOST%", "PORT1", "8000", "PORT2", "8101",
				`ttft = "1ms", itl = "1ms", answers = file("coarse`, `ttft = "150ms", itl = "1ms", answers = file("coarse`).Replace(accuracyLab)
			s := &scene{host: host, lease: 5 * time.Second, person: newPerson(t, host, text)}
			sums(t, s.lab, map[string]func(i int) bool{
				"full":   func(i int) bool { return i%10 != 0 },
				"coarse": func(i int) bool { return i%10 != 0 && i%4 != 1 || i == 0 },
			})
			s.begin()
			s.awaits("an answer of the second engine", func(e applyEvent) bool { return e.Type == "progress" && e.Number == 2 && e.Progress.Done > 0 }, 1)
			f.strike(s)
			if code := s.end(2 * time.Minute); code != f.code || !strings.Contains(s.told(), f.says) {
				t.Errorf("exit %d, want %d and %q:\n%s", code, f.code, f.says, s.told())
			}
			scores := func() (got []string) {
				store, err := results.Look(t.Context(), filepath.Join(s.lab, ".hcl"))
				must(t, err)
				defer store.Close()
				runs, err := store.Runs(t.Context())
				must(t, err)
				for i, run := range runs {
					all, err := store.Scored(t.Context(), results.Query{Run: run.ID}, nil)
					must(t, err)
					for _, x := range all {
						answers, err := store.Answers(t.Context(), x.RunID, x.ID)
						must(t, err)
						got = append(got, fmt.Sprintf("run %d %s: %d answers, %d right, %s", i+1, x.Deployment.Engine, len(answers), x.Accuracy.Score.Right, x.Held.Verdict))
					}
				}
				return got
			}
			want := []string{"run 1 sim.full: 100 answers, 90 right, unchecked"}
			kept := scores()
			if diff := cmp.Diff(want, kept[:min(1, len(kept))]); diff != "" {
				t.Errorf("what is kept (-want +got):\n%s", diff)
			}
			for _, x := range kept[min(1, len(kept)):] { // that it could not be asked
				if !strings.Contains(x, "sim.coarse: 0 answers, 0 right, unchecked") {
					t.Errorf("it is kept: %s", x)
				}
			}
			s.begin()
			s.end(2 * time.Minute)
			again := slices.DeleteFunc(scores(), func(x string) bool { return strings.Contains(x, " 0 answers") })
			if diff := cmp.Diff(append(want, "run 2 sim.coarse: 100 answers, 66 right, worse"), again); diff != "" {
				t.Errorf("after the next apply (-want +got):\n%s%s", diff, s.told())
			}
			eventually(t, "nothing of ours runs on the host", time.Minute, func() bool { return len(agents(t, host)) == 0 })
		})
	}
}
