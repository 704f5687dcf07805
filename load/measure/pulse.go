package measure

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What a generator that stands still shows of itself.
const (
	pulseEvery = 20 * time.Millisecond
	leastStop  = 100 * time.Millisecond // a busy system wakes a process later than it asked by less
	lookEvery  = time.Second            // how far back what threads have waited is taken off a stop
)

// pulse notes when this process stood still: stopped, swapped out, or in a machine that was
// paused. Nothing that it measures meanwhile shows it, since its clocks start after the thaw. Waiting for a processor
// is something else, which the lag of what it sends shows, and the host's pressure.
type pulse struct {
	stop chan struct{}
	over chan []span
}

// newPulse notes it from now on, by the time since zero.
func newPulse(zero time.Time) pulse {
	p := pulse{make(chan struct{}), make(chan []span)}
	go func() {
		t := time.NewTicker(pulseEvery)
		defer t.Stop()
		var stops []span
		last, looked, waits := time.Now(), time.Now(), waited(ownThreads)
		for ended := false; !ended; {
			select {
			case <-t.C:
			case <-p.stop:
				ended = true
			}
			now := time.Now()
			gap := stillness(last, now)
			if last = now; gap > 0 || now.Sub(looked) >= lookEvery {
				before := waits
				looked, waits = now, waited(ownThreads)
				gap -= waits - before
			}
			if gap > 0 {
				stops = append(stops, span{now.Sub(zero) - gap, now.Sub(zero)})
			}
		}
		p.over <- stops
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

// end is when the process stood still.
func (p pulse) end() []span {
	close(p.stop)
	return <-p.over
}

// ownThreads are what Linux tells of this process's threads, see sched-stats in the kernel's documentation.
const ownThreads = "/proc/self/task"

// waited is how long threads of a process were ready to run and had no processor, all together; 0 where nobody tells.
func waited(threads string) (sum time.Duration) {
	files, _ := filepath.Glob(filepath.Join(threads, "*", "schedstat"))
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread may end
		if told := strings.Fields(string(text)); len(told) > 1 {
			ns, _ := strconv.ParseInt(told[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
