package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/testhost"
)

// atPlace is the quickstart with its host at %HOST%, in a cluster or not.
func atPlace(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../examples/quickstart/lab.hcl")
	must(t, err)
	const here = `  address = "local"
  runtime = "process" # without Docker
`
	if strings.Count(string(text), here) != 1 {
		t.Fatalf("the quickstart's host is not\n%s", here)
	}
	return strings.Replace(string(text), here, "%HOST%\n", 1) + "cluster \"moai\" {\n%CLUSTER%\n}\n"
}

// plansObjects: a plan has what a run makes in the cluster, and what the cluster says of it.
func (c *sharedCluster) plansObjects(t *testing.T) {
	p := c.pods(t, atPlace(t))
	p.edit("%HOST%", "cluster = cluster.moai\nlimits = { memory = \"1Gi\" }")
	p.apply(`{apiVersion: v1, kind: LimitRange, metadata: {name: usual}, spec: {limits: [{type: Container, default: {cpu: "2"}}]}}`)
	text := p.tells("plan --verbose", exitDone, "cluster moai (v1.34.4, namespace planned)\n  job hcl-plan-fuse\n  job hcl-plan\n",
		"  pod hcl-plan-here-1 for host here\n", "    the cluster adds containers.resources.limits.cpu: 2\n",
		"Plan: 6 to measure, 0 up to date")
	begin, end := strings.Index(text, "\n---\n"), strings.Index(text, "\n...\n")
	if begin < 0 || end < begin {
		t.Fatalf("no YAML in\n%s", text)
	}
	p.apply(text[begin:end])
	p.tells("destroy", exitDone)
	if left := p.objects(); left != "" {
		t.Errorf("left in the cluster:\n%s", left)
	}
	p.apply(`{apiVersion: v1, kind: LimitRange, metadata: {name: usual}, spec: {limits: [{type: Container, max: {memory: 800Mi}}]}}`)
	p.tells("plan", exitDone, `! refused: pods "hcl-plan-here-1" is forbidden: maximum memory`, "per\n", "Plan: 6 to measure")
	p.tells("check", exitContract, "maximum memory usage per Container is 800Mi, but limit is 1Gi",
		"see the blocks of the cluster and of its hosts")
	p.env = []string{"KUBECONFIG=" + filepath.Join(p.home, "none")}
	p.tells("plan", exitDone, "! nobody asked it whether it takes what follows: read its kubeconfig: there is", "Plan: 6 to measure")
}

// apply makes an object of a text, as kubectl does.
func (p *pods) apply(yaml string) {
	p.Helper()
	cmd := p.cluster.Kubectl("-n", p.namespace, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(yaml)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("kubectl apply: %v: %s\n%s", err, out, yaml)
	}
}

// desk is a pod in which somebody works, with the rights that docs/hosts.md asks for and no others.
const desk = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: hcl}, rules: [
  {apiGroups: [batch], resources: [jobs], verbs: [create, get, list, delete]},
  {apiGroups: [""], resources: [pods], verbs: [create, get, list, delete]},
  {apiGroups: [""], resources: [pods/exec], verbs: [create]},
  {apiGroups: [""], resources: [events], verbs: [list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: hcl},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: hcl}, subjects: [{kind: ServiceAccount, name: default}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: desk}, spec: {containers: [
  {name: c, image: "` + toolsImage + `", command: [sh, -c, "sleep 100000 & wait"]}]}}
`

// worksInside: hcl in a pod needs no kubeconfig: the pod has a token and knows the API server.
func (c *sharedCluster) worksInside(t *testing.T) {
	p := c.pods(t, atPlace(t))
	p.edit("%HOST%", "cluster = cluster.moai")
	p.apply(desk)
	p.kubectl("-n", p.namespace, "wait", "--for=condition=Ready", "--timeout=1m", "pod/desk")
	in := func(command, stdin string) (string, error) {
		args := []string{"-n", p.namespace, "exec", "desk", "--", "sh", "-c", command}
		if stdin != "" {
			args = slices.Insert(args, 3, "-i")
		}
		cmd := c.Kubectl(args...)
		if stdin != "" {
			text, err := os.Open(stdin)
			must(t, err)
			defer text.Close()
			cmd.Stdin = text
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for file, command := range map[string]string{
		p.hcl: "cat >/tmp/hcl && chmod +x /tmp/hcl", filepath.Join(p.lab, "lab.hcl"): "mkdir -p /tmp/lab && cat >/tmp/lab/lab.hcl",
	} {
		if out, err := in(command, file); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	// says is what a command prints, and how it exits. It is read from a file: what a command prints right before its end may be lost on the way.
	says := func(command string) (said string) {
		in("{ "+command+"; echo exit $?; } >/tmp/said 2>&1; mv /tmp/said /tmp/done", "")
		eventually(t, command+" has ended", time.Minute, func() bool {
			said, _ = in("cat /tmp/done", "")
			return strings.Contains(said, "exit ")
		})
		in("rm /tmp/done", "")
		return said
	}
	if said := says("/tmp/hcl check /tmp/lab"); !strings.Contains(said, "all that are needed") || !strings.Contains(said, "exit 0\n") {
		t.Errorf("check in a pod: %s", said)
	}
	if said := says("cd /tmp/lab && /tmp/hcl apply --auto-approve"); !strings.Contains(said, "exit 0\n") && !strings.Contains(said, "exit 3\n") {
		t.Errorf("apply in a pod: %s", said)
	}
	if left := p.objects(); left != "" {
		t.Errorf("left in the cluster:\n%s", left)
	}
}

// modelLab has its model fetched into a claim before its engine starts.
const modelLab = `
lab "model" { lease = "20s" }
cluster "moai" {
  %CLUSTER%
  node_selector = { "kubernetes.io/hostname" = "%NODE%" }
  host_network  = true
  mounts        = ["claim/models:/models"]
}
host "here" {
  cluster = cluster.moai
}
model "m" {
  repo     = "org/model"
  cache    = "/models"
  download = true
}
dataset "random" "d" {
  input_tokens = 64
}
engine "vllm" "e" {
  for_each = toset(["1", "2"])
  host     = host.here
  model    = model.m
  image    = "` + servedImage + `"
  env      = { N = each.key }
}
benchmark "b" {
  matrix {
    engine = [engine.vllm.e["1"], engine.vllm.e["2"]]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 4
  load {
    concurrency   = 1
    output_tokens = 16
  }
}
`

// claim is a volume of a node, and the namespace's claim on it.
const claim = `
{apiVersion: v1, kind: PersistentVolume, metadata: {name: models}, spec: {
  capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: "", hostPath: {path: /var/lib/kubelet/hcl-models}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: models}, spec: {
  volumeName: models, storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
`

// fetchesModel: a model is fetched into a claim once, and is there for the pod that comes next.
func (c *sharedCluster) fetchesModel(t *testing.T) {
	node := c.Nodes[0]
	p := c.pods(t, strings.ReplaceAll(modelLab, "%NODE%", node.Name))
	files := map[string][]byte{"config.json": []byte("{}"), fetchedFile: fetched}
	hub := testhost.NewHub(t, net.JoinHostPort(node.Outside(), "0"), files)
	p.env = append(p.env, "HF_ENDPOINT="+hub.URL)
	p.tells("check", exitContract, "no claim models in namespace model")
	p.apply(claim)
	p.tells("apply", applied)
	if got := hub.Asked(); len(got) != len(files) {
		t.Errorf("two pods asked for %q, want each file once", got)
	}
	if left := p.objects(); left != "" {
		t.Errorf("left in the cluster:\n%s", left)
	}
}

// isAPlace: a lab whose host becomes a pod has the same plan but for the place, and rows that compare.
func (c *sharedCluster) isAPlace(t *testing.T) {
	p := c.pods(t, atPlace(t))
	machine := testhost.New(t, testhost.Options{})
	must(t, os.Mkdir(filepath.Join(p.home, ".ssh"), 0o700))
	p.knows(machine)
	there := reached(machine) + "\nruntime = \"process\""
	p.edit("%HOST%", there)
	host, hostRows := p.planned(), p.measured("host.json")
	p.edit(there, "cluster = cluster.moai")
	p.tells("plan", exitDone, "host here (a pod of cluster moai)", "~ concurrency=1,4,16  stale: ")
	pod, podRows := p.planned(), p.measured("pod.json")
	if diff := cmp.Diff(host, pod); diff != "" {
		t.Errorf("the plan of a pod differs (-host +pod):\n%s", diff)
	}
	if diff := cmp.Diff(hostRows, podRows); diff != "" {
		t.Errorf("the rows of a pod differ (-host +pod):\n%s", diff)
	}
	p.tells("compare host.json pod.json", exitDone, "runtime")
}

// planned is the plan as JSON has it, without names that stand for the place, and what is done.
func (p *pods) planned() any {
	p.Helper()
	var plan map[string]any
	p.json(&plan, "plan", "--json", "--rerun")
	return without(plan, "id", "clusters", "estimate", "why", "status", "stale")
}

// measured applies the lab and keeps the report in a file. It returns what rows have in common.
func (p *pods) measured(file string) any {
	p.Helper()
	p.tells("apply", applied)
	out, _, _ := p.run("report", "--json")
	must(p, os.WriteFile(filepath.Join(p.lab, file), []byte(out), 0o644))
	var kept struct {
		Rows []struct {
			Benchmark  string
			Axes       map[string]any
			Repetition int
			Job        struct{ Workload map[string]any }
			Summary    struct {
				Requests, Completed, Failed int
				InputTokens                 int `json:"input_tokens"`
				OutputTokens                int `json:"output_tokens"`
			}
		}
	}
	must(p, json.Unmarshal([]byte(out), &kept))
	if len(kept.Rows) != 6 {
		p.Fatalf("%d rows:\n%s", len(kept.Rows), out)
	}
	return kept
}

// without is a value as JSON has it, without members of these names.
func without(v any, names ...string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range names {
			delete(v, name)
		}
		for name := range v {
			v[name] = without(v[name], names...)
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], names...)
		}
	}
	return v
}
