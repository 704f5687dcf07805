package plan_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plan"
)

// TestReferenceExamplesPlan plans every complete lab of docs/language.md, twice:
// plans are the same each time.
func TestReferenceExamplesPlan(t *testing.T) {
	page, err := os.ReadFile("../docs/language.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?sm)^```hcl complete\n(.*?)^```$").FindAllSubmatchIndex(page, -1) {
		line := bytes.Count(page[:m[2]], []byte("\n")) + 1
		text := page[m[2]:m[3]]
		plans := [2]string{}
		for i := range plans {
			c, p := hcl.Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": text}}, lang.Vars{})
			if p.HasErrors() {
				t.Fatalf("the example at line %d is wrong: %+v", line, p.List())
			}
			n := 0
			for _, b := range c.Benchmarks {
				n += len(b.Cells) * b.Repeat
			}
			c.Lab.Name = "lab" // otherwise that of the directory, which is another one each time
			planned := plan.New(c, plan.Options{})
			if got := planned.Count().Cells; got != n || n == 0 {
				t.Errorf("the example at line %d has %d cells, and %d are planned", line, n, got)
			}
			var b strings.Builder
			if err := planned.JSON(&b); err != nil {
				t.Fatal(err)
			}
			plans[i] = b.String()
		}
		if plans[0] != plans[1] {
			t.Errorf("the example at line %d is planned in two ways:\n%s\n%s", line, plans[0], plans[1])
		}
	}
}
