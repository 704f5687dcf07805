package kube

import (
	"cmp"
	"context"
	"encoding/json"
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

// toleration is one that a pod has, of the block's or of what the cluster itself adds.
type toleration struct{ Key, Operator, Value, Effect string }

// kept reports whether the taint keeps pods with these tolerations away.
func (t taint) kept(tolerations []toleration) bool {
	if t.Effect == "PreferNoSchedule" {
		return false
	}
	return !slices.ContainsFunc(tolerations, func(o toleration) bool {
		key := o.Key == t.Key || o.Key == "" && o.Operator == "Exists"
		return key && (o.Effect == "" || o.Effect == t.Effect) && (o.Operator == "Exists" || o.Value == t.Value)
	})
}

// no says why a pod cannot be on the node; empty when it can.
func (n node) no(p podNeeds) string {
	for name, value := range p.NodeSelector {
		if n.Metadata.Labels[name] != value {
			return "not selected"
		}
	}
	switch {
	case n.Spec.Unschedulable:
		return "cordoned"
	case n.Status.Conditions.ofType("Ready").Status != "True":
		return "not ready"
	}
	for _, t := range n.Spec.Taints {
		if t.kept(p.Tolerations) {
			return "tainted " + t.Key
		}
	}
	return ""
}

// requests are what the containers of a pod ask for together.
func (p podNeeds) requests() map[string]quantity {
	all := map[string]quantity{"pods": 1}
	for _, c := range p.Containers {
		for name, q := range c.Resources.Limits {
			if _, said := c.Resources.Requests[name]; !said {
				all[name] += q
			}
		}
		for name, q := range c.Resources.Requests {
			all[name] += q
		}
	}
	return all
}

// needsOf is what a pod takes of a node: as the cluster would make it, or as it was asked for.
func needsOf(made, asked object) (needs podNeeds) {
	if made == nil {
		made = asked
	}
	text, _ := json.Marshal(made["spec"])
	_ = json.Unmarshal(text, &needs)
	return needs
}

// room is what nodes have that is free.
type room struct {
	nodes []node
	free  map[string]map[string]quantity // by node and resource
}

func roomOf(nodes []node, pods []pod) room {
	r := room{nodes, map[string]map[string]quantity{}}
	for _, n := range nodes {
		r.free[n.Metadata.Name] = n.Status.Allocatable
	}
	for _, p := range pods {
		for name, q := range p.Spec.requests() {
			if has := r.free[p.Spec.NodeName]; has != nil {
				has[name] -= q
			}
		}
	}
	return r
}

// take gives a pod the node that has the most of a resource left, of those with room for it.
func (r room) take(p podNeeds, most string) (taken bool) {
	var best map[string]quantity
	for _, n := range r.nodes {
		has, fits := r.free[n.Metadata.Name], n.no(p) == ""
		for name, q := range p.requests() {
			fits = fits && has[name] >= q
		}
		if fits && (best == nil || has[most] > best[most]) {
			best = has
		}
	}
	for name, q := range p.requests() {
		if best != nil {
			best[name] -= q
		}
	}
	return best != nil
}

// says is how much of a resource the nodes have that a pod may be on, and why others do not count:
// "nvidia.com/gpu free on 2 nodes: 8, 0; others are 1 cordoned".
func (r room) says(p podNeeds, resource string) string {
	var free []string
	reasons := map[string]int{}
	for _, n := range r.nodes {
		if no := n.no(p); no != "" {
			reasons[no]++
			continue
		}
		free = append(free, r.free[n.Metadata.Name][resource].String())
	}
	var others []string
	for no, n := range reasons {
		others = append(others, fmt.Sprintf("%d %s", n, no))
	}
	slices.Sort(others)
	counts := cmp.Or(strings.Join(free, ", "), "none")
	s := fmt.Sprintf("%s free on %s: %s", resource, plain.Count(len(free), "node"), counts)
	if len(others) > 0 {
		s += "; others are " + strings.Join(others, ", ")
	}
	return s
}

const roomAdvice = "hcl waits %s for it (wait_for_node of the block), in which a cluster may add nodes; " +
	"or wait until others end, or see node_selector and tolerations of the block"

// room says whether there are nodes for the pods, at the same time. Where there are none, somebody may
// yet leave, or the cluster add some.
func (k *checker) room(ctx context.Context) error {
	nodes, err := listAt[node](ctx, &k.server, "/api/v1/nodes", nil)
	if err != nil {
		return unknown(err)
	}
	path := k.in("pods")
	if k.seesAll {
		path = "/api/v1/pods"
	}
	alive := url.Values{"fieldSelector": {"status.phase!=Succeeded,status.phase!=Failed"}}
	pods, err := listAt[pod](ctx, &k.server, path, alive)
	if err != nil {
		return unknown(err)
	}
	wants := slices.Clone(k.shapes)
	slices.SortStableFunc(wants, func(a, b shape) int { return cmp.Compare(b.GPUs.Count, a.GPUs.Count) })
	r := roomOf(nodes, pods)
	var have, lacking string
	var asked []string
	for _, w := range wants {
		resource := "memory"
		if w.GPUs.Count > 0 {
			resource, asked = k.cluster.GPUName(w.GPUs), append(asked, fmt.Sprint(w.GPUs.Count))
		}
		have = cmp.Or(have, r.says(w.needs, resource))
		if !r.take(w.needs, resource) {
			lacking = cmp.Or(lacking, "; no node has all that "+w.Host.String()+" asks for")
		}
	}
	want := plain.Count(len(asked), "pod") + " with " + strings.Join(asked, ", ")
	switch {
	case lacking != "":
		k.note(provision.Warning, "gpus", have+lacking, want, fmt.Sprintf(roomAdvice, k.patience.room))
	case len(asked) > 0:
		k.note(provision.OK, "gpus", have, want, "")
	}
	return nil
}

// needs are those of all pods, and of the root's.
func (k *checker) needs() []podNeeds {
	all := []podNeeds{k.root}
	for _, s := range k.shapes {
		all = append(all, s.needs)
	}
	return all
}

// shape is a pod as the cluster would make it.
type shape struct {
	*provision.Host
	needs podNeeds
}
