package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/lock"
	"hclbench/provision"
)

// TestLocked: what of a lab is to be locked, and what of it the lock changes.
func TestLocked(t *testing.T) {
	const (
		sum    = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		digest = "sha256:" + sum
		commit = "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad"
	)
	box := &provision.Host{Name: "box", Address: "203.0.113.7"}
	big, branch := &engines.Model{Repo: "org/big"}, &engines.Model{Repo: "org/branch", Revision: "release"}
	built := &engines.Engine{Kind: engines.TRTLLM, Name: "t", Placement: engines.On(box), Model: branch, Image: "nvcr.io/t:1", Build: &engines.Build{Image: "nvcr.io/build:1"}}
	ofCell := &engines.Engine{Kind: engines.VLLM, Name: "m", Placement: engines.On(box), Model: big, Image: "vllm/vllm-openai:v1"}
	cfg := &hcl.Config{
		Engines: []*engines.Engine{
			built,
			{Kind: engines.VLLM, Name: "pinned", Placement: engines.On(box), Model: &engines.Model{Repo: "/models/x"}, Image: "a/b:1@" + digest},
			{Kind: engines.SGLang, Name: "commit", Placement: engines.On(box), Model: &engines.Model{Repo: "org/x", Revision: commit}, Image: "vllm/vllm-openai:v1"},
			{Kind: engines.Sim, Name: "s", Placement: engines.On(box), Model: &engines.Model{Repo: "org/sim"}},
			{Kind: engines.External, Name: "e", URL: "http://192.0.2.1", Model: &engines.Model{Repo: "org/external"}},
			ofCell,
			{Kind: engines.GroupKind, Name: "g", Placement: engines.Placement{
				{Role: engines.Serve, Hosts: []*provision.Host{box},
					Engine: &engines.Engine{Kind: engines.VLLM, Name: "r", Model: &engines.Model{Repo: "org/role"}, Image: "role/v:1"}},
				{Role: engines.Route, Hosts: []*provision.Host{box}, Engine: &engines.Engine{Kind: engines.VLLMRouter, Router: true, Image: "router/v:1"}},
			}},
		},
	}
	for _, d := range []load.Dataset{
		{Kind: load.Random}, {Kind: load.JSONL, Path: "p.jsonl"}, {Kind: load.Text, Path: "books"}, {Kind: load.JSONL, Path: "said.jsonl", SHA256: sum},
	} {
		cfg.Benchmarks = append(cfg.Benchmarks, hcl.Benchmark{Cells: []hcl.Cell{{Engine: ofCell, Workload: load.Workload{Dataset: d}}}})
	}

	var got []string
	for _, e := range Names(cfg).Entries(nil) {
		got = append(got, e.Sort+" "+e.Name)
	}
	want := []string{"hcl hcl", "image nvcr.io/build:1", "image nvcr.io/t:1", "image role/v:1", "image router/v:1", "image vllm/vllm-openai:v1",
		"model org/big", "model org/branch@release", "model org/role", "dataset books", "dataset p.jsonl"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("to be locked (-want +got):\n%s", diff)
	}

	file := lock.New("dev")
	for _, image := range []string{"nvcr.io/build:1", "nvcr.io/t:1", "role/v:1", "router/v:1", "vllm/vllm-openai:v1"} {
		file.Images[image] = digest
	}
	file.Models["org/big"], file.Models["org/branch@release"], file.Models["org/role"] = commit, commit, commit
	file.Datasets["p.jsonl"], file.Datasets["books"] = digest, digest
	before := fmt.Sprintf("%+v %+v %+v", built, big, ofCell)
	pinned := Locked(cfg, file)
	if after := fmt.Sprintf("%+v %+v %+v", built, big, ofCell); after != before {
		t.Errorf("the lab itself has changed, from\n%s to\n%s", before, after)
	}
	engine := func(i int) *engines.Engine { return pinned.Engines[i] }
	for _, b := range pinned.Benchmarks {
		if b.Cells[0].Engine != engine(5) {
			t.Error("an engine of several cells has become several")
		}
	}
	for _, check := range []struct{ what, got, want string }{
		{"image", engine(0).Image, "nvcr.io/t:1@" + digest},
		{"image of the build", engine(0).Build.Image, "nvcr.io/build:1@" + digest},
		{"image of a cell's engine", engine(5).Image, "vllm/vllm-openai:v1@" + digest},
		{"image that was pinned", engine(1).Image, "a/b:1@" + digest},
		{"model", engine(5).Model.Revision, commit},
		{"model with a branch", engine(0).Model.Revision, commit},
		{"image of a role", engine(6).Placement[0].Engine.Image, "role/v:1@" + digest},
		{"model of a role", engine(6).Placement[0].Engine.Model.Revision, commit},
		{"image of a router", engine(6).Placement[1].Engine.Image, "router/v:1@" + digest},
		{"image of a role of the lab", cfg.Engines[6].Placement[0].Engine.Image, "role/v:1"},
		{"model of a path", engine(1).Model.Revision, ""},
	} {
		if check.got != check.want {
			t.Errorf("%s = %q, want %q", check.what, check.got, check.want)
		}
	}
	if left := Names(pinned).Entries(nil); len(left) != 3 {
		t.Errorf("after pinning these are open: %+v, want hcl and the data sets", left)
	}
}

// TestLockedCluster: the image of a cluster's pods is locked, and all that stood on one host still do.
func TestLockedCluster(t *testing.T) {
	c := &provision.Cluster{Name: "c", Image: "registry.example.com/hcl:1"}
	a, b := &provision.Host{Name: "a", Cluster: c}, &provision.Host{Name: "b", Cluster: c}
	e := &engines.Engine{Kind: engines.VLLM, Image: "vllm/vllm-openai:v1", Placement: engines.On(a)}
	cfg := &hcl.Config{Hosts: []*provision.Host{a, b}, Engines: []*engines.Engine{e},
		Benchmarks: []hcl.Benchmark{{Cells: []hcl.Cell{{Engine: e, From: []*provision.Host{b}}}}}}
	if got := Names(cfg).Images; !slices.Contains(got, c.Image) {
		t.Errorf("to be locked are %v", got)
	}
	file := lock.New("dev")
	file.Images[c.Image] = "sha256:" + strings.Repeat("ab", 32)
	pinned := Locked(cfg, file)
	cell := pinned.Benchmarks[0].Cells[0]
	if pinned.Hosts[0] != cell.Engine.Host() || pinned.Hosts[1] != cell.From[0] || pinned.Hosts[0].Cluster != pinned.Hosts[1].Cluster {
		t.Error("a host or a cluster has become two")
	}
	if got := cell.From[0].Cluster.Image; got != c.Image+"@"+file.Images[c.Image] || strings.Contains(c.Image, "@") {
		t.Errorf("it is locked as %s, and the lab's is %s", got, c.Image)
	}
	if got := Names(pinned).Images; slices.Contains(got, c.Image) {
		t.Errorf("left to be locked are %v", got)
	}
}

// TestImages: no field of a recipe that names an image is forgotten.
func TestImages(t *testing.T) {
	recipe := &engines.Engine{Build: &engines.Build{}}
	var fields []any
	for _, of := range []any{recipe, recipe.Build} {
		v := reflect.ValueOf(of).Elem()
		for i := range v.NumField() {
			if strings.Contains(v.Type().Field(i).Name, "Image") && v.Field(i).Kind() == reflect.String {
				fields = append(fields, v.Field(i).Addr().Interface())
			}
		}
	}
	var visited []any
	for _, name := range images(recipe) {
		visited = append(visited, name)
	}
	if !slices.Equal(fields, visited) {
		t.Errorf("%d of %d fields that name an image are visited", len(visited), len(fields))
	}
}
