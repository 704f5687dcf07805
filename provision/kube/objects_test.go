package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"hclbench/provision"
	"hclbench/testhost"
)

// tried is what the API server says of objects before they are made, and kubectl makes of them.
func (b *bench) tried() {
	t, c := b.t, b.open()
	b.apply("{apiVersion: v1, kind: LimitRange, metadata: {name: usual}, spec: {limits: [{type: Container, default: {memory: 1Gi}, defaultRequest: {memory: 64Mi}}]}}")
	h := b.host("a", 8)
	spec := PodSpec{Host: h, Image: image, Shm: 1 << 30}
	run := RunOf{Lab: "l", Run: "plan", Lease: time.Minute, Deadline: 3600e9}
	root, pod := RootManifest(b.cluster, b.name, run, ""), Manifest(b.cluster, b.name, run, spec, 1, "")
	for _, tt := range []struct {
		manifest object
		want     string
	}{
		{root, ""},
		{pod, "annotations.kubernetes.io/limit-ranger: LimitRanger plugin set: memory request for container hcl; memory limit for container hcl\n" +
			"containers.resources.limits.memory: 1Gi\ncontainers.resources.requests.memory: 64Mi"},
	} {
		adds, err := c.Try(t.Context(), tt.manifest)
		testhost.OK(t, err)
		if got := strings.Join(adds, "\n"); got != tt.want {
			t.Errorf("added to %s:\n%s\nwant\n%s", tt.manifest["kind"], got, tt.want)
		}
	}
	b.empty()
	b.apply(YAML(root) + "---\n" + YAML(pod))
	b.kubectl("-n", b.name, "wait", "--for=condition=Ready", "--timeout=1m", "pod", "-l", run.selector())
	found, err := c.Find(t.Context(), "l")
	testhost.OK(t, err)
	if len(found) != 1 {
		t.Fatalf("found = %+v", found)
	}
	testhost.OK(t, found[0].End(t.Context()))
	b.empty()

	b.apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: strict}, spec: {hard: {limits.cpu: 8, requests.cpu: 8, limits.memory: 8Gi}}}")
	b.kubectl("-n", b.name, "wait", "--for=jsonpath={.status.hard.limits\\.cpu}=8", "resourcequota/strict")
	findings, err := c.Check(t.Context(), []PodSpec{spec})
	testhost.OK(t, err)
	b.blocked(findings, "pods", "must specify limits.cpu for: hcl; requests.cpu for: hcl")
	h.Requests, h.Limits = map[string]string{"cpu": "100m"}, map[string]string{"cpu": "2", "memory": "16Gi"}
	findings, err = c.Check(t.Context(), []PodSpec{spec})
	testhost.OK(t, err)
	b.blocked(findings, "quota strict", "limits.memory: 8Gi of 8Gi free")
	h.Limits["memory"] = "4Gi"
	findings, err = c.Check(t.Context(), []PodSpec{spec})
	testhost.OK(t, err)
	b.found(findings, provision.OK, "pods", "1 pod would be taken")
	h.Requests["cpu"] = "1k"
	findings, err = c.Check(t.Context(), []PodSpec{spec})
	testhost.OK(t, err)
	b.blocked(findings, "pods", "Invalid value: \"1k\": must be less than or equal to cpu limit of 2")
}

// namespaces are made and deleted by those who use them.
func (b *bench) namespaces() {
	t := b.t
	b.cluster.Namespace, b.cluster.CreateNamespace = "hcl-made", true
	c := b.open()
	findings, err := c.Check(t.Context(), nil)
	testhost.OK(t, err)
	b.found(findings, provision.OK, "namespace", "hcl-made is not there, and will be made")
	one, two := b.of("r1"), b.of("r2")
	leaves := func(run RunOf, stays bool) {
		t.Helper()
		testhost.OK(t, c.LeaveNamespace(t.Context(), run))
		if there, err := c.HasNamespace(t.Context()); err != nil || there != stays {
			t.Errorf("after %s has left, the namespace is there: %v, %v", run.Run, there, err)
		}
	}
	leaves(one, false)
	testhost.OK(t, c.MakeNamespace(t.Context(), one))
	r := b.begin(c, "r1")
	leaves(one, true) // which is in it
	testhost.OK(t, c.MakeNamespace(t.Context(), two))
	testhost.OK(t, r.End(t.Context()))
	leaves(one, true) // the other has taken it, and has nothing there yet
	b.kubectl("-n", "hcl-made", "create", "role", "theirs", "--verb=get", "--resource=pods")
	leaves(two, true)
	b.kubectl("-n", "hcl-made", "delete", "role", "theirs")
	leaves(one, false)
	if out, err := b.Kubectl("get", "namespace", "hcl-made").CombinedOutput(); err == nil {
		t.Errorf("a namespace that is deleted is there: %s", out)
	}
	b.cluster.Namespace = b.name // which somebody else has made
	c = b.open()
	testhost.OK(t, c.MakeNamespace(t.Context(), one))
	leaves(one, true)
	b.kubectl("get", "namespace", b.name)
}

// inTheWay is a proxy that lets no WebSocket through: commands run by SPDY.
func (b *bench) inTheWay() {
	t, c := b.t, b.open()
	direct := rest.CopyConfig(c.config)
	direct.NextProtos = []string{"http/1.1"} // which alone can be upgraded
	way, err := rest.TransportFor(direct)
	testhost.OK(t, err)
	to := httputil.NewSingleHostReverseProxy(c.base)
	to.Transport = way
	refused := make(chan struct{}, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			refused <- struct{}{}
			http.Error(w, "no such protocol here", http.StatusBadRequest)
			return
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	b.cluster.Kubeconfig = filepath.Join(t.TempDir(), "config")
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "proxy",
		"contexts": []any{object{"name": "proxy", "context": object{"cluster": "proxy"}}},
		"clusters": []any{object{"name": "proxy", "cluster": object{"server": proxy.URL}}},
	})
	testhost.OK(t, err)
	testhost.OK(t, os.WriteFile(b.cluster.Kubeconfig, text, 0o600))
	c = b.open()
	conn := b.connect(b.begin(c, "r1").Self())
	for range 2 {
		if got, err := conn.Run(t.Context(), "cat; echo there", strings.NewReader("said ")); err != nil || got != "said there\n" {
			t.Errorf("by SPDY = %q, %v", got, err)
		}
	}
	if len(refused) == 0 {
		t.Error("nothing was refused")
	}
}

// fabric is what joins pods: devices that the cluster has a name for, and the node's own network.
func (b *bench) fabric() {
	t := b.t
	node := b.Nodes[0].Name
	b.kubectl("patch", "node", node, "--subresource=status", "-p", `{"status": {"capacity": {"rdma/ib": "1"}}}`)
	b.kubectl("wait", `--for=jsonpath={.status.allocatable.rdma/ib}=1`, "node/"+node)
	b.cluster.RDMAResource, b.cluster.HostNetwork = "rdma/ib", true
	c := b.open()
	r := b.begin(c, "r1")
	h := b.host("a", 0)
	h.Limits = map[string]string{"rdma/ib": "1"}
	p, err := r.Pod(t.Context(), PodSpec{Host: h, Image: image}, b.say)
	testhost.OK(t, err)
	address := b.kubectl("get", "node", node, "-o", "jsonpath={.status.addresses[0].address}")
	if p.Node() != node || p.IP() != address {
		t.Errorf("pod on %s at %s, want %s at its own %s", p.Node(), p.IP(), node, address)
	}
	findings, err := c.Check(t.Context(), []PodSpec{{Host: h, Image: image}})
	testhost.OK(t, err)
	b.found(findings, provision.Warning, "gpus", "no node has all that host a (lab.hcl:12) asks for")
}

// TestRoom: pods have nodes as the scheduler would give them, all at the same time.
func TestRoom(t *testing.T) {
	read := func(text string, into any) {
		t.Helper()
		testhost.OK(t, json.Unmarshal([]byte(text), into))
	}
	var nodes []node
	read(`[
		{"metadata": {"name": "a"}, "status": {"allocatable": {"pods": 9, "g": "8", "memory": "1Ti"}, "conditions": [{"type": "Ready", "status": "True"}]}},
		{"metadata": {"name": "b"}, "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
		 "status": {"allocatable": {"pods": 9, "g": "8", "memory": "1Ti"}, "conditions": [{"type": "Ready", "status": "True"}]}},
		{"metadata": {"name": "c"}, "spec": {"unschedulable": true}}]`, &nodes)
	var there []pod
	read(`[{"spec": {"nodeName": "a", "containers": [{"resources": {"limits": {"g": "2"}}}]}}, {"spec": {"nodeName": "gone"}}]`, &there)
	want := func(text string) (p podNeeds) {
		t.Helper()
		read(text, &p)
		return p
	}
	const six = `"containers": [{"resources": {"limits": {"g": "6"}, "requests": {"g": "6", "memory": "600Gi"}}}]}`
	plainly, tolerant := want(`{`+six), want(`{"tolerations": [{"key": "gpu", "operator": "Exists"}], `+six)
	r := roomOf(nodes, there)
	if got, want := r.says(plainly, "g"), "g free on 1 node: 6; others are 1 cordoned, 1 tainted gpu"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
	if !r.take(tolerant, "g") || !r.take(plainly, "g") || r.take(plainly, "g") || r.take(tolerant, "g") {
		t.Errorf("left %v", r.free)
	}
	if got, want := r.says(tolerant, "g"), "g free on 2 nodes: 0, 2; others are 1 cordoned"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}
