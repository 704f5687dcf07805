package hcl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/load"
)

// nodes are four hosts of one fabric, a model, a data set and two recipes.
const nodes = `
host "node" {
  for_each = { a = 1, b = 2, c = 3, d = 4 }
  address  = "203.0.113.${each.value}"
  gpus     = "8xH200"
  fabric {
    address   = "10.0.0.${each.value}"
    interface = "eno1"
    rdma      = ["mlx5_0"]
    gid_index = 3
  }
}
model "m" {
  repo = "org/model"
}
dataset "random" "d" {
  input_tokens = 128
}
locals {
  nodes = values(host.node)
}
engine "sglang" "base" {
  model = model.m
  image = "lmsysorg/sglang:v0.5.8.post1-cu130"
  flags = { tp-size = 8 }
}
engine "sglang" "prefill" {
  inherits = engine.sglang.base
}
engine "sglang" "decode" {
  inherits = engine.sglang.base
  flags    = { max-running-requests = 256 }
}
`

// pd is a group of them, and what more it says.
func pd(more string) string {
	return `
group "pd" {
  role "decode" {
    engine = engine.sglang.decode
    on     = slice(local.nodes, 2, 3)
  }
  role "prefill" {
    engine = engine.sglang.prefill
    on     = slice(local.nodes, 0, 2)
  }
  router "sglang" {
    host  = host.node["a"]
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
    flags = { policy = "random" }
  }
` + more + `
}
`
}

// topology is a group as one reads it: roles with hosts and GPUs, router, transfer.
func topology(e *engines.Engine) string {
	var b strings.Builder
	b.WriteString(e.Label())
	role := ""
	for _, in := range e.Placement {
		switch {
		case in.Role == engines.Route:
			fmt.Fprintf(&b, "; %s on", in.Engine.Kind)
		case in.Role != role:
			fmt.Fprintf(&b, "; %s of %s on", in.Role, in.Engine.Name)
		}
		role = in.Role
		b.WriteString(" ")
		for i, h := range in.Hosts {
			if i > 0 {
				b.WriteString("+")
			}
			b.WriteString(strings.TrimPrefix(h.Name, "node-"))
		}
		if in.GPUIDs != nil {
			fmt.Fprint(&b, in.GPUIDs)
		}
		if in.Role == engines.Route {
			for _, f := range in.Engine.Flags {
				fmt.Fprintf(&b, " --%s %s", f.Name, f.Value)
			}
		}
	}
	if e.Transfer != "" {
		fmt.Fprintf(&b, "; %s", e.Transfer)
	}
	return b.String()
}

// TestGroups: what groups become, by what they inherit, for each key and in each cell.
func TestGroups(t *testing.T) {
	c := mustLoad(t, nodes+pd(`  transfer = "nixl"`)+`
group "faster" {
  inherits = group.pd
  role "decode" { on = [host.node["d"]] }
  router "sglang" { flags = { policy = "round_robin" } }
}
group "wide" {
  inherits = group.pd
  role "decode" {
    engine = engine.sglang.wide
    on     = [host.node["c"], host.node["d"]]
    span   = 2
  }
  router "openai" {
    host    = host.node["b"]
    image   = "registry.example.com/proxy:1"
    command = ["proxy"]
    port    = 8000
  }
}
engine "sglang" "wide" {
  inherits = engine.sglang.base
  flags    = { tp-size = 16 }
}
group "half" {
  for_each = { lower = "0", upper = "4" }
  role "serve" {
    engine  = engine.sglang.half
    on      = [host.node["a"], host.node["a"]]
    gpu_ids = [[each.value], [each.value + 1]]
  }
}
engine "sglang" "half" {
  inherits = engine.sglang.base
  flags    = { tp-size = 1 }
}
group "matrix" {
  role "prefill" {
    engine = engine.sglang.prefill
    on     = slice(local.nodes, 0, matrix.prefill)
  }
  role "decode" {
    engine = engine.sglang.decode
    on     = [host.node["d"]]
  }
  router "sglang" {
    host  = host.node["a"]
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
  }
}
`+benchmarkOf(`
  matrix {
    engine = concat([group.pd, group.faster, group.wide], values(group.half))
  }
  matrix {
    prefill = [1, 3]
    engine  = [group.matrix]
  }
`, ""), lang.Vars{})
	var got []string
	for _, x := range c.Benchmarks[0].Cells {
		got = append(got, fmt.Sprint(x.Axes[len(x.Axes)-1].Value)+": "+topology(x.Engine))
	}
	want := []string{
		"group.pd: group.pd; prefill of prefill on a b; decode of decode on c; sglang_router on a --policy random; nixl",
		"group.faster: group.faster; prefill of prefill on a b; decode of decode on d; sglang_router on a --policy round_robin; nixl",
		"group.wide: group.wide; prefill of prefill on a b; decode of wide on c+d; openai on b; nixl",
		`group.half["lower"]: group.half["lower"]; serve of half on a[0] a[1]`,
		`group.half["upper"]: group.half["upper"]; serve of half on a[4] a[5]`,
		"group.matrix: group.matrix; prefill of prefill on a; decode of decode on d; sglang_router on a",
		"group.matrix: group.matrix; prefill of prefill on a b c; decode of decode on d; sglang_router on a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	got = nil
	for _, e := range c.Engines {
		got = append(got, e.Label())
	}
	if want := []string{
		"group.pd", "group.faster", "group.wide", `group.half["lower"]`, `group.half["upper"]`, "group.matrix", "group.matrix",
	}; !slices.Equal(got, want) {
		t.Errorf("Engines = %q, want %q", got, want)
	}
}

// TestHosts: one engine over several hosts, of which inheritance makes one of one host, and back.
func TestHosts(t *testing.T) {
	c := mustLoad(t, nodes+pd("")+`
engine "sglang" "wide" {
  inherits = engine.sglang.base
  hosts    = [host.node["b"], host.node["a"]]
  flags    = { tp-size = 16 }
}
engine "sglang" "narrow" {
  inherits = engine.sglang.wide
  host     = host.node["c"]
  flags    = { tp-size = 8 }
}
engine "sglang" "again" {
  inherits = engine.sglang.narrow
  hosts    = slice(local.nodes, 0, matrix.n)
  flags    = { tp-size = 8 * matrix.n }
}
group "recipe" {
  role "serve" {
    engine = engine.sglang.recipe
    on     = [host.node["d"]]
  }
}
group "own" {
  role "serve" {
    engine = engine.openai.own
    on     = slice(local.nodes, 0, 2)
  }
}
engine "openai" "own" {
  image   = "registry.example.com/server:1"
  command = ["server"]
}
engine "sglang" "recipe" {
  inherits = engine.sglang.narrow
  host     = null
}
`+benchmarkOf(`
  matrix {
    n      = [2, 3]
    engine = [engine.sglang.wide, engine.sglang.narrow, engine.sglang.again, group.recipe, group.own]
  }
  exclude { when = matrix.n == 3 && matrix.engine.name != "again" }
`, ""), lang.Vars{})
	var got []string
	for _, x := range c.Benchmarks[0].Cells {
		said := x.Engine.Label() + ":"
		for _, m := range engines.Members(x.Engine) {
			said += " " + m.Engine.Host().Fabric.Address
		}
		got = append(got, said)
	}
	want := []string{
		"sglang.wide: 10.0.0.2 10.0.0.1", "sglang.narrow: 10.0.0.3", "sglang.again: 10.0.0.1 10.0.0.2", "group.recipe: 10.0.0.4",
		"group.own: 10.0.0.1 10.0.0.2",
		"sglang.again: 10.0.0.1 10.0.0.2 10.0.0.3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("engines (-want +got):\n%s", diff)
	}
	h := c.Hosts[1]
	if f := h.Fabric; f.Interface != "eno1" || !slices.Equal(f.RDMA, []string{"mlx5_0"}) || f.GIDIndex == nil || *f.GIDIndex != 3 {
		t.Errorf("fabric of %s is %+v", h, f)
	}
}

// TestTokenIDsBehindRouter: SGLang's router takes no prompts of token ids on completions, so another endpoint is the one
// where nothing is said, or the text says which to write.
func TestTokenIDsBehindRouter(t *testing.T) {
	one := func(group, endpoint string) string {
		return nodes + pd("") + `
group "plain" {
  role "serve" {
    engine = engine.vllm.v
    on     = [host.node["d"]]
  }
  router "sglang" {
    host  = host.node["a"]
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
  }
}
engine "vllm" "v" {
  model = model.m
  image = "vllm/vllm-openai:v0.30.0"
  flags = { tensor-parallel-size = 8 }
}
benchmark "b" {
  engine   = ` + group + `
  dataset  = dataset.random.d
  requests = 64
  load {
    concurrency   = 4
    output_tokens = 16
    ` + endpoint + `
  }
}`
	}
	c := mustLoad(t, one("group.pd", ""), lang.Vars{})
	if got := c.Benchmarks[0].Cells[0].Workload.Endpoint; got != load.Generate {
		t.Errorf("the endpoint is %s, want %s", got, load.Generate)
	}
	c = mustLoad(t, one("group.plain", `endpoint = "chat"`), lang.Vars{})
	if got := c.Benchmarks[0].Cells[0].Workload.Endpoint; got != load.Chat {
		t.Errorf("the endpoint is %s, want %s", got, load.Chat)
	}
	for _, wrong := range []struct{ group, endpoint, want string }{
		{"group.pd", `endpoint = "completions"`, `Write endpoint = "generate".`},
		{"group.plain", "", `Write endpoint = "chat".`},
	} {
		_, p := loadText(t, one(wrong.group, wrong.endpoint), lang.Vars{})
		if text := strings.Join(strings.Fields(printed(t, p)), " "); !strings.Contains(text, "No token ids") || !strings.Contains(text, wrong.want) {
			t.Errorf("%s with %q: %s", wrong.group, wrong.endpoint, text)
		}
	}
}
