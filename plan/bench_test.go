package plan_test

import (
	"runtime"
	"testing"

	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plan"
)

// BenchmarkPlan reads and plans a lab of 10,000 cells over 1,000 hosts. The goal
// is under 1 s and 300 MB; heap-MB is what is in use at the end, garbage included.
func BenchmarkPlan(b *testing.B) {
	src := &lang.Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte(`
lab "large" {}
locals {
  boxes = { for i in range(1000) : "h${i}" => "10.0.${floor(i / 250)}.${i % 250 + 1}" }
}
model "m" {
  repo = "org/model"
}
dataset "random" "d" {
  input_tokens = 1024
}
host "all" {
  for_each = local.boxes
  address  = each.value
  gpus     = "8xH200"
}
engine "vllm" "all" {
  for_each = local.boxes
  host     = host.all[each.key]
  model    = model.m
  image    = "vllm/vllm-openai:v0.11.0"
  flags    = { tensor-parallel-size = matrix.tp, max-model-len = 8192 }
}
benchmark "b" {
  matrix {
    engine      = values(engine.vllm.all)
    tp          = [4, 8]
    concurrency = [for i in range(5) : pow(2, i)]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = max(100, 4 * matrix.concurrency)
  load {
    concurrency   = matrix.concurrency
    output_tokens = 256
  }
}
`)}}
	for b.Loop() {
		c, problems := hcl.Load(src, lang.Vars{})
		if problems.HasErrors() {
			b.Fatal(problems.List()[0])
		}
		if got := plan.New(c, plan.Options{}).Count(); got.Cells != 10_000 || got.Deployments != 2_000 {
			b.Fatalf("planned %+v", got)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapSys)/1e6, "heap-MB")
}
