package hcl

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

// labOf is ten loads of the engines of 1,000 hosts, which are written here.
func labOf(blocks, engines string) *lang.Source {
	return &lang.Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte(blocks + `
model "m" {
  repo = "org/model"
}
dataset "random" "d" {
  input_tokens = 1024
}
benchmark "b" {
  matrix {
    engine = ` + engines + `
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

// ofHost is a host and an engine on it, both of which begin alike.
func ofHost(name, head, address, host string) string {
	return fmt.Sprintf(`
host %q {
%s
  address = %s
  gpus    = "8xH200"
}
engine "vllm" %[1]q {
%[2]s
  host  = %[4]s
  model = model.m
  image = "vllm/vllm-openai:v0.11.0"
  flags = { tensor-parallel-size = matrix.tp, max-model-len = 8192 }
}
`, name, head, address, host)
}

func writtenLab() *lang.Source {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(ofHost(fmt.Sprintf("h%d", i), "", fmt.Sprintf(`"10.0.%d.%d"`, i/250, i%250+1), fmt.Sprintf("host.h%d", i)))
	}
	return labOf(b.String(), "values(engine.vllm)")
}

// eachLab is the same lab, written with for_each.
func eachLab() *lang.Source {
	const boxes = `locals {
  boxes = { for i in range(1000) : "h${i}" => "10.0.${floor(i / 250)}.${i % 250 + 1}" }
}
`
	return labOf(boxes+ofHost("all", "for_each = local.boxes", "each.value", "host.all[each.key]"), "values(engine.vllm.all)")
}

// BenchmarkLoad reads a lab of 10,000 cells over 1,000 hosts, each written out or
// made by for_each. The goal is under 1 s and 300 MB; heap-MB is what is in use at
// the end, garbage included.
func BenchmarkLoad(b *testing.B) {
	for name, src := range map[string]*lang.Source{"written": writtenLab(), "for_each": eachLab()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, p := Load(src, lang.Vars{})
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

// TestWrongHasNoEffect: what is wrong is told, and not that another argument has no effect without it.
func TestWrongHasNoEffect(t *testing.T) {
	for _, c := range []struct{ dataset, load string }{
		{"range_ratio = 2\n  convention = \"vllm\"", "rate = 1"},
		{"", "rate = -1\n  burstiness = 2"},
	} {
		_, p := loadText(t, `
model "m" { repo = "m" }
engine "external" "a" {
  urls  = ["http://a:1"]
  model = model.m
}
dataset "random" "r" {
  input_tokens = 8
  `+c.dataset+`
}
benchmark "b" {
  engine   = engine.external.a
  dataset  = dataset.random.r
  requests = 1
  load {
    output_tokens = 8
    `+c.load+`
  }
}`, lang.Vars{})
		if all := p.List(); len(all) != 1 || all[0].Summary != "Wrong value" {
			t.Errorf("%s, %s: %v", c.dataset, c.load, all)
		}
	}
}
