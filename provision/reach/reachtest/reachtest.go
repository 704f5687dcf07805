// Package reachtest connects tests to test hosts.
package reachtest

import (
	"testing"

	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/testhost"
)

// Block is the host block of a test host.
func Block(h *testhost.Host) *provision.Host {
	return &provision.Host{
		Name: "h200", Address: h.Addr, User: h.User, IdentityFile: h.IdentityFile, Docker: h.Socket, Pos: "lab.hcl:12",
	}
}

// Strict knows a test host's keys and nobody else's.
func Strict(h *testhost.Host) reach.SSH { return reach.SSH{KnownHosts: []string{h.KnownHosts}} }

// Connect dials a test host and closes the connection when the test ends.
func Connect(t *testing.T, h *testhost.Host) *reach.Conn {
	t.Helper()
	return Dial(t, Block(h), Strict(h))
}

// Local is a connection to this machine.
func Local(t *testing.T) *reach.Conn {
	t.Helper()
	return Dial(t, &provision.Host{Name: "here", Address: provision.LocalAddress, Runtime: provision.Process},
		reach.SSH{})
}

// Dial connects to a host and closes the connection when the test ends.
func Dial(t *testing.T, h *provision.Host, ssh reach.SSH) *reach.Conn {
	t.Helper()
	c, err := reach.Dial(t.Context(), h, ssh, nil)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Run runs a command that has to succeed.
func Run(t *testing.T, c *reach.Conn, command string) string {
	t.Helper()
	out, err := c.Run(t.Context(), command, nil)
	if err != nil {
		t.Fatalf("Run(%s): %v", command, err)
	}
	return out
}
