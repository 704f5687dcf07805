package plan

import (
	"slices"
	"time"

	"hclbench/load"
)

// Forecast is how long a host that is at work still takes, by what is heard of it: its cells at the pace that was
// seen of those before, and the starts of its engines as long as those before. The zero value knows of no work.
type Forecast struct {
	work map[string]float64 // what a cell is expected to take, in seconds; see [Cell.Work]
	all  float64            // of all cells together
	done float64            // of those that have ended
	took time.Duration      // by those that have ended

	toStart  []string  // engines that have not begun to start
	starting time.Time // when that which starts now began; zero: none does
	starts   int       // that were seen to their end
	startup  time.Duration

	cell     string // that is under way; empty: none is
	began    time.Time
	progress *load.Progress // of it; nil: nothing is told
}

// Add adds a cell of an engine.
func (f *Forecast) Add(cell, engine string, work float64) {
	if f.work == nil {
		f.work = map[string]float64{}
	}
	f.work[cell] = work
	f.all += work
	if !slices.Contains(f.toStart, engine) {
		f.toStart = append(f.toStart, engine)
	}
}

// Heard tells of an engine: at its first sign it begins to start.
func (f *Forecast) Heard(engine string, at time.Time) {
	if i := slices.Index(f.toStart, engine); i >= 0 {
		f.toStart = slices.Delete(f.toStart, i, i+1)
		f.starting = at
	}
}

// Begin tells of a cell that begins: its engine has started.
func (f *Forecast) Begin(cell string, at time.Time) {
	if !f.starting.IsZero() {
		f.starts++
		f.startup += at.Sub(f.starting)
		f.starting = time.Time{}
	}
	f.cell, f.began, f.progress = cell, at, nil
}

// Progress tells how far a cell is. Of the tries of a search it tells nothing: nobody knows how many there will be.
func (f *Forecast) Progress(cell string, p *load.Progress) {
	if cell == f.cell {
		f.progress = p
	}
}

// End tells of a cell that has ended, or that nobody begins any more.
func (f *Forecast) End(cell string, at time.Time) {
	if cell != f.cell {
		f.all -= f.work[cell]
		delete(f.work, cell)
		return
	}
	f.done += f.work[cell]
	f.took += at.Sub(f.began)
	f.cell, f.progress = "", nil
}

// Left is how long the host still takes; 0: nothing can be said yet.
func (f *Forecast) Left(now time.Time) time.Duration {
	var underWay time.Duration
	part := 0.0 // of the cell that is under way is done
	if f.cell != "" {
		underWay = now.Sub(f.began)
		if whole := f.total(underWay); whole > 0 {
			part = min(1, float64(underWay)/float64(whole))
		}
	}
	// A cell that is under way weighs as much as is done of it: its first requests say little of its pace.
	own := f.work[f.cell] * part
	seen, took := f.done+own*part, float64(f.took)+float64(underWay)*part
	if seen == 0 {
		return 0
	}
	left := time.Duration(took / seen * (f.all - f.done - own))
	if f.starts > 0 {
		each := f.startup / time.Duration(f.starts)
		left += time.Duration(len(f.toStart)) * each
		if !f.starting.IsZero() {
			left += max(0, each-now.Sub(f.starting))
		}
	}
	return left
}

// total is how long the cell that is under way for so long takes from its beginning to its end: as long as
// cells before it let expect, within what its requests allow; 0: nothing can be said yet. Those that are
// done say how long it takes at most. Those in flight may be nearly done, which is the less likely
// the more of those sent are done: so it takes a time at least.
func (f *Forecast) total(underWay time.Duration) time.Duration {
	var expected time.Duration
	if f.done > 0 {
		expected = time.Duration(float64(f.took) / f.done * f.work[f.cell])
	}
	p := f.progress
	if p == nil || p.Warmup || p.Total == 0 || p.Done == 0 || expected == 0 && p.Done < p.InFlight {
		return expected
	}
	sending := time.Duration(p.Elapsed * float64(time.Second))
	before := max(0, underWay-sending)
	ends := func(done float64) time.Duration {
		return before + time.Duration(float64(sending)*float64(p.Total)/done)
	}
	done, inFlight := float64(p.Done), float64(p.InFlight)
	most := ends(done)
	if expected == 0 {
		return most
	}
	return min(max(expected, ends(done+inFlight*inFlight/(done+inFlight))), most)
}
