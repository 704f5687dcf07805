package fabric

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

// cabled are hosts that reach each other by a network of their own, each with its block.
func cabled(t *testing.T, names ...string) (hosts []*testhost.Host, blocks []*provision.Host) {
	t.Helper()
	for _, name := range names {
		h := testhost.New(t, testhost.Options{Name: name, Namespace: true})
		block := reachtest.Block(h)
		block.Name, block.Runtime = name, provision.Process
		hosts, blocks = append(hosts, h), append(blocks, block)
	}
	at, err := testhost.Cable(hosts...)
	testhost.OK(t, err)
	for i, b := range blocks {
		b.Fabric.Address = at[i]
	}
	return hosts, blocks
}

// TestMesh has three hosts meet, with one thing or another wrong between them.
func TestMesh(t *testing.T) {
	t.Parallel()
	hosts, blocks := cabled(t, "n1", "n2", "n3")
	at := func(i int) string { return blocks[i].Fabric.Address }
	for _, c := range []struct {
		name, on string // a command on n2
		undo     string
		change   func(blocks []*provision.Host, ports [][]int)
		want     []string
	}{
		{name: "all reach all"},
		{name: "a firewall drops a port", on: "iptables -A INPUT -p tcp --dport 20001 -j DROP", undo: "iptables -F", want: []string{
			"n1 does not reach n2 at " + at(1) + " on port 20001: no answer", "n3 does not reach n2 at " + at(1) + " on port 20001: no answer"}},
		{name: "a firewall refuses one host", on: "iptables -A INPUT -p tcp --syn -s " + at(0) + " -j REJECT", undo: "iptables -F", want: []string{
			"n1 does not reach n2 at " + at(1) + " on ports 20000, 20001: connection refused",
			"n1 does not reach n2 at " + at(1) + " on port FREE, which its kernel chose, as it does for engines: connection refused"}},
		{name: "a cable is out", on: "ip link set fabric3 down", undo: "ip link set fabric3 up", want: []string{
			"n2 does not reach n3 at " + at(2) + " on port 20000: ", "n2 does not reach n3 at " + at(2) + " on port FREE, which ",
			"n3 does not reach n2 at " + at(1) + " on ports 20000, 20001: ", "n3 does not reach n2 at " + at(1) + " on port FREE, which "}},
		{name: "long packets are lost", on: "iptables -A INPUT -p tcp -s " + at(0) + " -m length --length 1000:65535 -j DROP", undo: "iptables -F", want: []string{
			"n1 reaches n2 at " + at(1) + ", but long messages do not arrive"}},
		{name: "a way takes shorter packets", on: "ip route change " + at(0) + " dev fabric1 mtu lock 1280", undo: "ip route change " + at(0) + " dev fabric1", want: []string{
			"packets from n2 to n1 may have 1280 bytes, where its fabric1 has 1500"}},
		{name: "the address of another", change: func(blocks []*provision.Host, _ [][]int) { blocks[2].Fabric.Address = at(1) }, want: []string{
			"n1 does not reach n3 at " + at(1) + " on port 20000: it is n2 that answers there",
			"n1 does not reach n3 at " + at(1) + " on port FREE, which ", "n2 does not reach n3 at " + at(1) + " on port 20000: it is n2 that answers there",
			"n2 does not reach n3 at " + at(1) + " on port FREE, which "}},
		{name: "a port is taken", change: func(_ []*provision.Host, ports [][]int) {
			l, err := hosts[1].Listen(net.JoinHostPort("127.0.0.1", "0"))
			testhost.OK(t, err)
			t.Cleanup(func() { l.Close() })
			ports[1][0] = l.Addr().(*net.TCPAddr).Port
		}, want: []string{"n2 cannot listen on port TAKEN: address already in use"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.on != "" {
				testhost.Do(t, hosts[1], c.on)
				defer testhost.Do(t, hosts[1], c.undo)
			}
			ports, here := [][]int{{20000}, {20000, 20001}, {20000}}, []*provision.Host{}
			for _, b := range blocks {
				copied := *b
				here = append(here, &copied)
			}
			if c.change != nil {
				c.change(here, ports)
			}
			var places []Place
			for i, b := range here {
				conn := reachtest.Dial(t, b, reachtest.Strict(hosts[i]))
				conn.UseHCL(testhost.HCL(t))
				places = append(places, Place{Conn: conn, Ports: ports[i]})
			}
			met, err := meet(t.Context(), places)
			testhost.OK(t, err)
			var got []string
			for _, n := range met.Narrow {
				got = append(got, n.String())
			}
			if said, good := compareClocks(met.Clocks); !good || len(met.Clocks) != len(hosts) {
				t.Errorf("clocks of one machine: %s %v", said, met.Clocks)
			}
			for _, a := range met.Apart {
				said := a.String()
				if a.Own {
					said = strings.Replace(said, strconv.Itoa(a.Ports[0]), "FREE", 1)
				}
				if c.name == "a port is taken" {
					said = strings.Replace(said, fmt.Sprint(ports[1][0]), "TAKEN", 1)
				}
				got = append(got, said)
			}
			for i, want := range c.want { // the kernel's words for a cable that is out differ
				if i < len(got) && strings.HasSuffix(want, " ") {
					got[i] = got[i][:min(len(want), len(got[i]))]
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, h := range hosts {
				nothingLeft(t, h)
			}
		})
	}
}

// nothingLeft: no part of a mesh runs on a host any more.
func nothingLeft(t *testing.T, h *testhost.Host) {
	t.Helper()
	left, err := h.Processes()
	testhost.OK(t, err)
	if len(left) > 0 {
		t.Errorf("left on %s: %+v", h.Name, left)
	}
}

// TestMeshEnds: without hcl on a host, and when the caller gives up, there is an error that says where.
func TestMeshEnds(t *testing.T) {
	t.Parallel()
	hosts, blocks := cabled(t, "n1", "n2")
	var places []Place
	for i, b := range blocks {
		conn := reachtest.Dial(t, b, reachtest.Strict(hosts[i]))
		conn.UseHCL(testhost.HCL(t))
		places = append(places, Place{Conn: conn, Ports: []int{20000}})
	}
	places[1].Conn.UseHCL("/nowhere/hcl")
	_, err := meet(t.Context(), places)
	testhost.WantError(t, err, nil, "host n2", "find out whom it reaches", "/nowhere/hcl")

	hosts[1].Stall(true)
	ctx, cancel := context.WithCancel(t.Context())
	places[1].Conn.UseHCL(testhost.HCL(t))
	cancel()
	_, err = meet(ctx, places)
	testhost.WantError(t, err, context.Canceled, "find out whom it reaches")
	hosts[1].Stall(false)
	for _, m := range places {
		testhost.OK(t, m.Conn.Close())
	}
	for _, h := range hosts { // its sshd sees that the connection is gone, also of what it only begins
		var left []testhost.Process
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			var err error
			left, err = h.Processes()
			testhost.OK(t, err)
			if len(left) == 0 {
				break
			}
		}
		if len(left) > 0 {
			t.Errorf("left on %s: %+v", h.Name, left)
		}
	}
}
