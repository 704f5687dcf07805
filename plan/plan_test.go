package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
	"hclbench/testhost/golden"
)

func flagValue(s string) *provision.Text {
	t := provision.Plain(s)
	return &t
}

// lab is a small lab as the language would give it: two engines on two hosts,
// two benchmarks. Each call returns equal values behind other pointers.
func lab() *hcl.Config {
	h200 := &provision.Host{Name: "h200", Address: "203.0.113.7", GPUs: provision.GPUs{Count: 8, Model: "H200", Vendor: provision.NVIDIA}}
	mi300x := &provision.Host{Name: "mi300x", Address: "203.0.113.20", GPUs: provision.GPUs{Count: 8, Model: "MI300X", Vendor: provision.AMD}}
	r1 := &engines.Model{Name: "r1", Repo: "deepseek-ai/DeepSeek-R1"}
	vllm := &engines.Engine{Kind: engines.VLLM, Name: "h200", Placement: engines.On(h200), Model: r1, Image: "vllm/vllm-openai:v0.7.3",
		Env:   []provision.EnvVar{{Name: "HF_TOKEN", Value: provision.Secret("canary")}},
		Flags: []engines.Flag{{Name: "tensor-parallel-size", Value: flagValue("8")}}}
	sglang := &engines.Engine{Kind: engines.SGLang, Name: "mi300x", Placement: engines.On(mi300x), Model: r1, Image: "rocm/sglang-staging:20250212"}
	cfg := &hcl.Config{
		Lab:     hcl.Lab{Name: "r1", Lease: hcl.DefaultLease},
		Hosts:   []*provision.Host{h200, mi300x},
		Engines: []*engines.Engine{vllm, sglang},
	}
	workload := func(concurrency int) load.Workload {
		return load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 3200}, Requests: 500, Concurrency: concurrency,
			OutputTokens: 800, IgnoreEOS: true, Endpoint: load.Completions}
	}
	online := hcl.Benchmark{Name: "online", Repeat: 1}
	for _, e := range cfg.Engines {
		for _, n := range []int{4, 8} {
			online.Cells = append(online.Cells, hcl.Cell{
				Axes:     []hcl.Axis{{Name: "engine", Value: e.Kind + "." + e.Name}, {Name: "concurrency", Value: int64(n)}},
				Engine:   e,
				Workload: workload(n),
			})
		}
	}
	soak := hcl.Benchmark{Name: "soak", Repeat: 2, Cells: []hcl.Cell{{Engine: vllm, Workload: workload(64)}}}
	cfg.Benchmarks = []hcl.Benchmark{online, soak}
	return cfg
}

// measured is the store after every cell of p was measured.
func measured(p *Plan) map[string]results.Known {
	all := map[string]results.Known{}
	for _, d := range p.Deployments {
		for _, c := range d.Cells {
			all[c.ID] = results.Known{
				Verdict: load.Valid, Finished: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
				Benchmark: c.Benchmark, Axes: text(c.Axes), Repetition: c.Repetition, Identity: c.Identity(),
				Lab: p.Lab.Name, Engine: d.Engine.Label(), Host: d.Host.Name,
			}
		}
	}
	return all
}

func TestOrder(t *testing.T) {
	p := New(lab(), Options{})
	var got []string
	for _, d := range p.Deployments {
		for _, c := range d.Cells {
			got = append(got, d.Engine.Address()+" "+c.Benchmark+" "+newLine(c).coordinates())
		}
	}
	// One deployment per engine, however many benchmarks use it.
	want := []string{
		"engine.vllm.h200 online concurrency=4",
		"engine.vllm.h200 online concurrency=8",
		"engine.vllm.h200 soak one cell",
		"engine.vllm.h200 soak repetition=2",
		"engine.sglang.mi300x online concurrency=4",
		"engine.sglang.mi300x online concurrency=8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if got, want := p.Count(), (Counts{Hosts: 2, Deployments: 2, Cells: 6, Measure: 6, Starts: 2}); got != want {
		t.Errorf("Count = %+v, want %+v", got, want)
	}
}

// TestWhatIsStale changes one thing at a time: exactly the cells that it touches
// are to be measured again, and the plan says why. More edits are in TestTableOfEdits.
func TestWhatIsStale(t *testing.T) {
	known := measured(New(lab(), Options{}))
	cases := map[string]struct {
		change func(*hcl.Config)
		stale  int
		why    string
	}{
		"nothing":       {func(c *hcl.Config) {}, 0, ""},
		"a flag":        {func(c *hcl.Config) { c.Engines[0].Flags[0].Value = flagValue("4") }, 4, "--tensor-parallel-size 8 → 4"},
		"a flag more":   {func(c *hcl.Config) { c.Engines[1].Flags = []engines.Flag{{Name: "trust-remote-code"}} }, 2, "+ --trust-remote-code"},
		"a variable":    {func(c *hcl.Config) { c.Engines[0].Env = nil }, 4, "- env HF_TOKEN (sensitive)"},
		"shared memory": {func(c *hcl.Config) { c.Engines[0].Container.ShmSize = 32e9 }, 4, "- ipc host, + shm_size 32000000000"},
		"a power cap":   {func(c *hcl.Config) { c.Hosts[0].Prepare = &provision.Prepare{PowerCap: 600} }, 4, "+ prepare.power_cap 600"},
		"a header": {func(c *hcl.Config) {
			c.Benchmarks[1].Cells[0].Headers = []provision.EnvVar{{Name: "X-A", Value: provision.Plain("b")}}
		}, 2, "+ load.headers.X-A b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := lab()
			c.change(cfg)
			p := New(cfg, Options{Known: known})
			if n := p.Count(); n.Stale != c.stale || n.Measure != c.stale || n.Done != 6-c.stale {
				t.Errorf("Count = %+v, want %d stale and the rest done", n, c.stale)
			}
			for _, d := range p.Deployments {
				for _, cell := range d.Cells {
					if cell.Status == Stale && cell.Why != c.why {
						t.Errorf("why = %q, want %q", cell.Why, c.why)
					}
				}
			}
		})
	}
}

// TestDownload: who brings the model re-measures nothing, and is said in the plan.
func TestDownload(t *testing.T) {
	with := func(change func(*engines.Engine)) *hcl.Config {
		cfg := lab()
		cfg.Engines[0].Model.Cache = "/data/huggingface"
		change(cfg.Engines[0])
		return cfg
	}
	known := measured(New(with(func(*engines.Engine) {}), Options{}))
	p := New(with(func(e *engines.Engine) { e.Model.Download, e.Model.Size = true, 689e9 }), Options{Known: known})
	if n := p.Count(); n.Done != 6 {
		t.Errorf("Count = %+v, want all done", n)
	}
	const fetched = "    fetched first, unless it is there: deepseek-ai/DeepSeek-R1 (689 GB), into /data/huggingface\n"
	if got := printed(t, p, false); !strings.Contains(got, fetched) {
		t.Errorf("the plan lacks %q:\n%s", fetched, got)
	}
	p = New(with(func(e *engines.Engine) {
		e.Model.Download = true
		e.Env = append(e.Env, provision.EnvVar{Name: engines.HubOffline, Value: provision.Plain("1")})
	}), Options{Known: known})
	if n := p.Count(); n.Stale != 4 {
		t.Errorf("with a variable of the lab's own: %+v, want 4 stale", n)
	}
}

func TestRerunAndFailures(t *testing.T) {
	first := New(lab(), Options{})
	known := measured(first)
	if n := New(lab(), Options{Known: known, Rerun: true}).Count(); n.Measure != 6 {
		t.Errorf("with Rerun %d are to be measured, want 6", n.Measure)
	}
	void := known[first.Deployments[0].Cells[0].ID]
	void.Verdict = load.Void
	known[first.Deployments[0].Cells[0].ID] = void
	suspect := known[first.Deployments[0].Cells[1].ID]
	suspect.Verdict = load.Suspect
	known[first.Deployments[0].Cells[1].ID] = suspect
	p := New(lab(), Options{Known: known})
	cells := p.Deployments[0].Cells
	if cells[0].Status != Measure || !strings.Contains(cells[0].Why, "no measurement") {
		t.Errorf("after a failure: %s, %q", cells[0].Status, cells[0].Why)
	}
	if cells[1].Status != Done || !strings.HasSuffix(cells[1].Why, ", suspect") {
		t.Errorf("after a suspect measurement: %s, %q", cells[1].Status, cells[1].Why)
	}
}

// allHere is a machine on which all ports are free, and all files there.
var allHere = Here{Free: func(int) bool { return true }, There: func(string) bool { return true }}

func TestRehearse(t *testing.T) {
	p, err := Rehearse(lab(), 20, allHere)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Rehearsal || len(p.Deployments) != 2 || p.Lab.Name != "r1-rehearsal" {
		t.Errorf("plan = %+v", p)
	}
	ports := map[int]bool{}
	for _, d := range p.Deployments {
		in := d.Members[0]
		if !in.Host.Local() || in.Runtime != provision.Process {
			t.Errorf("%s runs on %s as %s", d.Engine.Address(), in.Host.Address, in.Runtime)
		}
		ports[in.Container.Port] = true
	}
	half := lab()
	half.Engines[0].Flags[0].Value = flagValue("4")
	if p, err = Rehearse(half, 20, allHere); err != nil || engines.GPUsUsed(p.Deployments[0].Members[0].Engine) != 4 {
		t.Errorf("an engine over 4 of 8 GPUs uses %d in a rehearsal, %v", engines.GPUsUsed(p.Deployments[0].Members[0].Engine), err)
	}
	if len(ports) != 2 {
		t.Errorf("two engines, but %d ports", len(ports))
	}
	real := measured(New(lab(), Options{}))
	for _, c := range p.cells() {
		if _, same := real[c.ID]; same {
			t.Errorf("a rehearsed cell has the id of a measured one: %s", c.ID)
		}
	}
}

// TestHurried is a rehearsal at a speed: what has a pace or a length follows it, and
// the lab's own workload stays what it is.
func TestHurried(t *testing.T) {
	of := func(unit time.Duration, rate load.Rate) load.Workload {
		return load.Workload{
			Dataset: load.Dataset{Kind: load.Trace, Slowdown: float64(unit) / float64(time.Minute)}, Rate: rate, Duration: load.Duration(unit),
			Ramp: load.Duration(unit), CutBeginning: load.Duration(unit), CutEnd: load.Duration(unit),
			Stages:  []load.Stage{{Duration: load.Duration(unit), Rate: rate}, {Duration: load.Duration(unit), Concurrency: 8}},
			Timeout: load.Duration(time.Hour), Stall: load.Duration(time.Hour),
		}
	}
	lab, want := of(time.Minute, 3), of(3*time.Second, 60)
	want.Speed = 20
	if diff := cmp.Diff(want, hurried(lab, 20)); diff != "" {
		t.Errorf("hurried (-want +got):\n%s", diff)
	}
	lab.Dataset.ThinkTime = load.Duration(100 * time.Millisecond)
	if got := hurried(lab, 1000).Dataset.ThinkTime; got != load.Duration(time.Millisecond) {
		t.Errorf("a user who thinks for 100 ms does so for %s at 1,000 times the speed; the least is 1 ms", time.Duration(got))
	}
	lab.Dataset.ThinkTime = 0
	if diff := cmp.Diff(of(time.Minute, 3), lab); diff != "" {
		t.Errorf("the lab's own workload has changed (-want +got):\n%s", diff)
	}
}

// TestMadeUp: prompts of files that are not there are made up in a rehearsal, as long as the lab cuts them to or chats are. What nothing
// made up is like stays as it is, and so does what is there.
func TestMadeUp(t *testing.T) {
	for _, c := range []struct {
		set     load.Dataset
		outputs int
		want    string // of the rehearsed load's lengths; empty: it reads its file
	}{
		{load.Dataset{Kind: load.ShareGPT, Path: "chats.json", Filter: load.ConventionVLLM}, 0, "random 219 tokens in, 201 out"},
		{load.Dataset{Kind: load.ShareGPT, Path: "chats.json", InputTokens: 512, OutputTokens: 64}, 0, "random 512 tokens in, 64 out"},
		{load.Dataset{Kind: load.Text, Path: "books", InputTokens: 1000, Tokenizer: "tokenizer.json", Salt: true}, 300, "random 1000 tokens in, 300 out"},
		{load.Dataset{Kind: load.JSONL, Path: "there.jsonl", Tokenizer: "tokenizer.json"}, 32, "random 219 tokens in, 32 out"},
		{load.Dataset{Kind: load.Conversation, Path: "talks.jsonl", ThinkTime: load.Duration(time.Second)}, 0,
			"random-conversation 3 turns, 0 + 219 tokens in each think time 1s, 201 out"},
		{load.Dataset{Kind: load.Conversation, Path: "talks.jsonl", Arrivals: load.Recorded}, 0, ""},
		{load.Dataset{Kind: load.Trace, Path: "day.csv"}, 0, ""},
		{load.Dataset{Kind: load.Weka, Path: "agents.jsonl"}, 0, ""},
		{load.Dataset{Kind: load.JSONL, Path: "test.jsonl", Questions: true}, 0, ""},
		{load.Dataset{Kind: load.JSONL, Path: "there.jsonl"}, 0, ""},
	} {
		cfg := lab()
		cfg.Benchmarks = cfg.Benchmarks[1:]
		cfg.Benchmarks[0].Cells = slices.Clone(cfg.Benchmarks[0].Cells[:1])
		w := &cfg.Benchmarks[0].Cells[0].Workload
		w.Dataset, w.OutputTokens = c.set, c.outputs
		here := allHere
		here.There = func(path string) bool { return path == "there.jsonl" }
		p, err := Rehearse(cfg, 1, here)
		if err != nil {
			t.Fatal(err)
		}
		got, words := p.Deployments[0].Cells[0].Load().Workload, ""
		for _, m := range p.MadeUp {
			words = strings.Join(m.Prompts, "; ")
			if len(p.MadeUp) != 1 || !slices.Equal(m.Benchmarks, []string{cfg.Benchmarks[0].Name}) || m.Path == "there.jsonl" {
				t.Errorf("%s: %+v", c.set.Kind, p.MadeUp)
			}
		}
		if words != c.want || (c.want == "") != (len(got.Dataset.Inputs()) > 0) {
			t.Errorf("%s: made up is %q, want %q: %+v", c.set.Kind, words, c.want, got.Dataset)
		}
		if err := got.Dataset.Check(); err != nil {
			t.Errorf("%s: %v", c.set.Kind, err)
		}
	}
}

func TestExternal(t *testing.T) {
	cfg := lab()
	cluster := &engines.Engine{Kind: engines.External, Name: "cluster", URL: "http://192.0.2.1:8000"}
	cfg.Benchmarks = []hcl.Benchmark{{Name: "b", Repeat: 1, Cells: []hcl.Cell{{Engine: cluster}}}}
	p := New(cfg, Options{})
	d := p.Deployments[0]
	if len(d.Members) != 0 || !d.Host.Local() || p.Count().Starts != 0 {
		t.Errorf("an external engine is planned as %+v", d)
	}
	if got, want := d.Cells[0].Load().Target.BaseURL, "http://192.0.2.1:8000"; got != want {
		t.Errorf("target = %s, want %s", got, want)
	}
}

// TestLoadFrom: where load is sent from is part of what a cell is, and of what is
// shown before anything is opened to the network.
func TestLoadFrom(t *testing.T) {
	client := &provision.Host{Name: "client", Address: "203.0.113.30"}
	from := func(h *provision.Host) *Plan {
		cfg := lab()
		cfg.Engines[0].Flags = append(cfg.Engines[0].Flags, engines.Flag{Name: "host", Value: flagValue("0.0.0.0")})
		cfg.Benchmarks = cfg.Benchmarks[1:]
		switch {
		case h == nil:
		case h.Name == "h200":
			cfg.Benchmarks[0].Cells[0].From = []*provision.Host{cfg.Engines[0].Host()}
		default:
			cfg.Benchmarks[0].Cells[0].From = []*provision.Host{h}
		}
		return New(cfg, Options{})
	}
	local, own, remote := from(nil), from(&provision.Host{Name: "h200"}), from(client)
	id := func(p *Plan) string { return p.Deployments[0].Cells[0].ID }
	if id(own) != id(local) || own.Deployments[0].Cells[0].From() != nil {
		t.Errorf("from the engine's own host it is %s, and without a word %s", id(own), id(local))
	}
	if id(remote) == id(local) || remote.Deployments[0].ID != local.Deployments[0].ID {
		t.Errorf("from another host the cell is %s of deployment %s, want another cell than %s of %s",
			id(remote), remote.Deployments[0].ID, id(local), local.Deployments[0].ID)
	}
	c := remote.Deployments[0].Cells[0]
	if got, want := c.Load().Target.BaseURL, "http://203.0.113.7:8000"; got != want || c.Identity()["load.from"] != "another host" {
		t.Errorf("target %s, want %s; identity %v", got, want, c.Identity())
	}
	if got := local.Deployments[0].Cells[0].Load().Target.BaseURL; got != "http://127.0.0.1:8000" {
		t.Errorf("beside the engine the target is %s", got)
	}
	if diff := cmp.Diff([]*provision.Host{remote.Hosts[0], client}, remote.Deployments[0].Needs()); diff != "" || len(remote.Hosts) != 2 {
		t.Errorf("hosts (-want +got):\n%s\n%d hosts", diff, len(remote.Hosts))
	}
	text := printed(t, remote, false)
	for _, want := range []string{
		"open to the network at http://203.0.113.7:8000",
		"+ repetition=1,2 from host client",
		"host client (203.0.113.30)\n\n  sends load to engine.vllm.h200 on host h200",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan does not say %q:\n%s", want, text)
		}
	}
}

// TestLoadFromSeveral: how many hosts send counts, and what pods get; not which, nor in which order, nor
// GPUs, which they do not use.
func TestLoadFromSeveral(t *testing.T) {
	a, b := &provision.Host{Name: "a", Address: "203.0.113.30"}, &provision.Host{Name: "b", Address: "203.0.113.31"}
	gpus := &provision.Host{Name: "c", Address: "203.0.113.32", GPUs: provision.GPUs{Count: 1, Model: "L4", Vendor: provision.NVIDIA}}
	from := func(hosts ...*provision.Host) *Plan {
		cfg := lab()
		cfg.Engines[0].Flags = append(cfg.Engines[0].Flags, engines.Flag{Name: "host", Value: flagValue("0.0.0.0")})
		cfg.Benchmarks = cfg.Benchmarks[1:]
		cfg.Benchmarks[0].Cells[0].From = hosts
		return New(cfg, Options{})
	}
	id := func(p *Plan) string { return p.Deployments[0].Cells[0].ID }
	one, two := from(a), from(a, b)
	if id(one) != id(from(b)) || id(two) == id(one) || id(two) != id(from(b, a)) || id(from(a, gpus)) != id(two) {
		t.Errorf("ids %s of one and %s of two", id(one), id(two))
	}
	if got := two.Deployments[0].Cells[0].Identity()["load.from"]; got != "another host, another host" {
		t.Errorf("load.from is %q", got)
	}
	if hosts := two.Deployments[0].Needs(); len(hosts) != 3 {
		t.Errorf("hosts %v", hosts)
	}
	text := printed(t, two, false)
	for _, want := range []string{"+ repetition=1,2 from hosts a, b", "host b (203.0.113.31)\n\n  sends load to engine.vllm.h200 on host h200"} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan does not say %q:\n%s", want, text)
		}
	}
	var doc bytes.Buffer
	if err := two.JSON(&doc); err != nil || !strings.Contains(doc.String(), `"from": "a, b"`) {
		t.Errorf("%v in\n%s", err, doc.String())
	}
}

// printed is a plan's text.
func printed(t *testing.T, p *Plan, verbose bool) string {
	t.Helper()
	var b strings.Builder
	if err := p.Text(&b, ByHost, verbose); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	known := measured(New(lab(), Options{}))
	cfg := lab()
	cfg.Engines[1].Flags = []engines.Flag{{Name: "tp", Value: flagValue("8")}}
	at := known[New(lab(), Options{}).Deployments[0].Cells[0].ID].Finished.Local().Format(time.DateTime)
	got := strings.ReplaceAll(printed(t, New(cfg, Options{Known: known}), true), at, "TIME")
	golden.Check(t, "plan.txt", got)
	if strings.Contains(got, "canary") {
		t.Error("the plan shows a secret")
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := New(lab(), Options{}).JSON(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "plan.json", b.String())
	var back struct {
		FormatVersion string `json:"format_version"`
		Deployments   []struct{ Cells []struct{ Status string } }
	}
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.FormatVersion != FormatVersion || len(back.Deployments) != 2 || back.Deployments[0].Cells[0].Status != "measure" {
		t.Errorf("read back: %+v", back)
	}
}

// TestHeaders: what is secret travels apart and is in no identity but as a word;
// another header is another load, another key is not.
func TestHeaders(t *testing.T) {
	planned := func(key provision.Text, headers ...provision.EnvVar) *Cell {
		e := &engines.Engine{Kind: engines.External, Name: "e", URL: "http://a:1", URLs: []string{"http://b:2/v1"}, APIKey: key}
		cell := hcl.Cell{Engine: e, Headers: headers, Workload: load.Workload{Concurrency: 1}}
		p := New(&hcl.Config{Benchmarks: []hcl.Benchmark{{Name: "b", Cells: []hcl.Cell{cell}}}}, Options{})
		return p.Deployments[0].Cells[0]
	}
	header := func(name string, v provision.Text) provision.EnvVar { return provision.EnvVar{Name: name, Value: v} }

	c := planned(provision.Plain("canary-key"), header("X-Team", provision.Plain("bench")), header("X-Token", provision.Secret("canary")))
	target := load.Target{BaseURL: "http://a:1", BaseURLs: []string{"http://b:2"}, Headers: map[string]string{"X-Team": "bench"}}
	if diff := cmp.Diff(target, c.Load().Target); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
	secrets := map[string]string{"Authorization": "Bearer canary-key", "X-Token": "canary"}
	if diff := cmp.Diff(secrets, c.Load().Secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	id := c.Identity()
	if strings.Contains(fmt.Sprint(id), "canary") {
		t.Errorf("a secret is in the identity: %v", id)
	}
	if id["load.headers.X-Team"] != "bench" || id["load.headers.X-Token"] != "(sensitive)" || id["url"] != "http://a:1 http://b:2" {
		t.Errorf("identity %v", id)
	}
	bare := planned(provision.Text{})
	if other := planned(provision.Secret("new")); other.ID != bare.ID {
		t.Error("an engine's key makes another cell")
	}
	if other := planned(provision.Text{}, header("X-Team", provision.Plain("a"))); other.ID == bare.ID {
		t.Error("a header makes no other cell")
	}
}

// TestSaidTwice: a header has one name however it is written, and a burst of all at once
// has no burstiness.
func TestSaidTwice(t *testing.T) {
	lab := strings.NewReplacer("ENGINE", editedEngines[engines.VLLM], "KIND", engines.VLLM, "X-Key", "x-team").Replace(editedLab)
	if _, problems := hcl.Load(&lang.Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte(lab)}}, lang.Vars{}); !problems.HasErrors() {
		t.Error("one header with two values is let pass")
	}
	of := func(more string) *hcl.Config {
		return editedBy(t, engines.VLLM, "matrix { concurrency = [4] }", "", "concurrency   = matrix.concurrency", "rate = \"inf\"\n"+more)
	}
	if n := New(of("burstiness = 2"), Options{Known: measured(New(of(""), Options{}))}).Count(); n.Done != 1 {
		t.Errorf("with a burstiness: %+v", n)
	}
}

// TestDocumented: docs/plan.md names every member of the plan's JSON form, and
// every mark of its text.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"+", "~", "=", string(Measure), string(Stale), string(Done), FormatVersion, string(ByHost), string(ByEngine), string(ByBenchmark)}
	for _, v := range []any{jsonPlan{}, jsonDeployment{}, jsonCell{}, Counts{}, provision.Container{}, provision.EnvVar{}, provision.Mount{}, provision.Ulimit{}} {
		for field := range reflect.TypeOf(v).Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" && name != "" {
				want = append(want, name)
			}
		}
	}
	for _, name := range append(want, "stop_grace") {
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`\""+name+"\"`") {
			t.Errorf("docs/plan.md does not mention `%s`", name)
		}
	}
}
