package hcl

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const referencePage = "../docs/language.md"

// TestReferenceTables holds docs/language.md to the schema: between two comments
// stands what is generated from it, for every block. With -update it is
// rewritten.
func TestReferenceTables(t *testing.T) {
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"functions": functionTable()}
	var walk func(b *blockType)
	walk = func(b *blockType) {
		want["block "+b.name] = blockTable(b)
		for _, v := range b.variants {
			want["block "+b.name] = b.doc + "\n\n"
			want[b.name+" "+v.kind] = blockTable(v)
		}
		for _, n := range b.blocks {
			walk(n.typ)
		}
	}
	for _, b := range language() {
		walk(b)
	}
	region := regexp.MustCompile(`(?s)<!-- generated: (.*?) -->\n(.*?)<!-- end -->`)
	rewritten := region.ReplaceAllStringFunc(string(page), func(s string) string {
		name := region.FindStringSubmatch(s)[1]
		table, ok := want[name]
		if !ok {
			t.Errorf("the page has a region %q, which nothing generates", name)
		}
		delete(want, name)
		return "<!-- generated: " + name + " -->\n" + table + "<!-- end -->"
	})
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("the page lacks the region %q", name)
	}
	if *update {
		if err := os.WriteFile(referencePage, []byte(rewritten), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(rewritten, string(page)); diff != "" {
		t.Errorf("the page differs from the schema; go test ./hcl -update rewrites it (-want +got):\n%s", diff)
	}
}

func blockTable(b *blockType) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s\n\n", b.doc)
	if len(b.args) > 0 {
		s.WriteString("| argument | type | default | |\n|---|---|---|---|\n")
		for _, a := range b.args {
			fallback := a.fallback
			switch {
			case a.required:
				fallback = "**required**"
			case fallback == "":
				fallback = "none"
			case strings.HasPrefix(fallback, `"`):
				fallback = "`" + fallback + "`"
			}
			fmt.Fprintf(&s, "| `%s` | %s | %s | %s |\n", a.name, a.kind.noun, fallback, a.doc)
		}
		s.WriteByte('\n')
	}
	for _, n := range b.blocks {
		how := "at most one"
		if n.required {
			how = "exactly one"
		}
		if n.many {
			how = "any number"
		}
		fmt.Fprintf(&s, "- block `%s` (%s)\n", n.typ.name, how)
	}
	if len(b.blocks) > 0 {
		s.WriteByte('\n')
	}
	return s.String()
}

func functionTable() string {
	names := slices.Sorted(maps.Keys(functionSet("", Vars{})))
	return strings.Join(ticked(names), ", ") + ".\n"
}

// TestReferenceExamples reads every example of the page. Those that are marked
// "hcl complete" are labs without a mistake; the others at least parse.
func TestReferenceExamples(t *testing.T) {
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	complete := 0
	for _, m := range regexp.MustCompile("(?sm)^```hcl( complete)?\n(.*?)^```$").FindAllStringSubmatchIndex(string(page), -1) {
		text := string(page[m[4]:m[5]])
		line := strings.Count(string(page[:m[4]]), "\n") + 1
		if m[2] < 0 {
			if _, diags := hclsyntax.ParseConfig([]byte(text), "example.hcl", hcl.InitialPos); diags.HasErrors() {
				t.Errorf("the example at line %d does not parse: %v", line, diags)
			}
			continue
		}
		complete++
		if _, p := loadText(t, text, Vars{}); len(p.List()) > 0 {
			t.Errorf("the example at line %d has problems:\n%s", line, printed(t, p))
		}
	}
	if complete == 0 {
		t.Error("the page has no complete example")
	}
}
