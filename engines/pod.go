package engines

const notInPod = "An engine in a pod has no %s of its own: the cluster says it, and by the cluster's and the host's " +
	"block you do. Remove the argument."

// checkPod: of a pod's container the engine's block says less than of one of Docker.
func checkPod(e *Engine, found *findings) {
	if e.Host == nil || e.Host.Cluster == nil {
		return
	}
	c := e.Container
	for _, s := range []struct {
		name string
		said bool
	}{
		{"ipc", c.IPC != ""}, {"network", c.Network != ""}, {"user", c.User != ""},
		{"security_opt", len(c.SecurityOpt) > 0}, {"devices", len(c.Devices) > 0}, {"ulimits", len(c.Ulimits) > 0},
	} {
		if s.said {
			found.add("container."+s.name, notInPod, s.name)
		}
	}
}
