package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

// TestBothTraces: what an unclean host has of two runs is looked for, against what its
// GPUs were before the first of them.
func TestBothTraces(t *testing.T) {
	before := provision.GPUUse{Memory: []int64{1}}
	got := bothTraces(provision.Traces{Before: before, Containers: []string{"a"}, Ports: []int{1}},
		provision.Traces{Before: provision.GPUUse{Memory: []int64{9}}, Containers: []string{"b"}, Ports: []int{2}, Mark: "m"})
	want := provision.Traces{Before: before, Containers: []string{"a", "b"}, Ports: []int{1, 2}, Mark: "m"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bothTraces (-want +got):\n%s", diff)
	}
}
