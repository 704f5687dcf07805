package sim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// headSize bounds the head of a request that the door reads itself.
	headSize = 4 << 10
	// acceptPause is how long no connection is accepted after one could not be,
	// for want of open files as a rule.
	acceptPause = 5 * time.Millisecond
)

// door takes in the connections of a server. What asks for a stream it reads
// itself, which costs a fifth of what net/http does, and the lane answers it. A
// connection on which anything else is asked belongs to net/http from then on:
// the door is that server's listener.
type door struct {
	net.Listener
	server *Server
	lane   *lane
	others chan net.Conn
	closed chan struct{} // no connection is accepted any more
	once   sync.Once
	work   sync.WaitGroup // accept, and one for each guest

	mu     sync.Mutex
	guests map[net.Conn]struct{}
}

func newDoor(s *Server, l net.Listener) *door {
	d := &door{Listener: l, server: s, lane: newLane(), others: make(chan net.Conn), closed: make(chan struct{}),
		guests: map[net.Conn]struct{}{}}
	d.work.Go(d.accept)
	return d
}

func (d *door) accept() {
	for {
		c, err := d.Listener.Accept()
		switch {
		case err == nil:
			d.work.Go(func() { d.welcome(c) })
		case errors.Is(err, net.ErrClosed):
			d.stop()
			return
		default:
			select {
			case <-d.closed:
			case <-time.After(acceptPause):
			}
		}
	}
}

// Accept returns the connections that are for net/http.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.others:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return; streams go on.
func (d *door) Close() error {
	d.stop()
	return d.Listener.Close()
}

func (d *door) stop() { d.once.Do(func() { close(d.closed) }) }

// drain waits until all streams are over, or ctx is; then it closes all
// connections that net/http does not have.
func (d *door) drain(ctx context.Context) {
	d.Close()
	d.lane.drain(ctx)
	d.mu.Lock()
	for c := range d.guests {
		c.Close()
	}
	d.guests = nil
	d.mu.Unlock()
	d.work.Wait()
}

// welcome serves a connection as long as streams are asked for on it.
func (d *door) welcome(c net.Conn) {
	d.mu.Lock()
	if d.guests == nil {
		d.mu.Unlock()
		c.Close()
		return
	}
	d.guests[c] = struct{}{}
	d.mu.Unlock()
	rest := d.serve(c)
	d.mu.Lock()
	delete(d.guests, c)
	d.mu.Unlock()
	if rest != nil {
		select {
		case d.others <- &resumed{c, rest}:
			return
		case <-d.closed:
		}
	}
	c.Close()
}

// serve answers requests for streams, and returns when the connection has come
// to its end, or with what was read of a request that is for net/http.
func (d *door) serve(c net.Conn) (rest []byte) {
	in := bufio.NewReaderSize(c, headSize)
	over := make(chan bool, 1)
	var streaming *flow
	var asked call
	for {
		// It reads on while an answer streams, and so sees its client leave.
		err := d.read(in, &asked)
		if streaming != nil {
			if err != nil {
				d.lane.drop(streaming)
			}
			if whole := <-over; !whole {
				return nil
			}
		}
		if err != nil {
			return nil
		}
		if streaming = d.stream(asked, c, over); streaming == nil {
			b, _ := in.Peek(in.Buffered())
			return append(asked.raw, b...)
		}
	}
}

// call is a request as it was read.
type call struct {
	entry time.Time // its head was there
	plan  plan      // nil: it is not for the lane
	raw   []byte    // what was read of it
	body  []byte    // a part of raw
}

// read reads the next request; of one that is for net/http, nothing.
func (d *door) read(in *bufio.Reader, to *call) error {
	head, err := peekHead(in)
	if err != nil {
		return err
	}
	*to = call{entry: time.Now(), raw: to.raw[:0]}
	path, length, ok := simple(head)
	if to.plan = planOf(d.server.cfg, path); !ok || to.plan == nil || length > maxBody {
		to.plan = nil
		return nil
	}
	size := len(head) + length
	to.raw = slices.Grow(to.raw, size)[:size]
	to.body = to.raw[len(head):]
	_, err = io.ReadFull(in, to.raw)
	return err
}

// peekHead waits for the head of a request, its empty line included; it is empty
// when it is longer than the door reads.
func peekHead(in *bufio.Reader) ([]byte, error) {
	for {
		b, _ := in.Peek(in.Buffered())
		if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 {
			return b[:i+4], nil
		}
		switch _, err := in.Peek(len(b) + 1); err {
		case nil:
		case bufio.ErrBufferFull:
			return nil, nil
		default:
			return nil, err
		}
	}
}

// simple reads the head of a request. ok is false of all that net/http should
// look at: anything but a POST of known length on a connection that stays.
func simple(head []byte) (path string, length int, ok bool) {
	line, fields, _ := bytes.Cut(head, []byte("\r\n"))
	path, ok = strings.CutPrefix(string(line), "POST ")
	path, ok2 := strings.CutSuffix(path, " HTTP/1.1")
	if !ok || !ok2 {
		return "", 0, false
	}
	length = -1
	for len(fields) > 2 {
		line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch strings.ToLower(string(name)) {
		case "content-length":
			n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil || n < 0 || length >= 0 {
				return "", 0, false
			}
			length = n
		case "connection", "transfer-encoding", "expect", "upgrade":
			return "", 0, false
		}
	}
	return path, length, length >= 0
}

// stream hands the answer of a request to the lane; nil when it is not a stream, one that
// goes wrong on purpose, or of an engine that others have a part in.
func (d *door) stream(asked call, c net.Conn, over chan<- bool) *flow {
	s := d.server
	if asked.plan == nil || !s.ready() || s.cfg.HangAfter > 0 || s.cfg.FailEvery > 0 ||
		s.cfg.Place != (Place{}) || saysSplit(asked.body) {
		return nil
	}
	j, no := asked.plan(s, asked.body)
	if no != nil || !j.stream {
		return nil
	}
	s.accepted.Add(1)
	speed, ledger := s.admit()
	if s.remembers(asked.body) {
		speed.TTFT, speed.ITL = 0, 0
	}
	f := d.lane.begin(s, ledger, asked.entry, speed, j, c, over)
	if f == nil {
		ledger.fail()
		s.leave()
	}
	return f
}

// resumed is a connection of which something had been read.
type resumed struct {
	net.Conn
	head []byte
}

func (c *resumed) Read(p []byte) (int, error) {
	if len(c.head) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.head)
	c.head = c.head[n:]
	return n, nil
}
