package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
)

type node struct {
	Metadata meta
	Spec     struct {
		Unschedulable bool
		Taints        []taint
	}
	Status struct {
		Allocatable map[string]quantity
		Conditions  conditions
	}
}

type taint struct{ Key, Value, Effect string }

// kept reports whether the taint keeps pods with these tolerations away.
func (t taint) kept(tolerations []provision.Toleration) bool {
	if t.Effect == "PreferNoSchedule" {
		return false
	}
	return !slices.ContainsFunc(tolerations, func(o provision.Toleration) bool {
		key := o.Key == t.Key || o.Key == "" && o.Operator == "Exists"
		return key && (o.Effect == "" || o.Effect == t.Effect) && (o.Operator == "Exists" || o.Value == t.Value)
	})
}

// no says why a pod of the cluster's block cannot be on the node; empty when it can.
func (n node) no(c *provision.Cluster) string {
	for name, value := range c.NodeSelector {
		if n.Metadata.Labels[name] != value {
			return "not selected"
		}
	}
	switch {
	case n.Spec.Unschedulable:
		return "cordoned"
	case n.Status.Conditions.of("Ready").Status != "True":
		return "not ready"
	}
	for _, t := range n.Spec.Taints {
		if t.kept(c.Tolerations) {
			return "tainted " + t.Key
		}
	}
	return ""
}

// nodes says whether the pods' GPUs are free, on how many nodes.
func (k *checker) nodes(ctx context.Context) error {
	var want []PodSpec
	for _, p := range k.pods {
		if p.Host.GPUs.Count > 0 {
			want = append(want, p)
		}
	}
	all, err := listAt[node](ctx, k.Client, "/api/v1/nodes", nil)
	if err != nil || len(want) == 0 {
		return unknown(err)
	}
	path := k.in("pods")
	if k.seesAll {
		path = "/api/v1/pods"
	}
	alive := url.Values{"fieldSelector": {"status.phase!=Succeeded,status.phase!=Failed"}}
	pods, err := listAt[pod](ctx, k.Client, path, alive)
	if err != nil {
		return unknown(err)
	}
	resource := k.cluster.GPUName(want[0].Host.GPUs)
	free, why := k.free(all, pods, resource)
	slices.SortFunc(want, func(a, b PodSpec) int { return cmp.Compare(b.Host.GPUs.Count, a.Host.GPUs.Count) })
	have := fmt.Sprintf("%s free on %s: %s", resource, plain.Count(len(free), "node"), counts(free))
	if why != "" {
		have += "; others are " + why
	}
	rest, fits := slices.Clone(free), true
	var asked []string
	for _, p := range want {
		asked = append(asked, fmt.Sprint(p.Host.GPUs.Count))
		slices.SortFunc(rest, func(a, b quantity) int { return cmp.Compare(b, a) })
		fits = fits && len(rest) > 0 && rest[0] >= quantity(p.Host.GPUs.Count)
		if len(rest) > 0 {
			rest[0] -= quantity(p.Host.GPUs.Count)
		}
	}
	k.hold(fits, "gpus", have, plain.Count(len(want), "pod")+" with "+strings.Join(asked, ", "),
		"wait until others end, or see node_selector and tolerations of the block")
	return nil
}

// free is how much of a resource each node has that pods may be on, and why others do not count.
func (k *checker) free(nodes []node, pods []pod, resource string) (free []quantity, why string) {
	used := map[string]quantity{}
	for _, p := range pods {
		for _, c := range p.Spec.Containers {
			used[p.Spec.NodeName] += max(c.Resources.Requests[resource], c.Resources.Limits[resource])
		}
	}
	reasons := map[string]int{}
	for _, n := range nodes {
		if no := n.no(k.cluster); no != "" {
			reasons[no]++
			continue
		}
		free = append(free, n.Status.Allocatable[resource]-used[n.Metadata.Name])
	}
	var parts []string
	for no, n := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", n, no))
	}
	slices.Sort(parts)
	return free, strings.Join(parts, ", ")
}

// counts are numbers of nodes: "8, 8, 0".
func counts(free []quantity) string {
	if len(free) == 0 {
		return "none"
	}
	var words []string
	for _, q := range free {
		words = append(words, q.String())
	}
	return strings.Join(words, ", ")
}
