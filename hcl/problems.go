package hcl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The severities of problems.
const (
	SeverityError   = "error"   // there is no Config
	SeverityWarning = "warning" // the lab is right, but perhaps not what was meant
)

// Position is a place in a file. Line and Column count from 1 (columns in
// characters as a reader sees them), Byte from 0.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// Problem is one mistake in the text of a lab. No field ever holds a sensitive
// value.
type Problem struct {
	Severity string   `json:"severity"`
	Summary  string   `json:"summary"`           // short and constant: the same mistake has the same summary
	Detail   string   `json:"detail"`            // full sentences: what is wrong, why, what to write instead
	Values   []string `json:"values,omitempty"`  // what the expression's references stand for: "var.tp is 16"
	Context  string   `json:"context,omitempty"` // the block around it: engine "vllm" "h200"
	File     string   `json:"file"`
	Start    Position `json:"start"`
	End      Position `json:"end"`
}

// Problems are all the problems of a lab, ordered by file and position.
type Problems struct {
	list  []Problem
	files map[string][]byte
	// outside are the names under files that are no files: "--var x".
	outside map[string]bool
	// hidden are ranges of text that hold sensitive values in clear: a default, a
	// line of lab.hclvars. Snippets leave them out.
	hidden []hcl.Range
	seen   map[problemKey]bool
	bodies []*hclsyntax.Body // of the lab's files
}

type problemKey struct {
	summary, detail, file string
	start                 int
}

// HasErrors reports whether one of the problems is an error.
func (p *Problems) HasErrors() bool {
	errors, _ := p.Count()
	return errors > 0
}

// Count returns the numbers of errors and of warnings.
func (p *Problems) Count() (errors, warnings int) {
	for _, x := range p.list {
		if x.Severity == SeverityError {
			errors++
		} else {
			warnings++
		}
	}
	return errors, warnings
}

// List returns the problems, ordered by file and position.
func (p *Problems) List() []Problem { return slices.Clone(p.list) }

// add keeps a problem unless the same one was found at the same place before:
// an expression in a matrix is evaluated once per cell.
func (p *Problems) add(severity string, at hcl.Range, summary, detail string, values ...string) {
	if at.End.Byte < at.Start.Byte {
		at.End = at.Start // the parser of an unclosed call does not say where it ends
	}
	x := Problem{
		Severity: severity, Summary: summary, Detail: detail, Values: values, File: at.Filename,
		Start: Position(at.Start), End: Position(at.End),
	}
	key := problemKey{x.Summary, x.Detail, x.File, x.Start.Byte}
	if p.seen[key] {
		return
	}
	p.seen[key] = true
	p.list = append(p.list, x)
}

func (p *Problems) sort() {
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Start.Byte, b.Start.Byte))
	})
}

// didYouMean is " Did you mean x?" for the known name nearest to the wrong one,
// or "" when none is near. The suggestion is shown as say(name); nil: in quotes.
func didYouMean(wrong string, known []string, say func(string) string) string {
	best := nearest(wrong, known)
	if best == "" {
		return ""
	}
	if say == nil {
		say = func(s string) string { return fmt.Sprintf("%q", s) }
	}
	return " Did you mean " + say(best) + "?"
}

// nearest is the known name that the wrong one is a slip of, or "".
func nearest(wrong string, known []string) string {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	best, bestDistance := "", 3
	for _, name := range known {
		d := levenshtein.Distance(plain(wrong), plain(name), nil)
		if d < bestDistance && 2*d <= max(len(wrong), len(name)) {
			best, bestDistance = name, d
		}
	}
	return best
}

// inWords joins names as a sentence does: "a, b or c".
func inWords(names []string, last string) string {
	switch n := len(names); n {
	case 0:
		return ""
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " " + last + " " + names[n-1]
	}
}

// ticked are names as Markdown shows code.
func ticked(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "`" + n + "`"
	}
	return out
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return out
}
