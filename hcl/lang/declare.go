package lang

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"hclbench/plain"
	"hclbench/where"
)

// Instance is a declared block, evaluated: once, or once per values of the axes that it uses.
type Instance struct {
	of         *Declared
	settings   settings
	Noun       any       // what the block becomes: a pointer, as Make gives it
	object     cty.Value // what expressions see
	Incomplete bool      // something in it is wrong or unknown: no more is said about it
	lost       bool      // not all that it says is known: what it inherits is not
}

// register is what the blocks of a lab declare.
type register struct {
	types    []*BlockType                  // of the language
	declared map[string]*Declared          // by address: everything that can be referred to
	order    []*Declared                   // the same, as written
	blocks   map[string][]*hclsyntax.Block // those that nothing refers to, by type
	silent   map[hclsyntax.Expression]bool // whose mistakes are reported already: of their values nothing is known
}

// Declared is something that expressions can refer to.
type Declared struct {
	Identity
	Type   *BlockType
	Kind   string // of a type whose first label is a kind
	Name   string
	Header Place
	body   *hclsyntax.Body
	expr   hclsyntax.Expression // locals only
	Wrong  bool                 // reported already: references to it are unknown, silently
	used   bool                 // something else refers to it

	Inherits *Declared // what it begins with; nil: with nothing

	// With for_each a block is repeated: several instances, each of which is declared like
	// a block of its own, with the repeated one as its parent.
	expanded bool
	members  []*Declared          // of a repeated block, once expanded
	objects  map[string]cty.Value // of a repeated block: what expressions see, by the cell's key
	parent   *Declared            // of an instance
	key      string               // of an instance
	each     cty.Value            // of an instance: what each stands for in it

	val       *cty.Value // variables and locals, once known
	instances map[string]*Instance
	Evaluated []*Instance          // the same, in order
	axes      map[string]hcl.Range // what it uses of matrix.*, once known
}

func newDeclared(b *hclsyntax.Block, t *BlockType) *Declared {
	d := &Declared{Type: t, Name: b.Labels[len(b.Labels)-1], body: b.Body, Header: place(b.DefRange())}
	if t.ownKinds() {
		d.Kind = b.Labels[0]
	}
	return d.identified(cmp.Or(t.Root, t.Name) + "." + strings.Join(b.Labels, "."))
}

// identified gives it the address by which expressions refer to it.
func (d *Declared) identified(address string) *Declared {
	_, name, _ := strings.Cut(address, ".")
	d.Identity = Identity{Address: address, axis: name, block: d}
	if d.Type.Addressed {
		d.axis = address
	}
	if d.parent != nil {
		d.repeated = d.parent.Address
	}
	return d
}

// referred returns the block that an object stands for, if it is of a type ("" for any).
func referred(v cty.Value, block string) *Declared {
	id := identityOf(v)
	if id == nil {
		return nil
	}
	if d := id.block.(*Declared); block == "" || d.Type.Name == block {
		return d
	}
	return nil
}

// link is what a reference becomes: blocks, and what they make of a field.
type link struct {
	blocks  []*Declared
	resolve func(noun func(*Declared) any) any // nil: what one of the blocks becomes is not known
}

// Reference is a block of the named type, or of others, which becomes an N.
func Reference[N any](block, example string, others ...string) Kind[*N] {
	want := withArticle(block) + " of this lab, such as " + example
	refers := append(others, block)
	return Kind[*N]{kind{noun: block, want: want, refers: refers, convert: func(v cty.Value) (any, error) {
		d, err := blockOfType(v, refers)
		if err != nil {
			return nil, err
		}
		return link{[]*Declared{d}, func(noun func(*Declared) any) any {
			if n, ok := noun(d).(*N); ok {
				return n
			}
			return nil
		}}, nil
	}}}
}

// Name is the name of a block of the named type, of which nothing else is known.
func Name(block, example string) Kind[string] {
	want, refers := withArticle(block)+" of this lab, such as "+example, []string{block}
	return Kind[string]{kind{noun: block, want: want, refers: refers, convert: func(v cty.Value) (any, error) {
		d, err := blockOfType(v, refers)
		if err != nil {
			return nil, err
		}
		return d.Name, nil
	}}}
}

// blockOfType is the block that a value stands for, if it is of one of these types.
func blockOfType(v cty.Value, types []string) (*Declared, error) {
	switch d := referred(v, ""); {
	case d == nil:
		return nil, NoFit
	case !slices.Contains(types, d.Type.Name):
		return nil, Wrong("%s is something else.", d.Address)
	default:
		return d, nil
	}
}

// OrElse is a reference in whose place a value may stand that says the N itself.
func OrElse[N any](k Kind[*N], want string, say func(v cty.Value) (*N, error)) Kind[*N] {
	convert, refers := k.convert, k.refers
	k.want, k.convert = want, func(v cty.Value) (any, error) {
		if d := referred(v, ""); d != nil && slices.Contains(refers, d.Type.Name) {
			return convert(v)
		}
		return say(v)
	}
	return k
}

// ReferenceList is a list of blocks of the named type, or of others, each of which becomes an N.
func ReferenceList[N any](block, example string, others ...string) Kind[[]*N] {
	noun := "list of " + block + "s"
	refers := append(others, block)
	return Kind[[]*N]{kind{noun: noun, want: "a " + noun + ", such as " + example, refers: refers, convert: func(v cty.Value) (any, error) {
		unknown := false
		blocks, err := Elements(v, func(e cty.Value) (*Declared, error) {
			if unknown = unknown || !e.IsKnown(); unknown {
				return nil, nil
			}
			return blockOfType(e, refers)
		})
		if err != nil || unknown {
			return nil, err
		}
		return link{blocks, func(noun func(*Declared) any) any {
			var all []*N
			known := true
			for _, d := range blocks {
				n, ok := noun(d).(*N)
				all, known = append(all, n), known && ok
			}
			if !known {
				return nil
			}
			return all
		}}, nil
	}}}
}

// OrOne is a list of blocks that may be one block alone, and is not empty.
func OrOne[N any](many Kind[[]*N], block, examples string) Kind[[]*N] {
	k := many
	k.noun, k.want = block+" or "+k.noun, block+"s of this lab, such as "+examples
	k.convert = func(v cty.Value) (any, error) {
		if referred(v, "") != nil {
			v = cty.TupleVal([]cty.Value{v})
		}
		if v.IsKnown() && v.CanIterateElements() && v.LengthInt() == 0 {
			return nil, NoFit
		}
		return many.convert(v)
	}
	return k
}

// The roots of references that are no block.
const (
	matrixRoot = "matrix"
	eachRoot   = "each"
)

// eachBlock calls do with the types of all blocks, also of those inside others.
func (g *register) eachBlock(do func(t *BlockType)) {
	var walk func(t *BlockType)
	walk = func(t *BlockType) {
		do(t)
		for _, n := range t.Blocks {
			walk(n.Type)
		}
	}
	for _, t := range g.types {
		walk(t)
	}
}

// maySecret are the arguments whose values may be sensitive, in the order of the language; without keys, which always are.
func (g *register) maySecret() (names []string) {
	g.eachBlock(func(t *BlockType) {
		for _, a := range t.Args {
			if a.kind.secret && !a.kind.key && !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
	})
	return names
}

// keyNames are the arguments that are keys wherever they stand.
func (g *register) keyNames() map[string]bool {
	keys := map[string]bool{}
	for _, key := range []bool{true, false} {
		g.eachBlock(func(t *BlockType) {
			for _, a := range t.Args {
				if a.kind.key == key && (key || keys[a.Name]) {
					keys[a.Name] = key
				}
			}
		})
	}
	return keys
}

// roots are what references begin with.
func (g *register) roots() []string {
	var roots []string
	for _, t := range g.types {
		if t.Root != "" {
			roots = append(roots, t.Root)
		}
	}
	return append(roots, matrixRoot, eachRoot)
}

// perCellType is the first type of block that may be another thing in each cell.
func (g *register) perCellType() string {
	for _, t := range g.types {
		if t.PerCell {
			return t.Name
		}
	}
	return "block"
}

// matrixType is the type of block whose cells matrix.* is; without one, an empty one.
func (g *register) matrixType() *BlockType {
	for _, t := range g.types {
		if t.inner("matrix") != nil {
			return t
		}
	}
	return &BlockType{Name: "block"}
}

// referenceLength is how many steps an address below this root has; 0: there are none.
func (g *register) referenceLength(root string) int {
	if root == matrixRoot {
		return 2
	}
	for _, t := range g.types {
		if t.Root == root {
			return 1 + max(1, len(t.Labels))
		}
	}
	return 0
}

// addressOf is the address that a reference names; not whole where it is a type or a kind.
func (g *register) addressOf(t hcl.Traversal) (address string, whole bool) {
	parts := []string{t.RootName()}
	n := g.referenceLength(parts[0])
	for _, step := range t[1:max(1, min(len(t), n))] {
		name, ok := stepName(step)
		if !ok {
			break
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, "."), len(parts) >= n
}

// targets are the declared things that a reference names; of a type or kind, all.
func (g *register) targets(t hcl.Traversal) []*Declared {
	address, whole := g.addressOf(t)
	if d, ok := g.declared[address]; ok {
		return []*Declared{d}
	}
	if whole {
		return nil
	}
	return g.below(address)
}

// below is what is declared under a root, or under a kind.
func (g *register) below(address string) []*Declared {
	var all []*Declared
	for _, d := range g.order {
		if strings.HasPrefix(d.Address, address+".") {
			all = append(all, d)
		}
	}
	return all
}

// UsesMatrix reports whether what has an address is another thing in each cell.
func (g *register) UsesMatrix(address string) bool {
	block, _, _ := strings.Cut(address, "[")
	d := g.declared[block]
	return d != nil && len(g.axesOf(d)) > 0
}

// axesOf are the axes that a block uses, itself or through what it refers to, and where.
func (g *register) axesOf(d *Declared) map[string]hcl.Range {
	switch {
	case !d.Type.PerCell || d.body == nil:
		return nil
	case d.parent != nil:
		return g.axesOf(d.parent)
	case d.axes != nil:
		return d.axes
	}
	d.axes = map[string]hcl.Range{} // also ends a circle
	eachReference(d.body, func(t hcl.Traversal) { g.noteAxes(t, d.axes) })
	return d.axes
}

// noteAxes adds the axes that a reference uses.
func (g *register) noteAxes(t hcl.Traversal, axes map[string]hcl.Range) {
	note := func(axis string, at hcl.Range) {
		if _, known := axes[axis]; !known {
			axes[axis] = at
		}
	}
	if t.RootName() == matrixRoot {
		note(axisOf(t), t.SourceRange())
	}
	for _, other := range g.targets(t) {
		for axis, at := range g.axesOf(other) {
			note(axis, at)
		}
	}
}

// eachReference calls do with the references of a body, in order.
func eachReference(b *hclsyntax.Body, do func(t hcl.Traversal)) {
	for _, a := range inOrder(b.Attributes) {
		for _, t := range a.Expr.Variables() {
			do(t)
		}
	}
	for _, n := range b.Blocks {
		eachReference(n.Body, do)
	}
}

// AxisNames are the axes of all blocks with a matrix, as written.
func (g *register) AxisNames() []string {
	var names []string
	var walk func(body *hclsyntax.Body)
	walk = func(body *hclsyntax.Body) {
		for _, b := range body.Blocks {
			if b.Type != "matrix" && b.Type != "zip" && b.Type != "include" {
				continue
			}
			for _, a := range inOrder(b.Body.Attributes) {
				if !slices.Contains(names, a.Name) {
					names = append(names, a.Name)
				}
			}
			walk(b.Body)
		}
	}
	for _, b := range g.blocks[g.matrixType().Name] {
		walk(b.Body)
	}
	return names
}

func stepName(s hcl.Traverser) (string, bool) {
	switch s := s.(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		if s.Key.IsKnown() {
			return AsString(s.Key)
		}
	}
	return "", false
}

// axisOf is the axis that a reference names, or what else is below a root; "": all of it.
func axisOf(t hcl.Traversal) string {
	if len(t) < 2 {
		return ""
	}
	axis, _ := stepName(t[1])
	return axis
}

// checker holds blocks against the language, evaluates nothing, and notes what they declare.
type checker struct {
	*Problems
	*register
}

// nameForm is what a label may be that is no kind.
type nameForm struct {
	form *regexp.Regexp
	rule string
	most int // characters; 0: any number
}

// maxName bounds the names of blocks.
const maxName = 63

// What names of blocks may be.
var (
	Identifier = nameForm{regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`),
		"letters, digits, - and _, and begins with a letter", maxName}
	DottedName = nameForm{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`),
		"letters, digits, -, _ and ., and begins with a letter or a digit", maxName}
	AnyText = nameForm{regexp.MustCompile(`^[^\p{C}]*[^\p{C}\s][^\p{C}]*$`),
		"letters, digits and spaces, and is not empty", 0}
)

const nameTaken = "A %s named %q stands at %s already. Give this one another name."

// Allows reports whether such a label may be a name.
func (n nameForm) Allows(name string) bool {
	return n.form.MatchString(name) && (n.most == 0 || len(name) <= n.most)
}

// declareAll checks the shape of a file's blocks and notes what they declare.
func (c *checker) declareAll(body *hclsyntax.Body) {
	for _, a := range inOrder(body.Attributes) {
		c.Fail(place(a.NameRange), "Argument outside of a block",
			"%q stands in no block. For a value of your own, write locals { %s = … }", a.Name, a.Name)
	}
	names := mapped(c.types, func(t *BlockType) string { return t.Name })
	for _, b := range body.Blocks {
		if i := slices.Index(names, b.Type); i >= 0 {
			c.declare(b, c.types[i])
			continue
		}
		for _, t := range c.types { // of a slip, references to the block are not wrong as well
			if len(b.Labels) > 0 && len(b.Labels) == len(t.Labels) && where.Nearest(b.Type, []string{t.Name}) != "" {
				d := newDeclared(b, t)
				d.Wrong = true
				if _, taken := c.declared[d.Address]; !taken {
					c.add(d)
				}
			}
		}
		c.Fail(place(b.TypeRange).Lacking(""), "Unknown block type", "There are no blocks of type %q.%s A lab is made of the blocks %s.",
			b.Type, DidYouMean(b.Type, names, nil), plain.List(names, "and"))
	}
}

func (c *checker) declare(b *hclsyntax.Block, t *BlockType) {
	if !c.checkLabels(b, t) {
		// Its arguments are still held against the schema, except where the kind
		// decides which there are.
		if t.Variants == nil || len(b.Labels) > 0 && slices.Contains(t.Labels[0].Kinds, b.Labels[0]) {
			c.checkBody(b.Body, t.ofKind(firstLabel(b)), b.DefRange())
		}
		return
	}
	c.checkBody(b.Body, t.ofKind(firstLabel(b)), b.DefRange())
	switch {
	case t.Free != nil:
		for _, a := range inOrder(b.Body.Attributes) {
			d := &Declared{Type: t, Name: a.Name, body: b.Body, expr: a.Expr, Header: place(a.NameRange)}
			c.add(d.identified(t.Root + "." + a.Name))
		}
	case t.Root != "" && !t.Named:
		d := newDeclared(b, t)
		c.add(d)
		if t.Name == "variable" && c.Broken && isSensitive(d) {
			// A default that does not parse would be shown as the place of the mistake.
			c.hidden = append(c.hidden, hcl.RangeBetween(b.DefRange(), b.Range()))
		}
	default:
		for _, other := range c.blocks[t.Name] {
			if t.Once {
				c.Fail(place(b.DefRange()), "Duplicate "+t.Name+" block",
					"A lab has at most one %s block, and one stands at %s already. Put everything into one.",
					t.Name, lineOf(other.DefRange()))
				return
			}
			if other.Labels[0] == b.Labels[0] {
				c.Fail(place(b.DefRange()), "Duplicate "+t.Name+" block", nameTaken, t.Name, b.Labels[0], lineOf(other.DefRange()))
				return
			}
		}
		c.blocks[t.Name] = append(c.blocks[t.Name], b)
		if t.Named {
			d := newDeclared(b, t)
			v := cty.ObjectVal(map[string]cty.Value{identityName: cty.CapsuleVal(identityType, &d.Identity), "name": cty.StringVal(d.Name)})
			d.val = &v
			c.add(d)
		}
	}
}

func firstLabel(b *hclsyntax.Block) string {
	if len(b.Labels) == 0 {
		return ""
	}
	return b.Labels[0]
}

func (c *checker) add(d *Declared) {
	if other, taken := c.declared[d.Address]; taken {
		c.Fail(d.Header, "Duplicate "+d.Type.Name+" block",
			"%s is declared at %s already. Give this one another name.", d.Address, other.Header.String())
		return
	}
	c.declared[d.Address] = d
	c.order = append(c.order, d)
}

// isSensitive is decided from the text: what is not plainly false counts.
func isSensitive(d *Declared) bool {
	if d.Wrong {
		return true
	}
	a, said := d.body.Attributes["sensitive"]
	if !said {
		return false
	}
	v, diags := a.Expr.Value(nil)
	return diags.HasErrors() || !v.RawEquals(cty.False) && !v.IsNull()
}

// checkLabels reports whether a block has the labels that its type takes.
func (c *checker) checkLabels(b *hclsyntax.Block, t *BlockType) bool {
	if len(b.Labels) != len(t.Labels) {
		at, example := b.DefRange(), t.Name
		if len(b.Labels) > len(t.Labels) {
			at = b.LabelRanges[len(t.Labels)]
		}
		for _, l := range t.Labels {
			example += " " + strings.ToUpper(l.What)
		}
		many := []string{"no label", "one label", "2 labels"}[len(t.Labels)]
		c.Fail(place(at), "Wrong number of labels",
			"A block of type %s takes %s, and this one has %d. Write %s { … }.", t.Name, many, len(b.Labels), example)
		return false
	}
	good := true
	for i, l := range t.Labels {
		good = c.checkLabel(b, t, l, b.Labels[i], b.LabelRanges[i]) && good
	}
	return good
}

func (c *checker) checkLabel(b *hclsyntax.Block, t *BlockType, l Label, said string, at hcl.Range) bool {
	switch {
	case l.Kinds != nil && !slices.Contains(l.Kinds, said):
		c.Fail(place(at), "Unknown "+t.Name+" kind", "There is no %s kind %q.%s The kinds are %s.",
			t.Name, said, DidYouMean(said, l.Kinds, nil), plain.List(quoted(l.Kinds), "and"))
		if t.Root != "" { // it counts as declared, so that references to it are not wrong as well
			d := newDeclared(b, t)
			d.Wrong = true
			c.add(d)
		}
		return false
	case l.Kinds != nil:
	case l.Form.most > 0 && len(said) > l.Form.most:
		c.Fail(place(at), "Name too long", "Containers are named after it, so it has at most %d characters, and this one has %d. "+
			"Shorten it.", l.Form.most, len(said))
		return false
	case !l.Form.form.MatchString(said):
		c.Fail(place(at), "Invalid name", "%q cannot be a name. A name is made of %s, "+
			"because it appears in references, labels and file names.", said, l.Form.rule)
		return false
	}
	return true
}

// checkBody holds the arguments and blocks of a body against its type.
func (c *checker) checkBody(body *hclsyntax.Body, t *BlockType, header hcl.Range) {
	c.misspelt[header] = map[string]bool{}
	for _, a := range inOrder(body.Attributes) {
		if arg, ok := t.Argument(a.Name); !ok {
			c.unknownArgument(a, t, header)
		} else if arg.kind.same != nil {
			c.checkDashes(a.Expr)
		}
	}
	seen := map[string]hcl.Range{}
	for _, b := range body.Blocks {
		if n, ok := t.Nested(b.Type); ok {
			c.checkNested(b, t, n, seen)
		} else {
			c.unknownBlock(b, t, header)
		}
	}
	for _, a := range t.Args {
		if _, said := body.Attributes[a.Name]; a.Must && !said {
			c.Fail(place(header).Lacking(a.Name), "Missing argument", "%s needs the argument %q. %s",
				Title(t.title()), a.Name, a.Hint)
		}
	}
	for _, n := range t.Blocks {
		if _, said := seen[n.Type.Name]; n.Required && !said {
			c.Fail(place(header).Lacking(n.Type.Name), "Missing block", "%s needs a block %s { … }. %s",
				Title(t.title()), n.Type.Name, n.Type.Hint)
		}
	}
}

func (c *checker) checkNested(b *hclsyntax.Block, t *BlockType, n Nested, seen map[string]hcl.Range) {
	at := b.DefRange()
	labelled := c.checkLabels(b, n.Type) && len(n.Type.Labels) > 0
	name := b.Type + " " + firstLabel(b)
	if first, twice := seen[b.Type]; twice && !n.Many {
		c.Fail(place(at), "Duplicate "+b.Type+" block",
			"There is at most one %s block in %s, and one stands at %s already. Put everything into one.",
			b.Type, t.title(), lineOf(first))
		return
	}
	if first, twice := seen[name]; twice && labelled {
		c.Fail(place(at), "Duplicate "+b.Type+" block", nameTaken, b.Type, b.Labels[0], lineOf(first))
	}
	seen[b.Type], seen[name] = at, at
	c.checkBody(b.Body, n.Type, at)
}

func (c *checker) unknownArgument(a *hclsyntax.Attribute, t *BlockType, header hcl.Range) {
	at := a.NameRange
	if _, ok := t.Nested(a.Name); ok {
		c.Fail(place(at), "Block written as argument", "%s is a block: write it without the equals sign, %[1]s { … }.", a.Name)
		return
	}
	if t.Free != nil {
		c.Fail(place(at), "Unknown argument", "%q is not something that %s can say. %s.", a.Name, t.title(), t.Free.Hint)
		return
	}
	known := t.argumentNames(false)
	c.misspelt[header][where.Nearest(a.Name, known)] = true
	c.Fail(place(at), "Unknown argument", "There is no argument %q in %s.%s%s", a.Name, t.title(),
		DidYouMean(a.Name, append(known, t.blockNames()...), nil), c.elsewhere(a.Name, t))
}

func (c *checker) unknownBlock(b *hclsyntax.Block, t *BlockType, header hcl.Range) {
	if _, isArgument := t.Argument(b.Type); isArgument && t.Free == nil {
		c.Fail(place(b.TypeRange), "Argument written as block",
			"%s is an argument: write it with an equals sign, %[1]s = { … }.", b.Type)
		return
	}
	known := t.blockNames()
	c.misspelt[header][where.Nearest(b.Type, known)] = true
	c.Fail(place(b.TypeRange).Lacking(""), "Unknown block type", "There is no block %q in %s.%s%s", b.Type, t.title(),
		DidYouMean(b.Type, append(known, t.argumentNames(false)...), nil), c.elsewhere(b.Type, t))
}

// elsewhere says how what the name means is said, or which other blocks know it.
func (c *checker) elsewhere(name string, not *BlockType) string {
	if hint := not.Elsewhere[name]; hint != "" {
		return " " + hint
	}
	var found []string
	c.eachBlock(func(t *BlockType) {
		_, isBlock := t.Nested(name)
		known := isBlock || slices.Contains(t.argumentNames(false), name)
		if t.Name != not.Name && known && !slices.Contains(found, t.Name) {
			found = append(found, t.Name)
		}
	})
	if len(found) == 0 || len(found) > 3 {
		return ""
	}
	return fmt.Sprintf(" It belongs in %s.", plain.List(found, "or"))
}

// checkDashes finds flags written with dashes, which HCL reads as minus signs before a reference.
func (c *checker) checkDashes(expr hclsyntax.Expression) {
	list, ok := expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return
	}
	for _, item := range list.Items {
		key, ok := item.KeyExpr.(*hclsyntax.ObjectConsKeyExpr)
		if !ok {
			continue
		}
		if _, minus := key.Wrapped.(*hclsyntax.UnaryOpExpr); minus {
			name := strings.TrimLeft(string(key.Range().SliceBytes(c.files[key.Range().Filename])), "-")
			c.Fail(place(key.Range()), "Flag with dashes", "Flags are written without their leading dashes: %s = …", name)
			c.silent[expr] = true
		}
	}
}

func blocksOf(body *hclsyntax.Body, name string) []*hclsyntax.Block {
	var found []*hclsyntax.Block
	for _, n := range body.Blocks {
		if n.Type == name {
			found = append(found, n)
		}
	}
	return found
}

func mentionsMatrix(expr hclsyntax.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool { return t.RootName() == matrixRoot })
}
