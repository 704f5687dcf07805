package hcl

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"sigs.k8s.io/yaml"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/plain"
	"hclbench/provision"
)

// operatedArguments are those that engines of kind manifests alone have.
func operatedArguments() []lang.Argument {
	type engine = engines.Engine
	of := func(e *engine) *engines.Manifests {
		if e.Manifests == nil {
			e.Manifests = new(engines.Manifests)
		}
		return e.Manifests
	}
	return []lang.Argument{
		lang.Unbound("files", manifestFiles),
		lang.Unbound("values", templateValues),
		lang.Arg("wait", awaits, func(e *engine, list []provision.Await) { of(e).Wait = list }),
		lang.Arg("service", serviceName, func(e *engine, s string) { of(e).Service = s }),
		lang.Arg("roles", podRoles, func(e *engine, list []provision.PodRole) { of(e).Roles = list }),
	}
}

var (
	manifestFiles = lang.NonEmpty(lang.Distinct(lang.ListOf("list of files",
		`a list of files beside the lab, such as ["gateway.yaml", "inference-service.yaml"]`, lang.AsPlainText)))
	templateValues = lang.Merging(lang.NewKind("object", `an object, such as { replicas = 2 }`, lang.AsDocument))
	awaits         = lang.NonEmpty(lang.ListOf("list of conditions",
		`a list of conditions, such as [{ kind = "InferenceService", condition = "Ready" }]`, asAwait))
	serviceName = lang.Parsed("service", `a service of the cluster and its port, such as "mif-istio:80"`,
		lang.Matching(serviceForm))
	podRoles = lang.NewKind("map of roles",
		`an object with selectors, such as { prefill = "llm-d.ai/role=prefill", decode = "role=decode" }`, asPodRoles)
)

var (
	serviceForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?:[1-9][0-9]{0,4}$`)
	selectorForm = regexp.MustCompile(`^(,?[A-Za-z0-9][A-Za-z0-9._/-]*=[A-Za-z0-9._-]*)+$`)
)

var awaitOf = lang.ObjectOf[provision.Await]("a condition", "A condition has no %q. It has a kind, a name and a condition.",
	lang.Arg("kind", lang.Text, func(a *provision.Await, s string) { a.Kind = s }),
	lang.Arg("name", lang.Text, func(a *provision.Await, s string) { a.Name = s }),
	lang.Arg("condition", lang.Text, func(a *provision.Await, s string) { a.Condition = s }),
)

func asAwait(v cty.Value) (provision.Await, error) {
	a, err := awaitOf(v)
	if err == nil && (a.Kind == "" || a.Condition == "") {
		err = lang.Wrong(`Say the kind and the condition: { kind = "InferenceService", condition = "Ready" }.`)
	}
	return a, err
}

const (
	badSelector = `%q selects no pods. Write labels with their values, such as "app=web,role=decode".`
	noRoleField = "A role has no %q. It has pods, instances, port and engine: " +
		`{ pods = "role=decode", instances = 3, port = 8000, engine = "vllm" }.`
	halfCounted = "To read what the pods of role %s count, say both port and engine."
)

var roleOf = lang.ObjectOf[provision.PodRole]("a role", noRoleField,
	lang.Arg("pods", lang.Text, func(r *provision.PodRole, s string) { r.Selector = s }),
	lang.Arg("instances", lang.Whole(1, 10_000), func(r *provision.PodRole, n int) { r.Instances = n }),
	lang.Arg("port", lang.Whole(1, 65535), func(r *provision.PodRole, n int) { r.Port = n }),
	lang.Arg("engine", lang.OneOf(engines.Counted()...), func(r *provision.PodRole, s string) { r.Engine = s }),
)

func asPodRoles(v cty.Value) (roles []provision.PodRole, err error) {
	err = lang.Entries(v, func(name string, e cty.Value) error {
		var r provision.PodRole
		var err error
		if lang.IsObject(e) {
			r, err = roleOf(e)
		} else {
			r.Selector, err = lang.AsPlainText(e)
		}
		r.Name = name
		switch {
		case err != nil:
		case !lang.Identifier.Allows(name):
			err = lang.Wrong("%q is no name of a role.", name)
		case !selectorForm.MatchString(r.Selector):
			err = lang.Wrong(badSelector, r.Selector)
		case (r.Port == 0) != (r.Engine == ""):
			err = lang.Wrong(halfCounted, name)
		}
		roles = append(roles, r)
		return err
	})
	return roles, err
}

const onlyOperated = "Only engines of kind %q have %s: others are started by hcl itself."

// checkManifests reads what an engine of manifests is made of; false: something in it is wrong.
func checkManifests(b *lang.Block, e *engines.Engine) bool {
	if e.Kind != engines.Operated {
		for _, a := range operatedArguments() {
			if x := b.Arg(a.Name); x.IsSet() {
				b.Fail(x.At, "Wrong "+a.Name, onlyOperated, engines.Operated, a.Name)
			}
		}
		return !b.Incomplete
	}
	files, values := b.Arg("files"), b.Arg("values")
	if b.Incomplete || !files.IsValid() {
		return !b.Incomplete // that there are none is for the engine's kind to say
	}
	if e.Manifests == nil {
		e.Manifests = new(engines.Manifests)
	}
	x := manifests{Block: b, engine: e, where: map[string]provision.Object{}}
	if values.IsSet() {
		x.values = &values.Raw
	}
	for _, name := range files.Value.([]string) {
		x.read(name)
	}
	x.checkWait()
	e.Manifests.Objects = x.objects
	return !b.Incomplete
}

// manifests reads the files of an engine.
type manifests struct {
	*lang.Block
	engine  *engines.Engine
	values  *cty.Value // nil: the files are no templates
	objects []provision.Object
	where   map[string]provision.Object // by kind, group and name
	lines   []string                    // of the file at hand, a template with other lines than it becomes; else nil
}

// A manifest is bounded: what is larger is something else.
const (
	maxManifest = 4 << 20
	maxObjects  = 500
)

const (
	noManifest   = "There is no file %s; files are relative to the lab's directory."
	badManifest  = "%s cannot be read: %v."
	largeFile    = "%s has more than %d MiB and is no manifest."
	manyObjects  = "These are more than %d objects."
	noText       = "%s is not text in UTF-8."
	secretDecide = "With the values that are sensitive, %s cannot be made: what is wrong cannot be said. " +
		"Try values that are not sensitive."
)

const wrongManifest = "Wrong manifest"

func (x *manifests) read(name string) {
	at := x.At("files")
	path := filepath.Join(x.Source.Dir, name)
	if filepath.IsAbs(name) {
		path = name
	}
	text, err := x.Source.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.Fail(at, wrongManifest, noManifest, path)
	case err != nil:
		x.Fail(at, wrongManifest, badManifest, path, err)
	case len(text) > maxManifest:
		x.Fail(at, wrongManifest, largeFile, path, maxManifest>>20)
	case !utf8.Valid(text):
		x.Fail(at, wrongManifest, noText, path)
	default:
		x.ShowText(path, text)
		x.file(path, text)
	}
}

// file reads the documents of a file: as they are made, and as they are shown.
func (x *manifests) file(path string, text []byte) {
	shown, clear, secrets := string(text), string(text), []string(nil)
	if x.values != nil {
		var good bool
		if shown, good = x.FillIn(path, text, lang.Redacted(*x.values, &secrets), false); !good {
			x.Incomplete = true
			return
		}
		values, _ := x.values.UnmarkDeep()
		if clear, good = x.FillIn(path, text, values, true); !good {
			x.Fail(x.At("values"), wrongManifest, secretDecide, path)
			return
		}
	}
	inClear := documents(clear)
	x.lines = nil
	if len(strings.Split(shown, "\n")) != len(strings.Split(string(text), "\n")) {
		x.lines = strings.Split(shown, "\n")
	}
	for i, d := range documents(shown) {
		at := x.startOf(path, d.line)
		if len(inClear) <= i {
			x.Fail(at, wrongManifest, secretDecide, path)
			return
		}
		if o, ok := x.document(at, d, inClear[i], secrets); ok {
			x.add(at, o)
		}
	}
}

// section is one document of a file.
type section struct {
	line int // its first, from 1
	text string
}

// documents are those of a file that say something, and not many more than there may be.
func documents(text string) (all []section) {
	n, at, first, start := 0, 0, 0, 0
	flush := func() {
		if first > 0 {
			all = append(all, section{first, text[start:at]})
		}
		first = 0
	}
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimRight(line, " \t\r\n")
		switch {
		case bare == "---" || bare == "..." || strings.HasPrefix(bare, "--- #"): // inside of a text they are indented
			flush()
		case first == 0 && bare != "" && !strings.HasPrefix(strings.TrimSpace(bare), "#"):
			first, start = n, at
		}
		if at += len(line); len(all) > maxObjects {
			return all
		}
	}
	flush()
	return all
}

// startOf is the beginning of a line of a file; of a template with other lines, the file's.
func (x *manifests) startOf(path string, line int) lang.Place {
	if x.lines != nil {
		line = 1
	}
	return x.LineOf(path, line)
}

var yamlLine = regexp.MustCompile(`(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): `)

// document reads an object. What of it is secret is shown as such.
func (x *manifests) document(at lang.Place, shown, clear section, secrets []string) (o provision.Object, ok bool) {
	object, err := parseDocument(shown.text)
	if err != nil {
		said, near := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), ""
		if m := yamlLine.FindStringSubmatch(said); m != nil {
			line, _ := strconv.Atoi(m[1])
			line += shown.line - 1
			if at = x.startOf(at.Filename, line); x.lines != nil {
				near = fmt.Sprintf(", near the line %q that it becomes", x.lines[min(line, len(x.lines))-1])
			}
		}
		x.Fail(at, wrongManifest, "This is no YAML: %s%s.", plain.Line(yamlLine.ReplaceAllString(said, "")), near)
		return o, false
	}
	full, err := parseDocument(clear.text)
	if err != nil {
		x.Fail(at, wrongManifest, secretDecide, at.Filename)
		return o, false
	}
	o = provision.Object{APIVersion: textAt(object, "apiVersion"), Kind: textAt(object, "kind"), Pos: at.String()}
	if x.lines != nil {
		o.Pos = at.Filename
	}
	meta, _ := object["metadata"].(map[string]any)
	o.Name = textAt(meta, "name")
	if !x.known(at, o, object, meta) {
		return o, false
	}
	for _, m := range []map[string]any{meta, asMap(full["metadata"])} {
		delete(m, "namespace") // it is the cluster's
	}
	if o.Kind == "Secret" {
		secrets = slices.Concat(secrets, hideData(full, object))
	}
	o.Text = provision.Partly(compact(full), compact(object), secrets)
	return o, true
}

func parseDocument(text string) (object map[string]any, err error) {
	err = yaml.UnmarshalStrict([]byte(text), &object)
	return object, err
}

func asMap(v any) map[string]any { m, _ := v.(map[string]any); return m }

func textAt(m map[string]any, name string) string { s, _ := m[name].(string); return s }

// hideData replaces what a Secret holds, and notes it as it is written and as pods get it.
func hideData(full, shown map[string]any) (secrets []string) {
	for _, part := range []string{"data", "stringData"} {
		for name, v := range asMap(full[part]) {
			s, _ := v.(string)
			other := base64.StdEncoding.EncodeToString([]byte(s))
			if decoded, err := base64.StdEncoding.DecodeString(s); part == "data" && err == nil {
				other = string(decoded)
			}
			secrets = append(secrets, s, other)
			if into := asMap(shown[part]); into != nil {
				into[name] = provision.Redacted
			}
		}
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
}

func compact(object map[string]any) string {
	text, err := json.Marshal(object)
	if err != nil {
		return "{}" // what was JSON is: never
	}
	return string(text)
}

const (
	noKind       = "This document says no %s, so it is no object of a cluster."
	noName       = "This %s has no metadata.name, by which it is found again."
	listed       = "This is a list. Write its objects as documents of their own, with --- between them."
	ownNamespace = "This %s says namespace %s, and the cluster block says none. Everything of a run is in the cluster's " +
		"namespace: write namespace = %[2]q there."
	elsewhere = "This %s is of namespace %s, and the cluster block says %s. An object there could not be owned by the " +
		"run, and nothing would remove it if hcl were killed."
	wideKind = "A %s belongs to the whole cluster and to no namespace. The run could not own it, and nothing would " +
		"remove it if hcl were killed. Have who runs the cluster make it."
	twice = "There is a second %s. The first stands at %s."
)

// wideKinds are those of Kubernetes' own that have no namespace. Of others the API server tells.
var wideKinds = strings.Fields(`Namespace Node PersistentVolume CustomResourceDefinition ClusterRole ClusterRoleBinding
	StorageClass PriorityClass RuntimeClass IngressClass GatewayClass APIService ValidatingWebhookConfiguration
	MutatingWebhookConfiguration DeviceClass ClusterIssuer`)

// known holds a document against what objects are.
func (x *manifests) known(at lang.Place, o provision.Object, object, meta map[string]any) bool {
	var namespace string
	if c := x.cluster(); c != nil {
		namespace = c.Namespace
	}
	said := textAt(meta, "namespace")
	switch {
	case o.APIVersion == "":
		x.Fail(at, wrongManifest, noKind, "apiVersion")
	case o.Kind == "":
		x.Fail(at, wrongManifest, noKind, "kind")
	case strings.HasSuffix(o.Kind, "List") && object["items"] != nil:
		x.Fail(at, wrongManifest, listed)
	case slices.Contains(wideKinds, o.Kind):
		x.Fail(at, wrongManifest, wideKind, o.Kind)
	case o.Name == "":
		x.Fail(at, wrongManifest, noName, o.Kind)
	case said != "" && namespace == "" && x.cluster() != nil:
		x.Fail(at, wrongManifest, ownNamespace, o.Kind, said)
	case said != namespace && said != "" && namespace != "":
		x.Fail(at, wrongManifest, elsewhere, o.Kind, said, namespace)
	default:
		return true
	}
	return false
}

// cluster is that of the engine's host; nil: it is not said, or wrong.
func (x *manifests) cluster() *provision.Cluster {
	if x.engine.Host() == nil {
		return nil
	}
	return x.engine.Host().Cluster
}

func (x *manifests) add(at lang.Place, o provision.Object) {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	key := o.Kind + "." + group + " " + o.Name
	if first, there := x.where[key]; there {
		x.Fail(at, wrongManifest, twice, o.Kind+" "+o.Name, first.Pos)
		return
	}
	if len(x.objects) == maxObjects {
		x.Fail(at, wrongManifest, manyObjects, maxObjects)
		return
	}
	x.where[key] = o
	x.objects = append(x.objects, o)
	if o.Kind == "HTTPRoute" {
		x.warnOfTimeouts(at, o)
	}
}

const (
	noTimeout = "No rule of this HTTPRoute should be without timeouts.request: gateways have a bound of their own, " +
		"often 15 s or 60 s, and cut answers off that take longer. Write timeouts: { request: 0s } for none."
	cutsShort = "This HTTPRoute has timeouts.%s: %s, so the gateway cuts off answers that take longer, which then " +
		"count as failed. Write 0s for no bound."
)

// warnOfTimeouts is about gateways that cut long answers off.
func (x *manifests) warnOfTimeouts(at lang.Place, o provision.Object) {
	var route struct {
		Spec struct {
			Rules []struct{ Timeouts map[string]string }
		}
	}
	if json.Unmarshal([]byte(o.Text.String()), &route) != nil {
		return // the API server will say why
	}
	for _, rule := range route.Spec.Rules {
		if rule.Timeouts["request"] == "" {
			x.Warn(at, "Answers may be cut off", noTimeout)
		}
		for _, name := range []string{"request", "backendRequest"} {
			if said := rule.Timeouts[name]; said != "" && strings.Trim(said, "0hms") != "" {
				x.Warn(at, "Answers may be cut off", cutsShort, name, said)
			}
		}
	}
}

// checkWait: what is waited for is among the objects.
func (x *manifests) checkWait() {
	var kinds []string
	for _, o := range x.objects {
		kinds = append(kinds, o.Kind)
	}
	for _, a := range x.engine.Manifests.Wait {
		there := slices.ContainsFunc(x.objects, func(o provision.Object) bool {
			return o.Kind == a.Kind && (a.Name == "" || a.Name == o.Name)
		})
		if !there && !x.Incomplete {
			what := a.Kind
			if a.Name != "" {
				what += " " + a.Name
			}
			x.Fail(x.ValueOf("wait"), "Wrong value", "The files have no %s.%s", what, lang.DidYouMean(a.Kind, kinds, lang.Plainly))
		}
	}
}
