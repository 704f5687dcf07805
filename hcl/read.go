package hcl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
)

// reader makes nouns of blocks: what their arguments say goes where the language binds them to.
type reader struct {
	*scope
	src  *Source
	vars Vars
	lost []hcl.Range // where a cell was left out because something in it is wrong
	late []func()    // checks that wait until all is read
}

// settings are what a block says, evaluated: an argument or a nested block under its name,
// and what that says under "block.argument". What is null is not said.
type settings map[string]setting

type setting struct {
	raw   cty.Value // as written, or as merged with what was inherited
	value any       // what the argument's kind made of it; nil: wrong or unknown
	at    hcl.Range // of the value; of a block its header
	body  *hclsyntax.Body
}

func (x setting) said() bool { return x.body != nil }

// fits reports whether something is said, and right.
func (x setting) fits() bool { return x.value != nil }

// isThere is the value of a nested block.
type isThere struct{}

// block is a block of the lab while it is read. What has a mistake is incomplete, and nobody
// looks further at what is.
type block struct {
	*reader
	typ        *blockType
	of         *declared // nil: nothing can refer to it
	body       *hclsyntax.Body
	header     hcl.Range
	cell       *cell // nil: it is the same in every cell
	said       settings
	incomplete bool // something in it is wrong or unknown
	lost       bool // what it inherits is not known
}

// fail is [Problems.fail] for what is wrong with the block.
func (b *block) fail(at hcl.Range, summary, format string, args ...any) {
	b.Problems.fail(at, summary, format, args...)
	b.incomplete = true
}

// failIn is fail for the value of an argument, with what its references stand for.
func (b *block) failIn(name, format string, args ...any) {
	b.reader.failIn(b.expression(name), b.cell, fmt.Sprintf(format, args...))
	b.incomplete = true
}

// missing is [Problems.missing] for what the block lacks.
func (b *block) missing(at hcl.Range, name, summary, format string, args ...any) {
	b.Problems.missing(at, name, summary, format, args...)
	b.incomplete = true
}

func (r *reader) block(b *hclsyntax.Block, t *blockType, c *cell) *block {
	return &block{reader: r, typ: t, body: b.Body, header: b.DefRange(), cell: c, said: settings{}}
}

// read evaluates a block in a cell, or outside of any (nil), and lays it into a noun.
func (r *reader) read(b *hclsyntax.Block, t *blockType, noun any, c *cell) *block {
	x := r.block(b, t, c)
	x.evaluate(x.body, t, "", false)
	x.become(noun)
	return x
}

// blockOf is a declared block in a cell.
func (r *reader) blockOf(i *instance, c *cell) *block {
	d := i.of
	return &block{reader: r, typ: d.typ.ofKind(d.kind), of: d, body: d.body, header: d.header, cell: c, said: i.said}
}

// readInstance makes what a declared block stands for in a cell.
func (r *reader) readInstance(i *instance, c *cell) {
	d := i.of
	i.said = settings{}
	b := r.blockOf(i, c)
	if a, ok := d.body.Attributes["inherits"]; ok {
		b.inherit(a)
	}
	b.evaluate(b.body, b.typ, "", false)
	i.noun = d.typ.make(d)
	b.become(i.noun)
	i.incomplete, i.lost = b.incomplete, b.lost
}

// arg is what the block says under a name that its type knows.
func (b *block) arg(name string) setting {
	x, ok := b.said[name]
	if !ok && !b.typ.knows(name) {
		panic("nothing in " + b.typ.title() + " is named " + name + ". This is a bug in hcl.")
	}
	return x
}

// knows reports whether something in such a block has this name: "load.rate".
func (t *blockType) knows(name string) bool {
	block, below, inside := strings.Cut(name, ".")
	block, _, _ = strings.Cut(block, " ")
	n, isBlock := t.nested(block)
	if isBlock && inside {
		return n.typ.knows(below)
	}
	_, isArgument := t.argument(block)
	return isBlock || isArgument
}

// whole reports whether everything that is said, but what is named, has a value.
func (b *block) whole(but ...string) bool {
	for name, x := range b.said {
		if !x.fits() && !slices.Contains(but, name) {
			return false
		}
	}
	return true
}

// inherit begins with what another block of the kind says.
func (b *block) inherit(a *hclsyntax.Attribute) {
	inherits, ok := b.typ.argument(a.Name)
	if !ok { // told where the names of arguments are checked
		return
	}
	v := b.eval(a.Expr, b.cell)
	if v.IsNull() {
		return
	}
	parent, _ := b.convert(inherits, v, a.Expr, b.cell).(*declared)
	switch {
	case parent == nil:
		b.lost = true
	case parent.kind != b.of.kind:
		b.fail(a.Expr.Range(), "Wrong value", "%s is not of kind %q, whose flags differ. "+
			"Share what they have in common through locals.", parent.address, b.of.kind)
		b.lost = true
	default:
		b.of.inherits = parent
		from := b.instance(parent, b.cell)
		b.lost = from.lost // what is wrong with it may be said otherwise here
		maps.Copy(b.said, from.said)
		delete(b.said, "inherits")
		delete(b.said, "description")
		for one, other := range map[string]string{"host": "hosts", "hosts": "host", "url": "urls", "urls": "url"} {
			if _, own := b.body.Attributes[one]; own {
				delete(b.said, other)
			}
		}
	}
}

// evaluate lays what a body says over what is said already, but for blocks given several times.
func (b *block) evaluate(body *hclsyntax.Body, t *blockType, prefix string, shared bool) {
	for _, a := range inOrder(body.Attributes) {
		arg, ok := t.argument(a.Name)
		switch {
		case !ok || arg.kind.convert == nil || arg.shared != shared:
		case shared && mentionsMatrix(a.Expr):
			b.fail(a.Expr.Range(), "No matrix here",
				"%q holds for all cells of a benchmark, so it cannot depend on matrix.*. Write two benchmarks.", a.Name)
		default:
			b.evaluateArgument(setting{body: body}, t, arg, a.Expr, prefix+a.Name)
		}
	}
	for _, n := range t.blocks {
		if n.part != nil && !shared {
			b.evaluateParts(body, n, prefix)
		}
	}
}

// evaluateParts lays nested blocks of a type over those that are said already, each with a
// label over its like.
func (b *block) evaluateParts(body *hclsyntax.Body, n nested, prefix string) {
	var names []string
	for _, part := range blocksOf(body, n.typ.name) {
		name := prefix + n.typ.name
		if len(n.typ.labels) > 0 {
			name += " " + firstLabel(part)
		}
		if slices.Contains(names, name) || len(names) > 0 && !n.many {
			continue // a second one is reported
		}
		names = append(names, name)
		for _, other := range b.parts(prefix, n.typ) {
			if other != name && !n.many {
				b.drop(other)
			}
		}
		b.said[name] = setting{value: isThere{}, at: part.DefRange(), body: part.Body}
		b.evaluate(part.Body, n.typ, name+".", false)
	}
}

// parts are the nested blocks of a type that are said, by name.
func (b *block) parts(prefix string, t *blockType) []string {
	if len(t.labels) == 0 {
		if name := prefix + t.name; b.said[name].said() {
			return []string{name}
		}
		return nil
	}
	var names []string
	for name, x := range b.said {
		label, ofType := strings.CutPrefix(name, prefix+t.name+" ")
		inOne := strings.Contains(label, ".") // it is a block within such a block
		if _, isBlock := x.value.(isThere); isBlock && ofType && !inOne {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// drop forgets a nested block.
func (b *block) drop(name string) {
	maps.DeleteFunc(b.said, func(other string, _ setting) bool { return other == name || strings.HasPrefix(other, name+".") })
}

func (b *block) evaluateArgument(x setting, t *blockType, arg argument, expr hclsyntax.Expression, name string) {
	x.raw, x.at = b.eval(expr, b.cell), expr.Range()
	switch {
	case x.raw.IsNull() && !arg.required:
		delete(b.said, name)
		return
	case x.raw.IsNull():
		b.fail(x.at, "Missing argument", "%s needs the argument %q, and here it is null: %s.",
			title(t.title()), arg.name, arg.kind.want)
	default:
		if arg.kind.merges && b.said[name].said() {
			x.raw = overlay(b.said[name].raw, x.raw, b.keyOf(name))
		}
		x.value = b.convert(arg, x.raw, expr, b.cell)
	}
	b.said[name] = x
}

// become lays what is said into the noun, and checks the whole.
func (b *block) become(noun any) {
	b.bind(b.typ, "", noun)
	b.incomplete = b.incomplete || b.lost || !b.whole()
	for _, a := range b.typ.args {
		if _, said := b.said[a.name]; a.required && !said {
			b.incomplete = true
		}
	}
	if b.typ.check != nil {
		b.typ.check(b, noun)
	}
}

func (b *block) bind(t *blockType, prefix string, noun any) {
	for _, a := range t.args {
		b.lay(a, prefix+a.name, noun)
	}
	if t.free != nil {
		for _, name := range slices.Sorted(maps.Keys(b.said)) {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				a := *t.free
				a.name = rest
				b.lay(a, name, noun)
			}
		}
	}
	for _, n := range t.blocks {
		if n.part == nil {
			continue
		}
		for _, name := range b.parts(prefix, n.typ) {
			_, label, _ := strings.Cut(name[len(prefix):], " ")
			b.bind(n.typ, name+".", n.part(noun, label))
		}
	}
}

// lay sets the field of an argument; of a block that is referred to, to what that becomes.
func (b *block) lay(a argument, name string, noun any) {
	x := b.said[name]
	if !x.fits() || a.set == nil {
		return
	}
	value, whole := x.value, true
	become := func(d *declared) any {
		i := b.instance(d, b.cell)
		whole = whole && !i.incomplete
		return i.noun
	}
	switch v := value.(type) {
	case *declared:
		value = become(v)
	case several:
		var nouns []any
		for _, d := range v.all {
			nouns = append(nouns, become(d))
		}
		value = nil
		if !slices.Contains(nouns, nil) {
			value = v.list(nouns)
		}
	}
	if !whole {
		x.value = nil
		b.said[name] = x
	}
	if value != nil {
		a.set(noun, a.name, value)
	}
}

// keyOf says which names in an object are one: of flags those that the engine takes for the same.
func (b *block) keyOf(argument string) func(string) string {
	if b.of != nil && b.typ.name == "engine" && argument == "flags" {
		return func(name string) string { return engines.FlagKey(b.of.kind, name) }
	}
	return func(name string) string { return name }
}

// overlay merges two objects key by key; what is null in the second is removed.
func overlay(under, over cty.Value, key func(string) string) cty.Value {
	if !isObject(under) || !isObject(over) {
		return over
	}
	merged, said := map[string]cty.Value{}, map[string]bool{}
	for name, v := range over.AsValueMap() {
		if said[key(name)] = true; !v.IsNull() {
			merged[name] = v
		}
	}
	for name, v := range under.AsValueMap() {
		if !said[key(name)] {
			merged[name] = v
		}
	}
	return cty.ObjectVal(merged)
}

// convert turns a value into what the argument's kind makes of it; nil: wrong, or unknown.
func (r *reader) convert(a argument, raw cty.Value, expr hclsyntax.Expression, c *cell) any {
	at := expr.Range()
	raw = r.veil(a, raw, expr)
	// A block that is referred to may itself hold sensitive and unknown values.
	known, shown := raw.IsKnown(), raw.IsMarked()
	if a.kind.refers == nil {
		known, shown = raw.IsWhollyKnown(), raw.ContainsMarked()
	}
	switch {
	case !known:
		if c != anyCell {
			r.noteUnknown(at)
		}
		return nil
	case shown && !a.kind.secret:
		r.fail(at, "Sensitive value would show",
			"%q comes from a sensitive value, and would show. Only env, flags, config and command can be sensitive.", a.name)
		return nil
	case raw.IsMarked() && a.kind.merges:
		r.fail(at, "Sensitive value would show",
			"All of %[1]s is sensitive here, names too. Write the names: %[1]s = { NAME = var.secrets.NAME }", a.name)
		return nil
	}
	v, err := a.kind.convert(raw)
	if v == nil && err == nil && c != anyCell {
		r.noteUnknown(at) // something in a list of blocks
	}
	if err == nil {
		return v
	}
	why, _ := errors.AsType[misfit](err)
	r.failIn(expr, c, r.unfit(a, raw, string(why)))
	return nil
}

// unfit says why a value does not fit an argument.
func (r *reader) unfit(a argument, raw cty.Value, hint string) string {
	detail := fmt.Sprintf("%q must be %s", a.name, a.kind.want)
	if got := describe(raw); got != "a list" && got != "an object" || hint == "" {
		detail += ", not " + got
	}
	detail += "."
	if hint != "" {
		detail += " " + hint
	}
	if a.kind.refers != nil && raw.Type() == cty.String && !raw.IsMarked() {
		detail += r.meantReference(a.kind.refers, raw.AsString())
	}
	if g := repeatedOf(raw); g != nil && slices.Contains(a.kind.refers, g.typ.name) {
		if strings.HasPrefix(a.kind.noun, "list") {
			detail += fmt.Sprintf(" For all of them, write values(%s).", g.address)
		} else {
			detail += fmt.Sprintf(" %s has for_each: say which one, such as %s.", g.address, g.members[0].address)
		}
	}
	return detail
}

// failIn is fail for the value of an expression, with what its references stand for.
func (r *reader) failIn(expr hclsyntax.Expression, c *cell, detail string) {
	r.failWith(r.explain(expr, c), expr.Range(), "Wrong value", "%s", detail)
}

// meantReference is for a text where a reference belongs.
func (r *reader) meantReference(blocks []string, text string) string {
	for _, d := range r.order {
		if slices.Contains(blocks, d.typ.name) && (d.name == text || d.address == text || d.kind+"."+d.name == text) {
			return fmt.Sprintf(" Did you mean %s, without quotes?", d.address)
		}
	}
	return ""
}
