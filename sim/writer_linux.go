package sim

import (
	"net"
	"syscall"
	"time"
	"unsafe"
)

// patience is how long a client that does not read may hold up all others.
const patience = 100 * time.Millisecond

// writer writes to a socket without the detours of package net, as long as
// nobody but its user closes the connection.
type writer struct {
	conn net.Conn
	fd   int // -1: it is not a socket
}

func newWriter(c net.Conn) writer {
	w := writer{c, -1}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { w.fd = int(fd) })
		}
	}
	return w
}

func (w writer) close() { w.conn.Close() }

func (w writer) write(b []byte) error {
	if w.fd >= 0 && len(b) > 0 {
		// The socket does not block, and so the scheduler need not know. send is the
		// shorter way to a socket than write.
		n, _, err := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(w.fd), uintptr(unsafe.Pointer(&b[0])),
			uintptr(len(b)), syscall.MSG_NOSIGNAL, 0, 0)
		switch {
		case err == 0 && int(n) == len(b):
			return nil
		case err == 0:
			b = b[n:]
		case err != syscall.EAGAIN && err != syscall.EINTR:
			return err
		}
	}
	// The client is slow: the socket is full.
	w.conn.SetWriteDeadline(time.Now().Add(patience))
	defer w.conn.SetWriteDeadline(time.Time{})
	_, err := w.conn.Write(b)
	return err
}
