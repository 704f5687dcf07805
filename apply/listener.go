package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"hclbench/engines"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/results"
)

// A server that answers on an engine's port need not be the engine: an older one, or
// somebody else's, may listen there in its place, and with SO_REUSEPORT, which many
// a vLLM asks for, beside it. So it is looked up whose the sockets are that take the
// connections, which no server can be asked.

// instance is an engine that was started.
type instance struct {
	plan.Member
	rt      runtime
	id      string
	sockets []uint64 // that were proved to be its own and to take its connections; nil: they could not be seen
}

// listener finds out whether connections to the engine go to what was started and to
// nobody else. That somebody else listens is the error; that it cannot be found out
// is told in the answer.
func (s *site) listener(ctx context.Context, d *plan.Deployment, in *instance) (results.Listener, error) {
	ct := in.Container
	if in.Runtime == provision.Docker && ct.Published() {
		return results.Listener{Proved: true, By: fmt.Sprintf("Docker gives port %d to its container alone", ct.Port)}, nil
	}
	all, err := s.conn.Listeners(ctx, ct.Port)
	if errors.Is(err, provision.ErrUnreachable) {
		return results.Listener{}, err
	}
	if err != nil {
		return s.byStart(ctx, d, in, err.Error())
	}
	taking := takingFor(d, all)
	if len(taking) == 0 {
		return s.byStart(ctx, d, in, fmt.Sprintf("no socket is seen that listens on port %d", ct.Port))
	}
	st, err := in.rt.State(ctx, in.id)
	if err != nil {
		return results.Listener{}, err
	}
	ours := func(h provision.Holder) bool {
		if in.Runtime == provision.Docker {
			return h.Container == in.id
		}
		return st.PID != 0 && (h.PID == st.PID || slices.Contains(h.Lineage, st.PID)) || h.Mark == s.agent.Mark()+in.id
	}
	found := judge(taking, ours, in.Runtime == provision.Process)
	why := "the login may not see which process holds the socket"
	if in.Runtime == provision.Docker && len(found.theirs)+len(found.unseen) > 0 {
		// Whoever is in the container sees what holds the container's sockets.
		inside, err := s.inside(ctx, in)
		if err != nil {
			why += ", and nobody could look from inside of the container: " + err.Error()
		}
		found.settle(inside)
	}
	switch {
	case len(found.theirs) > 0:
		return results.Listener{}, s.conn.Foreign(ctx, found.theirs, len(found.ours) > 0, s.docker.Name)
	case len(found.unseen) > 0:
		return s.byStart(ctx, d, in, why)
	}
	in.sockets = inodes(taking)
	place := "its process group"
	if in.Runtime == provision.Docker {
		place = "its container"
	}
	return results.Listener{Proved: true, By: fmt.Sprintf("%s alone listens on port %d", place, ct.Port)}, nil
}

// joined says who listens on the engine's port now and did not when it was proved to
// be alone there; where that cannot be seen, nothing.
func (s *site) joined(ctx context.Context, d *plan.Deployment, in *instance) (doubts []string) {
	if in == nil || in.sockets == nil {
		return nil
	}
	all, err := s.conn.Listeners(ctx, in.Container.Port)
	isNew := func(inode uint64) bool { return !slices.Contains(in.sockets, inode) }
	if err != nil || !slices.ContainsFunc(inodes(takingFor(d, all)), isNew) {
		return nil
	}
	if _, err := s.listener(ctx, d, in); errors.Is(err, provision.ErrPortTaken) {
		doubts = append(doubts, err.Error())
	}
	return doubts
}

// takingFor are the listeners that take connections to the engine's addresses.
func takingFor(d *plan.Deployment, all []provision.Listener) (taking []provision.Listener) {
	for _, to := range addresses(d) {
		for _, l := range provision.Taking(all, to) {
			if !slices.Contains(inodes(taking), l.Inode) {
				taking = append(taking, l)
			}
		}
	}
	return taking
}

func inodes(all []provision.Listener) (list []uint64) {
	for _, l := range all {
		list = append(list, l.Inode)
	}
	return list
}

// addresses are where the engine's port is asked, by us and by those that send load.
func addresses(d *plan.Deployment) (list []netip.Addr) {
	urls := []string{engines.BaseURL(d.Engine)}
	for _, c := range d.ToDo() {
		if l := c.Load(); l != nil {
			urls = append(urls, l.Target.BaseURL)
		}
	}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		addr, err := netip.ParseAddr(u.Hostname())
		if err != nil { // a name: of this host, as everybody else knows it
			addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		if !slices.Contains(list, addr) {
			list = append(list, addr)
		}
	}
	return list
}

// judged is whose listeners are.
type judged struct{ ours, theirs, unseen []provision.Listener }

// judge tells by the processes that hold the sockets. own says that what was started
// belongs to the user who has looked: what that user does not see is somebody else's.
func judge(all []provision.Listener, ours func(provision.Holder) bool, own bool) (found judged) {
	for _, l := range all {
		switch {
		case slices.ContainsFunc(l.Holders, ours):
			found.ours = append(found.ours, l)
		case len(l.Holders) > 0, own && !l.Mine:
			found.theirs = append(found.theirs, l)
		default:
			found.unseen = append(found.unseen, l)
		}
	}
	return found
}

// settle decides by what was seen from inside of the engine's container, where a
// socket that no process holds is another container's or the host's.
func (j *judged) settle(inside []provision.Listener) {
	before := *j
	j.theirs, j.unseen = nil, nil
	for _, open := range []struct {
		listeners []provision.Listener
		as        *[]provision.Listener
	}{{before.theirs, &j.theirs}, {before.unseen, &j.unseen}} {
		for _, l := range open.listeners {
			i := slices.IndexFunc(inside, func(in provision.Listener) bool { return in.Inode == l.Inode })
			switch {
			case i < 0: // it is not the network of the host
				*open.as = append(*open.as, l)
			case len(inside[i].Holders) > 0:
				j.ours = append(j.ours, l)
			default:
				j.theirs = append(j.theirs, l)
			}
		}
	}
}

// insideWithin bounds the look from inside of a container.
const insideWithin = time.Minute

// inside finds the listeners on the engine's port, and their processes as far as they
// are the container's.
func (s *site) inside(ctx context.Context, in *instance) (all []provision.Listener, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, insideWithin, fmt.Errorf("no answer within %s", insideWithin))
	defer cancel()
	ct := in.Container
	err = s.within(ctx, provision.Container{
		Name: ct.Name + "-listeners", Image: ct.Image, Labels: maps.Clone(ct.Labels),
		// To look at a process takes what the process may do.
		CapAdd: ct.CapAdd, SecurityOpt: ct.SecurityOpt, Privileged: ct.Privileged, User: ct.User,
		Network: ct.Network, PID: "container:" + in.id,
	}, &all, reach.ListenersVerb, strconv.Itoa(ct.Port))
	return all, err
}

// startTime is when a server's process has started, in seconds since 1970: what the
// Prometheus client of vLLM and SGLang exports by itself.
var startTime = regexp.MustCompile(`(?m)^process_start_time_seconds ([0-9.e+]+)$`)

// startSlack is how much earlier than its container a process may say that it has
// started: the kernel's clock of whole ticks is added to a boot time of whole seconds.
const startSlack = 2 * time.Second

// byStart falls back on when the server says that it has started, where nobody can
// see whose the sockets are: a server that is older than the engine is not the engine.
func (s *site) byStart(ctx context.Context, d *plan.Deployment, in *instance, why string) (results.Listener, error) {
	p := s.prober(engines.BaseURL(d.Engine), d.Engine)
	defer p.close()
	var said []byte
	var began float64
	err := p.get(ctx, "/metrics", &said)
	if m := startTime.FindSubmatch(said); err == nil && m != nil {
		began, err = strconv.ParseFloat(string(m[1]), 64)
	}
	if err != nil || began == 0 {
		return results.Listener{By: why}, nil
	}
	st, err := in.rt.State(ctx, in.id)
	if err != nil {
		return results.Listener{}, err
	}
	return olderOrNot(s.host, in.Container.Port, time.UnixMicro(int64(began*1e6)), st.Started)
}

// olderOrNot compares the start of a server with the start of what should be it.
func olderOrNot(h *provision.Host, port int, server, engine time.Time) (results.Listener, error) {
	if server.Before(engine.Add(-startSlack)) {
		return results.Listener{}, fmt.Errorf("%s: %w: the server that answers on port %d runs since %s, and the engine was started at %s. See which it is with\n\n    sudo ss -ltnp 'sport = :%d'\n\n  on the host and stop it, or give the engine another port",
			h, provision.ErrPortTaken, port, server.Local().Format(time.DateTime), engine.Local().Format(time.DateTime), port)
	}
	return results.Listener{Proved: true, By: fmt.Sprintf("the server on port %d says that it started %.1f s after the engine was", port, max(0, server.Sub(engine).Seconds()))}, nil
}
