package plan

import (
	"fmt"
	"strings"
	"testing"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
)

// split is a lab with a group whose prefill is on half of n0, whose decode is on one GPU of n1,
// and whose router is on n2; image is of all three.
func split(image string) *hcl.Config {
	var hosts []*provision.Host
	for i := range 3 {
		hosts = append(hosts, &provision.Host{Name: fmt.Sprint("n", i), Address: fmt.Sprint("203.0.113.", i+1),
			GPUs: provision.GPUs{Count: 8, Model: "H200", Vendor: provision.NVIDIA}})
	}
	hosts[2].GPUs = provision.GPUs{}
	of := func(kind, name string) *engines.Engine {
		return &engines.Engine{Kind: kind, Name: name, Image: image, Model: &engines.Model{Repo: "m"}}
	}
	on := func(h *provision.Host, ids ...string) []engines.Instance {
		return []engines.Instance{{Hosts: []*provision.Host{h}, GPUIDs: ids}}
	}
	router := of(engines.VLLMRouter, "router")
	router.Host, router.Router, router.Model = hosts[2], true, nil
	pd := &engines.Engine{Kind: engines.GroupKind, Name: "pd", Group: &engines.Group{Router: router, Roles: []engines.Role{
		{Name: engines.Prefill, Engine: of(engines.VLLM, "p"), Instances: on(hosts[0], "0", "1", "2", "3")},
		{Name: engines.Decode, Engine: of(engines.VLLM, "d"), Instances: on(hosts[1], "5")},
	}}}
	w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 40}, Requests: 8, Concurrency: 2, OutputTokens: 6, Endpoint: load.Completions}
	return &hcl.Config{Lab: hcl.Lab{Name: "groups", Lease: hcl.DefaultLease}, Hosts: hosts, Engines: []*engines.Engine{pd},
		Benchmarks: []hcl.Benchmark{{Name: "online", Repeat: 1, Cells: []hcl.Cell{{Engine: pd, Workload: w}}}}}
}

// TestSelectGroup: a group is a target by its own name, by each of its members' hosts, and by its kind.
func TestSelectGroup(t *testing.T) {
	for _, target := range []string{"group.pd", "group.*", "host.n0", "host.n1", "host.n2"} {
		p := New(split("vllm:1"), Options{})
		if err := p.Select(Selection{Targets: []string{target}}); err != nil || p.Count().Cells != 1 || p.Count().Hosts != 3 {
			t.Errorf("%s: %+v, %v", target, p.Count(), err)
		}
	}
	for target, want := range map[string]string{
		"group.dp": `Did you mean "group.pd"?`,
		"group":    "Which group? Write host.NAME, engine.KIND.NAME, group.NAME or benchmark.NAME",
	} {
		err := New(split("vllm:1"), Options{}).Select(Selection{Targets: []string{target}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}

// TestTopologyText: one GPU is not read as their number.
func TestTopologyText(t *testing.T) {
	text := printed(t, New(split("vllm:1"), Options{}), false)
	for _, want := range []string{"prefill 0 on n0 GPUs 0,1,2,3  server", "decode 0 on n1 GPU 5  server", "5 GPUs in all: 4 prefill, 1 decode"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
