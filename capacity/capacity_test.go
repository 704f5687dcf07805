package capacity

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"hclbench/load"
)

// line95 is a question with one line of an SLO.
func line95(least, most float64) Question {
	return Question{SLO: []load.Objective{{Metric: "ttft", Percentile: 95, Max: load.Duration(time.Second)}}, Least: least, Most: most,
		Whole: true, Confidence: 0.95, Precision: 0.05, Budget: 100_000}
}

// TestRefused: what no search can answer is refused before anything is sent.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*Question){
		"there is none":                    func(q *Question) { q.SLO = nil },
		"bounds every request":             func(q *Question) { q.SLO[0].Percentile = 0 },
		"itl with a percentile is of gaps": func(q *Question) { q.SLO[0].Metric = "itl" },
		"no room in the range from 8 to 8": func(q *Question) { q.Least, q.Most = 8, 8 },
		"no room in the range from 0 to 8": func(q *Question) { q.Least, q.Most = 0, 8 },
		"not of whole numbers":             func(q *Question) { q.Least = 1.5 },
		"a confidence of 1 is not":         func(q *Question) { q.Confidence = 1 },
		"a precision of 0 is not":          func(q *Question) { q.Precision = 0 },
		"there is no budget":               func(q *Question) { q.Budget = math.NaN() },
		"a budget of 1000.5 requests":      func(q *Question) { q.Budget = 1000.5 },
		"a budget of 169h0m0s is more":     func(q *Question) { q.Timed, q.Budget = true, 169*3600 },
		"a budget of 1e+19 requests":       func(q *Question) { q.Budget = 1e19 },
		"requests of which none misses it": func(q *Question) { q.Budget = 200 },
		"ttft_p95 takes 640 requests of":   func(q *Question) { q.Least, q.Budget = 64, 1000 }, // no load passes by less than ten rounds
		"ttft_p99 takes 7":                 func(q *Question) { q.SLO[0].Percentile, q.Budget = 99, 1000 },
	} {
		q := line95(1, 1024)
		change(&q)
		if _, err := New(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// follow answers each try with what a server says of the load: "hit", "miss", or a doubt. It returns the order of the loads.
func follow(t *testing.T, q Question, say func(try Try) (miss bool, doubt string)) (s *Search, loads []float64) {
	t.Helper()
	s, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		try, ok := s.Next()
		if !ok {
			return s, loads
		}
		if try.Load < q.Least || try.Load > q.Most {
			t.Fatalf("%v is tried", try.Load)
		}
		loads = append(loads, try.Load)
		miss, doubt := say(try)
		n := 0
		for ; n < int(try.Most) && !try.decided(); n++ {
			v := 0.5
			if miss {
				v = 2
			}
			try.add([]float64{v}, try.Load)
		}
		s.Tried(try, float64(n), doubt, false)
	}
	t.Fatal("it does not end")
	return nil, nil
}

// TestOrder: loads double, then those between bring the bounds nearer to each other; ends of the range are hard; what passed
// before the last try, and what broke quickly, is tried again.
func TestOrder(t *testing.T) {
	for _, x := range []struct {
		least, most, holds float64
		loads              string
		low, high          float64
	}{
		{1, 1024, 40, "[4 8 16 32 64 47 37 43 40 41 40 41]", 40, 41},
		{1, 8, 100, "[4 8]", 8, 0},
		{3, 7, 100, "[7]", 7, 0},
		{8, 64, 1, "[32 8 8]", 0, 8},
		{1, 1000, 2, "[4 1 2 3 2 3]", 2, 3},
	} {
		s, loads := follow(t, line95(x.least, x.most), func(try Try) (bool, string) { return try.Load > x.holds, "" })
		a, low, high := s.Answer(), 0.0, 0.0
		if a.Holds != nil {
			low = a.Holds.Load
		}
		if a.Breaks != nil {
			high = a.Breaks.Load
		}
		if fmt.Sprint(loads) != x.loads || low != x.low || high != x.high || !a.Finished || a.Flaw != "" {
			t.Errorf("%v to %v: %v, holds %v, breaks by %v, %+v", x.least, x.most, loads, low, high, a)
		}
		if (a.BoundBy == "ttft_p95") != (high > 0) {
			t.Errorf("bound by %q", a.BoundBy)
		}
	}
}

// TestEnds: where nothing breaks, a search is over when the most of its range has passed, and not one load below; where nothing holds,
// when the least has failed. A small budget is enough for both.
func TestEnds(t *testing.T) {
	for _, most := range []float64{2, 10, 16, 20} {
		for _, budget := range []float64{1000, 2000, 4000, 30_000} {
			q := line95(1, most)
			q.Budget = budget
			s, loads := follow(t, q, func(Try) (bool, string) { return false, "" })
			if a := s.Answer(); a.Holds == nil || a.Holds.Load != most || !a.Finished {
				t.Errorf("1 to %v with %v, all hold: %v, %+v", most, budget, loads, a)
			}
			s, loads = follow(t, q, func(Try) (bool, string) { return true, "" })
			if a := s.Answer(); a.Breaks == nil || a.Breaks.Load != 1 || !a.Finished {
				t.Errorf("1 to %v with %v, none holds: %v, %+v", most, budget, loads, a)
			}
		}
	}
}

// TestFlaws: a load that fails when it is tried again, one that passes then though it had failed, and one that fails below another
// that passes, are no answer; what was measured in doubt certifies nothing.
func TestFlaws(t *testing.T) {
	s, _ := follow(t, line95(1, 64), func(try Try) (bool, string) { return try.Load > 10 || try.Again, "" })
	if a := s.Answer(); !strings.HasPrefix(a.Flaw, "drifting: a load of 10 has passed, and failed") || a.Finished {
		t.Errorf("%+v", a)
	}
	s, _ = follow(t, line95(1, 64), func(try Try) (bool, string) { return try.Load > 10 && !try.Again, "" })
	if a := s.Answer(); !strings.HasPrefix(a.Flaw, "drifting, or of two states: a load of 11 has failed, and passed") || a.Finished {
		t.Errorf("%+v", a)
	}
	s, _ = follow(t, line95(8, 64), func(try Try) (bool, string) { return !try.Again, "" }) // no other load is tried before it again
	if a := s.Answer(); !strings.HasPrefix(a.Flaw, "drifting, or of two states: a load of 8 has failed, and passed") || a.Finished {
		t.Errorf("%+v", a)
	}
	s, loads := follow(t, line95(1, 64), func(try Try) (bool, string) { return false, "the generator stood still" })
	if a := s.Answer(); a.Holds != nil || a.Breaks != nil || fmt.Sprint(loads) != "[4 4 4 2 2 2 1 1 1]" {
		t.Errorf("%+v of %v", a, loads)
	}
	s, err := New(line95(1, 64))
	if err != nil {
		t.Fatal(err)
	}
	s.loads = []*Tried{{Load: 4, Verdict: Fail, Tries: 1}, {Load: 8, Verdict: Pass, Tries: 1}}
	if _, more := s.Next(); more || !strings.HasPrefix(s.Answer().Flaw, "not monotone: a load of 8 passes and one of 4 fails") {
		t.Errorf("%+v, %v", s.Answer(), more)
	}
	// Of one that is overloaded the failure stands, and nothing else does.
	for _, miss := range []bool{true, false} {
		s, err = New(line95(1, 64))
		if err != nil {
			t.Fatal(err)
		}
		try, _ := s.Next()
		for range 400 {
			try.add([]float64{map[bool]float64{true: 2, false: 0.5}[miss]}, 4)
		}
		s.Tried(try, 400, "overloaded", true)
		if got := s.Loads()[0].Verdict; got != map[bool]Verdict{true: Fail, false: Unresolved}[miss] {
			t.Errorf("overloaded, missing: %v: %s", miss, got)
		}
	}
}

// TestDoubts: a load whose measurement was in doubt is tried again, also at the end, and what was in doubt counts for nothing:
// the search ends as it would have without. One that stays in doubt bounds nothing, and what is beyond it is not tried.
func TestDoubts(t *testing.T) {
	for _, x := range []struct {
		name      string
		of        func(try Try, tries int) bool
		loads     string
		low, high float64
	}{
		{"the first", func(_ Try, n int) bool { return n == 1 }, "[4 4 8 16 32 64 47 37 43 40 41 40 41]", 40, 41},
		{"16, twice", func(_ Try, n int) bool { return n == 4 || n == 3 }, "[4 8 16 16 16 32 64 47 37 43 40 41 40 41]", 40, 41},
		{"between", func(_ Try, n int) bool { return n == 7 }, "[4 8 16 32 64 47 37 37 43 40 41 40 41]", 40, 41},
		{"at the end", func(_ Try, n int) bool { return n == 11 }, "[4 8 16 32 64 47 37 43 40 41 40 40 41]", 40, 41},
		{"from 8 on", func(try Try, _ int) bool { return try.Load >= 8 }, "[4 8 8 8 7]", 7, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			n := 0
			s, loads := follow(t, line95(1, 1024), func(try Try) (bool, string) {
				if n++; x.of(try, n) {
					return try.Load <= 40, "the generator stood still" // the opposite of the truth
				}
				return try.Load > 40, ""
			})
			a, low, high := s.Answer(), 0.0, 0.0
			if a.Holds != nil {
				low = a.Holds.Load
			}
			if a.Breaks != nil {
				high = a.Breaks.Load
			}
			if fmt.Sprint(loads) != x.loads || low != x.low || high != x.high || a.Finished != (x.high > 0) || a.Flaw != "" {
				t.Errorf("%v, holds %v, breaks by %v, %+v", loads, low, high, a)
			}
		})
	}
}

// TestNoAnswer: where no request at a load was ever over, lower loads are tried, though nobody knows what a request costs.
func TestNoAnswer(t *testing.T) {
	q := line95(1, 64)
	q.Timed, q.Budget = true, 3600
	s, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	var loads []float64
	for range 200 {
		try, more := s.Next()
		if !more {
			break
		}
		loads = append(loads, try.Load)
		s.Tried(try, 0, "the engine was lost", false)
	}
	if want := "[4 4 4 2 2 2 1 1 1]"; fmt.Sprint(loads) != want {
		t.Errorf("%v, want %s", loads, want)
	}
}

// TestEarly: a pass that was measured before another load was is not the last try of all, and is tried again.
func TestEarly(t *testing.T) {
	for _, early := range []bool{false, true} {
		s, err := New(line95(1, 4))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []float64{2, 4} {
			try := s.try(at, 1000, ofChance, false)
			try.Early = early && at == 4
			for range 300 {
				try.add([]float64{0.5}, at)
			}
			s.Tried(try, 300, "", false)
		}
		next, more := s.Next()
		if a := s.Answer(); a.Holds == nil || a.Holds.Load != 4 || a.Finished == early || more != early || next.Again != early {
			t.Errorf("early: %v: %+v, then %+v", early, a, next)
		}
	}
}

// TestWatch: what watches a load as it is sent changes nothing of what its requests say when they are told to it.
func TestWatch(t *testing.T) {
	s, err := New(line95(1, 64))
	if err != nil {
		t.Fatal(err)
	}
	try := Try{series: s.newSeries(0.05)}
	try.also = s.newSeries(0.05)
	watch := try.Watch()
	for i := range 100 {
		at := time.Duration(i) * time.Second
		watch(&load.Record{Seq: i, Sent: at, First: at + 1, Last: at + 1, End: at + 1, OutputTokens: 2})
	}
	if len(try.inFlight) != 0 || len(try.also.inFlight) != 0 {
		t.Errorf("%d requests count, and %d since another load was tried", len(try.inFlight), len(try.also.inFlight))
	}
}

// TestRecords: requests count in the order sent, whatever order they are over in; those sent before the first answer do not;
// a failed one is a miss, and one that was stopped or has no such value is nothing.
func TestRecords(t *testing.T) {
	q := line95(1, 64)
	q.SLO = append(q.SLO, load.Objective{Metric: "tpot", Percentile: 90, Max: load.Duration(time.Millisecond)})
	s, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	try, _ := s.Next()
	try.Begin()
	record := func(seq int, sent, first time.Duration, tokens int, class string) *load.Record {
		return &load.Record{Seq: seq, Sent: sent, First: sent + first, Last: sent + first, End: sent + first, OutputTokens: tokens, Class: class}
	}
	ms := time.Millisecond
	for _, r := range []*load.Record{
		record(3, 40*ms, 2*time.Second, 2, ""),                // late
		record(2, 30*ms, 10*ms, 2, ""),                        // in time
		record(5, 60*ms, 5*ms, 2, load.ClassCancelled),        // stopped
		record(4, 50*ms, 5*ms, 2, load.ClassStatus),           // failed
		record(1, 0, 5*ms, 2, ""), record(0, 0, 20*ms, 2, ""), // began together
		record(6, 70*ms, 5*ms, 1, ""), // a single token
	} {
		if try.Over(r) {
			t.Error("decided")
		}
	}
	s.Tried(try, 7, "", false)
	got := s.Loads()[0].Lines
	if got[0].Counted != 4 || got[0].Within != 2 || got[1].Counted != 3 || got[1].Within != 2 {
		t.Errorf("%+v", got)
	}
	if want := []float64{1, 2, 2, 2}; fmt.Sprint(try.inFlight) != fmt.Sprint(want) {
		t.Errorf("in flight %v, want %v", try.inFlight, want)
	}
}

// TestNeeds: what a clean pass takes at the usual percentiles, as docs/capacity.md says it.
func TestNeeds(t *testing.T) {
	s, err := New(line95(1, 1024))
	if err != nil {
		t.Fatal(err)
	}
	for percentile, want := range map[float64]int{90: 72, 95: 147, 99: 748} {
		if got := s.needs(load.Objective{Metric: "ttft", Percentile: percentile}); got != want {
			t.Errorf("p%v: %d, want %d", percentile, got, want)
		}
	}
}

// TestTruth: what a search is to find, by what requests get at each load; and which answers agree with it.
func TestTruth(t *testing.T) {
	for _, x := range []struct {
		least, most, knee float64
		whole             bool
		holds, breaks     float64
	}{
		{1, 1024, 40, true, 40, 41}, {1, 8, 40, true, 8, 0}, {50, 64, 40, true, 0, 50}, {1, 100, 40, false, 40, 40},
	} {
		q := line95(x.least, x.most)
		q.Whole = x.whole
		holds, breaks, err := q.Truth(func(at float64) ([]load.Record, error) {
			records := make([]load.Record, 100) // of which as many miss as the load is above 35
			for i := range records {
				if records[i].First = time.Millisecond; float64(i) < at-x.knee+5 {
					records[i].First = time.Minute
				}
			}
			return records, nil
		})
		if math.Abs(holds-x.holds) > 0.05 || math.Abs(breaks-x.breaks) > 0.05 || err != nil {
			t.Errorf("%+v: holds %v, breaks %v, %v", x, holds, breaks, err)
		}
	}
	for _, x := range []struct {
		holds, breaks, low, high float64 // the truth, and what is certain
		agrees                   bool
	}{
		{40, 41, 40, 41, true}, {40, 41, 30, 60, true}, {40, 41, 0, 41, true}, {40, 41, 41, 60, false}, {40, 41, 30, 40, false},
		{8, 0, 8, 0, true}, {8, 0, 4, 8, false}, {0, 50, 0, 50, true}, {0, 50, 50, 0, false},
	} {
		var o Outcome
		if x.low > 0 {
			o.Holds = &x.low
		}
		if x.high > 0 {
			o.Breaks = &x.high
		}
		if o.Agrees(x.holds, x.breaks) != x.agrees {
			t.Errorf("%+v", x)
		}
	}
}
