package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
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
	router := of(engines.VLLMRouter, "router")
	router.Router, router.Model = true, nil
	pd := &engines.Engine{Kind: engines.GroupKind, Name: "pd", Placement: engines.Placement{
		{Role: engines.Prefill, Engine: of(engines.VLLM, "p"), Hosts: hosts[:1], GPUIDs: []string{"0", "1", "2", "3"}},
		{Role: engines.Decode, Engine: of(engines.VLLM, "d"), Hosts: hosts[1:2], GPUIDs: []string{"5"}},
		{Role: engines.Route, Engine: router, Hosts: hosts[2:]},
	}}
	w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 40}, Requests: 8, Concurrency: 2, OutputTokens: 6, Endpoint: load.Completions}
	return &hcl.Config{Lab: hcl.Lab{Name: "groups", Lease: hcl.DefaultLease}, Hosts: hosts, Engines: []*engines.Engine{pd},
		Benchmarks: []hcl.Benchmark{{Name: "online", Repeat: 1, Cells: []hcl.Cell{{Engine: pd, Workload: w}}}}}
}

// replicas are of a recipe, one on each host.
func replicas(recipe *engines.Engine, hosts []*provision.Host) (on engines.Placement) {
	for i := range hosts {
		on = append(on, engines.Instance{Role: engines.Serve, Engine: recipe, Hosts: hosts[i : i+1]})
	}
	return on
}

// TestSelectGroup: a group is a target by its own name, by each of its members' hosts, and by its kind.
func TestSelectGroup(t *testing.T) {
	for _, target := range []string{"group.pd", "group.*", "host.n0", "host.n1", "host.n2"} {
		p, err := New(split("vllm:1"), Options{}).Select(Selection{Targets: []string{target}})
		if err != nil || p.Count().Cells != 1 || p.Count().Hosts != 3 {
			t.Errorf("%s: %+v, %v", target, p, err)
		}
	}
	for target, want := range map[string]string{
		"group.dp": `Did you mean "group.pd"?`,
		"group":    "Which group? Write host.NAME, engine.KIND.NAME, group.NAME or benchmark.NAME",
	} {
		_, err := New(split("vllm:1"), Options{}).Select(Selection{Targets: []string{target}})
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

// TestTextOfOneMember: a group of one member says of what it is, as an engine does.
func TestTextOfOneMember(t *testing.T) {
	cfg := split("vllm:1")
	g := cfg.Engines[0]
	g.Placement = g.Placement[1:2]
	g.Placement[0].Role = engines.Serve
	text := printed(t, New(cfg, Options{}), false)
	for _, want := range []string{"serve: 1 instance of 1 host  vllm:1", "serve 0 on n1 GPU 5  server 20000", "1 GPU in all: 1 serve"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// TestFromBeside: from a host that is not of the engine's fabric each server is reached as that host
// is, and the one on the sender's own host there.
func TestFromBeside(t *testing.T) {
	cfg := split("vllm:1")
	pd, hosts := cfg.Engines[0], cfg.Hosts
	for i, h := range hosts {
		h.Fabric.Address = fmt.Sprint("10.0.0.", i+1)
	}
	pd.Placement = replicas(pd.Placement[0].Engine, hosts[:2])
	for _, c := range []struct {
		from *provision.Host
		want []string
	}{
		{nil, []string{"http://127.0.0.1:20000", "http://10.0.0.2:20064"}},
		{hosts[2], []string{"http://203.0.113.1:20000", "http://203.0.113.2:20064"}},
		{hosts[1], []string{"http://203.0.113.1:20000", "http://127.0.0.1:20064"}},
	} {
		if cfg.Benchmarks[0].Cells[0].From = nil; c.from != nil {
			cfg.Benchmarks[0].Cells[0].From = []*provision.Host{c.from}
		}
		to := New(cfg, Options{}).Deployments[0].Cells[0].Load().Target
		if got := append([]string{to.BaseURL}, to.BaseURLs...); !slices.Equal(got, c.want) {
			t.Errorf("from %v: %q, want %q", c.from, got, c.want)
		}
	}
}

// TestOnPods: a plan has names of pods, and when these are there, requests go to their addresses. What
// the cells are stays the same.
func TestOnPods(t *testing.T) {
	cfg := split("vllm:1")
	pd, hosts, cluster := cfg.Engines[0], cfg.Hosts, &provision.Cluster{Name: "moai"}
	at := map[*provision.Host]provision.Fabric{}
	for i, h := range hosts {
		h.Address, h.Cluster = "", cluster
		at[h] = provision.Fabric{Address: fmt.Sprint("10.244.0.", i+1)}
	}
	pd.Placement = replicas(pd.Placement[0].Engine, hosts[:2])
	for _, c := range []struct {
		from       []*provision.Host
		plan, runs []string
	}{
		{nil, []string{"http://127.0.0.1:20000", "http://n1:20064"}, []string{"http://127.0.0.1:20000", "http://10.244.0.2:20064"}},
		{hosts[2:], []string{"http://n0:20000", "http://n1:20064"}, []string{"http://10.244.0.1:20000", "http://10.244.0.2:20064"}},
	} {
		cfg.Benchmarks[0].Cells[0].From = c.from
		planned := New(cfg, Options{}).Deployments[0]
		runs := planned.On(at)
		for _, s := range []struct {
			d    *Deployment
			want []string
		}{{planned, c.plan}, {runs, c.runs}, {runs.On(at), c.runs}} {
			to := s.d.Cells[0].Load().Target
			if got := append([]string{to.BaseURL}, to.BaseURLs...); !slices.Equal(got, s.want) {
				t.Errorf("from %v: %q, want %q", c.from, got, s.want)
			}
		}
		if diff := cmp.Diff(planned.Cells[0].Identity(), runs.Cells[0].Identity()); diff != "" || runs.Cells[0].ID != planned.Cells[0].ID {
			t.Errorf("from %v: another cell (-planned +runs):\n%s", c.from, diff)
		}
		if got := runs.Cells[0].From(); !slices.Equal(got, c.from) {
			t.Errorf("from %v: sent from %v", c.from, got)
		}
	}
}

// TestRehearsedPorts: all members of a large group listen where Linux gives no ports away by itself.
func TestRehearsedPorts(t *testing.T) {
	cfg := split("vllm:1")
	pd := cfg.Engines[0]
	pd.Placement = slices.Concat(pd.Placement[:1], slices.Repeat(pd.Placement[1:2], 100), pd.Placement[2:])
	for range 20 {
		p, err := Rehearse(cfg, 1, allHere)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Deployments[0].Members {
			for _, port := range m.Listens() {
				if port < 9999 || port > 32767 {
					t.Fatalf("%s of %d members listens on %d", m.Name(), len(p.Deployments[0].Members), port)
				}
			}
		}
	}
}

// knownOf is the store after every cell of a lab with groups was measured by images of a digest.
func knownOf(p *Plan, digest string) map[string]results.Known {
	known := measured(p)
	for id, k := range known {
		k.Host, k.Ready, k.Took, k.RunID, k.Deployment = "n0, n1, n2", 90*time.Second, time.Minute, "run1", "d"
		k.Digests = map[string]string{"prefill": digest, "decode": digest, "router": digest}
		known[id] = k
	}
	return known
}

// TestPinnedGroup: a group whose images are pinned to what their tags meant is the group that was
// measured; with one of them pinned to something else it is another.
func TestPinnedGroup(t *testing.T) {
	was, moved := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	known := knownOf(New(split("vllm/vllm-openai:v0.11.0"), Options{}), was)
	for _, c := range []struct {
		all, router string
		want        Status
	}{{"", "", Done}, {"@" + was, "@" + was, Done}, {"@" + was, "", Done}, {"@" + was, "@" + moved, Stale}, {"@" + moved, "@" + moved, Stale}} {
		cfg := split("vllm/vllm-openai:v0.11.0" + c.all)
		cfg.Engines[0].Placement[2].Engine.Image = "vllm/vllm-openai:v0.11.0" + c.router
		p := New(cfg, Options{Known: known})
		if cell := p.Deployments[0].Cells[0]; cell.Status != c.want || cell.Status == Done && strings.Contains(cell.Why, "host") {
			t.Errorf("pinned to %q, its router to %q: %s, %s; want %s", c.all, c.router, cell.Status, cell.Why, c.want)
		}
	}
	p := New(split("vllm/vllm-openai:v0.11.0"), Options{Known: known, Rerun: true})
	if d := p.Deployments[0]; d.start != 90*time.Second || d.Cells[0].takes != time.Minute {
		t.Errorf("estimated to start in %s and to measure for %s, as it did before", d.start, d.Cells[0].takes)
	}
}

// TestChangedHostOfGroup: each host of a group is held against what it was itself.
func TestChangedHostOfGroup(t *testing.T) {
	known := knownOf(New(split("vllm:1"), Options{}), "")
	var seen []results.Seen
	for i, driver := range []string{"550", "550", "560"} {
		for j := range 3 {
			if j == 1 && i == 2 {
				driver = "570"
			}
			text := fmt.Appendf(nil, `{"hostname": "n%d", "gpus": [{"name": "NVIDIA H200", "driver": "%s"}]}`, j, driver)
			run := results.Seen{RunID: "run1", Deployment: "d", Lab: "groups", Host: fmt.Sprint("n", j), Facts: text}
			if i > 0 {
				run.RunID = fmt.Sprint("run", i+1)
			}
			if i < 2 || j == 1 {
				seen = append(seen, run)
			}
		}
	}
	c := New(split("vllm:1"), Options{Known: known, Seen: seen}).Deployments[0].Cells[0]
	if want := []string{"n1: driver 550 → 570"}; !slices.Equal(c.HostChanged, want) || len(c.Facts) != 3 {
		t.Errorf("changed %q, want %q; facts of %d hosts", c.HostChanged, want, len(c.Facts))
	}
	if c := New(split("vllm:1"), Options{Known: known, Seen: seen, StrictFacts: true}).Deployments[0].Cells[0]; c.Status != Stale {
		t.Errorf("with strict facts it is %s", c.Status)
	}
}
