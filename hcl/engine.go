package hcl

import (
	"slices"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/origin"
	"hclbench/provision"
)

func engineBlock() *blockType {
	type engine = engines.Engine
	t := &blockType{
		name: "engine", root: "engine", perCell: true,
		labels: []label{{what: "kind", kinds: engines.Kinds()}, {what: "name", form: identifier}},
		args: []argument{
			forEach(),
			unbound("inherits", engineOfLab),
			arg("host", hostOfLab, func(e *engine, h *provision.Host) { e.Placement[0].Hosts = []*provision.Host{h} }).insteadOf("hosts"),
			arg("hosts", hostsOfLab, func(e *engine, hosts []*provision.Host) { e.Placement[0].Hosts = hosts }).insteadOf("host"),
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
			arg("port", whole(1, 65535), func(e *engine, n int) { e.Placement[0].Port = n }),
			arg("url", text, func(e *engine, s string) { e.URL = s }).insteadOf("urls"),
			arg("urls", texts, setURLs).insteadOf("url"),
			arg("api_key", secretText, func(e *engine, t provision.Text) { e.APIKey = t }),
		},
		blocks: []nested{
			part(containerBlock(), func(e *engine) *engine { return e }),
			part(readyBlock(), func(e *engine) *engines.Ready { return &e.Ready }),
			part(buildBlock(), func(e *engine) *engines.Build { return fresh(&e.Build) }),
		},
		make: becomes(func(d *declared) *engine {
			return &engine{Kind: d.kind, Name: d.fullName(), Instance: d.instanceName(), Placement: engines.On(), Pos: pos(d.header)}
		}),
		check: checks(checkEngine),
	}
	t.args = append(t.args, operatedArguments()...)
	t.args = append(t.args, described(func(e *engine, s string) { e.Description = s }))
	return t
}

func setURLs(e *engines.Engine, urls []string) {
	if len(urls) > 0 {
		e.URL, e.URLs = urls[0], urls[1:]
	}
}

func containerBlock() *blockType {
	type engine = engines.Engine
	return blockOf("container",
		arg("shm_size", size, func(e *engine, n int64) { e.Container.ShmSize = n }),
		arg("ipc", text, func(e *engine, s string) { e.Container.IPC = s }),
		arg("network", word("host", "bridge", "none"), func(e *engine, s string) { e.Container.Network = s }),
		arg("privileged", truth, func(e *engine, on bool) { e.Container.Privileged = &on }),
		arg("user", text, func(e *engine, s string) { e.Container.User = s }),
		arg("cap_add", texts, func(e *engine, list []string) { e.Container.CapAdd = list }),
		arg("security_opt", texts, func(e *engine, list []string) { e.Container.SecurityOpt = list }),
		arg("devices", texts, func(e *engine, list []string) { e.Container.Devices = list }),
		arg("mounts", mounts, func(e *engine, list []provision.Mount) { e.Container.Mounts = list }),
		arg("gpu_ids", texts, func(e *engine, list []string) { e.Placement[0].GPUIDs = list }),
		arg("entrypoint", texts, func(e *engine, argv []string) { e.Container.Entrypoint = argv }),
		arg("ulimits", ulimits, func(e *engine, list []engines.Ulimit) { e.Container.Ulimits = list }),
		arg("stop_grace", duration, func(e *engine, d time.Duration) { e.Container.StopGrace = d }),
	)
}

func buildBlock() *blockType {
	type build = engines.Build
	return blockOf("build", // what is required may be inherited
		arg("commands", texts, func(b *build, list []string) { b.Commands = list }),
		arg("output", text, func(b *build, s string) { b.Output = s }),
		arg("image", text, func(b *build, s string) { b.Image = s }),
		arg("inputs", texts, func(b *build, list []string) { b.Inputs = list }),
	)
}

func readyBlock() *blockType {
	return blockOf("ready",
		arg("stall", duration, func(r *engines.Ready, d time.Duration) { r.Stall = d }),
		arg("timeout", duration, func(r *engines.Ready, d time.Duration) { r.Timeout = d }),
	)
}

// checkEngine holds an engine against what its kind knows.
func checkEngine(b *block, e *engines.Engine) {
	settleFlags(b, e)
	for _, url := range append([]string{e.URL}, e.URLs...) {
		_, key := engines.KeyInURL(url)
		b.noteSecret(key)
	}
	if urls := b.arg("urls"); urls.said() {
		if url := b.arg("url"); url.said() {
			b.fail(url.at, "Two addresses",
				"The engine says url and urls. Put all of its servers into urls, and remove url.")
		} else if urls.fits() && e.URL == "" {
			b.failIn("urls", `"urls" is empty. Write the addresses of the servers, such as ["http://203.0.113.7:8000"].`)
		}
	}
	checkHosts(b, e)
	if !checkManifests(b, e) || b.incomplete {
		return
	}
	if e.Host() == nil && !engines.ByOthers(e) {
		b.later(func() {
			if !takesRole(b.reader, b.of) { // which is looked at where its roles place it
				reportMistakes(b, e)
			}
		})
	} else {
		reportMistakes(b, e)
	}
	if !b.incomplete {
		warnOfEngine(b, e)
	}
}

// settle has false flags turn off what they name.
func settleFlags(b *block, e *engines.Engine) {
	for i, f := range e.Flags {
		if f.Value != nil && !f.Value.IsSecret() && engines.IsSecret(e, f.Name) { // as only its kind knows
			b.noteSecret(f.Value.Reveal())
			secret := provision.Secret(f.Value.Reveal())
			e.Flags[i].Value = &secret
			if at, inherited := b.entry("flags", f.Name); inherited == "" {
				b.warnOfClearSecret(at, f.Name)
			}
		}
	}
	for _, f := range engines.Settle(e) {
		if at, inherited := b.entry(f.Field, f.Key); inherited == "" { // else told where it is said
			b.warnOnce(at, "Doubtful "+f.Field, "%s", f.Detail)
		}
	}
}

// warnOfEngine is about what hardly works, or hardly anybody means.
func warnOfEngine(b *block, e *engines.Engine) {
	for _, f := range engines.Doubts(e) { // what is inherited is told where it is said
		if at, inherited := b.entry(f.Field, f.Key); inherited == "" {
			b.warnOnce(at, "Doubtful "+f.Field, "%s", f.Detail)
		}
	}
	warnOfShownSecrets(b, e)
	ref, err := origin.ParseRef(e.Image)
	if err == nil && ref.Floats() && !b.src.Locked[e.Image] && engines.InImage(e) {
		at, inherited := b.where("image")
		b.warn(at, "Image without a version", "%s may be another image tomorrow, and results would not be comparable. "+
			"Name a version or a digest, such as %s:v1.2.3, or let `hcl lock` write down which one it is.%s",
			e.Image, ref.Name(), inherited)
	}
}

// checkHosts: an engine says once where it runs.
func checkHosts(b *block, e *engines.Engine) {
	hosts := b.arg("hosts")
	switch {
	case hosts.said() && b.arg("host").said():
		b.fail(hosts.at, "Two places", "The engine says host and hosts. Put all of its hosts into hosts, and remove host.")
	case hosts.fits() && e.Host() == nil:
		b.failIn("hosts", `"hosts" is empty. Write the hosts that the engine runs over, such as [host.a, host.b].`)
	}
}

// mistakes reports what an engine's kind finds wrong.
func reportMistakes(b *block, e *engines.Engine) {
	for _, f := range engines.Check(e) {
		if e.Kind == engines.GroupKind {
			reportMistakeOfGroup(b, f)
		} else {
			reportMistake(b, f)
		}
	}
}

func reportMistake(b *block, f engines.FieldError) {
	field := f.Field
	if b.said["hosts"].said() && slices.Contains([]string{"", "on", "host"}, field) {
		field = "hosts"
	}
	at, inherited := b.entry(field, f.Key)
	switch {
	case f.Alone && f.Key != "" && inherited != "": // told where it is said
		b.incomplete = true
		if b.typ.name == "engine" {
			reportMistake(b.blockFor(b.of.inherits), f)
		}
	case f.Lacks:
		b.missing(b.header, field, "Missing argument", "%s", f.Detail)
	default:
		b.fail(at, "Wrong "+field[strings.LastIndexByte(field, '.')+1:], "%s%s", f.Detail, inherited)
	}
}

const secretInList = "Everybody on %[2]s can read a sensitive value in %[1]s, by ps. Better give it in env.%[3]s"

// warnOfShownSecrets is about secrets that an engine gets on its command line.
func warnOfShownSecrets(b *block, e *engines.Engine) {
	name := ""
	if slices.ContainsFunc(e.Command, provision.Text.IsSecret) {
		name = "command"
	}
	secret := func(f engines.Flag) bool { return f.Value != nil && f.Value.IsSecret() }
	if e.Command == nil && !engines.HidesFlags(e) && slices.ContainsFunc(e.Flags, secret) {
		name = "flags"
	}
	if name == "" || !engines.Real(e) {
		return
	}
	host := "its hosts"
	if e.Host() != nil {
		host = "host." + e.Host().Name
	}
	at, inherited := b.where(name)
	b.warn(at, "Secret on a command line", secretInList, name, host, inherited)
}
