package hcl

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"hclbench/provision"
)

// clusterBlock is a Kubernetes cluster, in which hosts are pods.
func clusterBlock() *blockType {
	type cluster = provision.Cluster
	return &blockType{
		name: "cluster", labels: []label{{what: "name", form: identifier}}, root: "cluster",
		args: []argument{
			forEach(),
			arg("kubeconfig", text, func(c *cluster, s string) { c.Kubeconfig = s }),
			arg("context", text, func(c *cluster, s string) { c.Context = s }),
			arg("namespace", clusterName, func(c *cluster, s string) { c.Namespace = s }),
			arg("create_namespace", truth, func(c *cluster, on bool) { c.CreateNamespace = on }),
			arg("image", text, func(c *cluster, s string) { c.Image = s }).must(clusterImage),
			arg("gpu_resource", text, func(c *cluster, s string) { c.GPUResource = s }),
			arg("rdma_resource", text, func(c *cluster, s string) { c.RDMAResource = s }),
			arg("node_selector", plainTexts, func(c *cluster, m map[string]string) { c.NodeSelector = m }),
			arg("tolerations", tolerations, func(c *cluster, list []provision.Toleration) { c.Tolerations = list }),
			arg("service_account", clusterName, func(c *cluster, s string) { c.ServiceAccount = s }),
			arg("runtime_class", clusterName, func(c *cluster, s string) { c.RuntimeClass = s }),
			arg("image_pull_secrets", texts, func(c *cluster, list []string) { c.ImagePullSecrets = list }),
			arg("annotations", plainTexts, func(c *cluster, m map[string]string) { c.Annotations = m }),
			arg("host_network", truth, func(c *cluster, on bool) { c.HostNetwork = on }),
			arg("mounts", clusterMounts, func(c *cluster, list []provision.Mount) { c.Mounts = list }),
			arg("wait_for_node", duration, func(c *cluster, d time.Duration) { c.WaitForNode = d }),
			described(func(c *cluster, s string) { c.Description = s }),
		},
		make: becomes(func(d *declared) *cluster { return &cluster{Name: d.fullName(), Pos: pos(d.header)} }),
		check: checks(func(b *block, c *cluster) {
			c.Kubeconfig = b.vars.atHome(c.Kubeconfig)
			b.empty("kubeconfig", "Write the file that says how clusters are reached."+orNull)
			b.empty("context", "Write the name of a context of the kubeconfig."+orNull)
			b.empty("image", "Write an image with a shell, such as \"debian:12\".")
			checkNamespace(b, c)
		}),
	}
}

// checkNamespace: what a namespace needs to be there before pods cannot be in one that is new.
func checkNamespace(b *block, c *provision.Cluster) {
	made := b.arg("create_namespace")
	switch {
	case !c.CreateNamespace:
	case c.Namespace == "":
		b.fail(made.at, "No namespace", "Say which one is made: namespace = \"hcl-bench\".")
	case len(c.ImagePullSecrets) > 0 || c.ServiceAccount != "" || slices.ContainsFunc(c.Mounts, ofClaim):
		b.fail(made.at, "Nothing is in a new namespace", newNamespace, c.Namespace)
	}
}

const sameNamespace = "cluster.%s and cluster.%s put their pods into the same namespace, and one run of a lab would take " +
	"those of the other for what an earlier one left. Give each a namespace of its own."

// checkNamespaces: each cluster that has hosts is a place of its own.
func checkNamespaces(r *reader, hosts []*provision.Host) {
	first := map[[3]string]*provision.Cluster{}
	for d, c := range nouns[provision.Cluster](r) {
		if !slices.ContainsFunc(hosts, func(h *provision.Host) bool { return h.Cluster == c }) {
			continue
		}
		at := [3]string{c.Kubeconfig, c.Context, c.Namespace}
		if other := first[at]; other != nil {
			r.fail(d.header, "Two clusters in one namespace", sameNamespace, other.Name, c.Name)
			continue
		}
		first[at] = c
	}
}

func ofClaim(m provision.Mount) bool { return strings.HasPrefix(m.Source, provision.ClaimPrefix) }

const newNamespace = "Secrets, accounts and claims that the block names have to be in namespace %s before pods are. " +
	"Make it by hand, with them, and remove create_namespace."

const clusterImage = "Of pods that run no engine of an image: the one that holds the lease, and those that send load. " +
	"It needs a shell, as `\"debian:12\"` has."

// clusterForm is a DNS label, which most names of a cluster are.
var clusterForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

var (
	clusterName = parsed("name", `a name of the cluster's, such as "hcl-bench": small letters, digits and dashes`,
		formed(clusterForm))
	plainTexts  = kindOf("map of texts", `an object with texts, such as { "gpu.vendor" = "amd" }`, asPlainTexts)
	tolerations = listOf("list of tolerations", `a list of tolerations, such as [{ key = "nvidia.com/gpu", operator = "Exists" }]`, asToleration)
	quantities  = kindOf("map of quantities",
		`an object with quantities as Kubernetes has them, such as { cpu = "16", memory = "200Gi" }`, asQuantities)
	clusterMounts = listOf("list of mounts",
		`a list of mounts, such as ["/on/node:/in/pod:ro"] or ["claim/models:/models"]`, asClusterMount)
)

func asPlainTexts(v cty.Value) (map[string]string, error) {
	out := map[string]string{}
	return out, entries(v, func(name string, e cty.Value) (err error) {
		out[name], err = asPlainText(e)
		return err
	})
}

var (
	resourceForm = regexp.MustCompile(`^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	quantityForm = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?$`)
)

// asQuantities are how much of what: of processors, of memory, of devices.
func asQuantities(v cty.Value) (map[string]string, error) {
	all, err := asPlainTexts(v)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case err != nil:
		case !resourceForm.MatchString(name):
			err = wrong("%q is not the name of a resource, such as cpu or memory.", name)
		case !quantityForm.MatchString(all[name]):
			err = wrong("%q of %s is not a quantity of Kubernetes', such as \"16\", \"500m\" or \"200Gi\".", all[name], name)
		}
	}
	return all, err
}

const (
	noToleration = "A toleration has no %q. It has a key, an operator (\"Equal\" or \"Exists\"), a value and an effect."
	badOperator  = `The operator of a toleration is "Equal", with a value, or "Exists", without one.`
)

func asToleration(v cty.Value) (t provision.Toleration, err error) {
	fields := map[string]*string{"key": &t.Key, "operator": &t.Operator, "value": &t.Value, "effect": &t.Effect}
	err = entries(v, func(name string, e cty.Value) (err error) {
		field := fields[name]
		if field == nil {
			return wrong(noToleration, name)
		}
		*field, err = asPlainText(e)
		return err
	})
	if t.Operator == "" {
		t.Operator = "Equal"
	}
	effects := []string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}
	switch {
	case err != nil:
	case t.Operator != "Equal" && t.Operator != "Exists", t.Operator == "Exists" && t.Value != "":
		err = wrong(badOperator)
	case t.Operator == "Equal" && t.Key == "":
		err = wrong("A toleration says which taint it tolerates, by key.")
	case !slices.Contains(effects, t.Effect):
		err = wrong("The effect of a toleration is %s, or is left out for all.", strings.Join(effects[1:], ", "))
	}
	return t, err
}

// asClusterMount is a directory of the node, or a PersistentVolumeClaim, and where pods see it.
func asClusterMount(v cty.Value) (provision.Mount, error) {
	s, _ := asString(v)
	claim, isClaim := strings.CutPrefix(s, provision.ClaimPrefix)
	if !isClaim {
		return asMount(v)
	}
	name, _, _ := strings.Cut(claim, ":")
	if clusterForm.FindString(name) == "" {
		return provision.Mount{}, wrong("%q is not the name of a PersistentVolumeClaim.", name)
	}
	m, err := asMount(cty.StringVal("/" + s))
	m.Source = strings.TrimPrefix(m.Source, "/")
	return m, err
}
