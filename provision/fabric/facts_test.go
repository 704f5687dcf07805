package fabric

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

// roce is a host with one device that is up.
func roce(change func(*Facts)) Facts {
	f := Facts{
		Addresses: map[string][]string{"lo": {"127.0.0.1"}, "eno1": {"10.0.0.1", "fe80::1"}}, Verbs: 1,
		Interfaces: []NIC{{Name: "eno1", MTU: 9000}, {Name: "ens1", MTU: 4096}},
		Devices: []Device{{Name: "mlx5_0", State: "ACTIVE", Layer: "Ethernet", Rate: 400, Firmware: "28.39", PKey: "0xffff", NIC: "ens1",
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
	said := provision.Fabric{Address: "10.0.0.1"}
	all := provision.Fabric{Address: "10.0.0.1", Interface: "lo", RDMA: []string{"mlx5_0"}, GIDIndex: &one}
	cases := map[string]struct {
		block   provision.Host
		facts   Facts
		want    provision.Fabric
		problem string
	}{
		"nothing said": {provision.Host{Address: "10.0.0.1:22"}, roce(nil), provision.Fabric{Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, ""},
		"all said": {provision.Host{Fabric: all}, roce(nil),
			all, ""},
		"no RDMA":           {provision.Host{Fabric: said}, roce(func(f *Facts) { f.Devices = nil }), provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{}}, ""},
		"said to have none": {provision.Host{Fabric: provision.Fabric{Address: "10.0.0.1", RDMA: []string{}}}, roce(nil), provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{}}, ""},
		"a device is down": {provision.Host{Fabric: provision.Fabric{Address: "10.0.0.1", RDMA: []string{"mlx5_0"}}}, roce(func(f *Facts) { f.Devices[0].State = "DOWN" }),
			provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}}, "mlx5_0 is down"},
		"another's device": {provision.Host{Fabric: provision.Fabric{Address: "10.0.0.1", RDMA: []string{"bnxt_re0"}}}, roce(nil),
			provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"bnxt_re0"}}, "no RDMA device bnxt_re0"},
		"limited member": {provision.Host{Fabric: said}, roce(func(f *Facts) { f.Devices[0].PKey = "0x7fff" }),
			provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}}, "limited member"},
		"no verbs": {provision.Host{Fabric: said}, roce(func(f *Facts) { f.Verbs = 0 }),
			provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, "/dev/infiniband"},
		"another's address": {provision.Host{Fabric: provision.Fabric{Address: "10.0.0.9"}}, roce(nil),
			provision.Fabric{Address: "10.0.0.9", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, "none of its network interfaces has the address 10.0.0.9"},
		"no such interface": {provision.Host{Fabric: provision.Fabric{Address: "10.0.0.1", Interface: "eth7"}}, roce(nil),
			provision.Fabric{Address: "10.0.0.1", Interface: "eth7", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, "no network interface eth7"},
		"its name is loopback": {provision.Host{Address: "gpu1"}, roce(func(f *Facts) { f.OwnAddress = "127.0.1.1" }),
			provision.Fabric{RDMA: []string{"mlx5_0"}, GIDIndex: &three}, "its name means 127.0.1.1"},
		"its name is loopback, and Gloo is told the interface": {provision.Host{Fabric: said}, roce(func(f *Facts) { f.OwnAddress = "127.0.1.1" }),
			provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, ""},
		"an address in another form": {provision.Host{Fabric: provision.Fabric{Address: "FD00:0:0::1"}}, roce(func(f *Facts) { f.Addresses["eno1"] = []string{"fd00::1"} }),
			provision.Fabric{Address: "FD00:0:0::1", Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, ""},
		"limited member of another partition": {provision.Host{Fabric: said}, roce(func(f *Facts) { f.Devices[0].PKey = "0x0001" }),
			provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}}, "limited member"},
		"several indexes, as the kernel's names sort": {provision.Host{Fabric: said}, roce(func(f *Facts) {
			f.Devices[0].GIDs = []GID{{11, "0000:0000:0000:0000:0000:ffff:0a00:0109", "RoCE v2"}, f.Devices[0].GIDs[0]}
		}), provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0"}, GIDIndex: &three}, ""},
		"devices of several indexes, which NCCL finds by itself": {provision.Host{Fabric: said}, roce(func(f *Facts) {
			other := f.Devices[0]
			other.Name, other.GIDs = "mlx5_1", []GID{{5, "0000:0000:0000:0000:0000:ffff:0a00:0101", "RoCE v2"}}
			f.Devices = append(f.Devices, other)
		}), provision.Fabric{Address: "10.0.0.1", Interface: "eno1", RDMA: []string{"mlx5_0", "mlx5_1"}}, ""},
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

// TestCompare finds the one that is not like the others.
func TestCompare(t *testing.T) {
	hosts := func(change func(*Facts)) map[string]Facts {
		return map[string]Facts{"a": roce(nil), "b": roce(change), "c": roce(nil)}
	}
	full := map[string]provision.Fabric{"a": {Interface: "eno1"}, "b": {Interface: "eno1"}, "c": {Interface: "eno1"}}
	if got := compare(hosts(nil), full); len(got) > 0 {
		t.Errorf("equal hosts differ: %v", got)
	}
	for want, change := range map[string]func(*Facts){
		"RDMA devices that are up: 1 × Ethernet 400 Gb/s on a, c; 1 × Ethernet 200 Gb/s on b": func(f *Facts) { f.Devices[0].Rate = 200 },
		"MTU of the interface: 9000 on a, c; 1500 on b":                                       func(f *Facts) { f.Interfaces[0].MTU = 1500 },
		"MTU of RDMA devices: 1 × 4096 on a, c; 1 × not known on b":                           func(f *Facts) { f.Devices[0].NIC = "" },
		"RDMA devices that are up: 1 × Ethernet 400 Gb/s on a, c; none on b":                  func(f *Facts) { f.Devices = nil },
		"firmware of RDMA devices: 1 × 28.39 on a, c; 1 × 28.33 on b":                         func(f *Facts) { f.Devices[0].Firmware = "28.33" },
		"GID index for IPv4: 1 × 3 on a, c; 1 × none on b":                                    func(f *Facts) { f.Devices[0].GIDs = nil },
		"nvidia_peermem: not loaded on a, c; loaded on b":                                     func(f *Facts) { f.PeerMem = true },
	} {
		if got := compare(hosts(change), full); !slices.Contains(got, want) {
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
		if got, good := compareClocks(c.clocks); got != c.want || good != c.good {
			t.Errorf("%v: %q, %v; want %q, %v", c.clocks, got, good, c.want, c.good)
		}
	}
}
