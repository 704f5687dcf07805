package engines

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// GroupKind is the kind of an engine that is made of others: group "NAME".
const GroupKind = "group"

// The roles of an engine's members.
const (
	Serve   = "serve"   // answers requests from beginning to end
	Prefill = "prefill" // reads prompts and hands over their KV cache
	Decode  = "decode"  // takes that, and generates
	Route   = "router"  // gives requests to the others
)

// Group is what is measured as one engine: roles, and who gives them requests. An engine
// without one is one instance of the role [Serve].
type Group struct {
	Roles []Role
	// Router is an engine that gives requests to the instances, of a kind of
	// [RouterKinds]; nil: those who send requests go to the instances in turn.
	Router   *Engine
	Transfer string // how the KV cache goes from prefill to decode; empty: in the engine's usual way
}

// Role is an engine in one or more instances that do the same.
type Role struct {
	Name      string
	Engine    *Engine // the recipe, which says nothing of where
	Instances []Instance
	Pos       string
}

// Instance is one engine of a role: over several hosts it has a rank on each.
type Instance struct {
	Hosts  []*provision.Host // the first has rank 0, which answers
	GPUIDs []string          // of each of its hosts; empty: all
}

// Member is one container or process of an engine.
type Member struct {
	Role     string
	Instance int         // which of those of its role, from 0
	Rank     int         // which of those that are one instance together, from 0
	Engine   *Engine     // the recipe with what is this member's own: host, GPUs, port, and the flags and variables of its rank
	Ports    []NamedPort // of its host, that it listens on; the first is its server's
	Answers  bool        // its server takes requests; else it works for one that does
}

// Name tells the member from the others of its engine: "decode 0", "serve 0 rank 1".
func (m Member) Name() string {
	name := m.Role
	if m.Role != Route {
		name += " " + strconv.Itoa(m.Instance)
	}
	if m.Rank > 0 {
		name += " rank " + strconv.Itoa(m.Rank)
	}
	return name
}

// NamedPort is a port that a member listens on.
type NamedPort struct {
	Name   string // what for: "server", "bootstrap", "dist"
	Number int
	Open   bool // to other hosts
}

// Members are the containers or processes of an engine in the order of starting: the
// ranks of each instance of each role, then the router. None for an engine that others
// start.
func Members(e *Engine) []Member {
	switch {
	case ByOthers(e):
		return nil
	case e.Group == nil && len(e.Hosts) < 2:
		return []Member{{Role: Serve, Engine: e, Ports: []NamedPort{{"server", Port(e), open(listens(e))}}, Answers: true}}
	}
	t := topologyOf(e)
	members := t.ranks()
	if r := t.group.Router; r != nil {
		members = append(members, t.router(members))
	}
	return members
}

// Fronts are the members that those who send requests go to: the router, or all whose
// servers answer.
func Fronts(e *Engine) []Member {
	members := Members(e)
	if e.Group != nil && e.Group.Router != nil {
		return members[len(members)-1:]
	}
	return slices.DeleteFunc(members, func(m Member) bool { return !m.Answers })
}

// Engines are the recipes that an engine is made of, with their roles: of a group those of its
// roles and its router, else itself.
func (e *Engine) Engines() iter.Seq2[string, *Engine] {
	return func(yield func(string, *Engine) bool) {
		if e.Group == nil {
			yield(Serve, e)
			return
		}
		for _, r := range e.Group.Roles {
			if !yield(r.Name, r.Engine) {
				return
			}
		}
		if e.Group.Router != nil {
			yield(Route, e.Group.Router)
		}
	}
}

// topology is a group while its members are made of it.
type topology struct {
	group     Group
	wide      bool // its members find each other over a network
	firstPort int
	port      int    // that its one instance answers on; 0: it has one of its own block
	transfer  string // from prefill to decode; empty: none
}

// topologyOf is the group of an engine; an engine over several hosts is one of one instance.
func topologyOf(e *Engine) topology {
	t := topology{firstPort: cmp.Or(e.FirstPort, firstPort)}
	if e.Group == nil {
		hosts := e.Hosts
		if hosts == nil {
			hosts = []*provision.Host{e.Host}
		}
		t.group.Roles = []Role{{Name: Serve, Engine: e, Instances: []Instance{{hosts, e.Container.GPUIDs}}}}
		t.port = Port(e)
	} else {
		t.group, t.transfer = *e.Group, e.Group.transfer()
	}
	for _, h := range t.hosts() {
		t.wide = t.wide || h.Inside() != t.hosts()[0].Inside()
	}
	return t
}

// hosts are those of all members, each once.
func (t topology) hosts() []*provision.Host {
	var list []*provision.Host
	add := func(h *provision.Host) {
		if h != nil && !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	for _, r := range t.group.Roles {
		for _, in := range r.Instances {
			for _, h := range in.Hosts {
				add(h)
			}
		}
	}
	if t.group.Router != nil {
		add(t.group.Router.Host)
	}
	return list
}

// ranks are the members of all instances.
func (t topology) ranks() []Member {
	var members []Member
	for _, role := range t.group.Roles {
		for i, in := range role.Instances {
			head := len(members)
			for rank := range in.Hosts {
				s := spot{
					topology: t, role: role.Name, in: in, rank: rank, of: len(in.Hosts),
					ports: t.portsOf(len(members)), head: t.portsOf(head),
				}
				m := s.member(role.Engine)
				m.Instance = i
				members = append(members, m)
			}
		}
	}
	return members
}

// spot is where a member stands in a group.
type spot struct {
	topology
	role     string
	in       Instance
	rank, of int
	ports    ports // its own
	head     ports // of rank 0 of its instance
}

// host is the member's own.
func (s *spot) host() *provision.Host { return s.in.Hosts[s.rank] }

// headPort is a port on which rank 0 of the instance listens, and which all its ranks know.
func (s *spot) headPort(name string, at int) string {
	if s.rank == 0 {
		return s.ports.use(name, at)
	}
	return s.head.at(at)
}

// headAddress is where the others of the instance find rank 0.
func (s *spot) headAddress() string { return s.in.Hosts[0].Inside() }

// member is a recipe at this spot.
func (s *spot) member(recipe *Engine) Member {
	e := recipe.clone()
	e.Host, e.Hosts, e.Port = s.host(), nil, s.ports.server()
	if s.port != 0 && s.rank == 0 {
		e.Port = s.port
	}
	if len(s.in.GPUIDs) > 0 {
		e.Container.GPUIDs = s.in.GPUIDs
	}
	m := Member{Role: s.role, Rank: s.rank, Engine: e, Answers: s.rank == 0}
	if s.wide && s.port == 0 { // a router or a sender of another host comes to it
		e.say("host", everywhere(e.Host))
	}
	joinFabric(e, s)
	k := kinds[e.Kind]
	if k.rank != nil {
		m.Answers = k.rank(e, s)
	}
	if k.disaggregate != nil && (s.role == Prefill || s.role == Decode) {
		k.disaggregate(e, s)
	}
	m.Ports = s.ports.used
	if _, silent := e.Flag("headless"); !silent {
		m.Ports = append([]NamedPort{{"server", e.Port, open(e.listensInside())}}, m.Ports...)
	}
	return m
}

// router is the member that gives requests to the others.
func (t topology) router(members []Member) Member {
	r := t.group.Router.clone()
	r.Port = Port(r)
	openMany(r) // each request is a connection to it, and one or two from it
	p := t.portsOf(len(members))
	to := routing{as: t.group.Roles[0].Engine.speaksAs(), byRole: map[string][]worker{}, transfer: t.transfer, ports: &p}
	for _, m := range members {
		if m.Answers {
			to.byRole[m.Role] = append(to.byRole[m.Role], worker{m.Engine.insideURL(), m.Ports})
		}
	}
	if routes := kinds[r.Kind].routes; routes != nil {
		routes(r, to)
	} else {
		for role := range to.byRole {
			r.setVariable("HCL_"+strings.ToUpper(role)+"_URLS", strings.Join(to.urls(role), " "))
		}
	}
	server := NamedPort{"server", r.Port, open(listens(r))}
	return Member{Role: Route, Engine: r, Answers: true, Ports: append([]NamedPort{server}, p.used...)}
}

// insideURL is where the engine is found by the others of its group.
func (e *Engine) insideURL() string {
	if at := e.listensInside(); !open(at) {
		return e.urlAt(at)
	}
	return e.urlAt(e.Host.Inside())
}

// listensInside is [listens], where a command of the lab's is taken to do as it is told.
func (e *Engine) listensInside() string {
	if host, said := e.says(setting.Host); said {
		return host
	}
	return listens(e)
}

// clone is a copy whose flags and variables may be added to.
func (e *Engine) clone() *Engine {
	c := *e
	c.Flags, c.Env = slices.Clone(e.Flags), slices.Clone(e.Env)
	return &c
}

// say adds a flag, in its place among the others, unless the lab says it itself.
func (e *Engine) say(name string, value ...string) {
	if _, said := e.Flag(name); said {
		return
	}
	var added []Flag
	for _, v := range value {
		text := provision.Plain(v)
		added = append(added, Flag{Name: name, Value: &text})
	}
	if value == nil {
		added = []Flag{{Name: name}}
	}
	at := slices.IndexFunc(e.Flags, func(f Flag) bool { return f.Name > name })
	if at < 0 {
		at = len(e.Flags)
	}
	e.Flags = slices.Insert(e.Flags, at, added...)
}

// setVariable sets a variable of the environment unless the lab does.
func (e *Engine) setVariable(name, value string) {
	if value == "" || slices.ContainsFunc(e.Env, func(v provision.EnvVar) bool { return v.Name == name }) {
		return
	}
	e.Env = append(e.Env, provision.EnvVar{Name: name, Value: provision.Plain(value)})
	slices.SortStableFunc(e.Env, func(a, b provision.EnvVar) int { return strings.Compare(a.Name, b.Name) })
}

// front is the first that those who send requests go to; of an engine of one member itself.
func (e *Engine) front() *Engine {
	if e.Group == nil {
		return e
	}
	return Fronts(e)[0].Engine
}

// Placed is the engine with each of its hosts in the place of another.
func (e *Engine) Placed(place func(*provision.Host) *provision.Host) *Engine {
	out := *e
	places := func(hosts []*provision.Host) (list []*provision.Host) {
		for _, h := range hosts {
			list = append(list, place(h))
		}
		return list
	}
	if out.Hosts = places(e.Hosts); e.Host != nil {
		out.Host = place(e.Host)
	}
	if e.Group == nil {
		return &out
	}
	g := *e.Group
	out.Group, g.Roles = &g, slices.Clone(g.Roles)
	for i, r := range g.Roles {
		g.Roles[i].Engine, g.Roles[i].Instances = r.Engine.Placed(place), slices.Clone(r.Instances)
		for j, in := range r.Instances {
			g.Roles[i].Instances[j].Hosts = places(in.Hosts)
		}
	}
	if g.Router != nil {
		g.Router = g.Router.Placed(place)
	}
	return &out
}
