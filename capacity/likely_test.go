package capacity

import (
	"math"
	"strings"
	"testing"

	"hclbench/load"
)

// TestLikely: what a search takes for likely is near the truth, nearer than its bounds, lies between them, and says how far it may be off.
func TestLikely(t *testing.T) {
	const searches = 12
	for _, w := range worlds() {
		if w.name == "closed drifting" || w.name == "closed drifting up" || w.name == "open drifting" { // there is no truth
			continue
		}
		n, bias, squares, said, width := 0.0, 0.0, 0.0, 0.0, 0.0
		for seed := range uint64(searches) {
			a := w.search(500 + seed)
			if a.holds == 0 || a.breaks == 0 {
				continue
			}
			if a.likely < a.holds || a.likely > a.breaks {
				t.Errorf("%s: %v is not from %v to %v", w.name, a.likely, a.holds, a.breaks)
			}
			off := math.Log(a.likely / w.holds(0))
			n, bias, squares, said = n+1, bias+off, squares+off*off, said+a.deviation*a.deviation
			width += math.Log(a.breaks / a.holds)
		}
		rms, claimed := math.Sqrt(squares/n), math.Sqrt(said/n)
		t.Logf("%-15s %2.0f searches: off by %+5.1f %% on average, %4.1f %% in all, %4.1f %% said; bounds %4.0f %% apart", w.name, n,
			100*bias/n, 100*rms, 100*claimed, 100*width/n)
		if math.Abs(bias/n) > 0.15 || rms > 3*claimed+0.02 {
			t.Errorf("%s: off by %.3f on average, %.3f in all, and %.3f are said", w.name, bias/n, rms, claimed)
		}
	}
	if at, deviation := (&Outcome{}).Likely(); at != 0 || deviation != 0 {
		t.Errorf("of nothing it is %v ± %v", at, deviation)
	}
	eight, nine := 8., 9.
	o := Outcome{Of: Concurrency, Holds: &eight, Breaks: &nine, Loads: []Load{{Load: 8, Lines: []LineOutcome{{Name: "ttft_p95"}}}}}
	if at, _ := o.Likely(); at != 8 {
		t.Errorf("between 8 and 9 it is %v", at)
	}
}

// TestWorth: a search that begins at what another server holds ends when that does not hold, and not when it was tried again, and goes
// on where it does.
func TestWorth(t *testing.T) {
	for holds, want := range map[float64]bool{40: true, 200: false} {
		q := line95(1, 1024)
		q.Worth = 80
		s, loads := follow(t, q, func(try Try) (bool, string) { return try.Load > holds, "" })
		a := s.Answer()
		if loads[0] != 80 || (a.Breaks.Load <= 80) != want || want && len(loads) != 2 || !want && (a.Holds == nil || a.Holds.Load != holds) {
			t.Errorf("of one that holds %v: %v are tried, %+v", holds, loads, a)
		}
	}
	q := line95(1, 1024)
	q.Worth = 80
	s, loads := follow(t, q, func(try Try) (bool, string) { return !try.Again, "" }) // one bad spell
	if a := s.Answer(); len(loads) != 2 || !strings.Contains(a.Flaw, "of two states: a load of 80 has failed, and passed") {
		t.Errorf("of one that is slow at first: %v are tried, %+v", loads, a)
	}
	q = line95(8, 64)
	if q.Worth = 4; len(q.Problems()) != 1 {
		t.Error(q.Problems())
	}
	if q.Worth = 65; len(q.Problems()) != 1 {
		t.Error(load.FieldError{})
	}
}
