package sim

import (
	"context"
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

// flow is one generation that streams. Its times count from the lane's zero.
type flow struct {
	server *Server
	ledger *ledger
	entry  time.Duration
	speed  Point
	job    job

	out       writer
	head      []byte // goes before the first event
	from      int    // the next token
	next      time.Duration
	sent, due []time.Duration // from entry
	over      chan<- bool     // told when it has ended: whether the stream was whole
}

// lane writes the streams of a server, all of them in one goroutine, each event
// with one write to its socket. It costs a fraction of a goroutine and a timer
// for each, and so the engine is not what limits a measurement.
type lane struct {
	zero  time.Time
	work  sync.WaitGroup // its goroutine
	flows sync.WaitGroup
	wake  chan struct{} // there is something new below

	mu     sync.Mutex
	fresh  []*flow
	gone   []*flow // whose clients have left
	ending bool    // no flow begins any more
	quit   bool    // what is still streaming is cut
}

func newLane() *lane {
	n := &lane{zero: time.Now(), wake: make(chan struct{}, 1)}
	n.work.Go(n.run)
	return n
}

// begin makes a flow of an admitted request, or reports that none begins any
// more.
func (n *lane) begin(s *Server, l *ledger, entry time.Time, speed Point, j job, conn net.Conn, over chan<- bool) *flow {
	f := &flow{server: s, ledger: l, entry: entry.Sub(n.zero), speed: speed, job: j, out: newWriter(conn), over: over}
	chunks := (j.tokens + s.cfg.TokensPerChunk - 1) / s.cfg.TokensPerChunk
	times := make([]time.Duration, 2*chunks)
	f.sent, f.due = times[:0:chunks], times[chunks:chunks]
	f.head = append(make([]byte, 0, 256),
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nDate: "...)
	f.head = append(entry.UTC().AppendFormat(f.head, http.TimeFormat), "\r\nTransfer-Encoding: chunked\r\n\r\n"...)
	if j.opening != nil {
		f.head = appendChunk(f.head, j.opening)
	}
	f.next = f.entry + f.dueAt()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ending {
		return nil
	}
	n.flows.Add(1)
	n.fresh = append(n.fresh, f)
	n.rouse()
	return f
}

// drop ends a flow whose client has left.
func (n *lane) drop(f *flow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = append(n.gone, f)
	n.rouse()
}

func (n *lane) rouse() {
	select {
	case n.wake <- struct{}{}:
	default:
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
		n.flows.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
	n.mu.Lock()
	n.quit = true
	n.rouse()
	n.mu.Unlock()
	n.work.Wait()
	<-over
}

// dueAt is when the flow's next event is due, from its entry.
func (f *flow) dueAt() time.Duration {
	to := min(f.from+f.server.cfg.TokensPerChunk, f.job.tokens)
	return f.speed.due(to)
}

// takeChanges takes over what has come and what has gone.
func (n *lane) takeChanges(queue *dueQueue) (quit bool) {
	n.mu.Lock()
	fresh, gone := n.fresh, n.gone
	n.fresh, n.gone = nil, nil
	quit = n.quit
	n.mu.Unlock()
	for _, f := range fresh {
		queue.push(f)
	}
	for _, f := range gone {
		if queue.remove(f) {
			n.leave(f, false)
		}
	}
	return quit
}

// run writes what is due.
func (n *lane) run() {
	var queue dueQueue
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var buf []byte
	for {
		if n.takeChanges(&queue) {
			for _, w := range queue {
				n.leave(w.flow, false)
			}
			return
		}
		now := time.Since(n.zero)
		for i := 0; i < inOneRound && len(queue) > 0 && queue[0].at <= now; i++ {
			f := queue[0].flow
			buf = f.events(buf[:0], now)
			if !n.write(f, buf) {
				queue.pop()
				n.leave(f, false)
				continue
			}
			if f.from < f.job.tokens {
				queue[0].at = f.next
				queue.fix(0)
				continue
			}
			queue.pop()
			f.server.complete(f.ledger, f.job, f.sent, f.due)
			n.leave(f, n.write(f, append(appendChunk(buf[:0], f.job.closing()), "0\r\n\r\n"...)))
		}
		if len(queue) > 0 && queue[0].at <= now {
			runtime.Gosched() // there is more to do, and others want to run too
			continue
		}
		timer.Stop()
		if len(queue) > 0 {
			timer.Reset(queue[0].at - time.Since(n.zero))
		}
		select {
		case <-n.wake:
		case <-timer.C:
		}
	}
}

// events appends the flow's next event, and those after it that are due too.
func (f *flow) events(b []byte, now time.Duration) []byte {
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
		f.next = f.entry + f.dueAt()
		if f.next > now || len(b) > inOneWrite {
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
func (n *lane) write(f *flow, b []byte) bool {
	if f.out.write(b) != nil {
		return false
	}
	at := time.Since(n.zero) - f.entry
	for len(f.sent) < len(f.due) {
		f.sent = append(f.sent, at)
	}
	return true
}

// leave ends a flow.
func (n *lane) leave(f *flow, whole bool) {
	if f.from < f.job.tokens || len(f.sent) == 0 {
		f.ledger.fail()
	}
	f.server.leave()
	if !whole {
		f.out.close()
	}
	f.over <- whole
	n.flows.Done()
}

// dueQueue is a heap of flows; the one that is due first is the first.
type dueQueue []waiting

type waiting struct {
	at   time.Duration
	flow *flow
}

func (q *dueQueue) push(f *flow) {
	*q = append(*q, waiting{f.next, f})
	q.lift(len(*q) - 1)
}

func (q *dueQueue) pop() { q.drop(0) }

func (q *dueQueue) remove(f *flow) bool {
	for i, w := range *q {
		if w.flow == f {
			q.drop(i)
			return true
		}
	}
	return false
}

// drop takes the i-th away.
func (q *dueQueue) drop(i int) {
	h := *q
	last := len(h) - 1
	h[i], h[last] = h[last], waiting{}
	*q = h[:last]
	if i < last {
		q.fix(i)
		q.lift(i)
	}
}

// lift moves the i-th towards the first as far as it belongs there.
func (q *dueQueue) lift(i int) {
	h := *q
	for i > 0 {
		up := (i - 1) / 2
		if h[i].at >= h[up].at {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// fix moves the i-th away from the first as far as it belongs there.
func (q *dueQueue) fix(i int) {
	h := *q
	for {
		first := i
		for down := 2*i + 1; down <= 2*i+2 && down < len(h); down++ {
			if h[down].at < h[first].at {
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
