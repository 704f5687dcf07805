package formats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestServers: engines of one kind are called by what sets their commands apart.
func TestServers(t *testing.T) {
	const table = "serve_command,case,output_throughput\n"
	for name, c := range map[string]struct {
		commands string
		want     []string
	}{
		"one of each kind":     {"vllm serve m -tp 8\ntrtllm-serve m --tp_size 8\n", []string{"vllm.elsewhere", "trtllm.elsewhere"}},
		"other spellings":      {"vllm serve m -tp 8 --port 1\nvllm serve n --tensor-parallel-size=8\n", []string{"vllm.elsewhere", "vllm.elsewhere"}},
		"a flag and its value": {"vllm serve m -tp 8\nvllm serve m -tp 4 --enforce-eager\n", []string{"vllm.tp-8", "vllm.enforce-eager+tp-4"}},
		"one is turned off":    {"vllm serve m --no-enable-prefix-caching\nvllm serve m --enable-prefix-caching\n", []string{"vllm.no-enable-prefix-caching", "vllm.prefix-caching"}},
		"what it listens on":   {"sglang.launch_server --tp 8 --api-key x --host a\nsglang.launch_server --tp-size 8 --model y\n", []string{"sglang.elsewhere", "sglang.elsewhere"}},
		"with and without":     {"sglang.launch_server\nsglang.launch_server --enable-dp-attention\n", []string{"sglang.default", "sglang.dp-attention"}},
		"a family of flags": {"sglang.launch_server --mtp\nsglang.launch_server --mtp --spec-a 1 --spec-b 2 --spec-c 3\n",
			[]string{"sglang.default", "sglang.spec"}},
	} {
		lines := strings.ReplaceAll(c.commands, "\n", ",x,1\n")
		rows, _, err := ReadTable(strings.NewReader(table + lines))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		check(t, Unsaid{}.Complete(rows))
		for i := range rows {
			got = append(got, rows[i].Deployment.Engine)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestEngineNames: what a file calls an engine is its name, and engines of one kind that it calls
// otherwise are no repetitions of each other.
func TestEngineNames(t *testing.T) {
	for name, c := range map[string]struct{ column, rows, engine, want string }{
		"as hcl calls them":    {"engine", "vllm.a\nvllm.b\nvllm.a", "", "vllm.a 1, vllm.b 1, vllm.a 2"},
		"in other words":       {"engine", "vLLM v0.11 TP8\nvLLM v0.11 TP4", "", "vllm.v0.11-TP8 1, vllm.v0.11-TP4 1"},
		"kinds alone":          {"backend", "sglang-oai\nTensorRT-LLM\nvllm", "", "sglang.elsewhere 1, trtllm.elsewhere 1, vllm.elsewhere 1"},
		"kinds of others":      {"engine", "tgi.base\nLMDeploy", "", "tgi.base 1, lmdeploy.elsewhere 1"},
		"an engine and client": {"backend,engine", "openai,vllm.a\nopenai,vllm.b", "", "vllm.a 1, vllm.b 1"},
		"one, named by a flag": {"engine", "vllm.a\nvllm.a", "vllm.x", "vllm.x 1, vllm.x 2"},
		"two, named by a flag": {"engine", "vllm.a\nvllm.b", "vllm.x", "it is of several engines, vllm.a, vllm.b, and --engine names one"},
	} {
		all, _, err := ReadTable(strings.NewReader(c.column + ",conc,output_throughput\n" + strings.ReplaceAll(c.rows, "\n", ",8,1\n") + ",8,1\n"))
		check(t, err)
		got := ""
		if err := (Unsaid{Engine: c.engine}).Complete(all); err != nil {
			got = err.Error()
		} else {
			var names []string
			taken := map[string]bool{}
			for i := range all {
				identify(&all[i], "r", taken)
				names = append(names, fmt.Sprint(all[i].Deployment.Engine, " ", all[i].Repetition))
			}
			got = strings.Join(names, ", ")
		}
		if got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
	all, _, err := Read(strings.NewReader(`{"completed": 1, "duration": 1.0, "backend": "openai", "engine": "vllm.a", "gpu": "8xh200"}`))
	check(t, err)
	check(t, Unsaid{}.Complete(all))
	if d := all[0].Deployment; d.Engine != "vllm.a" || d.GPUs != "8xH200" || len(all[0].Axes) != 1 {
		t.Errorf("of --metadata engine=vllm.a gpu=8xh200: %+v, axes %v", d, all[0].Axes)
	}
}

// TestOneForSeveral: what a file tells apart is not made one by what is said of all of it.
func TestOneForSeveral(t *testing.T) {
	for _, u := range []Unsaid{{GPUs: "8xH200"}, {Model: "org/c"}} {
		all, _, err := ReadTable(strings.NewReader("gpu,model,engine,concurrency,output_throughput\nh200,org/a,vllm,8,100\nmi300,org/b,vllm,8,50\n"))
		check(t, err)
		if err := u.Complete(all); err == nil || !strings.Contains(err.Error(), "of several") {
			t.Errorf("%+v: %v", u, err)
		}
	}
}
