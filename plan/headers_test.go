package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
)

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
	if _, problems := hcl.Load(&hcl.Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte(lab)}}, hcl.Vars{}); !problems.HasErrors() {
		t.Error("one header with two values is let pass")
	}
	of := func(more string) *hcl.Config {
		return editedBy(t, engines.VLLM, "matrix { concurrency = [4] }", "", "concurrency   = matrix.concurrency", "rate = \"inf\"\n"+more)
	}
	if n := New(of("burstiness = 2"), Options{Known: measured(New(of(""), Options{}))}).Count(); n.Done != 1 {
		t.Errorf("with a burstiness: %+v", n)
	}
}
