package hcl

import (
	"fmt"
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

// TestBounds: what would take all memory, or has no form in a plan, is refused.
func TestBounds(t *testing.T) {
	for _, value := range []string{
		`indent(20000000000, "a\nb")`, `replace(local.mb, "a", local.mb)`, `regexreplace(local.mb, "a?", local.mb)`,
		`join(local.mb, [for x in range(100) : "x"])`,
	} {
		text := fmt.Sprintf("locals {\n  mb = format(\"%%999s\", replace(format(\"%%999s\", \"\"), \" \", format(\"%%999s\", \"\")))\n  x = %s\n}\n", value)
		text = strings.ReplaceAll(text, `"a", local.mb`, `" ", local.mb`)
		text = strings.ReplaceAll(text, "[for x in range(100) : ", "[for x in range(1000) : ")
		_, p := Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
		if !p.HasErrors() {
			t.Errorf("%s is taken", value)
		}
	}
	text := "benchmark \"b\" {\n  matrix {\n    x = [1e300 * 1e300]\n  }\n}\n"
	_, p := Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
	if said := printed(t, p); !strings.Contains(said, `"x"`) {
		t.Errorf("an axis may be infinite:\n%s", said)
	}
}

// TestTwins: cells that differ by an axis which their engine does not use, though another does, are warned of.
func TestTwins(t *testing.T) {
	text := `
lab "x" {}
model "m" { repo = "m" }
engine "external" "a" {
  url   = "http://a:1"
  model = model.m
}
engine "sim" "b" {
  host  = host.h
  model = model.m
  flags = { itl = matrix.itl }
}
host "h" { address = "local" }
dataset "random" "r" { input_tokens = 8 }
benchmark "b" {
  matrix {
    engine = [engine.external.a, engine.sim.b]
    itl    = ["1ms", "2ms"]
  }
  engine   = matrix.engine
  dataset  = dataset.random.r
  requests = 1
  load {
    concurrency   = 1
    output_tokens = 8
  }
}`
	_, p := Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
	if said := printed(t, p); p.HasErrors() || strings.Count(said, "Cells that are the same") != 1 || !strings.Contains(said, "1 cell of engine.external.a only repeat") {
		t.Errorf("said:\n%s", said)
	}
}
