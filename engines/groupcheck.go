package engines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// What CheckGroup says, where it is long.
const (
	unknownRole  = "There is no role %q. A group has the roles prefill and decode, or the role serve, which does both."
	halfRole     = "A group with the role %s needs the role %s too: neither answers a request alone."
	mixedRoles   = "The role serve does all that prefill and decode do apart. Remove one or the other."
	mixedKinds   = "Prefill is of kind %q and decode of kind %q: one cannot read the KV cache of the other."
	noSplit      = "hcl does not know how an engine of kind %q is split into prefill and decode. Those of kind %s are."
	noTransfer   = "An engine of kind %q cannot hand over its KV cache by %q. It knows %s."
	idleTransfer = "Nothing is handed over: the group has no prefill and decode. Remove the argument."
	noRouter     = "Prefill and decode need a router, which gives each request to one instance of each. " +
		"Add a router block."
	splitsOnly  = "trtllm-serve disaggregated gives requests to prefill and decode only. Write router \"sglang\", or remove it."
	otherRouter = "A router of kind %q cannot split requests between prefill and decode of %s. Write router %q, or router \"openai\" " +
		"with a command of your own."
	ownDiscovery = "With vllm-discovery-address vLLM's router drops the list of servers that hcl gives it, and those with the " +
		"transfer %q never tell it of themselves. Remove the flag."
	unequal = "Prefill and decode have to agree on %s: prefill has %s, decode %s. A request that fits only one of them " +
		"hangs or gets a wrong answer."
	otherModel = "Prefill serves %s and decode %s. Both halves of a request need the same model."
	noSpan     = "hcl does not know how an engine of kind %q runs over several hosts. Give each instance one host."
	trtllmSpan = "hcl does not start TensorRT-LLM over several hosts: that needs MPI. " +
		"A group can have several servers, each on one host."
	wrongGPUs   = "The flags ask for %d GPUs (tensor × pipeline × data parallel), but each instance has %d: %s."
	unevenRanks = "data-parallel-size is %d, which %d hosts cannot share evenly."
	hostTwice   = "%s is used twice at once, by %s and %s, on the same GPUs. Give each its own gpu_ids, or its own host."
	ranksOnOne  = "%s has two ranks of %s, which would use the same GPUs. Give each rank a host of its own."
	twoImages   = "%s is a pod, which has one image, and here it would have %s and %s. Give each its own host of the cluster."
	portTwice   = "Port %d of %s is the %s port of %s and the %s port of %s. Write another port."
	otherGPUs   = "The hosts of a role must have the same GPUs: %s has %s, %s has %s."
	apart       = "%s and %s do not reach each other: pods are reached from pods of their cluster alone. Take all hosts from one cluster, or none."
	oneMachine  = "%s and %s have one address, so that they are one machine, and both are needed at once. Write one of them, " +
		"with gpu_ids where two share it."
	localHost  = "%s is this machine, and the others have no address for it. Use it alone, or give it an address."
	oneAddress = "%s and %s have the same address, %s, so that the members cannot find each other there. " +
		"Give each its address in the network between them, as address in its fabric block."
	notTransfer   = "vLLM takes a JSON object, such as {\"kv_load_failure_policy\": \"fail\"}, and this is none: %v."
	otherLauncher = "hcl starts the ranks of vLLM itself, one on each host, and %s is another way. Remove it."
	ownNetwork    = "Members find each other on the network of their hosts. Remove network = %q."
	onlyItself    = "It listens on %s, where other hosts do not reach it. Remove the flag: hcl gives each member its own."
	tooMany       = "The group has %d members, but there are ports only for %d."
	unproved      = "Nothing proves what each member does, so that every cell will be suspect: %s."
	oursOfRouter  = "hcl tells the router of its servers itself. Remove %s."
	tooOld        = "hcl gives each member %s, which is there since %s, and this is version %s. Take a newer image."
	noAttention   = "SGLang runs data parallel over several hosts only with attention in data parallel. Add enable-dp-attention = true, " +
		"which shares out the GPUs of tp-size, or take a host for each instance and a group."
	oursFlag = "hcl gives %s to each member itself (here %s). Remove it."
	oursEnv  = "hcl sets %s for each member itself (here %s). Remove it."
)

// ourVariables are those by which a member finds the others, as flags that are [setting.Ours].
var ourVariables = strings.Fields(`VLLM_HOST_IP SGLANG_HOST_IP VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT
	VLLM_MOONCAKE_BOOTSTRAP_PORT`)

// CheckGroup returns every mistake in an engine of several members, a group or one over
// several hosts, that is not one of a single engine. Over several hosts the role is [Serve].
func CheckGroup(e *Engine) []FieldError {
	var found findings
	t := topologyOf(e)
	if e.Group != nil {
		t.checkRoles(&found)
	}
	if len(found) > 0 {
		return found
	}
	t.checkPlaces(&found)
	t.checkImages(&found)
	for i := range t.group.Roles {
		t.checkRole(e, &t.group.Roles[i], &found)
	}
	t.checkAgreement(&found)
	members := Members(e)
	if n := len(members); n > MaxMembers {
		found.add("", tooMany, n, MaxMembers)
	}
	checkPorts(members, &found)
	t.checkRouter(&found)
	t.checkWritten(members, &found)
	return found
}

// checkRouter finds what hcl tells a router of its workers among the lab's flags.
func (t topology) checkRouter(found *findings) {
	r := t.group.Router
	if r == nil {
		return
	}
	d := r.dialect()
	for _, f := range r.Flags {
		if d.means(f.Name).Is(setting.Ours) {
			found.of("router", "flags", oursOfRouter, "--"+f.Name)
		}
	}
}

// checkWritten: each version has the flags that hcl gives its members, and those of the lab's that decide which.
func (t topology) checkWritten(members []Member, found *findings) {
	seen := map[*Engine]bool{}
	for _, m := range members {
		recipe := t.group.Router
		if m.Role != Route {
			recipe = t.group.role(m.Role).Engine
		}
		if seen[recipe] || !setting.Has(recipe.Kind) || recipe.Command != nil {
			continue
		}
		d := recipe.dialect()
		for _, f := range m.Engine.Flags {
			row, _ := d.option(f.Name)
			_, labs := recipe.Flag(f.Name)
			if row == nil || labs && f.Name != "data-parallel-hybrid-lb" || !row.Lacks(d.kind, d.version) {
				continue
			}
			seen[recipe] = true
			text := fmt.Sprintf(tooOld, "--"+f.Name, row.Since(), d.version)
			if m.Role == Route {
				found.of("router", "image", "%s", text)
			} else {
				found.in(m.Role, "image", "", "%s", text)
			}
			break
		}
	}
}

// GroupDoubts are what keeps every cell of a group from being proved, where its flags can mend it.
func GroupDoubts(e *Engine) []FieldError {
	var found findings
	instances := 0
	for _, r := range e.Group.Roles {
		instances += len(r.Instances)
	}
	for _, r := range e.Group.Roles {
		why := Uncounted(r.Engine)
		if kind := r.Engine.Kind; instances > 1 && why != "" && (kind == VLLM || kind == SGLang) && r.Engine.Command == nil {
			found.in(r.Name, "flags", "", unproved, why)
		}
	}
	return found
}

// checkPorts: the port that the lab gives a router, or an engine over several hosts, is none of
// those that hcl gives the members of the same host.
func checkPorts(members []Member, found *findings) {
	type place struct {
		host *provision.Host
		port int
	}
	type user struct{ port, member string }
	taken := map[place]user{}
	for _, m := range members {
		field, key, now := "port", "", user{member: fmt.Sprintf("%s %d", m.Role, m.Instance)}
		if m.Role == Route {
			field, key, now.member = "router", "port", "the router"
		}
		for _, p := range m.Ports {
			now.port = p.Name
			at := place{m.Engine.Host, p.Number}
			if first, twice := taken[at]; twice {
				found.of(field, key, portTwice, p.Number, m.Engine.Host, first.port, first.member, now.port, now.member)
				continue
			}
			taken[at] = now
		}
	}
}

// checkRoles: the roles can work together, and a router that fits stands before them.
func (t topology) checkRoles(found *findings) {
	g := &t.group
	prefill, decode, serve := g.role(Prefill), g.role(Decode), g.role(Serve)
	for _, r := range g.Roles {
		if !slices.Contains([]string{Serve, Prefill, Decode}, r.Name) {
			found.in(r.Name, "", "", unknownRole, r.Name)
		}
	}
	switch {
	case serve != nil && (prefill != nil || decode != nil):
		found.in(Serve, "", "", mixedRoles)
		return
	case serve != nil && g.Transfer != "":
		found.add("transfer", idleTransfer)
		return
	case serve != nil && g.Router != nil && g.Router.Kind == TRTLLMRouter:
		found.add("router", splitsOnly)
		return
	case serve != nil || len(*found) > 0:
		return
	case prefill == nil:
		found.in(Decode, "", "", halfRole, Decode, Prefill)
		return
	case decode == nil:
		found.in(Prefill, "", "", halfRole, Prefill, Decode)
		return
	}
	kind := prefill.Engine.Kind
	switch ways := Transfers(kind); {
	case kind != decode.Engine.Kind:
		found.in(Decode, "engine", "", mixedKinds, kind, decode.Engine.Kind)
	case ways == nil:
		found.in(Prefill, "engine", "", noSplit, kind, strings.Join(inferenceKinds, ", "))
	case !slices.Contains(ways, t.transfer):
		found.add("transfer", noTransfer, kind, g.Transfer, strings.Join(ways, ", "))
	case g.Router == nil:
		found.add("router", noRouter)
	case g.Router.Kind != OpenAI && g.Router.Kind != Sim && g.Router.Kind != RouterKinds()[kind]:
		found.add("router", otherRouter, strings.TrimSuffix(g.Router.Kind, "_router"), kind, kind)
	case g.Router.discovers() && !tellThemselves(t.transfer):
		found.add("router", ownDiscovery, t.transfer)
	}
}

// checkPlaces: no GPU is used twice, and every host can be reached from the others.
func (t topology) checkPlaces(found *findings) {
	type use struct {
		role string
		ids  []string
	}
	uses := map[*provision.Host][]use{}
	for _, r := range t.group.Roles {
		for i, in := range r.Instances {
			for _, h := range in.Hosts {
				now := use{fmt.Sprintf("%s %d", r.Name, i), in.GPUIDs}
				for _, other := range uses[h] {
					both := func(id string) bool { return slices.Contains(other.ids, id) }
					switch {
					case h.GPUs.Count == 0 || now.ids != nil && other.ids != nil && !slices.ContainsFunc(now.ids, both):
					case other.role == now.role:
						found.in(r.Name, "on", "", ranksOnOne, h, now.role)
					default:
						found.in(r.Name, "on", "", hostTwice, h, other.role, now.role)
					}
				}
				uses[h] = append(uses[h], now)
				if first := r.Instances[0].Hosts[0]; !h.GPUs.Same(first.GPUs) {
					found.in(r.Name, "on", "", otherGPUs, first, first.GPUs, h, h.GPUs)
				}
			}
		}
	}
	for i, h := range t.hosts() {
		if t.wide && h.Local() && h.Fabric.Address == "" {
			found.add("host", localHost, h)
		}
		for _, other := range t.hosts()[:i] {
			switch {
			case (h.Cluster == nil) != (other.Cluster == nil) || h.Cluster != nil && !h.Cluster.Same(other.Cluster):
				found.add("host", apart, other, h)
			case h.SameMachine(other):
				found.add("host", oneMachine, other, h)
			case h.Inside() == other.Inside() && (h.Address != other.Address || h.Jump != other.Jump):
				found.add("host", oneAddress, other, h, h.Inside())
			}
		}
	}
}

// checkImages: a pod has one image, which all have that run in it.
func (t topology) checkImages(found *findings) {
	images := map[*provision.Host]string{}
	differs := func(h *provision.Host, e *Engine) (first string, differs bool) {
		if h == nil || h.Cluster == nil || e.Kind == Sim {
			return "", false
		}
		first, used := images[h]
		images[h] = e.Image
		return first, used && first != e.Image
	}
	for _, r := range t.group.Roles {
		for _, in := range r.Instances {
			for _, h := range in.Hosts {
				if first, two := differs(h, r.Engine); two {
					found.in(r.Name, "on", "", twoImages, h, first, r.Engine.Image)
				}
			}
		}
	}
	if r := t.group.Router; r != nil {
		if first, two := differs(r.Host, r); two {
			found.of("router", "host", twoImages, r.Host, first, r.Image)
		}
	}
}

// checkRole: the engine of a role can be run in its instances.
func (t topology) checkRole(whole *Engine, r *Role, found *findings) {
	if whole.Group != nil {
		r.checkPlaced(found)
	}
	e, span := r.Engine, len(r.Instances[0].Hosts)
	if k := kinds[e.Kind]; span > 1 && k.rank == nil && e.Kind != Sim {
		if e.Kind == TRTLLM {
			found.in(r.Name, "on", "", trtllmSpan)
		} else {
			found.in(r.Name, "on", "", noSpan, e.Kind)
		}
		return
	}
	d := e.dialect()
	for _, f := range e.Flags {
		way := d.means(f.Name)
		if way.Is(setting.Launcher) && (span > 1 || way.Name == setting.RanksAsServers) && f.text().Reveal() != "mp" {
			found.in(r.Name, "flags", f.Name, otherLauncher, "--"+f.Name)
		}
		if e.speaksAs() == VLLM && t.transfer != "" && e.isTransfer(f.Name) {
			if _, err := transferConfig(e); err != nil {
				found.in(r.Name, "flags", f.Name, notTransfer, err)
			}
		}
	}
	if at, said := e.says(setting.Host); said && t.wide && t.port == 0 && !open(at) {
		found.in(r.Name, "flags", "host", onlyItself, at)
	}
	if network := e.Container.Network; network != "" && network != "host" {
		found.in(r.Name, "container.network", "", ownNetwork, network)
	}
	in := r.Instances[0]
	each := in.Hosts[0].GPUs.Count
	if len(in.GPUIDs) > 0 {
		each = len(in.GPUIDs)
	}
	if kinds[e.Kind].needsModel && e.Command == nil && each > 0 {
		what := fmt.Sprintf("%d × %d", span, each)
		if need := GPUs(e); span > 1 && need != each*span { // of one host, Check says it
			found.in(r.Name, "flags", "", wrongGPUs, need, each*span, what)
		}
		if n := e.whole(1, setting.DataParallel); e.Kind == VLLM && n > 1 && n%span != 0 {
			found.in(r.Name, "flags", "", unevenRanks, n, span)
		} else if e.Kind == SGLang && n > 1 && span > 1 && !e.isOn(setting.DPAttention) {
			found.in(r.Name, "flags", "", noAttention)
		}
	}
	if c := vllmConnectors[t.transfer]; e.Kind == VLLM && e.version().Before(c.since) {
		found.in(r.Name, "image", "", tooOld, c.name, c.since, e.version())
	}
	t.checkOurs(whole, r, found)
}

// OfPlace reports whether what is wrong with an engine without a host is so only because it has
// none: its role gives it hosts and ports, and shows whether it needs an image.
func OfPlace(e *Engine, f FieldError) bool {
	return f.Field == "host" || f.Field == "port" && e.Port == 0 || noImageYet(e, f)
}

func noImageYet(e *Engine, f FieldError) bool { return f.Field == "image" && e.Image == "" }

// checkPlaced holds the engine of a role against the hosts that the role gives it.
func (r *Role) checkPlaced(found *findings) {
	told := slices.DeleteFunc(Check(r.Engine), func(f FieldError) bool { return noImageYet(r.Engine, f) })
	for _, in := range r.Instances {
		placed := r.Engine.clone()
		placed.Host, placed.Hosts, placed.Container.GPUIDs = in.Hosts[0], in.Hosts, in.GPUIDs
		for _, f := range Check(placed) {
			if slices.Contains(told, f) {
				continue
			}
			switch f.Field {
			case "host":
				f.Field = "on"
			case "container.gpu_ids":
				f.Field = "gpu_ids"
			}
			f.Role = r.Name
			*found = append(*found, f)
		}
	}
}

// checkOurs finds flags and variables by which members find each other: they are not the
// lab's to say, since they differ from member to member.
func (t topology) checkOurs(whole *Engine, r *Role, found *findings) {
	given := func(value func(m *Engine) (string, bool)) string {
		var all []string
		for _, m := range Members(whole.without(r)) {
			if v, ok := value(m.Engine); ok && m.Role == r.Name && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		if len(all) == 0 {
			return "to none"
		}
		return strings.TrimSpace(strings.Join(all, ", "))
	}
	d := r.Engine.dialect()
	for _, f := range r.Engine.Flags {
		if d.means(f.Name).Is(setting.Ours) {
			found.in(r.Name, "flags", f.Name, oursFlag, "--"+f.Name, given(func(m *Engine) (string, bool) { return m.Flag(f.Name) }))
		}
	}
	for _, v := range r.Engine.Env {
		if slices.Contains(ourVariables, v.Name) {
			found.in(r.Name, "env", v.Name, oursEnv, v.Name, given(func(m *Engine) (string, bool) {
				i := slices.IndexFunc(m.Env, func(in provision.EnvVar) bool { return in.Name == v.Name })
				if i < 0 {
					return "", false
				}
				return m.Env[i].Value.String(), true
			}))
		}
	}
}

// without is an engine whose role of that name says nothing that is ours.
func (e *Engine) without(r *Role) *Engine {
	clean, d := r.Engine.clone(), r.Engine.dialect()
	clean.Flags = slices.DeleteFunc(clean.Flags, func(f Flag) bool { return d.means(f.Name).Is(setting.Ours) })
	clean.Env = slices.DeleteFunc(clean.Env, func(v provision.EnvVar) bool { return slices.Contains(ourVariables, v.Name) })
	if e.Group == nil {
		return clean
	}
	whole, g := *e, *e.Group
	whole.Group, g.Roles = &g, slices.Clone(g.Roles)
	g.role(r.Name).Engine = clean
	return &whole
}

// checkAgreement: prefill and decode are halves of one.
func (t topology) checkAgreement(found *findings) {
	prefill, decode := t.group.role(Prefill), t.group.role(Decode)
	if prefill == nil || decode == nil {
		return
	}
	said := func(e *Engine, meaning string) string {
		if v, ok := e.says(meaning); ok && v != "auto" {
			return v
		}
		return "the engine's own"
	}
	for _, m := range setting.All() {
		if m.Name == setting.ContextLength && kinds[prefill.Engine.Kind].shortPrefill {
			p, _, said := maxContext(prefill.Engine)
			if d, _, both := maxContext(decode.Engine); said && (!both || p <= d) {
				continue
			}
		}
		if p, d := said(prefill.Engine, m.Name), said(decode.Engine, m.Name); m.Is(setting.Agreed) && p != d {
			found.in(Decode, "flags", "", unequal, "the "+m.Name, p, d)
		}
	}
	if p, d := prefill.Engine.whole(1, setting.TensorParallel), decode.Engine.whole(1, setting.TensorParallel); t.transfer == "p2p_nccl" && p != d {
		found.in(Decode, "flags", "", unequal, "tensor-parallel-size with the transfer p2p_nccl", strconv.Itoa(p), strconv.Itoa(d))
	}
	if p, d := prefill.Engine.Model, decode.Engine.Model; p != nil && d != nil && (p.Repo != d.Repo || p.Revision != d.Revision) {
		found.in(Decode, "model", "", otherModel, p.Repo, d.Repo)
	}
}
