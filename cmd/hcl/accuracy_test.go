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
	"hclbench/hcl/lang"
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

// TestAccuracy: answers from a table are scored exactly and held against the baseline's, letter by letter where engines say that they are batch invariant; then all is up to date; a bundle shows the same
// elsewhere, answers and all; another table is another engine.
func TestAccuracy(t *testing.T) {
	t.Parallel()
	lab := accuracyLab
	for _, name := range []string{"PORT1", "PORT2"} {
		port, err := freePort()
		must(t, err)
		lab = strings.Replace(lab, name, strconv.Itoa(port), 1)
	}
	lab = strings.ReplaceAll(lab, "  port  =", `  env   = { VLLM_BATCH_INVARIANT = "1" }`+"\n  port  =")
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
		"sim.coarse at 4: worse: of 100 questions it has lost 25 and gained 1", "26 of 100 answers are not the baseline's, letter by letter"} {
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
	if out, said, code := u.run("show", all[1].ID); code != 0 || strings.Contains(out, "Stale") || !strings.Contains(out, "\nMarks               66 right, 34 wrong, ") ||
		!strings.Contains(out, "\nAnswers             ") {
		t.Errorf("show %s: %s%s", all[1].ID, out, said)
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
	if out, _, _ := u.run("plan"); !strings.Contains(out, "1 to measure (1 stale), 1 up to date") ||
		!strings.Contains(strings.Join(strings.Fields(out), " "), "where 26 % of the answers turn out otherwise, as before,") {
		t.Errorf("of another engine all is to be asked again, and of it alone, and what changed before is known:\n%s", out)
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
	must(t, os.WriteFile(filepath.Join(u.lab, "questions.jsonl"), []byte(`{"question": "How many?", "answer": 7}`+"\n{\n"), 0o644))
	if out, said, code := u.run("validate"); code != exitUsage || !strings.Contains(said, "accuracy sums: questions.jsonl: line 2") {
		t.Errorf("validate takes any questions, exit code %d: %s%s", code, out, said)
	}
	validated := func(code int) string {
		out, _, got := u.run("validate", "--json")
		var v struct {
			Valid    bool
			Problems []lang.Problem
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil || got != code || v.Valid != (code == exitDone) || len(v.Problems) != 1 {
			t.Fatalf("exit code %d, want %d, %v: %s", got, code, err, out)
		}
		x := v.Problems[0]
		return fmt.Sprintln(x.Severity, x.Summary, filepath.Base(x.File), x.Start.Line == 1+strings.Count(strings.Split(lab, "accuracy \"")[0], "\n"), x.Detail)
	}
	if got := validated(exitUsage); !strings.HasPrefix(got, "error Wrong file lab.hcl true Accuracy sums: questions.jsonl: line 2") {
		t.Errorf("of a broken file --json says %s", got)
	}
	must(t, os.Remove(filepath.Join(u.lab, "questions.jsonl")))
	if got := validated(exitDone); !strings.HasPrefix(got, "warning Missing file lab.hcl true Accuracy sums reads questions.jsonl") {
		t.Errorf("of a missing file --json says %s", got)
	}
}

// TestForcedAcceptance: an engine that is timed with forced acceptance is asked on a start of its own without that, which the plan counts and says. What
// it answers there stands beside its loads, is never asked again, and is the same elsewhere.
func TestForcedAcceptance(t *testing.T) {
	t.Parallel()
	lab := accuracyLab
	for _, name := range []string{"PORT1", "PORT2"} {
		port, err := freePort()
		must(t, err)
		lab = strings.Replace(lab, name, strconv.Itoa(port), 1)
	}
	i := strings.Index(lab, `engine "sim" "coarse"`)
	lab = lab[:i] + strings.Replace(lab[i:], "  port  =", "  env   = { SGLANG_SIMULATE_ACC_LEN = \"3\" }\n  port  =", 1) + `
dataset "random" "short" { input_tokens = 16 }
benchmark "load" {
  engine   = engine.sim.coarse
  dataset  = dataset.random.short
  requests = 8
  load {
    concurrency   = 2
    output_tokens = 16
  }
}
`
	u := newLocal(t, lab)
	right := func(i int) bool { return i%10 != 0 }
	sums(t, u.lab, map[string]func(int) bool{"full": right, "coarse": right})
	plan, said, code := u.run("plan")
	for _, want := range []string{"3 deployments", "a start of its own, for questions alone: without SGLANG_SIMULATE_ACC_LEN", "3 to measure, 0 up to date; 3 starts of an engine"} {
		if code != 0 || !strings.Contains(plan, want) {
			t.Errorf("the plan does not say %q, exit code %d:\n%s%s", want, code, plan, said)
		}
	}
	u.tells("apply --auto-approve", applied)
	shown := func(u *person, args ...string) (text string, of struct {
		Rows   []results.Row
		Scores []results.Scored
	}) {
		t.Helper()
		u.json(&of, append([]string{"report", "--json"}, args...)...)
		out, _, _ := u.run(append([]string{"report"}, args...)...)
		return strings.Join(strings.Fields(out), " "), of
	}
	text, of := shown(u)
	if len(of.Rows) != 1 || len(of.Scores) != 2 {
		t.Fatalf("%d rows and %d scores:\n%s", len(of.Rows), len(of.Scores), text)
	}
	load, asked := of.Rows[0], of.Scores[slices.IndexFunc(of.Scores, func(s results.Scored) bool { return s.Deployment.Engine == "sim.coarse" })]
	if own := asked.Accuracy.Own; own == nil || own.Without != "SGLANG_SIMULATE_ACC_LEN" || own.For != load.DeploymentID || asked.DeploymentID == load.DeploymentID {
		t.Errorf("it was asked on %s, and timed on %s: %+v", asked.DeploymentID, load.DeploymentID, own)
	}
	const variable = "env SGLANG_SIMULATE_ACC_LEN"
	if load.Deployment.Identity[variable] != "3" || asked.Deployment.Identity[variable] != "" {
		t.Errorf("timed with %q, and asked with %q", load.Deployment.Identity[variable], asked.Deployment.Identity[variable])
	}
	if load.Checked != string(asked.Held.Verdict) || load.Checked == "" {
		t.Errorf("its load says %q, and its answers %q", load.Checked, asked.Held.Verdict)
	}
	const note = "sim.coarse at 4: asked on a start of its own without SGLANG_SIMULATE_ACC_LEN, which has it accept drafted tokens whatever they are"
	if strings.Count(text, note) != 1 {
		t.Errorf("it does not say once %q:\n%s", note, text)
	}
	if out, _, _ := u.run("plan"); !strings.Contains(out, "Up to date: all 3 cells are measured") {
		t.Errorf("something is left to do:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "run.hclbundle")
	u.tells("bundle "+load.RunID+" --output "+file, exitDone)
	other := newLocal(t, "lab \"elsewhere\" {}\n")
	other.tells("import "+file, exitDone)
	there, same := shown(other, "--run", load.RunID)
	if strings.Count(there, note) != 1 || len(same.Rows) != 1 || same.Rows[0].Checked != load.Checked {
		t.Errorf("elsewhere it says %v:\n%s", same.Rows, there)
	}
}

// TestPublishedCalls: answers that others have published, as K2VV's verifier writes them, are imported, and an engine's own are held against them.
func TestPublishedCalls(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	must(t, err)
	var requests, published, table strings.Builder
	for i := range 40 {
		city := fmt.Sprintf("City%02d", i)
		asked := fmt.Sprintf(`"messages": [{"role": "user", "content": "Weather in %s?"}], "tools": [{"type": "function", "function": {"name": "weather", `+
			`"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]`, city)
		fmt.Fprintf(&requests, "{%s}\n", asked)
		fmt.Fprintf(&published, `{"data_index": %d, "status": "success", "last_run_at": "2026", "request": {"model": "org/m", %s}, "response": {"choices": [{"finish_reason": "tool_calls", `+
			`"message": {"tool_calls": [{"function": {"name": "weather", "arguments": "{\"city\": \"%s\"}"}}]}}]}}`+"\n", i+1, asked, city)
		switch answer := `"calls": [{"name": "weather", "arguments": {"city": "` + city + `"}}]`; {
		case i%4 == 0:
			fmt.Fprintf(&table, `{"asked": %q, "answer": "Look outside."}`+"\n", city)
		case i%4 == 1:
			fmt.Fprintf(&table, `{"asked": %q, "calls": [{"name": "weather", "arguments": {"town": "x"}}]}`+"\n", city)
		default:
			fmt.Fprintf(&table, `{"asked": %q, %s}`+"\n", city, answer)
		}
	}
	lab := func(baseline string) string {
		return fmt.Sprintf(`
lab "calls" {}
host "here" {
  address = "local"
  runtime = "process"
}
engine "sim" "e" {
  host  = host.here
  port  = %d
  flags = { ttft = "40ms", itl = "1ms", answers = file("table.jsonl") }
}
accuracy "weather" {
  engine = [engine.sim.e]
  task   = "tool-calls"
  path   = "requests.jsonl"
  at     = [4]
  %s
}
`, port, baseline)
	}
	fmt.Fprintf(&published, `{"data_index": 41, "status": "success", "last_run_at": "2026", "request": {"model": "org/m"}, "response": {"choices": [{"finish_reason": "stop", "message": {"content": "No."}}]}}`+"\n"+`{"data_index": 42, "sta`)
	u := newLocal(t, lab(""))
	for name, text := range map[string]string{"requests.jsonl": requests.String(), "table.jsonl": table.String(), "weather.jsonl": published.String()} {
		must(t, os.WriteFile(filepath.Join(u.lab, name), []byte(text), 0o644))
	}
	u.tells("import weather.jsonl", exitUsage, "say it: --engine")
	said := u.tells("import weather.jsonl --engine api.official", exitDone, "Imported 1 cell as run ")
	run := regexp.MustCompile(`[0-9]{8}-[0-9]{6}-[0-9a-z]{4}`).FindString(said)
	u.tells("report --run "+run, exitDone, "api.official", "1 of the 42 lines of its file are no results and were left out, such as line 42", "calls valid")
	u.write(lab(fmt.Sprintf("baseline_run = %q", run)))
	u.tells("apply", exitDone)
	var report struct{ Scores []results.Scored }
	u.json(&report, "report", "--json")
	if len(report.Scores) != 1 {
		t.Fatalf("%d scores", len(report.Scores))
	}
	x := report.Scores[0]
	f1, _ := x.Held.CallF1()
	got := fmt.Sprintln(x.Held.Verdict, x.Held.Lost, x.Held.Gained, x.Accuracy.Score.Calls.Called, x.Accuracy.Score.Calls.Valid)
	if want := fmt.Sprintln(accuracy.Worse, 10, 0, 60, 40); got != want || f1 < 0.857 || f1 > 0.858 { // 30 of 40 call: 2·30/(30+40)
		t.Errorf("%s, F1 %v; want %s, F1 0.857", got, f1, want)
	}
	if text := x.Held.String(); x.Held.Questions != 40 || x.Held.Unpaired != 0 || !strings.Contains(text, "1 answer of the baseline is to a question that was not asked") {
		t.Errorf("%d questions, %d unpaired: %s", x.Held.Questions, x.Held.Unpaired, text)
	}
}

// TestNextToken: two deployments are asked how likely the tokens of texts are, and the one with noise lies as far away as it is noisy.
func TestNextToken(t *testing.T) {
	t.Parallel()
	lab := accuracyLab
	for _, name := range []string{"PORT1", "PORT2"} {
		port, err := freePort()
		must(t, err)
		lab = strings.Replace(lab, name, strconv.Itoa(port), 1)
	}
	for old, new := range map[string]string{`answers = file("full.jsonl")`: "", `answers = file("coarse.jsonl")`: "logprob-noise = 0.5", `"jsonl"`: `"next-token"`,
		`  scoring    = "numeric"` + "\n": "", "  margin     = 0.05\n": "", "  max_tokens = 64\n": "", "[4]": "[2]"} {
		lab = strings.Replace(lab, old, new, 1)
	}
	u := newLocal(t, lab)
	must(t, os.WriteFile(filepath.Join(u.lab, "questions.jsonl"), []byte(`{"text": "one two three four five six"}`+"\n"+`{"text": "seven eight nine ten eleven"}`+"\n"), 0o644))
	out, said, code := u.run("apply", "--auto-approve")
	out = strings.Join(strings.Fields(out), " ")
	if code != 0 || !regexp.MustCompile(`sim\.coarse at 2: KL divergence of its next token from the baseline's: at least 0\.[0-9]+ nats \([-0-9.e]+ to [-0-9.e]+\), and the likeliest token is the same at [0-9.]+ % of 9 positions of 2 texts`).MatchString(out) {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	plan, _, _ := u.run("plan")
	for _, x := range []struct{ text, no string }{{out + said, "right"}, {out + said + plan, "margin"}, {plan, "2 questions"}} {
		if strings.Contains(x.text, x.no) {
			t.Errorf("of given texts it says %q:\n%s", x.no, x.text)
		}
	}
	if !strings.Contains(said, "told of 2 of 2 texts") || !strings.Contains(plan, "2 texts: KL divergence of the next token from that of sim.full") {
		t.Errorf("%s%s", said, plan)
	}
}

// TestNextTokenOfTwoKinds: a vLLM and an SGLang, which tell of given texts at endpoints of their own, are held against each other.
func TestNextTokenOfTwoKinds(t *testing.T) {
	t.Parallel()
	u := newLocal(t, `
lab "two" {}
host "box" { address = "10.0.0.1" }
model "m" { repo = "org/m" }
engine "vllm" "a" {
  host  = host.box
  model = model.m
  image = "vllm/vllm-openai:v0.20.0"
}
engine "sglang" "b" {
  host  = host.box
  model = model.m
  image = "lmsysorg/sglang:v0.5.10"
}
accuracy "near" {
  engine   = [engine.vllm.a, engine.sglang.b]
  task     = "next-token"
  path     = "texts.jsonl"
  baseline = engine.vllm.a
  at       = [2]
}
`)
	must(t, os.WriteFile(filepath.Join(u.lab, "texts.jsonl"), []byte(`{"text": "one two three four five six"}`+"\n"), 0o644))
	out, said, code := u.run("rehearse")
	if want := "at least 0 nats, and the likeliest token is the same at 100.0 % of 5 positions of 1 text"; code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("exit code %d, want %q:\n%s%s", code, want, out, said)
	}
}
