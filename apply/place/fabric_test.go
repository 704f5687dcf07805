package place

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/provision"
)

// TestWorks: the box of a router needs no RDMA, those of its servers have it alike.
func TestWorks(t *testing.T) {
	var hosts []*provision.Host
	for _, name := range []string{"a", "b", "box"} {
		hosts = append(hosts, &provision.Host{Name: name, Address: name})
	}
	group := func(router *provision.Host) *engines.Engine {
		serve := &engines.Engine{Kind: engines.Sim}
		return &engines.Engine{Kind: engines.GroupKind, Placement: engines.Placement{
			{Role: engines.Serve, Engine: serve, Hosts: hosts[:1]}, {Role: engines.Serve, Engine: serve, Hosts: hosts[1:2]},
			{Role: engines.Route, Engine: &engines.Engine{Kind: engines.Sim, Router: true}, Hosts: []*provision.Host{router}},
		}}
	}
	for name, c := range map[string]struct {
		router *provision.Host
		works  []bool
	}{
		"a box":       {hosts[2], []bool{true, true, false}},
		"on a server": {hosts[0], []bool{true, true}},
	} {
		n, ok := NetworkOf(group(c.router))
		var works []bool
		for _, h := range n.Hosts {
			works = append(works, n.works[h])
		}
		if diff := cmp.Diff(c.works, works); diff != "" || !ok {
			t.Errorf("%s: %v (-want +got):\n%s", name, ok, diff)
		}
	}
}
