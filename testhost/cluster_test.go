package testhost_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// enginePod is a pod with an engine that wants GPUs: its name, and how many.
const enginePod = `---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {role: engine}}
spec:
  restartPolicy: Never
  hostname: %[1]s
  subdomain: ranks
  containers:
  - name: engine
    image: vllm/vllm-openai:v0.7.3
    args: [--model, m, --port, "8000"]
    readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}
    resources: {limits: {nvidia.com/gpu: %[2]d}}
`

// routerPod finds engines by their own names, as ranks find each other, and by that of a service.
const routerPod = `---
apiVersion: v1
kind: Service
metadata: {name: ranks}
spec: {clusterIP: None, selector: {role: engine}}
---
apiVersion: v1
kind: Service
metadata: {name: engines}
spec: {selector: {role: engine}, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: v1
kind: Pod
metadata: {name: router}
spec:
  restartPolicy: Never
  containers:
  - name: router
    image: vllm/vllm-openai:v0.7.3
    command: [vllm-router, --worker-urls, "http://one.ranks:8000", "http://two.ranks:8000", "http://engines", --host, 0.0.0.0, --port, "9000"]
    readinessProbe: {httpGet: {path: /health, port: 9000}, periodSeconds: 1}
`

// kubectl runs the client, which has to succeed, and returns what it printed.
func kubectl(t *testing.T, c *testhost.Cluster, stdin string, args ...string) string {
	t.Helper()
	cmd := c.Kubectl(args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, complaint.String())
	}
	return out.String()
}

// useCluster has pods on both nodes, reaches them in all ways, and returns with them running.
func useCluster(t *testing.T, c *testhost.Cluster) {
	t.Helper()
	const nodes = `{range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion} {.status.allocatable.nvidia\.com/gpu}{"\n"}{end}`
	if got, want := kubectl(t, c, "", "get", "nodes", "-o", "jsonpath="+nodes), "node-1 v1.34.4 8\nnode-2 v1.34.4 8\n"; got != want {
		t.Errorf("nodes are %q, want %q", got, want)
	}
	c.PushEngine(t, "vllm/vllm-openai:v0.7.3", nil)
	kubectl(t, c, fmt.Sprintf(enginePod, "one", 8)+fmt.Sprintf(enginePod, "two", 8)+routerPod, "apply", "-f", "-")
	kubectl(t, c, "", "wait", "--for=condition=Ready", "--timeout=3m", "pod/one", "pod/two", "pod/router")
	// Names and services know of a pod a moment after it is ready: the router has to reach
	// one, two and whichever the service gives, one after the other.
	const path = "/api/v1/namespaces/default/pods/router:9000/proxy/v1/completions"
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for reached, end := 0, time.Now().Add(time.Minute); reached < 3; <-tick.C {
		ask := c.Kubectl("create", "--raw", path, "-f", "-")
		ask.Stdin = strings.NewReader(`{"model":"m","prompt":"a","max_tokens":3}`)
		got, err := ask.CombinedOutput()
		switch {
		case err == nil && strings.Contains(string(got), `"completion_tokens":3`):
			reached++
		case err == nil || time.Now().After(end):
			t.Fatalf("the router answers %v, %s; want 3 tokens", err, got)
		default:
			reached = 0
		}
	}
	if got, want := kubectl(t, c, "", "exec", "two", "--", "sh", "-c", "hostname | sed s/^/in\\ pod\\ /"), "in pod two\n"; got != want {
		t.Errorf("exec says %q, want %q", got, want)
	}
	if got, want := kubectl(t, c, "", "logs", "one"), "http://"; !strings.Contains(got, want) {
		t.Errorf("log is %q, want %s in it", got, want)
	}
}

// engines are the processes of engines on a node.
func engines(t *testing.T, node *testhost.Host) (found []testhost.Process) {
	t.Helper()
	all, err := node.Processes()
	check(t, err)
	return slices.DeleteFunc(all, func(p testhost.Process) bool { return !strings.Contains(p.Command, "api_server") })
}

// hasGPUs fails when an engine was not given all GPUs of its node.
func hasGPUs(t *testing.T, node *testhost.Host) {
	t.Helper()
	running := engines(t, node)
	if len(running) != 1 {
		t.Fatalf("%s has the engines %v, want one", node.Name, running)
	}
	inside := fmt.Sprintf("/proc/%d/", running[0].PID)
	environ, err := os.ReadFile(inside + "environ")
	check(t, err)
	if !bytes.Contains(environ, []byte("NVIDIA_VISIBLE_DEVICES=")) {
		t.Errorf("environment of the engine on %s: %q, want the numbers of its GPUs", node.Name, environ)
	}
	if devices, _ := filepath.Glob(inside + "root/dev/nvidia[0-7]"); len(devices) != 8 {
		t.Errorf("the engine on %s has the devices %v, want 8 GPUs", node.Name, devices)
	}
}

// TestSlowCluster uses a cluster, kills the test process with a pod on it, and sweeps.
func TestSlowCluster(t *testing.T) {
	sweepVictim(t, func() []*testhost.Host {
		c := testhost.NewCluster(t)
		useCluster(t, c)
		for _, node := range c.Nodes {
			hasGPUs(t, node)
		}
		kubectl(t, c, fmt.Sprintf(enginePod, "three", 1), "apply", "-f", "-")
		const scheduled = `{.status.conditions[?(@.type=="PodScheduled")]`
		kubectl(t, c, "", "wait", "--for=jsonpath="+scheduled+".reason}=Unschedulable", "--timeout=3m", "pod/three")
		got := kubectl(t, c, "", "get", "pod", "three", "-o", "jsonpath="+scheduled+".message}")
		if want := "2 Insufficient nvidia.com/gpu"; !strings.Contains(got, want) {
			t.Errorf("a pod too many says %q, want %q in it", got, want)
		}
		kubectl(t, c, "", "delete", "pod", "one", "router", "--timeout=3m")
		kubectl(t, c, "", "wait", "--for=condition=Ready", "--timeout=3m", "pod/three")
		said := kubectl(t, c, "", "exec", "three", "--", "nvidia-smi", "--query-gpu=index,count", "--format=csv,noheader")
		if want := "0, 1\n"; said != want {
			t.Errorf("in a pod with one GPU nvidia-smi says %q, want %q", said, want)
		}
		if said, err := c.Kubectl("exec", "two", "--", "nslookup", "hcl.test").CombinedOutput(); !strings.Contains(string(said), "NXDOMAIN") {
			t.Errorf("a name of nobody is looked up: %v, %s", err, said)
		}
		back := c.Away(t, c.Control, "apiserver")
		if out, err := c.Kubectl("get", "nodes").CombinedOutput(); err == nil {
			t.Errorf("the API server is away, and answers %s", out)
		}
		back()
		kubectl(t, c, "", "delete", "pod", "three", "--timeout=3m")
		if left := append(engines(t, c.Nodes[0]), engines(t, c.Nodes[1])...); len(left) != 1 {
			t.Errorf("of three engines two are deleted, and there are %v", left)
		}
		return append(c.Nodes, c.Control)
	})
}
