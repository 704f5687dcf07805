package hcl

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"hclbench/provision"
)

// Text returns the lab's files by name, with what is sensitive replaced: defaults
// and values of sensitive variables, what is given to sensitive(…), keys. A text
// in quotes that is replaced in one place is replaced wherever it stands, in a
// comment too.
func (c *Config) Text() map[string][]byte {
	secret := slices.Clone(c.text.hidden)
	add := func(e hclsyntax.Expression) {
		if _, reference := e.(*hclsyntax.ScopeTraversalExpr); !reference {
			secret = append(secret, e.Range())
		}
	}
	for _, body := range c.text.bodies {
		hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
			switch n := n.(type) {
			case *hclsyntax.Attribute:
				if n.Name == "api_key" {
					add(n.Expr)
				}
			case *hclsyntax.FunctionCallExpr:
				if n.Name == "sensitive" {
					for _, arg := range n.Args {
						add(arg)
					}
				}
			}
			return nil
		})
	}
	slices.SortFunc(secret, func(a, b hcl.Range) int { return cmp.Compare(a.Start.Byte, b.Start.Byte) })
	shown := []byte(`"` + provision.Redacted + `"`)
	files := map[string][]byte{}
	var quoted [][]byte
	for name, text := range c.text.files {
		if c.text.outside[name] {
			continue
		}
		var out []byte
		done := 0
		for _, at := range secret {
			end := min(at.End.Byte, len(text))
			if at.Filename != name || end <= done {
				continue
			}
			if at.Start.Byte >= done {
				out = slices.Concat(out, text[done:at.Start.Byte], shown)
			}
			for i, words := 0, bytes.Split(text[at.Start.Byte:end], []byte(`"`)); i < len(words); i++ {
				if i%2 == 1 && len(words[i]) >= minQuoted {
					quoted = append(quoted, words[i])
				}
			}
			done = end
		}
		files[filepath.Base(name)] = append(out, text[done:]...)
	}
	for name, text := range files {
		for _, word := range quoted {
			text = bytes.ReplaceAll(text, word, []byte(provision.Redacted))
		}
		files[name] = text
	}
	return files
}

// minQuoted is how long a text in quotes must be to be replaced everywhere: what
// is shorter is a word or a number somewhere else.
const minQuoted = 6
