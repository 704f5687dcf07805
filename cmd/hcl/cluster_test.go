package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// podsLab is measured on two nodes of a cluster: an engine alone, and a group whose roles are apart.
const podsLab = `
lab "pods" { lease = "20s" }
cluster "moai" {
  image = "%IMAGE%"
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

// pods is somebody with a cluster and a lab of its pods.
type pods struct {
	*person
	cluster *testhost.Cluster
}

func newPods(t *testing.T, lab string) *pods {
	t.Helper()
	c := testhost.NewCluster(t)
	image := "hcl.test/tools:1"
	c.PushEngine(t, image, nil)
	p := &pods{newLocal(t, strings.ReplaceAll(lab, "%IMAGE%", image)), c}
	p.env = []string{"KUBECONFIG=" + c.Kubeconfig}
	return p
}

// objects are what of hcl there is in the cluster.
func (p *pods) objects() string {
	p.Helper()
	out, err := p.cluster.Kubectl("get", "jobs,pods,services,configmaps,secrets,leases", "-A", "-l", "hcl.part", "-o", "name").Output()
	must(p, err)
	return string(out)
}

// TestPods measures a lab on the pods of a cluster as on hosts, and leaves nothing there.
func TestPods(t *testing.T) {
	t.Parallel()
	p := newPods(t, podsLab)
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

// TestPodsKilled: when nobody is there any more, the cluster is as before within the lease.
func TestPodsKilled(t *testing.T) {
	t.Parallel()
	p := newPods(t, podsLab)
	p.edit("requests = 16", "requests = 4000")
	cmd := p.command("apply")
	must(t, cmd.Start())
	eventually(t, "two pods of engines run", 2*time.Minute, func() bool {
		return strings.Count(p.objects(), "pod/") > 1
	})
	must(t, cmd.Process.Signal(os.Kill))
	cmd.Wait()
	eventually(t, "the cluster is as before", 2*time.Minute, func() bool { return p.objects() == "" })
}
