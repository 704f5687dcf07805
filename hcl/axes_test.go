package hcl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/hcl/lang"
)

// flagsOfCells are the flags of each cell's engine, or of the first role of its group.
func flagsOfCells(cfg *Config) (all []string) {
	for _, c := range cfg.Benchmarks[0].Cells {
		e := c.Engine
		if of := e.Placement[0].Engine; of != nil {
			e = of
		}
		var words []string
		for _, f := range e.Flags {
			words = append(words, fmt.Sprintf("%s=%s", f.Name, f.Value))
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

// TestBlocksInAxes: a block that stands in an axis, and itself uses matrix.*, is in each cell as that cell has it, by
// whichever way another block comes to it.
func TestBlocksInAxes(t *testing.T) {
	const a = "flags = { max-num-seqs = matrix.n }"
	recipe := "engine \"vllm\" \"a\" {\nmodel = model.m\nimage = \"vllm/vllm-openai:v0.11.0\"\n" + a + "\n}\n"
	group := "group \"g\" {\nrole \"serve\" {\nengine = matrix.base\non = [host.h]\n}\n}\n"
	axes := func(order ...string) string {
		values := map[string]string{"n": "[1, 2]", "base": "[engine.vllm.a]", "engine": "[engine.vllm.b]", "group": "[group.g]"}
		var lines []string
		for _, name := range order {
			axis := strings.Replace(name, "group", "engine", 1)
			lines = append(lines, axis+" = "+values[name])
		}
		return "matrix {\n" + strings.Join(lines, "\n") + "\n}"
	}
	for name, text := range map[string]string{
		"its arguments":  vllm("a", a) + vllm("b", "flags = { max-num-seqs = matrix.base.flags.max-num-seqs }") + benchmarkOf(axes("n", "base", "engine"), ""),
		"in other order": vllm("a", a) + vllm("b", "flags = { max-num-seqs = matrix.base.flags.max-num-seqs }") + benchmarkOf(axes("engine", "base", "n"), ""),
		"inherited":      vllm("a", a) + "engine \"vllm\" \"b\" {\ninherits = matrix.base\n}\n" + benchmarkOf(axes("n", "base", "engine"), ""),
		"in a role":      recipe + group + benchmarkOf(axes("n", "base", "group"), ""),
	} {
		cfg, p := loadText(t, common+text, lang.Vars{})
		if p.HasErrors() {
			t.Errorf("%s: %s", name, printed(t, p))
			continue
		}
		want := []string{"max-num-seqs=1", "max-num-seqs=2"}
		if diff := cmp.Diff(want, flagsOfCells(cfg)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAxes: what is said of axes and of what leaves cells out.
func TestAxes(t *testing.T) {
	concurrency := func(matrix, value string) string {
		return vllm("e", "") + strings.Replace(benchmarkOf(matrix, ""), "matrix.engine", "engine.vllm.e", 1) + "locals {\nc = " + value + "\n}\n"
	}
	for name, tt := range map[string]struct{ text, want string }{
		"a circle of inherited blocks":    {"engine \"vllm\" \"a\" {\ninherits = matrix.a\n}\n" + benchmarkOf("matrix {\na = [engine.vllm.a]\nengine = [engine.vllm.a]\n}", ""), "engine.vllm.a refers to itself"},
		"all of a cell, without a matrix": {concurrency("exclude { when = matrix == {} }", "1"), "The exclude blocks leave out the only cell of benchmark \"b\""},
		"the only cell":                   {concurrency("exclude { when = true }", "1"), "The exclude blocks leave out the only cell of benchmark \"b\""},
		"a number and its text":           {concurrency("matrix { c = [4, \"4\"] }", "1"), "The axis \"c\" has \"4\" more than once"},
		"an axis that is empty in a cell": {concurrency("matrix {\na = [1, 2]\nc = [for x in [1] : x if x < matrix.a]\n}", "1"), "matrix.a is 1\n\nThe axis \"c\" has no values here"},
		"an index that is no attribute":   {concurrency("", "host.h[\"adress\"]"), "Did you mean \"address\"?"},
	} {
		_, p := loadText(t, common+tt.text, lang.Vars{})
		got := printed(t, p)
		if !strings.Contains(strings.ReplaceAll(got, "\n", " "), strings.ReplaceAll(tt.want, "\n", " ")) || strings.Contains(got, "Unused engine") {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
