package lang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// VariableBlock is a block variable "NAME", to whose value var.NAME refers.
func VariableBlock() *BlockType {
	return &BlockType{
		Name: "variable", Labels: []Label{{What: "name", Form: Identifier}}, Root: "var",
		Args: []Argument{
			Unbound("type", typeExpression),
			Unbound("default", anything),
			Unbound("sensitive", Bool),
			Comment(),
		},
		Blocks: []Nested{{Type: validationBlock(), Many: true}},
	}
}

func validationBlock() *BlockType {
	return BlockOf("validation",
		Unbound("condition", Bool).Required("True when the value is good."),
		Unbound("error_message", Text).Required("What to say otherwise: a full sentence."),
	)
}

// LocalsBlock is a block locals of named expressions, to which local.NAME refers.
func LocalsBlock() *BlockType {
	return &BlockType{
		Name: "locals", Root: "local",
		Free: &Argument{kind: anything.kind},
	}
}

// envPrefix begins the names of variables of the environment that are for a lab.
const envPrefix = "HCL_VAR_"

// given is a value for a variable, from outside of the lab's own files.
type given struct {
	value cty.Value
	raw   bool // text as typed, not yet read as an expression
	at    hcl.Range
}

// variables gives the variables of a lab their values.
type variables struct {
	*scope
	source *Source
	vars   Vars
	names  []string
	given  map[string]given
}

// setAll gives every variable its value, the strongest of: --var,
// --var-file, lab.hclvars, HCL_VAR_name, default.
func (x *variables) setAll(varsFile string) {
	x.given = map[string]given{}
	var all []*Declared
	for _, d := range x.order {
		if d.Type.Root == "var" {
			all, x.names = append(all, d), append(x.names, d.Name)
		}
	}
	x.readEnvironment()
	if varsFile != "" {
		x.readFile(varsFile, x.source.Files[varsFile])
	}
	for _, path := range x.vars.Files {
		text, err := x.source.ReadFile(path)
		if err != nil {
			x.Fail(place(x.typed("--var-file", path, 0)), "Cannot read file", "The file of values cannot be read: %v.", err)
			continue
		}
		x.readFile(path, text)
	}
	for _, arg := range x.vars.Values {
		x.readArgument(arg)
	}
	for _, d := range all {
		if !d.Wrong {
			x.set(d)
		}
	}
	// Only now, so that a condition may refer to other variables.
	for _, d := range all {
		if d.val != nil {
			x.validate(d)
		}
	}
}

// readArgument reads name=value.
func (x *variables) readArgument(arg string) {
	name, s, ok := strings.Cut(arg, "=")
	switch {
	case !ok || name == "":
		x.Fail(place(x.typed("--var", arg, 0)), "Wrong value", "A variable's value is given as --var name=value.")
	case !slices.Contains(x.names, name):
		at := x.typed("--var "+name, arg, 0)
		x.hidden = append(x.hidden, at) // perhaps a secret whose name is misspelt
		x.Fail(place(at).Lacking(""), "Unknown variable", "The lab declares no variable %q.%s", name, DidYouMean(name, x.names, nil))
	default:
		x.given[name] = given{cty.StringVal(s), true, x.typed("--var "+name, arg, len(name)+1)}
	}
}

// readEnvironment reads HCL_VAR_name. What is like no variable may be meant for another lab.
func (x *variables) readEnvironment() {
	for _, name := range x.names {
		if s, ok := x.vars.Lookup(envPrefix + name); ok {
			x.given[name] = given{cty.StringVal(s), true, x.typed(envPrefix+name, s, 0)}
		}
	}
	for _, kv := range x.vars.Env {
		full, _, _ := strings.Cut(kv, "=")
		name, ok := strings.CutPrefix(full, envPrefix)
		if !ok || slices.Contains(x.names, name) {
			continue
		}
		if hint := DidYouMean(name, x.names, func(s string) string { return envPrefix + s }); hint != "" {
			x.Warn(place(x.typed(full, "", 0)), "Unknown variable",
				"The lab declares no variable %q, so %s in the environment has no effect.%s", name, full, hint)
		}
	}
}

// typed gives text that is in no file a name and a range, so that problems can point into it.
func (p *Problems) typed(name, text string, from int) hcl.Range {
	p.labText.read(name, []byte(text))
	p.outside[name] = true
	at := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	at.Start.Byte, at.Start.Column = from, 1+from
	at.End.Byte, at.End.Column = len(text), 1+len(text)
	return at
}

// readFile reads a file of values: name = literal, one each.
func (x *variables) readFile(name string, text []byte) {
	x.labText.read(name, text)
	f, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diags.HasErrors() {
		// What the text around a mistake holds cannot be told from a secret.
		x.hidden = append(x.hidden, hcl.Range{Filename: name, End: hcl.Pos{Byte: len(text) + 1}})
	}
	x.Problems.report(diags)
	body, ok := f.Body.(*hclsyntax.Body)
	if !ok {
		return
	}
	x.bodies = append(x.bodies, body)
	for _, b := range body.Blocks {
		x.Fail(place(b.DefRange()), "Block among values",
			`A file of values has only lines such as name = "value". Blocks belong in the lab's *.hcl files.`)
	}
	for _, a := range inOrder(body.Attributes) {
		known := slices.Contains(x.names, a.Name)
		if !known || isSensitive(x.declared["var."+a.Name]) {
			x.hidden = append(x.hidden, a.Expr.Range())
		}
		if !known {
			if !x.Broken {
				x.Warn(place(a.NameRange), "Unknown variable", "The lab declares no variable %q, so this value has no effect.%s",
					a.Name, DidYouMean(a.Name, x.names, nil))
			}
			continue
		}
		v, diags := a.Expr.Value(nil)
		x.report(diags, a.Expr)
		if diags.HasErrors() {
			v = cty.DynamicVal
		}
		x.given[a.Name] = given{v, false, a.Expr.Range()}
	}
}

// variable is one of them, with the type that its values have.
type variable struct {
	*Declared
	secret   bool
	want     cty.Type
	defaults *typeexpr.Defaults
}

// set gives a variable its value, or reports why it has none.
func (x *variables) set(d *Declared) {
	v := variable{Declared: d, secret: isSensitive(d), want: cty.DynamicPseudoType}
	if a, ok := d.body.Attributes["type"]; ok {
		var diags hcl.Diagnostics
		v.want, v.defaults, diags = typeexpr.TypeConstraintWithDefaults(a.Expr)
		for _, d := range diags {
			d.Detail += " Types are string, number, bool, list(…), set(…), map(…), object({…}), tuple([…]) and any."
		}
		if x.Problems.report(diags); diags.HasErrors() {
			return
		}
	}
	if a, ok := d.body.Attributes["sensitive"]; ok {
		on := x.literal(a.Expr)
		if on == cty.NilVal || x.convert(Unbound(a.Name, Bool), on, a.Expr, nil) == nil && !on.IsNull() {
			return
		}
	}
	g, isGiven := x.given[d.Name]
	if a, ok := d.body.Attributes["default"]; ok {
		if v.secret {
			x.hidden = append(x.hidden, a.Expr.Range())
		}
		otherwise := x.literal(a.Expr)
		if otherwise == cty.NilVal {
			return
		}
		d.val = x.fit(v, otherwise, a.Expr.Range()) // even where another value is given
	} else if !isGiven {
		x.Fail(d.Header, "Variable without a value", "The variable %q has no default and no value. "+
			"Write --var %[1]s=…, or put it in %s, or in %s%[1]s.", d.Name, VarsFile, envPrefix)
	}
	if !isGiven {
		return
	}
	d.val = nil
	if v.secret {
		x.hidden = append(x.hidden, g.at)
	}
	ok := true
	if g.raw && v.want != cty.DynamicPseudoType && !v.want.IsPrimitiveType() {
		if g.value, ok = x.asExpression(v, g); !ok {
			return
		}
	}
	d.val = x.fit(v, g.value, g.at)
}

// asExpression reads a value that was typed: as in Terraform, what is no plain text is HCL.
func (x *variables) asExpression(v variable, g given) (cty.Value, bool) {
	typed := g.value.AsString()
	value := cty.NilVal
	expr, diags := hclsyntax.ParseExpression([]byte(typed), g.at.Filename, g.at.Start)
	if !diags.HasErrors() {
		var more hcl.Diagnostics
		value, more = expr.Value(nil)
		diags = append(diags, more...)
	}
	switch {
	case diags.HasErrors() && !strings.ContainsAny(typed, "[{"):
		example := "[1, 2]"
		if v.want.IsMapType() || v.want.IsObjectType() {
			example = `{ name = "value" }`
		}
		x.Fail(place(g.at), "Wrong value", "%q is of type %s. Write it as in HCL, with quotes round texts: --var '%[1]s=%[3]s'.",
			v.Name, typeexpr.TypeString(v.want), example)
	case diags.HasErrors() && v.secret:
		x.Fail(place(g.at), "Wrong value",
			"The value of the sensitive variable %q cannot be read as an expression.", v.Name)
	default:
		x.report(diags, expr)
	}
	return value, !diags.HasErrors()
}

// fit converts a value to the variable's type; nil, with a problem reported, when it is another.
func (x *variables) fit(v variable, value cty.Value, at hcl.Range) *cty.Value {
	if v.defaults != nil && !value.IsNull() && value.IsKnown() {
		value = v.defaults.Apply(value)
	}
	out, err := convert.Convert(value, v.want)
	if err != nil {
		why := fmt.Sprintf(" %s.", Title(err.Error()))
		if v.secret {
			why = ""
		}
		x.Fail(place(at), "Wrong value",
			"The variable %q is of type %s, and this value is not.%s", v.Name, typeexpr.TypeString(v.want), why)
		return nil
	}
	if v.secret {
		out = x.sensitive(out)
	}
	return &out
}

// validate holds a variable against its validation blocks.
func (x *variables) validate(d *Declared) {
	for _, b := range blocksOf(d.body, "validation") {
		condition, hasCondition := b.Body.Attributes["condition"]
		message, hasMessage := b.Body.Attributes["error_message"]
		if !hasCondition || !hasMessage {
			continue
		}
		verdict := x.eval(condition.Expr, nil)
		plain, _ := verdict.Unmark()
		if !plain.IsKnown() {
			continue
		}
		good, err := asBool(plain)
		if err != nil {
			x.Fail(place(condition.Expr.Range()), "Wrong value", `"condition" must be true or false, not %s.`, Describe(verdict))
			continue
		}
		if good {
			continue
		}
		said, ok := "(the message holds a sensitive value)", true
		switch v := x.eval(message.Expr, nil); {
		case v.ContainsMarked():
		case !v.IsKnown():
			ok = false
		default:
			said, ok = AsString(v)
		}
		if ok {
			rule := lineOf(b.DefRange()) // of several rules each is told
			x.Fail(Place{Range: d.Header.Range, thing: rule, values: x.explained(condition.Expr, nil).values}, "Invalid value for variable",
				"%s\n\nThis was checked by the rule at %s.", said, rule)
		}
	}
}
