package results

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testStay is what a run has had of a box, with every field filled.
func testStay(run, request string) Stay {
	return Stay{
		RunID: run, Request: request, Host: "h200", Plugin: "fake", Box: "b-1", Price: 20.5, Began: noon, Up: noon.Add(time.Minute),
		Ready: noon.Add(2 * time.Minute), Ended: noon.Add(time.Hour + time.Nanosecond), Closed: true, Cost: 20.5, Told: 21,
	}
}

func TestStays(t *testing.T) { everywhere(t, testStays) }

// testStays: what is known of a box takes the place of what was known, and goes with its run.
func testStays(t *testing.T, place string) {
	s := open(t, place)
	fill(t, s, testRun("r1"))
	fill(t, s, testRun("r2"))
	open := testStay("r1", "hcl-1")
	open.Up, open.Ready, open.Closed, open.Told = time.Time{}, time.Time{}, false, 0
	check(t, s.PutStay(t.Context(), open))
	got, err := s.Stays(t.Context(), "r1")
	check(t, err)
	if diff := cmp.Diff([]Stay{open}, got); diff != "" {
		t.Errorf("of one that is open (-want +got):\n%s", diff)
	}
	want := []Stay{testStay("r1", "hcl-1"), testStay("r2", "hcl-1")}
	for _, stay := range want {
		check(t, s.PutStay(t.Context(), stay))
	}
	got, err = s.Stays(t.Context(), "")
	check(t, err)
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] { // as it is compared by those who store it
		t.Errorf("%+v, want %+v", got, want)
	}
	check(t, s.Remove(t.Context(), Litter{Run: "r1"}))
	if got, err := s.Stays(t.Context(), ""); err != nil || len(got) != 1 {
		t.Errorf("after its run is gone: %v, %v", got, err)
	}
}
