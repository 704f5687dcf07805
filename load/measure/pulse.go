package measure

import "time"

// What a generator that stands still shows of itself.
const (
	pulseEvery = 20 * time.Millisecond
	leastStop  = 100 * time.Millisecond // a busy system wakes a process later than it asked by less
)

// pulse notes how long this process stood still: stopped, swapped out, or in a machine that was
// paused. Nothing that it measures meanwhile shows it, since its clocks start after the thaw.
type pulse struct {
	stop chan struct{}
	over chan time.Duration
}

func newPulse() pulse {
	p := pulse{make(chan struct{}), make(chan time.Duration)}
	go func() {
		t := time.NewTicker(pulseEvery)
		defer t.Stop()
		still, last := time.Duration(0), time.Now()
		for {
			select {
			case <-t.C:
				still, last = still+stillness(last, time.Now()), time.Now()
			case <-p.stop:
				p.over <- still + stillness(last, time.Now())
				return
			}
		}
	}()
	return p
}

// stillness is how long a process stood still that was to look at its clock every so often.
func stillness(last, now time.Time) time.Duration {
	if gap := now.Sub(last) - pulseEvery; gap >= leastStop {
		return gap
	}
	return 0
}

// end is how long the process stood still in all.
func (p pulse) end() time.Duration {
	close(p.stop)
	return <-p.over
}
