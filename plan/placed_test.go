package plan

import (
	"strings"
	"testing"
)

// placedLab has the benchmark of the labs below; ENGINE and FROM stand for what they differ in.
const placedLab = `
model "m" {
  repo  = "org/model"
  cache = "/data/hf"
}
dataset "random" "d" { input_tokens = 128 }
benchmark "b" {
  engine   = ENGINE
  dataset  = dataset.random.d
  requests = 100
  load {
    concurrency   = 4
    output_tokens = 64
    FROM
  }
}
`

// placed are labs whose engines have several members, or whose load comes from elsewhere, with edits.
var placed = map[string]struct {
	lab, engine, from string
	harmless, changes []edit
}{
	"wide": {
		lab: `lab "placed" {}
host "a" {
  address = "203.0.113.1"
  gpus    = "8xH200"
  fabric {
    address   = "10.0.0.1"
    interface = "eno1"
    rdma      = ["mlx5_0", "mlx5_1"]
    gid_index = 3
  }
  prepare { numa_balancing = false }
}
host "b" {
  address = "203.0.113.2"
  gpus    = "8xH200"
  fabric {
    address   = "10.0.0.2"
    interface = "eno1"
    rdma      = ["mlx5_0", "mlx5_1"]
    gid_index = 3
  }
  prepare { numa_balancing = false }
}
engine "sglang" "wide" {
  hosts = [host.a, host.b]
  model = model.m
  image = "lmsysorg/sglang:v0.5.3"
  flags = { tp = 16, host = "0.0.0.0" }
}
host "client" { address = "203.0.113.3" }
host "other" {
  address = "203.0.113.4"
  gpus    = "1xL4"
}
`, engine: "engine.sglang.wide", from: "from = host.client",
		harmless: []edit{
			{what: "a machine moved", old: `"203.0.113.2"`, new: `"198.51.100.2"`},
			{what: "its address in the fabric", old: `"10.0.0.2"`, new: `"10.0.1.2"`},
			{what: "rails in another order", old: "\"mlx5_0\", \"mlx5_1\"]\n    gid_index = 3\n  }\n  prepare { numa_balancing = false }\n}\nengine", new: "\"mlx5_1\", \"mlx5_0\"]\n    gid_index = 3\n  }\n  prepare { numa_balancing = false }\n}\nengine"},
			{what: "another client, with GPUs", old: "from = host.client", new: "from = host.other"},
			{what: "the client moved", old: `"203.0.113.3"`, new: `"198.51.100.3"`},
			{what: "a host renamed", old: "host.b", new: "host.c"},
			{what: "letters of GPUs", old: `"8xH200"`, new: `"8xh200"`},
			{what: "another port", old: `"wide" {`, new: "\"wide\" {\n  port = 31000"},
			{what: "a price", old: `address = "203.0.113.2"`, new: "address = \"203.0.113.2\"\n  price_per_hour = 3"},
		},
		changes: []edit{
			{what: "no RDMA", old: `["mlx5_0", "mlx5_1"]`, new: `[]`},
			{what: "one rail", old: `["mlx5_0", "mlx5_1"]`, new: `["mlx5_0"]`},
			{what: "devices not said", old: `rdma      = ["mlx5_0", "mlx5_1"]`, new: ``},
			{what: "another interface", old: `"eno1"`, new: `"ib0"`},
			{what: "interface not said", old: `interface = "eno1"`, new: ``},
			{what: "another GID", old: `gid_index = 3`, new: `gid_index = 1`},
			{what: "RDMA of the second host", old: "rdma      = [\"mlx5_0\", \"mlx5_1\"]\n    gid_index = 3\n  }\n  prepare { numa_balancing = false }\n}\nengine", new: "rdma = []\n  }\n  prepare { numa_balancing = false }\n}\nengine"},
			{what: "power of the second host", old: "prepare { numa_balancing = false }\n}\nengine", new: "prepare {\n    numa_balancing = false\n    power_cap = 400\n  }\n}\nengine"},
			{what: "clocks of the second host", old: "prepare { numa_balancing = false }\n}\nengine", new: "prepare {\n    numa_balancing = false\n    lock_clocks = 1200\n  }\n}\nengine"},
			{what: "NUMA balancing of the second host", old: "prepare { numa_balancing = false }\n}\nengine", new: "prepare { numa_balancing = true }\n}\nengine"},
			{what: "no prepare there", old: "prepare { numa_balancing = false }\n}\nengine", new: "}\nengine"},
			{what: "other GPUs", old: `"8xH200"`, new: `"8xH100"`},
			{what: "the head sends", old: "from = host.client", new: ""},
			{what: "the second rank's host sends", old: "from = host.client", new: "from = host.b"},
			{what: "two clients", old: "from = host.client", new: "from = [host.client, host.other]"},
			{what: "processes", old: `address = "203.0.113.2"`, new: "address = \"203.0.113.2\"\n  runtime = \"process\""},
		},
	},
	"group": {
		lab: `lab "placed" {}
host "a" {
  address = "203.0.113.1"
  gpus    = "8xH200"
}
host "b" {
  address = "203.0.113.2"
  gpus    = "8xH200"
}
host "c" {
  address = "203.0.113.3"
}
engine "vllm" "serve" {
  model = model.m
  image = "vllm/vllm-openai:v0.14.0"
  flags = { tensor-parallel-size = 4 }
}
group "pd" {
  role "prefill" {
    engine  = engine.vllm.serve
    on      = [host.a, host.a]
    gpu_ids = [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
  }
  role "decode" {
    engine = engine.vllm.serve
    on     = [host.b]
  }
  router "vllm" {
    host  = host.c
    image = "vllm/vllm-router:v0.1.14"
    port  = 30000
  }
}
`, engine: "group.pd",
		harmless: []edit{
			{what: "all GPUs by their numbers", old: "on     = [host.b]", new: "on     = [host.b]\n    gpu_ids = [\"0\", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\"]"},
			{what: "the usual transfer", old: `group "pd" {`, new: "group \"pd\" {\n  transfer = \"nixl\""},
			{what: "the router's port", old: `30000`, new: `30001`},
			{what: "the router's host moved", old: `"203.0.113.3"`, new: `"198.51.100.3"`},
			{what: "described", old: `group "pd" {`, new: "group \"pd\" {\n  description = \"text\""},
			{what: "GPUs beside the router", old: `address = "203.0.113.3"`, new: "address = \"203.0.113.3\"\n  gpus = \"1xT4\""},
			{what: "an address in the fabric", old: "host \"b\" {", new: "host \"b\" {\n  fabric { address = \"10.0.0.2\" }"},
		},
		changes: []edit{
			{what: "no RDMA for decode", old: "host \"b\" {", new: "host \"b\" {\n  fabric { rdma = [] }"},
			{what: "an interface for prefill", old: "host \"a\" {", new: "host \"a\" {\n  fabric { interface = \"ib0\" }"},
			{what: "a GID for prefill", old: "host \"a\" {", new: "host \"a\" {\n  fabric { gid_index = 1 }"},
			{what: "power of decode", old: "host \"b\" {", new: "host \"b\" {\n  prepare { power_cap = 400 }"},
			{what: "NUMA balancing beside the router", old: "host \"c\" {", new: "host \"c\" {\n  prepare { numa_balancing = true }"},
			{what: "the halves of prefill", old: `["0", "1", "2", "3"], ["4", "5", "6", "7"]`, new: `["0", "1", "4", "5"], ["2", "3", "6", "7"]`},
			{what: "one prefill", old: "[host.a, host.a]\n    gpu_ids = [[\"0\", \"1\", \"2\", \"3\"], [\"4\", \"5\", \"6\", \"7\"]]", new: "[host.a]"},
			{what: "the router beside decode", old: "host  = host.c", new: "host  = host.b"},
			{what: "another router", old: "router:v0.1.14", new: "router:v0.1.15"},
			{what: "another transfer", old: `group "pd" {`, new: "group \"pd\" {\n  transfer = \"mooncake\""},
			{what: "a flag of both", old: "size = 4 }", new: "size = 4, max-num-seqs = 64 }"},
			{what: "a flag of the router", old: "port  = 30000", new: "port  = 30000\n    flags = { policy = \"round_robin\" }"},
			{what: "a variable", old: "size = 4 }", new: "size = 4 }\n  env = { X = \"1\" }"},
		},
	},
	"pods": {
		lab: `lab "placed" {}
cluster "moai" {
  kubeconfig = "moai.yaml"
  namespace  = "lab"
  image      = "debian:12"
}
host "a" {
  cluster = cluster.moai
  gpus    = "8xH200"
  requests = { cpu = "32" }
}
host "b" {
  cluster = cluster.moai
  gpus    = "8xH200"
  requests = { cpu = "32" }
}
host "client" {
  cluster = cluster.moai
  limits  = { cpu = "64" }
}
host "machine" { address = "203.0.113.9" }
engine "sglang" "wide" {
  hosts = [host.a, host.b]
  model = model.m
  image = "lmsysorg/sglang:v0.5.3"
  flags = { tp = 16, host = "0.0.0.0" }
}
`, engine: "engine.sglang.wide", from: "from = host.client",
		harmless: []edit{
			{what: "another namespace", old: `"lab"`, new: `"other"`},
			{what: "nodes", old: `"debian:12"`, new: "\"debian:12\"\n  node_selector = { pool = \"x\" }"},
			{what: "the image of helpers", old: `"debian:12"`, new: `"busybox:1"`},
			{what: "the cluster renamed", old: `cluster.moai`, new: `cluster.moai2`},
			{what: "GPUs of the client", old: `limits  = { cpu = "64" }`, new: "limits  = { cpu = \"64\" }\n  gpus = \"1xT4\""},
		},
		changes: []edit{
			{what: "processors of the second pod", old: "requests = { cpu = \"32\" }\n}\nhost \"client\"", new: "requests = { cpu = \"2\" }\n}\nhost \"client\""},
			{what: "memory of the second pod", old: "requests = { cpu = \"32\" }\n}\nhost \"client\"", new: "requests = { cpu = \"32\" }\n  limits = { memory = \"64Gi\" }\n}\nhost \"client\""},
			{what: "processors of both", old: `cpu = "32"`, new: `cpu = "16"`},
			{what: "a smaller client", old: `limits  = { cpu = "64" }`, new: `limits  = { cpu = "2" }`},
			{what: "the runtime class", old: `"debian:12"`, new: "\"debian:12\"\n  runtime_class = \"nvidia\""},
			{what: "an annotation", old: `"debian:12"`, new: "\"debian:12\"\n  annotations = { net = \"rdma\" }"},
			{what: "the network of nodes", old: `"debian:12"`, new: "\"debian:12\"\n  host_network = true"},
			{what: "no RDMA", old: "host \"b\" {", new: "host \"b\" {\n  fabric { rdma = [] }"},
			{what: "shared memory", old: `"wide" {`, new: "\"wide\" {\n  container { shm_size = \"32GB\" }"},
			{what: "the second pod sends", old: "from = host.client", new: "from = host.b"},
			{what: "the engine's pod sends", old: "from = host.client", new: ""},
		},
	},
	"remote": {
		lab: `lab "placed" {}
host "client" { address = "203.0.113.3" }
cluster "moai" { image = "debian:12" }
host "pod" { cluster = cluster.moai }
engine "external" "e" {
  url   = "http://192.0.2.1:8000"
  model = model.m
}
`, engine: "engine.external.e", from: "from = host.client",
		harmless: []edit{{what: "the client moved", old: `"203.0.113.3"`, new: `"198.51.100.3"`}},
		changes: []edit{
			{what: "a pod sends", old: "from = host.client", new: "from = host.pod"},
			{what: "this machine sends", old: "from = host.client", new: ""},
		},
	},
}

// TestPlacedEdits is [TestTableOfEdits] for labs whose engines have several members.
func TestPlacedEdits(t *testing.T) {
	edits := 0
	for name, p := range placed {
		lab := p.lab + strings.NewReplacer("ENGINE", p.engine, "FROM", p.from).Replace(placedLab)
		known := measured(New(readLab(t, lab), Options{}))
		done := func(t *testing.T, e edit) bool {
			edits++
			text := strings.ReplaceAll(lab, e.old, e.new)
			if from, to, ok := strings.Cut(e.old+" "+e.new, " "); ok && strings.Contains(e.what, "renamed") {
				kind, was, _ := strings.Cut(from, ".")
				_, is, _ := strings.Cut(to, ".")
				text = strings.ReplaceAll(text, kind+" \""+was+"\"", kind+" \""+is+"\"")
			}
			if !strings.Contains(lab, e.old) {
				t.Errorf("%s, %s: the lab has no %q", name, e.what, e.old)
			}
			return New(readLab(t, text), Options{Known: known}).Deployments[0].Cells[0].Status == Done
		}
		for _, e := range p.harmless {
			t.Run(name+"/"+e.what, func(t *testing.T) {
				if !done(t, e) {
					t.Error("measured again for nothing")
				}
			})
		}
		for _, e := range p.changes {
			t.Run(name+"/"+e.what, func(t *testing.T) {
				if done(t, e) {
					t.Error("the old number is kept")
				}
			})
		}
	}
	if edits < 60 {
		t.Errorf("%d edits", edits)
	}
}
