//go:build !linux

package sim

import "net"

type writer struct{ conn net.Conn }

func newWriter(c net.Conn) writer { return writer{c} }

func (w writer) write(b []byte) error {
	_, err := w.conn.Write(b)
	return err
}

func (w writer) close() { w.conn.Close() }
