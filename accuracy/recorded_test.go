package accuracy_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hclbench/accuracy"
	"hclbench/plain"
)

// recorded is a line of what scripts/harness.py has recorded: what a harness asked, and what it made of a reply.
type recorded struct {
	Task, Endpoint, Reply string
	Question, Sample      int
	Ask                   map[string]any
	Marks                 map[string][2]any // by extraction: what was found, and whether it is right
}

// recordings is where the recordings are: others than ours by a variable.
var recordings = cmp.Or(os.Getenv("HCL_RECORDINGS"), "../testdata/accuracy")

// files are those of the questions of a task, and of its examples.
var files = map[string][2]string{
	accuracy.GSM8K: {"gsm8k.jsonl", "gsm8k-train.jsonl"}, accuracy.MMLU: {"mmlu.jsonl", "mmlu-dev.jsonl"},
	accuracy.MMLUPro: {"mmlu-pro.jsonl", "mmlu-pro-validation.jsonl"}, accuracy.GPQA: {"gpqa.csv"},
	accuracy.AIME: {"aime.jsonl"}, accuracy.Math500: {"math-500.jsonl"},
}

// made makes the set of a spec of files in testdata, with all of their questions.
func made(t testing.TB, spec accuracy.Spec) *accuracy.Set {
	t.Helper()
	names := files[spec.Task]
	if spec.Protocol == accuracy.SimpleEvals && spec.Task == accuracy.MMLU {
		names = [2]string{"mmlu.csv"}
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(recordings, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	questions := read(names[0])
	spec.Path, spec.Questions = names[0], strings.Count(string(questions), "Case ")
	var shots *bytes.Reader
	if spec.NeedsShots() {
		spec.ShotsPath = names[1]
		shots = bytes.NewReader(read(names[1]))
	} else {
		shots = bytes.NewReader(nil)
	}
	set, err := accuracy.New(spec, bytes.NewReader(questions), shots)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// body is what a request of an ask says, in the form of the recordings.
func body(t *testing.T, a accuracy.Ask) map[string]any {
	t.Helper()
	b := map[string]any{"path": "/v1/completions", "model": "m", "max_tokens": a.MaxTokens}
	switch a.Endpoint {
	case "chat":
		b["path"], b["messages"] = "/v1/chat/completions", a.Messages
	case "completions":
		b["prompt"] = a.Prompt
	case "generate":
		b = map[string]any{"path": "/generate", "text": a.Prompt}
	}
	if a.Endpoint == "generate" {
		b["sampling_params"] = map[string]any{"max_new_tokens": a.MaxTokens, "temperature": a.Temperature, "stop": a.Stop}
	} else {
		for name, v := range map[string]any{"temperature": a.Temperature, "top_p": a.TopP, "seed": a.Seed, "stop": a.Stop} {
			if !reflect.ValueOf(v).IsNil() {
				b[name] = v
			}
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var same map[string]any
	if err := json.Unmarshal(text, &same); err != nil {
		t.Fatal(err)
	}
	return same
}

// TestRecorded holds prompts, sampling and extraction against what the harnesses themselves did.
func TestRecorded(t *testing.T) {
	for name, protocol := range map[string]string{"lm-eval-0.4.12": accuracy.LMEval12, "lm-eval-0.4.13": accuracy.LMEval13,
		"inferencex": accuracy.InferenceX, "simple-evals": accuracy.SimpleEvals, "sglang": accuracy.SGLang, "vllm": accuracy.VLLM,
		"evalscope-1.14.1": accuracy.EvalScope} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(recordings, name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			sets := map[string]*accuracy.Set{}
			asks, marks := 0, 0
			for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
				var r recorded
				if err := json.Unmarshal(line, &r); err != nil {
					t.Fatal(err)
				}
				for way, want := range r.Marks {
					key := fmt.Sprint(r.Task, r.Endpoint, way)
					if sets[key] == nil {
						sets[key] = made(t, accuracy.Spec{Task: r.Task, Protocol: protocol, Endpoint: r.Endpoint, Extract: way})
					}
					set := sets[key]
					i := r.Sample*len(set.Questions) + r.Question
					if r.Ask != nil && i < set.Len() {
						asks++
						if got := body(t, set.Ask(i)); !reflect.DeepEqual(got, trimmed(r.Ask)) {
							t.Errorf("%s, question %d, sample %d:\n got %.2000q\nwant %.2000q", key, r.Question, r.Sample, fmt.Sprint(got), fmt.Sprint(r.Ask))
						}
					}
					marks++
					a := set.Mark(i, accuracy.Reply{Text: r.Reply, Finish: "stop"})
					found := plain.Text(want[0].(string)) // as it is kept
					if right := a.Mark == accuracy.Right; right != want[1].(bool) {
						t.Errorf("%s, %q to %q: marked %s (%q), the harness found %q and says %v", key, r.Reply, set.Questions[r.Question].Right, a.Mark, a.Extracted, found, want[1])
					}
					if whole := way == "none"; !whole && a.Mark != accuracy.Invalid && a.Extracted != found {
						t.Errorf("%s, %q: found %q, the harness %q", key, r.Reply, a.Extracted, found)
					} else if !whole && a.Mark == accuracy.Invalid && found != "[invalid]" && found != "" {
						t.Errorf("%s, %q: found nothing, the harness %q", key, r.Reply, found)
					}
				}
			}
			if asks < 3 || marks < 50 {
				t.Errorf("%d asks and %d marks were recorded: that is not all", asks, marks)
			}
			t.Logf("%d asks, %d marks", asks, marks)
		})
	}
}

// trimmed is a recorded body as hcl's should be: without what nobody hears, and with a bound.
func trimmed(ask map[string]any) map[string]any {
	if sampling, ok := ask["sampling_params"].(map[string]any); ok {
		return map[string]any{"path": ask["path"], "text": ask["text"], "sampling_params": map[string]any{
			"max_new_tokens": sampling["max_new_tokens"], "temperature": sampling["temperature"], "stop": sampling["stop"]}}
	}
	if ask["path"] != "/generate" { // vLLM's script names no model: hcl always does
		ask["model"] = "m"
	}
	if ask["max_tokens"] == nil { // EvalScope's: hcl bounds all answers
		ask["max_tokens"] = 16384.0
	}
	return ask
}
