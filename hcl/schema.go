package hcl

// blockType is a block of the language, as data, to which docs/language.md is held. A new
// block is a function that returns one, and a line in language.
type blockType struct {
	name   string
	labels []label
	hint   string // of a block that another needs: what it is
	args   []argument
	free   *argument // takes any name
	blocks []nested

	root     string       // what references to such a block begin with; "": there are none
	whole    bool         // as a value of an axis it shows whole, "group.pd": a name alone could be another block's
	once     bool         // at most one in a lab
	perCell  bool         // may use matrix.*, and is then another thing in each cell
	variants []*blockType // each kind has arguments of its own, and these are all of them
	kind     string       // of a variant

	// make is what the block becomes before its arguments are laid into it; nil: it is
	// read by whoever knows it.
	make  func(d *declared) any
	check func(b *block, noun any) // holds the whole against what it must be; nil: nothing does
}

// blockOf is a block of arguments alone.
func blockOf(name string, args ...argument) *blockType { return &blockType{name: name, args: args} }

// label is a label of a block: one of some kinds, or a name of the user's.
type label struct {
	what  string // for messages
	kinds []string
	form  nameForm
}

// argument is one argument of a block.
type argument struct {
	name     string
	kind     kind
	instead  string // the argument that it takes the place of: who says one does not inherit the other
	required bool
	shared   bool                   // the same in all cells of a benchmark
	named    func(name string) bool // of a free argument: which names it takes; nil: all
	hint     string                 // of a required argument: what it is; of a free one: what its names look like

	// set lays a value into the noun that the block becomes; nil: the value is for
	// expressions, or read by whoever knows the block.
	set func(noun any, name string, value any)
}

// nested is a block inside a block.
type nested struct {
	typ      *blockType
	many     bool
	required bool
	// part is what of the outer noun a block with this label, if it has any, becomes; nil: it
	// is read by whoever knows the outer block.
	part func(noun any, label string) any
}

// arg is an argument and the place of its value in the noun N that its block becomes.
func arg[N, T any](name string, k of[T], set func(*N, T)) argument {
	a := unbound(name, k)
	a.set = func(noun any, _ string, value any) { set(noun.(*N), value.(T)) }
	return a
}

// free is an argument whose name is the user's.
func free[N, T any](k of[T], set func(n *N, name string, value T)) *argument {
	return &argument{kind: k.kind, set: func(noun any, name string, value any) { set(noun.(*N), name, value.(T)) }}
}

// unbound is an argument that the evaluator reads by itself, or nobody.
func unbound[T any](name string, k of[T]) argument { return argument{name: name, kind: k.kind} }

// must marks an argument that has to be there.
func (a argument) must(hint string) argument {
	a.required, a.hint = true, hint
	return a
}

// insteadOf marks an argument that takes the place of another.
func (a argument) insteadOf(other string) argument {
	a.instead = other
	return a
}

// inCommon marks an argument that all cells of a benchmark share.
func (a argument) inCommon() argument {
	a.shared = true
	return a
}

// part is a block that becomes a part of the noun N around it.
func part[N, P any](t *blockType, of func(*N) *P) nested {
	return nested{typ: t, part: func(noun any, _ string) any { return of(noun.(*N)) }}
}

// fresh is a part that is there only where the block is.
func fresh[P any](field **P) *P {
	*field = new(P)
	return *field
}

// becomes is the noun that a block stands for when none of its arguments is said.
func becomes[N any](new func(d *declared) *N) func(*declared) any {
	return func(d *declared) any { return new(d) }
}

// checks is a check of the noun that a block has become.
func checks[N any](check func(b *block, n *N)) func(*block, any) {
	return func(b *block, noun any) { check(b, noun.(*N)) }
}

// argument is what may stand under a name.
func (t *blockType) argument(name string) (argument, bool) {
	for _, a := range t.args {
		if a.name == name {
			return a, true
		}
	}
	if t.free != nil && (t.free.named == nil || t.free.named(name)) {
		a := *t.free
		a.name = name
		return a, true
	}
	return argument{}, false
}

func (t *blockType) nested(name string) (nested, bool) {
	for _, n := range t.blocks {
		if n.typ.name == name {
			return n, true
		}
	}
	return nested{}, false
}

// inner is the type of a block inside such a block.
func (t *blockType) inner(name string) *blockType {
	n, _ := t.nested(name)
	return n.typ
}

// argumentNames are the arguments that have names of their own; only those that
// other blocks can refer to, where that is asked.
func (t *blockType) argumentNames(values bool) []string {
	var names []string
	for _, a := range t.args {
		if !values || a.kind.convert != nil {
			names = append(names, a.name)
		}
	}
	return names
}

func (t *blockType) blockNames() []string {
	return mapped(t.blocks, func(n nested) string { return n.typ.name })
}

// ofKind is the variant of a kind; t itself where kinds do not differ.
func (t *blockType) ofKind(kind string) *blockType {
	for _, v := range t.variants {
		if v.kind == kind {
			return v
		}
	}
	return t
}

// ownKinds reports whether the first label of such a block is a kind.
func (t *blockType) ownKinds() bool { return len(t.labels) > 0 && t.labels[0].kinds != nil }

// takesForEach reports whether such a block may be made several times.
func (t *blockType) takesForEach() bool {
	_, ok := t.argument("for_each")
	return ok && t.free == nil
}

// title is the block in a message.
func (t *blockType) title() string {
	if t.kind != "" {
		return "a " + t.name + " " + quote(t.kind) + " block"
	}
	return withArticle(t.name) + " block"
}

// forEach makes several of a block.
func forEach() argument { return unbound("for_each", instances) }

// described is the argument description.
func described[N any](set func(*N, string)) argument { return arg("description", text, set) }

// forPeople is a description that nothing reads.
func forPeople() argument { return unbound("description", text) }
