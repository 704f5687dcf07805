package hcl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl/lang"
)

// TestModel is a model block with each mistake that only the whole of it shows.
func TestModel(t *testing.T) {
	lab := `
host "h" {
  address = "203.0.113.1"
}
model "m" {
%MODEL%
}
` + vllm("a", "") + `dataset "random" "d" {
  input_tokens = 8
}
`
	for block, want := range map[string]string{
		`repo = "org/model"
download = true`: "Say where the model is kept on the host",
		`repo = "/data/models/m"
cache = "/data/huggingface"
download = true`: `"/data/models/m" is a directory on the host`,
		`repo = "org/model"
cache = "huggingface"`: `"huggingface" is not an absolute path`,
		`repo = " "`: `"repo" is empty`,
		`repo = "org/model"
download = "perhaps"`: "on lab.hcl line 7, in model \"m\":",
	} {
		_, p := loadText(t, strings.Replace(lab, "%MODEL%", block, 1)+benchmarkOf("matrix { engine = [engine.vllm.a] }", ""), lang.Vars{})
		if got := printed(t, p); !p.HasErrors() || !strings.Contains(got, want) || strings.Count(got, "Error") != 1 {
			t.Errorf("%s: one error with %q is wanted:\n%s", block, want, got)
		}
	}
	for block, want := range map[string]engines.Model{
		`repo = "org/model"
cache = "~/models"
download = true
size = "689GB"`: {Name: "m", Repo: "org/model", Cache: "~/models", Download: true, Size: 689e9},
		`repo = "/data/models/m"`: {Name: "m", Repo: "/data/models/m"},
	} {
		c := mustLoad(t, strings.Replace(lab, "%MODEL%", block, 1)+benchmarkOf("matrix { engine = [engine.vllm.a] }", ""), lang.Vars{})
		got := *c.Engines[0].Model
		got.Pos = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", block, diff)
		}
	}
}
