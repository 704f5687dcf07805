package load

import (
	"runtime/debug"
	"time"
)

// lagPercentiles are shown of the generator's own delays, whatever is shown of
// the server.
func lagPercentiles() []float64 { return []float64{50, 99, 99.9} }

// describe is nil of nothing.
func (h *histogram) describe() *Stats {
	if h == nil || h.count == 0 {
		return nil
	}
	s := h.stats(lagPercentiles())
	return &s
}

// pauses is where garbage collection stood when a measurement began.
type pauses struct {
	count int64
	total time.Duration
}

func collections() pauses {
	var g debug.GCStats
	debug.ReadGCStats(&g)
	return pauses{g.NumGC, g.PauseTotal}
}

// until writes down what there was since.
func (p pauses) until(s *Summary) {
	var g debug.GCStats
	debug.ReadGCStats(&g)
	s.GCPauses = int(g.NumGC - p.count)
	s.GCPauseMs = ms(g.PauseTotal - p.total)
	for _, d := range g.Pause[:min(s.GCPauses, len(g.Pause))] {
		s.GCLongest = max(s.GCLongest, ms(d))
	}
}
