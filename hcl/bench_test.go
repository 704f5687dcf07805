package hcl

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// largeLab is 1,000 hosts with an engine each, and a matrix of ten loads.
func largeLab() *Source {
	var b strings.Builder
	b.WriteString("model \"m\" {\n  repo = \"org/model\"\n}\ndataset \"random\" \"d\" {\n  input_tokens = 1024\n}\n")
	var names []string
	for i := range 1000 {
		fmt.Fprintf(&b, "host \"h%d\" {\n  address = \"10.0.%d.%d\"\n  gpus = \"8xH200\"\n}\n", i, i/250, i%250+1)
		fmt.Fprintf(&b, "engine \"vllm\" \"e%d\" {\n  host = host.h%d\n  model = model.m\n  image = \"vllm/vllm-openai:v0.11.0\"\n  flags = { tensor-parallel-size = matrix.tp, max-model-len = 8192 }\n}\n", i, i)
		names = append(names, fmt.Sprintf("engine.vllm.e%d", i))
	}
	fmt.Fprintf(&b, `benchmark "b" {
  matrix {
    engine      = [%s]
    tp          = [4, 8]
    concurrency = [for i in range(5) : pow(2, i)]
  }
  exclude { when = matrix.engine.host.gpus == "8xMI300X" }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = max(100, 4 * matrix.concurrency)
  load {
    concurrency   = matrix.concurrency
    output_tokens = 256
  }
  slo { ttft_p99 = "5s" }
}
`, strings.Join(names, ", "))
	return &Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte(b.String())}}
}

// eachLab is the same lab, written with for_each.
func eachLab() *Source {
	return &Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte(`
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
    engine = values(engine.vllm.all)
    tp     = [4, 8]
    zip {
      concurrency   = [for i in range(5) : pow(2, i)]
      output_tokens = [256, 256, 128, 64, 32]
    }
  }
  exclude { when = matrix.engine.host.gpus == "8xMI300X" }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = max(100, 4 * matrix.concurrency)
  load {
    concurrency   = matrix.concurrency
    output_tokens = matrix.output_tokens
  }
  slo { ttft_p99 = "5s" }
}
`)}}
}

// BenchmarkLoad reads a lab of 10,000 cells over 1,000 hosts, each written out or
// made by for_each. The goal is under 1 s and 300 MB; heap-MB is what is in use at
// the end, garbage included.
func BenchmarkLoad(b *testing.B) {
	for name, src := range map[string]*Source{"written": largeLab(), "for_each": eachLab()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, p := Load(src, Vars{})
				if p.HasErrors() {
					b.Fatal(p.List()[0])
				}
				if got := len(c.Benchmarks[0].Cells); got != 10_000 {
					b.Fatalf("%d cells, want 10000", got)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapSys)/1e6, "heap-MB")
			b.ReportMetric(0, "B/op")
		})
	}
}
