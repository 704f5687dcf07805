package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/provision"
)

// TestDifferences: the box of a router needs no RDMA, those of its servers have it alike.
func TestDifferences(t *testing.T) {
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
	device := provision.RDMADevice{Name: "mlx5_0", State: "ACTIVE", Layer: "Ethernet", Rate: 400}
	rdma := provision.FabricFacts{Devices: []provision.RDMADevice{device}}
	for name, c := range map[string]struct {
		router *provision.Host
		facts  []provision.FabricFacts
		want   []string
	}{
		"a box": {hosts[2], []provision.FabricFacts{rdma, rdma, {}}, nil},
		"on a server": {hosts[0], []provision.FabricFacts{{}, rdma}, []string{
			"MTU of RDMA devices: 1 × not known on b; none on a",
			"RDMA devices that are up: 1 × Ethernet 400 Gb/s on b; none on a",
			"firmware of RDMA devices: 1 × not known on b; none on a",
			"GID index for IPv4: 1 × none on b; none on a",
		}},
	} {
		f, ok := fabricOf(group(c.router))
		if diff := cmp.Diff(c.want, f.differences(c.facts, nil)); diff != "" || !ok {
			t.Errorf("%s: %v (-want +got):\n%s", name, ok, diff)
		}
	}
}
