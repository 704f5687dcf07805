//go:build !linux

package fabric

import "net"

// pathMTU is not known: hosts have Linux.
func pathMTU(*net.TCPConn) int { return 0 }
