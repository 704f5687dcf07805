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
func (e *engine) listener(ctx context.Context, m *member) (none results.Listener, err error) {
	inDocker, port := m.Runtime == provision.Docker, m.Container.Port
	if inDocker && m.Container.Published() {
		return results.Listener{Proved: true, By: fmt.Sprintf("Docker gives port %d to its container alone", port)}, nil
	}
	taking, err := e.taking(ctx, m)
	switch {
	case provision.OutOfReach(err):
		return none, err
	case err != nil:
		return e.byStart(ctx, m, err.Error())
	case len(taking) == 0:
		return e.byStart(ctx, m, fmt.Sprintf("no listening socket is seen on port %d", port))
	}
	holds, err := m.holds(ctx)
	if err != nil {
		return none, err
	}
	found := judge(taking, holds, !inDocker, nil)
	why := "the login may not see which process holds the socket"
	if inDocker && len(found[our]) < len(taking) {
		// Whoever is in the container sees what holds the container's sockets.
		inside, err := m.inside(ctx)
		if err != nil {
			why += ", and hcl could not look from inside the container: " + err.Error()
		}
		found = judge(taking, holds, false, inside)
	}
	switch {
	case len(found[their]) > 0:
		return none, m.at.Conn.Foreign(ctx, found[their], len(found[our]) > 0, m.at.Docker.Name)
	case len(found[unseen]) > 0:
		return e.byStart(ctx, m, why)
	}
	m.sockets = taking
	place := "its process group"
	if inDocker {
		place = "its container"
	}
	return results.Listener{Proved: true, By: fmt.Sprintf("only %s listens on port %d", place, port)}, nil
}

// joined says who listens on the engine's port now and did not when it was proved to
// be alone there, or why that cannot be seen any more.
func (e *engine) joined(ctx context.Context) (doubts []string) {
	for _, m := range e.members {
		if m.sockets == nil {
			continue
		}
		now, err := e.taking(ctx, m)
		isNew := func(l provision.Listener) bool { return !slices.ContainsFunc(m.sockets, is(l)) }
		if err == nil && slices.ContainsFunc(now, isNew) {
			_, err = e.listener(ctx, m)
		}
		switch {
		case errors.Is(err, provision.ErrPortTaken):
			doubts = append(doubts, err.Error())
		case err != nil:
			doubts = append(doubts, m.says(fmt.Sprintf("nobody knows whether it was alone on port %d: %v", m.Container.Port, err)))
		}
	}
	return doubts
}

// taking are the listeners that take connections to the engine's addresses.
func (e *engine) taking(ctx context.Context, m *member) (taking []provision.Listener, err error) {
	all, err := m.at.Conn.Listeners(ctx, m.Container.Port)
	for _, to := range addresses(e.d, m) {
		for _, l := range provision.Taking(all, to) {
			if !slices.ContainsFunc(taking, is(l)) {
				taking = append(taking, l)
			}
		}
	}
	return taking, err
}

func is(l provision.Listener) func(provision.Listener) bool {
	return func(other provision.Listener) bool { return other.Inode == l.Inode }
}

// addresses are where a member's port is asked, by us and, where requests go to it, by those
// that send load: no two members have one port.
func addresses(d *plan.Deployment, m *member) (list []netip.Addr) {
	urls := []string{engines.BaseURL(m.Engine)}
	for _, c := range d.ToDo() {
		if l := c.Load(); l != nil {
			urls = append(append(urls, l.Target.BaseURL), l.Target.BaseURLs...)
		}
	}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Port() != strconv.Itoa(m.Container.Port) {
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

func (m *member) holds(ctx context.Context) (func(provision.Holder) bool, error) {
	if m.Runtime == provision.Docker {
		return func(h provision.Holder) bool { return h.Container == m.id }, nil
	}
	st, err := m.rt.State(ctx, m.id)
	return func(h provision.Holder) bool {
		return st.PID != 0 && (h.PID == st.PID || slices.Contains(h.Lineage, st.PID)) || h.Mark == m.at.Agent.Mark()+m.id
	}, err
}

type owner int

const (
	unseen owner = iota
	our
	their
)

// judge tells whose listeners are by the processes that hold them. own says that what
// was started belongs to the user who has looked: what that user does not see is somebody
// else's. inside is what was seen from inside of the engine's container: a socket that no
// process holds there is another container's or the host's, and one that is not there is
// of another network.
func judge(all []provision.Listener, ours func(provision.Holder) bool, own bool,
	inside []provision.Listener) map[owner][]provision.Listener {
	found := map[owner][]provision.Listener{}
	for _, l := range all {
		whose, i := unseen, slices.IndexFunc(inside, is(l))
		switch {
		case slices.ContainsFunc(l.Holders, ours), i >= 0 && len(inside[i].Holders) > 0:
			whose = our
		case i >= 0, len(l.Holders) > 0, own && !l.Mine:
			whose = their
		}
		found[whose] = append(found[whose], l)
	}
	return found
}

// inside finds the listeners on the port, and their processes that are the container's.
func (m *member) inside(ctx context.Context) (all []provision.Listener, err error) {
	ct := m.Container.MayAs("-listeners") // to look at a process takes what the process may do
	ct.Network, ct.PID = m.Container.Network, "container:"+m.id
	err = m.at.Within(ctx, ct, &all, reach.ListenersVerb, strconv.Itoa(m.Container.Port))
	return all, err
}

// startTime is when a server's process has started, in seconds since 1970: what the
// Prometheus client of vLLM and SGLang exports by itself.
var startTime = regexp.MustCompile(`(?m)^process_start_time_seconds ([0-9.e+]+)$`)

// startSlack is how much earlier than its container a process may say that it has
// started: the kernel's clock of whole ticks is added to a boot time of whole seconds.
const startSlack = 2 * time.Second

// startOf is what a page of metrics says of it.
func startOf(page string) (seconds float64, ok bool) {
	m := startTime.FindStringSubmatch(page)
	if m == nil {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(m[1], 64)
	return seconds, err == nil && seconds > 0
}

// byStart falls back on when the server says that it has started, where nobody can
// see whose the sockets are: a server that is older than the engine is not the engine.
func (e *engine) byStart(ctx context.Context, m *member, why string) (results.Listener, error) {
	server := m.server(e)
	defer server.close()
	var said []byte
	if err := server.get(ctx, "/metrics", &said); err != nil {
		return results.Listener{By: why}, nil
	}
	began, ok := startOf(string(said))
	if !ok {
		return results.Listener{By: why}, nil
	}
	st, err := m.rt.State(ctx, m.id)
	if err != nil {
		return results.Listener{}, err
	}
	return olderOrNot(m.Host, m.Container.Port, time.UnixMicro(int64(began*1e6)), st.Started)
}

// olderOrNot compares the start of a server with the start of what should be it.
func olderOrNot(h *provision.Host, port int, server, engine time.Time) (results.Listener, error) {
	if server.Before(engine.Add(-startSlack)) {
		since, at := server.Local().Format(time.DateTime), engine.Local().Format(time.DateTime)
		return results.Listener{}, fmt.Errorf("%s: %w: the server that answers on port %d runs since %s, and the engine "+
			"was started at %s. See which it is with\n\n    sudo ss -ltnp 'sport = :%d'\n\n"+
			"  on the host and stop it, or give the engine another port", h, provision.ErrPortTaken, port, since, at, port)
	}
	after := max(0, server.Sub(engine).Seconds())
	by := fmt.Sprintf("the server on port %d says that it started %.1f s after the engine was", port, after)
	return results.Listener{Proved: true, By: by}, nil
}
