package hcl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

// TestNewBlock: a new block is one entry of the language. That others can refer to it,
// that it may have for_each, and what is said about mistakes in it follow from the entry.
func TestNewBlock(t *testing.T) {
	type storage struct{ Class string }
	type cluster struct {
		Name, Context string
		GPUs          provision.GPUs
		Storage       storage
	}
	inner := &blockType{name: "storage", args: []argument{
		arg("class", text, func(s *storage, v string) { s.Class = v }),
	}}
	block := &blockType{
		name: "cluster", root: "cluster", labels: []label{{what: "name", form: identifier}},
		args: []argument{
			forEach(),
			arg("context", text, func(c *cluster, s string) { c.Context = s }).must("Of the kubeconfig."),
			arg("gpus", gpus, func(c *cluster, g provision.GPUs) { c.GPUs = g }),
		},
		blocks: []nested{part(inner, func(c *cluster) *storage { return &c.Storage })},
		make:   becomes(func(d *declared) *cluster { return &cluster{Name: d.fullName()} }),
		check: checks(func(b *block, c *cluster) {
			if c.Context == "" {
				b.wrongly("context", "A context has a name.")
			}
		}),
	}
	read := func(text string) *reader {
		src := &Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}
		r := newReader(src, Vars{}, append(language(), block))
		r.load()
		return r
	}
	r := read(`
cluster "moai" {
  for_each = { a = "lab", b = "prod" }
  context  = each.value
  gpus     = "4xH200"
  storage { class = "fast" }
}
locals {
  contexts = cluster.moai[*].context
}
`)
	if r.HasErrors() {
		t.Fatal(printed(t, r.Problems))
	}
	want := &cluster{"moai-b", "prod", provision.GPUs{Count: 4, Model: "H200", Vendor: provision.NVIDIA}, storage{"fast"}}
	if diff := cmp.Diff(want, r.declared["cluster.moai"].members[1].evaluated[0].noun); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	if got := describe(r.declared["local.contexts"].val.AsValueSlice()[0]); got != `"lab"` {
		t.Errorf("local.contexts begins with %s", got)
	}
	said := printed(t, read("cluster \"x\" {\n  contxt = \"lab\"\n}\ncluster \"y\" {\n  context = \"\"\n}\nlocals {\n  a = cluster.z\n}\n").Problems)
	for _, part := range []string{`Did you mean "context"?`, "A context has a name.", "The lab declares no cluster cluster.z."} {
		if !strings.Contains(said, part) {
			t.Errorf("nothing says %q:\n%s", part, said)
		}
	}
}
