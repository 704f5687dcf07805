package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

// TestBothTraces: what an unclean host has of two runs is looked for, against what its
// GPUs were before the first of them. Two labs have two agents, and so two marks.
func TestBothTraces(t *testing.T) {
	before := provision.GPUUse{Memory: []int64{1}}
	got := bothTraces(provision.Traces{Before: before, Containers: []string{"a"}, Ports: []int{1}, Marks: []string{"l/"}},
		provision.Traces{Before: provision.GPUUse{Memory: []int64{9}}, Containers: []string{"b"}, Ports: []int{2, 1}, Marks: []string{"m/"}})
	want := provision.Traces{Before: before, Containers: []string{"a", "b"}, Ports: []int{1, 2}, Marks: []string{"l/", "m/"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bothTraces (-want +got):\n%s", diff)
	}
}
