package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hclbench/testhost"
)

// nodes are three hosts on a network of their own, and somebody with a lab of them: prefill on
// the first, decode over the two others, SGLang's router beside prefill.
type nodes struct {
	*person
	hosts []*testhost.Host
}

const nodesLab = `
lab "nodes" { lease = "5s" }
model "m" { repo = "m" }
dataset "random" "d" {
  input_tokens = 64
}
engine "sglang" "prefill" {
  model = model.m
  image = "lmsysorg/sglang:v0.5.8"
  flags = { tp-size = 8 }
  ready {
    timeout = "60s"
  }
}
engine "sglang" "decode" {
  inherits = engine.sglang.prefill
  flags    = { tp-size = 16 }
}
group "pd" {
  role "prefill" {
    engine = engine.sglang.prefill
    on     = [host.n1]
  }
  role "decode" {
    engine = engine.sglang.decode
    on     = [host.n2, host.n3]
    span   = 2
  }
  router "sglang" {
    host  = host.n1
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
  }
  transfer = "nixl"
}
benchmark "b" {
  engine   = group.pd
  dataset  = dataset.random.d
  requests = 40
  load {
    concurrency   = 4
    output_tokens = 16
  }
}
`

func newNodes(t *testing.T, opt testhost.Options) *nodes {
	t.Helper()
	n := &nodes{}
	opt.Namespace, opt.GPU = true, "8xH200"
	for i := range 3 {
		opt.Name = fmt.Sprintf("n%d", i+1)
		n.hosts = append(n.hosts, testhost.New(t, opt))
	}
	at, err := testhost.Cable(n.hosts...)
	must(t, err)
	text := nodesLab
	for i, h := range n.hosts {
		text += fmt.Sprintf("host \"n%d\" {\n%s\ngpus = \"8xH200\"\nfabric {\naddress = %q\n}\n}\n", i+1, reached(h), at[i])
	}
	n.person = newPerson(t, n.hosts[0], text)
	for _, h := range n.hosts[1:] {
		n.knows(h)
	}
	n.env = []string{"HF_ENDPOINT=http://127.0.0.1:9"} // discard: nobody listens
	return n
}

// TestCheckFabric looks at three hosts, then with a firewall between two of them, and with a
// fabric block that is wrong.
func TestCheckFabric(t *testing.T) {
	t.Parallel()
	n := newNodes(t, testhost.Options{})
	n.edit("gpus = \"8xH200\"", "gpus = \"8xH200\"\nruntime = \"process\"", "image = \"lmsysorg/sglang:v0.5.8\"", "",
		"image = \"lmsysorg/sgl-model-gateway:v0.3.2\"", "")
	n.tells("check --fabric", exitDone, "fabric of n1, n2, n3\n", "192.0.2.1 on fabric",
		"every host reaches every other on 6 ports and on one that its kernel picks")
	if said := n.tells("check", exitDone); strings.Contains(said, "fabric") {
		t.Errorf("without --fabric:\n%s", said)
	}
	for _, h := range n.hosts {
		if left, err := h.Processes(); err != nil || len(left) > 0 {
			t.Errorf("left on %s: %+v, %v", h.Name, left, err)
		}
	}

	testhost.Do(t, n.hosts[2], "iptables -A INPUT -p tcp --syn -s 192.0.2.2 -j REJECT")
	var shown struct {
		Fabrics []struct {
			Hosts    []string
			Level    string
			Findings []struct{ Level, Check, Have string }
		}
	}
	out, said, code := n.run("check", "--fabric", "--json")
	must(t, json.Unmarshal([]byte(out), &shown))
	if code != exitContract || len(shown.Fabrics) != 1 || shown.Fabrics[0].Level != "blocked" ||
		!strings.Contains(out, "n2 does not reach n3 at 192.0.2.3 on port") || !strings.Contains(said, "of 1 fabric between hosts, 1 cannot be used") {
		t.Errorf("with a firewall: exit %d\n%s%s", code, out, said)
	}

	testhost.Do(t, n.hosts[2], "iptables -F")
	n.edit(`"192.0.2.3"`, `"192.0.2.2"`)
	n.tells("check --fabric", exitContract, "none of its network interfaces has the address 192.0.2.2", "n1 does not reach n3 at 192.0.2.2 on port")
}
