package engines

import (
	"cmp"
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

// Member is one container or process of an engine.
type Member struct {
	Role     string
	Instance int         // which of those of its role, from 0
	Rank     int         // which of those that are one instance together, from 0
	Engine   *Engine     // the recipe with what is this member's own: host, GPUs, port, and the flags and variables of its rank
	Ports    []NamedPort // of its host, that it listens on; the first is its server's
	Answers  bool        // its server takes requests; else it works for one that does
	Front    bool        // requests come to it from outside: it is a router, or answers without one
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
	if ByOthers(e) {
		return nil
	}
	var members []Member
	routed := e.recipe(Route) != nil
	for _, r := range e.roles() {
		for i, in := range r.instances {
			head := len(members)
			for rank := range in.Hosts {
				s := spot{
					whole: e, role: r.name, in: in, rank: rank, wide: e.wide(), transfer: e.transfer(),
					ports: e.portsOf(len(members)), head: e.portsOf(head),
				}
				m := Member{Role: r.name, Instance: i, Rank: rank, Engine: r.engine.at(s.place(r.engine)), Answers: rank == 0}
				if r.name == Route {
					s.route(&m, members)
				} else {
					s.join(&m)
				}
				m.Front = m.Answers && (r.name == Route || !routed)
				members = append(members, m)
			}
		}
	}
	return members
}

// Fronts are the members that those who send requests go to: the router, or all whose
// servers answer.
func Fronts(e *Engine) []Member {
	return slices.DeleteFunc(Members(e), func(m Member) bool { return !m.Front })
}

// spot is where a member stands among those of its engine.
type spot struct {
	whole    *Engine
	role     string
	in       Instance
	rank     int
	wide     bool   // members find each other over a network
	transfer string // from prefill to decode; empty: none
	ports    ports  // its own
	head     ports  // of rank 0 of its instance
	silent   bool   // it has no server
}

// ranks is how many ranks the instance has.
func (s *spot) ranks() int { return len(s.in.Hosts) }

// grouped reports whether a router, or those who send requests, have several instances to choose from.
func (s *spot) grouped() bool { return s.whole.Kind == GroupKind }

// place is the member's own.
func (s *spot) place(recipe *Engine) Instance {
	in := Instance{Hosts: s.in.Hosts[s.rank : s.rank+1], GPUIDs: s.in.GPUIDs, Port: s.ports.server()}
	if s.rank == 0 && (s.in.Port != 0 || s.role == Route || !s.grouped()) {
		in.Port = cmp.Or(s.in.Port, kinds[recipe.Kind].port)
	}
	return in
}

// headPort is a port on which rank 0 of the instance listens, and which all its ranks know.
func (s *spot) headPort(name string, at int) string {
	if s.rank == 0 {
		return s.ports.use(name, at)
	}
	return s.head.at(at)
}

// headAddress is where the others of the instance find rank 0.
func (s *spot) headAddress() string { return s.in.Hosts[0].Inside() }

// join gives a member its part among the others.
func (s *spot) join(m *Member) {
	e := m.Engine
	if s.wide && s.grouped() { // a router or a sender of another host comes to it
		e.say("host", everywhere(e.Host()))
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
	if !s.silent {
		m.Ports = append([]NamedPort{{"server", e.port(), open(e.listensInside())}}, m.Ports...)
	}
}

// route gives the router its part: those that it gives requests to.
func (s *spot) route(m *Member, members []Member) {
	r := m.Engine
	openMany(r) // each request is a connection to it, and one or two from it
	to := routing{as: s.whole.workers()[0].engine.speaksAs(), byRole: map[string][]worker{}, transfer: s.transfer, ports: &s.ports}
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
	m.Ports = append([]NamedPort{{"server", r.port(), open(listens(r))}}, s.ports.used...)
}

// insideURL is where the engine is found by the others of its group.
func (e *Engine) insideURL() string {
	if at := e.listensInside(); !open(at) {
		return e.urlAt(at)
	}
	return e.urlAt(e.Host().Inside())
}

// listensInside is [listens], where a command of the lab's is taken to do as it is told.
func (e *Engine) listensInside() string {
	if host, said := e.says(setting.Host); said {
		return host
	}
	return listens(e)
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
