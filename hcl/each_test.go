package hcl

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/hcl/lang"
)

func TestForEach(t *testing.T) {
	const lab = `
locals {
  boxes = { b = "203.0.113.2", a = "203.0.113.1" }
}
host "box" {
  for_each = local.boxes
  address  = each.value
  user     = "u-${each.key}"
  gpus     = "8xH200"
}
model "m" {
  repo = "org/model"
}
engine "vllm" "all" {
  for_each = host.box
  host     = host.box[each.key]
  model    = model.m
  image    = "vllm/vllm-openai:v0.11.0"
  flags    = { tensor-parallel-size = matrix.tp, served-model-name = "${each.key}-${each.value.address}" }
}
engine "vllm" "odd" {
  for_each = ["z", 3, "org/x"]
  inherits = engine.vllm.all["a"]
  flags    = { served-model-name = each.value, max-num-seqs = length(host.box[*].address) }
}
engine "vllm" "none" { // is right, as long as nobody asks for one
  for_each = {}
  inherits = engine.vllm.all["a"]
}
dataset "random" "d" {
  input_tokens = 128
}
`
	for matrix, want := range map[string][]string{
		`engine = values(engine.vllm.all)`: {
			`engine=vllm.all["a"] tp=4 all-a --served-model-name a-203.0.113.1 --tensor-parallel-size 4`,
			`engine=vllm.all["a"] tp=8 all-a --served-model-name a-203.0.113.1 --tensor-parallel-size 8`,
			`engine=vllm.all["b"] tp=4 all-b --served-model-name b-203.0.113.2 --tensor-parallel-size 4`,
			`engine=vllm.all["b"] tp=8 all-b --served-model-name b-203.0.113.2 --tensor-parallel-size 8`,
		},
		`engine = concat(values(engine.vllm.none), [for k, e in engine.vllm.all : e if k != "a"])`: {
			`engine=vllm.all["b"] tp=4 all-b --served-model-name b-203.0.113.2 --tensor-parallel-size 4`,
			`engine=vllm.all["b"] tp=8 all-b --served-model-name b-203.0.113.2 --tensor-parallel-size 8`,
		},
		`engine = concat([engine.vllm.odd["org/x"]], engine.vllm.odd[*], [engine.vllm.all.b])`: {
			`engine=vllm.odd["org/x"] tp=4 odd-org-x --max-num-seqs 2 --served-model-name org/x --tensor-parallel-size 4`,
			`engine=vllm.odd["org/x"] tp=8 odd-org-x --max-num-seqs 2 --served-model-name org/x --tensor-parallel-size 8`,
			`engine=vllm.odd["3"] tp=4 odd-3 --max-num-seqs 2 --served-model-name 3 --tensor-parallel-size 4`,
			`engine=vllm.odd["3"] tp=8 odd-3 --max-num-seqs 2 --served-model-name 3 --tensor-parallel-size 8`,
			`engine=vllm.odd["z"] tp=4 odd-z --max-num-seqs 2 --served-model-name z --tensor-parallel-size 4`,
			`engine=vllm.odd["z"] tp=8 odd-z --max-num-seqs 2 --served-model-name z --tensor-parallel-size 8`,
			`engine=vllm.all["b"] tp=4 all-b --served-model-name b-203.0.113.2 --tensor-parallel-size 4`,
			`engine=vllm.all["b"] tp=8 all-b --served-model-name b-203.0.113.2 --tensor-parallel-size 8`,
		},
	} {
		c := mustLoad(t, lab+benchmarkOf("matrix {\n"+matrix+"\ntp = [4, 8]\n}", ""), lang.Vars{})
		if diff := cmp.Diff(want, cells(c)); diff != "" {
			t.Errorf("%s: cells (-want +got):\n%s", matrix, diff)
		}
	}
	c := mustLoad(t, lab+benchmarkOf("matrix {\nengine = engine.vllm.all[*]\ntp = [4, 8]\n}\nexclude { when = matrix.engine.key == \"a\" || matrix.engine.host.user == \"u-c\" }", ""), lang.Vars{})
	if got, want := len(c.Benchmarks[0].Cells), 2; got != want {
		t.Errorf("%d cells, want %d", got, want)
	}
	e := c.Benchmarks[0].Cells[0].Engine
	if e.Host() != c.Hosts[1] || e.Host().Name != "box-b" || e.Host().User != "u-b" || e.Address() != `engine.vllm.all["b"]` {
		t.Errorf("engine %s on host %+v, want the instance b of both", e.Address(), e.Host())
	}
}
