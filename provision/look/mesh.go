package look

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
	"sync"
	"time"

	"hclbench/flow"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// MeshVerb is the verb of the hcl binary that is a host's part of [Mesh]: it listens on ports,
// connects to others, and ends with its standard input.
const MeshVerb = "mesh"

// Meeting is a host that others of one engine come to.
type Meeting struct {
	Conn  *reach.Conn // which knows hcl there, see [reach.Conn.UseHCL]
	Ports []int       // that its members will listen on
}

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
		Apart  []provision.Apart  `json:"apart"`
		Narrow []provision.Narrow `json:"narrow"`
	}
)

// Mesh has every host listen on its ports and on one of the kernel's choice, and each of the
// others connect to its address in their fabric on all of them, and send a long message to the
// latter. What it returns is in the order of the hosts. Nothing of it is left on them; what was not
// said in time is an error.
func Mesh(ctx context.Context, hosts []Meeting) (met provision.Met, err error) {
	late := fmt.Errorf("the hosts did not all say within %s whom they reach", meshWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, meshWithin, late)
	defer cancel()
	m := &mesh{hosts: hosts, parts: make([]*meshPart, len(hosts)), here: make([]meshHere, len(hosts)),
		said: make([]meshFound, len(hosts)), clocks: make([]provision.Clock, len(hosts))}
	defer m.close()
	word := rand.Text()
	for i, h := range hosts {
		p, err := h.Conn.PipeHCL(MeshVerb)
		if err != nil {
			return met, err
		}
		m.parts[i] = &meshPart{h.Conn.Host(), p, json.NewDecoder(io.LimitReader(p, meshSays))}
	}
	defer context.AfterFunc(ctx, m.close)()
	err = m.all(func(i int) error {
		name, asked := hosts[i].Conn.Host().Name, time.Now()
		err := m.parts[i].ask(ctx, meshHello{word, name, hosts[i].Ports}, &m.here[i])
		now := m.here[i].Now
		m.clocks[i] = provision.Clock{Host: name, Least: time.Until(now), Most: now.Sub(asked)}
		return err
	})
	if err != nil {
		return met, err
	}
	if err := m.all(func(i int) error { return m.parts[i].ask(ctx, m.others(i), &m.said[i]) }); err != nil {
		return met, err
	}
	// All have done their part; each ends now, and is waited for.
	err = m.all(func(i int) error {
		if err := m.parts[i].ask(ctx, "end", new(any)); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	})
	return m.found(), err
}

// mesh is one that is being made.
type mesh struct {
	hosts  []Meeting
	parts  []*meshPart
	here   []meshHere
	said   []meshFound
	clocks []provision.Clock
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

func (m *mesh) all(each func(i int) error) error {
	return flow.Each(m.hosts, func(i int, _ Meeting) error { return each(i) })
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
func (m *mesh) found() provision.Met {
	met := provision.Met{Clocks: m.clocks}
	for i, h := range m.hosts {
		name := h.Conn.Host().Name
		nowhere := func(a provision.Apart) bool { return len(a.Ports) == 0 } // what no hcl says
		said := slices.DeleteFunc(m.said[i].Apart, nowhere)
		for port, why := range m.here[i].Taken {
			said = append(said, provision.Apart{From: name, To: name, Ports: []int{port}, Why: why})
		}
		slices.SortFunc(said, func(a, b provision.Apart) int { return cmp.Compare(a.Ports[0], b.Ports[0]) })
		var joined []provision.Apart
		for _, a := range said {
			a.From, a.To, a.Why = name, plain.Line(a.To), plain.Line(a.Why)
			same := func(b provision.Apart) bool { return b.To == a.To && b.Why == a.Why && b.Own == a.Own }
			j := slices.IndexFunc(joined, same)
			if j < 0 {
				joined = append(joined, a)
			} else {
				joined[j].Ports = append(joined[j].Ports, a.Ports...)
			}
		}
		met.Apart = append(met.Apart, joined...)
		for _, n := range m.said[i].Narrow {
			n.From, n.To, n.Interface = name, plain.Line(n.To), plain.Line(n.Interface)
			met.Narrow = append(met.Narrow, n)
		}
	}
	return met
}
