package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
)

// twins is a lab with an engine on each of the named hosts, equal but for name and host.
func twins(names ...string) *hcl.Config {
	cfg := lab()
	b := hcl.Benchmark{Name: "online", Repeat: 1}
	for _, name := range names {
		e, h := *cfg.Engines[0], *cfg.Engines[0].Host()
		e.Name, h.Name, e.Placement = name, name, engines.On(&h)
		axes := []hcl.Axis{{Name: "engine", Value: e.Label()}}
		b.Cells = append(b.Cells, hcl.Cell{Engine: &e, Axes: axes, Workload: load.Workload{Requests: 1, Concurrency: 1}})
	}
	cfg.Benchmarks = []hcl.Benchmark{b}
	return cfg
}

// TestTwinsKeepTheirNumbers measures a lab, changes it, and says of each cell from whose
// measurement it is up to date; "" for one that is to be measured.
func TestTwinsKeepTheirNumbers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before [][]string // labs, one measured after the other
		after  []string
		want   []string
	}{
		{"nothing changes", [][]string{{"a", "b"}}, []string{"a", "b"}, []string{"a", "b"}},
		{"another order", [][]string{{"a", "b", "c"}}, []string{"c", "a", "b"}, []string{"c", "a", "b"}},
		{"one more", [][]string{{"a"}}, []string{"a", "b"}, []string{"a", ""}},
		{"one more, in front", [][]string{{"a"}}, []string{"b", "a"}, []string{"", "a"}},
		{"the first goes", [][]string{{"a", "b", "c"}}, []string{"b", "c"}, []string{"b", "c"}},
		{"only the second stays", [][]string{{"a", "b"}}, []string{"b"}, []string{"b"}},
		{"only the first stays", [][]string{{"a", "b"}}, []string{"a"}, []string{"a"}},
		{"gone and back", [][]string{{"a", "b"}, {"b"}}, []string{"b", "a"}, []string{"b", "a"}},
		{"renamed", [][]string{{"a"}}, []string{"x"}, []string{"a"}},
		{"the first goes, another comes", [][]string{{"a", "b"}}, []string{"c", "b"}, []string{"", "b"}},
		{"one of two renamed", [][]string{{"a", "b"}}, []string{"a", "c"}, []string{"a", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			known := map[string]results.Known{}
			for _, names := range tt.before {
				p := New(twins(names...), Options{Known: known})
				for id, k := range measured(p) {
					if _, ok := known[id]; !ok {
						known[id] = k
					}
				}
			}
			var got []string
			ids := map[string]bool{}
			for _, d := range New(twins(tt.after...), Options{Known: known}).Deployments {
				c, from := d.Cells[0], ""
				if c.Status == Done {
					from = known[c.ID].Host
				}
				got = append(got, from)
				ids[c.ID], ids[d.ID] = true, true
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("up to date from %q, want %q", got, tt.want)
			}
			if len(ids) != 2*len(tt.after) {
				t.Errorf("%d engines have %d ids of deployments and cells", len(tt.after), len(ids))
			}
		})
	}
}

// TestSameLoadTwice: a load that an engine is given twice is measured twice, with other
// prompts, and each keeps its measurement.
func TestSameLoadTwice(t *testing.T) {
	cfg := lab()
	again := cfg.Benchmarks[0]
	again.Name = "again"
	cfg.Benchmarks = append(cfg.Benchmarks, again)
	p := New(cfg, Options{})
	ids, seeds := map[string]bool{}, map[uint64]bool{}
	d := p.Deployments[0]
	for _, c := range d.Cells {
		ids[c.ID], seeds[c.Load().Seed] = true, true
	}
	if len(ids) != len(d.Cells) || len(seeds) != len(d.Cells) {
		t.Errorf("%d cells have %d ids and %d seeds", len(d.Cells), len(ids), len(seeds))
	}
	if n := New(cfg, Options{Known: measured(p)}).Count(); n.Done != n.Cells {
		t.Errorf("measured, and then %+v", n)
	}
}

// TestPaired: engines are sent the same prompts under the same load, and a load is sent
// others in every repetition.
func TestPaired(t *testing.T) {
	p := New(lab(), Options{})
	vllm, sglang := p.Deployments[0].Cells, p.Deployments[1].Cells
	for i := range sglang {
		if a, b := vllm[i].Load().Seed, sglang[i].Load().Seed; a != b || vllm[i].ID == sglang[i].ID {
			t.Errorf("cell %d: seeds %d and %d, ids %s and %s", i, a, b, vllm[i].ID, sglang[i].ID)
		}
	}
	seeds, groups := map[uint64]bool{}, map[string]int{}
	for _, c := range vllm {
		seeds[c.Load().Seed] = true
		groups[c.Group]++
	}
	if len(seeds) != len(vllm) {
		t.Errorf("%d cells have %d seeds", len(vllm), len(seeds))
	}
	if got := slices.Sorted(maps.Values(groups)); !slices.Equal(got, []int{1, 1, 2}) {
		t.Errorf("groups of repetitions have %v cells, want 1, 1 and 2", got)
	}
}

// pinnedTo says what image everything was measured with.
func pinnedTo(known map[string]results.Known, digest string) {
	for id, k := range known {
		k.Digests = map[string]string{engines.Serve: digest}
		known[id] = k
	}
}

// TestPinned: an image that the lab pins to what its tag meant is the image that was
// measured; pinned to something else it is another.
func TestPinned(t *testing.T) {
	was, moved := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	for name, as := range map[string]func(*engines.Engine){
		"a tag":   func(*engines.Engine) {},
		"no tag":  func(e *engines.Engine) { e.Image = "vllm/vllm-openai" },
		"a build": func(e *engines.Engine) { e.Build = &engines.Build{Image: "nvcr.io/nvidia/tensorrt-llm/devel:1.0.0"} },
	} {
		before := lab()
		as(before.Engines[0])
		known := measured(New(before, Options{}))
		pinnedTo(known, was)
		for digest, want := range map[string]int{was: 4, moved: 0} {
			cfg := lab()
			as(cfg.Engines[0])
			cfg.Engines[0].Image += "@" + digest
			if b := cfg.Engines[0].Build; b != nil {
				b.Image += "@" + moved
			}
			p := New(cfg, Options{Known: known})
			done := 0
			for _, c := range p.Deployments[0].Cells {
				if c.Status == Done {
					done++
					if _, stored := known[c.ID]; !stored {
						t.Errorf("%s: cell %s is done, and not in the store", name, c.ID)
					}
				}
			}
			if done != want {
				t.Errorf("%s, pinned to %s: %d done, want %d", name, digest, done, want)
			}
		}
	}
}

// TestNearest: what is stale is held against the measurement that is most like it.
func TestNearest(t *testing.T) {
	known := map[string]results.Known{}
	for i, tp := range []string{"2", "4", "8"} {
		cfg := lab()
		cfg.Engines[0].Flags[0].Value = flagValue(tp)
		if tp != "4" {
			cfg.Engines[0].Image = "vllm/vllm-openai:v0.8.0"
		}
		for id, k := range measured(New(cfg, Options{})) {
			k.Finished = k.Finished.Add(time.Duration(i) * time.Hour)
			known[id] = k
		}
	}
	foreign := known[slices.Sorted(maps.Keys(known))[0]]
	for i, k := range []results.Known{{Lab: "another"}, {Lab: foreign.Lab, Imported: true}} {
		k.Verdict, k.Benchmark, k.Axes, k.Repetition = load.Valid, "soak", "[]", 3
		k.Finished, k.Identity = foreign.Finished, map[string]string{"x": "y"}
		known[fmt.Sprint("foreign", i)] = k
	}
	cfg := lab()
	cfg.Engines[0].Flags[0].Value = flagValue("16")
	cfg.Benchmarks[1].Repeat = 3
	for _, c := range New(cfg, Options{Known: known}).Deployments[0].Cells {
		want, status := "--tensor-parallel-size 4 → 16", Stale
		if c.Repetition == 3 {
			want, status = "", Measure // what others have measured became no other thing
		}
		if c.Status != status || c.Why != want {
			t.Errorf("%s: %s, why %q, want %s, %q", newLine(c).coordinates(), c.Status, c.Why, status, want)
		}
	}
}

// TestChangedHost: what was seen of a host since is held against what it was when a cell
// was measured there.
func TestChangedHost(t *testing.T) {
	facts := func(driver string) json.RawMessage {
		gpus := []provision.GPU{{Name: "NVIDIA H200", Driver: driver}}
		b, err := json.Marshal(provision.Facts{Hostname: "gpu1", GPUs: gpus, Settings: map[string]string{"ecc": "on"}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	p := New(lab(), Options{})
	known := measured(p)
	for id, k := range known {
		k.RunID, k.Deployment = "run1", "d"
		known[id] = k
	}
	seen := []results.Seen{
		{RunID: "run1", Deployment: "d", Lab: "r1", Host: "h200", Facts: facts("550.54.15")},
		{RunID: "run2", Deployment: "d2", Lab: "another", Host: "mi300x", Facts: facts("1")},
		{RunID: "run3", Deployment: "d3", Lab: "r1", Host: "h200", Facts: facts("570.86.15")},
	}
	for _, strict := range []bool{false, true} {
		p := New(lab(), Options{Known: known, Seen: seen, StrictFacts: strict})
		for _, d := range p.Deployments {
			for _, c := range d.Cells {
				changed := d.Host.Name == "h200"
				if got, want := c.Status == Stale, strict && changed; got != want {
					t.Errorf("strict %v, on %s: %s", strict, d.Host.Name, c.Status)
				}
				if got := strings.Contains(c.Why, "driver 550.54.15 → 570.86.15"); got != changed {
					t.Errorf("strict %v, on %s: why %q", strict, d.Host.Name, c.Why)
				}
			}
		}
	}
	// Who moves a lab to another host is told where its numbers come from.
	moved := lab()
	moved.Hosts[0].Name = "h200-b"
	if why := New(moved, Options{Known: known}).Deployments[0].Cells[0].Why; !strings.HasSuffix(why, ", on host h200") {
		t.Errorf("of a cell that was measured on another host: %q", why)
	}
}

// TestChangedClient: a host that sends load is held against what it was, too.
func TestChangedClient(t *testing.T) {
	facts := func(cpus int) json.RawMessage {
		b, err := json.Marshal(provision.Facts{Hostname: "client1", CPUs: cpus})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	client := &provision.Host{Name: "client", Address: "203.0.113.9"}
	sent := func() *hcl.Config {
		cfg := lab()
		cfg.Engines[0].Flags = append(cfg.Engines[0].Flags, engines.Flag{Name: "host", Value: flagValue("0.0.0.0")})
		for _, b := range cfg.Benchmarks {
			for i, c := range b.Cells {
				if c.Engine == cfg.Engines[0] {
					b.Cells[i].From = []*provision.Host{client}
				}
			}
		}
		return cfg
	}
	known := measured(New(sent(), Options{}))
	for id, k := range known {
		k.RunID, k.Deployment = "run1", "d"
		known[id] = k
	}
	seen := []results.Seen{
		{RunID: "run1", Deployment: "d", Lab: "r1", Host: "old", Facts: facts(64)},
		{RunID: "run1", Deployment: "d", Lab: "r1", Host: "h200", Facts: facts(8)},
		{RunID: "run2", Deployment: "d", Lab: "r1", Host: "client", Facts: facts(4)},
	}
	for _, name := range []string{"client", "old"} { // it may have had another name
		seen[0].Host = name
		for _, c := range New(sent(), Options{Known: known, Seen: seen}).Deployments[0].Cells {
			if !strings.Contains(c.Why, "client: CPUs 64 → 4") || strings.Contains(c.Why, "h200:") {
				t.Errorf("the client was %q: %s", name, c.Why)
			}
		}
	}
}

// TestPinnedTwins: pinned to what the tag meant, twins keep the numbers that are theirs.
func TestPinnedTwins(t *testing.T) {
	was := "sha256:" + strings.Repeat("1", 64)
	first := measured(New(twins("b"), Options{}))
	known := measured(New(twins("a", "b"), Options{Known: first}))
	pinnedTo(known, was)
	cfg := twins("a", "b")
	for i := range cfg.Benchmarks[0].Cells {
		cfg.Benchmarks[0].Cells[i].Engine.Image += "@" + was
	}
	p := New(cfg, Options{Known: known})
	for i, name := range []string{"a", "b"} {
		c := p.Deployments[i].Cells[0]
		if c.Status != Done || known[c.ID].Host != name {
			t.Errorf("%s: %s, from %q", name, c.Status, known[c.ID].Host)
		}
	}
}
