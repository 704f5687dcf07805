package lang

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"hclbench/plain"
	"hclbench/provision"
)

// Secrets are the texts that were sensitive, in order.
func (t *labText) Secrets() (all []provision.Text) {
	for _, word := range slices.Sorted(maps.Keys(t.secrets)) {
		all = append(all, provision.Secret(word))
	}
	return all
}

// Text returns the lab's files by name, with what is sensitive replaced: defaults and
// values of sensitive variables, what is given to sensitive(…), keys, and what locals and
// variables in those are made of. Their texts, and all that were sensitive when the lab was
// evaluated, are then replaced wherever they stand.
func (t *labText) Text() map[string][]byte {
	secret := t.secretRanges()
	files := map[string][]byte{}
	var words []string
	for _, name := range t.names {
		if _, not := t.outside[name]; not {
			continue
		}
		shown, hidden := withoutRanges(name, t.files[name], secret)
		words = append(words, hidden...)
		base := filepath.Base(name)
		for n := 2; files[base] != nil; n++ { // two files of values may be named alike
			ext := filepath.Ext(name)
			base = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(filepath.Base(name), ext), n, ext)
		}
		files[base] = append([]byte{}, shown...)
	}
	secrets := plain.NewSecrets(slices.AppendSeq(words, maps.Keys(t.secrets))...)
	for name, text := range files {
		files[name] = []byte(secrets.Hide(string(text)))
	}
	return files
}

// withoutRanges replaces ranges of a file, and returns the texts in quotes that were in them.
func withoutRanges(name string, text []byte, secret []hcl.Range) (out []byte, words []string) {
	done := 0
	for _, at := range secret {
		end := min(at.End.Byte, len(text))
		if at.Filename != name || end <= done {
			continue
		}
		if at.Start.Byte >= done {
			out = slices.Concat(out, text[done:at.Start.Byte], []byte(quote(provision.Redacted)))
		}
		for i, word := range bytes.Split(text[at.Start.Byte:end], []byte(`"`)) {
			if i%2 == 1 && len(word) >= minQuoted {
				words = append(words, string(word))
			}
		}
		done = end
	}
	return append(out, text[done:]...), words
}

// secretRanges are where the text holds what is sensitive, in order.
func (t *labText) secretRanges() []hcl.Range {
	h := hiding{ranges: slices.Clone(t.hidden), bodies: t.bodies, seen: map[string]bool{}}
	for _, body := range t.bodies {
		hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
			switch n := n.(type) {
			case *hclsyntax.Attribute:
				if t.keys[n.Name] {
					h.add(n.Expr)
				}
			case *hclsyntax.FunctionCallExpr:
				if n.Name == "sensitive" {
					for _, arg := range n.Args {
						h.add(arg)
					}
				}
			}
			return nil
		})
	}
	slices.SortFunc(h.ranges, func(a, b hcl.Range) int { return cmp.Compare(a.Start.Byte, b.Start.Byte) })
	return h.ranges
}

// hiding collects what of a lab's text is secret.
type hiding struct {
	ranges []hcl.Range
	bodies []*hclsyntax.Body
	seen   map[string]bool // references that were followed
}

// add hides an expression, and what the locals and variables in it are made of.
func (h *hiding) add(e hclsyntax.Expression) {
	if _, reference := e.(*hclsyntax.ScopeTraversalExpr); !reference {
		h.ranges = append(h.ranges, e.Range())
	}
	for _, t := range e.Variables() {
		name, root := axisOf(t), t.RootName()
		if name != "" && !h.seen[root+"."+name] {
			h.seen[root+"."+name] = true
			h.follow(root, name)
		}
	}
}

// follow hides what a local or a variable is made of.
func (h *hiding) follow(root, name string) {
	hide := func(body *hclsyntax.Body, attribute string) {
		if a, ok := body.Attributes[attribute]; ok {
			h.add(a.Expr)
		}
	}
	for _, body := range h.bodies {
		if root == "var" {
			hide(body, name) // in a file of values
		}
		for _, b := range body.Blocks {
			switch {
			case root == "local" && b.Type == "locals":
				hide(b.Body, name)
			case root == "var" && b.Type == "variable" && len(b.Labels) == 1 && b.Labels[0] == name:
				hide(b.Body, "default")
			}
		}
	}
}

// minQuoted is how long a text is to be replaced everywhere: shorter ones are words elsewhere too.
const minQuoted = 6

// secretsInvolved reports whether the part of an expression that failed reads a sensitive value. What cannot
// be told counts as yes where there is one.
func secretsInvolved(d *hcl.Diagnostic, in hclsyntax.Node) bool {
	part, ok := d.Expression.(hclsyntax.Node)
	if !ok {
		return true
	}
	marked := false
	for ctx := d.EvalContext; ctx != nil; ctx = ctx.Parent() {
		for _, v := range ctx.Variables {
			marked = marked || v.ContainsMarked()
		}
	}
	return callsSensitive(part) || slices.ContainsFunc(d.Expression.Variables(), func(t hcl.Traversal) bool {
		if isIterated(t, d.EvalContext) { // of what it is a part is not in its context, and its mark is lost
			return marked || callsSensitive(in)
		}
		v, diags := t.TraverseAbs(d.EvalContext)
		return marked && (diags.HasErrors() || v.ContainsMarked())
	})
}

// callsSensitive reports whether sensitive("…") marks a value without a reference.
func callsSensitive(in hclsyntax.Node) bool {
	found := false
	hclsyntax.VisitAll(in, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		found = found || ok && call.Name == "sensitive"
		return nil
	})
	return found
}

// isIterated reports whether a reference is to what a for expression goes over.
func isIterated(t hcl.Traversal, ctx *hcl.EvalContext) bool {
	for ; ctx.Parent() != nil; ctx = ctx.Parent() {
		if _, ok := ctx.Variables[t.RootName()]; ok {
			return true
		}
	}
	return false
}

// sensitiveMark is on values that must not be shown, through every function and template.
type sensitiveMark struct{}

// sensitive marks a value, and notes the texts in it: they are hidden wherever the lab is shown or kept.
func (t *labText) sensitive(v cty.Value) cty.Value {
	t.note(v)
	return v.Mark(sensitiveMark{})
}

// NoteSecret remembers a text as a secret.
func (t *labText) NoteSecret(text string) { t.note(cty.StringVal(text)) }

// note remembers the texts in a value as secrets.
func (t *labText) note(v cty.Value) {
	clear, _ := v.UnmarkDeep()
	_ = cty.Walk(clear, func(_ cty.Path, v cty.Value) (bool, error) {
		if !v.IsKnown() || v.IsNull() || identityOf(v) != nil {
			return false, nil
		}
		if text, err := AsText(v); err == nil && len(text.Reveal()) >= minQuoted {
			if _, number := strconv.ParseFloat(text.Reveal(), 64); number != nil { // a number is one of many things
				t.secrets[text.Reveal()] = true
			}
		}
		return true, nil
	})
}

var (
	// secretName is the name of something that is kept from others.
	secretName = regexp.MustCompile(
		`(?i)^((.*[_-])?(api[_-]?key|token|secret|password)|authorization)$`)
	// secretForm is how well-known tokens begin.
	secretForm = regexp.MustCompile(`^(hf_|sk-|nvapi-|gh[pousr]_|glpat-|xox[abp]-|AKIA|Bearer )[A-Za-z0-9._-]{6,}`)
)

const clearSecret = "The value of %s looks like a secret. hcl hides it, but whoever has this text has it. " +
	"Write %s = sensitive(env(%q))."

// veil marks what of an argument's value is secret: all of a key; else what has the name or the
// form of one, { HF_TOKEN = "…" } and ["--api-key", "…"].
func (p *Problems) veil(k kind, v cty.Value, expr hclsyntax.Expression) cty.Value {
	switch {
	case k.key && v.IsKnown() && !v.IsMarked():
		return p.sensitive(v)
	case k.named:
		return p.veilNamed("", v, expr)
	}
	return v
}

func (p *Problems) veilNamed(name string, v cty.Value, expr hclsyntax.Expression) cty.Value {
	switch {
	case v.IsMarked() || !v.IsKnown() || v.IsNull():
	case IsObject(v) && v.LengthInt() > 0 && identityOf(v) == nil:
		members := v.AsValueMap()
		for key, m := range members {
			members[key] = p.veilNamed(key, m, expr)
		}
		return cty.ObjectVal(members)
	case IsList(v) && v.LengthInt() > 0:
		list := v.AsValueSlice()
		for i, e := range list {
			of := name
			if i > 0 {
				if flag, ok := AsString(list[i-1]); ok && strings.HasPrefix(flag, "--") {
					of = strings.TrimLeft(flag, "-")
				}
			}
			list[i] = p.veilNamed(of, e, expr)
		}
		return cty.TupleVal(list)
	case v.Type() == cty.String:
		word := v.AsString()
		of, text := name, word
		if flag, value, ok := strings.Cut(strings.TrimLeft(word, "-"), "="); ok && strings.HasPrefix(word, "--") {
			of, text = flag, value
		}
		named := len(text) > 7 && secretName.MatchString(of) && !strings.HasPrefix(text, "/")
		if !named && !secretForm.MatchString(text) {
			return v
		}
		p.NoteSecret(text)
		at := expr.Range()
		// Where it comes from elsewhere, or is inherited, it is told there.
		if strings.Contains(string(at.SliceBytes(p.files[at.Filename])), text) {
			if object, ok := expr.(*hclsyntax.ObjectConsExpr); ok {
				for _, item := range object.Items {
					if key, ok := writtenKey(item); ok && key == of {
						at = item.KeyExpr.Range()
					}
				}
			}
			p.WarnOfClearSecret(place(at), of)
		}
		return p.sensitive(v)
	}
	return v
}

// WarnOfClearSecret says that the value of a name is a secret which the text shows.
func (p *Problems) WarnOfClearSecret(at Place, name string) {
	p.Warn(at.Once(), "Secret in clear", clearSecret, name, name, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}
