package lang

import (
	"encoding/csv"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Reader makes nouns of blocks: what their arguments say goes where the language binds them to.
type Reader struct {
	*scope
	Source *Source
	Vars   Vars
	lost   []hcl.Range // where a cell was left out because something in it is wrong
	late   []func()    // checks that wait until all is read
}

// NewReader reads the text of a lab and gives its variables their values: what its blocks declare
// can be evaluated.
func NewReader(src *Source, vars Vars, types []*BlockType, functions map[string]function.Function) *Reader {
	s := &scope{
		Problems:  newProblems(),
		register:  &register{types: types, declared: map[string]*Declared{}, blocks: map[string][]*hclsyntax.Block{}, silent: map[hclsyntax.Expression]bool{}},
		refs:      map[hclsyntax.Expression]*references{},
		constants: map[hclsyntax.Expression]cty.Value{},
	}
	s.functions = functionSet(src, vars, s.sensitive)
	maps.Copy(s.functions, functions)
	r := &Reader{scope: s, Source: src, Vars: vars}
	s.fill = r.readInstance
	s.keys = s.keyNames()
	names, varsFile := src.labFiles()
	for _, name := range names {
		r.bodies = append(r.bodies, r.parse(name, src.Files[name]))
	}
	for _, body := range r.bodies {
		(&checker{s.Problems, s.register}).declareAll(body)
	}
	for _, body := range r.bodies {
		r.splatRepeated(body)
	}
	(&variables{scope: s, source: src, vars: vars}).setAll(varsFile)
	return r
}

// EvaluateAll evaluates what is declared, even if nothing refers to it.
func (r *Reader) EvaluateAll() {
	for _, d := range r.order {
		switch {
		case d.Wrong:
		case d.Type.Make == nil:
			r.value(d, nil)
		default:
			for _, member := range r.instances(d) {
				r.instance(member, nil)
			}
		}
	}
}

// Later keeps a check that waits until all is read.
func (r *Reader) Later(check func()) { r.late = append(r.late, check) }

// CheckAll runs the checks that had to wait.
func (r *Reader) CheckAll() {
	for _, check := range r.late {
		check()
	}
	r.checkNames()
}

// Finish ends the reading: the problems are whole and in order.
func (r *Reader) Finish() {
	// What is missing though nothing is wrong is told: no lab is smaller than its text.
	if !r.HasErrors() && r.unknown.Filename != "" {
		r.Fail(place(r.unknown), "Value not known",
			"This value is known only in a cell of %s. Use matrix.* itself, or the %s that uses it.",
			withArticle(r.matrixType().Name), r.perCellType())
	}
	if !r.HasErrors() && len(r.lost) > 0 {
		r.Fail(place(r.lost[0]), "Cell left out",
			"Something in a cell of this %s is wrong, and hcl does not say what. This is a bug in hcl.", r.matrixType().Name)
	}
	r.Problems.finish()
}

// WarnOfUnused points at blocks that change nothing.
func (r *Reader) WarnOfUnused() {
	for _, d := range r.order {
		if !d.used && d.Type.Make != nil {
			r.Warn(d.Header, "Unused "+d.Type.Name,
				"Nothing in the lab refers to %s, so it has no effect. Use it, or remove the block.", d.Address)
		}
	}
}

// Start is where the lab's text begins; false: it has none.
func (r *Reader) Start() (Place, bool) {
	names, _ := r.Source.labFiles()
	if len(names) == 0 {
		return Place{}, false
	}
	return place(hcl.Range{Filename: names[0], Start: hcl.InitialPos, End: hcl.InitialPos}), true
}

// Blocks are the blocks of a type that nothing refers to, not read yet, as written.
func (r *Reader) Blocks(name string) []*Block {
	t := r.types[slices.IndexFunc(r.types, func(t *BlockType) bool { return t.Name == name })]
	var all []*Block
	for _, b := range r.blocks[name] {
		all = append(all, r.block(b, t))
	}
	return all
}

// Nouns are what the blocks that become an N are outside of any cell, as written.
func Nouns[N any](r *Reader) iter.Seq2[*Declared, *N] {
	return func(yield func(*Declared, *N) bool) {
		for _, d := range r.Declared() {
			if n, ok := r.instance(d, nil).Noun.(*N); ok && !d.Wrong && !yield(d, n) {
				return
			}
		}
	}
}

// Declared are the blocks of some types, or of all, as written; with for_each its instances.
func (r *Reader) Declared(types ...string) []*Declared {
	var all []*Declared
	for _, d := range r.order {
		if d.Type.Make != nil && (types == nil || slices.Contains(types, d.Type.Name)) {
			all = append(all, r.instances(d)...)
		}
	}
	return all
}

// settings are what a block says, evaluated: an argument or a nested block under its name,
// and what that says under "block.argument". What is null is not said.
type settings map[string]Setting

// Setting is what a block says under a name; the zero value: nothing.
type Setting struct {
	Raw   cty.Value // as written, or as merged with what was inherited
	Value any       // what the argument's kind made of it; nil: wrong or unknown
	At    Place     // of the value; of a block its header
	body  *hclsyntax.Body
}

// IsSet reports whether the block, or what it inherits, says something.
func (x Setting) IsSet() bool { return x.body != nil }

// IsValid reports whether something is said, and right.
func (x Setting) IsValid() bool { return x.Value != nil }

// Referred is the block of a type ("" for any) that the value stands for; nil: none.
func (x Setting) Referred(block string) *Declared { return referred(x.Raw, block) }

// isThere is the value of a nested block.
type isThere struct{}

// Block is a block of the lab while it is read. What has a mistake is incomplete, and nobody
// looks further at what is.
type Block struct {
	*Reader
	Type        *BlockType
	Label       string    // the first of its labels; "": it has none
	Declaration *Declared // nil: nothing can refer to it
	body        *hclsyntax.Body
	Header      Place
	cell        *Cell // nil: it is the same in every cell
	settings    settings
	Incomplete  bool // something in it is wrong or unknown
	lost        bool // what it inherits is not known
}

// Fail is [Problems.Fail] for what is wrong with the block.
func (b *Block) Fail(at Place, summary, format string, args ...any) {
	b.Problems.Fail(at, summary, format, args...)
	b.Incomplete = true
}

// At is the place of what the block says under a name; of the block where it does not.
func (b *Block) At(name string) Place {
	if x := b.settings[name]; x.IsSet() {
		return x.At
	}
	return b.Header
}

// ValueOf is the place of an argument's value, with what its references stand for.
func (b *Block) ValueOf(name string) Place { return b.explained(b.expression(name), b.cell) }

func (r *Reader) block(b *hclsyntax.Block, t *BlockType) *Block {
	return &Block{Reader: r, Type: t, Label: firstLabel(b), body: b.Body, Header: place(b.DefRange())}
}

// Read evaluates the block in a cell, or outside of any (nil), and lays it into a noun.
func (b *Block) Read(noun any, c *Cell) *Block {
	x := *b
	x.cell, x.settings = c, settings{}
	x.evaluate(x.body, x.Type, "", false)
	x.become(noun)
	return &x
}

// ReadShared is read for the arguments alone that hold for all cells.
func (b *Block) ReadShared(noun any) {
	x := *b
	x.settings = settings{}
	x.evaluate(x.body, x.Type, "", true)
	x.bind(x.Type, "", noun)
}

// Inner are the blocks of a type inside this one that it does not read by itself, as written.
func (b *Block) Inner(name string) []*Block {
	var all []*Block
	for _, n := range blocksOf(b.body, name) {
		all = append(all, b.block(n, b.Type.inner(name)))
	}
	return all
}

// blockOf is a declared block in a cell.
func (r *Reader) blockOf(i *Instance, c *Cell) *Block {
	d := i.of
	return &Block{Reader: r, Type: d.Type.ofKind(d.Kind), Declaration: d, body: d.body, Header: d.Header, cell: c, settings: i.settings}
}

// BlockFor is a declared block in the cell of this one.
func (b *Block) BlockFor(d *Declared) *Block { return b.blockOf(b.instance(d, b.cell), b.cell) }

// EvaluatedBlocks are a declared block in each cell in which it was evaluated.
func (r *Reader) EvaluatedBlocks(d *Declared) []*Block {
	var all []*Block
	for _, i := range d.Evaluated {
		all = append(all, r.blockOf(i, nil))
	}
	return all
}

// readInstance makes what a declared block stands for in a cell.
func (r *Reader) readInstance(i *Instance, c *Cell) {
	d := i.of
	i.settings = settings{}
	b := r.blockOf(i, c)
	if a, ok := d.body.Attributes["inherits"]; ok {
		b.inherit(a)
	}
	b.evaluate(b.body, b.Type, "", false)
	i.Noun = d.Type.Make(d)
	b.become(i.Noun)
	i.Incomplete, i.lost = b.Incomplete, b.lost
}

// Arg is what the block says under a name that its type knows.
func (b *Block) Arg(name string) Setting {
	x, ok := b.settings[name]
	if !ok && !b.Type.Knows(name) {
		panic("nothing in " + b.Type.title() + " is named " + name + ". This is a bug in hcl.")
	}
	return x
}

// Find is arg for names that the block's type may not know.
func (b *Block) Find(name string) Setting { return b.settings[name] }

// Knows reports whether something in such a block has this name: "load.rate".
func (t *BlockType) Knows(name string) bool {
	block, below, inside := strings.Cut(name, ".")
	block, _, _ = strings.Cut(block, " ")
	n, isBlock := t.Nested(block)
	if isBlock && inside {
		return n.Type.Knows(below)
	}
	_, isArgument := t.Argument(block)
	return isBlock || isArgument
}

// AllValid reports whether everything that is said, but what is named, has a value.
func (b *Block) AllValid(but ...string) bool {
	for name, x := range b.settings {
		if !x.IsValid() && !slices.Contains(but, name) {
			return false
		}
	}
	return true
}

// inherit begins with what another block of the kind says.
func (b *Block) inherit(a *hclsyntax.Attribute) {
	inherits, ok := b.Type.Argument(a.Name)
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
	case parent.Kind != b.Declaration.Kind:
		b.Fail(place(a.Expr.Range()), "Wrong value", "%s is not of kind %q, whose flags differ. "+
			"Share what they have in common through locals.", parent.Address, b.Declaration.Kind)
		b.lost = true
	case !b.enter(parent, place(a.Expr.Range())): // by matrix.*
		b.lost, b.Incomplete = true, true
	default:
		b.Declaration.Inherits = parent
		from := b.instance(parent, b.cell)
		b.lost = from.lost // what is wrong with it may be said otherwise here
		maps.Copy(b.settings, from.settings)
		delete(b.settings, "inherits")
		delete(b.settings, "description")
		for _, one := range b.Type.Args {
			if _, own := b.body.Attributes[one.Name]; own {
				delete(b.settings, one.instead)
			}
		}
	}
}

// evaluate lays what a body says over what is said already, but for blocks given several times.
func (b *Block) evaluate(body *hclsyntax.Body, t *BlockType, prefix string, shared bool) {
	for _, a := range inOrder(body.Attributes) {
		arg, ok := t.Argument(a.Name)
		switch {
		case !ok || arg.kind.convert == nil || arg.shared != shared:
		case shared && mentionsMatrix(a.Expr):
			b.Fail(place(a.Expr.Range()), "No matrix here",
				"%q holds for all cells of a %s, so it cannot depend on matrix.*. Write two %[2]ss.", a.Name, t.Name)
		default:
			b.evaluateArgument(Setting{body: body}, t, arg, a.Expr, prefix+a.Name)
		}
	}
	for _, n := range t.Blocks {
		if n.Part != nil && !shared {
			b.evaluateParts(body, n, prefix)
		}
	}
}

// evaluateParts lays nested blocks of a type over those that are said already, each with a
// label over its like.
func (b *Block) evaluateParts(body *hclsyntax.Body, n Nested, prefix string) {
	var names []string
	for _, part := range blocksOf(body, n.Type.Name) {
		name := prefix + n.Type.Name
		if len(n.Type.Labels) > 0 {
			name += " " + firstLabel(part)
		}
		if slices.Contains(names, name) || len(names) > 0 && !n.Many {
			continue // a second one is reported
		}
		names = append(names, name)
		for _, other := range b.partsBelow(prefix, n.Type) {
			if other != name && !n.Many {
				maps.DeleteFunc(b.settings, func(name string, _ Setting) bool { return name == other || strings.HasPrefix(name, other+".") })
			}
		}
		b.settings[name] = Setting{Value: isThere{}, At: place(part.DefRange()), body: part.Body}
		b.evaluate(part.Body, n.Type, name+".", false)
	}
}

// Parts are the names under which nested blocks of a type are settings: "router", "role prefill".
func (b *Block) Parts(name string) []string { return b.partsBelow("", b.Type.inner(name)) }

// partsBelow is parts of a block inside, under whose name they stand.
func (b *Block) partsBelow(prefix string, t *BlockType) []string {
	if len(t.Labels) == 0 {
		if name := prefix + t.Name; b.settings[name].IsSet() {
			return []string{name}
		}
		return nil
	}
	var names []string
	for name, x := range b.settings {
		label, ofType := strings.CutPrefix(name, prefix+t.Name+" ")
		inOne := strings.Contains(label, ".") // it is a block within such a block
		if _, isBlock := x.Value.(isThere); isBlock && ofType && !inOne {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (b *Block) evaluateArgument(x Setting, t *BlockType, arg Argument, expr hclsyntax.Expression, name string) {
	x.Raw, x.At = b.eval(expr, b.cell), place(expr.Range())
	switch {
	case x.Raw.IsNull() && !arg.Must:
		delete(b.settings, name)
		return
	case x.Raw.IsNull():
		b.Fail(x.At, "Missing argument", "%s needs the argument %q, and here it is null: %s.",
			Title(t.title()), arg.Name, arg.kind.want)
	default:
		if arg.kind.merges && b.settings[name].IsSet() {
			x.Raw = overlay(b.settings[name].Raw, x.Raw, func(name string) string {
				if arg.kind.same == nil || b.Declaration == nil || b.Declaration.Kind == "" {
					return name
				}
				return arg.kind.same(b.Declaration.Kind, name)
			})
		}
		x.Value = b.convert(arg, x.Raw, expr, b.cell)
	}
	b.settings[name] = x
}

// become lays what is said into the noun, and checks the whole.
func (b *Block) become(noun any) {
	b.bind(b.Type, "", noun)
	b.Incomplete = b.Incomplete || b.lost || !b.AllValid()
	for _, a := range b.Type.Args {
		if _, said := b.settings[a.Name]; a.Must && !said {
			b.Incomplete = true
		}
	}
	if b.Type.Check != nil {
		b.Type.Check(b, noun)
	}
}

func (b *Block) bind(t *BlockType, prefix string, noun any) {
	for _, a := range t.Args {
		b.lay(a, prefix+a.Name, noun)
	}
	if t.Free != nil {
		for _, name := range slices.Sorted(maps.Keys(b.settings)) {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				a := *t.Free
				a.Name = rest
				b.lay(a, name, noun)
			}
		}
	}
	for _, n := range t.Blocks {
		if n.Part == nil {
			continue
		}
		for _, name := range b.partsBelow(prefix, n.Type) {
			_, label, _ := strings.Cut(name[len(prefix):], " ")
			b.bind(n.Type, name+".", n.Part(noun, label))
		}
	}
}

// lay sets the field of an argument; of a block that is referred to, to what that becomes.
func (b *Block) lay(a Argument, name string, noun any) {
	x := b.settings[name]
	if !x.IsValid() || a.set == nil {
		return
	}
	value := x.Value
	if to, ok := value.(link); ok {
		value = to.resolve(func(d *Declared) any {
			i := b.instance(d, b.cell)
			if i.Incomplete {
				x.Value = nil
				b.settings[name] = x
			}
			return i.Noun
		})
	}
	if value != nil {
		a.set(noun, a.Name, value)
	}
}

// overlay merges two objects key by key; what is null in the second is removed.
func overlay(under, over cty.Value, key func(string) string) cty.Value {
	if !IsObject(under) || !IsObject(over) {
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

// Element is where an element of an argument's list stands, counted from 0; of one that is not
// written out, where the argument does.
func (b *Block) Element(name string, i int) Place { return place(elementRange(b.expression(name), i)) }

// IsWrittenOut reports whether a list is written out, element by element.
func (b *Block) IsWrittenOut(name string) bool {
	_, ok := b.expression(name).(*hclsyntax.TupleConsExpr)
	return ok
}

// Columns are the names in the objects of a list, in the order of the text as far as it shows one.
func (b *Block) Columns(name string) []string {
	there := map[string]bool{}
	for it := b.Arg(name).Raw.ElementIterator(); it.Next(); {
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

// FailIfEmpty reports a text with nothing in it: a variable that is not set often stands behind it.
func (b *Block) FailIfEmpty(name, write string) bool {
	s, isText := b.Arg(name).Value.(string)
	if !isText || strings.TrimSpace(s) != "" {
		return false
	}
	b.Fail(b.ValueOf(name), "Wrong value", "%q is empty. %s", name, write)
	return true
}

// expression is what an argument was written as.
func (b *Block) expression(name string) hclsyntax.Expression {
	x, body := b.Arg(name), b.body
	if x.IsSet() {
		body = x.body
	}
	if a, ok := body.Attributes[name[strings.LastIndexByte(name, '.')+1:]]; ok {
		return a.Expr
	}
	if !x.IsSet() {
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: b.Header.Range}
	}
	return &hclsyntax.LiteralValueExpr{Val: x.Raw, SrcRange: x.At.Range}
}

// Written is where the text says an argument.
func (b *Block) Written(name string) Place { return place(b.expression(name).Range()) }

// Inside is a nested block as one by itself.
func (b *Block) Inside(name string) *Block {
	in, x := *b, b.settings[name]
	block, _, _ := strings.Cut(name, " ")
	in.Type, in.body, in.Header, in.settings = b.Type.inner(block), x.body, x.At, settings{}
	for other, y := range b.settings {
		if rest, inside := strings.CutPrefix(other, name+"."); inside {
			in.settings[rest] = y
		}
	}
	in.Incomplete = !in.AllValid()
	return &in
}

// Place is the place of a setting, or of the block where it is not said. What is
// inherited is shown at the block that inherits it: elsewhere it is right.
func (b *Block) Place(name string) (at Place, note string) {
	x := b.settings[name] // a check may name what no argument is
	if !x.IsSet() {
		return b.Header, ""
	}
	inside := func(n *hclsyntax.Block) bool { return x.body == n.Body }
	if x.body == b.body || slices.ContainsFunc(b.body.Blocks, inside) {
		return x.At, ""
	}
	bare := name[strings.LastIndexByte(name, '.')+1:]
	return b.Header, "\n\nWhat it says of " + bare + " is inherited from " + x.At.String() + "."
}

// PlaceOf is where, of one key of an object and its value. Note is not empty as well where
// the object stands in this block and the key comes from what it inherits.
func (b *Block) PlaceOf(name, key string) (at Place, note string) {
	at, note = b.Place(name)
	if key == "" || note != "" {
		return at, note
	}
	item, found := b.item(name, key)
	switch {
	case !found:
		return at, ""
	case item == nil:
		return b.Header, "\n\nWhat it says of " + key + " is inherited."
	}
	return place(hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range())), ""
}

// item is where a block's own object says a key; nil: it does not. False: the object is
// not written there as one.
func (b *Block) item(name, key string) (*hclsyntax.ObjectConsItem, bool) {
	var object *hclsyntax.ObjectConsExpr
	if a, own := b.settings[name].body.Attributes[name[strings.LastIndexByte(name, '.')+1:]]; own {
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
