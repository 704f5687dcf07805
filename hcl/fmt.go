package hcl

import (
	"bytes"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

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
		p.add(SeverityError, at, "Not UTF-8",
			"Labs are UTF-8 text, and this byte is none. Was the file saved with another encoding?")
	}
	p.finish()
	if p.HasErrors() {
		return nil, p
	}
	out := settle(text)
	if end := bytes.TrimRight(out, " \t\r\n"); len(end) == 0 {
		out = nil
	} else {
		out = settle(append(end, lineEnd(text)...))
	}
	return out, p
}

// lineEnd is how a text ends its lines: as it ends the first.
func lineEnd(text []byte) string {
	if first, _, _ := bytes.Cut(text, []byte("\n")); bytes.HasSuffix(first, []byte("\r")) {
		return "\r\n"
	}
	return "\n"
}

// invalid finds the first byte that is not UTF-8.
func invalid(name string, text []byte) (hcl.Range, bool) {
	at := hcl.Range{Filename: name, Start: hcl.InitialPos}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			at.Start.Byte = i
			at.End = hcl.Pos{Line: at.Start.Line, Column: at.Start.Column + 1, Byte: i + 1}
			return at, true
		}
		if i += n; r == '\n' {
			at.Start.Line, at.Start.Column = at.Start.Line+1, 1
		} else {
			at.Start.Column++
		}
	}
	return at, false
}

// settle formats until nothing changes any more: what one pass aligns can move
// what another line is aligned with.
func settle(text []byte) []byte {
	const enough = 8
	for range enough {
		next := hclwrite.Format(text)
		if bytes.Equal(next, text) {
			break
		}
		text = next
	}
	return text
}
