package apply

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"hclbench/engines"
	"hclbench/results"
)

// Whether a server that comes up gets on is read from what it says. Many log every
// request, those with which it is looked at among them, so that a line by itself says
// nothing: it has to be new.

// news remembers the forms of what was said. The zero value has heard nothing.
type news struct {
	figures map[string]string // how far it was when that was said last, by form
}

// newsKept bounds the forms: who says something else for ever gets no further.
const newsKept = 10_000

// in reports whether a line says something new: nothing was said in this form before, or it counts
// something that has changed, "45 %" or "3 of 8"; until the server listens, any number.
func (n *news) in(line string, listens bool) bool {
	numbers := counts
	if !listens {
		line, numbers = when.ReplaceAllString(line, ""), number
	}
	at, figures := form(line), strings.Join(numbers.FindAllString(line, -1), " ")
	before, known := n.figures[at]
	if !known && len(n.figures) == newsKept {
		return false
	}
	if n.figures == nil {
		n.figures = map[string]string{}
	}
	n.figures[at] = figures
	return !known || figures != before
}

var (
	counts = regexp.MustCompile(`\d+(\.\d+)?\s*%|\d+\s*(/|of)\s*\d+`)
	number = regexp.MustCompile(`\d+(\.\d+)?`)
	when   = regexp.MustCompile(`(\d+[-/])*\d+[-/]\d+[- T]+\d+:\d+:\d+([.,]\d+)?`)
)

// form is a line without what differs from one time to the next: numbers, times,
// addresses, ids, which are words with a digit.
func form(line string) string {
	words := strings.FieldsFunc(line, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	})
	var kept []string
	for _, w := range words {
		if !strings.ContainsFunc(w, unicode.IsDigit) {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

// standing is an answer that a server gives again and again. The zero value is none.
type standing struct {
	text  string
	since time.Time
	told  time.Time
}

func (a *standing) see(err error, now time.Time) {
	if a.text == "" || form(err.Error()) != form(a.text) {
		*a = standing{since: now}
	}
	a.text = err.Error()
}

func (a *standing) lasts() time.Duration {
	if a.text == "" {
		return 0
	}
	return time.Since(a.since)
}

// An answer is told when it has stood so long with nothing else to tell, and again
// so often.
const (
	answerNews  = 5 * time.Second
	answerAgain = time.Minute
)

// due reports whether the answer is to be told, idle being how long nothing has moved.
func (a *standing) due(idle time.Duration) bool {
	if a.lasts() < answerNews || idle < answerNews || time.Since(a.told) < answerAgain {
		return false
	}
	a.told = time.Now()
	return true
}

// comingUp is how an engine comes up, phase by phase, as its log tells.
type comingUp struct {
	done  []results.Phase
	phase string // the one that goes on; empty: none has been told yet
	since time.Time

	firstN int       // of the phase's parts when they were first counted
	at     time.Time // when that was
	told   time.Time
}

const phaseNews = time.Second

func (c *comingUp) see(p engines.Progress, now time.Time) string {
	if p.Phase != c.phase {
		if c.passedAt(p.Phase) >= 0 && p.N == p.Of { // another part of the engine says it later
			return ""
		}
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

// passedAt is where a phase stands that has been, and is over; -1: nowhere.
func (c *comingUp) passedAt(phase string) int {
	return slices.IndexFunc(c.done, func(p results.Phase) bool { return p.Name == phase })
}

// end ends the phase that goes on. One that went on again is one.
func (c *comingUp) end(now time.Time) []results.Phase {
	if c.phase == "" {
		return c.done
	}
	took := now.Sub(c.since).Seconds()
	if i := c.passedAt(c.phase); i >= 0 {
		c.done[i].Seconds += took
	} else {
		c.done = append(c.done, results.Phase{Name: c.phase, Seconds: took})
	}
	c.phase = ""
	return c.done
}
