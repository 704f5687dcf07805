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
