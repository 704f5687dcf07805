package engines

import (
	"slices"

	"hclbench/provision"
)

const (
	notInPod = "An engine in a pod has no %s of its own: the cluster says it, and by the cluster's and the host's " +
		"block you do. Remove the argument."
	notOfProcess = "The engines of host.%s are processes and not containers, so that %s has no effect. Remove the argument, " +
		"or write null where it is inherited."
	seenTwice = "gpu_ids says which GPUs the engine uses, and %s says it too. Remove one of both."
)

// checkContainer: a process, or a pod, is not what the engine's block can say of a container of Docker.
func checkContainer(e *Engine, found *findings) {
	if e.Host() == nil || !e.onProcessHost() {
		return
	}
	c, pod := e.Container, e.Host().Cluster != nil
	for _, s := range []struct {
		name      string
		said, pod bool // said by the lab; a pod has it too
	}{
		{"ipc", c.IPC != "", false}, {"network", c.Network != "", false}, {"user", c.User != "", false},
		{"security_opt", len(c.SecurityOpt) > 0, false}, {"devices", len(c.Devices) > 0, false},
		{"ulimits", len(c.Ulimits) > 0, false}, {"shm_size", c.ShmSize > 0, true}, {"mounts", len(c.Mounts) > 0, true},
		{"privileged", c.Privileged != nil, true}, {"cap_add", len(c.CapAdd) > 0, true},
	} {
		switch {
		case !s.said || pod && s.pod:
		case pod:
			found.add("container."+s.name, notInPod, s.name)
		default:
			found.add("container."+s.name, notOfProcess, e.Host().Name, s.name)
		}
	}
	for _, name := range []string{visibleCUDA, visibleHIP} {
		if len(e.GPUIDs()) > 0 && slices.ContainsFunc(e.Env, func(v provision.EnvVar) bool { return v.Name == name }) {
			found.addKey("env", name, seenTwice, name)
		}
	}
}
