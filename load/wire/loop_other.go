//go:build !linux

package wire

import (
	"net"
	"syscall"
	"time"
)

// newLoopClient returns nil: there is no client of our own for this system.
func newLoopClient(server) Client { return nil }

// stamping returns nil: no stamps of arrivals are asked for on this system.
func stamping(net.Conn) syscall.RawConn { return nil }

func received(syscall.RawConn, []byte) (int, time.Time, error) { panic("no connection is stamped") }
