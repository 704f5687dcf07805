package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hclbench/results"
)

// operatedLab measures what an operator makes of a custom resource.
const operatedLab = `
lab "operated" { lease = "20s" }
cluster "moai" {
  %CLUSTER%
}
host "client" {
  cluster = cluster.moai
}
dataset "random" "d" {
  input_tokens = 64
}
engine "manifests" "mif" {
  host    = host.client
  files   = ["mif.yaml"]
  values  = { prefill = 1, decode = 2 }
  wait    = [{ kind = "InferenceService", condition = "Ready" }]
  service = "mif:80"
  roles   = {
    prefill = { pods = "llm-d.ai/role=prefill", instances = 1, port = 8000, engine = "vllm" }
    decode  = { pods = "llm-d.ai/role=decode", instances = 2, port = 8000, engine = "vllm" }
  }
}
benchmark "b" {
  engine   = engine.manifests.mif
  dataset  = dataset.random.d
  requests = 200
  load {
    concurrency   = 4
    output_tokens = 16
  }
}
`

// operatedYAML is what the lab makes: a front, and what the operator makes servers of.
const operatedYAML = `apiVersion: v1
kind: Service
metadata: {name: mif}
spec: {selector: {app: mif}, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: hcl.test/v1
kind: InferenceService
metadata: {name: mif}
spec: {prefill: ${prefill}, decode: ${decode}}
`

// definition is of the custom resource.
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: inferenceservices.hcl.test}
spec:
  group: hcl.test
  scope: Namespaced
  names: {plural: inferenceservices, singular: inferenceservice, kind: InferenceService}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {prefill: {type: integer}, decode: {type: integer}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// roleOf is what the operator makes of a role.
const roleOf = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: %NAME%-%ROLE%
  ownerReferences:
  - {apiVersion: hcl.test/v1, kind: InferenceService, name: %NAME%, uid: %UID%, controller: true, blockOwnerDeletion: true}
spec:
  replicas: %N%
  selector: {matchLabels: {app: %NAME%, llm-d.ai/role: %ROLE%}}
  template:
    metadata: {labels: {app: %NAME%, llm-d.ai/role: %ROLE%}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: server
        image: vllm/vllm-openai:v0.7.3
        args: [--model, m, --port, "8000", --host, 0.0.0.0]
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}
`

// operator is a controller of the custom resource: it makes a deployment of each role, and says when all
// are there.
func (c *sharedCluster) operator(t *testing.T) {
	t.Helper()
	apply := func(namespace, text string) {
		cmd := c.Kubectl("apply", "-n", namespace, "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil && t.Context().Err() == nil {
			t.Errorf("kubectl apply: %v: %s", err, out)
		}
	}
	apply("default", definition)
	must(t, c.Kubectl("wait", "--for=condition=Established", "--timeout=1m", "crd/inferenceservices.hcl.test").Run())
	watch := c.Kubectl("get", "inferenceservices", "-A", "--watch", "--output-watch-events", "-o", "json")
	out, err := watch.StdoutPipe()
	must(t, err)
	must(t, watch.Start())
	t.Cleanup(func() { watch.Process.Kill(); watch.Wait() })
	go func() {
		for d := json.NewDecoder(out); ; {
			var e struct {
				Type   string
				Object struct {
					Metadata struct{ Name, Namespace, UID string }
					Spec     struct{ Prefill, Decode json.Number }
				}
			}
			if err := d.Decode(&e); err != nil {
				if !errors.Is(err, io.EOF) && t.Context().Err() == nil {
					t.Errorf("watch custom resources: %v", err)
				}
				return
			}
			if e.Type != "ADDED" {
				continue
			}
			meta, names := e.Object.Metadata, []string{}
			for role, n := range map[string]json.Number{"prefill": e.Object.Spec.Prefill, "decode": e.Object.Spec.Decode} {
				words := []string{"%NAME%", meta.Name, "%ROLE%", role, "%UID%", meta.UID, "%N%", n.String()}
				apply(meta.Namespace, strings.NewReplacer(words...).Replace(roleOf))
				names = append(names, "deployment/"+meta.Name+"-"+role)
			}
			say := func(status, reason string) {
				patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": %q, "reason": %q}]}}`, status, reason)
				c.Kubectl("patch", "-n", meta.Namespace, "inferenceservice", meta.Name,
					"--subresource=status", "--type=merge", "-p", patch).Run()
			}
			say("False", "Deploying")
			wait := []string{"wait", "-n", meta.Namespace, "--for=condition=Available", "--timeout=3m"}
			go func() {
				if c.Kubectl(append(wait, names...)...).Run() == nil {
					say("True", "Deployed")
				}
			}()
		}
	}()
}

// operates has a cluster with an operator, on which labs use it.
func (c *sharedCluster) operates(t *testing.T) {
	c.operator(t)
	for name, test := range map[string]func(*sharedCluster, *testing.T){
		"operated":          (*sharedCluster).measuresOperated,
		"operated killed":   (*sharedCluster).diesOperated,
		"operated pod lost": (*sharedCluster).losesPods,
		"manifest mistakes": (*sharedCluster).meetsMistakes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(c, t)
		})
	}
}

// operated is somebody with the lab, in which texts are replaced.
func (c *sharedCluster) operated(t *testing.T, oldnew ...string) *pods {
	t.Helper()
	p := c.pods(t, strings.NewReplacer(oldnew...).Replace(operatedLab))
	must(t, os.WriteFile(filepath.Join(p.lab, "mif.yaml"), []byte(operatedYAML), 0o644))
	return p
}

// measuresOperated measures what an operator makes of objects, and leaves nothing there.
func (c *sharedCluster) measuresOperated(t *testing.T) {
	p := c.operated(t)
	p.tells("plan", exitDone, "made in the cluster: Service mif (mif.yaml:1), InferenceService mif (mif.yaml:6)",
		"decode: 2 pods with llm-d.ai/role=decode", "  service mif of manifests.mif\n  inferenceservice mif of manifests.mif\n")
	p.tells("check", anyCode, "2 objects would be taken")
	p.tells("apply", applied, "Ready is False: Deploying", "2 objects deleted, no pod of its roles is left")
	var kept struct {
		Rows []struct {
			Run       string `json:"run_id"`
			Summary   struct{ Completed int }
			Telemetry struct{ Series []struct{ Of string } }
		}
	}
	p.json(&kept, "report", "--json")
	if len(kept.Rows) != 1 || kept.Rows[0].Summary.Completed != 200 {
		t.Fatalf("kept are %+v", kept.Rows)
	}
	told := map[string]bool{}
	for _, s := range kept.Rows[0].Telemetry.Series {
		told[s.Of] = true
	}
	if !told["prefill 0"] || !told["decode 0"] || !told["decode 1"] {
		t.Errorf("only %v have told what they did", told)
	}
	store, err := results.Open(t.Context(), storeDir(p.lab))
	must(t, err)
	defer store.Close()
	inputs, err := store.Inputs(t.Context(), kept.Rows[0].Run)
	must(t, err)
	said := 0
	for name, text := range inputs {
		ofDecode := strings.HasPrefix(name, "logs/manifests.mif-decode-mif-decode-")
		if ofDecode && strings.Contains(name, "-server-") && strings.Contains(string(text), "startup complete") {
			said++
		}
	}
	if said != 2 {
		t.Errorf("%d logs of the two pods that decode are kept, of %v", said, slices.Sorted(maps.Keys(inputs)))
	}
	p.nothingLeft("-l", "hcl.part")
	p.tells("plan", exitDone, "Up to date")
}
