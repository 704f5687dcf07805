package hcl

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// sensitiveMark is what cty carries through every function and template on
// values that must not be shown.
type sensitiveMark struct{}

func sensitive(v cty.Value) cty.Value { return v.Mark(sensitiveMark{}) }

// report turns the HCL library's diagnostics into problems.
func (l *lab) report(diags hcl.Diagnostics) {
	for _, d := range diags {
		severity := SeverityError
		if d.Severity == hcl.DiagWarning {
			severity = SeverityWarning
		}
		at := hcl.Range{}
		if d.Subject != nil {
			at = *d.Subject
		} else if d.Context != nil {
			at = *d.Context
		}
		summary, detail := d.Summary, d.Detail
		if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d); ok && call.CalledFunctionName() != "" {
			summary, detail = unknownFunction(call.CalledFunctionName(), l.functions)
		}
		var values []string
		if d.Expression != nil && d.EvalContext != nil {
			if marked(d.EvalContext) && secretsInvolved(d) {
				// The library and the functions quote what they were given, and what they
				// computed from it.
				detail = "What is wrong cannot be said here, since a sensitive value takes part in this expression. Try it with a harmless value that is not sensitive."
			} else {
				values = explain(d.Expression.Variables(), d.EvalContext)
			}
		}
		key := problemKey{summary: summary, file: at.Filename, start: at.Start.Byte}
		if !l.problems.seen[key] { // in other cells it would say the same of other values
			l.problems.seen[key] = true
			l.problems.add(severity, at, summary, detail, values...)
		}
	}
}

// marked reports whether a sensitive value is in scope.
func marked(ctx *hcl.EvalContext) bool {
	for ; ctx != nil; ctx = ctx.Parent() {
		for _, v := range ctx.Variables {
			if v.ContainsMarked() {
				return true
			}
		}
	}
	return false
}

// secretsInvolved reports whether the expression that failed reads a sensitive
// value. What cannot be told counts as yes.
func secretsInvolved(d *hcl.Diagnostic) bool {
	for _, t := range d.Expression.Variables() {
		v, diags := t.TraverseAbs(d.EvalContext)
		if diags.HasErrors() || v.ContainsMarked() {
			return true
		}
	}
	// sensitive("…") marks values without a reference.
	return hasCall(d.Expression, "sensitive")
}

func hasCall(expr hcl.Expression, name string) bool {
	node, ok := expr.(hclsyntax.Node)
	if !ok {
		return true
	}
	found := false
	hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && call.Name == name {
			found = true
		}
		return nil
	})
	return found
}
