package results

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestNoise: rows know of their box how noisy it is, with their engine where that was tried; those of a run that has
// proved it are no results of the lab.
func TestNoise(t *testing.T) { everywhere(t, testNoise) }

func testNoise(t *testing.T, place string) {
	s := open(t, place)
	measured := time.Date(2026, 11, 24, 13, 0, 0, 0, time.UTC)
	noise := func(box, engine, kind string, after time.Duration) Noise {
		return Noise{Box: box, Engine: engine, Kind: kind, Version: "0.7.3", Host: "h200", RunID: "r0", Measured: measured.Add(after),
			Starts: 4, Spread: map[string]float64{"output_throughput": 0.01}}
	}
	a, kin := noise("b1", "vllm.a", "vllm", 0), noise("b1", "vllm.z", "vllm", time.Hour)
	other, two := noise("b1", "sglang.a", "sglang", 2*time.Hour), noise("b1+b2", "vllm.a", "vllm", 0)
	for _, n := range []Noise{a, kin, other, two, a} { // the last in place of the first
		check(t, s.PutNoise(t.Context(), n))
	}
	all, err := s.Noises(t.Context())
	check(t, err)
	if diff := cmp.Diff([]Noise{other, kin, a, two}, all); diff != "" {
		t.Errorf("Noises (-want +got):\n%s", diff)
	}
	run := func(id, command string) Run { r := testRun(id); r.Command = command; return r }
	for _, r := range []Run{run("r1", "apply"), run("r2", Proving), run("r3", "rehearse")} {
		check(t, s.BeginRun(t.Context(), r))
		for _, of := range []struct {
			cell, engine, kind string
			boxes              []string
		}{
			{"c1", "vllm.a", "vllm", []string{"b1"}}, {"c2", "vllm.c", "vllm", []string{"b1"}}, {"c3", "trtllm.a", "trtllm", []string{"b1"}},
			{"c4", "vllm.a", "vllm", []string{"b2", "b1", "b2"}}, {"c5", "vllm.a", "vllm", []string{"b9"}}, {"c6", "vllm.a", "vllm", []string{"b1", ""}},
		} {
			d := testDeployment(r.ID)
			d.ID, d.Engine, d.Kind = "d-"+of.cell, of.engine, of.kind
			var members []Member
			for _, box := range of.boxes {
				members = append(members, Member{Role: "serve", Command: []string{"x"}, Facts: json.RawMessage(`{"box":"` + box + `"}`)})
			}
			d.SetMembers(members)
			check(t, s.PutDeployment(t.Context(), d))
			c := testCell(r.ID, of.cell)
			c.DeploymentID = d.ID
			check(t, s.PutCell(t.Context(), c, nil))
		}
	}
	rows := func(q Query) string {
		t.Helper()
		found, err := s.Rows(t.Context(), q)
		check(t, err)
		var said []string
		for _, r := range found {
			is := "none"
			if r.Noise != nil {
				is = r.Noise.Box + " " + r.Noise.Engine
			}
			said = append(said, r.ID+": "+is)
		}
		return strings.Join(said, ", ")
	}
	const want = "c1: b1 vllm.a, c2: b1 vllm.z, c3: b1 sglang.a, c4: b1+b2 vllm.a, c5: none, c6: none"
	for name, q := range map[string]Query{"all": {}, "the newest": {Latest: true}, "the proof, by its name": {Run: "r2"}} {
		if got := rows(q); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
	if got := rows(Query{Rehearsed: true}); strings.Count(got, "none") != 6 {
		t.Errorf("rehearsed: %s", got)
	}
	known, err := s.Known(t.Context())
	check(t, err)
	if len(known) != 6 || known["c1"].RunID != "r1" {
		t.Errorf("known are %v", known)
	}
}
