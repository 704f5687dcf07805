package hcl

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"hclbench/engines"
	"hclbench/plain"
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
	noRoles      = `A group is made of roles. Write role "prefill" { … } and role "decode" { … }, or role "serve" { … }.`
	noRecipe     = "A role says which engine does it, one without a host, for example:\n\n    engine = engine.sglang.prefill"
	noPlaces     = "A role says on which hosts its instances run, for example:\n\n    on = [host.a, host.b]"
	emptyPlaces  = `"on" is empty, so the role has no instance. Write at least one host.`
	unevenSpan   = "Each instance spans %d hosts, and %d cannot be shared out evenly. Give other hosts, or another span."
	gpusPerOne   = "There are GPUs for %s, and the role has %d. Write a list for each."
	recipePort   = "%s says port, and hcl gives each instance one of its own."
	placedRecipe = "%s says itself where it runs, and here the role does, by on. Write an engine without a host, such as " +
		"one that inherits this one and says host = null."
	foreignRecipe = "%s is started by others, so it cannot take a role."
	recipeGPUs    = "%s says gpu_ids, which hold for one instance. Say them in the role: gpu_ids = [[\"0\"], [\"1\"]]"
	routerPlace   = "A router says on which host it runs, for example:\n\n    host = host.a"
)

func checkGroup(b *block, e *engines.Engine) {
	slices.SortStableFunc(e.Group.Roles, func(a, b engines.Role) int {
		return slices.Index(roleOrder, a.Name) - slices.Index(roleOrder, b.Name)
	})
	if len(e.Group.Roles) == 0 && !b.incomplete {
		b.missing(b.header, "role", "Missing block", noRoles)
	}
	for i := range e.Group.Roles {
		r := &e.Group.Roles[i]
		b.incomplete = !b.inside("role "+r.Name).checkRole(r) || b.incomplete
	}
	if r := e.Group.Router; r != nil {
		b.incomplete = !b.router().checkRouter(r) || b.incomplete
	}
	if b.incomplete {
		return
	}
	for _, f := range engines.CheckGroup(e) {
		b.mistakeOfGroup(e, f)
	}
	for _, f := range engines.GroupDoubts(e) {
		if at, inherited := b.placeInGroup(e, f); !b.incomplete && inherited == "" { // else told where it is said
			b.warnOnce(at, "Doubtful "+f.Field, "%s", f.Detail)
		}
	}
	// Requests go through the router to those who generate.
	e.APIKey = e.Group.Roles[len(e.Group.Roles)-1].Engine.APIKey
	if r := e.Group.Router; r != nil {
		r.APIKey = e.APIKey
	}
}

// inside is a nested block as one by itself.
func (b *block) inside(name string) *block {
	in, x := *b, b.said[name]
	block, _, _ := strings.Cut(name, " ")
	in.typ, in.body, in.header, in.said = b.typ.inner(block), x.body, x.at, settings{}
	for other, y := range b.said {
		if rest, inside := strings.CutPrefix(other, name+"."); inside {
			in.said[rest] = y
		}
	}
	in.incomplete = !in.whole()
	return &in
}

// router is the group's router; nil: it has none.
func (b *block) router() *block {
	for _, name := range b.parts("", b.typ.inner("router")) {
		return b.inside(name)
	}
	return nil
}

// mistakeOfGroup reports what is wrong with several members together.
func (b *block) mistakeOfGroup(e *engines.Engine, f engines.FieldError) {
	at, inherited := b.placeInGroup(e, f)
	what := cmp.Or(f.Field[strings.LastIndexByte(f.Field, '.')+1:], "group")
	if _, ofRole := roleBlock().argument(what); f.Role != "" && (ofRole || f.Field == "") {
		what = "role"
		if e.Group == nil {
			what = "hosts"
		}
	}
	b.fail(at, "Wrong "+what, "%s%s", f.Detail, inherited)
}

// placeInGroup is where a group says something, one of its roles, or the engine that takes it.
func (b *block) placeInGroup(e *engines.Engine, f engines.FieldError) (at hcl.Range, inherited string) {
	switch {
	case e.Group == nil && slices.Contains([]string{"", "on", "host"}, f.Field):
		return b.entry("hosts", "")
	case e.Group == nil:
		return b.entry(f.Field, f.Key)
	case f.Field == "router" && e.Group.Router != nil:
		r := b.router()
		return cmp.Or(r.said[f.Key].at, r.header), ""
	case f.Role == "":
		return cmp.Or(b.said[f.Field].at, b.header), ""
	}
	role := b.inside("role " + f.Role)
	if x := role.said[f.Field]; x.said() || f.Field == "" {
		return cmp.Or(x.at, role.header), ""
	}
	recipe := referred(role.arg("engine").raw, "engine")
	return b.blockOf(b.instance(recipe, b.cell), b.cell).entry(f.Field, f.Key)
}

// checkRole holds a role against what roles are; false: it is not one.
func (b *block) checkRole(r *engines.Role) bool {
	r.Pos = pos(b.header)
	recipe, on, span, given := b.arg("engine"), b.arg("on"), b.arg("span"), b.arg("gpu_ids")
	wrong := func(x setting, format string, args ...any) { b.fail(x.at, "Wrong role", format, args...) }
	missing := func(name, detail string) { b.missing(b.header, name, "Missing argument", "%s", detail) }
	switch e := r.Engine; {
	case !recipe.said():
		missing("engine", noRecipe)
	case e == nil:
	case engines.ByOthers(e):
		wrong(recipe, foreignRecipe, e.Address())
	case e.Host != nil:
		wrong(recipe, placedRecipe, e.Address())
	case e.Container.GPUIDs != nil:
		wrong(recipe, recipeGPUs, e.Address())
	case e.Port != 0:
		b.warn(recipe.at, "No effect", recipePort, e.Address())
	}
	if recipe.said() {
		for d := referred(recipe.raw, "engine"); d != nil; d = d.inherits {
			d.recipe = true
		}
	}
	n, lists, hosts := len(r.Instances), 0, 0
	for _, in := range r.Instances {
		hosts += len(in.Hosts)
	}
	if given.fits() {
		lists = len(given.value.([][]string))
	}
	switch {
	case !on.said():
		missing("on", noPlaces)
	case !on.fits():
	case n == 0:
		wrong(on, emptyPlaces)
	case span.fits() && hosts%span.value.(int) != 0:
		wrong(span, unevenSpan, span.value, hosts)
	case given.fits() && lists != n:
		wrong(given, gpusPerOne, plain.Count(lists, "instance"), n)
	}
	return !b.incomplete
}

// checkRouter holds a router against what its kind knows; false: it has none, or no host.
func (b *block) checkRouter(r *engines.Engine) bool {
	r.Pos = pos(b.header)
	if r.Kind == "" {
		return false
	}
	if !b.arg("host").said() {
		b.missing(b.header, "host", "Missing argument", routerPlace)
		return false
	}
	if b.incomplete {
		return false
	}
	b.settle(r)
	for _, f := range engines.Check(r) {
		b.mistake(f)
	}
	if !b.incomplete {
		b.warnOfEngine(r)
	}
	return !b.incomplete
}
