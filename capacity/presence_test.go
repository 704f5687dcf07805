package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/load"
)

// sends has a search send requests to a server, which says of each what becomes of it by the load and by how many there were in all: how long
// it takes, and its class, empty of one that is answered. It returns the loads in their order.
func sends(t *testing.T, q Question, server func(at float64, n int) (time.Duration, string)) (s *Search, loads []float64) {
	t.Helper()
	s, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for range 200 {
		try, ok := s.Next()
		if !ok {
			return s, loads
		}
		loads = append(loads, try.Load)
		try.Begin()
		free := make([]time.Duration, int(try.Load)) // when each of those in flight is over
		n, failures, began := 0, 0, all
		cost := func() float64 { return q.Cost(all-began, slices.Max(free)) }
		for over := false; !over && cost() < try.Most; n++ {
			i := n % len(free)
			sent := free[i] + time.Millisecond
			took, class := server(try.Load, all)
			free[i] = sent + took
			r := &load.Record{Seq: n, Sent: sent, End: free[i], Class: class}
			if class == "" {
				r.First, r.Last, r.OutputTokens = free[i], free[i], 1
			} else {
				failures++
			}
			all++
			over = try.Over(r)
		}
		doubt := ""
		if failures == n {
			doubt = fmt.Sprintf("none of %d requests completed", n)
		}
		s.Tried(try, cost(), doubt, false)
	}
	t.Fatal("it does not end")
	return nil, nil
}

// goesAgain is a server that holds 8, and goes as that is tried again at the end.
func goesAgain(took time.Duration, class string) func(at float64, n int) (time.Duration, string) {
	return func(at float64, n int) (time.Duration, string) {
		switch {
		case n > 1230:
			return took, class
		case at > 8:
			return 2 * time.Second, ""
		}
		return 10 * time.Millisecond, ""
	}
}

// TestGone: a server that answers nothing, be it from the beginning or from some moment on, ends the search after two loads, the second of
// them the one that it should hold best. What it failed by then is nothing that it breaks by, and what it held stays. A load that alone
// fails stays in doubt.
func TestGone(t *testing.T) {
	const quick = 10 * time.Millisecond
	for name, x := range map[string]struct {
		budget float64 // of requests; 0: a minute
		server func(at float64, n int) (time.Duration, string)
		loads  string
		holds  float64
		breaks float64
		ended  string
	}{
		"refuses": {20_000, func(float64, int) (time.Duration, string) { return quick, load.ClassConnect },
			"[16 4]", 0, 0, "failed at a load of 16, and at one of 4 then (none of "},
		"is silent": {20_000, func(float64, int) (time.Duration, string) { return load.DefaultStall, load.ClassStall },
			"[16 4]", 0, 0, "failed at a load of 16, and at one of 4 then (none of 4 requests completed)"},
		"goes at a load": {20_000, func(at float64, n int) (time.Duration, string) {
			if n > 500 {
				return quick, load.ClassConnect
			}
			return quick, ""
		}, "[16 32 64 32]", 32, 0, "since some moment of a load of 64, and at one of 32 then"},
		"goes as a load passes": {20_000, func(at float64, n int) (time.Duration, string) {
			if n > 200 {
				return quick, load.ClassConnect
			}
			return quick, ""
		}, "[16 32 16]", 16, 0, "since some moment of a load of 32, and at one of 16 then"},
		"goes as it is asked again": {20_000, goesAgain(quick, load.ClassConnect),
			"[16 4 8 12 10 9 8 8]", 8, 0, "since some moment of a load of 8, and when that was tried again (none of "},
		"falls silent as it is asked again": {20_000, goesAgain(load.DefaultStall, load.ClassStall),
			"[16 4 8 12 10 9 8 8]", 8, 0, "since some moment of a load of 8, and when that was tried again (none of "},
		"is silent for longer": {0, func(float64, int) (time.Duration, string) { return load.DefaultStall, load.ClassStall },
			"[16]", 0, 0, "failed at a load of 16, and nothing is left of the budget to ask again (none of 1 requests completed): see that"},
		"fails at one load": {20_000, func(at float64, n int) (time.Duration, string) {
			if at > 20 {
				return quick, load.ClassTimeout
			}
			return quick, ""
		}, "", 20, 21, ""},
		"has crashed and come back": {20_000, func(at float64, n int) (time.Duration, string) {
			if n > 250 && n < 350 {
				return quick, load.ClassConnect
			}
			return quick, ""
		}, "", 64, 0, ""},
		"was away": {20_000, func(at float64, n int) (time.Duration, string) {
			if n > 150 && n < 350 {
				return quick, load.ClassConnect
			}
			return quick, ""
		}, "", 64, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := line95(4, 64)
			if q.Budget = x.budget; q.Budget == 0 {
				q.Timed, q.Budget = true, 60
			}
			s, loads := sends(t, q, x.server)
			o := s.Outcome(0, 0)
			var holds, breaks float64
			if o.Holds != nil {
				holds = *o.Holds
			}
			if o.Breaks != nil {
				breaks = *o.Breaks
			}
			if holds != x.holds || breaks != x.breaks || !strings.Contains(o.Ended, x.ended) || (o.Ended == "") != (x.ended == "") || o.Flaw != "" {
				t.Errorf("loads %v, holds %v, breaks by %v, ended %q, flaw %q", loads, holds, breaks, o.Ended, o.Flaw)
			}
			if x.loads != "" && fmt.Sprint(loads) != x.loads {
				t.Errorf("loads %v, want %s", loads, x.loads)
			}
			if !o.Over || o.Ended != "" && o.Finished {
				t.Errorf("over %v, finished %v", o.Over, o.Finished)
			}
		})
	}
}

// TestSeats: a server that makes requests wait for longer than they may, while it answers as many as it has seats for, is overloaded and not gone,
// though nothing is answered in that time. It breaks by the least load, which is too much for its seats.
func TestSeats(t *testing.T) {
	const seats, takes, stall = 32, 40 * time.Second, 30 * time.Second
	for name, q := range map[string]Question{"concurrency": line95(64, 256), "rate": line95(8, 32)} {
		q.Whole = name == "concurrency"
		s, err := New(q)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			try, ok := s.Next()
			if !ok {
				break
			}
			try.Begin()
			n, cost, until := int(min(try.Most, 3000)), 0, time.Duration(math.MaxInt64)
			for _, r := range seated(q.Whole, try.Load, n, seats, takes, stall) {
				if r.Sent > until {
					continue
				}
				if cost++; try.Over(&r) {
					until = min(until, r.End) // what is in flight is over as it is, and no more is sent
				}
			}
			s.Tried(try, float64(cost), "", false)
		}
		if o := s.Outcome(0, 0); o.Ended != "" || o.Breaks == nil || *o.Breaks != q.Least {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// seated are the requests of a load as a server with seats answers them in the order in which they come, or lets them stall, sorted by their ends.
func seated(closed bool, at float64, n, seats int, takes, stall time.Duration) (all []load.Record) {
	free, slots := make([]time.Duration, seats), make([]time.Duration, int(at))
	for i := range n {
		slot := slices.Index(slots, slices.Min(slots))
		r := load.Record{Seq: i, Sent: time.Duration(float64(i) / at * float64(time.Second))}
		if closed {
			at := int(at)
			r.Seq = i/at*at + at - 1 - i%at // those that are sent together come in any order
			r.Sent = slots[slot] + time.Duration(i%at+1)*time.Microsecond
		}
		seat := slices.Index(free, slices.Min(free))
		if begins := max(r.Sent, free[seat]); begins > r.Sent+stall {
			r.End, r.Class = r.Sent+stall, load.ClassStall
		} else {
			r.First, r.Last, r.End, r.OutputTokens = begins+time.Millisecond, begins+takes, begins+takes, 1
			free[seat] = r.End
		}
		slots[slot] = r.End
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b load.Record) int { return cmp.Compare(a.End, b.End) })
	return all
}
