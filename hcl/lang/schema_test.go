package lang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNewBlock: a new block is one entry of the language. That others can refer to it,
// that it may have for_each, and what is said about mistakes in it follow from the entry.
func TestNewBlock(t *testing.T) {
	type storage struct{ Class string }
	type pool struct {
		Name, Context string
		Memory        int64
		Storage       storage
	}
	inner := &BlockType{Name: "storage", Args: []Argument{
		Arg("class", Text, func(s *storage, v string) { s.Class = v }),
	}}
	block := &BlockType{
		Name: "pool", Root: "pool", Labels: []Label{{What: "name", Form: Identifier}},
		Args: []Argument{
			ForEach(),
			Arg("context", Text, func(c *pool, s string) { c.Context = s }).Required("Of the kubeconfig."),
			Arg("memory", Size, func(c *pool, n int64) { c.Memory = n }),
		},
		Blocks: []Nested{Part(inner, func(c *pool) *storage { return &c.Storage })},
		Make:   Makes(func(d *Declared) *pool { return &pool{Name: d.FullName()} }),
		Check: Checks(func(b *Block, c *pool) {
			if c.Context == "" {
				b.Fail(b.ValueOf("context"), "Wrong value", "A context has a name.")
			}
		}),
	}
	r := readText(t, `
pool "moai" {
  for_each = { a = "lab", b = "prod" }
  context  = each.value
  memory   = "32GB"
  storage { class = "fast" }
}
locals {
  contexts = pool.moai[*].context
}
`, block)
	if r.HasErrors() {
		t.Fatal(messages(t, r.Problems))
	}
	want := &pool{"moai-b", "prod", 32e9, storage{"fast"}}
	if diff := cmp.Diff(want, r.declared["pool.moai"].members[1].Evaluated[0].Noun); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	if got := Describe(r.declared["local.contexts"].val.AsValueSlice()[0]); got != `"lab"` {
		t.Errorf("local.contexts begins with %s", got)
	}
	said := messages(t, readText(t, "pool \"x\" {\n  contxt = \"lab\"\n}\npool \"y\" {\n  context = \"\"\n}\nlocals {\n  a = pool.z\n}\n", block).Problems)
	for _, part := range []string{`Did you mean "context"?`, "A context has a name.", "The lab declares no pool pool.z."} {
		if !strings.Contains(said, part) {
			t.Errorf("nothing says %q:\n%s", part, said)
		}
	}
}
