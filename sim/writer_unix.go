//go:build unix

package sim

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// patience is how long a client that does not read may hold up all others.
const patience = 100 * time.Millisecond

// writer writes to a socket without the detours of package net.
type writer struct {
	conn net.Conn
	raw  syscall.RawConn
}

func newWriter(c net.Conn) writer {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return writer{c, raw}
		}
	}
	return writer{conn: c}
}

func (w writer) write(b []byte) error {
	n := 0
	if w.raw != nil {
		var err error
		if e := w.raw.Control(func(fd uintptr) { n, err = syscall.Write(int(fd), b) }); e != nil {
			return e
		}
		if n == len(b) {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		n = max(n, 0)
	}
	// The client is slow: the socket is full.
	w.conn.SetWriteDeadline(time.Now().Add(patience))
	defer w.conn.SetWriteDeadline(time.Time{})
	_, err := w.conn.Write(b[n:])
	return err
}
