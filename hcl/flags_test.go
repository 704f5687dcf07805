package hcl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/hcl/lang"
)

// TestInheritedFlag: a flag takes the place of an inherited one whatever it is called there, and null removes it.
func TestInheritedFlag(t *testing.T) {
	for _, tt := range []struct{ kind, inherited, own, want string }{
		{"vllm", "max_num_seqs = 256", "max-num-seqs = 64", "max-num-seqs=64"},
		{"sglang", "tp-size = 8", "tp = 4", "tp=4"},
		{"sglang", "tp-size = 4, dp = 2", "tensor-parallel-size = null", "dp=2"},
		{"trtllm", "tp_size = 8", "tensor_parallel_size = 4", "tensor_parallel_size=4"},
		{"vllm", "enable-prefix-caching = true", "no-enable-prefix-caching = true", "no-enable-prefix-caching"},
		{"vllm", "a = 1, a-b = 2", "a_b = 3", "a=1 a_b=3"}, // of no table
	} {
		engine := func(name, says, flags string) string {
			return fmt.Sprintf("engine %q %q {\n%s\nflags = { %s }\n}\n", tt.kind, name, says, flags)
		}
		text := common + engine("base", "host = host.h\nmodel = model.m\nimage = \"a:1\"", tt.inherited) +
			engine("e", "inherits = engine."+tt.kind+".base", tt.own) +
			benchmarkOf("matrix { engine = [engine."+tt.kind+".e] }", "")
		cfg := mustLoad(t, text, lang.Vars{})
		var words []string
		for _, f := range cfg.Benchmarks[0].Cells[0].Engine.Flags {
			w := f.Name
			if f.Value != nil {
				w += "=" + f.Value.Reveal()
			}
			words = append(words, w)
		}
		if got := strings.Join(words, " "); got != tt.want {
			t.Errorf("%s over %s of %s: %s, want %s", tt.own, tt.inherited, tt.kind, got, tt.want)
		}
	}
}

// TestFalseFlag: an axis that turns a switch on and off makes two engines, also of one that is on by itself.
func TestFalseFlag(t *testing.T) {
	cfg := mustLoad(t, common+vllm("e", "flags = { enable-prefix-caching = matrix.cached, max-num-seqs = matrix.n }")+
		benchmarkOf("matrix {\nengine = [engine.vllm.e]\ncached = [true, false]\nn = [false, 64]\n}", ""), lang.Vars{})
	var got []string
	for _, c := range cfg.Benchmarks[0].Cells {
		var words []string
		for _, f := range c.Engine.Flags {
			words = append(words, f.Name)
		}
		got = append(got, strings.Join(words, " "))
	}
	want := []string{"enable-prefix-caching", "enable-prefix-caching max-num-seqs", "no-enable-prefix-caching", "max-num-seqs no-enable-prefix-caching"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

// TestFlagWarnings: what cannot be meant is told at its place.
func TestFlagWarnings(t *testing.T) {
	router := func(says string) string {
		return common + "engine \"sglang\" \"e\" {\nmodel = model.m\nimage = \"a:1\"\nflags = { tp = 8, enable-metrics = true }\n}\n" +
			"group \"g\" {\nrole \"serve\" {\nengine = engine.sglang.e\non = [host.h]\n}\nrouter \"sglang\" {\nhost = host.h\nimage = \"r:1\"\n" + says +
			"\n}\n}\n" + benchmarkOf("matrix { engine = [group.g] }", "")
	}
	for name, c := range map[string]struct{ text, want string }{
		"a slip in a router's flag": {router("flags = { polcy = \"random\" }"), "Did you mean policy?"},
		"a router's choice":         {router("flags = { policy = \"least_loaded\" }"), `hcl knows of no policy "least_loaded"`},
		"a switch without opposite": {common + vllm("e", "flags = { use-v2-block-manager = false }\nversion = \"0.7.3\"") +
			benchmarkOf("matrix { engine = [engine.vllm.e] }", ""), "false leaves use-v2-block-manager out"},
		"adapters of nobody": {common + vllm("e", "") + strings.Replace(benchmarkOf("matrix { engine = [engine.vllm.e] }", ""),
			"concurrency ", "adapters = { sql = 0.5 }\nconcurrency ", 1), "engine.vllm.e is told of no adapter"},
	} {
		_, p := loadText(t, c.text, lang.Vars{})
		if got := strings.Join(strings.Fields(printed(t, p)), " "); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
