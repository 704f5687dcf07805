package formats

import (
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
		"other spellings":      {"vllm serve m --tp 8 --port 1\nvllm serve n --tensor-parallel-size=8\n", []string{"vllm.elsewhere", "vllm.elsewhere"}},
		"a flag and its value": {"vllm serve m -tp 8\nvllm serve m -tp 4 --enforce-eager\n", []string{"vllm.tp-8", "vllm.enforce-eager+tp-4"}},
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
		for i := range rows {
			check(t, Unsaid{}.Complete(&rows[i]))
			got = append(got, rows[i].Deployment.Engine)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
