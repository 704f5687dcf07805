package compare

import (
	"fmt"
	"strings"
	"testing"

	"hclbench/report/reporttest"
)

// TestMembersCompared: what differs is said of the member that it is of.
func TestMembersCompared(t *testing.T) {
	before, after := reporttest.FourHosts(), reporttest.FourHosts()
	d := &after[0].Deployment
	d.Members[2].Digest, d.Members[2].Versions = "sha256:newer", map[string]string{"vllm": "0.12.0"}
	d.Served = []byte(strings.Replace(string(d.Served), `"decode 0":{"max_model_len":8192`, `"decode 0":{"max_model_len":4096`, 1))
	d.Members[3].Host = "n4"
	var got []string
	for _, diff := range inputDiffs(&before[0], &after[0]) {
		got = append(got, fmt.Sprintf("%s %s → %s", diff.Name, diff.A, diff.B))
	}
	reporttest.Check(t, "what differs", []string{
		"decode 0: image digest sha256:decode → sha256:newer", "decode 0: served: max_model_len 8192 → 4096",
		"decode 0: version: vllm 0.11.0 → 0.12.0",
		"host n3: gpus[0].name H200 → ", "host n3: os os of n3 → ", "host n4: gpus[0].name  → H200", "host n4: os  → os of n3",
		"router: host n3 → n4",
	}, got)
	if got, want := gpusSeen(&before[0]), "4 × H200"; got != want {
		t.Errorf("GPUs seen: %s, want %s", got, want)
	}
}
