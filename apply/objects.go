package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/kube"
)

// askWithin bounds what a plan asks of a cluster: it can be read without.
const askWithin = 20 * time.Second

// Objects are what the plan makes in clusters, with what each says of them in a dry run. Nothing is made.
func Objects(ctx context.Context, p *plan.Plan) []plan.Cluster {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	pods := podsOf(p)
	var clusters []*provision.Cluster
	for _, spec := range pods {
		if c := spec.Host.Cluster; !slices.Contains(clusters, c) {
			clusters = append(clusters, c)
		}
	}
	return flow.Map(clusters, func(c *provision.Cluster) plan.Cluster {
		own := slices.DeleteFunc(slices.Clone(pods), func(s kube.PodSpec) bool { return s.Host.Cluster != c })
		return objectsIn(ctx, p, c, own)
	})
}

// podOf is the pod that a host is for a deployment: as its first engine of an image wants it.
func podOf(h *provision.Host, d *plan.Deployment) kube.PodSpec {
	spec := kube.PodSpec{Host: h, Image: h.Cluster.Image, Labels: map[string]string{provision.LabelEngine: d.Engine.Label()}}
	i := slices.IndexFunc(d.Members, func(m plan.Member) bool { return m.Host == h && engines.InImage(m.Engine) })
	if i >= 0 {
		ct := d.Members[i].Container
		spec.Image, spec.Shm, spec.Privileged, spec.CapAdd, spec.Mounts = ct.Image, ct.ShmSize, ct.Privileged, ct.CapAdd, ct.Mounts
	}
	return spec
}

// podsOf are the pods that the plan makes, those once that are alike on one host.
func podsOf(p *plan.Plan) (all []kube.PodSpec) {
	seen := map[string]bool{}
	for _, d := range p.Deployments {
		if len(d.ToDo()) == 0 {
			continue
		}
		for _, h := range d.Needs() {
			if h.Cluster == nil || p.Rehearsal {
				continue
			}
			spec := podOf(h, d)
			like := spec
			like.Labels, like.Host = nil, nil
			key := fmt.Sprintf("%s %+v", h.Name, like)
			if !seen[key] {
				seen[key] = true
				all = append(all, spec)
			}
		}
	}
	return all
}

// objectsIn are what the plan makes in a cluster: the run's root, and the pods that it owns.
func objectsIn(ctx context.Context, p *plan.Plan, cluster *provision.Cluster, pods []kube.PodSpec) plan.Cluster {
	out := plan.Cluster{Name: cluster.Name, Namespace: cluster.Namespace}
	text := func(err error) string { return strings.TrimPrefix(err.Error(), cluster.String()+": ") }
	client, err := kube.Open(ctx, cluster, nil)
	if err == nil {
		defer client.Close()
		out.Namespace, out.Version = client.Namespace(), client.Version()
	}
	there := err == nil
	if there {
		there, err = client.HasNamespace(ctx)
	}
	switch {
	case err != nil:
		out.Error = text(err)
	case !there:
		out.Error = fmt.Sprintf("namespace %s is not there yet", out.Namespace)
	}
	run := kube.RunOf{Lab: p.Lab.Name, Run: "plan", Lease: p.Lab.Lease, Deadline: place.Deadline(p.Lab.MaxDuration)}
	add := func(manifest map[string]any, host string) {
		o := plan.Object{Manifest: manifest, YAML: kube.YAML(manifest), Host: host, Kind: fmt.Sprint(manifest["kind"])}
		o.Name = fmt.Sprint(manifest["metadata"].(map[string]any)["name"])
		if out.Error == "" {
			adds, err := client.Try(ctx, manifest)
			switch {
			case err == nil:
				o.Adds = adds
			case kube.Refused(err):
				o.Refused = text(err)
			default:
				out.Error = text(err)
			}
		}
		out.Objects = append(out.Objects, o)
	}
	if cluster.CreateNamespace {
		add(kube.NamespaceManifest(out.Namespace, run), "")
	}
	add(kube.FuseManifest(cluster, out.Namespace, run), "")
	add(kube.RootManifest(cluster, out.Namespace, run, ""), "")
	for i, spec := range pods {
		add(kube.Manifest(cluster, out.Namespace, run, spec, i+1, ""), spec.Host.Name)
	}
	for _, e := range operatedIn(p, cluster) {
		said := make([]error, len(e.Manifests.Objects))
		if out.Error == "" {
			said = client.TryObjects(ctx, run, e.Manifests.Objects)
		}
		for i, of := range e.Manifests.Objects {
			o := plan.Object{Kind: of.Kind, Name: of.Name, Engine: e.Label()}
			_ = json.Unmarshal([]byte(of.Text.String()), &o.Manifest) // without secrets
			if errors.Is(said[i], provision.ErrUnreachable) {
				out.Error = text(said[i])
			} else if said[i] != nil {
				o.Refused = text(said[i])
			}
			out.Objects = append(out.Objects, o)
		}
	}
	return out
}

// operatedIn are the engines that the plan makes of objects in a cluster.
func operatedIn(p *plan.Plan, cluster *provision.Cluster) (all []*engines.Engine) {
	for _, d := range p.Deployments {
		if e := d.Engine; e.Manifests != nil && e.Host().Cluster == cluster && len(d.ToDo()) > 0 && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}
