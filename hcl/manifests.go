package hcl

import (
	"regexp"

	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
	"hclbench/provision"
)

// operatedArguments are those that engines of kind manifests alone have.
func operatedArguments() []argument {
	type engine = engines.Engine
	of := func(e *engine) *engines.Manifests {
		if e.Manifests == nil {
			e.Manifests = new(engines.Manifests)
		}
		return e.Manifests
	}
	return []argument{
		unbound("files", manifestFiles),
		unbound("values", templateValues),
		arg("wait", awaits, func(e *engine, list []provision.Await) { of(e).Wait = list }),
		arg("service", serviceName, func(e *engine, s string) { of(e).Service = s }),
		arg("roles", podRoles, func(e *engine, list []provision.PodRole) { of(e).Roles = list }),
	}
}

var (
	manifestFiles = filled(distinct(listOf("list of files",
		`a list of files beside the lab, such as ["gateway.yaml", "inference-service.yaml"]`, asPlainText)))
	templateValues = merging(kindOf("object", `an object, such as { replicas = 2 }`, asDocument))
	awaits         = filled(listOf("list of conditions",
		`a list of conditions, such as [{ kind = "InferenceService", condition = "Ready" }]`, asAwait))
	serviceName = parsed("service", `a service of the cluster and its port, such as "mif-istio:80"`,
		formed(serviceForm))
	podRoles = kindOf("map of roles",
		`an object with selectors, such as { prefill = "llm-d.ai/role=prefill", decode = "role=decode" }`, asPodRoles)
)

var (
	serviceForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?:[1-9][0-9]{0,4}$`)
	selectorForm = regexp.MustCompile(`^(,?[A-Za-z0-9][A-Za-z0-9._/-]*=[A-Za-z0-9._-]*)+$`)
)

func asAwait(v cty.Value) (a provision.Await, err error) {
	fields := map[string]*string{"kind": &a.Kind, "name": &a.Name, "condition": &a.Condition}
	err = entries(v, func(name string, e cty.Value) (err error) {
		if fields[name] == nil {
			return wrong("A condition has no %q. It has a kind, a name and a condition.", name)
		}
		*fields[name], err = asPlainText(e)
		return err
	})
	if err == nil && (a.Kind == "" || a.Condition == "") {
		err = wrong(`Say the kind and the condition: { kind = "InferenceService", condition = "Ready" }.`)
	}
	return a, err
}

const (
	badSelector = `%q selects no pods. Write labels with their values, such as "app=web,role=decode".`
	noRoleField = "A role has no %q. It has pods, instances, port and engine: " +
		`{ pods = "role=decode", instances = 3, port = 8000, engine = "vllm" }.`
	halfCounted = "To read what the pods of role %s count, say both port and engine."
)

func asPodRoles(v cty.Value) (roles []provision.PodRole, err error) {
	err = entries(v, func(name string, e cty.Value) error {
		r := provision.PodRole{Name: name}
		var err error
		if isObject(e) {
			err = entries(e, func(field string, f cty.Value) error { return setRole(&r, field, f) })
		} else {
			r.Selector, err = asPlainText(e)
		}
		switch {
		case err != nil:
		case !identifier.form.MatchString(name):
			err = wrong("%q is no name of a role.", name)
		case !selectorForm.MatchString(r.Selector):
			err = wrong(badSelector, r.Selector)
		case (r.Port == 0) != (r.Engine == ""):
			err = wrong(halfCounted, name)
		}
		roles = append(roles, r)
		return err
	})
	return roles, err
}

func setRole(r *provision.PodRole, field string, v cty.Value) error {
	var err error
	switch field {
	case "pods":
		r.Selector, err = asPlainText(v)
	case "engine":
		r.Engine, err = word(engines.Counted()...).as(v)
	case "instances":
		r.Instances, err = whole(1, 10_000).as(v)
	case "port":
		r.Port, err = whole(1, 65535).as(v)
	default:
		return wrong(noRoleField, field)
	}
	return err
}

const onlyOperated = "Only engines of kind %q have %s: others are started by hcl itself."

// checkManifests reads what an engine of manifests is made of; false: something in it is wrong.
func checkManifests(b *block, e *engines.Engine) bool {
	if e.Kind != engines.Operated {
		for _, a := range operatedArguments() {
			if x := b.arg(a.name); x.said() {
				b.fail(x.at, "Wrong "+a.name, onlyOperated, engines.Operated, a.name)
			}
		}
		return !b.incomplete
	}
	files, values := b.arg("files"), b.arg("values")
	if b.incomplete || !files.fits() {
		return !b.incomplete // that there are none is for the engine's kind to say
	}
	if e.Manifests == nil {
		e.Manifests = new(engines.Manifests)
	}
	x := manifests{block: b, engine: e, where: map[string]provision.Object{}}
	if values.said() {
		x.values = &values.raw
	}
	for _, name := range files.value.([]string) {
		x.read(name)
	}
	x.checkWait()
	e.Manifests.Objects = x.objects
	return !b.incomplete
}
