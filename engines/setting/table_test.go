package setting

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func version(s string) Version { return ParseVersion(s) }

func TestLookup(t *testing.T) {
	for _, tt := range []struct {
		kind, name, version string
		row                 string
		how                 How
	}{
		{"vllm", "tensor-parallel-size", "", "tensor-parallel-size", Exact},
		{"vllm", "tensor_parallel_size", "", "tensor-parallel-size", Exact},
		{"vllm", "speculative-config.method", "", "speculative-config", Exact},
		{"vllm", "no-enable-prefix-caching", "0.11.0", "enable-prefix-caching", Negation},
		{"vllm", "enable-log-requests", "0.33.0", "enable-log-requests", Exact},
		{"vllm", "disable-log-requests", "0.33.0", "enable-log-requests", Pair},
		{"vllm", "disable-log-requests", "0.10.0", "disable-log-requests", Exact},
		{"vllm", "swap-space", "0.33.0", "swap-space", Exact}, // gone, and still known
		{"vllm", "tensor-parallel", "", "tensor-parallel-size", Beginning},
		{"vllm", "max-num", "", "", Ambiguous},
		{"vllm", "no-enable-prefix", "0.11.0", "enable-prefix-caching", Negation}, // as argparse has it
		{"vllm", "no-enable-prefix", "0.6.0", "enable-prefix-caching", Negation},  // which came later
		{"vllm", "disable-prefix", "0.33.0", "enable-prefix-caching", Pair},
		{"vllm", "no-dpe", "0.33.0", "", None},
		{"vllm", "tp", "", "", None},
		{"vllm", "tensor-paralel-size", "", "", None},
		{"sglang", "tp", "0.5.12", "tp-size", Beginning},
		{"sglang", "tensor-parallel-size", "", "tp-size", Alias},
		{"sglang", "tp_size", "", "", None}, // which SGLang refuses
		{"sglang", "pp", "0.5.3", "pp-size", Beginning},
		{"sglang", "pp", "0.5.12", "pp-size", Ambiguous},
		{"sglang", "cuda-graph-bs", "0.5.23", "cuda-graph-bs", Exact}, // gone
		{"sglang", "no-enable-metrics", "", "", None},                 // it has no such form
		{"sglang", "attention-data-parallel-size", "", "attn-dp-size", Alias},
		{"trtllm", "tp_size", "", "tensor_parallel_size", Alias},
		{"trtllm", "tp-size", "", "", None},
		{"trtllm", "tensor_par", "", "", None}, // click takes no beginnings
		{"trtllm", "no-telemetry", "", "telemetry", Negation},
		{"trtllm_router", "hostname", "", "host", Alias},
		{"sglang_router", "polcy", "", "", None},
		{"openai", "anything", "", "", None},
	} {
		row, how := Lookup(tt.kind, tt.name, version(tt.version))
		got := ""
		if row != nil {
			got = row.Name
		}
		if got != tt.row || how != tt.how {
			t.Errorf("Lookup(%q, %q, %q) = %q, %v, want %q, %v", tt.kind, tt.name, tt.version, got, how, tt.row, tt.how)
		}
	}
}

// TestForms: what an option takes, and what holds without it, differs between versions.
func TestForms(t *testing.T) {
	for _, tt := range []struct{ kind, name, version, form, standard string }{
		{"vllm", "enable-prefix-caching", "0.6.0", "switch", "false"},
		{"vllm", "enable-prefix-caching", "0.6.5", "switch/no", "-"},
		{"vllm", "enable-prefix-caching", "", "switch/no", "-"},
		{"vllm", "disable-cascade-attn", "0.18.0", "switch/no", "true"},
		{"vllm", "disable-cascade-attn", "0.33.0", "switch/no", "-"},
		{"sglang", "enable-metrics", "", "switch", "false"},
	} {
		row, _ := Lookup(tt.kind, tt.name, version(tt.version))
		if form, standard := row.Form(version(tt.version)), row.Default(version(tt.version)); form != tt.form || standard != tt.standard {
			t.Errorf("%s %s %s: %s, %s", tt.kind, tt.name, tt.version, form, standard)
		}
	}
}

// TestLacks: only what is sure. SGLang's nccl-port was first read in 0.4.9.post6, and none between it and 0.4.8.post1.
func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		kind, name, version string
		want                bool
	}{
		{"vllm", "nnodes", "0.11.0", true}, {"vllm", "nnodes", "0.11.1", false}, {"vllm", "nnodes", "", false},
		{"sglang", "nccl-port", "0.4.8.post1", true}, {"sglang", "nccl-port", "0.4.9", false}, {"sglang", "nccl-port", "0.5.12", false},
		{"vllm_router", "vllm-discovery-address", "0.1.14", true}, {"vllm_router", "vllm-discovery-address", "0.1.15", false},
		{"sglang", "disaggregation-transfer-backend", "0.4.4.post4", true}, {"sglang", "disaggregation-transfer-backend", "0.4.5", false},
		{"vllm_router", "kv-connector", "0.1.13", true}, {"vllm_router", "kv-connector", "0.1.14", false},
		{"vllm", "swap-space", "0.40.0", true}, {"vllm", "nnodes", "0.40.0", false}, {"trtllm", "served_model_name", "1.0.0", false},
	} {
		row, _ := Lookup(tt.kind, tt.name, Version{})
		if got := row.Lacks(tt.kind, version(tt.version)); got != tt.want {
			t.Errorf("%s %s lacks %s: %v", tt.kind, tt.version, tt.name, got)
		}
	}
}

// TestMeanings: each line names options that there are (else reading panics), and no option means two things by name.
func TestMeanings(t *testing.T) {
	for _, tt := range []struct{ kind, name, want string }{
		{"vllm", "prefill-context-parallel-size", "prefill context parallel"}, {"trtllm", "context_parallel_size", "prefill context parallel"},
		{"sglang", "nccl-init-addr", "ranks"}, {"vllm", "spec-method", "speculation"}, {"vllm", "tool-server", "the server's own"},
		{"sglang", "attention-data-parallel-size", "attention ranks"}, {"sglang", "speculative-num-steps", "steps of drafts"},
	} {
		row, _ := Lookup(tt.kind, tt.name, Version{})
		if m := Means(row); m == nil || m.Name != tt.want {
			t.Errorf("%s %s means %v, want %s", tt.kind, tt.name, m, tt.want)
		}
	}
}

// TestRealParsers: a version has the names that its own parser told when it ran, and no others. The lists
// are of `vllm serve --help=all`, `python -m sglang.launch_server --help` and the routers' --help, without the no-forms; of SGLang with two
// options that its help hides.
func TestRealParsers(t *testing.T) {
	for kind, v := range map[string]string{"vllm": "0.32.0", "sglang": "0.5.23", "vllm_router": "0.1.17", "sglang_router": "0.3.2"} {
		text, err := os.ReadFile("testdata/" + strings.ReplaceAll(kind, "_", "-") + "-" + v + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		var has []string
		for name, spelt := range tables()[kind].by {
			if !strings.HasPrefix(name, "-") && slices.ContainsFunc(spelt, func(s spelling) bool { return s.in(version(v)) && !s.how.Opposite() }) {
				has = append(has, name)
			}
		}
		slices.Sort(has)
		if diff := cmp.Diff(strings.Fields(string(text)), has); diff != "" {
			t.Errorf("%s %s (-its own parser +the table):\n%s", kind, v, diff)
		}
	}
}

// TestPyPITable: scripts/settings.py finds in the newest package that was read what the table has.
func TestPyPITable(t *testing.T) {
	for _, kind := range []string{"vllm", "sglang", "vllm_router", "sglang_router"} {
		read := Read(kind)
		v := read[len(read)-1].String()
		out, err := exec.CommandContext(t.Context(), "python3", "../../scripts/settings.py", "--compare", strings.ReplaceAll(kind, "_", "-"), v).CombinedOutput()
		text := string(out)
		if err != nil || strings.Count(text, "no more: none") != strings.Count(text, "settings.") || strings.Count(text, "and new: none") != strings.Count(text, "settings.") || text == "" {
			t.Errorf("%s %s: %v\n%s", kind, v, err, text)
		}
	}
}
