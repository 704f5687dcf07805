package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// podLab is two engines with two cells each, on a pod without GPUs.
const podLab = `
lab "fault" { lease = "10m" }
cluster "moai" {
  %CLUSTER%
}
host "n" { cluster = cluster.moai }
dataset "random" "d" { input_tokens = 8 }
engine "sim" "a" {
  host  = host.n
  flags = { table = "1:5ms/20ms" }
}
engine "sim" "b" {
  host  = host.n
  flags = { ttft = "5ms", itl = "5ms" }
}
benchmark "b" {
  matrix {
    engine      = [engine.sim.a, engine.sim.b]
    concurrency = [2, 4]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 10 * matrix.concurrency
  load {
    concurrency   = matrix.concurrency
    output_tokens = 20
  }
}`

// podCell is in mid-cell there.
var podCell = moment{kind: midCell.kind, nth: 1, stays: [2]string{`"1:5ms/`, `"2:5ms/1s,4:5ms/`}}

// podFault is something that goes wrong with a lab on a cluster.
type podFault struct {
	name   string
	edit   []string    // of the lab
	before func(*pods) // what is wrong before apply; nil: nothing
	strike func(*pods) // in mid-cell; nil: it goes wrong by itself
	undo   func(*pods) // nil: there is nothing to undo
	code   int         // how apply exits; -1: it is killed
	says   []string    // what its user reads
	again  bool        // the next apply measures the rest
}

var podFaults = []podFault{
	{name: "no such context", edit: []string{`image =`, "context = \"lab\"\nimage ="}, code: exitFailed,
		says: []string{"cluster moai (lab.hcl:3): read its kubeconfig: ", `there is no context "lab" in `, ": it has test"}},
	{name: "expired credentials", before: func(p *pods) { p.login("expired") }, code: exitFailed,
		says: []string{"cluster moai (lab.hcl:3): it does not let in user ", "the credentials may have expired: log in anew"}},
	{name: "no right to make pods", before: (*pods).mayNothing, code: exitFailed,
		says: []string{`cannot list resource "jobs"`, "ask who runs the cluster for that right", "auth can-i --list -n no-right"}},
	{name: "quota too small", before: func(p *pods) { p.here("create", "quota", "q", "--hard=pods=1") }, code: exitContract,
		says: []string{"quota q: pods: 1 of 1 free, where at least 2 is wanted", "describe quota q"}},
	{name: "no such image", edit: []string{toolsImage, "hcl.test/nobody:1"}, code: exitFailed,
		says: []string{"image hcl.test/nobody:1 cannot be pulled", "is its name right?"}},
	{name: "no node", edit: []string{`image =`, "node_selector = { nobody = \"here\" }\nimage ="}, code: exitFailed,
		says: []string{"no node has room for it", "node_selector and tolerations of the block"}},
	{name: "pod evicted in mid-cell", strike: (*pods).evict, code: exitCells, again: true,
		says: []string{"measured by the next apply: host n (lab.hcl:7): pod ", "somebody evicted it, as `kubectl drain` does"}},
	{name: "pod deleted in mid-cell", strike: func(p *pods) { p.here("delete", "pod", p.pod(), "--wait=false") },
		code: exitCells, again: true, says: []string{"is lost: somebody deletes it"}},
	{name: "client deleted in mid-cell", edit: []string{`host "n" {`, "host \"c\" {\n  for_each = toset([\"1\", \"2\"])\n  cluster = " +
		"cluster.moai\n}\nhost \"n\" {", "{ ttft", `{ host = "0.0.0.0", ttft`, "{ table", `{ host = "0.0.0.0", table`, "load {", "load {\n" +
		`from = [host.c["1"], host.c["2"]]`}, strike: func(p *pods) { p.here("delete", "pod", "-l", "hcl.host=c-2", "--wait=false") },
		code: exitCells, again: true, says: []string{"its load is no longer sent; the next apply measures it: host c-2 (lab.hcl:",
			"is lost: somebody deletes it"}},
	{name: "engine killed in mid-cell", strike: (*pods).killEngine, code: exitCells, again: true,
		says: []string{"the engine is lost: exited with code 137"}},
	{name: "out of memory in mid-cell", edit: outOfMemory, code: exitCells, // the runtime does not always hear of it
		says: []string{"out of memory: see limits of the host's block"}},
	{name: "root deleted in mid-cell", strike: func(p *pods) { p.here("delete", "job", "--all", "--wait=false") },
		code: exitFailed, again: true, says: []string{"cluster moai (lab.hcl:3): pod ", "is lost: somebody deletes it"}},
	{name: "namespace deleted in mid-cell", strike: func(p *pods) { p.kubectl("delete", "namespace", p.namespace, "--wait=false") },
		code: exitFailed, says: []string{"is lost: somebody deletes it"}},
	{name: "interrupted in mid-cell", strike: func(p *pods) { must(p, p.cmd.Process.Signal(os.Interrupt)) },
		code: exitInterrupted, says: []string{"interrupted; what ran is taken down, and the next apply goes on from here"}},
	{name: "finalizer", strike: (*pods).interruptHeld, undo: func(p *pods) { p.hold("null") }, code: exitUnclean,
		again: true, says: []string{"not all is gone after 2m", "finalizer example.com/hold holds it: `kubectl"}},
	{name: "caller killed in mid-cell", strike: func(p *pods) { must(p, p.cmd.Process.Kill()) }, code: -1, again: true},
}

// outOfMemory has an engine take ever more memory, of a pod that may not have all of its node's.
var outOfMemory = []string{
	"host \"n\" { cluster = cluster.moai }", "host \"n\" {\n  cluster = cluster.moai\n  limits  = { memory = \"512Mi\" }\n}",
	"engine \"sim\" \"a\" {\n  host  = host.n\n  flags = { table = \"1:5ms/20ms\" }\n}",
	"model \"m\" { repo = \"m\" }\nengine \"vllm\" \"a\" {\n  host  = host.n\n  model = model.m\n" +
		"  image = \"" + servedImage + "\"\n  env   = { ENGINE_FAULT = \"grow-after=12\" }\n}",
	"engine.sim.a", "engine.vllm.a",
}

// here is kubectl in the namespace.
func (p *pods) here(args ...string) string {
	return p.kubectl(append([]string{"-n", p.namespace}, args...)...)
}

// mayNothing has hcl come as somebody without rights.
func (p *pods) mayNothing() {
	p.login(p.here("create", "token", "default"))
	p.tells("check", exitContract, "may not create jobs, ", "create pods/exec",
		"ask who runs the cluster for a role with these rights in namespace no-right")
}

// interruptHeld interrupts an apply whose pod something holds.
func (p *pods) interruptHeld() {
	p.hold(`["example.com/hold"]`)
	must(p, p.cmd.Process.Signal(os.Interrupt))
}

// pod is the name of the engine's.
func (p *pods) pod() string {
	return p.here("get", "pods", "-l", "hcl.part=pod", "-o", "jsonpath={.items[0].metadata.name}")
}

func (p *pods) evict() {
	name := p.pod()
	cmd := p.cluster.Kubectl("create", "--raw", "/api/v1/namespaces/"+p.namespace+"/pods/"+name+"/eviction", "-f", "-")
	const eviction = `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": %q}}`
	cmd.Stdin = strings.NewReader(fmt.Sprintf(eviction, name, p.namespace))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("evict %s: %v: %s", name, err, out)
	}
}

func (p *pods) killEngine() {
	p.here("exec", p.pod(), "--", "sh", "-c", `kill -9 $(ps | grep '[ ]sim --model' | sed 's/^ *//; s/ .*//')`)
}

// hold gives the engine's pod finalizers.
func (p *pods) hold(list string) {
	p.here("patch", "pod", p.pod(), "--type=merge", "-p", `{"metadata": {"finalizers": `+list+`}}`)
}

// login has hcl come with a token.
func (p *pods) login(token string) {
	text, err := os.ReadFile(p.cluster.Kubeconfig)
	must(p, err)
	file := filepath.Join(p.home, "config")
	must(p, os.WriteFile(file, text, 0o600))
	p.kubectl("--kubeconfig", file, "config", "set-credentials", "other", "--token="+token)
	p.kubectl("--kubeconfig", file, "config", "set-context", "--current", "--user=other")
	p.env = []string{"KUBECONFIG=" + file}
}

// podFaults breaks what can break of a lab on a cluster. After each its user has read what it was, nothing
// is left there, and where it can be, what was not measured is by the next apply.
func (c *sharedCluster) podFaults(t *testing.T) {
	for _, f := range podFaults {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			p := c.pods(t, podLab)
			p.edit(f.edit...)
			if f.before != nil {
				f.before(p)
			}
			if f.strike != nil {
				p.stays = true
				p.reach(podCell)
				f.strike(p)
			} else {
				p.begin()
			}
			if code := p.end(10 * time.Minute); code != f.code {
				t.Errorf("exit %d, want %d\n%s", code, f.code, p.told())
			}
			for _, says := range f.says {
				if !strings.Contains(p.told(), says) {
					t.Errorf("nobody is told %q:\n%s", says, p.told())
				}
			}
			if f.undo != nil {
				f.undo(p)
			}
			if f.again {
				p.survives()
			} else {
				p.gone(2 * time.Minute)
			}
		})
	}
}

// killedAtRandom: whenever its caller is killed, the next apply goes on from there, and nothing is left.
func (c *sharedCluster) killedAtRandom(t *testing.T) {
	p := c.pods(t, podLab)
	takes := 20 * time.Second
	for range soaks(t, 10) / 5 {
		must(t, os.RemoveAll(filepath.Join(p.lab, ".hcl")))
		p.kept, p.void = 0, 0
		phase, _ := p.killAtRandom(&takes)
		p.survives()
		t.Logf("killed while %s", phase)
	}
}

// leavesOthers: two labs in one namespace, and what somebody has made who likes our labels.
func (c *sharedCluster) leavesOthers(t *testing.T) {
	p := c.pods(t, podLab)
	p.here("create", "configmap", "theirs")
	p.here("label", "configmap", "theirs", "hcl.lab=fault")
	other := &pods{scene{person: newLocal(t, strings.Replace(p.text(), `lab "fault"`, `lab "other"`, 1))}, c, p.namespace}
	other.env = p.env
	p.begin()
	other.begin()
	p.await(midCell.kind, midCell.text, midCell.nth)
	other.tells("status", exitDone, "moai")
	for _, each := range []*pods{p, other} {
		if code := each.end(10 * time.Minute); code != exitDone && code != exitCells || each.kept != faultCells {
			t.Errorf("exit %d with %d cells of %d\n%s", code, each.kept, faultCells, each.told())
		}
	}
	p.gone(2 * time.Minute)
	p.tells("destroy", exitDone, "Nothing of lab fault is on its hosts.")
	if got := p.here("get", "configmap", "theirs", "-o", "name"); got != "configmap/theirs" {
		t.Errorf("theirs = %q", got)
	}
}

// partsAway takes parts of the cluster away for a while, in mid-cell: the load goes on, and nothing is lost.
func (c *sharedCluster) partsAway(t *testing.T) {
	for _, part := range []string{"apiserver", "kubelet"} {
		t.Run(part+" away", func(t *testing.T) {
			p := c.pods(t, podLab)
			p.reach(midCell)
			host := c.Control
			if part == "kubelet" {
				p.paused(func() {
					node := p.here("get", "pod", p.pod(), "-o", "jsonpath={.spec.nodeName}")
					host = c.Nodes[slices.IndexFunc(c.Nodes, func(h *testhost.Host) bool { return h.Name == node })]
				})
			}
			back := c.Away(t, host, part)
			if part == "apiserver" {
				p.tells("status", exitFailed, "its API server", "does not answer", "is it reachable from here?")
			}
			<-time.After(30 * time.Second) // a node is lost after 50 s
			back()
			if code := p.end(10 * time.Minute); code != exitDone && code != exitCells || p.kept != faultCells {
				t.Errorf("exit %d with %d cells of %d\n%s", code, p.kept, faultCells, p.told())
			}
			p.gone(2 * time.Minute)
		})
	}
}
