package fabric

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

// sysfs is what the kernel shows of a host with two RDMA devices, of which one is up; the
// forms are those of mlx5 and the kernel's documentation (ABI/stable/sysfs-class-infiniband).
var sysfs = map[string]string{
	"class/net/eno1/mtu": "9000", "class/net/eno1/operstate": "up", "class/net/eno1/carrier_changes": "3",
	"class/infiniband/mlx5_0/fw_ver": "28.39.1002", "class/infiniband/mlx5_0/device/numa_node": "1",
	"class/infiniband/mlx5_0/device/net/eno1/mtu": "9000",
	"class/infiniband/mlx5_0/ports/1/state":       "4: ACTIVE", "class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet",
	"class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)", "class/infiniband/mlx5_0/ports/1/pkeys/0": "0xffff",
	"class/infiniband/mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "class/infiniband/mlx5_0/ports/1/gid_attrs/types/0": "IB/RoCE v1",
	"class/infiniband/mlx5_0/ports/1/gids/2": "0000:0000:0000:0000:0000:ffff:0a00:0001", "class/infiniband/mlx5_0/ports/1/gid_attrs/types/2": "IB/RoCE v1",
	"class/infiniband/mlx5_0/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a00:0001", "class/infiniband/mlx5_0/ports/1/gid_attrs/types/3": "RoCE v2",
	"class/infiniband/mlx5_0/ports/1/gids/4": "0000:0000:0000:0000:0000:0000:0000:0000", "class/infiniband/mlx5_0/ports/1/gid_attrs/types/4": "",
	"class/infiniband/mlx5_1/ports/1/state": "1: DOWN", "class/infiniband/mlx5_1/ports/1/link_layer": "InfiniBand",
	"class/infiniband/mlx5_1/ports/1/rate": "10 Gb/sec (4X SDR)", "class/infiniband/mlx5_1/fw_ver": "28.39.1002",
	"module/nvidia_peermem/refcnt": "0",
}

// bridges is what lspci -vvv says of two bridges, of which one has ACS on.
const bridges = `17:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch\\n\\tCapabilities: [b4] Access Control Services\\n` +
	`\\t\\tACSCap:\\tSrcValid+ TransBlk+\\n\\t\\tACSCtl:\\tSrcValid+ TransBlk- ReqRedir+\\n` +
	`18:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch\\n\\t\\tACSCap:\\tSrcValid+\\n\\t\\tACSCtl:\\tSrcValid- TransBlk-\\n`

// TestFabricScript has the script read such a tree.
func TestFabricScript(t *testing.T) {
	root := t.TempDir()
	for name, text := range sysfs {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lspci := "#!/bin/sh\n[ \"$*\" = -vvv ] && printf '" + bridges + "'\n"
	if err := os.WriteFile(filepath.Join(root, "lspci"), []byte(lspci), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "set -- "+reach.Words([]string{root})+"\n"+script)
	cmd.Env = append(os.Environ(), "PATH="+root+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := parse(reach.ReadAnswers(string(out)))
	if !slices.Contains(got.Addresses["lo"], "127.0.0.1") {
		t.Errorf("this machine's addresses: %v", got.Addresses)
	}
	got.Addresses, got.OwnAddress, got.Verbs = nil, "", 0 // those are of the machine that runs the test
	v1 := "IB/RoCE v1"
	want := Facts{
		PeerMem:    true,
		ACS:        []string{"17:00.0"},
		Interfaces: []NIC{{Name: "eno1", MTU: 9000, State: "up", Changes: 3}},
		Devices: []Device{
			{Name: "mlx5_0", State: "ACTIVE", Layer: "Ethernet", Rate: 400, NUMA: 1, Firmware: "28.39.1002", PKey: "0xffff", NIC: "eno1", GIDs: []GID{
				{Index: 0, GID: "fe80:0000:0000:0000:0a00:27ff:fe00:0001", Type: v1}, {Index: 2, GID: "0000:0000:0000:0000:0000:ffff:0a00:0001", Type: v1},
				{Index: 3, GID: "0000:0000:0000:0000:0000:ffff:0a00:0001", Type: "RoCE v2"}}},
			{Name: "mlx5_1", State: "DOWN", Layer: "InfiniBand", Rate: 10, NUMA: -1, Firmware: "28.39.1002"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestFabric looks at a host over SSH, which is reached at the loopback address and has no RDMA.
func TestFabric(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	block := reachtest.Block(h)
	block.Runtime = provision.Process
	f, err := read(t.Context(), reachtest.Dial(t, block, reachtest.Strict(h)))
	if err != nil {
		t.Fatal(err)
	}
	full, problems := f.Complete(block)
	if full.Interface != "lo" || len(full.RDMA) > 0 || full.RDMA == nil || full.GIDIndex != nil {
		t.Errorf("the fabric of a host at %s is %+v, with %v (%+v)", block.Address, full, problems, f)
	}
	for _, p := range problems { // of the machine that runs the test its name may be one
		if !strings.HasPrefix(p, "its name means 127.") {
			t.Errorf("problem: %s", p)
		}
	}
}
