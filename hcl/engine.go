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
		args:   engineArguments(),
		blocks: []nested{
			part(containerBlock(), func(e *engines.Engine) *engines.ContainerSettings { return &e.Container }),
			part(readyBlock(), func(e *engines.Engine) *engines.Ready { return &e.Ready }),
			part(buildBlock(), func(e *engines.Engine) *engines.Build { return fresh(&e.Build) }),
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
		forEach(),
		unbound("inherits", engineOfLab.kind),
		arg("host", hostOfLab, func(e *engine, h *provision.Host) { e.Host = h }),
		arg("model", modelOfLab, func(e *engine, m *engines.Model) { e.Model = m }),
		arg("image", text, func(e *engine, s string) { e.Image = s }),
		arg("env", environment, func(e *engine, env []provision.EnvVar) { e.Env = env }),
		arg("flags", flags, func(e *engine, all []engines.Flag) { e.Flags = all }),
		arg("config", document, func(e *engine, t provision.Text) { e.Config = t }),
		arg("version", engineVersion, func(e *engine, s string) { e.Version = s }),
		arg("offline_command", texts, func(e *engine, argv []string) { e.OfflineCommand = argv }),
		arg("setup", texts, func(e *engine, commands []string) { e.Setup = commands }),
		arg("command", words, func(e *engine, argv []provision.Text) { e.Command = argv }),
		arg("compile_cache", text, func(e *engine, s string) { e.CompileCache = s }),
		arg("port", whole(1, 65535), func(e *engine, n int) { e.Port = n }),
		arg("url", text, func(e *engine, s string) { e.URL = s }),
		arg("urls", texts, setURLs),
		arg("api_key", secretText, func(e *engine, t provision.Text) { e.APIKey = t }),
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
		args: []argument{
			arg("shm_size", size, func(c *container, n int64) { c.ShmSize = n }),
			arg("ipc", text, func(c *container, s string) { c.IPC = s }),
			arg("network", word("host", "bridge", "none"), func(c *container, s string) { c.Network = s }),
			arg("privileged", truth, func(c *container, on bool) { c.Privileged = &on }),
			arg("user", text, func(c *container, s string) { c.User = s }),
			arg("cap_add", texts, func(c *container, list []string) { c.CapAdd = list }),
			arg("security_opt", texts, func(c *container, list []string) { c.SecurityOpt = list }),
			arg("devices", texts, func(c *container, list []string) { c.Devices = list }),
			arg("mounts", mounts, func(c *container, list []provision.Mount) { c.Mounts = list }),
			arg("gpu_ids", texts, func(c *container, list []string) { c.GPUIDs = list }),
			arg("entrypoint", texts, func(c *container, argv []string) { c.Entrypoint = argv }),
			arg("ulimits", ulimits, func(c *container, list []engines.Ulimit) { c.Ulimits = list }),
			arg("stop_grace", duration, func(c *container, d time.Duration) { c.StopGrace = d }),
		},
	}
}

func buildBlock() *blockType {
	type build = engines.Build
	return &blockType{
		name: "build",
		args: []argument{ // what is required may be inherited
			arg("commands", texts, func(b *build, list []string) { b.Commands = list }),
			arg("output", text, func(b *build, s string) { b.Output = s }),
			arg("image", text, func(b *build, s string) { b.Image = s }),
			arg("inputs", texts, func(b *build, list []string) { b.Inputs = list }),
		},
	}
}

func readyBlock() *blockType {
	return &blockType{
		name: "ready",
		args: []argument{
			arg("stall", duration, func(r *engines.Ready, d time.Duration) { r.Stall = d }),
			arg("timeout", duration, func(r *engines.Ready, d time.Duration) { r.Timeout = d }),
		},
	}
}
