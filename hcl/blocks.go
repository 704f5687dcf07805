package hcl

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

// prepare fills in what is set on a host while engines run there.
func (l *lab) prepare(i *instance, h *provision.Host) {
	if _, said := blockRange(i.of.body, "prepare"); !said {
		return
	}
	s := i.settings
	truth := func(name string) *bool {
		if on, ok := s[name].value.(bool); ok {
			return &on
		}
		return nil
	}
	h.Prepare = &provision.Prepare{
		PersistenceMode: truth("prepare.persistence_mode"),
		PowerCap:        get[float64](s, "prepare.power_cap"),
		LockClocks:      get[int64](s, "prepare.lock_clocks"),
		NUMABalancing:   truth("prepare.numa_balancing"),
		ECC:             truth("prepare.ecc"),
	}
	if x, said := s["prepare.persistence_mode"]; said && h.GPUs.Vendor == provision.AMD {
		l.errOnce(x.at, "No persistence mode here", "It is NVIDIA's, and this host has %s, whose driver keeps its settings anyway. Remove the argument.", h.GPUs)
	}
	for _, name := range []string{"persistence_mode", "power_cap", "lock_clocks", "ecc"} {
		if x, said := s["prepare."+name]; said && h.GPUs.Count == 0 {
			l.errOnce(x.at, "No GPUs here", "The host block does not say which GPUs the machine has, so %s cannot be set. Add gpus, such as \"8xH200\".", name)
		}
	}
	if x, said := s["prepare.numa_balancing"]; said && h.Require != nil && h.Require.NUMABalancing != nil && h.Prepare.NUMABalancing != nil && *h.Require.NUMABalancing != *h.Prepare.NUMABalancing {
		l.errOnce(x.at, "Contradiction", "The host's require block wants the opposite. Remove one of them.")
	}
}

func (l *lab) host(i *instance) {
	i.settings = l.read(i.of.body, hostBlock, nil)
	s := i.settings
	h := &provision.Host{
		Name:         i.of.fullName(),
		Description:  get[string](s, "description"),
		Address:      get[string](s, "address"),
		User:         get[string](s, "user"),
		IdentityFile: l.atHome(get[string](s, "identity_file")),
		HostKey:      get[string](s, "host_key"),
		GPUs:         get[provision.GPUs](s, "gpus"),
		Runtime:      provision.Runtime(getOr(s, "runtime", string(provision.Docker))),
		Docker:       get[string](s, "docker"),
		ImageFrom:    provision.ImageFrom(getOr(s, "image_from", string(provision.FromRegistry))),
		PricePerHour: get[float64](s, "price_per_hour"),
		Pos:          pos(i.of.header),
	}
	if _, said := blockRange(i.of.body, "require"); said {
		h.Require = &provision.Require{
			Driver:    get[provision.Versions](s, "require.driver"),
			ROCm:      get[provision.Versions](s, "require.rocm"),
			GPUMemory: get[int64](s, "require.gpu_memory"),
			Memory:    get[int64](s, "require.memory"),
			DiskFree:  get[int64](s, "require.disk_free"),
			IdleGPUs:  get[bool](s, "require.idle_gpus"),
		}
		if on, ok := s["require.numa_balancing"].value.(bool); ok {
			h.Require.NUMABalancing = &on
		}
		if x, said := s["require.rocm"]; said && h.GPUs.Vendor == provision.NVIDIA {
			l.errOnce(x.at, "No ROCm here", "ROCm is AMD's, and this host has %s. Write driver for NVIDIA's.", h.GPUs)
		}
	}
	l.prepare(i, h)
	i.value = h
	_, there := s["address"]
	i.incomplete = !s.whole() || !there
	l.checkHost(i, h)
	switch jump := s["jump"].value.(type) {
	case *provision.Host:
		jump.Pos = pos(s["jump"].at)
		h.Jump = jump
	case *declared:
		other := l.instance(jump, nil)
		h.Jump, _ = other.value.(*provision.Host)
		if h.Jump != nil && h.Jump.Local() {
			l.err(s["jump"].at, "Wrong value", "%s is the machine that hcl runs on, so there is nothing to jump over. Remove the argument.", jump.address)
		}
	}
	if h.Local() {
		for _, name := range []string{"user", "identity_file", "host_key", "jump"} {
			if x, said := s[name]; said {
				l.warn(x.at, "No effect", "The host's address is \"local\", the machine that hcl runs on. It is reached without SSH, so %s has no effect.", name)
			}
		}
	}
}

// atHome expands a leading ~ to the caller's home directory.
func (l *lab) atHome(path string) string {
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path
	}
	home, ok := l.vars.lookup("HOME")
	if !ok {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return path
		}
	}
	return filepath.Join(home, path[1:])
}

func (l *lab) model(i *instance) {
	i.settings = l.read(i.of.body, modelBlock, nil)
	s := i.settings
	m := &engines.Model{
		Name:     i.of.name,
		Repo:     get[string](s, "repo"),
		Revision: get[string](s, "revision"),
		Cache:    get[string](s, "cache"),
		Size:     get[int64](s, "size"),
		Download: get[bool](s, "download"),
		Pos:      pos(i.of.header),
	}
	i.value = m
	i.incomplete = !s.whole() || m.Repo == ""
	l.checkRepo(i, m)
	if m.Download && m.Repo != "" {
		switch x := s["download"]; {
		case strings.HasPrefix(m.Repo, "/"):
			l.errOnce(x.at, "Nothing to download", "%q is a directory on the host, and is taken as it is. Remove download.", m.Repo)
		case s["cache"].value == nil:
			l.errOnce(x.at, "No place for the download", "Say where the model is kept on the host, for example:\n\n    cache = \"/data/huggingface\"")
		}
	}
	if x, said := s["cache"]; said && x.value != nil && !strings.HasPrefix(m.Cache, "/") && !strings.HasPrefix(m.Cache, "~/") {
		l.errOnce(x.at, "Wrong value", "%q is not an absolute path. Write the directory on the host, such as \"/data/huggingface\".", m.Cache)
	}
}

func (l *lab) dataset(i *instance) {
	t := bodyType(datasetBlock, i.of.kind)
	i.settings = l.read(i.of.body, t, nil)
	s := i.settings
	d := load.Dataset{
		Kind:            i.of.kind,
		InputTokens:     int(get[int64](s, "input_tokens")),
		Convention:      get[string](s, "convention"),
		Seed:            uint64(get[int64](s, "seed")),
		Groups:          int(get[int64](s, "groups")),
		PromptsPerGroup: int(get[int64](s, "prompts_per_group")),
		PrefixTokens:    int(get[int64](s, "prefix_tokens")),
		QuestionTokens:  int(get[int64](s, "question_tokens")),
		Path:            get[string](s, "path"),
		SHA256:          get[string](s, "sha256"),
		Filter:          get[string](s, "filter"),
		OutputTokens:    int(get[int64](s, "output_tokens")),
		Slowdown:        get[float64](s, "slowdown"),
		Tokenizer:       get[string](s, "tokenizer"),
	}
	switch {
	case d.Kind == load.Random && d.Convention == "":
		d.Convention = load.ConventionSGLang
	case d.Kind == load.ShareGPT && d.Filter == "":
		d.Filter = load.ConventionSGLang
	}
	if r, ok := s["range_ratio"].value.(float64); ok {
		d.RangeRatio = &r
	} else if x, said := s["convention"]; said && x.value != nil {
		l.warn(x.at, "No effect", "convention says what range_ratio means, and there is no range_ratio: every prompt is exactly input_tokens long.")
	}
	i.value = d
	i.incomplete = !s.whole()
	for _, a := range t.args {
		if _, said := s[a.name]; a.required && !said {
			i.incomplete = true
		}
	}
	if x, said := s["path"]; said && x.value != nil && strings.TrimSpace(d.Path) == "" {
		l.err(x.at, "Wrong value", `"path" is empty. Write the name of a file, relative to the lab's directory.`)
		i.incomplete = true
	}
}

// engine evaluates an engine in a cell: what it inherits, then what it says
// itself.
func (l *lab) engine(i *instance, c *cell) {
	d := i.of
	s := settings{}
	i.settings = s
	if a, ok := d.body.Attributes["inherits"]; ok {
		v := l.eval(a.Expr, c)
		if !v.IsKnown() || !v.IsNull() {
			parent, _ := l.convert(mustArgument(engineBlock, "inherits"), v, a.Expr, c).(*declared)
			if parent == nil {
				i.incomplete = true
			} else if parent.kind != d.kind {
				l.err(a.Expr.Range(), "Wrong value", "An engine inherits from another of its own kind, and %s is not of kind %q: their flags differ. Share what they have in common through locals.", parent.address, d.kind)
				i.incomplete = true
			} else {
				inherited := l.instance(parent, c)
				i.incomplete = inherited.incomplete
				for name, x := range inherited.settings {
					if name != "inherits" && name != "description" {
						s[name] = x
					}
				}
			}
		}
	}
	l.readInto(s, d.body, engineBlock, "", c)
	e := &engines.Engine{
		Kind:           d.kind,
		Name:           d.fullName(),
		Instance:       d.instanceName(),
		Description:    get[string](s, "description"),
		Image:          get[string](s, "image"),
		Env:            get[[]provision.EnvVar](s, "env"),
		Config:         get[provision.Text](s, "config"),
		Setup:          get[[]string](s, "setup"),
		Version:        get[string](s, "version"),
		OfflineCommand: get[[]string](s, "offline_command"),
		Command:        get[[]provision.Text](s, "command"),
		CompileCache:   get[string](s, "compile_cache"),
		Port:           int(get[int64](s, "port")),
		URL:            get[string](s, "url"),
		APIKey:         get[provision.Text](s, "api_key"),
		Container: engines.ContainerSettings{
			Entrypoint:  get[[]string](s, "container.entrypoint"),
			ShmSize:     get[int64](s, "container.shm_size"),
			IPC:         get[string](s, "container.ipc"),
			Network:     get[string](s, "container.network"),
			User:        get[string](s, "container.user"),
			CapAdd:      get[[]string](s, "container.cap_add"),
			SecurityOpt: get[[]string](s, "container.security_opt"),
			Devices:     get[[]string](s, "container.devices"),
			Mounts:      get[[]provision.Mount](s, "container.mounts"),
			GPUIDs:      get[[]string](s, "container.gpu_ids"),
			Ulimits:     get[[]engines.Ulimit](s, "container.ulimits"),
			StopGrace:   get[time.Duration](s, "container.stop_grace"),
		},
		Ready: engines.Ready{Stall: get[time.Duration](s, "ready.stall"), Timeout: get[time.Duration](s, "ready.timeout")},
		Pos:   pos(d.header),
	}
	if urls, said := s["urls"]; said {
		if x, both := s["url"]; both {
			l.errOnce(x.at, "Two addresses", "The engine says url and urls. Put all of its servers into urls, and remove url.")
			i.incomplete = true
		} else if list := get[[]string](s, "urls"); len(list) > 0 {
			e.URL, e.URLs = list[0], list[1:]
		} else if urls.value != nil {
			l.errOnce(urls.at, "Wrong value", "\"urls\" is empty. Write the servers that requests go to in turn, such as [\"http://203.0.113.7:8000\", \"http://203.0.113.8:8000\"].")
			i.incomplete = true
		}
	}
	if p, ok := s["container.privileged"].value.(bool); ok {
		e.Container.Privileged = &p
	}
	for _, f := range get[flagList](s, "flags") {
		e.Flags = append(e.Flags, engines.Flag{Name: f.name, Value: f.value})
	}
	if names := sortedNames(s, "build"); len(names) > 0 {
		e.Build = &engines.Build{
			Commands: get[[]string](s, "build.commands"),
			Output:   get[string](s, "build.output"),
			Image:    get[string](s, "build.image"),
			Inputs:   get[[]string](s, "build.inputs"),
		}
	}
	i.value = e
	i.incomplete = i.incomplete || !s.whole()
	if h, ok := s["host"].value.(*declared); ok {
		host := l.instance(h, nil)
		e.Host, _ = host.value.(*provision.Host)
		i.incomplete = i.incomplete || host.incomplete
	}
	if m, ok := s["model"].value.(*declared); ok {
		model := l.instance(m, nil)
		e.Model, _ = model.value.(*engines.Model)
		i.incomplete = i.incomplete || model.incomplete
	}
	if !i.incomplete {
		l.checkEngine(i, e)
	}
}

var objectiveName = regexp.MustCompile(`^(ttft|tpot|itl|e2el|normalized_latency)(?:_p(\d{1,2})(?:_(\d+))?)?$`)

func isObjective(name string) bool {
	_, ok := parseObjective(name)
	return ok
}

// parseObjective reads "ttft_p99" or "e2el_p99_9".
func parseObjective(name string) (load.Objective, bool) {
	m := objectiveName.FindStringSubmatch(name)
	if m == nil {
		return load.Objective{}, false
	}
	o := load.Objective{Metric: m[1]}
	if m[2] == "" {
		return o, true
	}
	p, err := strconv.ParseFloat(m[2]+"."+m[3]+"0", 64)
	o.Percentile = p
	return o, err == nil && p > 0 && p < 100
}

func mustArgument(t *blockType, name string) argument {
	a, ok := t.argument(name)
	if !ok {
		panic("no argument " + name + " in " + t.name + ". This is a bug in hcl.")
	}
	return a
}

// sortedNames are the settings of a nested block, in a stable order.
func sortedNames(s settings, block string) []string {
	var names []string
	for name := range s {
		if rest, ok := strings.CutPrefix(name, block+"."); ok {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return names
}
