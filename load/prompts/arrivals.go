package prompts

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// slowed is a recorded time from the beginning, as the load has it: at most a century and a half.
func slowed(w load.Workload, at time.Duration) time.Duration {
	const most = 1 << 62
	return time.Duration(max(-most, min(math.Round(float64(at)*cmp.Or(w.Dataset.Slowdown, 1)), most)))
}

// until cuts what is in the order of its times to what begins before the load ends.
func until[T any](w load.Workload, all []T, at func(T) time.Duration) []T {
	end := time.Duration(w.Duration)
	if end == 0 {
		return all
	}
	n, _ := slices.BinarySearchFunc(all, end, func(x T, end time.Duration) int { return cmp.Compare(at(x), end) })
	return all[:n]
}

// timed takes when the request that was read last went or, of a whole conversation, the first of its.
// Of a session's rows, which are read alone, too, those that are not the first may have a delay instead.
func (s *spoken) timed(f *talkForm) error {
	row, x := f.part() >= request, &s.says[0]
	if row {
		x = &s.says[len(s.says)-1]
	}
	switch {
	case f.Timestamp == nil && !(row && f.Delay != nil):
		return errors.New("no number \"timestamp\", which arrivals = \"recorded\" needs")
	case len(s.says) > 1 && row && s.says[0].at == nil:
		return errors.New("its first request has no number \"timestamp\", which arrivals = \"recorded\" needs")
	case f.Timestamp != nil:
		at, err := milliseconds(*f.Timestamp)
		x.at = &at
		return err
	}
	return nil
}

// begin has conversations begin at their times and puts them into the order of these. What lies beyond
// the end of the load is for its warm-up.
func (s *Set) begin(w load.Workload, all []talk) {
	start := func(t talk) time.Duration { return *t[0].at }
	slices.SortStableFunc(all, func(a, b talk) int { return cmp.Compare(start(a), start(b)) })
	zero := start(all[0])
	for _, t := range all {
		for i := range t {
			if t[i].at != nil {
				t[i].at = new(slowed(w, *t[i].at-zero))
			}
		}
	}
	for _, t := range until(w, all, start) {
		s.Due = append(s.Due, start(t))
		if s.Total += len(t); w.Requests > 0 && s.Total >= w.Requests {
			s.Total = w.Requests
			break
		}
	}
}

// recorded is when a turn goes at the earliest: one that the file has no delay of, when it went.
func (d *dialogue) recorded() time.Duration {
	if d.asked.at == nil || d.asked.after != nil {
		return 0
	}
	return *d.asked.at
}
