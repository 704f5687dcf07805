package engines

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// StopGrace is how long an engine may take to stop before it is killed. A GPU
// process that is killed in the middle of a call can leave its memory allocated
// until the box is rebooted (sgl-project/sglang#30431, ROCm/mori#473), so this
// is generous.
const StopGrace = 60 * time.Second

// cacheTarget is where Hugging Face's cache of the host appears in a container.
const cacheTarget = "/root/.cache/huggingface"

// HubOffline is the variable by which Hugging Face's library asks nobody.
const HubOffline = "HF_HUB_OFFLINE"

// Container is what the engine asks of its host: the whole container, but for
// its name and labels, which are the plan's. It is not meaningful for an
// external engine.
func Container(e *Engine) provision.Container {
	c := provision.Container{
		Image:      e.Image,
		Env:        slices.Clone(e.Env),
		Port:       Port(e),
		Init:       true,
		StopSignal: "SIGTERM",
		StopGrace:  StopGrace,
	}
	e = e.withSecretsInFile()
	if e.Config.Reveal() != "" {
		c.Files = []provision.File{{Name: configName, Text: e.Config}}
	}
	argv := serverCommand(e)
	c.Entrypoint, c.Command = argv[:1], argv[1:]

	if Runtime(e) == provision.Docker {
		c.Network = "host" // no bridge and no proxy between the load and the engine
		model(&c, e)
		gpus(&c, e)
		if e.Build != nil {
			c.Mounts = append(c.Mounts, e.Build.mount(e))
		}
	} else {
		if e.Model != nil && Real(e) && strings.HasPrefix(e.Model.Cache, "/") {
			cache(&c, e.Model, e.Model.Cache)
		}
		seeing(&c, e)
	}
	patient(&c, e)
	compileCache(&c, e)
	override(&c, e.Container)
	slices.SortStableFunc(c.Env, func(a, b provision.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// patient has vLLM wait for its own processes as long as hcl waits for it: by itself it gives up after 600 s, in
// which no large model is loaded from a cold disk.
func patient(c *provision.Container, e *Engine) {
	const name, hours = "VLLM_ENGINE_READY_TIMEOUT_S", 4 * time.Hour
	if e.Kind == VLLM && setting.Judge(setting.Variables(VLLM), name, e.version()).Fault == setting.Right {
		setEnv(c, name, strconv.Itoa(int(cmp.Or(e.Ready.Timeout, hours).Seconds())))
	}
}

// model mounts the model, or the cache that holds it.
func model(c *provision.Container, e *Engine) {
	if e.Model == nil {
		return
	}
	if strings.HasPrefix(e.Model.Repo, "/") {
		c.Mounts = append(c.Mounts, provision.Mount{Source: e.Model.Repo, Target: e.Model.Repo, ReadOnly: true})
	}
	if e.Model.Cache != "" {
		c.Mounts = append(c.Mounts, provision.Mount{Source: e.Model.Cache, Target: cacheTarget})
		cache(c, e.Model, cacheTarget)
	}
}

// cache tells the engine where Hugging Face's cache is.
func cache(c *provision.Container, m *Model, at string) {
	setEnv(c, "HF_HOME", at)
	if m.Download {
		// It is there: a start asks nobody, and needs no token.
		setEnv(c, HubOffline, "1")
	}
}

// gpus gives the container the host's GPUs in the vendor's way.
//
// NVIDIA: a device request to the container toolkit. AMD: the kernel driver's
// device nodes and the numeric groups that own them (vLLM's and SGLang's ROCm
// installation pages). Both: the host's shared memory, and memory that may be
// locked, which NCCL and RCCL need.
func gpus(c *provision.Container, e *Engine) {
	if e.Host() == nil || e.Host().GPUs.Count == 0 || e.Router {
		return
	}
	ids := e.GPUIDs()
	switch e.Host().GPUs.Vendor {
	case provision.NVIDIA:
		if len(ids) > 0 {
			c.GPUIDs = slices.Clone(ids)
		} else {
			c.GPUs = -1
		}
	case provision.AMD:
		c.Devices = []string{"/dev/kfd", "/dev/dri"}
		c.HostGroups = []string{"video", "render"}
		c.CapAdd = []string{"SYS_PTRACE"}
		c.SecurityOpt = []string{"seccomp=unconfined"}
		seeing(c, e)
	}
	c.IPC = "host"
	c.Ulimits = []provision.Ulimit{
		{Name: "memlock", Soft: -1, Hard: -1},
		{Name: "stack", Soft: 67108864, Hard: 67108864},
	}
}

// seeing tells the engine which GPUs are its own, where nothing keeps the others from it. CUDA's own order is
// by speed; that of nvidia-smi, and so of the lab, is by place.
func seeing(c *provision.Container, e *Engine) {
	if e.Host() == nil || len(e.GPUIDs()) == 0 || e.Router {
		return
	}
	ids := strings.Join(e.GPUIDs(), ",")
	switch e.Host().GPUs.Vendor {
	case provision.NVIDIA:
		setEnv(c, "CUDA_DEVICE_ORDER", "PCI_BUS_ID")
		setEnv(c, visibleCUDA, ids)
	case provision.AMD:
		setEnv(c, visibleHIP, ids)
	}
}

// The variables by which a program sees some of the GPUs.
const (
	visibleCUDA = "CUDA_VISIBLE_DEVICES"
	visibleHIP  = "HIP_VISIBLE_DEVICES"
)

// override applies what the lab says about the container.
func override(c *provision.Container, s ContainerSettings) {
	if len(s.Entrypoint) > 0 {
		c.Command = append(slices.Clone(c.Entrypoint), c.Command...)
		c.Entrypoint = plainWords(s.Entrypoint)
	}
	if s.ShmSize > 0 {
		// The host's /dev/shm has a size of its own; asking for one means a
		// private one.
		c.ShmSize, c.IPC = s.ShmSize, ""
	}
	c.IPC, c.Network, c.User = cmp.Or(s.IPC, c.IPC), cmp.Or(s.Network, c.Network), cmp.Or(s.User, c.User)
	c.StopGrace = cmp.Or(s.StopGrace, c.StopGrace)
	if s.Privileged != nil {
		c.Privileged = *s.Privileged
	}
	c.CapAdd = union(c.CapAdd, s.CapAdd)
	c.SecurityOpt = union(c.SecurityOpt, s.SecurityOpt)
	c.Devices = union(c.Devices, s.Devices)
	c.Mounts = append(c.Mounts, s.Mounts...)
	for _, u := range s.Ulimits {
		c.Ulimits = slices.DeleteFunc(c.Ulimits, func(have provision.Ulimit) bool { return have.Name == u.Name })
		if u.Value != nil {
			c.Ulimits = append(c.Ulimits, provision.Ulimit{Name: u.Name, Soft: *u.Value, Hard: *u.Value})
		}
	}
}

// union appends what is not there yet.
func union(have, more []string) []string {
	for _, m := range more {
		if !slices.Contains(have, m) {
			have = append(have, m)
		}
	}
	return have
}

// setEnv sets a variable unless the lab already does.
func setEnv(c *provision.Container, name, value string) {
	if !slices.ContainsFunc(c.Env, func(v provision.EnvVar) bool { return v.Name == name }) {
		c.Env = append(c.Env, provision.EnvVar{Name: name, Value: provision.Plain(value)})
	}
}
