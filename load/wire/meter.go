package wire

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hclbench/load"
)

// readLag is how late reads of several connections were.
type readLag struct {
	mu    sync.Mutex
	since *load.Histogram // since it was taken; nil: no read could tell
}

func (l *readLag) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == nil {
		l.since = new(load.Histogram)
	}
	l.since.Add(max(0, d)) // the clock of the stamps may be set back
}

// take returns what was added since it was called before.
func (l *readLag) take() *load.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.since
	l.since = nil
	return h
}

// meter is a connection that counts and stamps what is read from the socket, below
// TLS: a read of TLS brings one record at a time, however many have come.
type meter struct {
	net.Conn
	raw   syscall.RawConn // of a socket whose arrivals the system stamps; nil: it does not
	lag   *readLag
	base  time.Time
	reads atomic.Int64
	at    atomic.Int64 // when the last one returned, from base
	kept  atomic.Bool  // it is about to carry another request
	buf   []byte
	rest  []byte // of buf, not yet handed on
}

// newMeter measures a connection, and adds to lag how late it is read where the system tells.
func newMeter(conn net.Conn, lag *readLag) *meter {
	return &meter{Conn: conn, raw: stamping(conn), lag: lag, base: time.Now(), buf: make([]byte, meterSize)}
}

const meterSize = 20 << 10 // how much of what waits one read takes: more than a record of TLS

// Write looks first whether a kept connection is still there. One that the server has
// ended is refused before anything is written, and net/http takes another for a
// request of which nothing has gone out.
func (m *meter) Write(p []byte) (int, error) {
	if m.kept.CompareAndSwap(true, false) && !quiet(m.Conn) {
		return 0, errEnded
	}
	return m.Conn.Write(p)
}

var errEnded = errors.New("the server has ended a connection that was kept")

// quiet reports whether nothing waits to be read, not even the end: so is a connection
// on which all was answered.
func quiet(conn net.Conn) bool {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	still := false
	err = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		still = errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
	})
	return still || err != nil
}

func (m *meter) Read(p []byte) (int, error) {
	if len(m.rest) == 0 && len(p) > 0 {
		n, err := m.receive()
		if n == 0 {
			return 0, err // what came with bytes comes again without
		}
		m.reads.Add(1)
		m.rest = m.buf[:n]
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// receive reads what waits, and stamps it.
func (m *meter) receive() (int, error) {
	n, came, err := 0, time.Time{}, error(nil)
	if m.raw == nil {
		n, err = m.Conn.Read(m.buf)
	} else {
		n, came, err = received(m.raw, m.buf)
	}
	now := time.Now()
	m.at.Store(int64(now.Sub(m.base)))
	if !came.IsZero() {
		m.lag.add(now.Round(0).Sub(came)) // by the clock of the stamps
	}
	return n, err
}
