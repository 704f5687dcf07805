package reach

import (
	"io"
	"net"
	"strings"
	"testing"

	"hclbench/testhost"
)

// TestBridge connects by a command where sshd forwards nothing.
func TestBridge(t *testing.T) {
	h := testhost.New(t, testhost.Options{SSHD: []string{"DisableForwarding yes"}})
	c := connect(t, h)
	l, err := h.Listen("127.0.0.1:0")
	testhost.OK(t, err)
	const many = 20 // more than sshd allows sessions
	served := make(chan error, many)
	for range many {
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, err = io.Copy(conn, conn)
				conn.Close()
			}
			served <- err
		}()
	}
	if _, err := c.Dial(t.Context(), "tcp", l.Addr().String()); !Refused(err) {
		t.Fatalf("Dial = %v, want it refused", err)
	}
	c.UseHCL(testhost.HCL(t))
	var open []net.Conn
	for range many {
		conn, err := c.Dial(t.Context(), "tcp", l.Addr().String())
		testhost.OK(t, err)
		open = append(open, conn)
	}
	for _, conn := range open {
		go io.WriteString(conn, "there and back\n")
		if line, err := readLine(conn); err != nil || line != "there and back" {
			t.Errorf("read %q, %v", line, err)
		}
		conn.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	l.Close()
	for network, addr := range map[string]string{"tcp": l.Addr().String(), "unix": "/nobody/here"} {
		if _, err := c.Dial(t.Context(), network, addr); !Refused(err) || !strings.Contains(err.Error(), addr) {
			t.Errorf("Dial(%s) = %v, want it refused", addr, err)
		}
	}
}
