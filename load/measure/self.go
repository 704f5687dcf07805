package measure

import (
	"runtime"
	"runtime/debug"
	"time"

	"hclbench/load"
)

// lagPercentiles are shown of the generator's own delays, whatever is shown of
// the server.
func lagPercentiles() []float64 { return []float64{50, 99, 99.9} }

// spent is what the generator's process had used at a moment or, as a difference,
// between two.
type spent struct {
	wall    time.Time
	cpu     time.Duration
	pauses  int64         // of garbage collection
	paused  time.Duration // in all of them
	longest time.Duration // of the last 256
}

func spentNow() spent {
	var g debug.GCStats
	debug.ReadGCStats(&g)
	return spent{wall: time.Now(), cpu: processorTime(), pauses: g.NumGC, paused: g.PauseTotal}
}

// since is what has been used from before until now.
func (before spent) since() (used spent, took time.Duration) {
	var g debug.GCStats
	debug.ReadGCStats(&g)
	used = spent{cpu: processorTime() - before.cpu, pauses: g.NumGC - before.pauses, paused: g.PauseTotal - before.paused}
	for _, d := range g.Pause[:min(int(used.pauses), len(g.Pause))] {
		used.longest = max(used.longest, d)
	}
	return used, time.Since(before.wall)
}

// write notes in a summary what was used while it was measured.
func (used spent) write(s *load.Summary, took time.Duration) {
	s.GCPauses, s.GCPauseMs, s.GCLongest = int(used.pauses), load.Ms(used.paused), load.Ms(used.longest)
	if took > 0 {
		s.CPUShare = used.cpu.Seconds() / took.Seconds()
	}
	s.Cores = runtime.GOMAXPROCS(0)
}
