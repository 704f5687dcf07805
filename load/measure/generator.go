package measure

import (
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"hclbench/load"
)

// lagPercentiles are shown of the generator's own delays, whatever is shown of
// the server.
func lagPercentiles() []float64 { return []float64{50, 99, 99.9} }

type spent struct {
	wall   time.Time
	cpu    time.Duration
	pauses int64         // of garbage collection
	paused time.Duration // in all of them
}

func spentNow() spent {
	var g debug.GCStats
	debug.ReadGCStats(&g)
	return spent{wall: time.Now(), cpu: processorTime(), pauses: g.NumGC, paused: g.PauseTotal}
}

// since is what has been used from before until now.
func (before spent) since() load.Generator {
	var g debug.GCStats
	debug.ReadGCStats(&g)
	pauses := int(g.NumGC - before.pauses)
	used := load.Generator{GCPauses: pauses, GCPauseMs: load.Ms(g.PauseTotal - before.paused),
		Cores: runtime.GOMAXPROCS(0)}
	for _, d := range g.Pause[:min(pauses, len(g.Pause))] {
		used.GCLongest = max(used.GCLongest, load.Ms(d))
	}
	if took := time.Since(before.wall); took > 0 {
		used.CPUShare = (processorTime() - before.cpu).Seconds() / took.Seconds()
	}
	return used
}

// processorTime is what this process has used so far, user and system.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
