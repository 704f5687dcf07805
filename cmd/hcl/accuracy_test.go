package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/accuracy"
	"hclbench/results"
)

// accuracyLab asks two engines that answer from tables.
const accuracyLab = `
lab "sums" {}

host "here" {
  address = "local"
  runtime = "process"
}

engine "sim" "full" {
  host  = host.here
  port  = PORT1
  flags = { ttft = "1ms", itl = "1ms", answers = file("full.jsonl") }
}

engine "sim" "coarse" {
  host  = host.here
  port  = PORT2
  flags = { ttft = "1ms", itl = "1ms", answers = file("coarse.jsonl") }
}

accuracy "sums" {
  engine     = [engine.sim.full, engine.sim.coarse]
  task       = "jsonl"
  path       = "questions.jsonl"
  scoring    = "numeric"
  baseline   = engine.sim.full
  margin     = 0.05
  at         = [4]
  max_tokens = 64
}
`

// sums writes questions and the answers of an engine that is right on those that right says.
func sums(t *testing.T, dir string, engines map[string]func(i int) bool) {
	t.Helper()
	var questions strings.Builder
	tables := map[string]*strings.Builder{}
	for i := range 100 {
		asked := fmt.Sprintf("%d plus %d", 100+i, i)
		fmt.Fprintf(&questions, `{"question": "What is %s?", "answer": "%d"}`+"\n", asked, 100+2*i)
		for name, right := range engines {
			if tables[name] == nil {
				tables[name] = &strings.Builder{}
			}
			answer := 100 + 2*i
			if !right(i) {
				answer++
			}
			fmt.Fprintf(tables[name], `{"asked": "%s", "answer": "It is %d."}`+"\n", asked, answer)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "questions.jsonl"), []byte(questions.String()), 0o644))
	for name, text := range tables {
		must(t, os.WriteFile(filepath.Join(dir, name+".jsonl"), []byte(text.String()), 0o644))
	}
}

// TestAccuracy: answers from a table are scored exactly and held against the baseline's; then all is up to date; a bundle shows the same
// elsewhere, answers and all; another table is another engine.
func TestAccuracy(t *testing.T) {
	t.Parallel()
	lab := accuracyLab
	for _, name := range []string{"PORT1", "PORT2"} {
		port, err := freePort()
		must(t, err)
		lab = strings.Replace(lab, name, strconv.Itoa(port), 1)
	}
	u := newLocal(t, lab)
	sums(t, u.lab, map[string]func(int) bool{
		"full":   func(i int) bool { return i%10 != 0 },
		"coarse": func(i int) bool { return i%10 != 0 && i%4 != 1 || i == 0 },
	})
	out, said, code := u.run("apply", "--auto-approve")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s%s", code, out, said)
	}
	for _, want := range []string{"held against sim.full with a margin of 5 points", "sim.full", "baseline",
		"sim.coarse at 4: worse: of 100 questions it has lost 25 and gained 1"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	scored := func(u *person) (all []results.Scored, answers [][]accuracy.Answer) {
		s, err := results.Look(t.Context(), filepath.Join(u.lab, ".hcl"))
		must(t, err)
		defer s.Close()
		runs, err := s.Runs(t.Context())
		must(t, err)
		all, err = s.Scored(t.Context(), results.Query{Run: runs[0].ID}, nil)
		must(t, err)
		for _, x := range all {
			of, err := s.Answers(t.Context(), x.RunID, x.ID)
			must(t, err)
			answers = append(answers, of)
		}
		return all, answers
	}
	all, answers := scored(u)
	var got []string
	for _, x := range all {
		s := x.Accuracy.Score
		got = append(got, fmt.Sprintln(x.Deployment.Engine, s.Asked, s.Right, s.Wrong, s.Invalid, s.Cut, s.Failed, x.Held.Verdict))
	}
	if diff := cmp.Diff([]string{"sim.full 100 90 10 0 0 0 unchecked\n", "sim.coarse 100 66 34 0 0 0 worse\n"}, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	if out, _, code := u.run("plan", "--detailed-exitcode"); code != 0 {
		t.Errorf("something is left to do:\n%s", out)
	}
	reported := func(args ...string) (engines []string) {
		out, said, code := u.run(append([]string{"report", "--json"}, args...)...)
		var of struct{ Scores []results.Scored }
		if err := json.Unmarshal([]byte(out), &of); err != nil || code != 0 {
			t.Fatalf("report %v: %v, exit code %d: %s", args, err, code, said)
		}
		for _, x := range of.Scores {
			engines = append(engines, x.Deployment.Engine)
		}
		return engines
	}
	var held struct {
		Spending []struct {
			Measuring float64 `json:"measuring_s"`
		}
	}
	if u.json(&held, "report", "--json"); len(held.Spending) != 1 || held.Spending[0].Measuring <= 0 {
		t.Errorf("who asks questions measures: %+v", held.Spending)
	}
	text := filepath.Join(u.lab, "lab.hcl")
	for margin, want := range map[string]string{"0.5": "sim.coarse at 4: holds", "0.05": "sim.coarse at 4: worse"} { // it changes no answer
		was, err := os.ReadFile(text)
		must(t, err)
		must(t, os.WriteFile(text, []byte(regexp.MustCompile(`margin += [0-9.]+`).ReplaceAllString(string(was), "margin = "+margin)), 0o644))
		if out, said, _ := u.run("report"); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("with a margin of %s it does not say %q:\n%s%s", margin, want, out, said)
		}
	}
	file := filepath.Join(t.TempDir(), "run.hclbundle")
	if out, said, code := u.run("bundle", all[0].RunID, "--output", file); code != 0 || !strings.Contains(out, ": 2 cells, ") {
		t.Fatalf("bundle: %s%s", out, said)
	}
	for _, x := range []struct {
		args    []string
		engines []string // whose scores are shown
	}{
		{nil, []string{"sim.full", "sim.coarse"}},
		{[]string{"--benchmark", all[0].Benchmark}, []string{"sim.full", "sim.coarse"}},
		{[]string{"--cell", all[1].ID}, []string{"sim.coarse"}},
		{[]string{"--where", `engine = "sim.full"`}, []string{"sim.full"}},
	} {
		if got := reported(x.args...); !slices.Equal(got, x.engines) {
			t.Errorf("report %v shows the scores of %v, want %v", x.args, got, x.engines)
		}
	}
	other := newLocal(t, "lab \"elsewhere\" {}\n")
	if out, said, code := other.run("import", file); code != 0 {
		t.Fatalf("import: %s%s", out, said)
	}
	there, same := scored(other)
	if diff := cmp.Diff(answers, same); diff != "" || len(there) != 2 || there[1].Held.Verdict != accuracy.Worse {
		t.Errorf("elsewhere (-here +there):\n%s", diff)
	}
	sums(t, u.lab, map[string]func(int) bool{"coarse": func(i int) bool { return i%7 != 0 }})
	if out, _, _ := u.run("plan"); !strings.Contains(out, "1 to measure (1 stale), 1 up to date") {
		t.Errorf("of another engine all is to be asked again, and of it alone:\n%s", out)
	}
	if got := reported(); !slices.Equal(got, []string{"sim.full"}) {
		t.Errorf("of what the lab has no longer asked, report shows %v", got)
	}
	if got := reported("--all"); len(got) != 2 {
		t.Errorf("report --all shows the scores of %v", got)
	}
	if out, _, _ := u.run("report"); strings.Contains(out, "worse") {
		t.Errorf("answers count that the lab no longer asks for:\n%s", out)
	}
}
