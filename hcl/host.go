package hcl

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
)

func hostBlock() *blockType {
	type host = provision.Host
	return &blockType{
		name: "host", labels: []label{{what: "name", form: identifier}}, root: "host",
		args: []argument{
			forEach(),
			arg("address", text, func(h *host, s string) { h.Address = s }),
			arg("cluster", clusterOfLab, func(h *host, c *provision.Cluster) { h.Cluster, h.Runtime = c, provision.Process }),
			arg("user", text, func(h *host, s string) { h.User = s }),
			arg("identity_file", text, func(h *host, s string) { h.IdentityFile = s }),
			arg("host_key", text, func(h *host, s string) { h.HostKey = s }),
			arg("jump", jumpHost, func(h *host, jump *host) { h.Jump = jump }),
			arg("gpus", gpus, func(h *host, g provision.GPUs) { h.GPUs = g }),
			arg("requests", quantities, func(h *host, m map[string]string) { h.Requests = m }),
			arg("limits", quantities, func(h *host, m map[string]string) { h.Limits = m }),
			arg("runtime", engineRuntime, func(h *host, r provision.Runtime) { h.Runtime = r }),
			arg("docker", text, func(h *host, s string) { h.Docker = s }),
			arg("image_from", imageFrom, func(h *host, from provision.ImageFrom) { h.ImageFrom = from }),
			arg("price_per_hour", number(0, 1e6), func(h *host, usd float64) { h.PricePerHour = usd }),
			described(func(h *host, s string) { h.Description = s }),
		},
		blocks: []nested{
			part(fabricBlock(), func(h *host) *provision.Fabric { return &h.Fabric }),
			part(requireBlock(), func(h *host) *provision.Require { return fresh(&h.Require) }),
			part(prepareBlock(), func(h *host) *provision.Prepare { return fresh(&h.Prepare) }),
		},
		make: becomes(func(d *declared) *host {
			return &host{
				Name: d.fullName(), Pos: pos(d.header), Runtime: provision.Docker, ImageFrom: provision.FromRegistry,
			}
		}),
		check: checks(checkHost),
	}
}

func fabricBlock() *blockType {
	type fabric = provision.Fabric
	return blockOf("fabric",
		arg("address", text, func(f *fabric, s string) { f.Address = s }),
		arg("interface", text, func(f *fabric, s string) { f.Interface = s }),
		arg("rdma", texts, func(f *fabric, list []string) { f.RDMA = list }),
		arg("gid_index", whole(0, 255), func(f *fabric, n int) { f.GIDIndex = &n }),
	)
}

func requireBlock() *blockType {
	type require = provision.Require
	return blockOf("require",
		arg("driver", versions, func(r *require, v provision.Versions) { r.Driver = v }),
		arg("rocm", versions, func(r *require, v provision.Versions) { r.ROCm = v }),
		arg("gpu_memory", size, func(r *require, n int64) { r.GPUMemory = n }),
		arg("memory", size, func(r *require, n int64) { r.Memory = n }),
		arg("disk_free", size, func(r *require, n int64) { r.DiskFree = n }),
		arg("idle_gpus", truth, func(r *require, on bool) { r.IdleGPUs = on }),
		arg("numa_balancing", truth, func(r *require, on bool) { r.NUMABalancing = &on }),
	)
}

func prepareBlock() *blockType {
	type prepare = provision.Prepare
	return blockOf("prepare",
		arg("persistence_mode", truth, func(p *prepare, on bool) { p.PersistenceMode = &on }),
		arg("power_cap", number(1, 10000), func(p *prepare, watts float64) { p.PowerCap = watts }),
		arg("lock_clocks", whole[int64](1, 10000), func(p *prepare, mhz int64) { p.LockClocks = mhz }),
		arg("numa_balancing", truth, func(p *prepare, on bool) { p.NUMABalancing = &on }),
		arg("ecc", truth, func(p *prepare, on bool) { p.ECC = &on }),
	)
}

// orNull is how an argument is left out by an expression.
const orNull = " To leave it out, write null, or remove the argument."

const (
	emptyAddress = `Write the host's name or IP address, or "local" for the machine that hcl runs on.`
	emptyGPUs    = `"gpus" is empty, so nothing would be checked. Write which GPUs must be there, such as "8xH200".` + orNull
	noAddress    = "A host says where it is: an address, or \"local\" for the machine that hcl runs on, or the cluster that it is a pod of:\n\n" +
		"    address = \"203.0.113.7\""
	ofMachine  = "Host %s is a pod of cluster %s, and %s is about machines that are reached by SSH. Remove one of both."
	ofPod      = "Host %s is a machine, of which engines get all, and %s is what a pod asks for. Remove it, or name a cluster."
	noPrepare  = "A pod cannot set what its node is like. Remove the block, and have who runs the cluster set it."
	notHostKey = `%q is not a public key: %v. Copy one such as "ssh-ed25519 AAAA…" from /etc/ssh/ssh_host_ed25519_key.pub.`
	unknownGPU = "hcl knows no GPU %q, and takes it for one of %s.%s A host with other GPUs is refused."
)

// checkHost holds what a host block says against what hosts, keys and GPUs are.
func checkHost(b *block, h *provision.Host) {
	checkPlace(b, h)
	h.IdentityFile = b.vars.atHome(h.IdentityFile)
	if !b.empty("address", emptyAddress) && h.Address != "" {
		if why := wrongAddress(h.Address); why != nil {
			b.failIn("address", "%q is not the address of a host. %s", h.Address, why)
		}
	}
	b.empty("identity_file", "Write the file of a private key."+orNull)
	if !b.empty("host_key", "Write the host's public key."+orNull) && h.HostKey != "" {
		if err := provision.CheckHostKey(h.HostKey); err != nil {
			b.failIn("host_key", notHostKey, plain.Cut(h.HostKey, maxShown), err)
		}
	}
	gpus := b.arg("gpus")
	if raw, ok := asString(gpus.raw); gpus.said() && ok && strings.TrimSpace(raw) == "" {
		b.failIn("gpus", emptyGPUs)
	}
	if model := h.GPUs.Model; gpus.said() && model != "" && !knownGPU(model) {
		b.warn(gpus.at, "Unknown GPU", unknownGPU, model, makerOf(h.GPUs), didYouMean(model, gpuModels(), nil))
	}
	if x := b.arg("require.rocm"); x.said() && h.GPUs.Vendor == provision.NVIDIA {
		b.fail(x.at, "No ROCm here", "ROCm is AMD's, and this host has %s. Write driver for NVIDIA's.", h.GPUs)
	}
	if h.Prepare != nil {
		checkPrepare(b, h)
	}
	checkFabric(b, h.Fabric)
	jump := b.arg("jump")
	if h.Jump != nil && h.Jump.Pos == "" {
		h.Jump.Pos = pos(jump.at)
	}
	if h.Jump != nil && h.Jump.Local() {
		b.fail(jump.at, "Wrong value",
			"This is the machine that hcl runs on, so there is nothing to jump over. Remove the argument.")
	}
	if h.Local() {
		for _, name := range []string{"user", "identity_file", "host_key", "jump"} {
			if x := b.arg(name); x.said() {
				b.warn(x.at, "No effect",
					`The address is "local", the machine that hcl runs on, which needs no SSH: %s has no effect.`, name)
			}
		}
	}
}

// ofMachines are the arguments of a host that is no pod.
var ofMachines = []string{"address", "user", "identity_file", "host_key", "jump", "runtime", "docker", "image_from"}

// checkPlace: a host is a machine with an address, or a pod of a cluster.
func checkPlace(b *block, h *provision.Host) {
	if h.Cluster == nil {
		for _, name := range []string{"requests", "limits"} {
			if x := b.arg(name); x.said() && b.arg("address").said() {
				b.fail(x.at, "A machine, not a pod", ofPod, h.Name, name)
			}
		}
		if !b.arg("address").said() && !b.arg("cluster").said() {
			b.missing(b.header, "address", "Missing argument", "%s", noAddress)
		}
		return
	}
	for _, name := range ofMachines {
		if x := b.arg(name); x.said() {
			b.fail(x.at, "A pod, not a machine", ofMachine, h.Name, h.Cluster.Name, name)
		}
	}
	for _, name := range b.parts("prepare") {
		b.fail(b.said[name].at, "A pod, not a machine", noPrepare)
	}
}

// interfaceName is what Linux takes for the name of a network interface.
var interfaceName = regexp.MustCompile(`^[^\s/:]{1,15}$`)

func checkFabric(b *block, f provision.Fabric) {
	if x := b.arg("fabric.address"); x.fits() && net.ParseIP(f.Address) == nil {
		b.failIn("fabric.address", "%q is not an IP address. Write the host's own in the network between the hosts, "+
			"such as \"10.0.0.1\".", f.Address)
	}
	if x := b.arg("fabric.interface"); x.fits() && !interfaceName.MatchString(f.Interface) {
		b.failIn("fabric.interface", "%q is not the name of a network interface, such as \"eno1\".", f.Interface)
	}
}

func checkPrepare(b *block, h *provision.Host) {
	if x := b.arg("prepare.persistence_mode"); x.said() && h.GPUs.Vendor == provision.AMD {
		b.fail(x.at, "No persistence mode here",
			"It is NVIDIA's, and this host has %s, whose driver always keeps its settings. Remove the argument.", h.GPUs)
	}
	for _, name := range []string{"persistence_mode", "power_cap", "lock_clocks", "ecc"} {
		if x := b.arg("prepare." + name); x.said() && h.GPUs.Count == 0 {
			b.fail(x.at, "No GPUs here",
				`%s is set on GPUs, and the host block names none. Add gpus, such as "8xH200".`, name)
		}
	}
	set := h.Prepare.NUMABalancing
	if h.Require != nil && set != nil && h.Require.NUMABalancing != nil && *h.Require.NUMABalancing != *set {
		b.fail(b.arg("prepare.numa_balancing").at, "Contradiction",
			"The host's require block wants the opposite. Remove one of them.")
	}
}

// likeIPv4 is what is meant as an address of numbers.
var likeIPv4 = regexp.MustCompile(`^\d+(\.\d+){3}$`)

// wrongAddress says what is wrong with the address of a host.
func wrongAddress(s string) error {
	if user, rest, ok := strings.Cut(s, "@"); ok {
		return wrong("The user has an argument of its own: address = %q, user = %q.", rest, user)
	}
	if _, rest, ok := strings.Cut(s, "://"); ok {
		return wrong("It is not a URL. Write only the host, and the port where it is not 22: %q.", rest)
	}
	if s == "" || strings.ContainsAny(s, " \t\n/\\\"'") {
		return wrong("Write a name or an IP address, and the port unless it is 22: " +
			`"203.0.113.7", "gpu1.example.com:2222".`)
	}
	host, after, hasPort := strings.Cut(s, ":")
	if likeIPv4.MatchString(host) && net.ParseIP(host) == nil {
		return wrong("The numbers of an IP address are between 0 and 255.")
	}
	if port, err := strconv.ParseUint(after, 10, 16); hasPort && !strings.Contains(after, ":") &&
		(err != nil || port == 0 || host == "") {
		return wrong("%q is not a port. Write a number between 1 and 65535 after the colon, or nothing for 22.", after)
	}
	return nil
}

// knownGPU takes "A100-SXM4-80GB" for an A100.
func knownGPU(model string) bool {
	first, _, _ := strings.Cut(model, "-")
	return slices.ContainsFunc(gpuModels(), func(known string) bool {
		return strings.EqualFold(known, model) || strings.EqualFold(known, first)
	})
}

func makerOf(g provision.GPUs) string {
	if g.Vendor == provision.AMD {
		return "AMD"
	}
	return "NVIDIA"
}

// gpuModels are the GPUs of data centres and workstations that inference runs on. Of
// two that are as near to a slip, the first is suggested.
func gpuModels() []string {
	return strings.Fields(`
		H200 H100 H800 H20 GH200 B200 B100 B300 GB200 GB300
		A100 A800 A40 A30 A10G A10 A16 A2 L40S L40 L20 L4 L2 T4 V100 V100S P100 P40
		A6000 A5000 A4000 RTX6000 RTX5000 RTX4000 RTX5090 RTX5080 RTX4090 RTX4080 RTX3090 RTX3080
		RTXPRO6000 RTX-PRO-6000 GB10
		MI300X MI300A MI308X MI325X MI350X MI355X MI250X MI250 MI210 MI100 MI50 MI60
		W7900 W7800 R9700`)
}
