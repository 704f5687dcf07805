package engines

import (
	"cmp"
	"strings"

	"hclbench/provision"
)

// Manifests is what an engine of kind [Operated] is made of: objects of a cluster, from which
// its operators make servers.
type Manifests struct {
	Objects []provision.Object // in the order in which they are made
	Wait    []provision.Await
	Service string              // where requests go: "name:port"
	Roles   []provision.PodRole // sorted by name
}

// ByOthers reports whether hcl starts no server of the engine: it is there, or operators of a
// cluster start it.
func ByOthers(e *Engine) bool { return e.Kind == External || e.Kind == Operated }

// Counted are the kinds whose counters hcl knows.
func Counted() []string { return []string{VLLM, SGLang} }

const (
	noObjects = "An engine of kind %q is made of objects of a cluster. Write the files that describe them, for " +
		"example:\n\n    files = [\"inference-service.yaml\"]"
	noService = "Say where requests go: a service of the cluster and its port, for example:\n\n" +
		"    service = \"mif-istio:80\""
	noClient = "The load is sent from within the cluster. Say from which pod of it, one without GPUs, for example:\n\n" +
		"    host = host.client"
	notInCluster = "host.%s is a machine, and objects are made in a cluster. Write a host whose block says " +
		"cluster = cluster.NAME."
	clientGPUs = "host.%s asks for %s, and only sends the load: what the objects ask for is theirs to say. " +
		"Write a host without gpus."
	notTheirs = "What an engine of kind %q is made of, its files say. Remove %s."
)

// checkOperated holds an engine of manifests against what it must be.
func checkOperated(e *Engine, found *findings) {
	m := e.Manifests
	switch {
	case e.Host() == nil:
		found.lacks("host", noClient)
	case e.Host().Cluster == nil:
		found.add("host", notInCluster, e.Host().Name)
	case e.Host().GPUs.Count > 0:
		found.add("host", clientGPUs, e.Host().Name, e.Host().GPUs)
	}
	if m == nil || len(m.Objects) == 0 {
		found.lacks("files", noObjects, Operated)
	}
	if m == nil || m.Service == "" {
		found.lacks("service", noService)
	}
	for _, field := range startedBy(e) {
		found.add(field, notTheirs, Operated, field)
	}
	if e.URL != "" {
		found.add(urlField(e), notTheirs, Operated, urlField(e))
	}
}

// startedBy are the arguments of an engine that say how hcl would start a server.
func startedBy(e *Engine) (fields []string) {
	for _, arg := range []struct {
		field string
		set   bool
	}{
		{"image", e.Image != ""},
		{"env", len(e.Env) > 0},
		{"flags", len(e.Flags) > 0},
		{"config", e.Config.Reveal() != ""},
		{"compile_cache", e.CompileCache != ""},
		{"setup", len(e.Setup) > 0},
		{"command", e.Command != nil},
		{"port", e.port() != 0},
		{"build", e.Build != nil},
	} {
		if arg.set {
			fields = append(fields, arg.field)
		}
	}
	return fields
}

// operated adds the objects, as they are shown, in which what is secret counts as such; where requests
// go; and which cluster it is: hcl is not told what its servers run on. What is waited for and how pods
// are found changes no number.
func (f fingerprint) operated(e *Engine) {
	f.set("model", ServedModel(e))
	f.set("service", e.Manifests.Service)
	if e.Host() != nil && e.Host().Cluster != nil {
		f.set("cluster", cmp.Or(e.Host().Cluster.Is, e.Host().Cluster.Context, e.Host().Cluster.Name))
		f.cluster(e.Host())
	}
	for _, o := range e.Manifests.Objects {
		kind := o.Kind
		if group, _, grouped := strings.Cut(o.APIVersion, "/"); grouped {
			kind += "." + group
		}
		f.members(kind+" "+o.Name, []byte(o.Text.String()))
		f.set(kind+" "+o.Name, o.APIVersion)
	}
	for _, r := range e.Manifests.Roles {
		f.number("instances of "+r.Name, int64(r.Instances))
	}
}
