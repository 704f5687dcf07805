package hcl

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

// given is a value for a variable, from outside of the lab's own files.
type given struct {
	value cty.Value
	raw   bool // text as typed, not yet read as an expression
	at    hcl.Range
}

// setVariables gives every variable its value, the strongest of: --var,
// --var-file, lab.hclvars, HCL_VAR_name, default.
func (l *lab) setVariables(varsFile string) {
	var names []string
	for _, d := range l.order {
		if d.typ == variableBlock {
			names = append(names, d.name)
		}
	}
	values := map[string]given{}
	for _, name := range names {
		if s, ok := l.vars.lookup("HCL_VAR_" + name); ok {
			values[name] = given{cty.StringVal(s), true, l.outside("HCL_VAR_"+name, s, 0)}
		}
	}
	l.misspeltEnv(names)
	if varsFile != "" {
		l.readVars(varsFile, l.src.Files[varsFile], names, values)
	}
	for _, path := range l.vars.Files {
		text, err := readRegular(path)
		if err != nil {
			l.err(l.outside("--var-file", path, 0), "Cannot read file", "The file of values cannot be read: %v.", err)
			continue
		}
		l.readVars(path, text, names, values)
	}
	for _, arg := range l.vars.Values {
		name, s, ok := strings.Cut(arg, "=")
		switch {
		case !ok || name == "":
			l.err(l.outside("--var", arg, 0), "Wrong value", "A variable's value is given as --var name=value.")
		case !slices.Contains(names, name):
			at := l.outside("--var "+name, arg, 0)
			l.problems.hidden = append(l.problems.hidden, at) // perhaps a secret whose name is misspelt
			l.absent(at, "Unknown variable", "The lab declares no variable %q.%s", name, didYouMean(name, names, nil))
		default:
			values[name] = given{cty.StringVal(s), true, l.outside("--var "+name, arg, len(name)+1)}
		}
	}
	for _, d := range l.order {
		if d.typ == variableBlock && !d.wrong {
			v, ok := values[d.name]
			l.setVariable(d, v, ok)
		}
	}
	// Only now, so that a condition may refer to other variables.
	for _, d := range l.order {
		if d.typ == variableBlock && d.val != nil {
			l.validate(d)
		}
	}
}

// misspeltEnv warns of HCL_VAR_name whose name is a slip. What is like no variable of
// the lab may be meant for another one.
func (l *lab) misspeltEnv(names []string) {
	for _, kv := range l.vars.Env {
		full, _, _ := strings.Cut(kv, "=")
		name, ok := strings.CutPrefix(full, "HCL_VAR_")
		if hint := didYouMean(name, names, func(s string) string { return "HCL_VAR_" + s }); ok && hint != "" && !slices.Contains(names, name) {
			l.warn(l.outside(full, "", 0), "Unknown variable", "The lab declares no variable %q, so %s in the environment has no effect.%s", name, full, hint)
		}
	}
}

// outside gives text that is in no file a name and a range, so that problems can
// point into it.
func (l *lab) outside(name, text string, from int) hcl.Range {
	l.problems.files[name] = []byte(text)
	l.problems.outside[name] = true
	at := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	at.Start.Byte, at.Start.Column = from, 1+from
	at.End.Byte, at.End.Column = len(text), 1+len(text)
	return at
}

// readVars reads a file of values: name = literal, one each.
func (l *lab) readVars(name string, text []byte, known []string, into map[string]given) {
	l.problems.files[name] = text
	f, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diags.HasErrors() {
		// What the text around a mistake holds cannot be told from a secret.
		l.problems.hidden = append(l.problems.hidden, hcl.Range{Filename: name, End: hcl.Pos{Byte: len(text) + 1}})
	}
	l.report(diags)
	body, ok := f.Body.(*hclsyntax.Body)
	if !ok {
		return
	}
	for _, b := range body.Blocks {
		l.err(b.DefRange(), "Block among values", "A file of values holds only lines such as\n\n    name = \"value\"\n\nBlocks belong in the lab's *.hcl files.")
	}
	for _, a := range inOrder(body.Attributes) {
		if !slices.Contains(known, a.Name) {
			l.problems.hidden = append(l.problems.hidden, a.Expr.Range())
			if !l.broken {
				l.warn(a.NameRange, "Unknown variable", "The lab declares no variable %q, so this value has no effect.%s", a.Name, didYouMean(a.Name, known, nil))
			}
			continue
		}
		if d := l.declared["var."+a.Name]; l.isSensitive(d) {
			l.problems.hidden = append(l.problems.hidden, a.Expr.Range())
		}
		v, diags := a.Expr.Value(nil)
		l.report(diags)
		if diags.HasErrors() {
			v = cty.DynamicVal
		}
		into[a.Name] = given{v, false, a.Expr.Range()}
	}
}

// isSensitive is decided from the text: what is not plainly false counts.
func (l *lab) isSensitive(d *declared) bool {
	if d.wrong {
		return true
	}
	a, said := d.body.Attributes["sensitive"]
	if !said {
		return false
	}
	v, diags := a.Expr.Value(nil)
	return diags.HasErrors() || !v.RawEquals(cty.False) && !(v.IsKnown() && v.IsNull())
}

func (l *lab) setVariable(d *declared, g given, isGiven bool) {
	secret := l.isSensitive(d)
	want, defaults := cty.DynamicPseudoType, (*typeexpr.Defaults)(nil)
	if a, ok := d.body.Attributes["type"]; ok {
		t, def, diags := typeexpr.TypeConstraintWithDefaults(a.Expr)
		for _, x := range diags {
			x.Detail += " Types are string, number, bool, list(…), set(…), map(…), object({…}), tuple([…]) and any."
		}
		l.report(diags)
		if diags.HasErrors() {
			return
		}
		want, defaults = t, def
	}
	if a, ok := d.body.Attributes["sensitive"]; ok {
		v := l.literal(a.Expr)
		if v == cty.NilVal || l.convert(argument{name: "sensitive", kind: truth}, v, a.Expr, nil) == nil && !v.IsNull() {
			return
		}
	}
	if a, ok := d.body.Attributes["default"]; ok {
		if secret {
			l.problems.hidden = append(l.problems.hidden, a.Expr.Range())
		}
		v := l.literal(a.Expr)
		if v == cty.NilVal {
			return
		}
		// The default is checked even where another value is given.
		checked := l.fitVariable(d, v, want, defaults, secret, a.Expr.Range())
		if !isGiven {
			d.val = checked
			return
		}
	}
	if !isGiven {
		l.err(d.header, "Variable without a value", "The variable %q has no default and no value was given. Give it one with\n\n    --var %s=…\n\nor in %s, or in the environment as HCL_VAR_%s.", d.name, d.name, VarsFile, d.name)
		return
	}
	if secret {
		l.problems.hidden = append(l.problems.hidden, g.at)
	}
	v := g.value
	if g.raw && want != cty.DynamicPseudoType && !want.IsPrimitiveType() {
		// As in Terraform: what is not a plain text, number or bool is typed as an
		// expression.
		expr, diags := hclsyntax.ParseExpression([]byte(v.AsString()), g.at.Filename, g.at.Start)
		if !diags.HasErrors() {
			var more hcl.Diagnostics
			v, more = expr.Value(nil)
			diags = append(diags, more...)
		}
		if diags.HasErrors() && !strings.ContainsAny(g.value.AsString(), "[{") {
			example := "[1, 2]"
			if want.IsMapType() || want.IsObjectType() {
				example = `{ name = "value" }`
			}
			l.err(g.at, "Wrong value", "The variable %q is of type %s, whose values are written as in HCL, with quotes round texts: --var '%s=%s'.", d.name, typeexpr.TypeString(want), d.name, example)
			return
		}
		if secret && diags.HasErrors() {
			l.err(g.at, "Wrong value", "The value of the sensitive variable %q cannot be read as an expression.", d.name)
			return
		}
		l.report(diags)
		if diags.HasErrors() {
			return
		}
	}
	d.val = l.fitVariable(d, v, want, defaults, secret, g.at)
}

// literal evaluates an expression that may refer to nothing; NilVal when it is
// wrong.
func (l *lab) literal(expr hclsyntax.Expression) cty.Value {
	for _, t := range expr.Variables() {
		l.err(t.SourceRange(), "Reference in a literal", "A variable's arguments are read before anything else has a value, so they cannot refer to %s. Use locals for values that derive from others.", t.RootName())
		return cty.NilVal
	}
	v, diags := expr.Value(&hcl.EvalContext{Functions: l.functions})
	l.report(diags)
	if diags.HasErrors() {
		return cty.NilVal
	}
	return v
}

// fitVariable converts a value to the variable's type.
func (l *lab) fitVariable(d *declared, v cty.Value, want cty.Type, defaults *typeexpr.Defaults, secret bool, at hcl.Range) *cty.Value {
	if defaults != nil && !v.IsNull() && v.IsKnown() {
		v = defaults.Apply(v)
	}
	out, err := convert.Convert(v, want)
	if err != nil {
		why := fmt.Sprintf(" %s.", title(err.Error()))
		if secret {
			why = ""
		}
		l.err(at, "Wrong value", "The variable %q is of type %s, and this value is not.%s", d.name, typeexpr.TypeString(want), why)
		return nil
	}
	if secret {
		out = sensitive(out)
	}
	return &out
}

// validate holds a variable against its validation blocks.
func (l *lab) validate(d *declared) {
	for _, b := range d.body.Blocks {
		if b.Type != "validation" {
			continue
		}
		condition, hasCondition := b.Body.Attributes["condition"]
		message, hasMessage := b.Body.Attributes["error_message"]
		if !hasCondition || !hasMessage {
			continue
		}
		verdict := l.eval(condition.Expr, nil)
		ok, _ := verdict.Unmark()
		if !ok.IsKnown() {
			continue
		}
		good, w := truth.convert(ok)
		if w != fits {
			l.err(condition.Expr.Range(), "Wrong value", "%q must be true or false, not %s.", "condition", describe(verdict))
			continue
		}
		if good.(bool) {
			continue
		}
		text := l.eval(message.Expr, nil)
		said := "(the message holds a sensitive value)"
		if !text.ContainsMarked() {
			s, ok := "", false
			if text.IsKnown() {
				s, ok = asString(text)
			}
			if !ok {
				continue
			}
			said = s
		}
		l.problems.add(SeverityError, d.header, "Invalid value for variable", said+"\n\nThis was checked by the rule at "+pos(b.DefRange())+".", l.explain(condition.Expr, nil)...)
	}
}
