package reach

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/testhost"
)

// TestListeners: a socket of this very process, on an address of either family.
func TestListeners(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", at)
		testhost.OK(t, err)
		defer l.Close()
		want := l.Addr().(*net.TCPAddr).AddrPort()
		found, err := LookAtListeners(int(want.Port()))
		testhost.OK(t, err)
		if len(found) != 1 || found[0].Address != want || !found[0].Mine || len(found[0].Holders) != 1 {
			t.Fatalf("on %s: %+v", want, found)
		}
		h := found[0].Holders[0]
		if h.PID != os.Getpid() || !slices.Contains(h.Lineage, os.Getppid()) || !strings.Contains(h.Command, "reach.test") {
			t.Errorf("on %s: held by %+v", want, h)
		}
		l.Close()
		if found, err := LookAtListeners(int(want.Port())); err != nil || len(found) != 0 {
			t.Errorf("%s is closed: %+v, %v", want, found, err)
		}
	}
}

// TestTaking: of what listens on a port, connections to an address go to the sockets
// of just that address, else to those of all addresses, and of these to IPv4's first.
func TestTaking(t *testing.T) {
	for _, c := range []struct {
		to, listen, want string
	}{
		{"127.0.0.1", "127.0.0.1", "127.0.0.1"},
		{"127.0.0.1", "127.0.0.1 127.0.0.1", "127.0.0.1 127.0.0.1"},
		{"127.0.0.1", "127.0.0.1 0.0.0.0 ::", "127.0.0.1"},
		{"127.0.0.1", "10.0.0.5 0.0.0.0", "0.0.0.0"},
		{"10.0.0.5", "10.0.0.5 0.0.0.0", "10.0.0.5"},
		{"127.0.0.1", "0.0.0.0 ::", "0.0.0.0"},
		{"127.0.0.1", "::", "::"},
		{"127.0.0.1", "::ffff:127.0.0.1 0.0.0.0", "::ffff:127.0.0.1"},
		{"::1", "0.0.0.0 ::", "::"},
		{"::1", "127.0.0.1 0.0.0.0", ""},
		{"127.0.0.1", "10.0.0.5 ::1", ""},
	} {
		var all []provision.Listener
		for _, a := range strings.Fields(c.listen) {
			all = append(all, provision.Listener{Address: netip.AddrPortFrom(netip.MustParseAddr(a), 8000)})
		}
		var got []string
		for _, l := range provision.Taking(all, netip.MustParseAddr(c.to)) {
			got = append(got, l.Address.Addr().String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("to %s of %s: %q, want %q", c.to, c.listen, got, c.want)
		}
	}
}

func TestCommandOf(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"python3", "-m", "sglang.launch_server", "--api-key", "s3cret"}, "python3 -m sglang.launch_server"},
		{[]string{"/usr/bin/vllm", "serve", "m", "--api-key=s3cret"}, "/usr/bin/vllm serve m"},
		{[]string{"curl", "-H", "Authorization: Bearer s3cret"}, "curl"},
		{nil, "kworker"},
		{[]string{strings.Repeat("é", 50)}, strings.Repeat("é", 40) + "…"},
	} {
		got := commandOf(strings.Join(append(slices.Clone(c.words), ""), "\x00"), "kworker")
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.words, diff)
		}
	}
}
