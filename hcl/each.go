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

// isRepeated reports whether the block has for_each, so that a reference to it is a map of instances.
func (d *declared) isRepeated() bool {
	if d.parent != nil || d.body == nil || !d.typ.takesForEach() {
		return false
	}
	_, ok := d.body.Attributes["for_each"]
	return ok
}

// fullName is unique among the blocks of a type and kind: "h200", or "all-a" for all["a"].
func (d *declared) fullName() string {
	if d.parent == nil {
		return d.name
	}
	return d.name + "-" + strings.Trim(notInNames.ReplaceAllString(d.key, "-"), "-")
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// instanceName is how an instance is referred to below its kind, `all["a"]`; "" without for_each.
func (d *declared) instanceName() string {
	if d.parent == nil {
		return ""
	}
	return fmt.Sprintf("%s[%q]", d.name, d.key)
}

// instanceKey is what keys are made of: they are shown in quotes, and appear in results and exports.
var instanceKey = regexp.MustCompile(`^[\p{L}\p{N}_.:/@+=,-]{1,100}$`)

// expandEach returns the instances of a repeated block: as written for a list, by key for a map.
// Where for_each is wrong, which is reported, there is one whose key is not known, so that
// the rest of the block is still checked.
func (s *scope) expandEach(d *declared) []*declared {
	if d.expanded {
		return d.members
	}
	d.expanded = true
	if !s.makeMembers(d) {
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

// makeMembers evaluates for_each.
func (s *scope) makeMembers(d *declared) (good bool) {
	expr := d.body.Attributes["for_each"].Expr
	at := expr.Range()
	var v cty.Value
	s.within(d, func() { v = s.eval(expr, nil) })
	switch {
	case v.IsMarked():
		s.fail(at, "Sensitive value would show",
			"The keys of for_each, and their number, show in plans and results. Only values in it can be sensitive.")
	case !v.IsKnown():
		s.noteUnknown(at)
	case v.IsNull() || !v.CanIterateElements():
		s.fail(at, "Wrong value", "%q must be %s, not %s.", "for_each", instances.want, describe(v))
	case v.LengthInt() > maxInstances:
		s.fail(at, "Too many instances", "for_each has %d entries; at most %d are made. "+
			"It is probably longer than was meant.", v.LengthInt(), maxInstances)
	default:
		good = true
	}
	if !good {
		return false
	}
	seen := map[string]bool{}
	for it := v.ElementIterator(); it.Next(); {
		k, value := it.Element()
		if isList(v) {
			k, at = value, elementRange(expr, len(d.members))
		}
		key, ok := s.instanceKey(d, k, seen, at)
		good = good && ok
		seen[key] = true
		d.members = append(d.members, d.member(key, cty.StringVal(key), value))
	}
	return good
}

// instanceKey is the key that an entry of for_each has. It reports one that cannot be.
func (s *scope) instanceKey(d *declared, k cty.Value, before map[string]bool, at hcl.Range) (key string, good bool) {
	text := false
	if k.IsKnown() {
		key, text = asString(k)
	}
	switch {
	case k.IsMarked():
		s.fail(at, "Sensitive value would show",
			"The keys of for_each name the instances in plans and results, so they cannot be sensitive.")
	case !k.IsKnown():
		s.noteUnknown(at)
	case !text:
		s.fail(at, "Wrong value", "Keys are texts or numbers, and number %d of the list is %s. Write a map, { KEY = … }.",
			len(d.members)+1, describe(k))
	case !instanceKey.MatchString(key):
		s.fail(at, "Invalid key", "%s cannot be a key: keys are part of names, "+
			"and are made of letters, digits and _ . : / @ + = , -", describe(k))
	case before[key]:
		s.fail(at, "Key given twice",
			"for_each has the key %s more than once. Remove one, or write a map, { KEY = … }.", describe(k))
	default:
		good = true
	}
	return key, good
}

// eachValue is what each stands for in the block that is being evaluated.
func (s *scope) eachValue(t hcl.Traversal) (cty.Value, bool) {
	at, in := t.SourceRange(), s.top()
	if in == nil || in.parent == nil {
		var may []string
		for _, t := range s.types {
			if t.takesForEach() {
				may = append(may, t.name)
			}
		}
		if in != nil && !in.typ.takesForEach() {
			s.fail(at, "No for_each here", "%s has no for_each. Write a block for each, and name them in an axis: "+
				"%[2]s = [%[3]s, …] in matrix, and %[2]s = matrix.%[2]s.", title(withArticle(in.typ.name)), in.typ.name, in.address)
			return cty.DynamicVal, false
		}
		s.fail(at, "No for_each here",
			"each.key and each.value are for %s blocks that have for_each, and not for for_each itself.", inWords(may, "and"))
		return cty.DynamicVal, false
	}
	if len(t) > 1 {
		if name, ok := stepName(t[1]); ok && name != "key" && name != "value" {
			hint := didYouMean(name, []string{"key", "value"}, below(eachRoot))
			if hint == "" {
				hint = fmt.Sprintf(" Did you mean each.value.%s?", name)
			}
			s.fail(at, "Unknown attribute", "An entry of for_each has a key and a value, and no %q.%s", name, hint)
			return cty.DynamicVal, false
		}
	}
	return in.each, true
}

// repeated is what a reference to a block with for_each stands for: an object of its instances.
func (s *scope) repeated(d *declared, c *cell) cty.Value {
	members := s.expandEach(d)
	if d.wrong {
		return cty.DynamicVal
	}
	c, key := s.cellOf(d, c)
	if v, ok := d.objects[key]; ok {
		return v
	}
	objects := map[string]cty.Value{}
	for _, m := range members {
		objects[m.key] = s.instance(m, c).object
	}
	if d.objects == nil {
		d.objects = map[string]cty.Value{}
	}
	d.objects[key] = cty.ObjectVal(objects)
	return d.objects[key]
}

// knownMember reports a reference to an instance that there is not.
func (s *scope) knownMember(t hcl.Traversal, d *declared) bool {
	n := s.referenceLength(t.RootName())
	if !d.isRepeated() || len(t) <= n {
		return true
	}
	key, ok := stepName(t[n])
	keys := mapped(s.expandEach(d), func(m *declared) string { return m.key })
	if !ok || d.wrong || slices.Contains(keys, key) {
		return true
	}
	at := t[n].SourceRange()
	_, bare := t[n].(hcl.TraverseAttr)
	switch {
	case len(keys) == 0:
		s.fail(at, "Unknown instance", "The for_each of %s is empty, so it has no instances.", d.address)
	case bare && slices.Contains(d.typ.argumentNames(true), key):
		s.fail(at, "Unknown instance", "%s has for_each, so it is one %s for each key. Say which: %[1]s[%[3]q].%[4]s",
			d.address, d.typ.name, keys[0], key)
	default:
		hint := didYouMean(key, keys, nil)
		if hint == "" && len(keys) <= 5 {
			hint = fmt.Sprintf(" Its keys are %s.", inWords(quoted(keys), "and"))
		}
		s.fail(at, "Unknown instance", "The for_each of %s has no key %q.%s", d.address, key, hint)
	}
	return false
}

// repeatedOf returns the block with for_each whose instances an object holds.
func repeatedOf(v cty.Value) *declared {
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

// splatRepeated lets a splat run over a map of blocks: engine.vllm[*], and engine.vllm.all[*]
// with for_each. HCL's own splat would take the map for a single value.
func (s *scope) splatRepeated(body *hclsyntax.Body) {
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
		steps, targets := s.referenceLength(t.RootName()), s.targets(t)
		if len(targets) == 0 || targets[0].typ.make == nil {
			return nil
		}
		if len(t) == steps-1 || len(t) == steps && len(targets) == 1 && targets[0].isRepeated() {
			at := source.Range()
			splat.Source = &hclsyntax.FunctionCallExpr{
				Name: "values", Args: []hclsyntax.Expression{source},
				NameRange: at, OpenParenRange: at, CloseParenRange: at,
			}
		}
		return nil
	})
}

// checkNames finds instances named like another block: all["a"] is all-a in results and containers.
func (s *scope) checkNames() {
	taken := map[string]*declared{}
	for _, d := range s.order {
		if !d.typ.takesForEach() {
			continue
		}
		for _, m := range s.all(d) {
			name := d.typ.name + "." + m.kind + "." + m.fullName()
			if other, ok := taken[name]; ok {
				s.fail(d.header, "Name given twice", "%s and %s would both be named %q in results, labels and containers. "+
					"Rename one.", other.address, m.address, m.fullName())
			}
			taken[name] = m
		}
	}
}
