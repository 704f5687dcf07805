package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
)

// Check holds the cluster against its block and what a run is about to ask of it, pods that are there
// at the same time: rights, the namespace and its quota, secrets and claims, what the API server would
// make of the pods, and the nodes that are free. It changes nothing.
func (c *Client) Check(ctx context.Context, pods []PodSpec) ([]provision.Finding, error) {
	k := &checker{Client: c, pods: pods}
	k.hold(true, "api server", c.version, "", "")
	steps := []func(context.Context) error{k.rights, k.secrets, k.claims, k.admission, k.quota, k.room}
	there, err := c.HasNamespace(ctx)
	if err != nil {
		return nil, provision.Wrap(c.host, "look for namespace "+c.namespace, err)
	}
	if !there {
		k.hold(true, "namespace", c.namespace+" is not there, and will be made", "", "")
		steps = []func(context.Context) error{k.rights}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return k.findings, provision.Wrap(c.host, "check it", err)
		}
	}
	return k.findings, nil
}

type checker struct {
	*Client
	pods     []PodSpec
	root     podNeeds
	shapes   []shape // of the pods
	findings []provision.Finding
	seesAll  bool // pods of every namespace
}

func (k *checker) hold(good bool, check, have, want, advice string) {
	level := provision.OK
	if !good {
		level = provision.Blocked
	}
	k.note(level, check, have, want, advice)
}

func (k *checker) note(level provision.Level, check, have, want, advice string) {
	if level == provision.OK {
		advice = ""
	}
	k.findings = append(k.findings, provision.Finding{Check: check, Level: level, Have: have, Want: want, Advice: advice})
}

// access is something that one may do.
type access struct {
	verb, group, resource, sub string
	everywhere                 bool // not only in the namespace
}

func (a access) String() string {
	name := a.verb + " " + a.resource
	if a.sub != "" {
		name += "/" + a.sub
	}
	if a == allPods {
		name += " of every namespace"
	}
	return name
}

// needed are the rights without which nothing works, and useful those without which less is known.
var (
	needed = []access{
		{verb: "create", group: "batch", resource: "jobs"}, {verb: "get", group: "batch", resource: "jobs"},
		{verb: "list", group: "batch", resource: "jobs"}, {verb: "delete", group: "batch", resource: "jobs"},
		{verb: "create", resource: "pods"}, {verb: "get", resource: "pods"}, {verb: "list", resource: "pods"},
		{verb: "delete", resource: "pods"}, {verb: "create", resource: "pods", sub: "exec"},
	}
	allPods = access{verb: "list", resource: "pods", everywhere: true}
	useful  = []access{
		{verb: "list", resource: "events"}, {verb: "watch", resource: "pods"}, {verb: "get", resource: "nodes", everywhere: true},
		{verb: "list", resource: "nodes", everywhere: true}, allPods,
	}
)

func (k *checker) rights(ctx context.Context) error {
	var lacks, less []string
	needed := slices.Clone(needed)
	if k.cluster.CreateNamespace {
		for _, verb := range []string{"create", "get", "patch", "delete"} {
			needed = append(needed, access{verb: verb, resource: "namespaces", everywhere: true})
		}
	}
	for _, a := range slices.Concat(needed, useful) {
		may, err := k.may(ctx, a)
		switch {
		case err != nil:
			return err
		case may:
			k.seesAll = k.seesAll || a == allPods
		case slices.Contains(needed, a):
			lacks = append(lacks, a.String())
		default:
			less = append(less, a.String())
		}
	}
	const ask = "ask who runs the cluster for a role with these rights in namespace %s"
	have := "all that are needed"
	if len(lacks) > 0 {
		have = "may not " + strings.Join(lacks, ", ")
	}
	k.hold(len(lacks) == 0, "rights", have, "", fmt.Sprintf(ask, k.namespace))
	if len(less) > 0 {
		k.note(provision.Warning, "rights to look", "may not "+strings.Join(less, ", "), "",
			"without them hcl cannot tell which nodes are free, or why a pod waits or went")
	}
	return nil
}

// unknown drops the error of what may not be read: nothing is known then.
func unknown(err error) error {
	if hasCode(err, http.StatusForbidden) {
		return nil
	}
	return err
}

// quota holds what the namespace may still have against what the pods and their root take.
func (k *checker) quota(ctx context.Context) error {
	all, err := listAt[struct {
		Metadata meta
		Spec     struct {
			Scopes        []string
			ScopeSelector any
		}
		Status struct{ Hard, Used map[string]quantity }
	}](ctx, &k.server, k.in("resourcequotas"), nil)
	if err != nil {
		return unknown(err)
	}
	take := map[string]quantity{"count/jobs.batch": 2}
	for _, needs := range k.needs() {
		for name, q := range needs.requests() {
			take[name] += q
			take["requests."+name] += q
		}
		for _, c := range needs.Containers {
			for name, q := range c.Resources.Limits {
				take["limits."+name] += q
			}
		}
	}
	take["count/pods"] = take["pods"]
	for _, q := range all {
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue // it is for some pods only: the dry run has asked for each
		}
		for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			if want := take[name]; want > 0 {
				free := q.Status.Hard[name] - q.Status.Used[name]
				have := fmt.Sprintf("%s: %s of %s free", name, free, q.Status.Hard[name])
				show := k.byHand("describe quota %s", q.Metadata.Name)
				k.hold(free >= want, "quota "+q.Metadata.Name, have, "at least "+want.String(),
					"wait until others in the namespace end, or ask for more: "+show+" shows it")
			}
		}
	}
	return nil
}

func (k *checker) secrets(ctx context.Context) error {
	for _, name := range k.cluster.ImagePullSecrets {
		there, err := k.exists(ctx, k.in("secrets/"+name))
		if err != nil {
			return err
		}
		if !there {
			k.hold(false, "pull secret", "no secret "+name+" in namespace "+k.namespace, "",
				"make it: "+k.byHand("create secret docker-registry %s …", name))
		}
	}
	return nil
}

func (k *checker) claims(ctx context.Context) error {
	var sources []string
	for _, p := range k.pods {
		for _, m := range p.mounts(k.cluster) {
			sources = append(sources, m.Source)
		}
	}
	slices.Sort(sources)
	for _, source := range slices.Compact(sources) {
		name, claim := strings.CutPrefix(source, provision.ClaimPrefix)
		if !claim {
			continue
		}
		there, err := k.exists(ctx, k.in("persistentvolumeclaims/"+name))
		if err != nil {
			return err
		}
		if !there {
			k.hold(false, "claim", "no claim "+name+" in namespace "+k.namespace, "",
				"make it, or name another in mounts")
		}
	}
	return nil
}

// admission asks the API server what it would make of the root and of each pod, see [Client.Try].
func (k *checker) admission(ctx context.Context) error {
	run := RunOf{Lab: "check", Run: "check", Deadline: answerWithin}
	all := []object{RootManifest(k.cluster, k.namespace, run, "")}
	for i, p := range k.pods {
		all = append(all, Manifest(k.cluster, k.namespace, run, p, i+1, ""))
	}
	said := map[string]bool{}
	for i, manifest := range all {
		made, _, err := k.try(ctx, manifest)
		if i == 0 {
			k.root = needsOf(made, podOfJob(manifest))
		} else {
			k.shapes = append(k.shapes, shape{k.pods[i-1].Host, needsOf(made, manifest)})
		}
		switch {
		case err == nil:
		case !Refused(err):
			return err
		case !said[err.Error()]:
			said[err.Error()] = true
			s, _ := errors.AsType[*status](err)
			have, advice, _ := strings.Cut(strings.TrimPrefix(err.Error(), k.host.String()+": "), s.Error()+": ")
			k.hold(false, "pods", cmp.Or(have, s.Error()), "", cmp.Or(advice, "see the blocks of the cluster and of its hosts"))
		}
	}
	if len(said) == 0 {
		k.hold(true, "pods", plain.Count(len(k.pods), "pod")+" would be taken", "", "")
	}
	return nil
}
