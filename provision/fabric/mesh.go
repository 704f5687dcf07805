package fabric

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hclbench/flow"
	"hclbench/plain"
	"hclbench/provision"
)

// MeshVerb is the verb of the hcl binary that is a host's part of a mesh: it listens on ports,
// connects to others, and ends with its standard input.
const MeshVerb = "mesh"

// How long a mesh may take: one connection, all of it, and what a host does if its caller does
// not end it; and how much of it may be made at once, and told by one host.
const (
	meshDials  = 3 * time.Second
	meshWithin = 45 * time.Second
	meshLasts  = 2 * time.Minute
	meshAtOnce = 64 // connections that a host makes side by side
	meshSays   = 4 << 20
)

// The lines between a caller and the part of a host: hello, which is answered by what it listens
// on; then the others, answered by those whom it does not reach.
type (
	meshHello struct {
		Word  string `json:"word"` // what each listener says with its host's name, so that no other is taken for it
		Host  string `json:"host"`
		Ports []int  `json:"ports"`
	}
	meshHere struct {
		Now   time.Time      `json:"now"`             // by the host's clock
		Free  int            `json:"free"`            // a port of the kernel's choice, as engines open for themselves
		Taken map[int]string `json:"taken,omitempty"` // why it cannot listen on a port
	}
	meshOther struct {
		Host  string `json:"host"`
		At    string `json:"at"`
		Ports []int  `json:"ports"`
		Free  int    `json:"free"`
	}
	meshFound struct {
		Apart  []Apart  `json:"apart"`
		Narrow []Narrow `json:"narrow"`
	}
)

// meet has every host listen on its ports and on one of the kernel's choice, and each of the
// others connect to its address in their fabric on all of them, and send a long message to the
// latter. What it returns is in the order of the hosts. Nothing of it is left on them; what was not
// said in time is an error.
func meet(ctx context.Context, hosts []Place) (all met, err error) {
	late := fmt.Errorf("the hosts did not all say within %s whom they reach", meshWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, meshWithin, late)
	defer cancel()
	m := &mesh{hosts: hosts, parts: make([]*meshPart, len(hosts)), here: make([]meshHere, len(hosts)),
		said: make([]meshFound, len(hosts)), clocks: make([]Clock, len(hosts))}
	defer m.close()
	word := rand.Text()
	for i, h := range hosts {
		p, err := h.Conn.PipeHCL(MeshVerb)
		if err != nil {
			return all, err
		}
		m.parts[i] = &meshPart{h.Conn.Host(), p, json.NewDecoder(io.LimitReader(p, meshSays))}
	}
	defer context.AfterFunc(ctx, m.close)()
	err = m.forEach(func(i int) error {
		name, asked := hosts[i].Conn.Host().Name, time.Now()
		err := m.parts[i].ask(ctx, meshHello{word, name, hosts[i].Ports}, &m.here[i])
		now := m.here[i].Now
		m.clocks[i] = Clock{Host: name, Least: time.Until(now), Most: now.Sub(asked)}
		return err
	})
	if err != nil {
		return all, err
	}
	if err := m.forEach(func(i int) error { return m.parts[i].ask(ctx, m.others(i), &m.said[i]) }); err != nil {
		return all, err
	}
	// All have done their part; each ends now, and is waited for.
	err = m.forEach(func(i int) error {
		if err := m.parts[i].ask(ctx, "end", new(any)); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	})
	return m.found(), err
}

// mesh is one that is being made.
type mesh struct {
	hosts  []Place
	parts  []*meshPart
	here   []meshHere
	said   []meshFound
	clocks []Clock
	once   sync.Once
}

// meshPart is a host's part, as its caller sees it.
type meshPart struct {
	host *provision.Host
	pipe net.Conn
	said *json.Decoder
}

func (p *meshPart) ask(ctx context.Context, say, answer any) error {
	err := json.NewEncoder(p.pipe).Encode(say)
	if err == nil || errors.Is(err, io.ErrClosedPipe) { // why it has ended is told by what is read
		err = p.said.Decode(answer)
	}
	if err != nil {
		err = provision.Wrap(p.host, "find out whom it reaches", cmp.Or(context.Cause(ctx), err))
	}
	return err
}

func (m *mesh) forEach(each func(i int) error) error {
	return flow.Each(m.hosts, func(i int, _ Place) error { return each(i) })
}

func (m *mesh) close() {
	m.once.Do(func() {
		for _, p := range m.parts {
			if p != nil {
				p.pipe.Close()
			}
		}
	})
}

// others are those that a host has to reach, on the ports that they could take.
func (m *mesh) others(i int) []meshOther {
	others := []meshOther{}
	for j, h := range m.hosts {
		if j == i {
			continue
		}
		o := meshOther{Host: h.Conn.Host().Name, At: h.Conn.Host().Inside(), Free: m.here[j].Free}
		for _, port := range h.Ports {
			if _, taken := m.here[j].Taken[port]; !taken {
				o.Ports = append(o.Ports, port)
			}
		}
		others = append(others, o)
	}
	return others
}

// found joins what the hosts have said, with the ports that failed in one way told together.
func (m *mesh) found() met {
	all := met{Clocks: m.clocks}
	for i, h := range m.hosts {
		name := h.Conn.Host().Name
		nowhere := func(a Apart) bool { return len(a.Ports) == 0 } // what no hcl says
		said := slices.DeleteFunc(m.said[i].Apart, nowhere)
		for port, why := range m.here[i].Taken {
			said = append(said, Apart{From: name, To: name, Ports: []int{port}, Why: why})
		}
		slices.SortFunc(said, func(a, b Apart) int { return cmp.Compare(a.Ports[0], b.Ports[0]) })
		var joined []Apart
		for _, a := range said {
			a.From, a.To, a.Why = name, plain.Line(a.To), plain.Line(a.Why)
			same := func(b Apart) bool { return b.To == a.To && b.Why == a.Why && b.Own == a.Own }
			j := slices.IndexFunc(joined, same)
			if j < 0 {
				joined = append(joined, a)
			} else {
				joined[j].Ports = append(joined[j].Ports, a.Ports...)
			}
		}
		all.Apart = append(all.Apart, joined...)
		for _, n := range m.said[i].Narrow {
			n.From, n.To, n.Interface = name, plain.Line(n.To), plain.Line(n.Interface)
			all.Narrow = append(all.Narrow, n)
		}
	}
	return all
}

// met is what hosts of one engine have found out of each other.
type met struct {
	Apart  []Apart
	Narrow []Narrow
	Clocks []Clock // of each host
}

// Apart is a host that does not reach another one of the same engine.
type Apart struct {
	From  string `json:"from"`
	To    string `json:"to"` // From itself: it cannot listen on the ports
	At    string `json:"at,omitempty"`
	Ports []int  `json:"ports"`
	Own   bool   `json:"own,omitempty"`  // the port is none of a member's, but one of the kernel's choice
	Long  bool   `json:"long,omitempty"` // short messages arrive there
	Why   string `json:"why"`
}

// String says it for people.
func (a Apart) String() string {
	var ports []string
	for _, p := range a.Ports {
		ports = append(ports, strconv.Itoa(p))
	}
	on := "port " + strings.Join(ports, ", ")
	if len(ports) > 1 {
		on = "ports " + strings.Join(ports, ", ")
	}
	switch {
	case a.From == a.To:
		return fmt.Sprintf("%s cannot listen on %s: %s", a.From, on, a.Why)
	case a.Long:
		return fmt.Sprintf("%s reaches %s at %s, but %s", a.From, a.To, a.At, a.Why)
	case a.Own:
		on += ", which its kernel chose, as it does for engines"
	}
	return fmt.Sprintf("%s does not reach %s at %s on %s: %s", a.From, a.To, a.At, on, a.Why)
}

// Narrow is a way from one host to another on which packets have to be shorter than its
// interface would send them.
type Narrow struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Interface string `json:"interface"`
	MTU       int    `json:"mtu"` // of the interface, bytes
	Path      int    `json:"path_mtu"`
}

// String says it for people.
func (n Narrow) String() string {
	return fmt.Sprintf("packets from %s to %s may have %d bytes, where its %s has %d",
		n.From, n.To, n.Path, n.Interface, n.MTU)
}

// Clock is how far a host's clock is ahead of the caller's: something between the two.
type Clock struct {
	Host        string
	Least, Most time.Duration
}

// clocksApart is how much the clocks of hosts may differ: their telemetry has a sample a second.
const clocksApart = 500 * time.Millisecond

// compareClocks says how far the clocks of hosts are apart, and whether that is too far.
func compareClocks(clocks []Clock) (have string, good bool) {
	var within, worst time.Duration
	for _, a := range clocks {
		for _, b := range clocks {
			if a.Host == b.Host {
				continue
			}
			within = max(within, a.Most-b.Least)
			if ahead := a.Least - b.Most; ahead > max(worst, clocksApart) {
				worst = ahead
				have = fmt.Sprintf("that of %s is at least %.1f s ahead of that of %s", a.Host, ahead.Seconds(), b.Host)
			}
		}
	}
	if have == "" {
		return fmt.Sprintf("they differ by less than %.2f s", within.Seconds()), true
	}
	return have, false
}
