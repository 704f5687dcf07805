package hcl

import (
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

// TestTuneRefused: what a tuning cannot start as it is in a cell, and figures that no start can have, are mistakes of the lab.
func TestTuneRefused(t *testing.T) {
	lab := func(flag, benchmark, figure, option string) string {
		return `
host "h" {
  address = "local"
  runtime = "process"
}
engine "sim" "e" {
  host  = host.h
  flags = { itl = "10ms"` + flag + ` }
}
dataset "random" "d" { input_tokens = 16 }
benchmark "chat" {
  ` + benchmark + `
  engine   = engine.sim.e
  dataset  = dataset.random.d
  requests = 8
  load {
    concurrency   = 4
    output_tokens = 16
  }
}
tune "pace" {
  objective = benchmark.chat
  start     = engine.sim.e
  figure    = "` + figure + `"
  stage "s" { flags = [{ ` + option + ` }] }
  budget { starts = 12 }
}`
	}
	for name, tt := range map[string]struct{ text, want string }{
		"matrix":     {lab(", spread = matrix.s", "matrix { s = [0.5, 0.9] }", "output_throughput", `itl = "2ms"`), "another engine in each cell"},
		"zero":       {lab("", "", "failed", `itl = "2ms"`), "the best is 0"},
		"percentile": {lab("", "", "p97_ttft_ms", `itl = "2ms"`), "has no p97_ttft_ms"},
	} {
		_, problems := loadText(t, tt.text, lang.Vars{})
		if said := strings.Join(strings.Fields(printed(t, problems)), " "); !strings.Contains(said, tt.want) {
			t.Errorf("%s: said %q, want %q", name, said, tt.want)
		}
	}
}
