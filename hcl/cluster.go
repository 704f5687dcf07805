package hcl

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"hclbench/hcl/lang"
	"hclbench/provision"
)

// clusterBlock is a Kubernetes cluster, in which hosts are pods.
func clusterBlock() *lang.BlockType {
	type cluster = provision.Cluster
	return &lang.BlockType{
		Name: "cluster", Labels: []lang.Label{{What: "name", Form: lang.Identifier}}, Root: "cluster",
		Args: []lang.Argument{
			lang.ForEach(),
			lang.Arg("kubeconfig", lang.Text, func(c *cluster, s string) { c.Kubeconfig = s }),
			lang.Arg("context", lang.Text, func(c *cluster, s string) { c.Context = s }),
			lang.Arg("namespace", clusterName, func(c *cluster, s string) { c.Namespace = s }),
			lang.Arg("create_namespace", lang.Bool, func(c *cluster, on bool) { c.CreateNamespace = on }),
			lang.Arg("image", lang.Text, func(c *cluster, s string) { c.Image = s }).Required(clusterImage),
			lang.Arg("gpu_resource", lang.Text, func(c *cluster, s string) { c.GPUResource = s }),
			lang.Arg("rdma_resource", lang.Text, func(c *cluster, s string) { c.RDMAResource = s }),
			lang.Arg("node_selector", plainTexts, func(c *cluster, m map[string]string) { c.NodeSelector = m }),
			lang.Arg("tolerations", tolerations, func(c *cluster, list []provision.Toleration) { c.Tolerations = list }),
			lang.Arg("service_account", clusterName, func(c *cluster, s string) { c.ServiceAccount = s }),
			lang.Arg("runtime_class", clusterName, func(c *cluster, s string) { c.RuntimeClass = s }),
			lang.Arg("image_pull_secrets", lang.Texts, func(c *cluster, list []string) { c.ImagePullSecrets = list }),
			lang.Arg("annotations", plainTexts, func(c *cluster, m map[string]string) { c.Annotations = m }),
			lang.Arg("host_network", lang.Bool, func(c *cluster, on bool) { c.HostNetwork = on }),
			lang.Arg("mounts", clusterMounts, func(c *cluster, list []provision.Mount) { c.Mounts = list }),
			lang.Arg("wait_for_node", lang.Duration, func(c *cluster, d time.Duration) { c.WaitForNode = d }),
			lang.Description(func(c *cluster, s string) { c.Description = s }),
		},
		Make: lang.Makes(func(d *lang.Declared) *cluster { return &cluster{Name: d.FullName(), Pos: d.Header.String()} }),
		Check: lang.Checks(func(b *lang.Block, c *cluster) {
			c.Kubeconfig = b.Vars.AtHome(c.Kubeconfig)
			b.FailIfEmpty("kubeconfig", "Write the file that says how clusters are reached."+orNull)
			b.FailIfEmpty("context", "Write the name of a context of the kubeconfig."+orNull)
			b.FailIfEmpty("image", "Write an image with a shell, such as \"debian:12\".")
			ofClaim := func(m provision.Mount) bool { return strings.HasPrefix(m.Source, provision.ClaimPrefix) }
			switch made := b.Arg("create_namespace"); {
			case !c.CreateNamespace:
			case c.Namespace == "":
				b.Fail(made.At, "No namespace", "Say which one is made: namespace = \"hcl-bench\".")
			case len(c.ImagePullSecrets) > 0 || c.ServiceAccount != "" || slices.ContainsFunc(c.Mounts, ofClaim):
				b.Fail(made.At, "Nothing is in a new namespace", newNamespace, c.Namespace)
			}
		}),
	}
}

const sameNamespace = "cluster.%s and cluster.%s put their pods into the same namespace, and one run of a lab would take " +
	"those of the other for what an earlier one left. Give each a namespace of its own."

// checkNamespaces: each cluster that has hosts is a place of its own.
func checkNamespaces(r *lang.Reader, hosts []*provision.Host) {
	first := map[[3]string]*provision.Cluster{}
	for d, c := range lang.Nouns[provision.Cluster](r) {
		if !slices.ContainsFunc(hosts, func(h *provision.Host) bool { return h.Cluster == c }) {
			continue
		}
		at := [3]string{c.Kubeconfig, c.Context, c.Namespace}
		if other := first[at]; other != nil {
			r.Fail(d.Header, "Two clusters in one namespace", sameNamespace, other.Name, c.Name)
			continue
		}
		first[at] = c
	}
}

const newNamespace = "Secrets, accounts and claims that the block names have to be in namespace %s before pods are. " +
	"Make it by hand, with them, and remove create_namespace."

const clusterImage = "Of pods that run no engine of an image: the one that holds the lease, and those that send load. " +
	"It needs a shell, as `\"debian:12\"` has."

// clusterForm is a DNS label, which most names of a cluster are.
var clusterForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

var (
	clusterName = lang.Parsed("name", `a name of the cluster's, such as "hcl-bench": small letters, digits and dashes`,
		lang.Matching(clusterForm))
	plainTexts  = lang.NewKind("map of texts", `an object with texts, such as { "gpu.vendor" = "amd" }`, asPlainTexts)
	tolerations = lang.ListOf("list of tolerations", `a list of tolerations, such as [{ key = "nvidia.com/gpu", operator = "Exists" }]`, asToleration)
	quantities  = lang.NewKind("map of quantities",
		`an object with quantities as Kubernetes has them, such as { cpu = "16", memory = "200Gi" }`, asQuantities)
	clusterMounts = lang.ListOf("list of mounts",
		`a list of mounts, such as ["/on/node:/in/pod:ro"] or ["claim/models:/models"]`, asClusterMount)
)

func asPlainTexts(v cty.Value) (map[string]string, error) {
	out := map[string]string{}
	return out, lang.Entries(v, func(name string, e cty.Value) (err error) {
		out[name], err = lang.AsPlainText(e)
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
			err = lang.Wrong("%q is not the name of a resource, such as cpu or memory.", name)
		case !quantityForm.MatchString(all[name]):
			err = lang.Wrong("%q of %s is not a quantity of Kubernetes', such as \"16\", \"500m\" or \"200Gi\".", all[name], name)
		}
	}
	return all, err
}

const (
	noToleration = "A toleration has no %q. It has a key, an operator (\"Equal\" or \"Exists\"), a value and an effect."
	badOperator  = `The operator of a toleration is "Equal", with a value, or "Exists", without one.`
)

var tolerationOf = lang.ObjectOf[provision.Toleration]("a toleration", noToleration,
	lang.Arg("key", lang.Text, func(t *provision.Toleration, s string) { t.Key = s }),
	lang.Arg("operator", lang.Text, func(t *provision.Toleration, s string) { t.Operator = s }),
	lang.Arg("value", lang.Text, func(t *provision.Toleration, s string) { t.Value = s }),
	lang.Arg("effect", lang.Text, func(t *provision.Toleration, s string) { t.Effect = s }),
)

func asToleration(v cty.Value) (provision.Toleration, error) {
	t, err := tolerationOf(v)
	if t.Operator == "" {
		t.Operator = "Equal"
	}
	effects := []string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}
	switch {
	case err != nil:
	case t.Operator != "Equal" && t.Operator != "Exists", t.Operator == "Exists" && t.Value != "":
		err = lang.Wrong(badOperator)
	case t.Operator == "Equal" && t.Key == "":
		err = lang.Wrong("A toleration says which taint it tolerates, by key.")
	case !slices.Contains(effects, t.Effect):
		err = lang.Wrong("The effect of a toleration is %s, or is left out for all.", strings.Join(effects[1:], ", "))
	}
	return t, err
}

// asClusterMount is a directory of the node, or a PersistentVolumeClaim, and where pods see it.
func asClusterMount(v cty.Value) (provision.Mount, error) {
	s, _ := lang.AsString(v)
	claim, isClaim := strings.CutPrefix(s, provision.ClaimPrefix)
	if !isClaim {
		return asMount(v)
	}
	name, _, _ := strings.Cut(claim, ":")
	if clusterForm.FindString(name) == "" {
		return provision.Mount{}, lang.Wrong("%q is not the name of a PersistentVolumeClaim.", name)
	}
	m, err := asMount(cty.StringVal("/" + s))
	m.Source = strings.TrimPrefix(m.Source, "/")
	return m, err
}
