package main

import (
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
)

// podClientsLab sends load from two pods to others: to an engine, and to the two of a group without a router.
const podClientsLab = `
lab "clients" { lease = "20s" }
cluster "moai" {
  %CLUSTER%
}
host "n" {
  for_each = toset(["1", "2"])
  cluster  = cluster.moai
}
host "c" {
  for_each = toset(["1", "2"])
  cluster  = cluster.moai
}
dataset "random" "d" {
  input_tokens = 64
}
engine "sim" "alone" {
  host  = host.n["1"]
  flags = { ttft = "10ms", itl = "2ms", host = "0.0.0.0" }
}
engine "sim" "part" {
  flags = { ttft = "10ms", itl = "2ms" }
}
group "two" {
  role "serve" {
    engine = engine.sim.part
    on     = [host.n["1"], host.n["2"]]
  }
}
benchmark "b" {
  matrix {
    engine = [engine.sim.alone, group.two]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 120
  load {
    from          = [host.c["1"], host.c["2"]]
    concurrency   = 6
    output_tokens = 64
  }
}
`

// sendsFromPods: pods send a load together to engines in others, whose addresses no plan knows and no cell
// is made of.
func (c *sharedCluster) sendsFromPods(t *testing.T) {
	p := c.pods(t, podClientsLab)
	p.tells("plan", exitDone, "open to the pods of cluster moai at http://n-1:8000, for the hosts that load is sent from",
		"host c-2 (a pod of cluster moai)\n\n  sends load to engine.sim.alone on host n-1", "pod hcl-plan-c-2-")
	for range 4 { // on a busy machine a cell may be void: the next apply measures that one
		p.tells("apply", anyCode, "what one takes of the processors, the other lacks") // four pods on two nodes
		if said, _, _ := p.run("plan"); strings.Contains(said, "Up to date") {
			break
		}
	}
	if left := p.objects(); left != "" {
		t.Errorf("left in the cluster:\n%s", left)
	}
	store, err := results.Open(t.Context(), storeDir(p.lab))
	must(t, err)
	defer store.Close()
	rows, err := store.Rows(t.Context(), results.Query{})
	must(t, err)
	rows = slices.DeleteFunc(rows, func(r results.Row) bool { return r.Verdict().Verdict == load.Void })
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	for _, r := range rows {
		if r.Summary == nil || r.Summary.Completed != 120 || len(r.Summary.Clients) != 2 {
			t.Fatalf("%s: %s %+v", r.Deployment.Engine, r.Error, r.Summary)
		}
		if from := r.Identity["load.from"]; from != "a pod, a pod" {
			t.Errorf("%s: from %q", r.Deployment.Engine, from)
		}
		if url := r.Job.Target.BaseURL; !strings.HasPrefix(url, "http://10.") {
			t.Errorf("%s: the load went to %s", r.Deployment.Engine, url)
		}
		for _, is := range r.Identity {
			if strings.Contains(is, strings.TrimPrefix(r.Job.Target.BaseURL, "http://")) {
				t.Errorf("%s: where its pod was is part of what it is: %s", r.Deployment.Engine, is)
			}
		}
		records, err := store.Records(t.Context(), r.RunID, r.ID)
		must(t, err)
		var sent []int
		by := [2]int{}
		for _, x := range records {
			sent = append(sent, x.Seq)
			by[x.Client]++
		}
		slices.Sort(sent)
		if sent = slices.Compact(sent); len(sent) != 120 || by != [2]int{60, 60} {
			t.Errorf("%s: %d different requests; by client %v", r.Deployment.Engine, len(sent), by)
		}
		read := func(x telemetry.Series) bool { return x.Name == telemetry.Running }
		if seen := r.Telemetry; !slices.ContainsFunc(seen.Series, read) || len(seen.Problems) > 0 {
			t.Errorf("%s: of the engine was read %+v", r.Deployment.Engine, seen)
		}
	}
	if said := p.tells("plan", exitDone, "Up to date"); strings.Contains(said, "machine hcl-") {
		t.Errorf("the names of pods are told as changes of the host:\n%s", said)
	}
}
