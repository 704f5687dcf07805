package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"

	"hclbench/engines"
	"hclbench/results"
)

const notServing = "does not serve"

// serving is what is known of an engine that has proved that it serves.
type serving struct {
	model    string            // its name at the server
	phases   []results.Phase   // what took how long, by the engine's log
	listener *results.Listener // nil for an engine that someone else runs
}

// ready waits until the engine really serves: alive, port open, by nobody else,
// healthy, the model listed, still nobody else, one token generated.
func (e *engine) ready(ctx context.Context) (now serving, err error) {
	want := engines.ReadinessOf(e.d.Engine)
	if want.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, want.Timeout, fmt.Errorf("not ready after %s", want.Timeout))
		defer cancel()
	}
	w := e.waitFor(notServing, e.members...)
	server := e.server(engines.BaseURL(e.d.Engine))
	defer server.close()
	port := probe{look: func(ctx context.Context) error {
		err := server.open(ctx)
		w.asked.Store(err == nil)
		return err
	}}
	ours := probe{look: func(ctx context.Context) error {
		front := e.front()
		if front == nil {
			return nil
		}
		found, err := e.listener(ctx, front)
		found.By = e.secrets.Text(found.By)
		now.listener = &found
		return err
	}}
	health := probe{every: want.HealthEvery, look: func(ctx context.Context) error {
		if want.Health == "" {
			return nil
		}
		return server.get(ctx, want.Health, nil)
	}}
	model := probe{look: func(ctx context.Context) (err error) {
		now.model, err = server.model(ctx, want.Models, want.Model)
		return err
	}}
	token := probe{look: func(ctx context.Context) error { return server.generate(ctx, now.model, want.Stall) }}
	if err := w.until(ctx, port, ours, health, model, ours, token); err != nil {
		return now, err
	}
	now.phases = w.up.end(time.Now())
	return now, e.othersServe(ctx, want, now.model)
}

// othersServe makes sure that the other servers of an external engine serve the
// same model.
func (e *engine) othersServe(ctx context.Context, want engines.Readiness, model string) error {
	for _, base := range engines.MoreURLs(e.d.Engine) {
		server := e.server(base)
		defer server.close()
		_, err := server.model(ctx, want.Models, model)
		if err == nil {
			err = server.generate(ctx, model, want.Stall)
		}
		if err != nil {
			why := base + ", one of its urls, does not serve as the first does"
			return &waitError{what: notServing, why: why, probe: err.Error()}
		}
	}
	return nil
}

// hopelessAfter is how long a server may answer what waiting does not change: some
// say that they are ready a little before they are.
const hopelessAfter = time.Minute

// hopeless reports whether waiting does not change such an answer. ours says that the
// server was started for this run, with the one model that it serves; last, that it
// was asked to generate, after it had said that it was ready.
func hopeless(err error, ours, last bool) bool {
	unlisted, answer := new(unlistedError), new(answerError)
	switch {
	case errors.As(err, &unlisted):
		return ours && len(unlisted.listed) > 0
	case !errors.As(err, &answer):
		return errors.Is(err, errNoToken)
	}
	switch answer.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout: // they say: later
		return false
	}
	return last || answer.code/100 == 3
}

// Whether a server that comes up gets on is read from what it says. Many log every
// request, those with which it is looked at among them, so that a line by itself says
// nothing: it has to be new.

// news remembers the forms of what was said. The zero value has heard nothing.
type news struct {
	figures map[string]string // how far it was when that was said last, by form
}

// newsKept bounds the forms: who says something else for ever gets no further.
const newsKept = 10_000

// in reports whether a line says something new: nothing was said in this form before,
// or it counts something that has changed, "45 %" or "3 of 8".
func (n *news) in(line string) bool {
	at, figures := form(line), strings.Join(counts.FindAllString(line, -1), " ")
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

var counts = regexp.MustCompile(`\d+(\.\d+)?\s*%|\d+\s*(/|of)\s*\d+`)

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

func (c *comingUp) end(now time.Time) []results.Phase {
	if c.phase != "" {
		c.done = append(c.done, results.Phase{Name: c.phase, Seconds: now.Sub(c.since).Seconds()})
	}
	c.phase = ""
	return c.done
}
