package hcl

import (
	"regexp"
	"slices"
	"strings"

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
			described(func(c *cluster, s string) { c.Description = s }),
		},
		make: becomes(func(d *declared) *cluster { return &cluster{Name: d.fullName(), Pos: pos(d.header)} }),
		check: checks(func(b *block, c *cluster) {
			c.Kubeconfig = b.vars.atHome(c.Kubeconfig)
			b.empty("kubeconfig", "Write the file that says how clusters are reached."+orNull)
			b.empty("context", "Write the name of a context of the kubeconfig."+orNull)
			b.empty("image", "Write an image with a shell, such as \"debian:12\".")
		}),
	}
}

const clusterImage = "Of pods that run no engine of an image: the one that holds the lease, and those that send load. " +
	"It needs a shell, as `\"debian:12\"` has."

// clusterForm is a DNS label, which most names of a cluster are.
var clusterForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

var (
	clusterName = parsed("name", `a name of the cluster's, such as "hcl-bench": small letters, digits and dashes`,
		formed(clusterForm))
	plainTexts    = kindOf("map of texts", `an object with texts, such as { "gpu.vendor" = "amd" }`, asPlainTexts)
	tolerations   = listOf("list of tolerations", `a list of tolerations, such as [{ key = "nvidia.com/gpu", operator = "Exists" }]`, asToleration)
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
