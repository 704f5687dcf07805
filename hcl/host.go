package hcl

import (
	"net"
	"regexp"
	"strings"
	"time"

	"hclbench/hcl/lang"
	"hclbench/plain"
	"hclbench/provision"
)

func hostBlock() *lang.BlockType {
	type host = provision.Host
	return &lang.BlockType{
		Name: "host", Labels: []lang.Label{{What: "name", Form: lang.Identifier}}, Root: "host",
		Args: []lang.Argument{
			lang.ForEach(),
			lang.Arg("address", lang.Text, func(h *host, s string) { h.Address = s }),
			lang.Arg("cluster", clusterOfLab, func(h *host, c *provision.Cluster) { h.Cluster, h.Runtime = c, provision.Process }),
			lang.Arg("user", lang.Text, func(h *host, s string) { h.User = s }),
			lang.Arg("identity_file", lang.Text, func(h *host, s string) { h.IdentityFile = s }),
			lang.Arg("host_key", lang.Text, func(h *host, s string) { h.HostKey = s }),
			lang.Arg("jump", jumpHost, func(h *host, jump *host) { h.Jump = jump }),
			lang.Arg("gpus", gpus, func(h *host, g provision.GPUs) { h.GPUs = g }),
			lang.Arg("requests", quantities, func(h *host, m map[string]string) { h.Requests = m }),
			lang.Arg("limits", quantities, func(h *host, m map[string]string) { h.Limits = m }),
			lang.Arg("runtime", engineRuntime, func(h *host, r provision.Runtime) { h.Runtime = r }),
			lang.Arg("docker", lang.Text, func(h *host, s string) { h.Docker = s }),
			lang.Arg("image_from", imageFrom, func(h *host, from provision.ImageFrom) { h.ImageFrom = from }),
			lang.Arg("price_per_hour", lang.Number(0, 1e6), func(h *host, usd float64) { h.PricePerHour = usd }),
			lang.Description(func(h *host, s string) { h.Description = s }),
		},
		Blocks: []lang.Nested{
			lang.Part(fabricBlock(), func(h *host) *provision.Fabric { return &h.Fabric }),
			lang.OptionalPart(requireBlock(), func(h *host) **provision.Require { return &h.Require }),
			lang.OptionalPart(prepareBlock(), func(h *host) **provision.Prepare { return &h.Prepare }),
			lang.OptionalPart(rentBlock(), func(h *host) **provision.Rent { return &h.Rent }),
		},
		Make: lang.Makes(func(d *lang.Declared) *host {
			return &host{
				Name: d.FullName(), Pos: d.Header.String(), Runtime: provision.Docker, ImageFrom: provision.FromRegistry,
			}
		}),
		Check: lang.Checks(checkHost),
	}
}

func fabricBlock() *lang.BlockType {
	type fabric = provision.Fabric
	return lang.BlockOf("fabric",
		lang.Arg("address", lang.Text, func(f *fabric, s string) { f.Address = s }),
		lang.Arg("interface", lang.Text, func(f *fabric, s string) { f.Interface = s }),
		lang.Arg("rdma", lang.Texts, func(f *fabric, list []string) { f.RDMA = list }),
		lang.Arg("gid_index", lang.Whole(0, 255), func(f *fabric, n int) { f.GIDIndex = &n }),
	)
}

func requireBlock() *lang.BlockType {
	type require = provision.Require
	return lang.BlockOf("require",
		lang.Arg("driver", versions, func(r *require, v provision.Versions) { r.Driver = v }),
		lang.Arg("rocm", versions, func(r *require, v provision.Versions) { r.ROCm = v }),
		lang.Arg("gpu_memory", lang.Size, func(r *require, n int64) { r.GPUMemory = n }),
		lang.Arg("memory", lang.Size, func(r *require, n int64) { r.Memory = n }),
		lang.Arg("disk_free", lang.Size, func(r *require, n int64) { r.DiskFree = n }),
		lang.Arg("idle_gpus", lang.Bool, func(r *require, on bool) { r.IdleGPUs = on }),
		lang.Arg("numa_balancing", lang.Bool, func(r *require, on bool) { r.NUMABalancing = &on }),
	)
}

func prepareBlock() *lang.BlockType {
	type prepare = provision.Prepare
	return lang.BlockOf("prepare",
		lang.Arg("persistence_mode", lang.Bool, func(p *prepare, on bool) { p.PersistenceMode = &on }),
		lang.Arg("power_cap", lang.Number(1, 10000), func(p *prepare, watts float64) { p.PowerCap = watts }),
		lang.Arg("lock_clocks", lang.Whole[int64](1, 10000), func(p *prepare, mhz int64) { p.LockClocks = mhz }),
		lang.Arg("numa_balancing", lang.Bool, func(p *prepare, on bool) { p.NUMABalancing = &on }),
		lang.Arg("ecc", lang.Bool, func(p *prepare, on bool) { p.ECC = &on }),
	)
}

func rentBlock() *lang.BlockType {
	type rent = provision.Rent
	return lang.BlockOf("rent",
		lang.Arg("plugin", lang.Text, func(r *rent, s string) { r.Plugin = s }).
			Required("It is the NAME of the program hcl-rent-NAME that speaks to the provider, such as \"shadeform\"."),
		lang.Arg("ttl", lang.DurationBetween[time.Duration](10*time.Minute, 30*24*time.Hour), func(r *rent, d time.Duration) { r.TTL = d }).
			Required("It is the box's hard end, such as \"3h\", which nobody renews."),
		lang.Arg("max_price", lang.Number(0.01, 1e5), func(r *rent, usd float64) { r.MaxPrice = usd }).
			Required("It is the most USD an hour that the box may cost."),
		lang.Arg("keep", lang.Duration, func(r *rent, d time.Duration) { r.Keep = d }),
		lang.Arg("boot", lang.DurationBetween[time.Duration](time.Minute, 6*time.Hour), func(r *rent, d time.Duration) { r.Boot = d }),
		lang.Arg("spec", specification, func(r *rent, list []envVar) {
			r.Spec = map[string]string{}
			for _, x := range list {
				r.Spec[x.Name] = x.Value.Reveal()
			}
		}),
		lang.Arg("env", environment, func(r *rent, env []envVar) { r.Env = env }),
	)
}

const (
	emptyAddress = `Write the host's name or IP address, or "local" for the machine that hcl runs on.`
	emptyGPUs    = `"gpus" is empty, so nothing would be checked. Write which GPUs must be there, such as "8xH200".` + orNull
	noAddress    = "A host says where it is: an address, or \"local\" for the machine that hcl runs on, the cluster that it is a pod of, or how it is rented:\n\n" +
		"    address = \"203.0.113.7\""
	ofMachine  = "Host %s is a pod of cluster %s, and %s is about machines that are reached by SSH. Remove one of both."
	ofPod      = "Host %s is a machine, of which engines get all, and %s is what a pod asks for. Remove it, or name a cluster."
	noPrepare  = "A pod cannot set what its node is like. Remove the block, and have who runs the cluster set it."
	notHostKey = `%q is not a public key: %v. Copy one such as "ssh-ed25519 AAAA…" from /etc/ssh/ssh_host_ed25519_key.pub.`
	noJump     = "Host %s comes and goes with the runs, so that nothing can be reached through it. Name a host that has an address."
	unknownGPU = "hcl knows no GPU %q, and takes it for one of %s.%s A host with other GPUs is refused."
)

// checkHost holds what a host block says against what hosts, keys and GPUs are.
func checkHost(b *lang.Block, h *provision.Host) {
	checkPlace(b, h)
	h.IdentityFile = b.Vars.AtHome(h.IdentityFile)
	if !b.FailIfEmpty("address", emptyAddress) && h.Address != "" {
		if why := wrongAddress(h.Address); why != nil {
			b.Fail(b.ValueOf("address"), "Wrong value", "%q is not the address of a host. %s", h.Address, why)
		}
	}
	b.FailIfEmpty("identity_file", "Write the file of a private key."+orNull)
	if !b.FailIfEmpty("host_key", "Write the host's public key."+orNull) && h.HostKey != "" {
		if err := provision.CheckHostKey(h.HostKey); err != nil {
			b.Fail(b.ValueOf("host_key"), "Wrong value", notHostKey, plain.Cut(h.HostKey, lang.MaxShown), err)
		}
	}
	gpus := b.Arg("gpus")
	if raw, ok := lang.AsString(gpus.Raw); gpus.IsSet() && ok && strings.TrimSpace(raw) == "" {
		b.Fail(b.ValueOf("gpus"), "Wrong value", emptyGPUs)
	}
	model := h.GPUs.Model
	if gpus.IsSet() && model != "" && !h.GPUs.IsKnown() {
		maker := "NVIDIA"
		if h.GPUs.Vendor == provision.AMD {
			maker = "AMD"
		}
		b.Warn(gpus.At, "Unknown GPU", unknownGPU, model, maker, lang.DidYouMean(model, provision.GPUModels(), nil))
	}
	if x := b.Arg("require.rocm"); x.IsSet() && h.GPUs.Vendor == provision.NVIDIA {
		b.Fail(x.At, "No ROCm here", "ROCm is AMD's, and this host has %s. Write driver for NVIDIA's.", h.GPUs)
	}
	if h.Prepare != nil {
		checkPrepare(b, h)
	}
	if x, f := b.Arg("fabric.address"), h.Fabric; x.IsValid() && net.ParseIP(f.Address) == nil {
		b.Fail(b.ValueOf("fabric.address"), "Wrong value", "%q is not an IP address. Write the host's own in the network between the "+
			"hosts, such as \"10.0.0.1\".", f.Address)
	}
	if x, f := b.Arg("fabric.interface"), h.Fabric; x.IsValid() && !interfaceName.MatchString(f.Interface) {
		b.Fail(b.ValueOf("fabric.interface"), "Wrong value", "%q is not the name of a network interface, such as \"eno1\".", f.Interface)
	}
	jump := b.Arg("jump")
	if h.Jump != nil && h.Jump.Pos == "" {
		h.Jump.Pos = jump.At.String()
	}
	switch {
	case h.Jump == nil:
	case h.Jump.Local():
		b.Fail(jump.At, "Wrong value",
			"This is the machine that hcl runs on, so there is nothing to jump over. Remove the argument.")
	case h.Jump.Cluster != nil || h.Jump.Rent != nil:
		b.Fail(jump.At, "Wrong value", noJump, h.Jump.Name)
	}
	if h.Local() {
		for _, name := range []string{"user", "identity_file", "host_key", "jump"} {
			if x := b.Arg(name); x.IsSet() {
				b.Warn(x.At, "No effect",
					`The address is "local", the machine that hcl runs on, which needs no SSH: %s has no effect.`, name)
			}
		}
	}
}

// ofMachines are the arguments of a host that is no pod.
var ofMachines = []string{"address", "user", "identity_file", "host_key", "jump", "runtime", "docker", "image_from"}

// checkPlace: a host is a machine with an address, or a pod of a cluster.
func checkPlace(b *lang.Block, h *provision.Host) {
	if h.Rent != nil {
		checkRent(b, h)
	}
	if h.Cluster == nil {
		for _, name := range []string{"requests", "limits"} {
			if x := b.Arg(name); x.IsSet() && b.Arg("address").IsSet() {
				b.Fail(x.At, "A machine, not a pod", ofPod, h.Name, name)
			}
		}
		if !b.Arg("address").IsSet() && !b.Arg("cluster").IsSet() && h.Rent == nil {
			b.Fail(b.Header.Lacking("address"), "Missing argument", "%s", noAddress)
		}
		return
	}
	for _, name := range ofMachines {
		if x := b.Arg(name); x.IsSet() {
			b.Fail(x.At, "A pod, not a machine", ofMachine, h.Name, h.Cluster.Name, name)
		}
	}
	for _, name := range b.Parts("prepare") {
		b.Fail(b.At(name), "A pod, not a machine", noPrepare)
	}
}

// ofProviders are the arguments that tell of a rented host what its provider tells.
var ofProviders = []string{"address", "cluster", "host_key", "price_per_hour", "fabric.address", "fabric.interface"}

const (
	isRented   = "Host %s is rented: %s is what its provider tells. Remove it, or the rent block."
	pluginName = "%q is not the name of a plugin, such as \"shadeform\": lower-case letters, digits and hyphens. Its program is hcl-rent-NAME."
	longKeep   = "It would stay for %s after its last use, and its hard end is %s after its beginning."
)

// checkRent: what a provider tells, nobody else does. Until it does, the host costs the most that it may.
func checkRent(b *lang.Block, h *provision.Host) {
	h.PricePerHour = h.Rent.MaxPrice
	for _, name := range ofProviders {
		if x := b.Arg(name); x.IsSet() {
			b.Fail(x.At, "A rented host", isRented, h.Name, name)
		}
	}
	if x := b.Arg("rent.plugin"); x.IsValid() && !provision.IsPlugin(h.Rent.Plugin) {
		b.Fail(b.ValueOf("rent.plugin"), "Wrong value", pluginName, plain.Cut(h.Rent.Plugin, lang.MaxShown))
	}
	if x := b.Arg("rent.keep"); x.IsValid() && b.Arg("rent.ttl").IsValid() && h.Rent.Keep >= h.Rent.TTL {
		b.Fail(b.ValueOf("rent.keep"), "Wrong value", longKeep, h.Rent.Keep, h.Rent.TTL)
	}
}

// interfaceName is what Linux takes for the name of a network interface.
var interfaceName = regexp.MustCompile(`^[^\s/:]{1,15}$`)

func checkPrepare(b *lang.Block, h *provision.Host) {
	if x := b.Arg("prepare.persistence_mode"); x.IsSet() && h.GPUs.Vendor == provision.AMD {
		b.Fail(x.At, "No persistence mode here",
			"It is NVIDIA's, and this host has %s, whose driver always keeps its settings. Remove the argument.", h.GPUs)
	}
	for _, name := range []string{"persistence_mode", "power_cap", "lock_clocks", "ecc"} {
		if x := b.Arg("prepare." + name); x.IsSet() && h.GPUs.Count == 0 {
			b.Fail(x.At, "No GPUs here",
				`%s is set on GPUs, and the host block names none. Add gpus, such as "8xH200".`, name)
		}
	}
	set := h.Prepare.NUMABalancing
	if h.Require != nil && set != nil && h.Require.NUMABalancing != nil && *h.Require.NUMABalancing != *set {
		b.Fail(b.At("prepare.numa_balancing"), "Contradiction",
			"The host's require block wants the opposite. Remove one of them.")
	}
}
