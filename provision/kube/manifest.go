package kube

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"hclbench/provision"
)

// RunOf is whose root it is.
type RunOf struct {
	Lab      string
	Run      string
	Holder   string        // for people: "ada@laptop, hcl apply, pid 4711"
	Store    string        // whose callers may end it; empty: somebody has made the objects of a plan
	Lease    time.Duration // how long a pod waits for its first agent, or for the next after one that was killed
	Deadline time.Duration // after which the cluster ends the run, whatever anybody does
}

// PodSpec is a pod that is rented for one start of an engine: one place for an agent.
type PodSpec struct {
	Host       *provision.Host // whose GPUs it gets; errors name it
	Image      string
	Shm        int64 // most bytes of /dev/shm; 0: what the node has for it, often half of its memory
	Privileged bool
	CapAdd     []string          // such as "IPC_LOCK"
	Mounts     []provision.Mount // besides the cluster's
	Labels     map[string]string // opaque pairs, fit for Kubernetes or not
}

// Labels of every object of a run: how destroy and the next apply find it. What a label cannot say as it
// is stands in the annotation of the same name.
const (
	labelHost     = "hcl.host"
	labelHolder   = "hcl.holder" // an annotation only
	labelPart     = "hcl.part"
	partRoot      = "root"
	partFuse      = "fuse"
	partPod       = "pod"
	partObject    = "object" // what engines of manifests are made of
	partNamespace = "namespace"
)

// container is what the one container of a pod is called.
const container = "hcl"

// stopGrace is what a pod's first process has before all are killed; it needs none.
const stopGrace = 5

//go:embed waiting.sh
var waiting string

// RootManifest is the run's Job: the owner of all else. When its pod has ended, the cluster deletes it,
// and with it what it owns. Until an agent holds the run it is owned by the fuse with that uid.
func RootManifest(cluster *provision.Cluster, namespace string, run RunOf, fuse string) map[string]any {
	job := run.job(cluster, namespace, partRoot, run.rootName(), run.Deadline)
	ownedBy(job, run.fuseName(), fuse)
	return job
}

// FuseManifest is a Job that makes no pod, so that it needs no image and no node. The cluster ends it after so
// long, deletes it, and with it a root that no agent has held by then.
func FuseManifest(cluster *provision.Cluster, namespace string, run RunOf) map[string]any {
	job := run.job(cluster, namespace, partFuse, run.fuseName(), usual.forCluster(cluster).begins()+run.Lease)
	job["spec"].(object)["parallelism"] = 0
	return job
}

// job is one that the cluster deletes when it has ended.
func (r RunOf) job(cluster *provision.Cluster, namespace, part, name string, deadline time.Duration) object {
	spec := podSpec(cluster, PodSpec{Host: cluster.Host(), Image: cluster.Image}, r.Lease)
	meta := r.meta(part, cluster.Name, nil)
	setName(meta, name, namespace)
	return object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": meta,
		"spec": object{
			"backoffLimit":            0,
			"ttlSecondsAfterFinished": 0,
			"activeDeadlineSeconds":   int(math.Ceil(deadline.Seconds())),
			"template":                object{"metadata": r.meta(part, cluster.Name, cluster.Annotations), "spec": spec},
		},
	}
}

// ownedBy has the cluster delete an object when it deletes a Job; without a uid nobody owns it.
func ownedBy(o object, job, uid string) {
	if uid != "" {
		o["metadata"].(object)["ownerReferences"] = []any{object{
			"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid,
		}}
	}
}

// Manifest is a pod as it is created: the n-th of the run, whose root has that uid. Before there is a root
// nobody owns it.
func Manifest(cluster *provision.Cluster, namespace string, run RunOf, spec PodSpec, n int, uid string) map[string]any {
	meta := run.meta(partPod, spec.Host.Name, cluster.Annotations, spec.Labels)
	setName(meta, run.podName(spec.Host.Name, n), namespace)
	pod := podSpec(cluster, spec, run.Lease)
	pod["activeDeadlineSeconds"] = int(run.Deadline.Seconds())
	pod["affinity"] = object{"podAntiAffinity": object{ // two hosts are two nodes, where there are two
		"preferredDuringSchedulingIgnoredDuringExecution": []any{object{
			"weight": 100,
			"podAffinityTerm": object{
				"topologyKey": "kubernetes.io/hostname",
				"labelSelector": object{
					"matchLabels": object{provision.LabelRun: labelValue(run.Run), labelPart: partPod},
				},
			},
		}},
	}}
	made := object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod}
	ownedBy(made, run.rootName(), uid)
	return made
}

// YAML is an object as `kubectl apply` takes it.
func YAML(object map[string]any) string {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error() // our own objects are maps, lists, texts and numbers: never
	}
	return string(text)
}

// setName gives an object its name, in a namespace or in the one that its reader is in.
func setName(meta object, name, namespace string) {
	meta["name"] = name
	if namespace != "" {
		meta["namespace"] = namespace
	}
}

func (r RunOf) rootName() string { return "hcl-" + dnsName(r.Run, 40) }

func (r RunOf) fuseName() string { return r.rootName() + "-fuse" }

func (r RunOf) podName(host string, n int) string {
	number := fmt.Sprintf("-%d", n)
	begin := r.rootName() + "-"
	return begin + dnsName(host, maxName-len(begin)-len(number)) + number
}

// selector finds a run's objects: where that is not said a lab's, or all.
func (r RunOf) selector() string {
	s := labelPart
	for _, of := range [][2]string{{provision.LabelLab, r.Lab}, {provision.LabelRun, r.Run}} {
		if of[1] != "" {
			s += "," + of[0] + "=" + labelValue(of[1])
		}
	}
	return s
}

// meta are the labels and annotations of an object of the run.
func (r RunOf) meta(part, host string, annotations map[string]string, more ...map[string]string) object {
	full := map[string]string{provision.LabelLab: r.Lab, provision.LabelRun: r.Run}
	if host != "" {
		full[labelHost] = host
	}
	for _, m := range more {
		maps.Copy(full, m)
	}
	if r.Store != "" {
		full[provision.LabelStore] = r.Store
	}
	labels, notes := object{labelPart: part}, object{}
	if r.Holder != "" {
		notes[labelHolder] = r.Holder
	}
	for name, value := range full {
		labels[name] = labelValue(value)
		if labels[name] != value {
			notes[name] = value
		}
	}
	for name, value := range annotations {
		notes[name] = value
	}
	meta := object{"labels": labels}
	if len(notes) > 0 {
		meta["annotations"] = notes
	}
	return meta
}

func podSpec(cluster *provision.Cluster, spec PodSpec, lease time.Duration) object {
	pod := object{
		"restartPolicy":                 "Never",
		"automountServiceAccountToken":  false,
		"enableServiceLinks":            false,
		"terminationGracePeriodSeconds": stopGrace,
	}
	set := func(name string, value any, is bool) {
		if is {
			pod[name] = value
		}
	}
	set("nodeSelector", toObject(cluster.NodeSelector), len(cluster.NodeSelector) > 0)
	set("tolerations", tolerations(cluster.Tolerations), len(cluster.Tolerations) > 0)
	set("serviceAccountName", cluster.ServiceAccount, cluster.ServiceAccount != "")
	set("runtimeClassName", cluster.RuntimeClass, cluster.RuntimeClass != "")
	set("hostNetwork", true, cluster.HostNetwork)
	set("dnsPolicy", "ClusterFirstWithHostNet", cluster.HostNetwork)
	var secrets []any
	for _, name := range cluster.ImagePullSecrets {
		secrets = append(secrets, object{"name": name})
	}
	set("imagePullSecrets", secrets, len(secrets) > 0)

	patience := fmt.Sprint(int(math.Ceil(lease.Seconds())))
	c := object{"name": container, "image": spec.Image, "command": []any{"sh", "-c", waiting, "hcl", patience}}
	if r := resources(cluster, spec); len(r) > 0 {
		c["resources"] = r
	}
	if spec.Privileged {
		c["securityContext"] = object{"privileged": true}
	} else if len(spec.CapAdd) > 0 {
		c["securityContext"] = object{"capabilities": object{"add": slices.Clone(spec.CapAdd)}}
	}
	pod["volumes"], c["volumeMounts"] = volumes(cluster, spec)
	pod["containers"] = []any{c}
	return pod
}

// What the root asks for: it holds a lease, and must not be the first to go where a node lacks memory.
var (
	rootRequests = map[string]string{"cpu": "100m", "memory": "128Mi"}
	rootLimits   = map[string]string{"cpu": "1", "memory": "512Mi"}
)

// resources are what the host's block says, and its GPUs.
func resources(cluster *provision.Cluster, spec PodSpec) object {
	requests, limits := toObject(spec.Host.Requests), toObject(spec.Host.Limits)
	if spec.isRoot() {
		requests, limits = toObject(rootRequests), toObject(rootLimits)
	}
	if n := spec.Host.GPUs.Count; n > 0 {
		devices := object{cluster.GPUName(spec.Host.GPUs): fmt.Sprint(n)}
		if cluster.RDMAResource != "" {
			devices[cluster.RDMAResource] = "1"
		}
		maps.Copy(requests, devices)
		maps.Copy(limits, devices)
	}
	all := object{}
	for name, of := range map[string]object{"requests": requests, "limits": limits} {
		if len(of) > 0 {
			all[name] = of
		}
	}
	return all
}

// volumes are shared memory, and in a pod with an engine the mounts.
func volumes(cluster *provision.Cluster, spec PodSpec) (all, mounts []any) {
	shm := object{"medium": "Memory"}
	if spec.Shm > 0 {
		shm["sizeLimit"] = fmt.Sprint(spec.Shm)
	}
	all = []any{object{"name": "shm", "emptyDir": shm}}
	mounts = []any{object{"name": "shm", "mountPath": "/dev/shm"}}
	for i, m := range spec.mounts(cluster) {
		name := fmt.Sprintf("mount-%d", i)
		from := object{"name": name, "hostPath": object{"path": m.Source, "type": "DirectoryOrCreate"}}
		if claim, ok := strings.CutPrefix(m.Source, provision.ClaimPrefix); ok {
			from = object{"name": name, "persistentVolumeClaim": object{"claimName": claim}}
		}
		at := object{"name": name, "mountPath": m.Target}
		if m.ReadOnly {
			at["readOnly"] = true
		}
		all, mounts = append(all, from), append(mounts, at)
	}
	return all, mounts
}

// mounts are those of the pod: the root's has none.
func (s PodSpec) mounts(cluster *provision.Cluster) []provision.Mount {
	if s.isRoot() {
		return nil
	}
	return slices.Concat(cluster.Mounts, s.Mounts)
}

func (s PodSpec) isRoot() bool { return s.Host.IsCluster() }

func tolerations(of []provision.Toleration) []any {
	var all []any
	for _, t := range of {
		one := object{}
		words := map[string]string{"key": t.Key, "operator": t.Operator, "value": t.Value, "effect": t.Effect}
		for name, value := range words {
			if value != "" {
				one[name] = value
			}
		}
		all = append(all, one)
	}
	return all
}

func toObject(of map[string]string) object {
	o := object{}
	for name, value := range of {
		o[name] = value
	}
	return o
}
