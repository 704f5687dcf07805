package hcl

import (
	"testing"

	"hclbench/hcl/lang"
)

// TestBaseline: a report's baseline is an engine as results call it: also one that is another in each
// cell, an instance of a repeated block, or a group.
func TestBaseline(t *testing.T) {
	const lab = `
host "h" {
  address = "203.0.113.7"
  gpus    = "8xH200"
}
model "m" { repo = "org/model" }
engine "vllm" "a" {
  host  = host.h
  model = model.m
  image = "vllm/vllm-openai:v0.11.0"
  flags = { tensor-parallel-size = matrix.tp }
}
engine "vllm" "each" {
  for_each = ["x", "y"]
  host     = host.h
  model    = model.m
  image    = "vllm/vllm-openai:v0.11.0"
}
engine "vllm" "part" {
  model = model.m
  image = "vllm/vllm-openai:v0.11.0"
  flags = { tensor-parallel-size = 8 }
}
group "twice" {
  role "serve" {
    engine = engine.vllm.part
    on     = [host.h]
  }
}
dataset "random" "d" { input_tokens = 128 }
benchmark "online" {
  matrix {
    tp     = [1, 8]
    engine = [engine.vllm.a, engine.vllm.each["x"], engine.vllm.each["y"], group.twice]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 100
  load {
    concurrency   = 4
    output_tokens = 64
  }
}
`
	for said, want := range map[string]string{
		"engine.vllm.a": "vllm.a", `engine.vllm.each["y"]`: `vllm.each["y"]`, "group.twice": "group.twice",
	} {
		c := mustLoad(t, lab+"report { baseline = "+said+" }\n", lang.Vars{})
		if c.Report.Baseline == nil || c.Report.Baseline.Label() != want {
			t.Errorf("%s becomes %v, want %s", said, c.Report.Baseline, want)
		}
	}
}
