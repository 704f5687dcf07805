package look

import (
	"bufio"
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
		Free  int            `json:"free"`            // a port of the kernel's choice, as engines open for themselves
		Taken map[int]string `json:"taken,omitempty"` // why it cannot listen on a port
	}
	meshOther struct {
		Host  string `json:"host"`
		At    string `json:"at"`
		Ports []int  `json:"ports"`
		Free  int    `json:"free"`
	}
)

// Mesh has every host listen on its ports and on one of the kernel's choice, and each of the
// others connect to its address in their fabric on all of them. It returns who does not reach whom,
// in the order of the hosts. Nothing of it is left on the hosts; what was not said in time is an error.
func Mesh(ctx context.Context, hosts []Meeting) ([]provision.Apart, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, meshWithin, fmt.Errorf("the hosts did not all say within %s whom they reach", meshWithin))
	defer cancel()
	m := &mesh{hosts: hosts, parts: make([]*meshPart, len(hosts)), here: make([]meshHere, len(hosts)), apart: make([][]provision.Apart, len(hosts))}
	defer m.close()
	word := rand.Text()
	for i, h := range hosts {
		p, err := h.Conn.PipeHCL(MeshVerb)
		if err != nil {
			return nil, err
		}
		m.parts[i] = &meshPart{h.Conn.Host(), p, json.NewDecoder(io.LimitReader(p, meshSays))}
	}
	defer context.AfterFunc(ctx, m.close)()
	err := m.all(func(i int) error {
		h := hosts[i]
		return m.parts[i].ask(ctx, meshHello{word, h.Conn.Host().Name, h.Ports}, &m.here[i])
	})
	if err != nil {
		return nil, err
	}
	if err := m.all(func(i int) error { return m.parts[i].ask(ctx, m.others(i), &m.apart[i]) }); err != nil {
		return nil, err
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
	hosts []Meeting
	parts []*meshPart
	here  []meshHere
	apart [][]provision.Apart
	once  sync.Once
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
	errs := make([]error, len(m.hosts))
	var all sync.WaitGroup
	for i := range m.hosts {
		all.Go(func() { errs[i] = each(i) })
	}
	all.Wait()
	return errors.Join(errs...)
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
func (m *mesh) found() (all []provision.Apart) {
	for i, h := range m.hosts {
		name := h.Conn.Host().Name
		said := slices.DeleteFunc(m.apart[i], func(a provision.Apart) bool { return len(a.Ports) == 0 }) // what no hcl says
		for port, why := range m.here[i].Taken {
			said = append(said, provision.Apart{From: name, To: name, Ports: []int{port}, Why: why})
		}
		slices.SortFunc(said, func(a, b provision.Apart) int { return cmp.Compare(a.Ports[0], b.Ports[0]) })
		var joined []provision.Apart
		for _, a := range said {
			a.From, a.To, a.Why = name, plain.Line(a.To), plain.Line(a.Why)
			j := slices.IndexFunc(joined, func(b provision.Apart) bool { return b.To == a.To && b.Why == a.Why && b.Own == a.Own })
			if j < 0 {
				joined = append(joined, a)
			} else {
				joined[j].Ports = append(joined[j].Ports, a.Ports...)
			}
		}
		all = append(all, joined...)
	}
	return all
}

// AtMesh is a host's part of a mesh, and returns when in has ended.
func AtMesh(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, meshLasts)
	defer cancel()
	lines, say := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	var hello meshHello
	if err := lines.Decode(&hello); err != nil {
		return fmt.Errorf("read the ports: %w", err)
	}
	here, closed := hello.listen(ctx)
	defer closed()
	if err := say.Encode(here); err != nil {
		return err
	}
	rest := make(chan error, 1)
	var others []meshOther
	go func() { rest <- lines.Decode(&others) }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-rest:
		if err != nil {
			return fmt.Errorf("read who the others are: %w", err)
		}
	}
	if err := say.Encode(hello.reach(ctx, others)); err != nil {
		return err
	}
	go func() { rest <- lines.Decode(new(any)) }()
	select {
	case <-ctx.Done():
	case <-rest: // the others are done as well, or the caller has gone
	}
	return nil
}

func (m *meshHello) greeting() string { return m.Word + " " + m.Host + "\n" }

// listen says hello to whoever comes to the ports, until closed is called.
func (m *meshHello) listen(ctx context.Context) (here meshHere, closed func()) {
	here.Taken = map[int]string{}
	var all sync.WaitGroup
	var open []net.Listener
	for _, port := range append(slices.Clone(m.Ports), 0) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+strconv.Itoa(port))
		if err != nil {
			here.Taken[port] = why(err)
			continue
		}
		if port == 0 {
			here.Free = l.Addr().(*net.TCPAddr).Port
		}
		open = append(open, l)
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, m.greeting()) // a few bytes, which the kernel takes at once
				c.Close()
			}
		})
	}
	return here, func() {
		for _, l := range open {
			l.Close()
		}
		all.Wait()
	}
}

// reach connects to all ports of the others.
func (m *meshHello) reach(ctx context.Context, others []meshOther) []provision.Apart {
	var mu sync.Mutex
	apart := []provision.Apart{}
	slots := make(chan struct{}, meshAtOnce)
	var all sync.WaitGroup
	for _, o := range others {
		for _, port := range append(slices.Clone(o.Ports), o.Free) {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				expected := meshHello{Word: m.Word, Host: o.Host}
				if err := expected.meet(ctx, net.JoinHostPort(o.At, strconv.Itoa(port))); err != nil {
					mu.Lock()
					defer mu.Unlock()
					apart = append(apart, provision.Apart{To: o.Host, At: o.At, Ports: []int{port}, Own: port == o.Free, Why: why(err)})
				}
			})
		}
	}
	all.Wait()
	return apart
}

// meet connects to an address where the host is expected.
func (m *meshHello) meet(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, meshDials)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	said, err := io.ReadAll(io.LimitReader(c, 1<<10))
	word, host, _ := strings.Cut(strings.TrimSpace(string(said)), " ")
	switch {
	case string(said) == m.greeting():
		return nil
	case word == m.Word:
		return fmt.Errorf("it is %s that answers there", host)
	case ctx.Err() != nil || err != nil:
		return errors.New("it is connected, but nothing comes: something between them takes connections")
	}
	return errors.New("somebody else answers there")
}

// why is an error of the network without the address, which is said beside it.
func why(err error) string {
	var op *net.OpError
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &op) && op.Timeout() {
		return "no answer"
	}
	if errors.As(err, &op) {
		err = op.Err
	}
	text := err.Error()
	return strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:])
}
