package measure

import (
	"slices"
	"testing"
	"time"

	"hclbench/load"
)

// TestCut: batches begin when all requests that began a closed loop are over, or with a quarter of the run,
// and what comes after the last dispatch is in none.
func TestCut(t *testing.T) {
	const second = time.Second
	began := func(first ...time.Duration) (records []load.Record) {
		for _, end := range first {
			records = append(records, load.Record{First: 1, Last: end, End: end})
		}
		for at := second; at <= 40*second; at += second {
			records = append(records, load.Record{Sent: at, First: at + 1, Last: at + second, End: at + second})
		}
		return records
	}
	for name, x := range map[string]struct {
		load.Workload
		records []load.Record
		from    time.Duration
	}{
		"alike":       {load.Workload{Concurrency: 2}, began(second, second), second},
		"mixed":       {load.Workload{Concurrency: 2}, began(second, 3*second), 3 * second},
		"one is long": {load.Workload{Concurrency: 2}, began(second, 30*second), 10 * second},
		"ramp":        {load.Workload{Concurrency: 2, Ramp: load.Duration(5 * second)}, began(second, 3*second), 5 * second},
		"open":        {load.Workload{Rate: 1}, began(second, 3*second), 3 * second},
	} {
		c := newCut(x.Workload, x.records, always)
		if c.from != x.from || c.to != 40*second {
			t.Errorf("%s: from %v to %v, want from %v to 40s", name, c.from, c.to, x.from)
		}
	}
	// The ramp and the first requests are of the run, and are not cut off its parts again.
	w := load.Workload{Concurrency: 2, Ramp: load.Duration(5 * second)}
	for from, want := range map[time.Duration]time.Duration{2 * second: 5 * second, 20 * second: 20 * second} {
		if c := newCut(w, began(second, 3*second), span{from, 30 * second}); c.from != want || c.to != 29*second {
			t.Errorf("a part from %v: from %v to %v, want from %v to 29s", from, c.from, c.to, want)
		}
	}
	r := residuals{cut: cut{span: span{second, 21 * second}}}
	for at := time.Duration(0); at <= 30*second; at += second {
		r.add(1, at)
	}
	if n := r.n.sum(); n != 21 || r.first != 10 {
		t.Errorf("%g values in batches and %g outside, want 21 and 10", n, r.first)
	}
}

// TestBursts: a percentile of waits varies the more, the more those beyond it come together.
func TestBursts(t *testing.T) {
	width := func(together bool) float64 {
		e := evidence{workload: load.Workload{Rate: 1}, percentiles: []float64{90}}
		c, f, s := cut{span: span{to: 4000 * time.Second}, lives: 4000}, load.Figures{Completed: 4000, Duration: 4000}, load.Stats{}
		values := make([]float64, 4000) // of which each tenth is late, and half of these very late
		for i := range values {
			values[i] = float64(i%10) + float64(i%997)/1e4
			if i%20 == 0 && !together || i%10 == 0 && together && i/400%2 == 0 {
				values[i] += 100
			}
			if i%10 == 0 {
				values[i] += 20
			}
		}
		sorted := slices.Clone(values)
		s = load.Describe(sorted, []float64{90})
		e.bound(&f, c, "ttft_ms", &s, sorted, func(note noting) {
			for i, v := range values {
				note(v, time.Duration(i)*time.Second)
			}
		})
		x := f.Intervals["ttft_ms.p90"]
		return x.High - x.Low
	}
	if apart, together := width(false), width(true); !(apart > 0) || together <= apart {
		t.Errorf("the interval is %g wide where late ones come together, and %g where they do not", together, apart)
	}
}
