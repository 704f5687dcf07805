package results

import (
	"encoding/json"
	"testing"

	"hclbench/capacity"
	"hclbench/tune"
)

// TestTunings: the newest ledger of each tuning of a lab counts, that of a run goes with it, a rehearsal is apart, and what is
// damaged is said beside the others.
func TestTunings(t *testing.T) { everywhere(t, testTunings) }

func testTunings(t *testing.T, place string) {
	s := open(t, place)
	for i, id := range []string{"r1", "r2", "r3"} {
		run := testRun(id)
		if id == "r3" {
			run.Command = "rehearse"
		}
		fill(t, s, run)
		text, err := json.Marshal(Ledger{Question: id, Summary: &tune.Summary{Tune: "best", Starts: i}})
		check(t, err)
		check(t, s.PutInputs(t.Context(), id, map[string][]byte{LedgerName("best"): text, "plan.json": []byte("{}")}))
	}
	check(t, s.PutInputs(t.Context(), "r1", map[string][]byte{LedgerName("other"): []byte("{")}))
	for want, q := range map[string]Query{"r2": {Lab: testRun("r1").Lab}, "r3": {Rehearsed: true}, "r1": {Run: "r1"}} {
		got, err := s.Tunings(t.Context(), q)
		if len(got) != 1 || got[0].Question != want || got[0].Summary.Tune != "best" || (err == nil) != q.Rehearsed {
			t.Errorf("%+v: %+v, %v; want that of %s, and what is damaged said", q, got, err, want)
		}
	}
	if got, err := s.Tunings(t.Context(), Query{Lab: "another"}); got != nil || err != nil {
		t.Errorf("of another lab there are %+v, %v", got, err)
	}
}

// TestTriedAt: the loads that a search has tried are cells of the start which made it.
func TestTriedAt(t *testing.T) {
	x := Tried{Deployment: "d", Loads: []TriedLoad{{Cell: "search", Capacity: &capacity.Outcome{}}}}
	for of, want := range map[string]int{"d": 0, "other": -1} {
		r := Row{}
		r.ID, r.DeploymentID = "a try", of
		if at := x.At(&r); at != want {
			t.Errorf("a try of deployment %s is at %d, want %d", of, at, want)
		}
	}
}
