package measure

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"hclbench/load"
)

// maxGaps is how many gaps a run keeps, 16 MiB of them. With more, those of every second request
// are kept, then of every fourth, and so on; a histogram counts all of them.
const maxGaps = 2 << 20

type tally struct {
	mu    sync.Mutex
	all   load.Histogram // of completed requests
	limit int
	level uint // the gaps of requests whose number is divisible by 2^level are kept
	kept  []gapsOf
	count int // of gaps kept
}

type gapsOf struct {
	seq  int
	gaps []time.Duration
}

func (t *tally) keeps(seq int) bool { return seq&(1<<t.level-1) == 0 }

// settle takes the gaps off a finished record.
func (t *tally) settle(r *load.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.OK() {
		for _, g := range r.Gaps {
			t.all.Add(g)
		}
	}
	if len(r.Gaps) == 0 {
		return
	}
	if t.keeps(r.Seq) {
		gaps := r.Gaps
		if cap(gaps)-len(gaps) > len(gaps)/8 { // room was made for all that was asked for
			gaps = slices.Clone(gaps)
		}
		t.kept = append(t.kept, gapsOf{r.Seq, gaps})
		t.count += len(r.Gaps)
	}
	r.Dropped, r.Gaps = len(r.Gaps), nil
	for t.count > t.limit && len(t.kept) > 1 {
		t.level++
		t.kept = slices.DeleteFunc(t.kept, func(g gapsOf) bool {
			if t.keeps(g.seq) {
				return false
			}
			t.count -= len(g.gaps)
			return true
		})
	}
}

// giveBack puts the gaps that were kept into the records, which are sorted.
func (t *tally) giveBack(records []load.Record) {
	for _, g := range t.kept {
		if i, ok := slices.BinarySearchFunc(records, g.seq,
			func(r load.Record, seq int) int { return r.Seq - seq }); ok {
			records[i].Gaps, records[i].Dropped = g.gaps, 0
		}
	}
}

// dropped are all gaps, where some were not kept; nil: all were.
func (t *tally) dropped() *load.Histogram {
	if t.level == 0 {
		return nil
	}
	return &t.all
}

// complete describes ITL by all gaps where the records have lost some.
func complete(s *load.Summary, all *load.Histogram) {
	for _, x := range s.Parts() {
		if x.ITLFrom != "" && x.Window == nil && all != nil {
			var percentiles []float64
			for p := range x.ITL.Percentiles {
				v, _ := strconv.ParseFloat(p, 64) // we wrote it
				percentiles = append(percentiles, v)
			}
			told := x.ITL.Independent
			x.ITL, x.ITLFrom = all.Stats(percentiles), load.FromHistogram
			x.ITL.Independent = told
		}
	}
}
