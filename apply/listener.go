package apply

import (
	"context"
	"errors"
	"fmt"
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

// listener finds out whether connections to the engine go to what was started and to
// nobody else. That somebody else listens is the error; that it cannot be found out
// is told in the answer.
func (e *engine) listener(ctx context.Context, m *member) (results.Listener, error) {
	ct := m.Container
	if m.Runtime == provision.Docker && ct.Published() {
		return results.Listener{Proved: true, By: fmt.Sprintf("Docker gives port %d to its container alone", ct.Port)}, nil
	}
	all, err := m.at.conn.Listeners(ctx, ct.Port)
	if errors.Is(err, provision.ErrUnreachable) {
		return results.Listener{}, err
	}
	if err != nil {
		return e.byStart(ctx, m, err.Error())
	}
	taking := takingFor(e.d, all)
	if len(taking) == 0 {
		return e.byStart(ctx, m, fmt.Sprintf("no socket is seen that listens on port %d", ct.Port))
	}
	st, err := m.rt.State(ctx, m.id)
	if err != nil {
		return results.Listener{}, err
	}
	ours := func(h provision.Holder) bool {
		if m.Runtime == provision.Docker {
			return h.Container == m.id
		}
		return st.PID != 0 && (h.PID == st.PID || slices.Contains(h.Lineage, st.PID)) || h.Mark == m.at.agent.Mark()+m.id
	}
	found := judge(taking, ours, m.Runtime == provision.Process)
	why := "the login may not see which process holds the socket"
	if m.Runtime == provision.Docker && len(found.theirs)+len(found.unseen) > 0 {
		// Whoever is in the container sees what holds the container's sockets.
		inside, err := m.inside(ctx)
		if err != nil {
			why += ", and nobody could look from inside of the container: " + err.Error()
		}
		found.settle(inside)
	}
	switch {
	case len(found.theirs) > 0:
		return results.Listener{}, m.at.conn.Foreign(ctx, found.theirs, len(found.ours) > 0, m.at.docker.Name)
	case len(found.unseen) > 0:
		return e.byStart(ctx, m, why)
	}
	m.sockets = inodes(taking)
	place := "its process group"
	if m.Runtime == provision.Docker {
		place = "its container"
	}
	return results.Listener{Proved: true, By: fmt.Sprintf("%s alone listens on port %d", place, ct.Port)}, nil
}

// joined says who listens on the engine's port now and did not when it was proved to
// be alone there; where that cannot be seen, nothing.
func (e *engine) joined(ctx context.Context) (doubts []string) {
	m := e.front()
	if m == nil || m.sockets == nil {
		return nil
	}
	all, err := m.at.conn.Listeners(ctx, m.Container.Port)
	isNew := func(inode uint64) bool { return !slices.Contains(m.sockets, inode) }
	if err != nil || !slices.ContainsFunc(inodes(takingFor(e.d, all)), isNew) {
		return nil
	}
	if _, err := e.listener(ctx, m); errors.Is(err, provision.ErrPortTaken) {
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
func (m *member) inside(ctx context.Context) (all []provision.Listener, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, insideWithin, fmt.Errorf("no answer within %s", insideWithin))
	defer cancel()
	ct := mayAs(m.Container, "-listeners") // to look at a process takes what the process may do
	ct.Network, ct.PID = m.Container.Network, "container:"+m.id
	err = m.at.within(ctx, ct, &all, reach.ListenersVerb, strconv.Itoa(m.Container.Port))
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
func (e *engine) byStart(ctx context.Context, m *member, why string) (results.Listener, error) {
	server := e.server(engines.BaseURL(e.d.Engine))
	defer server.close()
	var said []byte
	var began float64
	err := server.get(ctx, "/metrics", &said)
	if m := startTime.FindSubmatch(said); err == nil && m != nil {
		began, err = strconv.ParseFloat(string(m[1]), 64)
	}
	if err != nil || began == 0 {
		return results.Listener{By: why}, nil
	}
	st, err := m.rt.State(ctx, m.id)
	if err != nil {
		return results.Listener{}, err
	}
	return olderOrNot(m.Host, m.Container.Port, time.UnixMicro(int64(began*1e6)), st.Started)
}

// What the start of a server says of whose it is.
const (
	olderServer = "%s: %w: the server that answers on port %d runs since %s, and the engine was started at %s. " +
		"See which it is with\n\n    sudo ss -ltnp 'sport = :%d'\n\n" +
		"  on the host and stop it, or give the engine another port"
	youngerServer = "the server on port %d says that it started %.1f s after the engine was"
)

// olderOrNot compares the start of a server with the start of what should be it.
func olderOrNot(h *provision.Host, port int, server, engine time.Time) (results.Listener, error) {
	if server.Before(engine.Add(-startSlack)) {
		since, at := server.Local().Format(time.DateTime), engine.Local().Format(time.DateTime)
		return results.Listener{}, fmt.Errorf(olderServer, h, provision.ErrPortTaken, port, since, at, port)
	}
	after := max(0, server.Sub(engine).Seconds())
	return results.Listener{Proved: true, By: fmt.Sprintf(youngerServer, port, after)}, nil
}
