package provision

import (
	"fmt"
	"time"
)

// Cluster is a Kubernetes cluster as a cluster block describes it. A host with a cluster is a pod
// there, which is rented for one start of an engine.
type Cluster struct {
	Name             string
	Description      string
	Kubeconfig       string // file; empty: $KUBECONFIG, then ~/.kube/config, then what a pod is given
	Context          string // of the kubeconfig; empty: its current one
	Namespace        string // empty: the context's, else "default"
	CreateNamespace  bool   // where it is not there; whoever made it deletes it
	Image            string // of pods that run no engine of an image: those that send load or hold the lease
	GPUResource      string // empty: by the maker of the host's GPUs, see [Cluster.GPUName]
	RDMAResource     string // one of it for each pod with GPUs; empty: none
	NodeSelector     map[string]string
	Tolerations      []Toleration
	ServiceAccount   string // empty: the namespace's default
	RuntimeClass     string
	ImagePullSecrets []string
	Annotations      map[string]string // of each pod
	HostNetwork      bool              // pods have their node's network, which some fabrics need
	Mounts           []Mount           // in each pod with an engine: a directory of the node, or "claim/NAME"
	WaitForNode      time.Duration     // how long a pod may be without one; 0: two minutes
	Is               string            // which cluster it is, as its credentials tell; empty: nobody has read them
	Pos              string            // where the block stands, "lab.hcl:12"
}

// Toleration lets pods run on nodes with a taint.
type Toleration struct {
	Key      string
	Operator string // "Equal" or "Exists"
	Value    string
	Effect   string // empty: all
}

// ClaimPrefix begins the source of a mount that is a PersistentVolumeClaim.
const ClaimPrefix = "claim/"

// Same reports whether two blocks are of one cluster, whose pods reach each other.
func (c *Cluster) Same(o *Cluster) bool {
	return c == o || c != nil && o != nil && c.Kubeconfig == o.Kubeconfig && c.Context == o.Context
}

// GPUName is what the cluster calls the GPUs of a host (the device plugins of NVIDIA and AMD).
func (c *Cluster) GPUName(g GPUs) string {
	switch {
	case c.GPUResource != "":
		return c.GPUResource
	case g.Vendor == AMD:
		return "amd.com/gpu"
	}
	return "nvidia.com/gpu"
}

// String names the cluster in messages: "cluster moai (lab.hcl:12)".
func (c *Cluster) String() string {
	if c.Pos == "" {
		return "cluster " + c.Name
	}
	return fmt.Sprintf("cluster %s (%s)", c.Name, c.Pos)
}

// Host is the cluster itself as a place: its root pod, which keeps a run and has no engine.
func (c *Cluster) Host() *Host { return &Host{Name: c.Name, Cluster: c, Runtime: Process, Pos: c.Pos} }

// IsCluster reports whether the host is a cluster itself, see [Cluster.Host].
func (h *Host) IsCluster() bool {
	return h.Cluster != nil && h.Cluster.Name == h.Name && h.Cluster.Pos == h.Pos
}
