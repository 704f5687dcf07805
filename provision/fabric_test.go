package provision

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// roce is a host with one device that is up.
func roce(change func(*FabricFacts)) FabricFacts {
	f := FabricFacts{
		Addresses: map[string][]string{"lo": {"127.0.0.1"}, "eno1": {"10.0.0.1", "fe80::1"}}, Verbs: 1,
		Interfaces: []NIC{{Name: "eno1", MTU: 9000}, {Name: "ens1", MTU: 4096}},
		Devices: []RDMADevice{{Name: "mlx5_0", State: "ACTIVE", Layer: "Ethernet", Rate: 400, Firmware: "28.39", PKey: "0xffff", NIC: "ens1",
			GIDs: []GID{{3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2"}}}},
	}
	if change != nil {
		change(&f)
	}
	return f
}

// TestComplete fills in a fabric, and says what keeps a host out of it.
func TestComplete(t *testing.T) {
	three, one := 3, 1
	said := Fabric{Address: "10.0.0.1"}
	cases := map[string]struct {
		block   Host
		facts   FabricFacts
		want    Fabric
		problem string
	}{
		"nothing said": {Host{Address: "10.0.0.1:22"}, roce(nil), Fabric{Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, ""},
		"all said": {Host{Fabric: Fabric{"10.0.0.1", "lo", []string{"mlx5_0"}, &one}}, roce(nil),
			Fabric{"10.0.0.1", "lo", []string{"mlx5_0"}, &one}, ""},
		"no RDMA":           {Host{Fabric: said}, roce(func(f *FabricFacts) { f.Devices = nil }), Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{}}, ""},
		"said to have none": {Host{Fabric: Fabric{Address: "10.0.0.1", RDMA: []string{}}}, roce(nil), Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{}}, ""},
		"a device is down": {Host{Fabric: Fabric{Address: "10.0.0.1", RDMA: []string{"mlx5_0"}}}, roce(func(f *FabricFacts) { f.Devices[0].State = "DOWN" }),
			Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}}, "mlx5_0 is down"},
		"another's device": {Host{Fabric: Fabric{Address: "10.0.0.1", RDMA: []string{"bnxt_re0"}}}, roce(nil),
			Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"bnxt_re0"}}, "no RDMA device bnxt_re0"},
		"limited member": {Host{Fabric: said}, roce(func(f *FabricFacts) { f.Devices[0].PKey = "0x7fff" }),
			Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}}, "limited member"},
		"no verbs": {Host{Fabric: said}, roce(func(f *FabricFacts) { f.Verbs = 0 }),
			Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, "/dev/infiniband"},
		"another's address": {Host{Fabric: Fabric{Address: "10.0.0.9"}}, roce(nil),
			Fabric{Address: "10.0.0.9", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, "none of its network interfaces has the address 10.0.0.9"},
		"no such interface": {Host{Fabric: Fabric{Address: "10.0.0.1", Interface: "eth7"}}, roce(nil),
			Fabric{Address: "10.0.0.1", Interface: "eth7", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, "no network interface eth7"},
		"its name is loopback": {Host{Address: "gpu1"}, roce(func(f *FabricFacts) { f.OwnAddress = "127.0.1.1" }),
			Fabric{RDMA: []string{"mlx5_0"}, GIDIndex: &three}, "its name means 127.0.1.1"},
		"its name is loopback, and Gloo is told the interface": {Host{Fabric: said}, roce(func(f *FabricFacts) { f.OwnAddress = "127.0.1.1" }),
			Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, ""},
		"an address in another form": {Host{Fabric: Fabric{Address: "FD00:0:0::1"}}, roce(func(f *FabricFacts) { f.Addresses["eno1"] = []string{"fd00::1"} }),
			Fabric{Address: "FD00:0:0::1", Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, ""},
		"limited member of another partition": {Host{Fabric: said}, roce(func(f *FabricFacts) { f.Devices[0].PKey = "0x0001" }),
			Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}}, "limited member"},
		"several indexes, as the kernel's names sort": {Host{Fabric: said}, roce(func(f *FabricFacts) {
			f.Devices[0].GIDs = []GID{{11, "0000:0000:0000:0000:0000:ffff:0a00:0109", "RoCE v2"}, f.Devices[0].GIDs[0]}
		}), Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, ""},
		"devices of several indexes, which NCCL finds by itself": {Host{Fabric: said}, roce(func(f *FabricFacts) {
			other := f.Devices[0]
			other.Name, other.GIDs = "mlx5_1", []GID{{5, "0000:0000:0000:0000:0000:ffff:0a00:0101", "RoCE v2"}}
			f.Devices = append(f.Devices, other)
		}), Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0", "mlx5_1"}}, ""},
	}
	for name, c := range cases {
		got, problems := c.facts.Complete(&c.block)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		said := strings.Join(problems, "; ")
		if (c.problem == "") != (said == "") || !strings.Contains(said, c.problem) {
			t.Errorf("%s: problems %q, want %q", name, said, c.problem)
		}
	}
}

// TestCompareFabrics finds the one that is not like the others.
func TestCompareFabrics(t *testing.T) {
	hosts := func(change func(*FabricFacts)) map[string]FabricFacts {
		return map[string]FabricFacts{"a": roce(nil), "b": roce(change), "c": roce(nil)}
	}
	full := map[string]Fabric{"a": {Interface: "eno1"}, "b": {Interface: "eno1"}, "c": {Interface: "eno1"}}
	if got := CompareFabrics(hosts(nil), full); len(got) > 0 {
		t.Errorf("equal hosts differ: %v", got)
	}
	for want, change := range map[string]func(*FabricFacts){
		"RDMA devices that are up: 1 × Ethernet 400 Gb/s on a, c; 1 × Ethernet 200 Gb/s on b": func(f *FabricFacts) { f.Devices[0].Rate = 200 },
		"MTU of the interface: 9000 on a, c; 1500 on b":                                       func(f *FabricFacts) { f.Interfaces[0].MTU = 1500 },
		"MTU of RDMA devices: 1 × 4096 on a, c; 1 × not known on b":                           func(f *FabricFacts) { f.Devices[0].NIC = "" },
		"RDMA devices that are up: 1 × Ethernet 400 Gb/s on a, c; none on b":                  func(f *FabricFacts) { f.Devices = nil },
		"firmware of RDMA devices: 1 × 28.39 on a, c; 1 × 28.33 on b":                         func(f *FabricFacts) { f.Devices[0].Firmware = "28.33" },
		"GID index for IPv4: 1 × 3 on a, c; 1 × none on b":                                    func(f *FabricFacts) { f.Devices[0].GIDs = nil },
		"nvidia_peermem: not loaded on a, c; loaded on b":                                     func(f *FabricFacts) { f.PeerMem = true },
	} {
		if got := CompareFabrics(hosts(change), full); !slices.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// TestCompareClocks says that clocks are apart only where they surely are.
func TestCompareClocks(t *testing.T) {
	ms := func(host string, least, most time.Duration) Clock {
		return Clock{host, least * time.Millisecond, most * time.Millisecond}
	}
	for _, c := range []struct {
		clocks []Clock
		want   string
		good   bool
	}{
		{[]Clock{ms("a", -10, 300), ms("b", -20, 290)}, "they differ by less than 0.32 s", true},
		{[]Clock{ms("a", 59000, 59300), ms("b", 59010, 59200)}, "they differ by less than 0.29 s", true}, // it is the caller's that is wrong
		{[]Clock{ms("a", -10, 900), ms("b", -900, 200)}, "they differ by less than 1.80 s", true},
		{[]Clock{ms("a", -10, 100), ms("b", 1900, 2100), ms("c", -1600, -1500)}, "that of b is at least 3.4 s ahead of that of c", false},
	} {
		if got, good := CompareClocks(c.clocks); got != c.want || good != c.good {
			t.Errorf("%v: %q, %v; want %q, %v", c.clocks, got, good, c.want, c.good)
		}
	}
}
