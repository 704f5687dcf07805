package hcl

import (
	"fmt"
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

// TestTuneRefused: what a tuning cannot start as it is in a cell, and figures that no start can have, are mistakes of the lab.
func TestTuneRefused(t *testing.T) {
	lab := func(flag, benchmark, figure, option string) string {
		return `
host "h" {
  address = "local"
  runtime = "process"
}
engine "sim" "e" {
  host  = host.h
  flags = { itl = "10ms"` + flag + ` }
}
dataset "random" "d" { input_tokens = 16 }
benchmark "chat" {
  ` + benchmark + `
  engine   = engine.sim.e
  dataset  = dataset.random.d
  requests = 8
  load {
    concurrency   = 4
    output_tokens = 16
  }
}
tune "pace" {
  objective = benchmark.chat
  start     = engine.sim.e
  figure    = "` + figure + `"
  stage "s" { flags = [{ ` + option + ` }] }
  budget { starts = 12 }
}`
	}
	search := strings.NewReplacer("requests = 8\n", "slo { ttft_p95 = \"1s\" }\n  capacity { of = \"concurrency\" }\n", "    concurrency   = 4\n", "").
		Replace(lab("", "", "output_throughput", `itl = "2ms"`) + "\ndataset \"random\" \"e\" { input_tokens = 32 }\n")
	guarded := strings.Replace(lab("", "", "output_throughput", `itl = "2ms"`), "  figure ", "  accuracy = accuracy.sums\n  figure ", 1)
	asks := func(name, more string) string {
		return "\naccuracy \"" + name + "\" {\n  engine  = engine.sim.e\n  task    = \"jsonl\"\n  path    = \"q.jsonl\"\n  scoring = \"exact\"\n" + more + "}\n"
	}
	unhurried := strings.Replace(search, "  figure    = \"output_throughput\"\n", "", 1)
	baseline := "  baseline = engine.sim.e\n"
	vllm := strings.NewReplacer("sim", "vllm", "  runtime = \"process\"\n", "", "{ itl = \"10ms\" }", "{}", "host  = host.h\n", "host  = host.h\n  model = model.m\n  image = \"vllm/vllm-openai:v0.20.0\"\n",
		`itl = "2ms"`, `max-model-len = 300`).Replace("model \"m\" { repo = \"m\" }\n" + guarded + asks("sums", baseline+"  max_tokens = 512\n"))
	sglang := strings.NewReplacer("sim", "sglang", "  runtime = \"process\"\n", "", "{ itl = \"10ms\" }", "{}", "host  = host.h\n", "host  = host.h\n  model = model.m\n  image = \"lmsysorg/sglang:v0.5.1\"\n",
		"stage \"s\" { flags = [{ itl = \"2ms\" }] }", "stage \"s\" { engines = [engine.vllm.f] }", `"jsonl"`, "\"gsm8k\"\n  protocol = \"sglang\"", "  scoring = \"exact\"\n", "").
		Replace("model \"m\" { repo = \"m\" }\nengine \"vllm\" \"f\" {\n  host = host.h\n  model = model.m\n  image = \"vllm/vllm-openai:v0.20.0\"\n  port = 8001\n}\n" +
			guarded + asks("sums", baseline))
	other := strings.Replace(guarded, "tune \"pace\"", "engine \"sim\" \"f\" {\n  host = host.h\n  port = 8001\n  flags = { itl = \"5ms\" }\n  env   = { SGLANG_SIMULATE_ACC_LEN = \"3\" }\n}\ntune \"pace\"", 1)
	for name, tt := range map[string]struct{ text, want string }{
		"forced start": {strings.Replace(guarded, "flags = { itl", "env   = { SGLANG_SIMULATE_ACC_LEN = \"3\" }\n  flags = { itl", 1) + asks("sums", baseline),
			"a tuning asks on the very starts that it measures"},
		"forced engine": {strings.Replace(other, "stage \"s\" {", "stage \"e\" { engines = [engine.sim.f] }\n  stage \"s\" {", 1) + asks("sums", baseline),
			"Nothing that this makes can be started: engine.sim.f has SGLANG_SIMULATE_ACC_LEN"},
		"no endpoint":       {sglang, "/generate is SGLang's, and engine.vllm.f is of kind"},
		"guard":             {guarded + asks("sums", baseline), ""},
		"no verdict":        {guarded + strings.NewReplacer(`"jsonl"`, `"next-token"`, "  scoring = \"exact\"\n", "").Replace(asks("sums", baseline)), "has no verdict"},
		"prompts":           {guarded + strings.NewReplacer(`"jsonl"`, "\"prompt-tokens\"\n  shots_path = \"t.json\"", "  scoring = \"exact\"\n", "").Replace(asks("sums", baseline)), "has no verdict"},
		"no guard":          {guarded, "accuracy.sums"},
		"held":              {guarded + asks("sums", ""), "Write baseline = engine.sim.e there"},
		"its name":          {guarded + asks("sums", baseline) + asks("pace", baseline), "an accuracy block is named"},
		"no room":           {vllm, "Nothing that this makes can be started: An answer may have 512 tokens"},
		"matrix":            {lab(", spread = matrix.s", "matrix { s = [0.5, 0.9] }", "output_throughput", `itl = "2ms"`), "another engine in each cell"},
		"zero":              {lab("", "", "failed", `itl = "2ms"`), "the best is 0"},
		"capacity":          {search, "Remove figure"},
		"capacities":        {strings.Replace(strings.Replace(search, "capacity {", "matrix { dataset = [dataset.random.d, dataset.random.e] }\n  capacity {", 1), "dataset.random.d\n  slo", "matrix.dataset\n  slo", 1), "Name one that searches once"},
		"no time":           {strings.Replace(unhurried, "starts = 12", "time = \"1s\"", 1), "A budget of 1s is too small: the least are 9 starts of at least 1s"},
		"no money":          {strings.NewReplacer("starts = 12", "money = 0.01", "  runtime = \"process\"", "  runtime = \"process\"\n  price_per_hour = 60").Replace(unhurried), "too small: the least are 9 starts that cost"},
		"time":              {strings.Replace(unhurried, "starts = 12", "time = \"9s\"", 1), ""},
		"slo's name":        {lab("", "", "ttft_p99", `itl = "2ms"`), `Did you mean "p99_ttft_ms"?`},
		"groups":            {strings.Replace(lab("", "", "failed", `itl = "2ms"`), "  figure ", "  groups = []\n  figure ", 1), "Groups are tried in an `engines` stage"},
		"groups of a stage": {strings.Replace(lab("", "", "failed", `itl = "2ms"`), "stage \"s\" {", "stage \"t\" { groups = [] }\n  stage \"s\" {", 1), "Groups are tried in an `engines` stage"},
		"percentile":        {lab("", "", "p97_ttft_ms", `itl = "2ms"`), "has no p97_ttft_ms"},
	} {
		_, problems := loadText(t, tt.text, lang.Vars{})
		if said := strings.Join(strings.Fields(printed(t, problems)), " "); !strings.Contains(said, tt.want) || tt.want == "" && strings.Contains(said, "Error") {
			t.Errorf("%s: said %q, want %q", name, said, tt.want)
		}
	}
}

// TestTuneSecret: a flag that is a secret by its kind, whatever its name, is nowhere in clear: options are told, and kept, by their names.
func TestTuneSecret(t *testing.T) {
	cfg, problems := loadText(t, `
host "h" { address = "10.0.0.1" }
model "m" { repo = "m" }
engine "sglang" "e" {
  host  = host.h
  model = model.m
  image = "lmsysorg/sglang:v0.5.23"
}
dataset "random" "d" { input_tokens = 16 }
benchmark "chat" {
  engine   = engine.sglang.e
  dataset  = dataset.random.d
  requests = 8
  load {
    concurrency   = 4
    output_tokens = 16
  }
}
tune "pace" {
  objective = benchmark.chat
  start     = engine.sglang.e
  figure    = "output_throughput"
  stage "s" { flags = [{ watermark-config = "canary-7f3a" }] }
  stage "t" { env = [{ HF_TOKEN = "canary-7f3a" }] }
  budget { starts = 12 }
}`, lang.Vars{})
	said := printed(t, problems)
	if cfg == nil || len(cfg.Tunes) != 1 {
		t.Fatal(said)
	}
	stage := cfg.Tunes[0].Stages[0]
	if told := fmt.Sprintf("%+v", stage.Options) + said; strings.Contains(told, "canary-7f3a") || !strings.Contains(told, "watermark-config") {
		t.Errorf("the option is %s", told)
	}
	for _, options := range [][]string{{stage.Options[0].ID}, {"", cfg.Tunes[0].Stages[1].Options[0].ID}} {
		if text, err := cfg.Tunes[0].Candidate(options).Text("best", "The best"); err == nil || text != "" {
			t.Errorf("of %q is written, with the error %v:\n%s", options, err, text)
		}
	}
}

// TestTuneProposed: a line of a proposer is a candidate, or it is said why it is none.
func TestTuneProposed(t *testing.T) {
	lab := func(propose string) string {
		return `
host "h" {
  address = "local"
  runtime = "process"
}
engine "sim" "e" {
  host  = host.h
  flags = { itl = "10ms" }
}
dataset "random" "d" { input_tokens = 16 }
benchmark "chat" {
  engine   = engine.sim.e
  dataset  = dataset.random.d
  requests = 8
  load {
    concurrency   = 4
    output_tokens = 16
  }
}
tune "pace" {
  objective = benchmark.chat
  start     = engine.sim.e
  propose   = ` + propose + `
  stage "s" { flags = [{ itl = "2ms" }] }
  budget { starts = 12 }
}`
	}
	cfg, problems := loadText(t, lab(`["propose"]`), lang.Vars{})
	if cfg == nil {
		t.Fatal(printed(t, problems))
	}
	tuning := &cfg.Tunes[0]
	for line, want := range map[string]string{
		`{"flags": {"itl": "1ms"}, "predicted": 200}`:                    "",
		`{"engine": "sim.e", "flags": {"itl": null}, "env": {"A": "b"}}`: "",
		`{"options": ["itl=2ms"]}`:                                       "",
		`{"options": ["itl=3ms"]}`:                                       "has no option",
		`{"options": [""]}`:                                              "one for each in their order",
		`{"options": ["itl=2ms"], "flags": {"itl": "1ms"}}`:              "nothing beside them",
		`{"flags": {}}`:                                                  "it changes nothing",
		`{}`:                                                             "it changes nothing",
		`{"flags": {"itl": "1ms"}, "predicted": -1}`:                     "cannot be predicted",
		`{"flags": {"itl": "1ms"}, "predicted": 1e999}`:                  "it is no candidate",
		`{"flags": {"itl": "1ms"}} {"flags": {"itl": "2ms"}}`:            "more than one object",
		`{"flags": {"itl": "1ms"}}]`:                                     "more than one object",
		`{"flags": [1]}`:                                                 "it is no object",
		`{"flags": null}`:                                                "it is no object",
		`{"engine": "sim.other", "flags": {"itl": "1ms"}}`:               "has no engine",
		`{"env": {"A=B": "c"}}`:                                          "an environment variable",
		`{"seed": 4}`:                                                    "unknown field",
		`itl=1ms`:                                                        "it is no candidate",
		`{"flags": {"itl": "` + strings.Repeat("1", mostLine) + `"}}`:    "more than 4096 bytes",
	} {
		p, err := tuning.Propose(line)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if (want == "") != (err == nil) || !strings.Contains(said, want) {
			t.Errorf("%.80s: %+v, %v, want %q", line, p, err, want)
		}
	}
	for lines, want := range map[string]string{
		`"{\"flags\": {\"itl\": \"1ms\"}}\n{\"flag\": {}}"`: "Line 2: it is no candidate",
		`" "`:  "There is no candidate in it",
		`[]`:   "a command such as",
		`[""]`: "a command such as",
	} {
		_, problems := loadText(t, lab(lines), lang.Vars{})
		if said := strings.Join(strings.Fields(printed(t, problems)), " "); !strings.Contains(said, want) {
			t.Errorf("propose = %s: said %q, want %q", lines, said, want)
		}
	}
}
