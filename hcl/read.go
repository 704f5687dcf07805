package hcl

import (
	"encoding/csv"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// reader makes nouns of blocks: what their arguments say goes where the language binds them to.
type reader struct {
	*scope
	src  *Source
	vars Vars
	lost []hcl.Range // where a cell was left out because something in it is wrong
	late []func()    // checks that wait until all is read
}

// newReader reads the text of a lab and gives its variables their values: what its blocks declare
// can be evaluated.
func newReader(src *Source, vars Vars, types []*blockType, functions map[string]function.Function) *reader {
	s := &scope{
		Problems:  newProblems(),
		register:  &register{types: types, declared: map[string]*declared{}, blocks: map[string][]*hclsyntax.Block{}},
		refs:      map[hclsyntax.Expression]*references{},
		constants: map[hclsyntax.Expression]cty.Value{},
	}
	s.functions = functionSet(src, vars, s.sensitive)
	maps.Copy(s.functions, functions)
	r := &reader{scope: s, src: src, vars: vars}
	s.fill = r.readInstance
	s.keys = s.keyNames()
	names, varsFile := src.labFiles()
	for _, name := range names {
		r.bodies = append(r.bodies, r.parse(name, src.Files[name]))
	}
	for _, body := range r.bodies {
		(&checker{s}).declareAll(body)
	}
	for _, body := range r.bodies {
		r.splatRepeated(body)
	}
	r.setVariables(varsFile)
	return r
}

// evaluateAll evaluates what is declared, even if nothing refers to it.
func (r *reader) evaluateAll() {
	for _, d := range r.order {
		switch {
		case d.wrong:
		case d.typ.make == nil:
			r.value(d, nil)
		default:
			for _, member := range r.all(d) {
				r.instance(member, nil)
			}
		}
	}
}

// later keeps a check that waits until all is read.
func (r *reader) later(check func()) { r.late = append(r.late, check) }

// checkAll runs the checks that had to wait.
func (r *reader) checkAll() {
	for _, check := range r.late {
		check()
	}
	r.checkNames()
}

// finish ends the reading: the problems are whole and in order.
func (r *reader) finish() {
	r.admitLosses()
	r.Problems.finish()
}

// warnOfUnused points at blocks that change nothing.
func (r *reader) warnOfUnused() {
	for _, d := range r.order {
		if !d.used && d.typ.make != nil {
			r.warn(d.header, "Unused "+d.typ.name,
				"Nothing in the lab refers to %s, so it has no effect. Use it, or remove the block.", d.address)
		}
	}
}

// top are the blocks of a type that nothing refers to, not read yet, as written.
func (r *reader) topBlocks(name string) []*block {
	t := r.typeOf(name)
	var all []*block
	for _, b := range r.blocks[name] {
		all = append(all, r.block(b, t))
	}
	return all
}

// nouns are what the blocks that become an N are outside of any cell, as written.
func nouns[N any](r *reader) iter.Seq2[*declared, *N] {
	return func(yield func(*declared, *N) bool) {
		for _, d := range r.declaredOf() {
			if n, ok := r.instance(d, nil).noun.(*N); ok && !d.wrong && !yield(d, n) {
				return
			}
		}
	}
}

// declaredOf are the blocks of some types, or of all, as written; with for_each its instances.
func (r *reader) declaredOf(types ...string) []*declared {
	var all []*declared
	for _, d := range r.order {
		if d.typ.make != nil && (types == nil || slices.Contains(types, d.typ.name)) {
			all = append(all, r.all(d)...)
		}
	}
	return all
}

// admitLosses reports what is missing though nothing is wrong: no lab is smaller than its text.
func (r *reader) admitLosses() {
	if !r.HasErrors() && r.unknown.Filename != "" {
		r.fail(r.unknown, "Value not known",
			"This value is known only in a cell of a benchmark. Use matrix.* itself, or the engine that uses it.")
	}
	if !r.HasErrors() && len(r.lost) > 0 {
		r.fail(r.lost[0], "Cell left out",
			"Something in a cell of this benchmark is wrong, and hcl does not say what. This is a bug in hcl.")
	}
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

// referred is the block of a type ("" for any) that the value stands for; nil: none.
func (x setting) referred(block string) *declared { return referred(x.raw, block) }

// isThere is the value of a nested block.
type isThere struct{}

// block is a block of the lab while it is read. What has a mistake is incomplete, and nobody
// looks further at what is.
type block struct {
	*reader
	typ        *blockType
	label      string    // the first of its labels; "": it has none
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

func (r *reader) block(b *hclsyntax.Block, t *blockType) *block {
	return &block{reader: r, typ: t, label: firstLabel(b), body: b.Body, header: b.DefRange()}
}

// read evaluates the block in a cell, or outside of any (nil), and lays it into a noun.
func (b *block) read(noun any, c *cell) *block {
	x := *b
	x.cell, x.said = c, settings{}
	x.evaluate(x.body, x.typ, "", false)
	x.become(noun)
	return &x
}

// readShared is read for the arguments alone that hold for all cells.
func (b *block) readShared(noun any) {
	x := *b
	x.said = settings{}
	x.evaluate(x.body, x.typ, "", true)
	x.bind(x.typ, "", noun)
}

// inner are the blocks of a type inside this one that it does not read by itself, as written.
func (b *block) inner(name string) []*block {
	var all []*block
	for _, n := range blocksOf(b.body, name) {
		all = append(all, b.block(n, b.typ.inner(name)))
	}
	return all
}

// blockOf is a declared block in a cell.
func (r *reader) blockOf(i *instance, c *cell) *block {
	d := i.of
	return &block{reader: r, typ: d.typ.ofKind(d.kind), of: d, body: d.body, header: d.header, cell: c, said: i.said}
}

// blockFor is a declared block in the cell of this one.
func (b *block) blockFor(d *declared) *block { return b.blockOf(b.instance(d, b.cell), b.cell) }

// evaluatedBlocks are a declared block in each cell in which it was evaluated.
func (r *reader) evaluatedBlocks(d *declared) []*block {
	var all []*block
	for _, i := range d.evaluated {
		all = append(all, r.blockOf(i, nil))
	}
	return all
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

// find is arg for names that the block's type may not know.
func (b *block) find(name string) setting { return b.said[name] }

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
	to, known := b.convert(inherits, v, a.Expr, b.cell).(link)
	if !known {
		b.lost = true
		return
	}
	switch parent := to.blocks[0]; {
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
		for _, one := range b.typ.args {
			if _, own := b.body.Attributes[one.name]; own {
				delete(b.said, one.instead)
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
		for _, other := range b.partsBelow(prefix, n.typ) {
			if other != name && !n.many {
				b.drop(other)
			}
		}
		b.said[name] = setting{value: isThere{}, at: part.DefRange(), body: part.Body}
		b.evaluate(part.Body, n.typ, name+".", false)
	}
}

// parts are the names under which nested blocks of a type are said: "router", "role prefill".
func (b *block) parts(name string) []string { return b.partsBelow("", b.typ.inner(name)) }

// partsBelow is parts of a block inside, under whose name they stand.
func (b *block) partsBelow(prefix string, t *blockType) []string {
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
			x.raw = overlay(b.said[name].raw, x.raw, func(name string) string { return b.keyOf(arg.kind, name) })
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
		for _, name := range b.partsBelow(prefix, n.typ) {
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
	value := x.value
	if to, ok := value.(link); ok {
		value = to.resolve(func(d *declared) any {
			i := b.instance(d, b.cell)
			if i.incomplete {
				x.value = nil
				b.said[name] = x
			}
			return i.noun
		})
	}
	if value != nil {
		a.set(noun, a.name, value)
	}
}

// keyOf is one name for all that are the same in an object of a kind.
func (b *block) keyOf(k kind, name string) string {
	if k.same == nil || b.of == nil || b.of.kind == "" {
		return name
	}
	return k.same(b.of.kind, name)
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
			"%q comes from a sensitive value, and would show. Only %s can be sensitive.", a.name, inWords(r.maySecret(), "and"))
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

// elementRange is where an element of an argument's list stands, counted from 0; of one that is not
// written out, where the argument does.
func (b *block) elementRange(name string, i int) hcl.Range {
	return elementRange(b.expression(name), i)
}

// isListed reports whether a list is written out, element by element.
func (b *block) isListed(name string) bool {
	_, ok := b.expression(name).(*hclsyntax.TupleConsExpr)
	return ok
}

// columns are the names in the objects of a list, in the order of the text as far as it shows one.
func (b *block) columns(name string) []string {
	there := map[string]bool{}
	for it := b.arg(name).raw.ElementIterator(); it.Next(); {
		_, row := it.Element()
		for name := range row.AsValueMap() {
			there[name] = true
		}
	}
	var written []string
	switch x := b.expression(name).(type) {
	case *hclsyntax.FunctionCallExpr:
		if x.Name != "csvdecode" || len(x.Args) != 1 {
			break
		}
		if v, _ := b.eval(x.Args[0], nil).Unmark(); v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			written, _ = csv.NewReader(strings.NewReader(v.AsString())).Read()
		}
	case *hclsyntax.TupleConsExpr:
		for _, e := range x.Exprs {
			if object, ok := e.(*hclsyntax.ObjectConsExpr); ok {
				for _, item := range object.Items {
					written = append(written, hcl.ExprAsKeyword(item.KeyExpr))
				}
			}
		}
	}
	var out []string
	for _, name := range append(written, slices.Sorted(maps.Keys(there))...) {
		if there[name] {
			out = append(out, name)
			delete(there, name)
		}
	}
	return out
}

// empty reports a text with nothing in it: a variable that is not set often stands behind it.
func (b *block) empty(name, write string) bool {
	s, isText := b.arg(name).value.(string)
	if !isText || strings.TrimSpace(s) != "" {
		return false
	}
	b.failIn(name, "%q is empty. %s", name, write)
	return true
}

// expression is what an argument was written as.
func (b *block) expression(name string) hclsyntax.Expression {
	x, body := b.arg(name), b.body
	if x.said() {
		body = x.body
	}
	if a, ok := body.Attributes[name[strings.LastIndexByte(name, '.')+1:]]; ok {
		return a.Expr
	}
	if !x.said() {
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: b.header}
	}
	return &hclsyntax.LiteralValueExpr{Val: x.raw, SrcRange: x.at}
}

// written is where the text says an argument.
func (b *block) written(name string) hcl.Range { return b.expression(name).Range() }

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

// where is the place of a setting, or of the block where it is not said. What is
// inherited is shown at the block that inherits it: elsewhere it is right.
func (b *block) where(name string) (at hcl.Range, note string) {
	x := b.said[name] // the engine's kind may name what no argument is
	if !x.said() {
		return b.header, ""
	}
	inside := func(n *hclsyntax.Block) bool { return x.body == n.Body }
	if x.body == b.body || slices.ContainsFunc(b.body.Blocks, inside) {
		return x.at, ""
	}
	bare := name[strings.LastIndexByte(name, '.')+1:]
	return b.header, "\n\nWhat it says of " + bare + " is inherited from " + pos(x.at) + "."
}

// entry is where, of one key of an object and its value. Note is not empty as well where
// the object stands in this block and the key comes from what it inherits.
func (b *block) entry(name, key string) (at hcl.Range, note string) {
	at, note = b.where(name)
	if key == "" || note != "" {
		return at, note
	}
	item, found := b.item(name, key)
	switch {
	case !found:
		return at, ""
	case item == nil:
		return b.header, "\n\nWhat it says of " + key + " is inherited."
	}
	return hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range()), ""
}

// item is where a block's own object says a key; nil: it does not. False: the object is
// not written there as one.
func (b *block) item(name, key string) (*hclsyntax.ObjectConsItem, bool) {
	var object *hclsyntax.ObjectConsExpr
	if a, own := b.said[name].body.Attributes[name[strings.LastIndexByte(name, '.')+1:]]; own {
		object, _ = a.Expr.(*hclsyntax.ObjectConsExpr)
	}
	if object == nil {
		return nil, false
	}
	for n, item := range object.Items {
		if len(item.KeyExpr.Variables()) > 0 {
			return nil, false
		}
		if written, ok := writtenKey(item); ok && written == key {
			return &object.Items[n], true
		}
	}
	return nil, true
}
