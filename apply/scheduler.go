package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"hclbench/apply/place"
	"hclbench/plan"
	"hclbench/provision"
)

// scheduler says which trial runs when. Trials stand in line at each of their places,
// those of their engine and those that their load is sent from, in the plan's order. A
// trial begins when it is the first at all of them, and so has them to itself; and as
// the order is the same everywhere, nobody waits in a circle.
type scheduler struct {
	mu       sync.Mutex
	stations map[*provision.Host]*station
	news     chan struct{} // closed, and made anew, when something has changed
}

// station is a host of the run. It stays reserved until no trial needs it any more.
type station struct {
	line    []*plan.Deployment // those that need it and have not ended
	session *place.Session     // nil: not open yet
	over    bool               // it cannot be used, or not any more
	errs    []error            // why, where trials have found out
	idle    chan struct{}      // closed when nobody needs it any more
}

func newScheduler(deployments []*plan.Deployment) *scheduler {
	s := &scheduler{stations: map[*provision.Host]*station{}, news: make(chan struct{})}
	for _, d := range deployments {
		for _, h := range d.Needs() {
			if s.stations[h] == nil {
				s.stations[h] = &station{idle: make(chan struct{})}
			}
			s.stations[h].line = append(s.stations[h].line, d)
		}
	}
	return s
}

// insert puts a deployment into line before another, which needs all of its hosts.
func (s *scheduler) insert(d, before *plan.Deployment) {
	for _, h := range d.Needs() {
		s.change(h, func(p *station) { p.line = slices.Insert(p.line, slices.Index(p.line, before), d) })
	}
}

// change changes a place, and lets those who wait look again.
func (s *scheduler) change(h *provision.Host, how func(*station)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how(s.stations[h])
	close(s.news)
	s.news = make(chan struct{})
}

// opened says that a host can be used, until its lease ends.
func (s *scheduler) opened(h *provision.Host, session *place.Session) {
	s.change(h, func(p *station) { p.session = session })
	context.AfterFunc(session.Held, func() { s.lose(h, nil) })
}

// lose says that a host cannot be used any more, and why, unless it tells that itself.
func (s *scheduler) lose(h *provision.Host, err error) {
	s.change(h, func(p *station) {
		p.over = true
		if err != nil {
			p.errs = append(p.errs, err)
		}
	})
}

// take waits until the deployment may be carried out, and returns the sessions of its
// hosts, which are its own until [scheduler.give]; none when ctx ends. It is a failure
// that one of them cannot be used.
func (s *scheduler) take(ctx context.Context, d *plan.Deployment) (sessions, error) {
	for {
		s.mu.Lock()
		news := s.news
		at, err := s.try(d)
		s.mu.Unlock()
		if at != nil || err != nil {
			return at, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// try takes the hosts of a deployment if it is the first in line at all of them. The
// lock is held.
func (s *scheduler) try(d *plan.Deployment) (sessions, error) {
	at, first := sessions{}, true
	for _, h := range d.Needs() {
		switch p := s.stations[h]; {
		case p.over && slices.Contains(d.Hosts, h):
			return nil, &failure{scope: ofHost, host: h} // its own error says why
		case p.over:
			why := fmt.Errorf("%s sends its load and cannot be used; the next apply measures it", h)
			return nil, failed(ofTrial, h, why)
		default:
			at[h] = p.session
			first = first && p.session != nil && p.line[0] == d
		}
	}
	if !first {
		return nil, nil
	}
	return at, nil
}

// give is the end of a trial, also of one that took nothing.
func (s *scheduler) give(d *plan.Deployment) {
	for _, h := range d.Needs() {
		s.change(h, func(p *station) {
			p.line = slices.DeleteFunc(p.line, func(other *plan.Deployment) bool { return other == d })
			if len(p.line) == 0 {
				close(p.idle)
			}
		})
	}
}

// ended waits until nobody needs a host any more, and returns what the trials have
// found out of it.
func (s *scheduler) ended(h *provision.Host) []error {
	p := s.stations[h]
	<-p.idle
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.errs
}

// sessions are those of the hosts that a deployment needs.
type sessions map[*provision.Host]*place.Session

// onHosts are the sessions of hosts, in their order.
func (at sessions) onHosts(hosts []*provision.Host) []*place.Session {
	all := make([]*place.Session, len(hosts))
	for i, h := range hosts {
		all[i] = at[h]
	}
	return all
}

// anyHeld reports whether one of the places at least could be had.
func (at sessions) anyHeld() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(at)), func(s *place.Session) bool { return s.Pod != nil })
}

// fabrics are those of the hosts that have their addresses by now only: pods, and those that are rented.
func (at sessions) fabrics() map[*provision.Host]provision.Fabric {
	all := map[*provision.Host]provision.Fabric{}
	for h, s := range at {
		if h.Cluster != nil || h.Rent != nil {
			all[h] = s.Conn.Host().Fabric
		}
	}
	return all
}
