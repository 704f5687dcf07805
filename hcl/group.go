package hcl

import (
	"cmp"
	"slices"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/plain"
	"hclbench/provision"
)

func groupBlock() *lang.BlockType {
	type engine = engines.Engine
	return &lang.BlockType{
		Name: "group", Root: "group", PerCell: true, Addressed: true, // as engines.Engine.Label has it
		Labels: []lang.Label{{What: "name", Form: lang.Identifier}},
		Args: []lang.Argument{
			lang.ForEach(),
			lang.Unbound("inherits", groupOfLab),
			lang.Arg("transfer", lang.Text, func(e *engine, s string) { e.Transfer = s }),
			lang.Description(func(e *engine, s string) { e.Description = s }),
		},
		Blocks: []lang.Nested{
			{Type: roleBlock(), Many: true, Part: func(noun any, name string) any {
				e := noun.(*engine)
				e.Placement = append(e.Placement, engines.Instance{Role: name})
				return &e.Placement[len(e.Placement)-1]
			}},
			{Type: routerBlock(), Part: func(noun any, kind string) any {
				e, r := noun.(*engine), &engine{Kind: engines.RouterKinds()[kind], Name: "router", Router: true, Placement: engines.On()}
				e.Placement = append(e.Placement, engines.Instance{Role: engines.Route, Engine: r})
				return r
			}},
		},
		Make: lang.Makes(func(d *lang.Declared) *engine {
			return &engine{Kind: engines.GroupKind, Name: d.FullName(), Instance: d.InstanceName(), Pos: d.Header.String()}
		}),
		Check: lang.Checks(checkGroup),
	}
}

// roleBlock is a role: at first one instance on all of its hosts, which is shared out when the role is checked.
// What is required may be inherited.
func roleBlock() *lang.BlockType {
	t := lang.BlockOf("role",
		lang.Arg("engine", engineOfLab, func(in *engines.Instance, e *engines.Engine) { in.Engine = e }),
		lang.Arg("on", hostsOfLab, func(in *engines.Instance, hosts []*provision.Host) { in.Hosts = hosts }),
		lang.Unbound("span", lang.Whole(1, 1000)),
		lang.Unbound("gpu_ids", gpuIDs),
	)
	t.Labels = []lang.Label{{What: "name", Form: lang.Identifier}}
	return t
}

// routerBlock is who gives requests to the instances: an engine of a kind of its own, which
// says a part of what engines say.
func routerBlock() *lang.BlockType {
	from := engineBlock()
	t := lang.BlockOf("router")
	for _, name := range []string{"host", "image", "env", "flags", "config", "setup", "command", "port"} {
		a, _ := from.Argument(name)
		t.Args = append(t.Args, a)
	}
	container, _ := from.Nested("container")
	t.Blocks = []lang.Nested{container}
	t.Labels = []lang.Label{{What: "kind"}}
	for _, kind := range engines.Kinds() {
		if engines.RouterKinds()[kind] != "" {
			t.Labels[0].Kinds = append(t.Labels[0].Kinds, kind)
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

func checkGroup(b *lang.Block, e *engines.Engine) {
	slices.SortStableFunc(e.Placement, func(a, b engines.Instance) int {
		return slices.Index(roleOrder, a.Role) - slices.Index(roleOrder, b.Role)
	})
	if len(b.Parts("role")) == 0 && !b.Incomplete {
		b.Fail(b.Header.Lacking("role"), "Missing block", noRoles)
	}
	var placement engines.Placement
	for _, in := range e.Placement {
		var part *lang.Block
		var instances engines.Placement
		if in.Engine != nil && in.Engine.Router {
			part = routerOf(b)
			instances = placeRouter(part, in)
		} else {
			part = b.Inside("role " + in.Role)
			instances = placeRole(part, in)
		}
		b.Incomplete = b.Incomplete || part.Incomplete
		placement = append(placement, instances...)
	}
	e.Placement = placement
	if b.Incomplete {
		return
	}
	for _, f := range engines.Check(e) {
		reportMistakeOfGroup(b, f)
	}
	for _, f := range engines.GroupDoubts(e) {
		if at, inherited := recipeOf(b, f.Role).PlaceOf(f.Field, f.Key); !b.Incomplete && inherited == "" { // else told where it is said
			b.Warn(at.Once(), "Doubtful "+f.Field, "%s", f.Detail)
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

// routerOf is the group's router; nil: it has none.
func routerOf(b *lang.Block) *lang.Block {
	for _, name := range b.Parts("router") {
		return b.Inside(name)
	}
	return nil
}

// reportMistakeOfGroup reports what is wrong where a group says it, one of its roles, or the engine that takes it.
func reportMistakeOfGroup(b *lang.Block, f engines.FieldError) {
	_, ofRole := roleBlock().Argument(f.Field)
	switch router := routerOf(b); {
	case f.Field == "router" && router != nil:
		b.Fail(router.At(f.Key), "Wrong router", "%s", f.Detail)
	case f.Role == "":
		b.Fail(b.At(f.Field), "Wrong "+cmp.Or(f.Field, "group"), "%s", f.Detail)
	case f.Field == "" || ofRole:
		role := b.Inside("role " + f.Role)
		b.Fail(role.At(f.Field), "Wrong role", "%s", f.Detail)
	default:
		reportMistake(recipeOf(b, f.Role), f)
		b.Incomplete = true
	}
}

// recipeOf is the engine that takes a role.
func recipeOf(b *lang.Block, role string) *lang.Block {
	return b.BlockFor(b.Inside("role " + role).Arg("engine").Referred("engine"))
}

// placeRole holds a role against what roles are, and shares its hosts out.
func placeRole(b *lang.Block, in engines.Instance) (instances engines.Placement) {
	recipe, on, given := b.Arg("engine"), b.Arg("on"), b.Arg("gpu_ids")
	wrong := func(x lang.Setting, format string, args ...any) { b.Fail(x.At, "Wrong role", format, args...) }
	missing := func(name, detail string) { b.Fail(b.Header.Lacking(name), "Missing argument", "%s", detail) }
	if in.Role == engines.Route || !slices.Contains(roleOrder, in.Role) {
		b.Fail(b.Header, "Wrong role", unknownRole, in.Role)
	}
	switch e := in.Engine; {
	case !recipe.IsSet():
		missing("engine", noRecipe)
	case e == nil:
	case engines.ByOthers(e):
		wrong(recipe, foreignRecipe, e.Address())
	case e.Host() != nil:
		wrong(recipe, placedRecipe, e.Address())
	case e.GPUIDs() != nil:
		wrong(recipe, recipeGPUs, e.Address())
	case e.Placement[0].Port != 0:
		b.Warn(recipe.At, "No effect", recipePort, e.Address())
	}
	span, _ := b.Arg("span").Value.(int)
	for hosts := range slices.Chunk(in.Hosts, max(span, 1)) {
		instances = append(instances, engines.Instance{Role: in.Role, Engine: in.Engine, Hosts: hosts})
	}
	lists, _ := given.Value.([][]string)
	switch n := len(instances); {
	case !on.IsSet():
		missing("on", noPlaces)
	case !on.IsValid():
	case n == 0:
		wrong(on, emptyPlaces)
	case span > 1 && len(in.Hosts)%span != 0:
		wrong(b.Arg("span"), unevenSpan, span, len(in.Hosts))
	case given.IsValid() && len(lists) != n:
		wrong(given, gpusPerOne, plain.Count(len(lists), "instance"), n)
	case given.IsValid():
		for i, ids := range lists {
			instances[i].GPUIDs = ids
		}
	}
	return instances
}

// placeRouter holds a router against what its kind knows.
func placeRouter(b *lang.Block, in engines.Instance) engines.Placement {
	r := in.Engine
	r.Pos = b.Header.String()
	if r.Kind != "" && !b.Arg("host").IsSet() {
		b.Fail(b.Header.Lacking("host"), "Missing argument", routerPlace)
	}
	if b.Incomplete = b.Incomplete || r.Kind == ""; b.Incomplete {
		return nil
	}
	settleFlags(b, r)
	reportMistakes(b, r)
	if !b.Incomplete {
		warnOfEngine(b, r)
	}
	in.Hosts, in.Port, r.Placement = r.Placement[0].Hosts, r.Placement[0].Port, nil
	return engines.Placement{in}
}
