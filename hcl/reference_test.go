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
	"github.com/zclconf/go-cty/cty/function"

	"hclbench/hcl/lang"
)

const referencePage = "../docs/language.md"

// TestReferenceTables holds docs/language.md to the schema: between two comments stand
// the arguments and blocks of each block, in order, with their types. What they mean, and
// what holds where they are not said, is written there alone. With -update the tables get
// what they lack.
func TestReferenceTables(t *testing.T) {
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	region := regexp.MustCompile(`(?s)<!-- schema: (.*?) -->\n(.*?)<!-- end -->`)
	tables := schemaTables()
	rewritten := region.ReplaceAllStringFunc(string(page), func(s string) string {
		m := region.FindStringSubmatch(s)
		table, ok := tables[m[1]]
		if !ok {
			t.Errorf("the page has a region %q, which is no part of the language", m[1])
			return s
		}
		delete(tables, m[1])
		return "<!-- schema: " + m[1] + " -->\n" + table(m[2]) + "<!-- end -->"
	})
	for _, name := range slices.Sorted(maps.Keys(tables)) {
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
	if i := strings.Index(rewritten, untold); i >= 0 {
		t.Errorf("the page says nothing about an argument: %s", rewritten[strings.LastIndexByte(rewritten[:i], '\n')+1:i])
	}
}

// schemaTables are what makes the regions of the page, by name, of what stands there.
func schemaTables() map[string]func(page string) string {
	all := map[string]func(string) string{"functions": func(string) string { return functionTable() }}
	var walk func(b *lang.BlockType)
	walk = func(b *lang.BlockType) {
		all["block "+b.Name] = func(page string) string { return blockTable(b, page) }
		for _, v := range b.Variants {
			all["block "+b.Name] = func(page string) string { return page }
			all[b.Name+" "+v.Kind] = func(page string) string { return blockTable(v, page) }
		}
		for _, n := range b.Blocks {
			walk(n.Type)
		}
	}
	for _, b := range language() {
		walk(b)
	}
	return all
}

// untold stands where an argument wants words.
const untold = "| **?** | **?** |"

var row = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| .*? (\\| .* \\| .* \\|)$")

// blockTable is the table of a block, with the words that the page has for it.
func blockTable(b *lang.BlockType, page string) string {
	words := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		words[m[1]] = m[2]
	}
	doc, _, _ := strings.Cut(page, "\n\n")
	var s strings.Builder
	fmt.Fprintf(&s, "%s\n\n", doc)
	for i, a := range b.Args {
		if i == 0 {
			s.WriteString("| argument | type | default | |\n|---|---|---|---|\n")
		}
		said := words[a.Name]
		if needed := strings.HasPrefix(said, "| **required** |"); said == "" || a.Must && !needed {
			said = untold
		}
		fmt.Fprintf(&s, "| `%s` | %s %s\n", a.Name, a.Noun(), said)
	}
	if len(b.Args) > 0 {
		s.WriteByte('\n')
	}
	for _, n := range b.Blocks {
		how := "at most one"
		if n.Required {
			how = "exactly one"
		}
		if n.Many {
			how = "any number"
		}
		fmt.Fprintf(&s, "- block `%s` (%s)\n", n.Type.Name, how)
	}
	if len(b.Blocks) > 0 {
		s.WriteByte('\n')
	}
	return s.String()
}

func functionTable() string {
	names := lang.NewReader(&lang.Source{}, lang.Vars{}, language(), map[string]function.Function{"mlperf_points": mlperfPointsFunc}).FunctionNames()
	return strings.Join(lang.Ticked(names), ", ") + ".\n"
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
			if _, p := lang.Format("example.hcl", []byte(text)); p.HasErrors() {
				t.Errorf("the example at line %d does not parse:\n%s", line, printed(t, p))
			}
			continue
		}
		complete++
		if _, p := loadText(t, text, lang.Vars{}); len(p.List()) > 0 {
			t.Errorf("the example at line %d has problems:\n%s", line, printed(t, p))
		}
	}
	if complete == 0 {
		t.Error("the page has no complete example")
	}
}
