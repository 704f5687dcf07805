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
)

// pulse notes how long this process stood still: stopped, swapped out, or in a machine that was
// paused. Nothing that it measures meanwhile shows it, since its clocks start after the thaw. Waiting for a processor
// is something else, which the lag of what it sends shows, and the host's pressure.
type pulse struct {
	stop   chan struct{}
	over   chan time.Duration
	waited time.Duration // for processors, before
}

func newPulse() pulse {
	p := pulse{make(chan struct{}), make(chan time.Duration), waited(ownThreads)}
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
	return max(0, <-p.over-(waited(ownThreads)-p.waited))
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
