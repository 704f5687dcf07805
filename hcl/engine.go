package hcl

import (
	"slices"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/origin"
	"hclbench/provision"
)

func engineBlock() *lang.BlockType {
	type engine = engines.Engine
	t := &lang.BlockType{
		Name: "engine", Root: "engine", PerCell: true,
		Labels: []lang.Label{{What: "kind", Kinds: engines.Kinds()}, {What: "name", Form: lang.Identifier}},
		Args: []lang.Argument{
			lang.ForEach(),
			lang.Unbound("inherits", engineOfLab),
			lang.Arg("host", hostOfLab, func(e *engine, h *provision.Host) { e.Placement[0].Hosts = []*provision.Host{h} }).InsteadOf("hosts"),
			lang.Arg("hosts", hostsOfLab, func(e *engine, hosts []*provision.Host) { e.Placement[0].Hosts = hosts }).InsteadOf("host"),
			lang.Arg("model", modelOfLab, func(e *engine, m *engines.Model) { e.Model = m }),
			lang.Arg("image", lang.Text, func(e *engine, s string) { e.Image = s }),
			lang.Arg("env", environment, func(e *engine, env []provision.EnvVar) { e.Env = env }),
			lang.Arg("flags", flags, func(e *engine, all []engines.Flag) { e.Flags = all }),
			lang.Arg("config", lang.Document, func(e *engine, t provision.Text) { e.Config = t }),
			lang.Arg("version", engineVersion, func(e *engine, s string) { e.Version = s }),
			lang.Arg("offline_command", lang.Texts, func(e *engine, argv []string) { e.OfflineCommand = argv }),
			lang.Arg("setup", lang.Texts, func(e *engine, commands []string) { e.Setup = commands }),
			lang.Arg("command", lang.Words, func(e *engine, argv []provision.Text) { e.Command = argv }),
			lang.Arg("compile_cache", lang.Text, func(e *engine, s string) { e.CompileCache = s }),
			lang.Arg("port", lang.Whole(1, 65535), func(e *engine, n int) { e.Placement[0].Port = n }),
			lang.Arg("url", lang.Text, func(e *engine, s string) { e.URL = s }).InsteadOf("urls"),
			lang.Arg("urls", lang.Texts, func(e *engine, urls []string) {
				if len(urls) > 0 {
					e.URL, e.URLs = urls[0], urls[1:]
				}
			}).InsteadOf("url"),
			lang.Arg("api_key", lang.SecretText, func(e *engine, t provision.Text) { e.APIKey = t }),
		},
		Blocks: []lang.Nested{
			lang.Part(containerBlock(), func(e *engine) *engine { return e }),
			lang.Part(readyBlock(), func(e *engine) *engines.Ready { return &e.Ready }),
			lang.OptionalPart(buildBlock(), func(e *engine) **engines.Build { return &e.Build }),
		},
		Make: lang.Makes(func(d *lang.Declared) *engine {
			return &engine{Kind: d.Kind, Name: d.FullName(), Instance: d.InstanceName(), Placement: engines.On(), Pos: d.Header.String()}
		}),
		Check: lang.Checks(checkEngine),
	}
	t.Args = append(t.Args, operatedArguments()...)
	t.Args = append(t.Args, lang.Description(func(e *engine, s string) { e.Description = s }))
	return t
}

func containerBlock() *lang.BlockType {
	type engine = engines.Engine
	return lang.BlockOf("container",
		lang.Arg("shm_size", lang.Size, func(e *engine, n int64) { e.Container.ShmSize = n }),
		lang.Arg("ipc", lang.Text, func(e *engine, s string) { e.Container.IPC = s }),
		lang.Arg("network", lang.OneOf("host", "bridge", "none"), func(e *engine, s string) { e.Container.Network = s }),
		lang.Arg("privileged", lang.Bool, func(e *engine, on bool) { e.Container.Privileged = &on }),
		lang.Arg("user", lang.Text, func(e *engine, s string) { e.Container.User = s }),
		lang.Arg("cap_add", lang.Texts, func(e *engine, list []string) { e.Container.CapAdd = list }),
		lang.Arg("security_opt", lang.Texts, func(e *engine, list []string) { e.Container.SecurityOpt = list }),
		lang.Arg("devices", lang.Texts, func(e *engine, list []string) { e.Container.Devices = list }),
		lang.Arg("mounts", mounts, func(e *engine, list []provision.Mount) { e.Container.Mounts = list }),
		lang.Arg("gpu_ids", lang.Texts, func(e *engine, list []string) { e.Placement[0].GPUIDs = list }),
		lang.Arg("entrypoint", lang.Texts, func(e *engine, argv []string) { e.Container.Entrypoint = argv }),
		lang.Arg("ulimits", ulimits, func(e *engine, list []engines.Ulimit) { e.Container.Ulimits = list }),
		lang.Arg("stop_grace", lang.Duration, func(e *engine, d time.Duration) { e.Container.StopGrace = d }),
	)
}

func buildBlock() *lang.BlockType {
	type build = engines.Build
	return lang.BlockOf("build", // what is required may be inherited
		lang.Arg("commands", lang.Texts, func(b *build, list []string) { b.Commands = list }),
		lang.Arg("output", lang.Text, func(b *build, s string) { b.Output = s }),
		lang.Arg("image", lang.Text, func(b *build, s string) { b.Image = s }),
		lang.Arg("inputs", lang.Texts, func(b *build, list []string) { b.Inputs = list }),
	)
}

func readyBlock() *lang.BlockType {
	return lang.BlockOf("ready",
		lang.Arg("stall", lang.Duration, func(r *engines.Ready, d time.Duration) { r.Stall = d }),
		lang.Arg("timeout", lang.Duration, func(r *engines.Ready, d time.Duration) { r.Timeout = d }),
	)
}

// checkEngine holds an engine against what its kind knows.
func checkEngine(b *lang.Block, e *engines.Engine) {
	settleFlags(b, e)
	for _, url := range append([]string{e.URL}, e.URLs...) {
		_, key := engines.KeyInURL(url)
		b.NoteSecret(key)
	}
	if urls := b.Arg("urls"); urls.IsSet() {
		if url := b.Arg("url"); url.IsSet() {
			b.Fail(url.At, "Two addresses",
				"The engine says url and urls. Put all of its servers into urls, and remove url.")
		} else if urls.IsValid() && e.URL == "" {
			b.Fail(b.ValueOf("urls"), "Wrong value", `"urls" is empty. Write the addresses of the servers, such as ["http://203.0.113.7:8000"].`)
		}
	}
	switch hosts := b.Arg("hosts"); {
	case hosts.IsSet() && b.Arg("host").IsSet():
		b.Fail(hosts.At, "Two places", "The engine says host and hosts. Put all of its hosts into hosts, and remove host.")
	case hosts.IsValid() && e.Host() == nil:
		b.Fail(b.ValueOf("hosts"), "Wrong value", `"hosts" is empty. Write the hosts that the engine runs over, such as [host.a, host.b].`)
	}
	if !checkManifests(b, e) || b.Incomplete {
		return
	}
	if e.Host() == nil && !engines.ByOthers(e) {
		b.Later(func() {
			if !takesRole(b.Reader, b.Declaration) { // which is looked at where its roles place it
				reportMistakes(b, e)
			}
		})
	} else {
		reportMistakes(b, e)
	}
	if !b.Incomplete {
		warnOfEngine(b, e)
	}
}

// settle has false flags turn off what they name.
func settleFlags(b *lang.Block, e *engines.Engine) {
	for i, f := range e.Flags {
		if f.Value != nil && !f.Value.IsSecret() && engines.IsSecret(e, f.Name) { // as only its kind knows
			b.NoteSecret(f.Value.Reveal())
			secret := provision.Secret(f.Value.Reveal())
			e.Flags[i].Value = &secret
			if at, inherited := b.PlaceOf("flags", f.Name); inherited == "" {
				b.WarnOfClearSecret(at, f.Name)
			}
		}
	}
	for _, f := range engines.Settle(e) {
		if at, inherited := b.PlaceOf(f.Field, f.Key); inherited == "" { // else told where it is said
			b.Warn(at.Once(), "Doubtful "+f.Field, "%s", f.Detail)
		}
	}
}

// warnOfEngine is about what hardly works, or hardly anybody means.
func warnOfEngine(b *lang.Block, e *engines.Engine) {
	for _, f := range engines.Doubts(e) { // what is inherited is told where it is said
		if at, inherited := b.PlaceOf(f.Field, f.Key); inherited == "" {
			b.Warn(at.Once(), "Doubtful "+f.Field, "%s", f.Detail)
		}
	}
	warnOfShownSecrets(b, e)
	ref, err := origin.ParseRef(e.Image)
	if err == nil && ref.Floats() && !b.Source.Locked[e.Image] && engines.InImage(e) {
		at, inherited := b.Place("image")
		b.Warn(at, "Image without a version", "%s may be another image tomorrow, and results would not be comparable. "+
			"Name a version or a digest, such as %s:v1.2.3, or let `hcl lock` write down which one it is.%s",
			e.Image, ref.Name(), inherited)
	}
}

// reportMistakes reports what an engine's kind finds wrong.
func reportMistakes(b *lang.Block, e *engines.Engine) {
	for _, f := range engines.Check(e) {
		reportMistake(b, f)
	}
}

// reportMistake reports it where the engine says what is wrong, or inherits it from.
func reportMistake(b *lang.Block, f engines.FieldError) {
	field := f.Field
	if b.Find("hosts").IsSet() && slices.Contains([]string{"", "on", "host"}, field) {
		field = "hosts"
	}
	at, inherited := b.PlaceOf(field, f.Key)
	switch {
	case f.Alone && f.Key != "" && inherited != "": // told where it is said
		b.Incomplete = true
		if b.Type.Name == "engine" {
			reportMistake(b.BlockFor(b.Declaration.Inherits), f)
		}
	case f.Lacks:
		b.Fail(b.Header.Lacking(field), "Missing argument", "%s", f.Detail)
	default:
		b.Fail(at, "Wrong "+field[strings.LastIndexByte(field, '.')+1:], "%s%s", f.Detail, inherited)
	}
}

const secretInList = "Everybody on %[2]s can read a sensitive value in %[1]s, by ps. Better give it in env.%[3]s"

// warnOfShownSecrets is about secrets that an engine gets on its command line.
func warnOfShownSecrets(b *lang.Block, e *engines.Engine) {
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
	at, inherited := b.Place(name)
	b.Warn(at, "Secret on a command line", secretInList, name, host, inherited)
}

// takesRole reports whether an engine takes a role of a group, or one that inherits it does.
func takesRole(r *lang.Reader, engine *lang.Declared) bool {
	for _, group := range r.Declared("group") {
		for _, b := range r.EvaluatedBlocks(group) {
			for _, role := range b.Parts("role") {
				for d := b.Inside(role).Arg("engine").Referred("engine"); d != nil; d = d.Inherits {
					if d == engine {
						return true
					}
				}
			}
		}
	}
	return false
}
