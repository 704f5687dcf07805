package wire

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hclbench/load"
)

const (
	// readSize is what one read brings at most. One buffer serves all connections of a loop.
	readSize  = 64 << 10
	batchSize = 512 // how many connections one look at the kernel may name
	// dialsAtOnce bounds how many connections are set up at a time beforehand:
	// less than any server's queue of connections that it has not accepted.
	dialsAtOnce = 64
	// loopCores is how many cores are worth a loop of their own. One loop reads
	// more than a hundred thousand events a second; the other cores make prompts.
	loopCores = 8
)

// loops is the client for plain HTTP on Linux. Whoever sends a request writes it to the socket
// itself; what comes back is read by an event loop, which stamps the read before anything else is
// done, takes the answer apart and wakes the sender when it is over. So a chunk costs one read and
// no change of goroutine, and a connection that waits costs no buffer.
type loops struct {
	server
	head []byte // of every request, to its length

	start sync.Once
	err   error // why the loops could not start
	all   []*loop
	done  sync.WaitGroup

	mu   sync.Mutex
	next int     // loop for the next connection
	idle []*link // the one used last at the end
}

func newLoopClient(s server) Client {
	c := &loops{server: s}
	target := *s.base
	target.Scheme, target.Host = "", ""
	path := (server{base: &target, path: s.path}).url()
	c.head = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: hcl\r\n"+
		"Content-Type: application/json\r\nAccept: text/event-stream\r\n", path, s.base.Host)
	for _, h := range s.headers {
		c.head = fmt.Appendf(c.head, "%s: %s\r\n", h[0], h[1])
	}
	c.head = append(c.head, "Content-Length: "...)
	return c
}

// begin starts the loops, at the first use of the client.
func (c *loops) begin() error {
	c.start.Do(func() {
		for range 1 + (runtime.GOMAXPROCS(0)-1)/loopCores {
			l, err := newLoop(c.pause)
			if err != nil {
				c.err = err
				return
			}
			c.all = append(c.all, l)
			c.done.Go(l.run)
		}
	})
	return c.err
}

func (c *loops) Close() {
	c.start.Do(func() {}) // it has been, or never will be
	for _, l := range c.all {
		l.stop()
	}
	c.done.Wait()
}

func (c *loops) ReadLag() *load.Histogram {
	if c.pause > 0 {
		return nil
	}
	all := new(load.Histogram)
	for _, l := range c.all {
		l.mu.Lock()
		all.Merge(&l.lag)
		l.lag = load.Histogram{}
		l.mu.Unlock()
	}
	return all
}

// Open makes connections, some at a time, until n are free.
func (c *loops) Open(ctx context.Context, n int) {
	c.mu.Lock()
	c.idle = slices.DeleteFunc(c.idle, func(k *link) bool { return !k.alive() })
	n -= len(c.idle)
	c.mu.Unlock()
	var dialers sync.WaitGroup
	defer dialers.Wait()
	var begun atomic.Int64
	for range min(n, dialsAtOnce) {
		dialers.Go(func() {
			for begun.Add(1) <= int64(n) {
				k, err := c.dial(ctx)
				if err != nil {
					return // the request that needs it will say so
				}
				c.put(k)
			}
		})
	}
}

func (c *loops) dial(ctx context.Context) (*link, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	l := c.all[c.next%len(c.all)]
	c.next++
	c.mu.Unlock()
	tcp, err := c.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	// From here on the socket is ours alone: the runtime's poller lets go of it.
	defer tcp.Close()
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	e := raw.Control(func(sys uintptr) { fd, err = unix.FcntlInt(sys, unix.F_DUPFD_CLOEXEC, 0) })
	if err = cmp.Or(e, err); err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return l.add(fd, tcp.RemoteAddr().(*net.TCPAddr))
}

// take returns a connection that is free and alive, or nil.
func (c *loops) take() *link {
	for {
		c.mu.Lock()
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			return nil
		}
		k := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if k.alive() {
			return k
		}
	}
}

func (c *loops) put(k *link) {
	k.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, k)
}

func (c *loops) Send(ctx context.Context, body net.Buffers, x Exchange) {
	x.Record.Sent = x.Since()
	k := c.take()
	reused := k != nil
	if !reused {
		patient, cancel := c.patience(ctx)
		defer cancel()
		var err error
		if k, err = c.dial(patient); err != nil {
			class, text := c.classify(context.Cause(patient), err)
			if class == load.ClassTruncated {
				class = load.ClassConnect
			}
			x.Record.Fail(x.Since(), class, text)
			return
		}
	}
	k.post(c.request(body), x, reused)
	if c.wait(ctx, k, x) {
		c.put(k)
	}
}

// request puts the head before a body. The first piece of it is copied, as it is the whole of
// most; those that others have too are not.
func (c *loops) request(body net.Buffers) net.Buffers {
	var first []byte
	if len(body) > 0 {
		first = body[0]
	}
	b := make([]byte, 0, len(c.head)+len(first)+24)
	b = strconv.AppendInt(append(b, c.head...), int64(length(body)), 10)
	b = append(append(b, "\r\n\r\n"...), first...)
	return append(net.Buffers{b}, body[min(1, len(body)):]...)
}

// wait waits for the end of an answer and reports whether the connection can be
// used again. It gives up an answer that is silent or takes too long.
func (c *loops) wait(ctx context.Context, k *link, x Exchange) bool {
	timer := k.timer
	timer.Reset(min(c.stall, c.timeout))
	defer timer.Stop()
	draining := false
	for {
		select {
		case state := <-k.ended:
			if state != answered {
				return state == free
			}
			draining = true
			timer.Reset(drainTimeout)
		case <-ctx.Done():
			return k.giveUp(context.Cause(ctx), c.server)
		case <-timer.C:
			left, why := c.timeLeft(x, &k.moved)
			switch {
			case draining:
				return k.giveUp(errDrained, c.server)
			case left > 0:
				timer.Reset(left)
			default:
				return k.giveUp(why, c.server)
			}
		}
	}
}

// loop reads the connections that it has been given.
//
// The Go runtime waits for the loop's epoll instance as it waits for any file.
// So no thread is blocked, timers and senders run while the loop has nothing to
// do, and one core is enough for all of them. A loop that need not hurry keeps its
// epoll instance from the runtime, which would be woken for each event, and looks
// at it every so often.
type loop struct {
	poll  *os.File // the epoll instance
	pause time.Duration
	raw   syscall.RawConn
	look  func(fd uintptr) bool
	n     int // what look found
	looks int // since the last wait began
	ready [batchSize]unix.EpollEvent
	batch []*link         // of ready
	late  []time.Duration // of the batch's reads
	buf   []byte

	mu    sync.Mutex
	links []*link // by file descriptor
	lag   load.Histogram
}

func newLoop(pause time.Duration) (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create", err)
	}
	// Only what does not block is handed to the runtime's poller.
	if err := unix.SetNonblock(fd, pause == 0); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &loop{poll: os.NewFile(uintptr(fd), "epoll"), pause: pause, buf: make([]byte, readSize)}
	if l.raw, err = l.poll.SyscallConn(); err != nil {
		l.poll.Close()
		return nil, err
	}
	l.look = func(fd uintptr) bool {
		l.looks++
		l.n, _ = unix.EpollWait(int(fd), l.ready[:], 0)
		return l.n > 0
	}
	return l, nil
}

func (l *loop) stop() { l.poll.Close() }

func (l *loop) add(fd int, remote *net.TCPAddr) (*link, error) {
	k := &link{fd: fd, loop: l, remote: remote, ended: make(chan byte, 2), timer: time.NewTimer(time.Hour)}
	k.timer.Stop()
	l.mu.Lock()
	for len(l.links) <= fd {
		l.links = append(l.links, nil)
	}
	l.links[fd] = k
	l.mu.Unlock()
	// Once for all: an edge is told of only when something came, or when there is
	// room again after there was none.
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(fd)}
	var err error
	e := l.raw.Control(func(poll uintptr) { err = unix.EpollCtl(int(poll), unix.EPOLL_CTL_ADD, fd, &ev) })
	if err = cmp.Or(e, err); err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.drop()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return k, nil
}

// forget is called before a connection's descriptor is given back.
func (l *loop) forget(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.fd < len(l.links) && l.links[k.fd] == k {
		l.links[k.fd] = nil
	}
}

// wait waits until something has happened on a connection; false: the loop is closed.
func (l *loop) wait() bool {
	l.looks = 0
	if l.pause == 0 {
		return l.raw.Read(l.look) == nil
	}
	for {
		if l.n < batchSize { // else there is more
			time.Sleep(l.pause)
		}
		if l.raw.Control(func(fd uintptr) { l.look(fd) }) != nil {
			return false
		}
		if l.n > 0 {
			return true
		}
	}
}

func (l *loop) run() {
	before := time.Now()
	for l.wait() {
		// What was there when the loop looked again had come while it was busy, at
		// worst just after it had looked before.
		now := time.Now()
		since := now
		if l.looks == 1 {
			since = before
		}
		before = now
		l.mu.Lock()
		l.batch = l.batch[:0]
		for i := range l.n {
			l.batch = append(l.batch, l.links[l.ready[i].Fd])
		}
		l.mu.Unlock()
		over := false
		l.late = l.late[:0]
		for i, k := range l.batch {
			if k == nil {
				continue
			}
			at, ended := k.read(l.buf, l.ready[i].Events)
			over = over || ended
			if !at.IsZero() {
				l.late = append(l.late, at.Sub(since))
			}
		}
		l.mu.Lock()
		for _, d := range l.late {
			l.lag.Add(d)
		}
		l.mu.Unlock()
		if over {
			runtime.Gosched() // who waits for an answer's end has another request to send
		}
	}
	l.mu.Lock()
	links := l.links
	l.links = nil
	l.mu.Unlock()
	for _, k := range links {
		if k != nil {
			k.mu.Lock()
			k.drop()
			k.mu.Unlock()
		}
	}
}
