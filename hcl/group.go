package hcl

import (
	"cmp"
	"slices"

	"hclbench/engines"
	"hclbench/plain"
	"hclbench/provision"
)

func groupBlock() *blockType {
	type engine = engines.Engine
	return &blockType{
		name: "group", root: "group", perCell: true, whole: true, // as engines.Engine.Label has it
		labels: []label{{what: "name", form: identifier}},
		args: []argument{
			forEach(),
			unbound("inherits", groupOfLab),
			arg("transfer", text, func(e *engine, s string) { e.Transfer = s }),
			described(func(e *engine, s string) { e.Description = s }),
		},
		blocks: []nested{
			{typ: roleBlock(), many: true, part: func(noun any, name string) any {
				e := noun.(*engine)
				e.Placement = append(e.Placement, engines.Instance{Role: name})
				return &e.Placement[len(e.Placement)-1]
			}},
			{typ: routerBlock(), part: func(noun any, kind string) any {
				e, r := noun.(*engine), &engine{Kind: engines.RouterKinds()[kind], Name: "router", Router: true, Placement: engines.On()}
				e.Placement = append(e.Placement, engines.Instance{Role: engines.Route, Engine: r})
				return r
			}},
		},
		make: becomes(func(d *declared) *engine {
			return &engine{Kind: engines.GroupKind, Name: d.fullName(), Instance: d.instanceName(), Pos: pos(d.header)}
		}),
		check: checks(checkGroup),
	}
}

// roleBlock is a role: at first one instance on all of its hosts, which is shared out when the role is checked.
// What is required may be inherited.
func roleBlock() *blockType {
	t := blockOf("role",
		arg("engine", engineOfLab, func(in *engines.Instance, e *engines.Engine) { in.Engine = e }),
		arg("on", hostsOfLab, func(in *engines.Instance, hosts []*provision.Host) { in.Hosts = hosts }),
		unbound("span", whole(1, 1000)),
		unbound("gpu_ids", gpuIDs),
	)
	t.labels = []label{{what: "name", form: identifier}}
	return t
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
var roleOrder = []string{engines.Serve, engines.Prefill, engines.Decode, engines.Route}

// What is said of groups, where it is long.
const (
	unknownRole  = "There is no role %q. A group has the roles prefill and decode, or the role serve, which does both."
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
	slices.SortStableFunc(e.Placement, func(a, b engines.Instance) int {
		return slices.Index(roleOrder, a.Role) - slices.Index(roleOrder, b.Role)
	})
	if len(b.parts("role")) == 0 && !b.incomplete {
		b.missing(b.header, "role", "Missing block", noRoles)
	}
	var placement engines.Placement
	for _, in := range e.Placement {
		var part *block
		var instances engines.Placement
		if in.Engine != nil && in.Engine.Router {
			part = routerOf(b)
			instances = placeRouter(part, in)
		} else {
			part = b.inside("role " + in.Role)
			instances = placeRole(part, in)
		}
		b.incomplete = b.incomplete || part.incomplete
		placement = append(placement, instances...)
	}
	e.Placement = placement
	if b.incomplete {
		return
	}
	reportMistakes(b, e)
	for _, f := range engines.GroupDoubts(e) {
		if at, inherited := recipeOf(b, f.Role).entry(f.Field, f.Key); !b.incomplete && inherited == "" { // else told where it is said
			b.warnOnce(at, "Doubtful "+f.Field, "%s", f.Detail)
		}
	}
	// Requests go through the router to those who generate.
	for role, recipe := range e.Engines() {
		if role == engines.Route {
			recipe.APIKey = e.APIKey
		} else {
			e.APIKey = recipe.APIKey
		}
	}
}

// router is the group's router; nil: it has none.
func routerOf(b *block) *block {
	for _, name := range b.parts("router") {
		return b.inside(name)
	}
	return nil
}

// mistakeOfGroup reports what is wrong where a group says it, one of its roles, or the engine that takes it.
func reportMistakeOfGroup(b *block, f engines.FieldError) {
	_, ofRole := roleBlock().argument(f.Field)
	switch router := routerOf(b); {
	case f.Field == "router" && router != nil:
		b.fail(cmp.Or(router.said[f.Key].at, router.header), "Wrong router", "%s", f.Detail)
	case f.Role == "":
		b.fail(cmp.Or(b.said[f.Field].at, b.header), "Wrong "+cmp.Or(f.Field, "group"), "%s", f.Detail)
	case f.Field == "" || ofRole:
		role := b.inside("role " + f.Role)
		b.fail(cmp.Or(role.said[f.Field].at, role.header), "Wrong role", "%s", f.Detail)
	default:
		reportMistake(recipeOf(b, f.Role), f)
		b.incomplete = true
	}
}

// recipe is the engine that takes a role.
func recipeOf(b *block, role string) *block {
	return b.blockFor(b.inside("role " + role).arg("engine").referred("engine"))
}

// takesRole reports whether an engine takes a role of a group, or one that inherits it does.
func takesRole(r *reader, engine *declared) bool {
	for _, group := range r.declaredOf("group") {
		for _, b := range r.evaluatedBlocks(group) {
			for _, role := range b.parts("role") {
				for d := b.inside(role).arg("engine").referred("engine"); d != nil; d = d.inherits {
					if d == engine {
						return true
					}
				}
			}
		}
	}
	return false
}

// placeRole holds a role against what roles are, and shares its hosts out.
func placeRole(b *block, in engines.Instance) (instances engines.Placement) {
	recipe, on, given := b.arg("engine"), b.arg("on"), b.arg("gpu_ids")
	wrong := func(x setting, format string, args ...any) { b.fail(x.at, "Wrong role", format, args...) }
	missing := func(name, detail string) { b.missing(b.header, name, "Missing argument", "%s", detail) }
	if in.Role == engines.Route || !slices.Contains(roleOrder, in.Role) {
		b.fail(b.header, "Wrong role", unknownRole, in.Role)
	}
	switch e := in.Engine; {
	case !recipe.said():
		missing("engine", noRecipe)
	case e == nil:
	case engines.ByOthers(e):
		wrong(recipe, foreignRecipe, e.Address())
	case e.Host() != nil:
		wrong(recipe, placedRecipe, e.Address())
	case e.GPUIDs() != nil:
		wrong(recipe, recipeGPUs, e.Address())
	case e.Placement[0].Port != 0:
		b.warn(recipe.at, "No effect", recipePort, e.Address())
	}
	span, _ := b.arg("span").value.(int)
	for hosts := range slices.Chunk(in.Hosts, max(span, 1)) {
		instances = append(instances, engines.Instance{Role: in.Role, Engine: in.Engine, Hosts: hosts})
	}
	lists, _ := given.value.([][]string)
	switch n := len(instances); {
	case !on.said():
		missing("on", noPlaces)
	case !on.fits():
	case n == 0:
		wrong(on, emptyPlaces)
	case span > 1 && len(in.Hosts)%span != 0:
		wrong(b.arg("span"), unevenSpan, span, len(in.Hosts))
	case given.fits() && len(lists) != n:
		wrong(given, gpusPerOne, plain.Count(len(lists), "instance"), n)
	case given.fits():
		for i, ids := range lists {
			instances[i].GPUIDs = ids
		}
	}
	return instances
}

// placeRouter holds a router against what its kind knows.
func placeRouter(b *block, in engines.Instance) engines.Placement {
	r := in.Engine
	r.Pos = pos(b.header)
	if r.Kind != "" && !b.arg("host").said() {
		b.missing(b.header, "host", "Missing argument", routerPlace)
	}
	if b.incomplete = b.incomplete || r.Kind == ""; b.incomplete {
		return nil
	}
	settleFlags(b, r)
	reportMistakes(b, r)
	if !b.incomplete {
		warnOfEngine(b, r)
	}
	in.Hosts, in.Port, r.Placement = r.Placement[0].Hosts, r.Placement[0].Port, nil
	return engines.Placement{in}
}
