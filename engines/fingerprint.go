package engines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
)

// Fingerprint is everything about an engine that can change a number, as named words:
// two engines with the same fingerprint are the same engine, wherever they stand and
// whatever they are called. What is not listed here changes no number: names, ports,
// addresses and where the engine listens, the paths of caches on its host, how it is
// stopped and waited for, prices. A secret counts as [provision.Redacted], so a new
// token measures nothing again.
//
// An external engine is known by nothing but the address of its server, so that counts.
func Fingerprint(e *Engine) map[string]string {
	f := fingerprint{"kind": e.Kind}
	switch {
	case e.Kind == Operated:
		f.operated(e)
	case e.Kind == External:
		f.set("model", ServedModel(e))
		f.set("url", strings.Join(append([]string{BaseURL(e)}, MoreURLs(e)...), " "))
		if e.Host() != nil {
			f.set("load_host", "another host")
		}
	case e.Kind == GroupKind:
		f.group(e)
	default:
		in := e.Placement.front()
		f.role(e, e.roles()[0], "")
		if n := len(in.Hosts); n > 1 {
			f.set("hosts", strconv.Itoa(n))
		}
		f.list("gpu_ids", someOf(e.Host(), in.GPUIDs))
	}
	return f
}

// role adds the pairs of a role's first member, under the role's name where it has one in the identity,
// and of each other member those in which it differs from the first, under the member's own name.
func (f fingerprint) role(e *Engine, r role, prefix string) {
	var first fingerprint
	for i, in := range r.instances {
		for rank, h := range in.Hosts {
			pairs := fingerprintOf(r.engine.at(Instance{Hosts: in.Hosts[rank : rank+1], GPUIDs: in.GPUIDs}))
			if e.joins(len(in.Hosts), h.Fabric) && r.name != Route {
				pairs.fabric(h.Fabric)
			}
			if first == nil {
				first = pairs
				f.under(prefix, pairs)
				continue
			}
			for name := range first {
				if _, has := pairs[name]; !has {
					pairs[name] = "none"
				}
			}
			maps.DeleteFunc(pairs, func(name, value string) bool { return first[name] == value })
			f.under(Member{Role: r.name, Instance: i, Rank: rank}.Name()+".", pairs)
		}
	}
}

func (f fingerprint) under(prefix string, pairs fingerprint) {
	for name, value := range pairs {
		f[prefix+name] = value
	}
}

// fingerprintOf are the pairs of one member: what it is made from, and where it stands.
func fingerprintOf(e *Engine) fingerprint {
	f := fingerprint{"kind": e.Kind}
	f.set("runtime", string(Runtime(e)))
	if e.Model != nil {
		f.set("model", e.Model.Repo)
		f.set("model.revision", e.Model.Revision)
	}
	f.set("image", exactImage(e.Image))
	f.host(e)
	f.command(e)
	f.container(e)
	f.build(e)
	return f
}

// fingerprint collects pairs; an empty value is left out.
type fingerprint map[string]string

func (f fingerprint) set(name, value string) {
	if value != "" {
		f[name] = value
	} else {
		delete(f, name)
	}
}

// list sets words whose order means something.
func (f fingerprint) list(name string, words []string) {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, plain.Quote(w))
	}
	f.set(name, strings.Join(quoted, " "))
}

// unordered sets words whose order means nothing.
func (f fingerprint) unordered(name string, words []string) {
	words = slices.Clone(words)
	slices.Sort(words)
	f.list(name, words)
}

// host adds the GPUs that the engine gets, and what is set on the host while it runs. A router has no
// use for GPUs.
func (f fingerprint) host(e *Engine) {
	h := e.Host()
	if h == nil {
		return
	}
	if h.GPUs.Count > 0 && e.Router {
		c := *h
		c.GPUs = provision.GPUs{}
		h = &c
	}
	if g := h.GPUs; g.Count > 0 {
		g.Count = cmp.Or(len(e.GPUIDs()), g.Count)
		g.Model = strings.ToUpper(g.Model) // the contract does not tell h200 from H200
		f.set("gpus", g.String())
	}
	f.cluster(h)
	p := h.Prepare
	if p == nil {
		return
	}
	f.truth("prepare.numa_balancing", p.NUMABalancing)
	if e.Router {
		return
	}
	f.truth("prepare.persistence_mode", p.PersistenceMode)
	f.truth("prepare.ecc", p.ECC)
	if p.PowerCap != 0 {
		f.set("prepare.power_cap", strconv.FormatFloat(p.PowerCap, 'g', -1, 64))
	}
	f.number("prepare.lock_clocks", p.LockClocks)
}

// fabric adds what the lab says of the network between members. What it leaves open is found out on the
// host, and is one of its facts.
func (f fingerprint) fabric(of provision.Fabric) {
	f.unordered("fabric.rdma", of.RDMA)
	if of.RDMA != nil && len(of.RDMA) == 0 {
		f.set("fabric.rdma", "none")
	}
	f.set("fabric.interface", of.Interface)
	if of.GIDIndex != nil {
		f.set("fabric.gid_index", strconv.Itoa(*of.GIDIndex))
	}
}

// someOf are GPUs of a host that are not simply all of them.
func someOf(h *provision.Host, ids []string) []string {
	for i, id := range ids {
		if id != strconv.Itoa(i) {
			return ids
		}
	}
	if h != nil && len(ids) == h.GPUs.Count {
		return nil
	}
	return ids
}

// cluster adds what a pod is that may be slower or faster than another.
func (f fingerprint) cluster(h *provision.Host) {
	c := h.Cluster
	if c == nil {
		return
	}
	f.set("runtime", "pod")
	f.set("pod.runtime_class", c.RuntimeClass)
	if c.HostNetwork {
		f.set("pod.network", "host")
	}
	f.pairs("pod.request ", h.Requests)
	f.pairs("pod.limit ", h.Limits)
	if h.GPUs.Count > 0 { // a part of a GPU has a name of its own
		f.set("pod.gpu_resource", c.GPUName(h.GPUs))
		f.set("pod.rdma_resource", c.RDMAResource)
	}
	f.pairs("pod.annotation ", c.Annotations) // of them some attach networks
	f.mounts(c.Mounts)
}

// Client is what counts of a host that only sends load: of a pod what it gets.
func Client(h *provision.Host) string {
	if h.Cluster == nil {
		return "another host"
	}
	pod, cluster := *h, *h.Cluster
	pod.GPUs, pod.Cluster, cluster.Mounts = provision.GPUs{}, &cluster, nil
	f := fingerprint{}
	f.cluster(&pod)
	delete(f, "runtime")
	words := []string{"a pod"}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		words = append(words, strings.TrimPrefix(name, "pod.")+" "+f[name])
	}
	return strings.Join(words, ", ")
}

// mounts are those that the lab says: nobody knows what is in them, so their source counts.
func (f fingerprint) mounts(of []provision.Mount) {
	for _, m := range of {
		mode := ""
		if m.ReadOnly {
			mode = " read-only"
		}
		f.set("mount "+m.Target, m.Source+mode)
	}
}

func (f fingerprint) pairs(prefix string, of map[string]string) {
	for name, value := range of {
		f.set(prefix+name, value)
	}
}

// group adds what each role is, in so many instances of so many hosts, who gives them
// requests, and which of them share a host.
func (f fingerprint) group(e *Engine) {
	f.set("transfer", e.transfer())
	seen := e.Placement.Hosts()
	var places []string
	for _, r := range e.roles() {
		var ids []string
		for _, in := range r.instances {
			var on []string
			for _, h := range in.Hosts {
				on = append(on, strconv.Itoa(slices.Index(seen, h)))
			}
			places = append(places, r.name+" "+strings.Join(on, "+"))
			ids = append(ids, strings.Join(someOf(in.Hosts[0], in.GPUIDs), ","))
		}
		f.role(e, r, r.name+".")
		if strings.Trim(strings.Join(ids, ""), ",") != "" {
			f.list(r.name+".gpu_ids", ids)
		}
	}
	f.list("places", places)
}

func (f fingerprint) number(name string, n int64) {
	if n != 0 {
		f.set(name, strconv.FormatInt(n, 10))
	}
}

func (f fingerprint) truth(name string, v *bool) {
	if v != nil {
		f.set(name, strconv.FormatBool(*v))
	}
}

// isListening tells the flags that say where an engine listens and what it calls its
// model.
func (d dialect) isListening(flag string) bool {
	row, how := d.option(strings.TrimPrefix(flag, "--"))
	return how != setting.Beginning && how != setting.Ambiguous && setting.Means(row).Is(setting.Listening)
}

// command adds what is run: the lab's flags, configuration and environment, or its
// whole command. What hcl puts around them follows from the kind.
func (f fingerprint) command(e *Engine) {
	f.set("setup", strings.Join(e.Setup, "\n"))
	d := e.dialect()
	f.words(e.Command, d)
	for _, flag := range e.Flags {
		if d.isListening(flag.Name) {
			continue
		}
		name := "--" + d.key(flag.Name)
		if _, how := d.option(flag.Name); how.Opposite() {
			name = "--no-" + d.key(flag.Name)
		}
		value := ""
		if flag.Value != nil {
			value = word(*flag.Value)
		}
		f[name] = strings.TrimSpace(f[name] + " " + value)
	}
	if config := e.Config.String(); config != "" {
		f.members("config", json.RawMessage(config))
		if kinds[e.Kind].configHasFlags() || kinds[e.Kind].inConfig {
			maps.DeleteFunc(f, func(name, _ string) bool {
				member, ok := strings.CutPrefix(name, "config.")
				return ok && d.isListening(strings.ReplaceAll(member, "_", "-"))
			})
		}
	}
	for _, v := range e.Env {
		f["env "+v.Name] = v.Value.String()
	}
}

// words splits a command into its flags, so that a difference reads "--tp 8 → 4" and
// not as two long lines. The order of flags means something where one has several
// words, for they may be a command of their own, to which what follows belongs.
func (f fingerprint) words(argv []provision.Text, d dialect) {
	const command = "command"
	key, values := command, 0
	skip, nested := false, false
	var order []string
	for _, w := range argv {
		s := w.String()
		switch {
		case w.IsSecret() || !strings.HasPrefix(s, "--"):
			if skip {
				skip = false
				continue
			}
		case d.isListening(before(s, "=")):
			// Its one value says where: what comes after that is the command's again.
			key, skip = command, !strings.Contains(s, "=")
			continue
		default:
			name, value, assigned := strings.Cut(s, "=")
			if _, again := f[name]; again {
				f[name] += " " + name // not the same as one flag with both values
			} else {
				f[name] = ""
			}
			order = append(order, name)
			nested = nested || name == "--"
			key, values, skip = name, 0, false
			if !assigned {
				continue
			}
			w = provision.Plain(value)
		}
		f[key] = strings.TrimSpace(f[key] + " " + word(w))
		values++
		nested = nested || key != command && values > 1
	}
	if nested {
		f.list("command.order", order)
	}
}

func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}

// word is a value so that it cannot be taken for two.
func word(t provision.Text) string {
	if t.IsSecret() {
		return t.String()
	}
	return plain.Quote(t.String())
}

// members adds the members of a JSON object under dotted names. An object without
// members is a value: to some engines it says "with the defaults".
func (f fingerprint) members(name string, value json.RawMessage) {
	var object map[string]json.RawMessage
	var text string
	switch {
	case json.Unmarshal(value, &object) == nil && len(object) > 0:
		for member, v := range object {
			if strings.Contains(member, ".") {
				member = strconv.Quote(member)
			}
			f.members(name+"."+member, v)
		}
	case json.Unmarshal(value, &text) == nil && string(value) != "null" && !json.Valid([]byte(text)):
		f[name] = text
	default: // a text that reads like another value, "8", keeps its quotes
		var b bytes.Buffer
		json.Compact(&b, value) // it was valid
		f[name] = b.String()
	}
}

// container adds what the engine's container is besides its command. It is what the
// container comes to, so that saying what holds anyway changes nothing.
func (f fingerprint) container(e *Engine) {
	f.list("entrypoint", e.Container.Entrypoint)
	if !InImage(e) {
		return
	}
	c := Container(e)
	f.set("network", c.Network)
	f.set("ipc", c.IPC)
	f.number("shm_size", c.ShmSize)
	if c.Privileged {
		f.set("privileged", "true")
	}
	f.set("user", c.User)
	f.unordered("devices", c.Devices)
	f.unordered("host_groups", c.HostGroups)
	f.unordered("cap_add", c.CapAdd)
	f.unordered("security_opt", c.SecurityOpt)
	for _, u := range c.Ulimits {
		f.set("ulimit."+u.Name, fmt.Sprintf("%d:%d", u.Soft, u.Hard))
	}
	f.mounts(e.Container.Mounts) // the lab's own alone
}

// build adds what makes what the engine serves; where it is kept counts for nothing.
func (f fingerprint) build(e *Engine) {
	b := e.Build
	if b == nil {
		return
	}
	f.set("build.commands", strings.Join(b.Commands, "\n"))
	if image := exactImage(b.Image); image != exactImage(e.Image) {
		f.set("build.image", image)
	}
	f.unordered("build.inputs", b.Inputs)
}

// exactImage is what an image comes to: of one that is pinned by its digest only that,
// which is the same image in every registry and under every tag; else the one form of
// all the names that mean the same.
func exactImage(image string) string {
	ref, err := origin.ParseRef(image)
	switch {
	case err != nil: // none, or one that no check has let pass
		return image
	case ref.Digest != "":
		return ref.Digest
	}
	return ref.Exact()
}
