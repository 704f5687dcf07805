// Package lang is what a language of blocks needs whatever the blocks are about: it reads text,
// evaluates expressions, follows references, lays what arguments say into nouns, and says what is wrong
// in words that point at the text.
//
// It knows no engine, no host and no load. A language is a list of [BlockType]: tables of arguments,
// each with a [Kind] of value and a field that it fills. [NewReader] reads a text in it.
package lang

import "github.com/zclconf/go-cty/cty"

// BlockType is a block of a language, as data. Its reference can be held against it.
type BlockType struct {
	Name   string
	Labels []Label
	Hint   string // of a block that another needs: what it is
	Args   []Argument
	Free   *Argument // takes any name
	Blocks []Nested

	Root      string            // what references to such a block begin with; "": there are none
	Addressed bool              // as a value of an axis it shows whole, "group.pd": a name alone could be another block's
	Named     bool              // expressions name such a block, and see nothing of it
	Once      bool              // at most one in a lab
	PerCell   bool              // may use matrix.*, and is then another thing in each cell
	Elsewhere map[string]string // names that people look for in it, and how what they mean is said
	Variants  []*BlockType      // each kind has arguments of its own, and these are all of them
	Kind      string            // of a variant

	// Make is what the block becomes before its arguments are laid into it; nil: it is
	// read by whoever knows it.
	Make  func(d *Declared) any
	Check func(b *Block, noun any) // holds the whole against what it must be; nil: nothing does
}

// BlockOf is a block of arguments alone.
func BlockOf(name string, args ...Argument) *BlockType { return &BlockType{Name: name, Args: args} }

// Label is a label of a block: one of some kinds, or a name of the user's.
type Label struct {
	What  string // for messages
	Kinds []string
	Form  nameForm
}

// Argument is one argument of a block.
type Argument struct {
	Name    string
	kind    kind
	instead string // the argument that it takes the place of: who says one does not inherit the other
	Must    bool
	shared  bool                   // the same in all cells of the block
	Named   func(name string) bool // of a free argument: which names it takes; nil: all
	Hint    string                 // of a required argument: what it is; of a free one: what its names look like

	// set lays a value into the noun that the block becomes; nil: the value is for
	// expressions, or read by whoever knows the block.
	set func(noun any, name string, value any)
}

// Nested is a block inside a block.
type Nested struct {
	Type     *BlockType
	Many     bool
	Required bool
	// Part is what of the outer noun a block with this label, if it has any, becomes; nil: it
	// is read by whoever knows the outer block.
	Part func(noun any, label string) any
}

// Arg is an argument and the place of its value in the noun N that its block becomes.
func Arg[N, T any](name string, k Kind[T], set func(*N, T)) Argument {
	a := Unbound(name, k)
	a.set = func(noun any, _ string, value any) { set(noun.(*N), value.(T)) }
	return a
}

// Free is an argument whose name is the user's.
func Free[N, T any](k Kind[T], set func(n *N, name string, value T)) *Argument {
	return &Argument{kind: k.kind, set: func(noun any, name string, value any) { set(noun.(*N), name, value.(T)) }}
}

// ObjectOf reads an object that says the arguments of an N: { duration = "1m", rate = 2 }. What is the N
// in messages, "a stage"; unknown is what is said of another name, for which it has a %q.
func ObjectOf[N any](what, unknown string, args ...Argument) func(v cty.Value) (N, error) {
	t := BlockType{Args: args}
	return func(v cty.Value) (n N, err error) {
		err = Entries(v, func(name string, e cty.Value) error {
			a, ok := t.Argument(name)
			if !ok {
				return Wrong(unknown, name)
			}
			if e.IsNull() {
				return nil
			}
			x, err := a.kind.convert(e)
			if err != nil {
				return Wrong("The %s of %s is %s, not %s.", name, what, a.kind.want, Describe(e))
			}
			a.set(&n, name, x)
			return nil
		})
		return n, err
	}
}

// Unbound is an argument that the evaluator reads by itself, or nobody.
func Unbound[T any](name string, k Kind[T]) Argument { return Argument{Name: name, kind: k.kind} }

// Noun is how the reference names what the argument takes: "duration".
func (a Argument) Noun() string { return a.kind.noun }

// Required marks an argument that has to be there.
func (a Argument) Required(hint string) Argument {
	a.Must, a.Hint = true, hint
	return a
}

// InsteadOf marks an argument that takes the place of another.
func (a Argument) InsteadOf(other string) Argument {
	a.instead = other
	return a
}

// Shared marks an argument that all cells of a block with a matrix share.
func (a Argument) Shared() Argument {
	a.shared = true
	return a
}

// Part is a block that becomes a part of the noun N around it.
func Part[N, P any](t *BlockType, of func(*N) *P) Nested {
	return Nested{Type: t, Part: func(noun any, _ string) any { return of(noun.(*N)) }}
}

// OptionalPart is a part of N that is there only where the block is.
func OptionalPart[N, P any](t *BlockType, field func(*N) **P) Nested {
	return Part(t, func(n *N) *P {
		at := field(n)
		*at = new(P)
		return *at
	})
}

// Makes is the noun that a block stands for when none of its arguments is said.
func Makes[N any](new func(d *Declared) *N) func(*Declared) any {
	return func(d *Declared) any { return new(d) }
}

// Checks is a check of the noun that a block has become.
func Checks[N any](check func(b *Block, n *N)) func(*Block, any) {
	return func(b *Block, noun any) { check(b, noun.(*N)) }
}

// Argument is what may stand under a name.
func (t *BlockType) Argument(name string) (Argument, bool) {
	for _, a := range t.Args {
		if a.Name == name {
			return a, true
		}
	}
	if t.Free != nil && (t.Free.Named == nil || t.Free.Named(name)) {
		a := *t.Free
		a.Name = name
		return a, true
	}
	return Argument{}, false
}

// Nested is the block of this type that may stand inside.
func (t *BlockType) Nested(name string) (Nested, bool) {
	for _, n := range t.Blocks {
		if n.Type.Name == name {
			return n, true
		}
	}
	return Nested{}, false
}

// inner is the type of a block inside such a block.
func (t *BlockType) inner(name string) *BlockType {
	n, _ := t.Nested(name)
	return n.Type
}

// argumentNames are the arguments that have names of their own; only those that
// other blocks can refer to, where that is asked.
func (t *BlockType) argumentNames(values bool) []string {
	var names []string
	for _, a := range t.Args {
		if !values || a.kind.convert != nil {
			names = append(names, a.Name)
		}
	}
	return names
}

func (t *BlockType) blockNames() []string {
	return mapped(t.Blocks, func(n Nested) string { return n.Type.Name })
}

// ofKind is the variant of a kind; t itself where kinds do not differ.
func (t *BlockType) ofKind(kind string) *BlockType {
	for _, v := range t.Variants {
		if v.Kind == kind {
			return v
		}
	}
	return t
}

// ownKinds reports whether the first label of such a block is a kind.
func (t *BlockType) ownKinds() bool { return len(t.Labels) > 0 && t.Labels[0].Kinds != nil }

// takesForEach reports whether such a block may be made several times.
func (t *BlockType) takesForEach() bool {
	_, ok := t.Argument("for_each")
	return ok && t.Free == nil
}

// title is the block in a message.
func (t *BlockType) title() string {
	if t.Kind != "" {
		return "a " + t.Name + " " + quote(t.Kind) + " block"
	}
	return withArticle(t.Name) + " block"
}

// ForEach makes several of a block.
func ForEach() Argument { return Unbound("for_each", instances) }

// Description is the argument description.
func Description[N any](set func(*N, string)) Argument { return Arg("description", Text, set) }

// Comment is a description that nothing reads.
func Comment() Argument { return Unbound("description", Text) }
