package apply

import (
	"context"
	"errors"
	"testing"

	"hclbench/apply/place"
	"hclbench/plan"
	"hclbench/provision"
)

// TestScheduler: a trial begins when it is the first at all of its places, and one of
// which a place is lost does not.
func TestScheduler(t *testing.T) {
	a, b, c := &provision.Host{Name: "a"}, &provision.Host{Name: "b"}, &provision.Host{Name: "c"}
	on := func(from *provision.Host, hosts ...*provision.Host) *plan.Deployment {
		d := &plan.Deployment{Host: hosts[0], Hosts: hosts, Cells: []*plan.Cell{{Task: &plan.Load{}}}}
		if from != nil {
			d.Cells[0].Task = &plan.Load{From: []*provision.Host{from}}
		}
		return d
	}
	wide, narrow, sent := on(nil, a, b), on(nil, b), on(b, c)
	s := newScheduler([]*plan.Deployment{wide, narrow, sent})
	held, lose := context.WithCancel(t.Context())
	open := func(h *provision.Host) { s.opened(h, &place.Session{Host: h, Held: held}) }
	try := func(d *plan.Deployment) (sessions, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.try(d)
	}
	begins := func(d *plan.Deployment) bool {
		at, err := try(d)
		if err != nil {
			t.Error(err)
		}
		return at != nil
	}
	open(b)
	open(c)
	if begins(wide) || begins(narrow) || begins(sent) {
		t.Error("a trial begins before one that comes before it, or whose host is not open")
	}
	open(a)
	if !begins(wide) || begins(narrow) {
		t.Error("the first trial does not have its hosts to itself")
	}
	s.give(wide)
	if !begins(narrow) || begins(sent) {
		t.Error("the second does not come after the first")
	}
	s.give(narrow)
	at, err := s.take(t.Context(), sent)
	if err != nil || at[b] == nil || at[c] == nil || at[a] != nil {
		t.Errorf("the third gets %v, %v", at, err)
	}
	lose()
	<-held.Done()
	for news := true; news; {
		s.mu.Lock()
		news = !s.stations[b].over
		s.mu.Unlock()
	}
	f := new(failure)
	if _, err := try(sent); !errors.As(err, &f) {
		t.Errorf("on hosts that are lost: %v", err)
	}
	s.give(sent)
	if errs := s.ended(b); len(errs) > 0 {
		t.Errorf("what was lost elsewhere is told as %v", errs)
	}
}
