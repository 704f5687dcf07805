package kube

import (
	"strings"
	"testing"
	"time"

	"hclbench/provision"
	"hclbench/testhost/golden"
)

func moai() *provision.Cluster {
	return &provision.Cluster{
		Name: "moai", Namespace: "bench", Image: "busybox:1.37", RDMAResource: "rdma/ib",
		NodeSelector:     map[string]string{"moai.moreh.io/accelerator.model": "mi300x"},
		Tolerations:      []provision.Toleration{{Key: "amd.com/gpu", Operator: "Exists"}},
		ImagePullSecrets: []string{"registry"}, Annotations: map[string]string{"example.com/team": "speed"},
		HostNetwork: true, RuntimeClass: "nvidia", ServiceAccount: "bench",
		Mounts: []provision.Mount{{Source: "claim/models", Target: "/models"}},
		Pos:    "lab.hcl:3",
	}
}

func mi300x(c *provision.Cluster) *provision.Host {
	return &provision.Host{
		Name: "mi300x", Cluster: c, Runtime: provision.Process, Pos: "lab.hcl:12",
		GPUs: provision.GPUs{Count: 8, Model: "MI300X", Vendor: provision.AMD},
	}
}

func TestManifest(t *testing.T) {
	run := RunOf{Lab: "Größe/7b", Run: "2026-11-22-1530-ab12", Holder: "ada@laptop, hcl apply, pid 4711", Store: "f1e2", Lease: 15 * time.Minute, Deadline: 2 * time.Hour}
	spec := PodSpec{
		Host: mi300x(moai()), Image: "vllm/vllm-openai:v0.7.3", Shm: 64 << 30, CapAdd: []string{"IPC_LOCK"},
		Mounts: []provision.Mount{{Source: "/nvme/models", Target: "/cache", ReadOnly: true}},
		Labels: map[string]string{"hcl.engine": "vllm.7b", "hcl.member": "decode 0 rank 1"},
	}
	both := YAML(FuseManifest(moai(), "bench", run)) + "---\n" + YAML(RootManifest(moai(), "bench", run, "a3c2")) + "---\n" + YAML(Manifest(moai(), "bench", run, spec, 2, "4f1e"))
	golden.Check(t, "run.golden.yaml", both)

	least := &provision.Cluster{Name: "moai", Image: "busybox"}
	spec = PodSpec{Host: &provision.Host{Name: "cpu", Cluster: least}, Image: "busybox", Privileged: true}
	golden.Check(t, "least.golden.yaml", YAML(Manifest(least, "default", RunOf{Lab: "l", Run: "r", Lease: time.Minute, Deadline: time.Minute}, spec, 1, "4f1e")))
}

func TestNames(t *testing.T) {
	long := strings.Repeat("long-", 20)
	for _, tt := range []struct{ name, want string }{
		{"quickstart", "quickstart"},
		{"decode 0 rank 1", "decode-0-rank-1-"},
		{"-x-", "x-"},
		{long, strings.Repeat("long-", 10)},
	} {
		got := labelValue(tt.name)
		if !strings.HasPrefix(got, tt.want) || len(got) > maxLabel || strings.Trim(got, "-_.") != got {
			t.Errorf("labelValue(%q) = %q, want %q and what tells it from others", tt.name, got, tt.want)
		}
	}
	if labelValue("a b") == labelValue("a-b") || labelValue(long) == labelValue(long+"er") {
		t.Error("two texts have one label")
	}
	run := RunOf{Run: long}
	if a, b := run.podName("H200", 12), run.podName("h200", 12); a != b || len(a) > maxName || strings.ToLower(a) != a {
		t.Errorf("podName = %q, %q", a, b)
	}
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]quantity{`"8"`: 8, `8`: 8, `"500m"`: 0.5, `"2k"`: 2000, `"64Gi"`: 64 << 30, `"1e3"`: 1000, `"1E"`: 1e18} {
		var q quantity
		if err := q.UnmarshalJSON([]byte(text)); err != nil || q != want {
			t.Errorf("quantity %s = %v, %v, want %v", text, q, err, want)
		}
	}
	if err := new(quantity).UnmarshalJSON([]byte(`"many"`)); err == nil {
		t.Error("many is a quantity")
	}
}
