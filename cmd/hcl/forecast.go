package main

import (
	"slices"
	"time"
)

// forecast is how long a host still takes: its cells at the pace that was seen of those before,
// and the starts of its engines as long as those before.
type forecast struct {
	work map[string]float64 // what a cell is expected to take, in seconds
	all  float64            // of all cells together
	done float64            // of those that have ended
	took time.Duration      // by those that have ended

	toStart  []string  // engines that have not begun to start
	starting time.Time // when that which starts now began; zero: none does
	starts   int       // that were seen to their end
	startup  time.Duration
}

func newForecast() forecast { return forecast{work: map[string]float64{}} }

func (f *forecast) add(c begunCell) {
	f.work[c.Cell] = c.Work
	f.all += c.Work
	if !slices.Contains(f.toStart, c.Engine) {
		f.toStart = append(f.toStart, c.Engine)
	}
}

// heard tells of an engine at its first sign.
func (f *forecast) heard(engine string, at time.Time) {
	if i := slices.Index(f.toStart, engine); i >= 0 {
		f.toStart = slices.Delete(f.toStart, i, i+1)
		f.starting = at
	}
}

// served tells of a cell that begins: its engine has started.
func (f *forecast) served(at time.Time) {
	if !f.starting.IsZero() {
		f.starts++
		f.startup += at.Sub(f.starting)
		f.starting = time.Time{}
	}
}

// measured tells of a cell that took so long.
func (f *forecast) measured(cell string, took time.Duration) {
	f.done += f.work[cell]
	f.took += took
}

// without takes out a cell that nobody begins any more.
func (f *forecast) without(cell string) {
	f.all -= f.work[cell]
	delete(f.work, cell)
}

// expected is how long a cell takes at the pace of those that have ended; 0: none has.
func (f *forecast) expected(cell string) time.Duration {
	if f.done == 0 {
		return 0
	}
	return time.Duration(float64(f.took) / f.done * f.work[cell])
}

// left is how long the host still takes, given the part of a cell that is under way for so long;
// 0: nothing can be said yet.
func (f *forecast) left(cell string, part float64, underWay time.Duration, now time.Time) time.Duration {
	// A cell that is under way weighs as much as is done of it: its first requests say little of its pace.
	own := f.work[cell] * part
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
