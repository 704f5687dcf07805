package fabric

import (
	"net"
	"syscall"
)

// pathMTU is how long a packet may be that goes to the other end of a connection, as the kernel
// has it; 0: not known.
func pathMTU(c *net.TCPConn) (mtu int) {
	level, option := syscall.IPPROTO_IP, syscall.IP_MTU
	if c.LocalAddr().(*net.TCPAddr).IP.To4() == nil {
		level, option = syscall.IPPROTO_IPV6, syscall.IPV6_MTU
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // one that is closed has none
		if mtu, err = syscall.GetsockoptInt(int(fd), level, option); err != nil {
			mtu = 0
		}
	})
	return mtu
}
