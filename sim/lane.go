package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	// inOneWrite bounds what of a late stream goes out in one write.
	inOneWrite = 16 << 10
	// inOneRound bounds how many streams are written to before others may run.
	inOneRound = 64
)

// flow is one generation that streams.
type flow struct {
	server *Server
	ledger *ledger
	entry  time.Time // of its handler
	speed  Point
	job    job

	conn      net.Conn
	out       writer
	head      []byte // goes before the first event
	from      int    // the next token
	next      time.Time
	sent, due []time.Duration
}

// lane writes the streams of a server, all of them in one goroutine, each event
// with one write to its socket. It costs a fraction of a goroutine and a timer
// for each, and so the engine is not what limits a measurement.
//
// A connection leaves net/http for the time of its stream, and comes back as if
// it had been accepted anew: the lane is the server's listener.
type lane struct {
	net.Listener
	conns  chan net.Conn
	failed chan error // to accept one
	flows  chan *flow
	closed chan struct{} // no connection is accepted any more
	once   sync.Once
	quit   chan struct{}  // what is still streaming is cut
	work   sync.WaitGroup // the goroutines of the lane
	count  sync.WaitGroup // flows

	mu     sync.Mutex
	active map[*flow]struct{}
	ending bool
}

func newLane(l net.Listener) *lane {
	n := &lane{Listener: l, conns: make(chan net.Conn, 1024), failed: make(chan error), flows: make(chan *flow, 1024), closed: make(chan struct{}), quit: make(chan struct{}), active: map[*flow]struct{}{}}
	n.work.Go(n.accept)
	n.work.Go(n.run)
	return n
}

func (n *lane) accept() {
	for {
		c, err := n.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			n.stop()
			return
		}
		if err == nil {
			n.back(c)
			continue
		}
		select {
		case n.failed <- err: // the server waits and tries again, if it can
		case <-n.closed:
			return
		}
	}
}

// Accept returns connections that are new, and those whose stream is over.
func (n *lane) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case err := <-n.failed:
		return nil, err
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return; streams go on.
func (n *lane) Close() error {
	n.stop()
	return n.Listener.Close()
}

func (n *lane) stop() { n.once.Do(func() { close(n.closed) }) }

func (n *lane) back(c net.Conn) {
	select {
	case n.conns <- c:
	case <-n.closed:
		c.Close()
	}
}

// drain waits until all streams are over, or ctx is; then it cuts the rest. No
// new ones begin.
func (n *lane) drain(ctx context.Context) {
	n.mu.Lock()
	n.ending = true
	n.mu.Unlock()
	over := make(chan struct{})
	go func() {
		n.count.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
	close(n.quit)
	n.Close()
	n.work.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for f := range n.active {
		f.conn.Close()
		n.count.Done()
	}
	clear(n.active)
	<-over
}

// take makes a flow of a request, if its connection can be had. The request's
// body must have been read.
func (n *lane) take(f *flow, w http.ResponseWriter, r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) || r.ProtoMajor != 1 || r.Close {
		return false
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return false
	}
	n.mu.Lock()
	ending := n.ending
	if !ending {
		n.count.Add(1)
	}
	n.mu.Unlock()
	if ending {
		return false
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		n.count.Done()
		return false
	}
	f.conn = conn
	if b, _ := rw.Reader.Peek(rw.Reader.Buffered()); len(b) > 0 {
		f.conn = &resumed{conn, append([]byte(nil), b...)}
	}
	f.out = newWriter(conn)
	chunks := (f.job.tokens + f.server.cfg.TokensPerChunk - 1) / f.server.cfg.TokensPerChunk
	times := make([]time.Duration, 2*chunks)
	f.sent, f.due = times[:0:chunks], times[chunks:chunks]
	f.head = append(f.head, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nDate: "...)
	f.head = append(time.Now().UTC().AppendFormat(f.head, http.TimeFormat), "\r\nTransfer-Encoding: chunked\r\n\r\n"...)
	if f.job.opening != nil {
		f.head = appendChunk(f.head, f.job.opening)
	}
	f.next = f.entry.Add(f.dueAt())
	n.mu.Lock()
	n.active[f] = struct{}{}
	n.mu.Unlock()
	select {
	case n.flows <- f:
	case <-n.quit:
		conn.Close()
	}
	return true
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

// dueAt is when the flow's next event is due, from its handler's entry.
func (f *flow) dueAt() time.Duration {
	to := min(f.from+f.server.cfg.TokensPerChunk, f.job.tokens)
	return f.speed.TTFT + time.Duration(to-1)*f.speed.ITL
}

// run writes what is due.
func (n *lane) run() {
	var queue dueQueue
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var buf []byte
	for {
		// Take over what has come.
		for more := true; more; {
			select {
			case f := <-n.flows:
				queue.push(f)
			case <-n.quit:
				return
			default:
				more = false
			}
		}
		now := time.Now()
		for i := 0; i < inOneRound && len(queue) > 0 && !queue[0].next.After(now); i++ {
			f := queue[0]
			buf = f.events(buf[:0], now)
			if !f.write(buf) {
				queue.pop()
				n.leave(f, false)
				continue
			}
			if f.from < f.job.tokens {
				queue.fix()
				continue
			}
			queue.pop()
			f.server.complete(f.ledger, f.job, f.sent, f.due)
			n.leave(f, f.write(append(appendChunk(buf[:0], f.job.closing), "0\r\n\r\n"...)))
		}
		if len(queue) > 0 && !queue[0].next.After(now) {
			runtime.Gosched() // there is more to do, and others want to run too
			continue
		}
		if len(queue) > 0 {
			timer.Reset(time.Until(queue[0].next))
		} else {
			timer.Stop()
		}
		select {
		case f := <-n.flows:
			queue.push(f)
		case <-timer.C:
		case <-n.quit:
			return
		}
	}
}

// events appends the flow's next event, and those after it that are due too.
func (f *flow) events(b []byte, now time.Time) []byte {
	b = append(b, f.head...)
	f.head = nil
	for {
		to := min(f.from+f.server.cfg.TokensPerChunk, f.job.tokens)
		f.due = append(f.due, f.dueAt())
		// The length goes before what it is the length of.
		at := len(b)
		b = f.job.chunk(append(b, "000\r\n"...), f.from, to, to == f.job.tokens)
		b = lengthAt(b, at)
		f.from = to
		if f.from == f.job.tokens {
			return b
		}
		f.next = f.entry.Add(f.dueAt())
		if f.next.After(now) || len(b) > inOneWrite {
			return b
		}
	}
}

// lengthAt puts the length of the chunk that begins with "000\r\n" at b[at:]
// in its place, and ends the chunk.
func lengthAt(b []byte, at int) []byte {
	const digits = "0123456789abcdef"
	n := len(b) - at - 5
	if n > 0xfff {
		body := append([]byte(nil), b[at+5:]...)
		return appendChunk(b[:at], body)
	}
	b[at], b[at+1], b[at+2] = digits[n>>8], digits[n>>4&15], digits[n&15]
	return append(b, "\r\n"...)
}

func appendChunk(b, data []byte) []byte {
	b = append(strconv.AppendInt(b, int64(len(data)), 16), "\r\n"...)
	return append(append(b, data...), "\r\n"...)
}

// write sends b, and stamps the events that it brought.
func (f *flow) write(b []byte) bool {
	if f.out.write(b) != nil {
		return false
	}
	at := time.Since(f.entry)
	for len(f.sent) < len(f.due) {
		f.sent = append(f.sent, at)
	}
	return true
}

// leave ends a flow; its connection goes back when its stream was whole.
func (n *lane) leave(f *flow, whole bool) {
	n.mu.Lock()
	delete(n.active, f)
	n.mu.Unlock()
	if f.from < f.job.tokens || len(f.sent) == 0 {
		f.ledger.fail()
	}
	f.server.leave()
	if whole {
		n.back(f.conn)
	} else {
		f.conn.Close()
	}
	n.count.Done()
}

// dueQueue is a heap of flows; the one that is due first is the first.
type dueQueue []*flow

func (q *dueQueue) push(f *flow) {
	*q = append(*q, f)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].next.Before(h[up].next) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *dueQueue) pop() {
	h := *q
	last := len(h) - 1
	h[0], h[last] = h[last], nil
	*q = h[:last]
	q.fix()
}

// fix puts the first flow, whose time has changed, where it belongs.
func (q *dueQueue) fix() {
	h := *q
	for i := 0; ; {
		first := i
		for down := 2*i + 1; down <= 2*i+2 && down < len(h); down++ {
			if h[down].next.Before(h[first].next) {
				first = down
			}
		}
		if first == i {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}
