package wire

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stamping has the kernel stamp what arrives on a connection of TCP, or returns nil.
func stamping(conn net.Conn) syscall.RawConn {
	socket, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil || refused != nil {
		return nil
	}
	return raw
}

// received reads from a stamped connection. came is when the last of what it read arrived
// here, by the wall clock; zero: the kernel has not said.
func received(raw syscall.RawConn, p []byte) (n int, came time.Time, err error) {
	var oob [64]byte
	var said int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, said, _, _, failed = unix.Recvmsg(int(fd), p, oob[:], 0)
			if failed != unix.EINTR {
				return failed != unix.EAGAIN
			}
		}
	})
	switch {
	case err != nil:
		return 0, came, err
	case failed != nil:
		return 0, came, os.NewSyscallError("recvmsg", failed)
	case n == 0:
		return 0, came, io.EOF
	}
	if said < unix.CmsgLen(0) { // the kernel has only begun to stamp
		return n, came, nil
	}
	head, data, _, err := unix.ParseOneSocketControlMessage(oob[:said])
	if err == nil && head.Level == unix.SOL_SOCKET && head.Type == unix.SCM_TIMESTAMPNS && len(data) >= 16 {
		came = time.Unix(int64(binary.NativeEndian.Uint64(data)), int64(binary.NativeEndian.Uint64(data[8:])))
	}
	return n, came, nil
}
