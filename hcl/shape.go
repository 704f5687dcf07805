package hcl

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hclbench/where"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// checker holds blocks against the language, evaluates nothing, and notes what they declare.
type checker struct{ *scope }

// nameForm is what a label may be that is no kind.
type nameForm struct {
	form *regexp.Regexp
	rule string
	most int // characters; 0: any number
}

// maxName bounds the names of blocks.
const maxName = 63

var (
	identifier = nameForm{regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`),
		"letters, digits, - and _, and begins with a letter", maxName}
	labName = nameForm{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`),
		"letters, digits, -, _ and ., and begins with a letter or a digit", maxName}
	anyText = nameForm{regexp.MustCompile(`^[^\p{C}]*[^\p{C}\s][^\p{C}]*$`),
		"letters, digits and spaces, and is not empty", 0}
)

const nameTaken = "A %s named %q stands at %s already. Give this one another name."

// declareAll checks the shape of a file's blocks and notes what they declare.
func (c *checker) declareAll(body *hclsyntax.Body) {
	for _, a := range inOrder(body.Attributes) {
		c.fail(a.NameRange, "Argument outside of a block",
			"%q stands in no block. For a value of your own, write locals { %s = … }", a.Name, a.Name)
	}
	names := mapped(c.types, func(t *blockType) string { return t.name })
	for _, b := range body.Blocks {
		if i := slices.Index(names, b.Type); i >= 0 {
			c.declare(b, c.types[i])
			continue
		}
		c.declareMisspelt(b)
		c.missing(b.TypeRange, "", "Unknown block type", "There are no blocks of type %q.%s A lab is made of the blocks %s.",
			b.Type, didYouMean(b.Type, names, nil), inWords(names, "and"))
	}
}

// declareMisspelt notes a block whose type is a slip: references to it are not wrong as well.
func (c *checker) declareMisspelt(b *hclsyntax.Block) {
	for _, t := range c.types {
		if len(b.Labels) > 0 && len(b.Labels) == len(t.labels) && where.Nearest(b.Type, []string{t.name}) != "" {
			d := newDeclared(b, t)
			d.wrong = true
			if _, taken := c.declared[d.address]; !taken {
				c.add(d)
			}
		}
	}
}

func (c *checker) declare(b *hclsyntax.Block, t *blockType) {
	if !c.checkLabels(b, t) {
		// Its arguments are still held against the schema, except where the kind
		// decides which there are.
		if t.variants == nil || len(b.Labels) > 0 && slices.Contains(t.labels[0].kinds, b.Labels[0]) {
			c.checkBody(b.Body, t.ofKind(firstLabel(b)), b.DefRange())
		}
		return
	}
	c.checkBody(b.Body, t.ofKind(firstLabel(b)), b.DefRange())
	switch {
	case t.free != nil:
		for _, a := range inOrder(b.Body.Attributes) {
			c.add(&declared{
				typ: t, address: t.root + "." + a.Name, name: a.Name, body: b.Body, expr: a.Expr, header: a.NameRange,
			})
		}
	case t.root != "":
		d := newDeclared(b, t)
		c.add(d)
		if t.name == "variable" && c.broken && isSensitive(d) {
			// A default that does not parse would be shown as the place of the mistake.
			c.hidden = append(c.hidden, hcl.RangeBetween(b.DefRange(), b.Range()))
		}
	default:
		for _, other := range c.blocks[t.name] {
			if t.once {
				c.fail(b.DefRange(), "Duplicate "+t.name+" block",
					"A lab has at most one %s block, and one stands at %s already. Put everything into one.",
					t.name, pos(other.DefRange()))
				return
			}
			if other.Labels[0] == b.Labels[0] {
				c.fail(b.DefRange(), "Duplicate "+t.name+" block", nameTaken, t.name, b.Labels[0], pos(other.DefRange()))
				return
			}
		}
		c.blocks[t.name] = append(c.blocks[t.name], b)
	}
}

func firstLabel(b *hclsyntax.Block) string {
	if len(b.Labels) == 0 {
		return ""
	}
	return b.Labels[0]
}

func (c *checker) add(d *declared) {
	if other, taken := c.declared[d.address]; taken {
		c.fail(d.header, "Duplicate "+d.typ.name+" block",
			"%s is declared at %s already. Give this one another name.", d.address, pos(other.header))
		return
	}
	c.declared[d.address] = d
	c.order = append(c.order, d)
}

// checkLabels reports whether a block has the labels that its type takes.
func (c *checker) checkLabels(b *hclsyntax.Block, t *blockType) bool {
	if len(b.Labels) != len(t.labels) {
		at, example := b.DefRange(), t.name
		if len(b.Labels) > len(t.labels) {
			at = b.LabelRanges[len(t.labels)]
		}
		for _, l := range t.labels {
			example += " " + strings.ToUpper(l.what)
		}
		many := []string{"no label", "one label", "2 labels"}[len(t.labels)]
		c.fail(at, "Wrong number of labels",
			"A block of type %s takes %s, and this one has %d. Write %s { … }.", t.name, many, len(b.Labels), example)
		return false
	}
	good := true
	for i, l := range t.labels {
		good = c.checkLabel(b, t, l, b.Labels[i], b.LabelRanges[i]) && good
	}
	return good
}

func (c *checker) checkLabel(b *hclsyntax.Block, t *blockType, l label, said string, at hcl.Range) bool {
	switch {
	case l.kinds != nil && !slices.Contains(l.kinds, said):
		c.fail(at, "Unknown "+t.name+" kind", "There is no %s kind %q.%s The kinds are %s.",
			t.name, said, didYouMean(said, l.kinds, nil), inWords(quoted(l.kinds), "and"))
		if t.root != "" { // it counts as declared, so that references to it are not wrong as well
			d := newDeclared(b, t)
			d.wrong = true
			c.add(d)
		}
		return false
	case l.kinds != nil:
	case l.form.most > 0 && len(said) > l.form.most:
		c.fail(at, "Name too long", "Containers are named after it, so it has at most %d characters, and this one has %d. "+
			"Shorten it.", l.form.most, len(said))
		return false
	case !l.form.form.MatchString(said):
		c.fail(at, "Invalid name", "%q cannot be a name. A name is made of %s, "+
			"because it appears in references, labels and file names.", said, l.form.rule)
		return false
	}
	return true
}

// checkBody holds the arguments and blocks of a body against its type.
func (c *checker) checkBody(body *hclsyntax.Body, t *blockType, header hcl.Range) {
	c.misspelt[header] = map[string]bool{}
	for _, a := range inOrder(body.Attributes) {
		if arg, ok := t.argument(a.Name); !ok {
			c.unknownArgument(a, t, header)
		} else if arg.kind.same != nil {
			c.checkDashes(a.Expr)
		}
	}
	seen := map[string]hcl.Range{}
	for _, b := range body.Blocks {
		if n, ok := t.nested(b.Type); ok {
			c.checkNested(b, t, n, seen)
		} else {
			c.unknownBlock(b, t, header)
		}
	}
	for _, a := range t.args {
		if _, said := body.Attributes[a.name]; a.required && !said {
			c.missing(header, a.name, "Missing argument", "%s needs the argument %q. %s",
				title(t.title()), a.name, a.hint)
		}
	}
	for _, n := range t.blocks {
		if _, said := seen[n.typ.name]; n.required && !said {
			c.missing(header, n.typ.name, "Missing block", "%s needs a block %s { … }. %s",
				title(t.title()), n.typ.name, n.typ.hint)
		}
	}
}

func (c *checker) checkNested(b *hclsyntax.Block, t *blockType, n nested, seen map[string]hcl.Range) {
	at := b.DefRange()
	labelled := c.checkLabels(b, n.typ) && len(n.typ.labels) > 0
	name := b.Type + " " + firstLabel(b)
	if first, twice := seen[b.Type]; twice && !n.many {
		c.fail(at, "Duplicate "+b.Type+" block",
			"There is at most one %s block in %s, and one stands at %s already. Put everything into one.",
			b.Type, t.title(), pos(first))
		return
	}
	if first, twice := seen[name]; twice && labelled {
		c.fail(at, "Duplicate "+b.Type+" block", nameTaken, b.Type, b.Labels[0], pos(first))
	}
	seen[b.Type], seen[name] = at, at
	c.checkBody(b.Body, n.typ, at)
}

func (c *checker) unknownArgument(a *hclsyntax.Attribute, t *blockType, header hcl.Range) {
	at := a.NameRange
	if _, ok := t.nested(a.Name); ok {
		c.fail(at, "Block written as argument", "%s is a block: write it without the equals sign, %[1]s { … }.", a.Name)
		return
	}
	if t.free != nil {
		c.fail(at, "Unknown argument", "%q is not something that %s can say. %s.", a.Name, t.title(), t.free.hint)
		return
	}
	known := t.argumentNames(false)
	c.misspelt[header][where.Nearest(a.Name, known)] = true
	c.fail(at, "Unknown argument", "There is no argument %q in %s.%s%s", a.Name, t.title(),
		didYouMean(a.Name, append(known, t.blockNames()...), nil), c.elsewhere(a.Name, t))
}

func (c *checker) unknownBlock(b *hclsyntax.Block, t *blockType, header hcl.Range) {
	if _, isArgument := t.argument(b.Type); isArgument && t.free == nil {
		c.fail(b.TypeRange, "Argument written as block",
			"%s is an argument: write it with an equals sign, %[1]s = { … }.", b.Type)
		return
	}
	known := t.blockNames()
	c.misspelt[header][where.Nearest(b.Type, known)] = true
	c.missing(b.TypeRange, "", "Unknown block type", "There is no block %q in %s.%s%s", b.Type, t.title(),
		didYouMean(b.Type, append(known, t.argumentNames(false)...), nil), c.elsewhere(b.Type, t))
}

// elsewhere says which other blocks know the name.
func (c *checker) elsewhere(name string, not *blockType) string {
	var found []string
	c.eachBlock(func(t *blockType) {
		_, isBlock := t.nested(name)
		known := isBlock || slices.Contains(t.argumentNames(false), name)
		if t.name != not.name && known && !slices.Contains(found, t.name) {
			found = append(found, t.name)
		}
	})
	if len(found) == 0 || len(found) > 3 {
		return ""
	}
	return fmt.Sprintf(" It belongs in %s.", inWords(found, "or"))
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
			c.fail(key.Range(), "Flag with dashes", "Flags are written without their leading dashes: %s = …", name)
			c.silence(expr)
		}
	}
}
