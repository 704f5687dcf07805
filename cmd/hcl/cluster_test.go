package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"hclbench/testhost"
)

// podsLab is measured on two nodes of a cluster: an engine alone, and a group whose roles are apart.
const podsLab = `
lab "pods" { lease = "20s" }
cluster "moai" {
  %CLUSTER%
}
host "n" {
  for_each = toset(["1", "2"])
  cluster  = cluster.moai
  gpus     = "8xH200"
}
dataset "random" "d" {
  input_tokens = 64
}
engine "sim" "alone" {
  host  = host.n["1"]
  flags = { ttft = "10ms", itl = "2ms" }
}
engine "sim" "part" {
  flags = { ttft = "10ms", itl = "2ms" }
}
group "pd" {
  role "prefill" {
    engine  = engine.sim.part
    on      = [host.n["1"], host.n["1"]]
    gpu_ids = [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
  }
  role "decode" {
    engine  = engine.sim.part
    on      = [host.n["2"], host.n["2"]]
    gpu_ids = [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
  }
  router "sim" {
    host = host.n["1"]
  }
}
benchmark "b" {
  matrix {
    engine = [engine.sim.alone, group.pd]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 16
  load {
    concurrency   = 4
    output_tokens = 16
  }
}
`

// sharedCluster is used by several tests at once, each in a namespace of its own.
type sharedCluster struct {
	*testhost.Cluster
	gpus sync.Mutex // see [pods.takesGPUs]
}

// clusterTests are those that share it: it takes half a minute to come.
var clusterTests = map[string]func(*sharedCluster, *testing.T){
	"pods":           (*sharedCluster).measuresOnPods,
	"pods killed":    (*sharedCluster).cleansItself,
	"pods of others": (*sharedCluster).leavesOthers,
	"pod faults":     (*sharedCluster).podFaults,
	"random kills":   (*sharedCluster).killedAtRandom,
	"manifests":      (*sharedCluster).operates,
	"planned":        (*sharedCluster).plansObjects,
	"place":          (*sharedCluster).isAPlace,
	"inside":         (*sharedCluster).worksInside,
	"model":          (*sharedCluster).fetchesModel,
	"clients":        (*sharedCluster).sendsFromPods,
	"claims":         (*sharedCluster).claimsPods,
}

// toolsImage is an engine's with a shell, as pods of clusters need it.
const toolsImage = "hcl.test/tools:1"

// servedImage is one of an engine's.
const servedImage = "vllm/vllm-openai:v0.7.3"

func TestSlowOnCluster(t *testing.T) {
	t.Parallel()
	c := &sharedCluster{Cluster: testhost.NewCluster(t)}
	c.PushEngine(t, toolsImage, nil)
	c.PushEngine(t, servedImage, nil)
	t.Run("at once", func(t *testing.T) {
		for name, test := range clusterTests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(c, t)
			})
		}
	})
	c.partsAway(t) // which the others would notice
}

// pods is somebody with a lab of a cluster's pods.
type pods struct {
	scene
	cluster   *sharedCluster
	namespace string
}

// pods makes the namespace of a test. What is said of the cluster in the lab is %CLUSTER%.
func (c *sharedCluster) pods(t *testing.T, lab string) *pods {
	t.Helper()
	name := strings.ReplaceAll(t.Name()[strings.LastIndex(t.Name(), "/")+1:], "_", "-")
	said := fmt.Sprintf("image = %q\nnamespace = %q", toolsImage, name)
	p := &pods{scene{person: newLocal(t, strings.ReplaceAll(lab, "%CLUSTER%", said))}, c, name}
	p.looks = func() []string { return strings.Fields(p.objects()) }
	p.env = []string{"KUBECONFIG=" + c.Kubeconfig}
	p.kubectl("create", "namespace", name)
	p.kubectl("-n", name, "wait", "--for=create", "--timeout=1m", "serviceaccount/default") // which pods are made under
	return p
}

// kubectl is what somebody with all rights does in the cluster.
func (p *pods) kubectl(args ...string) string {
	p.Helper()
	cmd := p.cluster.Kubectl(args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// takesGPUs waits until no other test has GPUs of the cluster, until this one ends.
func (p *pods) takesGPUs() {
	p.cluster.gpus.Lock()
	p.Cleanup(p.cluster.gpus.Unlock)
}

// objects are what of hcl there is in the namespace.
func (p *pods) objects() string {
	p.Helper()
	return p.kubectl("-n", p.namespace, "get", "jobs,pods,services,configmaps,secrets,leases", "-l", "hcl.part", "-o", "name")
}

// measuresOnPods measures a lab on the pods of a cluster as on hosts, and leaves nothing there.
func (c *sharedCluster) measuresOnPods(t *testing.T) {
	p := c.pods(t, podsLab)
	p.takesGPUs()
	p.tells("check", exitDone, "cluster moai")
	p.tells("plan", exitDone, "host n-1 (a pod of cluster moai, 8xH200)", "Plan: 2 to measure")
	said := p.tells("apply", applied, "n-1")
	out, _, _ := p.run("report", "--json")
	var kept struct {
		Rows []struct {
			Host    string
			Members []struct{ Role, Host string }
			Summary struct{ Completed int }
		}
	}
	must(t, json.Unmarshal([]byte(out), &kept))
	if len(kept.Rows) != 2 {
		t.Fatalf("%d rows\n%s\n%s", len(kept.Rows), out, said)
	}
	for _, r := range kept.Rows {
		if r.Summary.Completed != 16 {
			t.Errorf("completed %d on %s", r.Summary.Completed, r.Host)
		}
	}
	if left := p.objects(); left != "" {
		t.Errorf("left in the cluster:\n%s", left)
	}
	p.tells("plan", exitDone, "Up to date")
	p.tells("status", exitDone, "moai", "nothing")
}

// cleansItself: when nobody is there any more, the cluster is as before within the lease.
func (c *sharedCluster) cleansItself(t *testing.T) {
	p := c.pods(t, podsLab)
	p.takesGPUs()
	p.edit("requests = 16", "requests = 4000")
	cmd := p.command("apply", "--json")
	must(t, cmd.Start())
	eventually(t, "two pods of engines run", 5*time.Minute, func() bool {
		return strings.Count(p.objects(), "pod/") > 1
	})
	must(t, cmd.Process.Signal(os.Kill))
	cmd.Wait()
	eventually(t, "the cluster is as before", 5*time.Minute, func() bool { return p.objects() == "" })
}
