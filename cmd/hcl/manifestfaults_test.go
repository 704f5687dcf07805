package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mistakesLab has an engine for each thing that can be wrong with manifests only where they are made.
const mistakesLab = `
lab "mistakes" { lease = "20s" }
cluster "moai" {
  %CLUSTER%
}
host "client" {
  cluster = cluster.moai
}
dataset "random" "d" {
  input_tokens = 64
}
%ENGINES%
benchmark "b" {
  matrix {
    engine = [%NAMES%]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 4
  load {
    concurrency   = 1
    output_tokens = 4
  }
}
`

// brokenDeployment is one whose pods do not come.
const brokenDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: broken}
spec:
  selector: {matchLabels: {app: broken}}
  template:
    metadata: {labels: {app: broken}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: server, image: "hcl.test/tools:IMAGE", command: [sh, -c, echo out of luck; exit 7]}]
`

// manifestMistakes are what is made, what more the engine says, and what is said of it.
var manifestMistakes = map[string]struct{ yaml, more, want string }{
	"no_operator": {"apiVersion: odin.moreh.io/v1\nkind: InferenceService\nmetadata: {name: a}\n", "",
		"InferenceService a (no_operator.yaml:1): the cluster knows no apiVersion odin.moreh.io/v1"},
	"no_kind": {"apiVersion: apps/v1\nkind: Deploiment\nmetadata: {name: a}\n", "",
		"the cluster has no kind Deploiment in apps/v1, only ControllerRevision, DaemonSet, Deployment"},
	"wide": {"apiVersion: networking.k8s.io/v1\nkind: IPAddress\nmetadata: {name: 10.0.0.1}\n", "",
		"it belongs to the whole cluster and to no namespace"},
	"field": {"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1, ports: [{port: 80}]}\n", "",
		`unknown field "spec.port"`},
	"taken": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\n", "",
		"it is there already, and not of hcl, which does not touch it"},
	"selector": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", `roles = { serve = "app=theirs" }`,
		"1 pod (theirs) are there already, which the selector \"app=theirs\" of role serve selects"},
	"never": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"wait = [{ kind = \"ConfigMap\", condition = \"Ready\" }]\n  ready { stall = \"2s\" }",
		"nothing has moved for 2s|ConfigMap a has no condition Ready yet"},
	"image": {strings.Replace(brokenDeployment, "IMAGE", "none", 1), `roles = { serve = "app=broken" }`,
		"image hcl.test/tools:none cannot be pulled|is its name right?"},
	"exits": {strings.Replace(brokenDeployment, "IMAGE", "1", 1), "roles = { serve = \"app=broken\" }\n  ready { stall = \"15s\" }",
		"role serve: 0 ready: pod broken-|its container server has ended with code 7|last log lines:\n    out of luck"},
}

// meetsMistakes: of each engine it is said what is wrong, others' objects are as before, and none of ours is left.
func (c *sharedCluster) meetsMistakes(t *testing.T) {
	var engines, names []string
	for name, m := range manifestMistakes {
		engines = append(engines, "engine \"manifests\" \""+name+"\" {\n  host = host.client\n  service = \"a:80\"\n  files = [\""+
			name+".yaml\"]\n  "+m.more+"\n}\n")
		names = append(names, "engine.manifests."+name)
	}
	lab := strings.NewReplacer("%ENGINES%", strings.Join(engines, ""), "%NAMES%", strings.Join(names, ", ")).Replace(mistakesLab)
	p := c.pods(t, lab)
	for name, m := range manifestMistakes {
		must(t, os.WriteFile(filepath.Join(p.lab, name+".yaml"), []byte(m.yaml), 0o644))
	}
	p.kubectl("-n", p.namespace, "create", "configmap", "theirs", "--from-literal=a=b")
	p.kubectl("-n", p.namespace, "run", "theirs", "--labels=app=theirs", "--image", toolsImage, "--", "sleep", "3600")
	before := p.kubectl("-n", p.namespace, "get", "configmap/theirs", "pod/theirs", "-o", "jsonpath={.items[*].metadata.uid}")
	for _, verb := range []string{"plan", "check"} {
		p.tells(verb, anyCode, "InferenceService a (no_operator.yaml:1): the cluster knows no", `unknown field "spec.port"`, "not of hcl, which")
	}
	said := p.tells("apply", exitFailed, "9 cells")
	for name, m := range manifestMistakes {
		for want := range strings.SplitSeq(m.want, "|") {
			if !strings.Contains(said, want) {
				t.Errorf("of %s nothing says %q", name, want)
			}
		}
	}
	if t.Failed() {
		t.Log(said)
	}
	after := p.kubectl("-n", p.namespace, "get", "configmap/theirs", "pod/theirs", "-o", "jsonpath={.items[*].metadata.uid}")
	if before != after {
		t.Errorf("objects of others were %s and are %s", before, after)
	}
	p.nothingLeft("-l", "hcl.part")
}

// nothingLeft fails for objects that are still there.
func (p *pods) nothingLeft(which ...string) {
	p.Helper()
	args := append([]string{"-n", p.namespace, "get", everyKind, "-o", "name"}, which...)
	if left := p.kubectl(args...); left != "" {
		p.Errorf("left in the cluster:\n%s", left)
	}
}

const everyKind = "inferenceservices,deployments,services,configmaps,pods,jobs"

// losesPods: a pod of a role that goes in mid-cell makes it void.
func (c *sharedCluster) losesPods(t *testing.T) {
	p, s := c.underLoad(t)
	p.tells("logs manifests.mif", exitDone, "prefill mif-prefill-", "decode mif-decode-", " server | ")
	pods := p.kubectl("-n", p.namespace, "get", "pods", "-l", "llm-d.ai/role=decode", "-o", "name")
	first, _, _ := strings.Cut(pods, "\n")
	p.kubectl("-n", p.namespace, "delete", first, "--wait=false")
	if code := s.end(3 * time.Minute); code != exitFailed {
		t.Errorf("exit %d, want %d\n%s", code, exitFailed, s.said.String())
	}
	p.tells("report", anyCode, "the engine was lost in mid-cell", "of role decode")
	p.nothingLeft("-l", "hcl.part")
}

// diesOperated: when nobody is there any more, what was made goes by itself.
func (c *sharedCluster) diesOperated(t *testing.T) {
	p, s := c.underLoad(t)
	s.kill()
	eventually(t, "the cluster is as before", 5*time.Minute, func() bool {
		return p.kubectl("-n", p.namespace, "get", everyKind, "-o", "name") == "configmap/kube-root-ca.crt"
	})
}

// underLoad is an apply that sends load to what an operator has made.
func (c *sharedCluster) underLoad(t *testing.T) (*pods, *scene) {
	p := c.operated(t, "requests = 200", "requests = 10000")
	s := &scene{person: p.person}
	s.begin()
	eventually(t, "load is sent", 3*time.Minute, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.seen, func(e applyEvent) bool { return e.Type == midCell.kind })
	})
	return p, s
}
