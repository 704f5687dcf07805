package apply

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"hclbench/plan"
	"hclbench/provision"
)

// Load may be sent from another host than the engine's. Both are then at work for
// one deployment: while it is measured nothing else is on either, and the sender
// stays reserved until nobody sends from it any more.

// place is a host of the run, as the work on other hosts sees it.
type place struct {
	opened    chan struct{} // closed when the host can be used, or cannot
	site      *site         // nil: it cannot
	lease     context.Context
	turn      chan struct{}  // holds one token, which the deployment has that is measured with the host
	borrowers sync.WaitGroup // other hosts whose engines may get load from here yet
	shared    bool           // it sends to others, or others send to it
}

// places are the hosts at which there is work, and those that load is sent from.
func places(work map[*provision.Host][]*plan.Deployment) map[*provision.Host]*place {
	all := map[*provision.Host]*place{}
	at := func(h *provision.Host) *place {
		if all[h] == nil {
			all[h] = &place{opened: make(chan struct{}), turn: make(chan struct{}, 1)}
		}
		return all[h]
	}
	for h, deployments := range work {
		p := at(h)
		for _, sender := range senders(deployments) {
			p.shared, at(sender).shared = true, true
			at(sender).borrowers.Add(1)
		}
	}
	return all
}

// senders are the other hosts that the deployments get their load from.
func senders(deployments []*plan.Deployment) []*provision.Host {
	var all []*provision.Host
	for _, d := range deployments {
		for _, h := range d.Senders() {
			if !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	return all
}

// toldElsewhere is why a deployment cannot be measured, or not any more, that another
// host's failure is to blame for, which is that host's own error.
type toldElsewhere struct {
	sender *provision.Host
	why    error // nil: that host tells
}

func (e *toldElsewhere) Error() string {
	if e.why != nil {
		return fmt.Sprintf("its load is sent no more; the next apply measures it: %v", e.why)
	}
	return fmt.Sprintf("%s, which its load is sent from, cannot be used; the next apply measures it", e.sender)
}

// together waits until the deployment may be measured: its host and those that
// send its load can be used, and nothing else is measured with them. Turns are
// taken in the order of the plan's hosts, so that nobody waits in a circle.
func (s *site) together(ctx context.Context, d *plan.Deployment) (done func(), err error) {
	for _, h := range d.Senders() {
		p := s.places[h]
		select {
		case <-p.opened:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if p.site == nil || p.lease.Err() != nil {
			return nil, &toldElsewhere{sender: h}
		}
	}
	var held []*place
	done = func() {
		for _, p := range held {
			<-p.turn
		}
	}
	for _, h := range s.plan.Hosts {
		if h != s.host && !slices.Contains(d.Senders(), h) {
			continue
		}
		select {
		case s.places[h].turn <- struct{}{}:
			held = append(held, s.places[h])
		case <-ctx.Done():
			done()
			return nil, context.Cause(ctx)
		}
	}
	return done, nil
}

// sender is the site that a cell's load is sent from, and the context of its lease.
func (s *site) sender(ctx context.Context, c *plan.Cell) (*site, context.Context) {
	if c.From() == nil {
		return s, ctx
	}
	p := s.places[c.From()]
	return p.site, p.lease
}

// reachWithin is how long a connection from the sender to an engine may take that
// already serves.
const reachWithin = 20 * time.Second

// reaches reports why the cell's load would not get from the sender to the engine.
func (s *site) reaches(ctx context.Context, c *plan.Cell) error {
	if c.From() == nil {
		return nil
	}
	from, _ := s.sender(ctx, c)
	u, err := url.Parse(c.Load().Target.BaseURL)
	if err != nil {
		return err
	}
	at := u.Host
	if u.Port() == "" {
		at += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	conn, err := from.conn.Dial(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("%s, which the load is sent from, does not reach the engine at %s, although it serves on its own host: see that no firewall is between them, or have the engine listen on an address that both know, flags = { host = \"10.0.0.5\" }: %w", from.host, at, err)
	}
	return conn.Close()
}
