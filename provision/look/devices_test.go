package look

import (
	"encoding/json"
	"testing"

	"hclbench/provision"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

func TestDevicesLack(t *testing.T) {
	nodes := func(n int, err string) (all []DeviceNode) {
		for range n {
			all = append(all, DeviceNode{Path: "/dev/x", Error: err})
		}
		return all
	}
	for _, c := range []struct {
		d      Devices
		vendor provision.Vendor
		want   string
	}{
		{Devices{NVIDIA: nodes(2, "")}, provision.NVIDIA, ""},
		{Devices{NVIDIA: nodes(1, "")}, provision.NVIDIA, "1 of 2 devices /dev/nvidiaN are there"},
		{Devices{NVIDIA: nodes(2, "operation not permitted")}, provision.NVIDIA, "/dev/x cannot be opened: operation not permitted"},
		{Devices{NVIDIA: nodes(2, ""), Tool: "nvidia-smi -L: Failed to initialize NVML: Unknown Error"},
			provision.NVIDIA, "nvidia-smi -L: Failed to initialize NVML: Unknown Error"},
		{Devices{NVIDIA: nodes(2, ""), Listed: []string{"GPU 0"}}, provision.NVIDIA, "nvidia-smi lists 1 of 2 GPUs"},
		{Devices{Listed: []string{"GPU 0", "GPU 1"}}, provision.NVIDIA, ""}, // as in WSL
		{Devices{KFD: nodes(1, ""), DRI: nodes(2, "")}, provision.AMD, ""},
		{Devices{DRI: nodes(2, "")}, provision.AMD, "there is no /dev/kfd"},
		{Devices{KFD: nodes(1, ""), DRI: nodes(1, "")}, provision.AMD, "1 of 2 GPUs are in /dev/dri"},
		{Devices{KFD: nodes(1, "permission denied"), DRI: nodes(2, "")}, provision.AMD, "/dev/x cannot be opened: permission denied"},
	} {
		if got := c.d.Lacks(c.vendor, 2); got != c.want {
			t.Errorf("%+v: %q, want %q", c.d, got, c.want)
		}
	}
}

// TestDevices looks on a host as root, and as a login that may not open them.
func TestDevices(t *testing.T) {
	h := testhost.New(t, testhost.Options{GPU: "8xMI300X", Login: "ada"})
	hcl := testhost.HCL(t)
	root, err := h.Command(hcl, DevicesVerb).Output()
	testhost.OK(t, err)
	testhost.Do(t, h, "install -m 755 "+hcl+" "+h.Home+"/hcl")
	for out, want := range map[string]string{
		string(root): "",
		reachtest.Run(t, reachtest.Connect(t, h), "~/hcl "+DevicesVerb): "/dev/kfd cannot be opened: permission denied",
	} {
		var d Devices
		testhost.OK(t, json.Unmarshal([]byte(out), &d))
		if got := d.Lacks(provision.AMD, 8); got != want {
			t.Errorf("lacks %q, want %q", got, want)
		}
	}
}
