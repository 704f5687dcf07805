package hcl

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"hclbench/engines"
	"hclbench/provision"
)

func groupBlock() *blockType {
	type engine = engines.Engine
	return &blockType{
		name: "group", root: "group", perCell: true,
		labels: []label{{what: "name", form: identifier}},
		args: []argument{
			forEach(),
			unbound("inherits", groupOfLab.kind),
			arg("transfer", text, func(e *engine, s string) { e.Group.Transfer = s }),
			described(func(e *engine, s string) { e.Description = s }),
		},
		blocks: []nested{
			{typ: roleBlock(), many: true, part: func(noun any, name string) any {
				g := noun.(*engine).Group
				g.Roles = append(g.Roles, engines.Role{Name: name})
				return &g.Roles[len(g.Roles)-1]
			}},
			{typ: routerBlock(), part: func(noun any, kind string) any {
				r := &engine{Kind: engines.RouterKinds()[kind], Name: "router", Router: true}
				noun.(*engine).Group.Router = r
				return r
			}},
		},
		make: becomes(func(d *declared) *engine {
			return &engine{
				Kind: engines.GroupKind, Name: d.fullName(), Instance: d.instanceName(), Pos: pos(d.header),
				Group: &engines.Group{},
			}
		}),
		check: checks(checkGroup),
	}
}

// roleBlock is a role. What is required may be inherited. Its instances are made in the order
// of its arguments: where, of how many hosts each, and with which GPUs.
func roleBlock() *blockType {
	type role = engines.Role
	t := blockOf("role",
		arg("engine", engineOfLab, func(r *role, e *engines.Engine) { r.Engine = e }),
		arg("on", hostsOfLab, func(r *role, hosts []*provision.Host) { r.Instances = instancesOn(hosts, 1) }),
		arg("span", whole(1, 1000), func(r *role, n int) {
			var hosts []*provision.Host
			for _, in := range r.Instances {
				hosts = append(hosts, in.Hosts...)
			}
			r.Instances = instancesOn(hosts, n)
		}),
		arg("gpu_ids", gpuIDs, func(r *role, lists [][]string) {
			for i := range min(len(lists), len(r.Instances)) {
				r.Instances[i].GPUIDs = lists[i]
			}
		}),
	)
	t.labels = []label{{what: "name", form: identifier}}
	return t
}

// instancesOn are instances of so many hosts each.
func instancesOn(hosts []*provision.Host, span int) []engines.Instance {
	var list []engines.Instance
	for part := range slices.Chunk(hosts, span) {
		list = append(list, engines.Instance{Hosts: part})
	}
	return list
}

// routerBlock is who gives requests to the instances: an engine of a kind of its own, which
// says a part of what engines say.
func routerBlock() *blockType {
	from := engineBlock()
	t := blockOf("router")
	for _, name := range []string{"host", "image", "env", "flags", "config", "setup", "command", "port"} {
		a, _ := from.argument(name)
		t.args = append(t.args, a)
	}
	container, _ := from.nested("container")
	t.blocks = []nested{container}
	t.labels = []label{{what: "kind"}}
	for _, kind := range engines.Kinds() {
		if engines.RouterKinds()[kind] != "" {
			t.labels[0].kinds = append(t.labels[0].kinds, kind)
		}
	}
	return t
}

// The roles in the order in which their members start.
var roleOrder = []string{engines.Serve, engines.Prefill, engines.Decode}

// What is said of groups, where it is long.
const (
	noRoles       = `A group is made of roles. Write role "prefill" { … } and role "decode" { … }, or role "serve" { … }.`
	noRecipe      = "A role says which engine does it, one without a host, for example:\n\n    engine = engine.sglang.prefill"
	noPlaces      = "A role says on which hosts its instances run, for example:\n\n    on = [host.a, host.b]"
	emptyPlaces   = `"on" is empty, so the role has no instance. Write at least one host.`
	unevenSpan    = "Each instance spans %d hosts, and %d cannot be shared out evenly. Give other hosts, or another span."
	gpusPerOne    = "There are GPUs for %d instances, and the role has %d. Write a list for each."
	placedRecipe  = "%s says itself where it runs, and here the role does, by on. Write an engine without a host, such as one that inherits this one and says host = null."
	foreignRecipe = "%s is run by someone else, so it cannot take a role."
	recipeGPUs    = "%s says gpu_ids, which hold for one instance. Say them in the role: gpu_ids = [[\"0\"], [\"1\"]]"
	routerPlace   = "A router says on which host it runs, for example:\n\n    host = host.a"
)

func checkGroup(b *block, e *engines.Engine) {
	slices.SortStableFunc(e.Group.Roles, func(a, b engines.Role) int {
		return slices.Index(roleOrder, a.Name) - slices.Index(roleOrder, b.Name)
	})
	if len(e.Group.Roles) == 0 {
		b.missing(b.header, "role", "Missing block", noRoles)
		b.incomplete = true
	}
	for i := range e.Group.Roles {
		b.checkRole(&e.Group.Roles[i])
	}
	if r := e.Group.Router; r != nil {
		b.checkRouter(r)
	}
	if b.incomplete {
		return
	}
	for _, r := range e.Group.Roles {
		b.checkPlaced(r)
	}
	for _, f := range engines.CheckGroup(e) {
		b.mistakeOfGroup(e, f)
	}
}

// checkPlaced holds a recipe against the hosts that its role gives it.
func (b *block) checkPlaced(r engines.Role) {
	told := engines.Check(r.Engine)
	for _, in := range r.Instances {
		placed := *r.Engine
		placed.Host, placed.Hosts, placed.Container.GPUIDs = in.Hosts[0], in.Hosts, in.GPUIDs
		for _, f := range engines.Check(&placed) {
			if !slices.Contains(told, f) {
				b.mistakeOfRole(r.Name, f)
			}
		}
	}
}

// mistakeOfRole reports what is wrong with an engine in a role.
func (b *block) mistakeOfRole(role string, f engines.FieldError) {
	x := b.said["role "+role+"."+strings.TrimPrefix(f.Field, "container.")]
	if !x.said() {
		x = b.said["role "+role+".engine"]
	}
	b.errOnce(x.at, "Wrong role", "%s", f.Detail)
	b.incomplete = true
}

// checkRole holds a role against what roles are.
func (b *block) checkRole(r *engines.Role) {
	name := "role " + r.Name
	at, recipe, on := b.said[name].at, b.said[name+".engine"], b.said[name+".on"]
	r.Pos = pos(at)
	wrong := func(at hcl.Range, format string, args ...any) {
		b.errOnce(at, "Wrong role", format, args...)
		b.incomplete = true
	}
	switch e := r.Engine; {
	case !recipe.said():
		b.missing(at, "engine", "Missing argument", noRecipe)
		b.incomplete = true
	case e == nil:
	case e.Kind == engines.External:
		wrong(recipe.at, foreignRecipe, e.Address())
	case e.Host != nil:
		wrong(recipe.at, placedRecipe, e.Address())
	case e.Container.GPUIDs != nil:
		wrong(recipe.at, recipeGPUs, e.Address())
	}
	for d := referred(recipe.raw, "engine"); recipe.said() && d != nil; d = d.inherits {
		d.recipe = true
	}
	span, given := b.said[name+".span"], b.said[name+".gpu_ids"]
	last := len(r.Instances) - 1
	switch {
	case !on.said():
		b.missing(at, "on", "Missing argument", noPlaces)
		b.incomplete = true
	case !on.fits():
	case last < 0:
		wrong(on.at, emptyPlaces)
	case len(r.Instances[last].Hosts) != len(r.Instances[0].Hosts):
		each := len(r.Instances[0].Hosts)
		wrong(span.at, unevenSpan, each, each*last+len(r.Instances[last].Hosts))
	case given.fits() && len(given.value.([][]string)) != len(r.Instances):
		wrong(given.at, gpusPerOne, len(given.value.([][]string)), len(r.Instances))
	}
}

// routerKind is the label of the group's router; empty: it has none.
func (b *block) routerKind() string {
	router := b.typ.inner("router")
	for _, name := range b.parts("", router) {
		return strings.TrimPrefix(name, "router ")
	}
	return ""
}

// checkRouter holds a router against what its kind knows.
func (b *block) checkRouter(r *engines.Engine) {
	name := "router " + b.routerKind()
	x := b.said[name]
	r.Pos = pos(x.at)
	if !b.said[name+".host"].said() {
		b.missing(x.at, "host", "Missing argument", routerPlace)
		b.incomplete = true
	}
	if b.incomplete {
		return
	}
	for _, f := range engines.Check(r) {
		b.mistake(name, f)
	}
}
