package engines

import (
	"cmp"
	"iter"
	"slices"

	"hclbench/provision"
)

// Placement is where an engine runs, by its instances in the order of starting. An engine alone is one instance
// on one host, one over several hosts one instance with a rank on each; a group has many, role by role, and its
// router last.
type Placement []Instance

// Instance is one server, or of a router the one that gives requests to others.
type Instance struct {
	Role   string            // of a group; empty: [Serve]
	Engine *Engine           // of a group: the recipe, which says nothing of where; nil: the engine itself
	Hosts  []*provision.Host // of its ranks: the first has rank 0, which answers
	GPUIDs []string          // of each of its hosts; empty: all
	Port   int               // that it answers on; 0: its kind's, and of a member of a group one of its own
}

// On is one instance on a host, or over several.
func On(hosts ...*provision.Host) Placement { return Placement{{Hosts: hosts}} }

// Hosts are those of all instances, each once.
func (p Placement) Hosts() []*provision.Host {
	var list []*provision.Host
	for _, in := range p {
		for _, h := range in.Hosts {
			if !slices.Contains(list, h) {
				list = append(list, h)
			}
		}
	}
	return list
}

// front is the instance that requests go to first: the router, or the first of all.
func (p Placement) front() Instance {
	switch n := len(p); {
	case n == 0:
		return Instance{}
	case p[n-1].Role == Route:
		return p[n-1]
	}
	return p[0]
}

// Host is where requests for the engine go, or, when others run it, where they come from. nil: nobody has said;
// the engine only takes roles, or load on it is sent from the caller.
func (e *Engine) Host() *provision.Host {
	if hosts := e.Placement.front().Hosts; len(hosts) > 0 {
		return hosts[0]
	}
	return nil
}

// GPUIDs are the GPUs of its host that an engine alone uses; empty: all.
func (e *Engine) GPUIDs() []string { return e.Placement.front().GPUIDs }

// port is the one that its place says, as a member's always does; 0: it is the kind's.
func (e *Engine) port() int { return e.Placement.front().Port }

// at is a recipe in one place, with flags and variables of its own.
func (e *Engine) at(in Instance) *Engine {
	out := *e
	in.Role, in.Engine = "", nil // it is alone there
	out.Flags, out.Env, out.Placement = slices.Clone(e.Flags), slices.Clone(e.Env), Placement{in}
	return &out
}

// placed is the engine with another placement, which begins as its own.
func (e *Engine) placed(change func(*Instance)) *Engine {
	out := *e
	out.Placement = slices.Clone(e.Placement)
	for i := range out.Placement {
		change(&out.Placement[i])
	}
	return &out
}

// With is the engine with each of its recipes in the place of another.
func (e *Engine) With(change func(role string, recipe *Engine) *Engine) *Engine {
	if e.Kind != GroupKind {
		return change(Serve, e)
	}
	return e.placed(func(in *Instance) { in.Engine = change(in.Role, in.Engine) })
}

// Moved is the engine with each of its hosts in the place of another.
func (e *Engine) Moved(place func(*provision.Host) *provision.Host) *Engine {
	return e.placed(func(in *Instance) {
		in.Hosts = slices.Clone(in.Hosts)
		for i, h := range in.Hosts {
			in.Hosts[i] = place(h)
		}
	})
}

// role is the instances of an engine that do the same.
type role struct {
	name      string
	engine    *Engine // their recipe
	instances []Instance
}

// roles are those of the engine, the router's among them.
func (e *Engine) roles() []role {
	var list []role
	for i, in := range e.Placement {
		if i == 0 || in.Role != e.Placement[i-1].Role {
			list = append(list, role{name: cmp.Or(in.Role, Serve), engine: cmp.Or(in.Engine, e)})
		}
		r := &list[len(list)-1]
		r.instances = append(r.instances, in)
	}
	return list
}

// workers are the roles of those that a router, if there is one, gives requests to.
func (e *Engine) workers() []role {
	return slices.DeleteFunc(e.roles(), func(r role) bool { return r.name == Route })
}

// recipe is that of a role; nil: there is none of that name.
func (e *Engine) recipe(of string) *Engine {
	for name, recipe := range e.Engines() {
		if name == of {
			return recipe
		}
	}
	return nil
}

// Engines are the recipes that an engine is made of, with their roles, the router's among them: of one that is no
// group itself.
func (e *Engine) Engines() iter.Seq2[string, *Engine] {
	return func(yield func(string, *Engine) bool) {
		if e.Kind != GroupKind {
			yield(Serve, e)
			return
		}
		for _, r := range e.roles() {
			if !yield(r.name, r.engine) {
				return
			}
		}
	}
}

// generates is the recipe of those who generate: of an engine that is no group itself.
func (e *Engine) generates() *Engine {
	if all := e.workers(); len(all) > 0 {
		return all[len(all)-1].engine
	}
	return e
}

// wide reports whether members find each other over a network.
func (e *Engine) wide() bool {
	hosts := e.Placement.Hosts()
	return slices.ContainsFunc(hosts, func(h *provision.Host) bool { return h.Inside() != hosts[0].Inside() })
}

// transfer is how the KV cache goes from prefill to decode; empty: it does not.
func (e *Engine) transfer() string {
	prefill := e.recipe(Prefill)
	if prefill != nil && e.Transfer == "" && len(Transfers(prefill.Kind)) > 0 {
		if prefill.Kind == TRTLLM && prefill.version().Known() && !prefill.before(1, 4, 0) {
			return "nixl" // the only one that its transceiver takes by itself
		}
		return Transfers(prefill.Kind)[0]
	}
	return e.Transfer
}
