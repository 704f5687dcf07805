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
	type pool struct {
		Name, Context string
		GPUs          provision.GPUs
		Storage       storage
	}
	inner := &blockType{name: "storage", args: []argument{
		arg("class", text, func(s *storage, v string) { s.Class = v }),
	}}
	block := &blockType{
		name: "pool", root: "pool", labels: []label{{what: "name", form: identifier}},
		args: []argument{
			forEach(),
			arg("context", text, func(c *pool, s string) { c.Context = s }).must("Of the kubeconfig."),
			arg("gpus", gpus, func(c *pool, g provision.GPUs) { c.GPUs = g }),
		},
		blocks: []nested{part(inner, func(c *pool) *storage { return &c.Storage })},
		make:   becomes(func(d *declared) *pool { return &pool{Name: d.fullName()} }),
		check: checks(func(b *block, c *pool) {
			if c.Context == "" {
				b.failIn("context", "A context has a name.")
			}
		}),
	}
	read := func(text string) *reader {
		src := &Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}
		r := newReader(src, Vars{}, append(language(), block), functions())
		readConfig(r)
		return r
	}
	r := read(`
pool "moai" {
  for_each = { a = "lab", b = "prod" }
  context  = each.value
  gpus     = "4xH200"
  storage { class = "fast" }
}
locals {
  contexts = pool.moai[*].context
}
`)
	if r.HasErrors() {
		t.Fatal(printed(t, r.Problems))
	}
	want := &pool{"moai-b", "prod", provision.GPUs{Count: 4, Model: "H200", Vendor: provision.NVIDIA}, storage{"fast"}}
	if diff := cmp.Diff(want, r.declared["pool.moai"].members[1].evaluated[0].noun); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	if got := describe(r.declared["local.contexts"].val.AsValueSlice()[0]); got != `"lab"` {
		t.Errorf("local.contexts begins with %s", got)
	}
	said := printed(t, read("pool \"x\" {\n  contxt = \"lab\"\n}\npool \"y\" {\n  context = \"\"\n}\nlocals {\n  a = pool.z\n}\n").Problems)
	for _, part := range []string{`Did you mean "context"?`, "A context has a name.", "The lab declares no pool pool.z."} {
		if !strings.Contains(said, part) {
			t.Errorf("nothing says %q:\n%s", part, said)
		}
	}
}
