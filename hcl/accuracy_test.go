package hcl

import (
	"slices"
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

// askingLab is a lab that asks engine.KIND.e what an accuracy block says.
func askingLab(kind, asks string) string {
	return "host \"h\" { address = \"10.0.0.1\" }\nmodel \"m\" { repo = \"m\" }\nengine \"" + kind + "\" \"e\" {\n  host = host.h\n  model = model.m\n  image = \"i:v1\"\n}\n" +
		"accuracy \"a\" {\n  engine = engine." + kind + ".e\n  path = \"q\"\n  at = [1]\n" + asks + "\n}\n"
}

// TestQuestionsRefused: what is wrong of the questions alone is said before anybody is asked.
func TestQuestionsRefused(t *testing.T) {
	for name, x := range map[string]struct{ lab, want string }{
		"too few samples": {askingLab("vllm", "  task = \"gpqa-diamond\"\n  baseline = engine.vllm.e"), "A verdict on task gpqa-diamond takes 4 answers to each question, and this asks for 1."},
		"too many":        {askingLab("vllm", "  task = \"gpqa-diamond\"\n  samples = 300"), "between 1 and 256"},
		"scoring":         {askingLab("vllm", "  task = \"jsonl\""), "Write scoring: exact, choice, numeric or pattern."},
		"generate":        {askingLab("vllm", "  task = \"gsm8k\"\n  protocol = \"sglang\""), "/generate is SGLang's"},
		"its own":         {askingLab("sglang", "  task = \"gsm8k\"\n  protocol = \"sglang\""), ""},
		"completions":     {askingLab("vllm", "  task = \"gsm8k\"\n  protocol = \"sglang\"\n  endpoint = \"completions\""), ""},
		"enough":          {askingLab("vllm", "  task = \"gpqa-diamond\"\n  samples = 4\n  baseline = engine.vllm.e"), ""},
		"no baseline":     {askingLab("vllm", "  task = \"gpqa-diamond\""), ""},
	} {
		_, problems := loadText(t, x.lab, lang.Vars{})
		if said := strings.Join(strings.Fields(printed(t, problems)), " "); !strings.Contains(said, x.want) || x.want == "" && said != "" {
			t.Errorf("%s: said %q, want %q", name, said, x.want)
		}
	}
}

// TestPromptsFirst: what tells in seconds that all else is worthless is asked before it, wherever it stands.
func TestPromptsFirst(t *testing.T) {
	lab := askingLab("vllm", "  task = \"gsm8k\"\n  shots = 0") +
		"accuracy \"prompts\" {\n  engine = engine.vllm.e\n  task = \"prompt-tokens\"\n  path = \"c\"\n  shots_path = \"t\"\n}\n"
	if all := mustLoad(t, lab, lang.Vars{}).Benchmarks; all[0].Name != "prompts" {
		t.Errorf("first comes %s", all[0].Name)
	}
}

// TestAskedAsSearched: where nobody says at which concurrency, the range of a search counts, if anybody says that.
func TestAskedAsSearched(t *testing.T) {
	stated := strings.Replace(askingLab("vllm", "  task = \"gsm8k\"\n  shots = 0"), "  at = [1]\n", "", 1) + `
dataset "random" "d" { input_tokens = 16 }
benchmark "chat" {
  engine  = engine.vllm.e
  dataset = dataset.random.d
  slo { ttft_p95 = "1s" }
  capacity {
    of     = "concurrency"
    within = [1, 64]
  }
  load { output_tokens = 16 }
}`
	for lab, want := range map[string][]int{stated: {1, 64}, strings.Replace(stated, "    within = [1, 64]\n", "", 1): {1}} {
		for _, b := range mustLoad(t, lab, lang.Vars{}).Benchmarks {
			var at []int
			for _, c := range b.Cells {
				at = append(at, c.Workload.Concurrency)
			}
			if b.Name == "a" && !slices.Equal(at, want) {
				t.Errorf("it is asked at %v, want %v", at, want)
			}
		}
	}
}

// TestAskedUnforced: an engine whose acceptance is forced is asked without that, by all blocks the same; where that cannot be taken away, the lab is refused.
func TestAskedUnforced(t *testing.T) {
	lab := func(engine string) string {
		asks := func(name string) string {
			return "\naccuracy \"" + name + "\" {\n  engine  = engine.sim.e\n  task    = \"jsonl\"\n  path    = \"q.jsonl\"\n  scoring = \"exact\"\n  at = [1]\n}\n"
		}
		return "host \"h\" {\n  address = \"local\"\n  runtime = \"process\"\n}\nengine \"sim\" \"e\" {\n  host = host.h\n" + engine + "\n}\n" + asks("one") + asks("two")
	}
	cfg := mustLoad(t, lab(`  env = { SGLANG_SIMULATE_ACC_LEN = "3", A = "1" }`), lang.Vars{})
	first, second := cfg.Benchmarks[0].Cells[0].Engine, cfg.Benchmarks[1].Cells[0].Engine
	if first != second || first.Without != "SGLANG_SIMULATE_ACC_LEN" || len(first.Env) != 1 || first.Label() != "sim.e" || len(cfg.Engines[0].Env) != 2 {
		t.Errorf("asked are %+v and %+v of %+v", first, second, cfg.Engines[0])
	}
	_, problems := loadText(t, lab(`  setup = ["export SGLANG_SIMULATE_ACC_LEN=3"]`), lang.Vars{})
	const want = "engine.sim.e has SGLANG_SIMULATE_ACC_LEN where it cannot be taken away for a start: write it in flags, env or config"
	if said := strings.Join(strings.Fields(printed(t, problems)), " "); !strings.Contains(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}
