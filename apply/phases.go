package apply

import (
	"fmt"
	"time"

	"hclbench/engines"
	"hclbench/results"
)

// comingUp is how an engine comes up, phase by phase, as its log tells.
type comingUp struct {
	done  []results.Phase
	phase string // the one that goes on; empty: none has been told yet
	since time.Time

	firstN int       // of the phase's parts when they were first counted
	at     time.Time // when that was
	told   time.Time
}

// phaseNews is how often one phase's progress is told.
const phaseNews = time.Second

// see takes notice of progress, and returns what to tell of it; "" when there is
// nothing new.
func (c *comingUp) see(p engines.Progress, now time.Time) string {
	if p.Phase != c.phase {
		c.end(now)
		c.phase, c.since, c.firstN, c.at = p.Phase, now, p.N, now
	} else if now.Sub(c.told) < phaseNews && p.N < p.Of || p.Of == 0 {
		return ""
	}
	c.told = now
	if p.Of == 0 {
		return p.Phase
	}
	text := fmt.Sprintf("%s %d of %d", p.Phase, p.N, p.Of)
	if p.N > c.firstN && p.N < p.Of {
		left := time.Duration(float64(now.Sub(c.at)) / float64(p.N-c.firstN) * float64(p.Of-p.N))
		if left >= time.Second {
			text += fmt.Sprintf(", about %s left", left.Round(time.Second))
		}
	}
	return text
}

// end closes the phase that goes on.
func (c *comingUp) end(now time.Time) []results.Phase {
	if c.phase != "" {
		c.done = append(c.done, results.Phase{Name: c.phase, Seconds: now.Sub(c.since).Seconds()})
	}
	c.phase = ""
	return c.done
}
