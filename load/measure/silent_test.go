package measure

import (
	"testing"
	"time"
)

// TestSilent: it is told for how long requests have been in flight without anything coming.
func TestSilent(t *testing.T) {
	const ago = time.Minute
	p := &phase{g: new(generator)}
	told := &teller{p: p, quiet: time.Now().Add(-ago)}
	for _, step := range []struct {
		what   string
		do     func()
		silent bool
	}{
		{"two are sent", func() { p.sent.Store(2) }, true},
		{"a token comes", func() { p.chunks.Add(1) }, false},
		{"nothing comes", func() {}, true},
		{"one has stalled, and is not settled yet", func() { p.failed.Add(1) }, true},
		{"it is settled", func() { p.done.Add(1) }, true},
		{"another is answered", func() { p.done.Add(1) }, false},
		{"none is in flight", func() {}, false},
		{"the next is sent", func() { p.sent.Add(1) }, true},
	} {
		step.do()
		if got := told.state().Silent; (got >= ago.Seconds()) != step.silent {
			t.Errorf("%s: silent for %.1f s", step.what, got)
		}
		told.quiet = time.Now().Add(-ago)
	}
}
