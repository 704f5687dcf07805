package accuracy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPython: the numbers are CPython 3.11's.
func TestPython(t *testing.T) {
	r := newPython(1234)
	got := [][]int{r.sample(7473, 5), r.sample(7473, 5), r.sample(7473, 5), r.sample(4, 4), r.sample(30, 8)}
	want := [][]int{{6374, 3610, 957, 61, 742}, {7462, 6610, 4769, 286, 5501}, {5677, 687, 806, 6279, 2905}, {1, 0, 2, 3}, {11, 20, 19, 15, 27, 14, 4, 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed 1234 (-want +got):\n%s", diff)
	}
	r = newPython(0)
	if diff := cmp.Diff([][]int{{2, 0, 1, 3}, {2, 3, 1, 0}}, [][]int{r.shuffle(4), r.sample(4, 4)}); diff != "" {
		t.Errorf("seed 0 (-want +got):\n%s", diff)
	}
}
