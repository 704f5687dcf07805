package lang

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/rivo/uniseg"
	"github.com/zclconf/go-cty/cty"
)

// parse parses one file; what could be parsed of a broken one is still checked.
func (p *Problems) parse(name string, text []byte) *hclsyntax.Body {
	p.labText.read(name, text)
	f, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	p.Broken = p.Broken || diags.HasErrors()
	if at, open := openQuote(diags, text); open {
		p.Fail(place(at), "Text without an end",
			`This text has no closing quote in its line. Close it; for a text of several lines, write \n, or <<EOT.`)
		p.syntax[lineOf(at)] = true
		diags = nil
	}
	for _, d := range diags {
		if d.Summary == "Missing newline after argument" {
			d.Detail += " If the value is text, put all of it in quotes."
		}
		// After the first mistake in a line, the others mean little.
		if d.Subject == nil || !p.syntax[lineOf(*d.Subject)] {
			p.report(hcl.Diagnostics{d})
		}
		if d.Subject != nil {
			p.syntax[lineOf(*d.Subject)] = true
		}
	}
	if f == nil {
		return &hclsyntax.Body{}
	}
	body, _ := f.Body.(*hclsyntax.Body)
	diags = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ObjectConsExpr:
			p.checkKeys(n)
		case *hclsyntax.LiteralValueExpr:
			return checkNumber(n)
		}
		return nil
	})
	if diags.HasErrors() {
		p.report(diags)
		return &hclsyntax.Body{}
	}
	return body
}

// LabelOf is the label of the first block of a type whose label is good; "": there is none. An error
// where a file does not parse and no other has such a block.
func (s *Source) LabelOf(t *BlockType) (string, error) {
	names, _ := s.labFiles()
	var broken error
	for _, name := range names {
		f, diags := hclsyntax.ParseConfig(s.Files[name], name, hcl.InitialPos)
		body, ok := f.Body.(*hclsyntax.Body)
		if diags.HasErrors() || !ok {
			broken = cmp.Or(broken, fmt.Errorf("%s does not parse", name))
			continue
		}
		for _, b := range body.Blocks {
			if b.Type == t.Name && len(b.Labels) == 1 && t.Labels[0].Form.form.MatchString(b.Labels[0]) {
				return b.Labels[0], nil
			}
		}
	}
	return "", broken
}

// maxExponent is of two: a number beyond it would take gigabytes when written out as text.
const maxExponent = 1100

func checkNumber(n *hclsyntax.LiteralValueExpr) hcl.Diagnostics {
	if n.Val.Type() != cty.Number || !n.Val.IsKnown() { // 0..0 is not known
		return nil
	}
	if exp := n.Val.AsBigFloat().MantExp(nil); exp <= maxExponent && exp >= -maxExponent {
		return nil
	}
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Subject: &n.SrcRange,
		Summary: "Number out of range", Detail: "Numbers between 1e-300 and 1e300 can be written.",
	}}
}

// openQuote is where the first mistake is a quote that its line does not close.
func openQuote(diags hcl.Diagnostics, text []byte) (hcl.Range, bool) {
	quotes := []string{"Invalid multi-line string", "Unterminated template string"}
	if len(diags) == 0 || diags[0].Subject == nil || !slices.Contains(quotes, diags[0].Summary) {
		return hcl.Range{}, false
	}
	at := *diags[0].Subject
	begin := bytes.LastIndexByte(text[:min(at.Start.Byte, len(text))], '\n') + 1
	line, _, _ := bytes.Cut(text[begin:], []byte("\n"))
	n := bytes.LastIndexByte(line, '"')
	if n < 0 {
		return at, true
	}
	column := uniseg.GraphemeClusterCount(string(line[:n])) + 1
	at.Start = hcl.Pos{Line: at.Start.Line, Column: column, Byte: begin + n}
	at.End = hcl.Pos{Line: at.Start.Line, Column: column + 1, Byte: begin + n + 1}
	return at, true
}

// checkKeys finds a key that an object has twice: HCL keeps the last, in silence.
func (p *Problems) checkKeys(object *hclsyntax.ObjectConsExpr) {
	first := map[string]hcl.Range{}
	for _, item := range object.Items {
		key, ok := writtenKey(item)
		if !ok {
			continue
		}
		if at, twice := first[key]; twice {
			p.Fail(place(item.KeyExpr.Range()), "Key given twice",
				"The object has the key %q at %s already, and only one value would count. Remove or rename one.", key, lineOf(at))
			continue
		}
		first[key] = item.KeyExpr.Range()
	}
}

// Format returns the text of a lab's file, or of a file of values, in its
// canonical form: indented by two spaces, equal signs and comments of
// neighbouring lines below each other, one newline at the end. Only white space
// changes, and formatting the result changes nothing. Of text that does not
// parse only the problems are returned, and they are never nil; name is the
// file's in them.
func Format(name string, text []byte) ([]byte, *Problems) {
	p := newProblems()
	p.bodies = []*hclsyntax.Body{p.parse(name, text)}
	if at, ok := invalid(name, text); ok {
		// The scanner takes some broken characters for others.
		p.Fail(place(at), "Not UTF-8",
			"Labs are UTF-8 text, and this byte is none. Was the file saved with another encoding?")
	}
	p.finish()
	if p.HasErrors() {
		return nil, p
	}
	out := bytes.TrimRight(settle(text), " \t\r\n")
	if len(out) == 0 {
		return nil, p
	}
	if first, _, _ := bytes.Cut(text, []byte("\n")); bytes.HasSuffix(first, []byte("\r")) {
		out = append(out, '\r')
	}
	return settle(append(out, '\n')), p
}

// invalid finds the first byte that is not UTF-8.
func invalid(name string, text []byte) (hcl.Range, bool) {
	for i, r := range string(text) {
		if _, n := utf8.DecodeRune(text[i:]); r != utf8.RuneError || n > 1 {
			continue
		}
		line := text[bytes.LastIndexByte(text[:i], '\n')+1 : i]
		at := hcl.Pos{Line: 1 + bytes.Count(text[:i], []byte("\n")), Column: 1 + utf8.RuneCount(line), Byte: i}
		return hcl.Range{Filename: name, Start: at, End: hcl.Pos{Line: at.Line, Column: at.Column + 1, Byte: i + 1}}, true
	}
	return hcl.Range{}, false
}

// settle formats until nothing changes: what one pass aligns can move what others align with.
func settle(text []byte) []byte {
	for range 8 { // always enough
		next := hclwrite.Format(text)
		if bytes.Equal(next, text) {
			break
		}
		text = next
	}
	return text
}
