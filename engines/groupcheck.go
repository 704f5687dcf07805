package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// What is said of several, where it is long.
const (
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
	tooNew        = "hcl gives each member %s, which was last in %s, and this is version %s. Take an older image, or a newer hcl."
	noAttention   = "SGLang runs data parallel over several hosts only with attention in data parallel. Add enable-dp-attention = true, " +
		"which shares out the GPUs of tp-size, or take a host for each instance and a group."
	transferGone  = "vLLM has no %s from %s on, and this is version %s. Write transfer = \"nixl\"."
	transferMayGo = "vLLM has no %s from %s on, and nothing tells which version this is. If it is newer, write transfer = \"nixl\"."
	oursFlag      = "hcl gives %s to each member itself (here %s). Remove it."
	oursEnv       = "hcl sets %s for each member itself (here %s). Remove it."
)

// ourVariables are those by which a member finds the others, as flags that are [setting.Ours].
var ourVariables = strings.Fields(`VLLM_HOST_IP SGLANG_HOST_IP VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT
	VLLM_MOONCAKE_BOOTSTRAP_PORT`)

// checkSeveral finds what is wrong with the members of a group, or of an engine over several hosts, together.
func checkSeveral(e *Engine, found *findings) {
	e.checkPlaces(found)
	e.checkImages(found)
	for _, r := range e.workers() {
		e.checkRole(r, found)
	}
	e.checkAgreement(found)
	members := Members(e)
	if n := len(members); n > MaxMembers {
		found.add("", tooMany, n, MaxMembers)
	}
	checkPorts(members, found)
	e.checkRouter(found)
	e.checkWritten(members, found)
}

// checkRouter finds what hcl tells a router of its workers among the lab's flags.
func (e *Engine) checkRouter(found *findings) {
	r := e.recipe(Route)
	if r == nil {
		return
	}
	d := r.dialect()
	for _, f := range r.Flags {
		if d.means(f.Name).Is(setting.Ours) {
			found.addKey("router", "flags", oursOfRouter, "--"+f.Name)
		}
	}
}

// checkWritten: each version has the flags that hcl gives its members, and those of the lab's that decide which.
func (e *Engine) checkWritten(members []Member, found *findings) {
	seen := map[*Engine]bool{}
	for _, m := range members {
		recipe := e.recipe(m.Role)
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
			if j := setting.Judge(d.kind, f.Name, d.version); j.Fault == setting.Gone {
				text = fmt.Sprintf(tooNew, "--"+f.Name, j.Version, d.version)
			}
			if m.Role == Route {
				found.addKey("router", "image", "%s", text)
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
	for _, r := range e.workers() {
		instances += len(r.instances)
	}
	if c := vllmConnectors[e.transfer()]; c.until.Known() && e.recipe(Prefill).Kind == VLLM && !e.recipe(Prefill).version().Known() {
		found.add("transfer", transferMayGo, c.name, c.until)
	}
	for _, r := range e.workers() {
		why := Uncounted(r.engine)
		if kind := r.engine.Kind; instances > 1 && why != "" && (kind == VLLM || kind == SGLang) && r.engine.Command == nil {
			found.in(r.name, "flags", "", unproved, why)
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
			at := place{m.Engine.Host(), p.Number}
			if first, twice := taken[at]; twice {
				found.addKey(field, key, portTwice, p.Number, m.Engine.Host(), first.port, first.member, now.port, now.member)
				continue
			}
			taken[at] = now
		}
	}
}

// checkRoles: the roles can work together, and a router that fits stands before them.
func checkRoles(e *Engine, found *findings) {
	prefill, decode, serve, router := e.recipe(Prefill), e.recipe(Decode), e.recipe(Serve), e.recipe(Route)
	switch {
	case serve != nil && (prefill != nil || decode != nil):
		found.in(Serve, "", "", mixedRoles)
		return
	case serve != nil && e.Transfer != "":
		found.add("transfer", idleTransfer)
		return
	case serve != nil && router != nil && router.Kind == TRTLLMRouter:
		found.add("router", splitsOnly)
		return
	case serve != nil:
		return
	case prefill == nil:
		found.in(Decode, "", "", halfRole, Decode, Prefill)
		return
	case decode == nil:
		found.in(Prefill, "", "", halfRole, Prefill, Decode)
		return
	}
	kind := prefill.Kind
	switch ways := Transfers(kind); {
	case kind != decode.Kind:
		found.in(Decode, "engine", "", mixedKinds, kind, decode.Kind)
	case ways == nil:
		found.in(Prefill, "engine", "", noSplit, kind, strings.Join(inferenceKinds, ", "))
	case !slices.Contains(ways, e.transfer()):
		found.add("transfer", noTransfer, kind, e.Transfer, strings.Join(ways, ", "))
	case router == nil:
		found.add("router", noRouter)
	case router.Kind != OpenAI && router.Kind != Sim && router.Kind != RouterKinds()[kind]:
		found.add("router", otherRouter, strings.TrimSuffix(router.Kind, "_router"), kind, kind)
	case router.discovers() && !tellThemselves(e.transfer()):
		found.add("router", ownDiscovery, e.transfer())
	}
}

// checkPlaces: no GPU is used twice, and every host can be reached from the others.
func (e *Engine) checkPlaces(found *findings) {
	type use struct {
		role string
		ids  []string
	}
	uses := map[*provision.Host][]use{}
	for _, r := range e.workers() {
		for i, in := range r.instances {
			for _, h := range in.Hosts {
				now := use{fmt.Sprintf("%s %d", r.name, i), in.GPUIDs}
				for _, other := range uses[h] {
					both := func(id string) bool { return slices.Contains(other.ids, id) }
					switch {
					case h.GPUs.Count == 0 || now.ids != nil && other.ids != nil && !slices.ContainsFunc(now.ids, both):
					case other.role == now.role:
						found.in(r.name, "on", "", ranksOnOne, h, now.role)
					default:
						found.in(r.name, "on", "", hostTwice, h, other.role, now.role)
					}
				}
				uses[h] = append(uses[h], now)
				if first := r.instances[0].Hosts[0]; !h.GPUs.Same(first.GPUs) {
					found.in(r.name, "on", "", otherGPUs, first, first.GPUs, h, h.GPUs)
				}
			}
		}
	}
	hosts := e.Placement.Hosts()
	for i, h := range hosts {
		if e.wide() && h.Local() && h.Fabric.Address == "" {
			found.add("host", localHost, h)
		}
		for _, other := range hosts[:i] {
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
func (e *Engine) checkImages(found *findings) {
	images := map[*provision.Host]string{}
	for _, r := range e.roles() {
		for _, h := range Placement(r.instances).Hosts() {
			if h.Cluster == nil || r.engine.Kind == Sim {
				continue
			}
			first, used := images[h]
			images[h] = r.engine.Image
			switch {
			case !used || first == r.engine.Image:
			case r.name == Route:
				found.addKey("router", "host", twoImages, h, first, r.engine.Image)
			default:
				found.in(r.name, "on", "", twoImages, h, first, r.engine.Image)
			}
		}
	}
}

// checkRole: the engine of a role can be run in its instances.
func (whole *Engine) checkRole(r role, found *findings) {
	grouped := whole.Kind == GroupKind
	if grouped {
		r.checkPlaced(found)
	}
	e, span, transfer := r.engine, len(r.instances[0].Hosts), whole.transfer()
	if k := kinds[e.Kind]; span > 1 && k.rank == nil && e.Kind != Sim {
		if e.Kind == TRTLLM {
			found.in(r.name, "on", "", trtllmSpan)
		} else {
			found.in(r.name, "on", "", noSpan, e.Kind)
		}
		return
	}
	d := e.dialect()
	for _, f := range e.Flags {
		way := d.means(f.Name)
		if way.Is(setting.Launcher) && (span > 1 || way.Name == setting.RanksAsServers) && f.text().Reveal() != "mp" {
			found.in(r.name, "flags", f.Name, otherLauncher, "--"+f.Name)
		}
		if e.speaksAs() == VLLM && transfer != "" && e.isTransfer(f.Name) {
			if _, err := transferConfig(e); err != nil {
				found.in(r.name, "flags", f.Name, notTransfer, err)
			}
		}
	}
	if at, said := e.says(setting.Host); said && whole.wide() && grouped && !open(at) {
		found.in(r.name, "flags", "host", onlyItself, at)
	}
	if network := e.Container.Network; network != "" && network != "host" {
		found.in(r.name, "container.network", "", ownNetwork, network)
	}
	in := r.instances[0]
	each := in.Hosts[0].GPUs.Count
	if len(in.GPUIDs) > 0 {
		each = len(in.GPUIDs)
	}
	if kinds[e.Kind].needsModel && e.Command == nil && each > 0 {
		what := fmt.Sprintf("%d × %d", span, each)
		if need := GPUs(e); span > 1 && need != each*span { // of one host, Check says it
			found.in(r.name, "flags", "", wrongGPUs, need, each*span, what)
		}
		if n := e.wholeNumber(1, setting.DataParallel); e.Kind == VLLM && n > 1 && n%span != 0 {
			found.in(r.name, "flags", "", unevenRanks, n, span)
		} else if e.Kind == SGLang && n > 1 && span > 1 && !e.isOn(setting.DPAttention) {
			found.in(r.name, "flags", "", noAttention)
		}
	}
	if least := (setting.Version{1, 2, 0}); e.Kind == TRTLLM && transfer == mooncake && e.version().Before(least) {
		found.in(r.name, "image", "", tooOld, "the backend MOONCAKE", least, e.version())
	}
	if c := vllmConnectors[transfer]; e.Kind == VLLM && e.version().Before(c.since) {
		found.in(r.name, "image", "", tooOld, c.name, c.since, e.version())
	}
	if c := vllmConnectors[transfer]; e.Kind == VLLM && c.until.Known() && e.version().Known() && !e.version().Before(c.until) {
		found.add("transfer", transferGone, c.name, c.until, e.version())
	}
	whole.checkOurs(r, found)
}

// checkPlaced holds the recipe of a role against the hosts that the role gives it.
func (r role) checkPlaced(found *findings) {
	for _, in := range r.instances {
		in.Port = cmp.Or(in.Port, firstPort) // it is given one
		for _, f := range checkAlone(r.engine.at(in)) {
			switch f.Field {
			case "host":
				f.Field = "on"
			case "container.gpu_ids":
				f.Field = "gpu_ids"
			}
			if f.Role = r.name; !slices.Contains(*found, f) {
				*found = append(*found, f)
			}
		}
	}
}

// checkOurs finds flags and variables by which members find each other: they are not the
// lab's to say, since they differ from member to member.
func (e *Engine) checkOurs(r role, found *findings) {
	given := func(value func(m *Engine) (string, bool)) string {
		var all []string
		for _, m := range Members(e.without(r.name)) {
			if v, ok := value(m.Engine); ok && m.Role == r.name && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		if len(all) == 0 {
			return "to none"
		}
		return strings.TrimSpace(strings.Join(all, ", "))
	}
	d := r.engine.dialect()
	for _, f := range r.engine.Flags {
		if d.means(f.Name).Is(setting.Ours) {
			found.in(r.name, "flags", f.Name, oursFlag, "--"+f.Name, given(func(m *Engine) (string, bool) { return m.Flag(f.Name) }))
		}
	}
	for _, v := range r.engine.Env {
		if slices.Contains(ourVariables, v.Name) {
			found.in(r.name, "env", v.Name, oursEnv, v.Name, given(func(m *Engine) (string, bool) {
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
func (e *Engine) without(role string) *Engine {
	return e.With(func(name string, recipe *Engine) *Engine {
		if name != role {
			return recipe
		}
		out, d := *recipe, recipe.dialect()
		out.Flags = slices.DeleteFunc(slices.Clone(out.Flags), func(f Flag) bool { return d.means(f.Name).Is(setting.Ours) })
		out.Env = slices.DeleteFunc(slices.Clone(out.Env), func(v provision.EnvVar) bool { return slices.Contains(ourVariables, v.Name) })
		return &out
	})
}

// checkAgreement: prefill and decode are halves of one.
func (e *Engine) checkAgreement(found *findings) {
	prefill, decode := e.recipe(Prefill), e.recipe(Decode)
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
		if m.Name == setting.ContextLength && kinds[prefill.Kind].shortPrefill {
			p, _, said := maxContext(prefill)
			if d, _, both := maxContext(decode); said && (!both || p <= d) {
				continue
			}
		}
		if p, d := said(prefill, m.Name), said(decode, m.Name); m.Is(setting.Agreed) && p != d {
			found.in(Decode, "flags", "", unequal, "the "+m.Name, p, d)
		}
	}
	if p, d := prefill.wholeNumber(1, setting.TensorParallel), decode.wholeNumber(1, setting.TensorParallel); e.transfer() == "p2p_nccl" && p != d {
		found.in(Decode, "flags", "", unequal, "tensor-parallel-size with the transfer p2p_nccl", strconv.Itoa(p), strconv.Itoa(d))
	}
	if p, d := prefill.Model, decode.Model; p != nil && d != nil && (p.Repo != d.Repo || p.Revision != d.Revision) {
		found.in(Decode, "model", "", otherModel, p.Repo, d.Repo)
	}
}
