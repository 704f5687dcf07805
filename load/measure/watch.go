package measure

import (
	"time"

	"hclbench/load"
)

// watch looks while an open loop runs whether its requests pile up: by the test that judges the
// run when it is over, and seldom, as chance finds something when it is asked often.
type watch struct {
	skip  time.Duration // of the beginning
	least time.Duration // that it looks at
	early int           // requests that were sent before the first was answered
	round time.Duration // when as many were answered; 0: they are not
	seen  []sight
	next  time.Duration // when it looks again
	over  bool          // what it saw last
}

type sight struct {
	at       time.Duration
	inFlight float64
}

// newWatch watches a workload, of which it looks at so long at least, beside what will not count;
// nil: in this one requests pile up by what is asked, or never.
func newWatch(w load.Workload, least time.Duration) *watch {
	if !w.Even() {
		return nil
	}
	return &watch{skip: time.Duration(max(w.Ramp, w.CutBeginning)), least: least + time.Duration(w.CutEnd)}
}

// look takes how many requests have been sent, are over and have failed at a moment since the first was sent, and reports
// whether those in flight have become ever more, which they do by themselves until the first are over.
func (w *watch) look(at time.Duration, sent, done, failed int) bool {
	if w.early == 0 && done > failed {
		w.early = sent
	}
	if w.round == 0 && w.early > 0 && done >= w.early {
		w.round = at
	}
	if w.round == 0 || at < w.skip {
		return false
	}
	w.seen = append(w.seen, sight{at, float64(sent - done)})
	s := span{w.seen[0].at, at}
	if s.to-s.from < max(w.least, answers*w.round) || at < w.next {
		return w.over
	}
	w.next = at + (s.to-s.from)/2
	var sum, n [batches]float64
	for _, m := range w.seen {
		b := s.at(m.at, batches)
		sum[b] += m.inFlight
		n[b]++
	}
	var means []float64
	for b := range sum {
		if n[b] > 0 {
			means = append(means, sum[b]/n[b])
		}
	}
	from, to, ok := load.Trend(means)
	w.over = ok && to-from >= crowd
	return w.over
}
