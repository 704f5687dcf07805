package measure

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What a generator that does not run shows of itself.
const (
	pulseEvery = 20 * time.Millisecond
	leastLate  = 100 * time.Millisecond // a busy system wakes a process later than it asked by less
	lookEvery  = 100 * time.Millisecond // what a thread has waited up to so long before a late beat may be taken for that beat's
	lookAfter  = 10 * time.Second       // no thread waits longer for its turn
)

// pulse notes when this process did not run: it was stopped, swapped out, or in a machine that was paused; or it had no
// processor. Nothing that it measures meanwhile shows it, since its clocks start when it runs again.
type pulse struct {
	stop chan struct{}
	over chan []late
}

// newPulse notes it from now on, by the time since zero.
func newPulse(zero time.Time) pulse {
	p := pulse{make(chan struct{}), make(chan []late)}
	go func() {
		t := time.NewTicker(pulseEvery)
		defer t.Stop()
		waits, now := waited(ownThreads), time.Now()
		b := beats{zero: zero, last: now, looked: now, waits: waits}
		for ended := false; !ended; {
			select {
			case <-t.C:
			case <-p.stop:
				ended = true
			}
			b.beat(time.Now, func() map[string]time.Duration { return waited(ownThreads) })
		}
		p.over <- b.late
	}()
	return p
}

// end is when the process did not run.
func (p pulse) end() []late {
	close(p.stop)
	return <-p.over
}

// beats are the looks at the clock of a process that is to take one every so often.
type beats struct {
	zero, last, looked time.Time
	waits              map[string]time.Duration // that each thread had waited for a processor when they were looked at
	late               []late
}

// late is a beat that came too late, and since when the process did not run.
type late struct {
	span
	before map[string]time.Duration // that each thread had waited when they were last looked at
	waited time.Duration            // the longest that one of them waited of it, as far as is known
}

// stopped is the part of it in which no thread waited for a processor, where that is long enough to be one.
func (l late) stopped() span {
	if l.to-l.from-l.waited < leastLate {
		return span{}
	}
	return span{l.from, l.to - l.waited}
}

// starved is the rest of it.
func (l late) starved() span {
	if s := l.stopped(); s != (span{}) {
		return span{s.to, l.to}
	}
	return l.span
}

// beat takes a look at the clock, and at times at the threads. What came too late, and no thread has waited for a processor
// meanwhile, is a stop. Threads wait side by side, most of all when a stop ends and all of them wake: the longest wait is
// what they can have cost, and not the sum. Linux counts a wait when it is over, and a thread that had the timer may
// wait on when another beats in its place: so later looks tell of it, too. What it has waited since the look before the beat, less
// the time since the beat, was before the beat.
func (b *beats) beat(clock func() time.Time, waited func() map[string]time.Duration) {
	now, before := clock(), b.waits
	if now.Sub(b.last) < pulseEvery+leastLate && now.Sub(b.looked) < lookEvery {
		b.last = now
		return
	}
	b.waits = waited()
	now = clock() // the look may have had to wait itself
	gap, at := now.Sub(b.last)-pulseEvery, now.Sub(b.zero)
	b.last, b.looked = now, now
	if gap >= leastLate {
		b.late = append(b.late, late{span: span{at - gap, at}, before: before})
	}
	for i := len(b.late) - 1; i >= 0 && at-b.late[i].to < lookAfter; i-- {
		l := &b.late[i]
		for thread, wait := range b.waits {
			l.waited = max(l.waited, min(wait-l.before[thread]-(at-l.to), l.to-l.from))
		}
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
