package hcl

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// maxInstances bounds for_each: more is a slip.
const maxInstances = 10_000

// isGroup reports whether the block has for_each, so that a reference to it is a
// map of instances.
func (d *declared) isGroup() bool {
	if d.parent != nil || d.body == nil || d.typ != hostBlock && d.typ != engineBlock {
		return false
	}
	_, ok := d.body.Attributes["for_each"]
	return ok
}

// fullName is unique among the blocks of a type and kind: "h200", or "all-a" for
// the instance all["a"].
func (d *declared) fullName() string {
	if d.parent == nil {
		return d.name
	}
	return d.name + "-" + strings.Trim(notInNames.ReplaceAllString(d.key, "-"), "-")
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// instanceName is how an instance is referred to below its kind, `all["a"]`; ""
// for a block without for_each.
func (d *declared) instanceName() string {
	if d.parent == nil {
		return ""
	}
	return fmt.Sprintf("%s[%q]", d.name, d.key)
}

// instanceKey is what the keys of instances are made of: they are shown in
// quotes, and appear in results and exports.
var instanceKey = regexp.MustCompile(`^[\p{L}\p{N}_.:/@+=,-]{1,100}$`)

// expandEach returns the instances of a group, in the order of for_each: as
// written for a list, by key for a map. Where for_each is wrong, which is
// reported, there is one whose key is not known, so that the rest of the block
// is still checked.
func (l *lab) expandEach(d *declared) []*declared {
	if d.expanded {
		return d.members
	}
	d.expanded = true
	keys, values, good := l.eachEntries(d)
	for i, key := range keys {
		d.members = append(d.members, d.member(key, cty.StringVal(key), values[i]))
	}
	if !good {
		d.wrong = true
		d.members = []*declared{d.member("?", cty.UnknownVal(cty.String), cty.DynamicVal)}
	}
	return d.members
}

func (d *declared) member(key string, keyValue, value cty.Value) *declared {
	return &declared{
		typ: d.typ, kind: d.kind, name: d.name, header: d.header, body: d.body, parent: d, key: key,
		address: fmt.Sprintf("%s[%q]", d.address, key),
		each:    cty.ObjectVal(map[string]cty.Value{"key": keyValue, "value": value}),
	}
}

// eachEntries evaluates for_each.
func (l *lab) eachEntries(d *declared) (keys []string, values []cty.Value, good bool) {
	expr := d.body.Attributes["for_each"].Expr
	at := expr.Range()
	l.stack = append(l.stack, d)
	v := l.eval(expr, nil)
	l.stack = l.stack[:len(l.stack)-1]
	switch t := v.Type(); {
	case v.IsMarked():
		l.err(at, "Sensitive value would show", "The keys of for_each name the instances in plans and results, and how many there are shows too, so it cannot be sensitive. Single values in it may be.")
		return nil, nil, false
	case !v.IsKnown():
		l.noteUnknown(at)
		return nil, nil, false
	case v.IsNull() || !v.CanIterateElements():
		l.err(at, "Wrong value", "%q must be %s, not %s.", "for_each", instances.want, describe(v))
		return nil, nil, false
	case v.LengthInt() > maxInstances:
		l.err(at, "Too many instances", "for_each has %d entries, and at most %d are made. It is probably longer than was meant.", v.LengthInt(), maxInstances)
		return nil, nil, false
	default:
		list := !t.IsMapType() && !t.IsObjectType()
		good = true
		seen := map[string]bool{}
		for it := v.ElementIterator(); it.Next(); {
			k, value := it.Element()
			at := at
			if list {
				k, at = value, elementRange(expr, len(keys))
			}
			key, ok := "", false
			if k.IsKnown() {
				key, ok = asString(k)
			}
			switch {
			case k.IsMarked():
				l.err(at, "Sensitive value would show", "The keys of for_each name the instances in plans and results, so they cannot be sensitive.")
				good = false
			case !k.IsKnown():
				l.noteUnknown(at)
				good = false
			case !ok:
				l.err(at, "Wrong value", "The entries of a list in for_each become keys, so they are texts or numbers, and number %d is %s. Write a map, { KEY = … }.", len(keys)+1, describe(k))
				good = false
			case !instanceKey.MatchString(key):
				l.err(at, "Invalid key", "%s cannot be the key of an instance. Keys are made of letters, digits and _ . : / @ + = , - because they appear in references, names and results.", describe(k))
				good = false
			case seen[key]:
				l.err(at, "Key given twice", "for_each holds %s more than once, and each instance needs a key of its own. Remove one, or write a map, { KEY = … }.", describe(k))
				good = false
			}
			seen[key] = true
			keys, values = append(keys, key), append(values, value)
		}
		return keys, values, good
	}
}

// eachValue is what each stands for in the block that is being evaluated.
func (l *lab) eachValue(t hcl.Traversal) (cty.Value, bool) {
	at := t.SourceRange()
	if len(l.stack) == 0 || l.stack[len(l.stack)-1].parent == nil {
		l.err(at, "No for_each here", "each.key and each.value are the entry of for_each that an instance is made for. They can be used in host and engine blocks that have for_each, in all arguments but for_each itself; not here.")
		return cty.DynamicVal, false
	}
	if len(t) > 1 {
		if name, ok := stepName(t[1]); ok && name != "key" && name != "value" {
			hint := didYouMean(name, []string{"key", "value"}, func(s string) string { return "each." + s })
			if hint == "" {
				hint = fmt.Sprintf(" Did you mean each.value.%s?", name)
			}
			l.err(at, "Unknown attribute", "An entry of for_each has a key and a value, and no %q.%s", name, hint)
			return cty.DynamicVal, false
		}
	}
	return l.stack[len(l.stack)-1].each, true
}

// group is what a reference to a block with for_each stands for: an object of
// its instances.
func (l *lab) group(d *declared, c *cell) cty.Value {
	members := l.expandEach(d)
	if d.wrong {
		return cty.DynamicVal
	}
	key := ""
	if axes := l.axesOf(d); len(axes) > 0 {
		if c == nil {
			c = anyCell
		}
		key = c.key(axes)
	}
	if v, ok := d.objects[key]; ok {
		return v
	}
	objects := map[string]cty.Value{}
	for _, m := range members {
		objects[m.key] = l.instance(m, c).object
	}
	if d.objects == nil {
		d.objects = map[string]cty.Value{}
	}
	d.objects[key] = cty.ObjectVal(objects)
	return d.objects[key]
}

// knownMember reports a reference to an instance that there is not.
func (l *lab) knownMember(t hcl.Traversal, d *declared) bool {
	n := referenceLength(t.RootName())
	if !d.isGroup() || len(t) <= n {
		return true
	}
	var key string
	bare := false
	switch step := t[n].(type) {
	case hcl.TraverseAttr:
		key, bare = step.Name, true
	case hcl.TraverseIndex:
		s, ok := "", false
		if step.Key.IsKnown() {
			s, ok = asString(step.Key)
		}
		if !ok {
			return true
		}
		key = s
	default:
		return true
	}
	members := l.expandEach(d)
	if d.wrong {
		return true
	}
	var keys []string
	for _, m := range members {
		if m.key == key {
			return true
		}
		keys = append(keys, m.key)
	}
	at := t[n].SourceRange()
	switch {
	case len(keys) == 0:
		l.err(at, "Unknown instance", "The for_each of %s is empty, so it has no instances.", d.address)
	case bare && slices.Contains(d.typ.attributeNames(), key):
		l.err(at, "Unknown instance", "%s has for_each, so it is one %s for each key. Say of which one you mean %s: %s[%q].%s", d.address, d.typ.name, key, d.address, keys[0], key)
	default:
		hint := didYouMean(key, keys, nil)
		if hint == "" && len(keys) <= 5 {
			hint = fmt.Sprintf(" Its keys are %s.", inWords(quoted(keys), "and"))
		}
		l.err(at, "Unknown instance", "The for_each of %s has no key %q.%s", d.address, key, hint)
	}
	return false
}

// groupOf returns the block with for_each whose instances an object holds.
func groupOf(v cty.Value) *declared {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() || !v.Type().IsObjectType() {
		return nil
	}
	it := v.ElementIterator()
	if !it.Next() {
		return nil
	}
	_, first := it.Element()
	if d := referred(first, ""); d != nil {
		return d.parent
	}
	return nil
}

// splatGroups lets a splat run over what is a map of blocks: engine.vllm[*], and
// engine.vllm.all[*] of a block with for_each. HCL's own splat would take the
// map for a single value.
func (l *lab) splatGroups(body *hclsyntax.Body) {
	hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		splat, ok := n.(*hclsyntax.SplatExpr)
		if !ok {
			return nil
		}
		source, ok := splat.Source.(*hclsyntax.ScopeTraversalExpr)
		if !ok {
			return nil
		}
		t := source.Traversal
		n1 := referenceLength(t.RootName())
		if r := t.RootName(); r == "var" || r == "local" || r == "matrix" || n1 == 0 {
			return nil
		}
		targets := l.targets(t)
		if len(t) == n1-1 && len(targets) > 0 || len(t) == n1 && len(targets) == 1 && targets[0].isGroup() {
			at := source.Range()
			splat.Source = &hclsyntax.FunctionCallExpr{
				Name: "values", Args: []hclsyntax.Expression{source},
				NameRange: at, OpenParenRange: at, CloseParenRange: at,
			}
		}
		return nil
	})
}

// checkNames finds instances whose name is that of another block: all["a"] is
// all-a in results, labels and containers.
func (l *lab) checkNames() {
	taken := map[string]*declared{}
	for _, d := range l.order {
		all := []*declared{d}
		if d.isGroup() {
			all = l.expandEach(d)
		}
		if d.wrong || d.typ != hostBlock && d.typ != engineBlock {
			continue
		}
		for _, m := range all {
			name := d.typ.name + "." + m.kind + "." + m.fullName()
			if other, ok := taken[name]; ok {
				l.errOnce(d.header, "Name given twice", "%s and %s would both be named %q in results, labels and containers. Write another key, or give one of the blocks another name.", other.address, m.address, m.fullName())
			}
			taken[name] = m
		}
	}
}
