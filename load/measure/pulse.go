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
	lookEvery  = 100 * time.Millisecond // what a thread has waited up to so long before a stop may be taken for the stop's
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
		now := time.Now()
		b := beats{zero: zero, last: now, looked: now, waits: waited(ownThreads)}
		for ended := false; !ended; {
			select {
			case <-t.C:
			case <-p.stop:
				ended = true
			}
			b.beat(time.Now(), func() map[string]time.Duration { return waited(ownThreads) })
		}
		p.over <- b.stops
	}()
	return p
}

// end is when the process stood still.
func (p pulse) end() []span {
	close(p.stop)
	return <-p.over
}

// beats are the looks at the clock of a process that is to take one every so often.
type beats struct {
	zero, last, looked time.Time
	waits              map[string]time.Duration // that each thread had waited for a processor when they were looked at
	stops              []span
}

// beat takes a look at the clock. What came too late, and no thread has waited for a processor meanwhile, is a stop.
// Threads wait side by side, most of all when a stop ends and all of them wake: the longest wait is what
// they can have cost, and not the sum.
func (b *beats) beat(now time.Time, waited func() map[string]time.Duration) {
	gap := now.Sub(b.last) - pulseEvery
	b.last = now
	if gap < leastStop && now.Sub(b.looked) < lookEvery {
		return
	}
	before, longest := b.waits, time.Duration(0)
	b.looked, b.waits = now, waited()
	for thread, wait := range b.waits {
		longest = max(longest, wait-before[thread])
	}
	if gap -= longest; gap >= leastStop {
		b.stops = append(b.stops, span{now.Sub(b.zero) - gap, now.Sub(b.zero)})
	}
}

// ownThreads are what Linux tells of this process's threads, see sched-stats in the kernel's documentation.
const ownThreads = "/proc/self/task"

// waited is how long each thread of a process was ready to run and had no processor; empty where nobody tells.
func waited(threads string) map[string]time.Duration {
	waits := map[string]time.Duration{}
	files, _ := filepath.Glob(filepath.Join(threads, "*", "schedstat"))
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread may end
		if told := strings.Fields(string(text)); len(told) > 1 {
			ns, _ := strconv.ParseInt(told[1], 10, 64)
			waits[file] = time.Duration(ns)
		}
	}
	return waits
}
