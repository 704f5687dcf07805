package fabric

import (
	"bufio"
	"context"
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
)

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
	here.Now, here.Taken = time.Now(), map[int]string{}
	var all sync.WaitGroup
	var open []net.Listener
	for _, port := range append(slices.Clone(m.Ports), 0) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+strconv.Itoa(port))
		if err != nil {
			here.Taken[port] = withoutAddress(err)
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
				all.Go(func() { m.answer(c) })
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

// answer greets who has come, and says how much it was told.
func (m *meshHello) answer(c net.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(meshDials))
	io.WriteString(c, m.greeting())
	if n, err := io.Copy(io.Discard, io.LimitReader(c, meshLong)); err == nil {
		fmt.Fprintln(c, n)
	}
}

// reach connects to all ports of the others.
func (m *meshHello) reach(ctx context.Context, others []meshOther) meshFound {
	var mu sync.Mutex
	found := meshFound{[]Apart{}, []Narrow{}}
	slots := make(chan struct{}, meshAtOnce)
	var all sync.WaitGroup
	for _, o := range others {
		for _, port := range append(slices.Clone(o.Ports), o.Free) {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				expected := meshHello{Word: m.Word, Host: o.Host}
				own := port == o.Free
				narrow, err := expected.meet(ctx, net.JoinHostPort(o.At, strconv.Itoa(port)), own)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					found.Apart = append(found.Apart, Apart{
						To: o.Host, At: o.At, Ports: []int{port}, Own: own, Long: errors.Is(err, errLong), Why: withoutAddress(err),
					})
				}
				if narrow != nil {
					found.Narrow = append(found.Narrow, *narrow)
				}
			})
		}
	}
	all.Wait()
	return found
}

// meshLong is a message that no packet holds, in bytes.
const meshLong = 64 << 10

var errLong = errors.New("long messages do not arrive")

// meet connects to an address where the host is expected, and sends it a long message if it is to be.
func (m *meshHello) meet(ctx context.Context, address string, long bool) (*Narrow, error) {
	ctx, cancel := context.WithTimeout(ctx, meshDials)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	answers := bufio.NewReader(io.LimitReader(c, 1<<10))
	said, err := answers.ReadString('\n')
	word, host, _ := strings.Cut(strings.TrimSpace(said), " ")
	switch {
	case said == m.greeting() && long:
		return m.sendLong(c.(*net.TCPConn), answers)
	case said == m.greeting():
		return nil, nil
	case word == m.Word:
		return nil, fmt.Errorf("it is %s that answers there", host)
	case ctx.Err() != nil || err != nil && err != io.EOF:
		return nil, errors.New("it is connected, but nothing comes: something between them takes connections")
	}
	return nil, errors.New("somebody else answers there")
}

// sendLong sends a long message, and finds out how long its packets may be. The kernel forbids
// routers to cut them.
func (m *meshHello) sendLong(c *net.TCPConn, answers *bufio.Reader) (*Narrow, error) {
	_, err := c.Write(make([]byte, meshLong))
	if err == nil {
		err = c.CloseWrite()
	}
	said := ""
	if err == nil {
		said, err = answers.ReadString('\n')
	}
	if err != nil || strings.TrimSpace(said) != strconv.Itoa(meshLong) {
		return nil, errLong
	}
	n := Narrow{To: m.Host, Path: pathMTU(c)}
	n.Interface, n.MTU = interfaceOf(c.LocalAddr())
	if n.Path == 0 || n.Path >= n.MTU {
		return nil, nil
	}
	return &n, nil
}

// interfaceOf is the network interface that has an address, and the longest packet that it sends.
func interfaceOf(at net.Addr) (name string, mtu int) {
	all, err := net.Interfaces()
	if err != nil {
		return "", 0
	}
	for _, n := range all {
		has, _ := n.Addrs() // one that has gone meanwhile has none
		if slices.ContainsFunc(has, func(a net.Addr) bool {
			prefix, ok := a.(*net.IPNet)
			return ok && prefix.IP.Equal(at.(*net.TCPAddr).IP)
		}) {
			return n.Name, n.MTU
		}
	}
	return "", 0
}

// withoutAddress is an error of the network without the address, which is said beside it.
func withoutAddress(err error) string {
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
