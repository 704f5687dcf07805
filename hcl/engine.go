package hcl

import (
	"time"

	"hclbench/engines"
	"hclbench/provision"
)

func engineBlock() *blockType {
	return &blockType{
		name: "engine", root: "engine", perCell: true,
		labels: []label{{what: "kind", kinds: engines.Kinds()}, {what: "name", form: identifier}},
		doc:    "An inference engine: what is started, where, and how.",
		args:   engineArguments(),
		blocks: []nested{
			part(containerBlock(), func(e *engines.Engine) *engines.ContainerSettings { return &e.Container }),
			part(readyBlock(), func(e *engines.Engine) *engines.Ready { return &e.Ready }),
			part(buildBlock(), func(e *engines.Engine) *engines.Build {
				e.Build = &engines.Build{}
				return e.Build
			}),
		},
		make: becomes(func(d *declared) *engines.Engine {
			return &engines.Engine{Kind: d.kind, Name: d.fullName(), Instance: d.instanceName(), Pos: pos(d.header)}
		}),
		check: checks(checkEngine),
	}
}

func engineArguments() []argument {
	type engine = engines.Engine
	return []argument{
		forEach,
		unbound("inherits", engineOfLab.kind, "nothing",
			"Another engine of the same kind. Whatever this block does not say comes from there; "+
				"`env`, `flags` and `config` merge key by key, and `null` removes."),
		arg("host", hostOfLab, func(e *engine, h *provision.Host) { e.Host = h }, "required, except for `external`",
			"Where it runs: `host.NAME`."),
		arg("model", modelOfLab, func(e *engine, m *engines.Model) { e.Model = m }, "required for `sglang`, `vllm`, `trtllm`",
			"What it serves: `model.NAME`."),
		arg("image", text, func(e *engine, s string) { e.Image = s }, "required for what runs in a container",
			"Container image, with a version or a digest."),
		arg("env", environment, func(e *engine, env []provision.EnvVar) { e.Env = env }, "none",
			"Environment variables. Values may be sensitive."),
		arg("flags", flags, func(e *engine, all []engines.Flag) { e.Flags = all }, "none",
			"The engine's own command-line flags, without the leading dashes. Values may be sensitive."),
		arg("config", document, func(e *engine, t provision.Text) { e.Config = t }, "none",
			"What a configuration file of the engine's own says: an object, which vLLM and SGLang find by `--config` "+
				"and TensorRT-LLM by `--extra_llm_api_options`; a `command` of the lab's finds it in `/hcl/config.yaml`, "+
				"a process in `config.yaml`. Values may be sensitive."),
		arg("version", engineVersion, func(e *engine, s string) { e.Version = s }, "as the image's tag tells",
			"The engine's own, where the tag does not tell it, or `setup` puts another in place: `\"0.7.3\"`. "+
				"It decides how an [offline benchmark](#mode) is started."),
		arg("offline_command", texts, func(e *engine, argv []string) { e.OfflineCommand = argv },
			"as the kind and the version have it",
			"How the engine's [offline benchmark](#mode) is started, before the arguments that hcl gives it: "+
				"`[\"python3\", \"/work/benchmark_throughput.py\"]`."),
		arg("setup", texts, func(e *engine, commands []string) { e.Setup = commands }, "none",
			"Shell commands run in the container before the server; part of what the engine is."),
		arg("command", words, func(e *engine, argv []provision.Text) { e.Command = argv },
			"the kind's; required for `openai`",
			"Replaces the whole server command: a list of words. They may be sensitive."),
		arg("compile_cache", text, func(e *engine, s string) { e.CompileCache = s }, "lost with the container",
			"Directory on the host that keeps, for each image apart, the kernels that an engine compiles. "+
				"Results say whether a start found it cold or warm."),
		arg("port", whole(1, 65535), func(e *engine, n int) { e.Port = n }, "the kind's; required for `openai`",
			"Where the server listens."),
		arg("url", text, func(e *engine, s string) { e.URL = s }, "this or `urls` is required for `external`",
			"Of a server that someone else runs: `\"http://203.0.113.7:8000\"`."),
		arg("urls", texts, setURLs, "one server, `url`",
			"Of several servers of the same model that someone else runs: requests go to each in turn."),
		arg("api_key", secretText, func(e *engine, t provision.Text) { e.APIKey = t }, "none",
			"What requests carry as `Authorization: Bearer …`, also those that find out whether the server is ready. "+
				"Always treated as sensitive. It does not start an engine with a key: for `vllm`, "+
				"write `env = { VLLM_API_KEY = var.key }` as well."),
		described(func(e *engine, s string) { e.Description = s }),
	}
}

func setURLs(e *engines.Engine, urls []string) {
	if len(urls) > 0 {
		e.URL, e.URLs = urls[0], urls[1:]
	}
}

func containerBlock() *blockType {
	type container = engines.ContainerSettings
	return &blockType{
		name: "container",
		doc:  "Overrides what the engine's kind asks of its container on this maker of GPUs.",
		args: []argument{
			arg("shm_size", size, func(c *container, n int64) { c.ShmSize = n }, "the kind's", "Size of `/dev/shm`."),
			arg("ipc", text, func(c *container, s string) { c.IPC = s }, "the kind's",
				"IPC mode: `\"host\"`, `\"private\"`."),
			arg("network", word("host", "bridge", "none"), func(c *container, s string) { c.Network = s }, "the kind's",
				"Network mode; with `\"bridge\"` the port is published on 127.0.0.1."),
			arg("privileged", truth, func(c *container, on bool) { c.Privileged = &on }, "the kind's",
				"All of the host's devices and capabilities."),
			arg("user", text, func(c *container, s string) { c.User = s }, "the image's", "`\"uid\"` or `\"uid:gid\"`."),
			arg("cap_add", texts, func(c *container, list []string) { c.CapAdd = list }, "the kind's",
				"Capabilities, such as `\"SYS_PTRACE\"`."),
			arg("security_opt", texts, func(c *container, list []string) { c.SecurityOpt = list }, "the kind's",
				"Security options, such as `\"seccomp=unconfined\"`."),
			arg("devices", texts, func(c *container, list []string) { c.Devices = list }, "the kind's",
				"Device files of the host, such as `\"/dev/infiniband\"`."),
			arg("mounts", mounts, func(c *container, list []provision.Mount) { c.Mounts = list }, "the model's cache",
				"`\"/on/host:/in/container\"`, with `:ro` for read-only."),
			arg("gpu_ids", texts, func(c *container, list []string) { c.GPUIDs = list }, "all GPUs",
				"The engine uses these GPUs of its host only: `[\"0\", \"1\"]`."),
			arg("entrypoint", texts, func(c *container, argv []string) { c.Entrypoint = argv }, "the image's",
				"Replaces the image's entrypoint."),
			arg("ulimits", ulimits, func(c *container, list []engines.Ulimit) { c.Ulimits = list },
				"with GPUs `memlock = -1`, `stack = 67108864`",
				"Resource limits, soft and hard; -1 is none, `null` leaves one to the daemon, "+
					"which a rootless daemon needs: it can raise none."),
			arg("stop_grace", duration, func(c *container, d time.Duration) { c.StopGrace = d }, "the kind's",
				"Between the stop signal and the kill."),
		},
	}
}

func buildBlock() *blockType {
	type build = engines.Build
	return &blockType{
		name: "build",
		doc: "Makes, before the first start, what the server serves instead of the model's `repo`. " +
			"The output is kept on the host and used again until the image, the commands, the inputs, " +
			"the environment or the model change.",
		args: []argument{ // what is required may be inherited
			arg("commands", texts, func(b *build, list []string) { b.Commands = list }, "**required**",
				"Shell commands, run one after the other in a container of their own, "+
					"with the engine's GPUs, mounts and environment."),
			arg("output", text, func(b *build, s string) { b.Output = s }, "**required**",
				"Directory in the container where they leave it; the server finds it at the same path."),
			arg("image", text, func(b *build, s string) { b.Image = s }, "the engine's", "Image of that container."),
			arg("inputs", texts, func(b *build, list []string) { b.Inputs = list }, "none",
				"Other things that the output depends on, such as `file(\"patch.diff\")`."),
		},
	}
}

func readyBlock() *blockType {
	return &blockType{
		name: "ready",
		doc:  "When waiting for the engine is given up.",
		args: []argument{
			arg("stall", duration, func(r *engines.Ready, d time.Duration) { r.Stall = d }, `"15m"`,
				"Nothing new was logged or answered for this long. A log line of a form that was there before is "+
					"nothing new once the server listens, unless it counts on."),
			arg("timeout", duration, func(r *engines.Ready, d time.Duration) { r.Timeout = d }, "no limit", "In all."),
		},
	}
}
