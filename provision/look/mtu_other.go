//go:build !linux

package look

import "net"

// pathMTU is not known: hosts have Linux.
func pathMTU(*net.TCPConn) int { return 0 }
