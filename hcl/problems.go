package hcl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// Problems are all the problems of a lab, ordered by file and position, and the text
// that they are about.
type Problems struct {
	labText
	list []Problem
	seen map[[4]string]bool // summary, thing, file and byte of what was said
	// broken: a file does not parse, so what seems to be missing may stand in the
	// part that was lost, and is not reported.
	broken bool
	syntax map[string]bool // the lines that do not parse, "lab.hcl:12"
	// misspelt are the names in each block that are a slip of others: what is there under
	// a wrong name is not missing as well.
	misspelt map[hcl.Range]map[string]bool
	each     *declared // the instance of for_each that is being read; nil: none
}

func newProblems() *Problems {
	return &Problems{
		labText:  labText{files: map[string][]byte{}, outside: map[string]bool{}, secrets: map[string]bool{}},
		seen:     map[[4]string]bool{},
		syntax:   map[string]bool{},
		misspelt: map[hcl.Range]map[string]bool{},
	}
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

// fail reports what is wrong at a place; what is wrong there in one cell after the other only
// once. Half of a line that does not parse means nothing.
func (p *Problems) fail(at hcl.Range, summary, format string, args ...any) {
	p.failWith(p.ofInstance(), at, summary, format, args...)
}

// failWith is fail with values that explain it.
func (p *Problems) failWith(values []string, at hcl.Range, summary, format string, args ...any) {
	if !p.broken || !p.syntax[pos(at)] {
		p.add(SeverityError, at, summary, "", fmt.Sprintf(format, args...), values...)
	}
}

// missing reports what is not there, under a name if it has one: not where it may stand under a
// wrong name, or in a part of the text that was lost to a syntax error.
func (p *Problems) missing(at hcl.Range, name, summary, format string, args ...any) {
	if !p.broken && (name == "" || !p.misspelt[at][name]) {
		p.add(SeverityError, at, summary, name, fmt.Sprintf(format, args...), p.ofInstance()...)
	}
}

// warn reports what is right, but perhaps not what was meant: in each cell where it is another.
func (p *Problems) warn(at hcl.Range, summary, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	p.add(SeverityWarning, at, summary, detail, detail)
}

// warnOnce is warn for what is told once of a place.
func (p *Problems) warnOnce(at hcl.Range, summary, format string, args ...any) {
	p.add(SeverityWarning, at, summary, "", fmt.Sprintf(format, args...))
}

// ofInstance says which instance of for_each is being read, if one is.
func (p *Problems) ofInstance() []string {
	if p.each == nil || p.each.parent.wrong {
		return nil
	}
	return []string{fmt.Sprintf("each.key is %q", p.each.key)}
}

// settled reports whether nothing is wrong: what hardly anybody means is told only then.
func (p *Problems) settled() bool { return !p.broken && !p.HasErrors() }

// add keeps a problem unless the same was said of the place before, and of the same thing where
// it can be of several: an expression in a matrix is evaluated once per cell.
func (p *Problems) add(severity string, at hcl.Range, summary, thing, detail string, values ...string) {
	key := [...]string{summary, thing, at.Filename, fmt.Sprint(at.Start.Byte)}
	if p.seen[key] {
		return
	}
	p.seen[key] = true
	if at.End.Byte < at.Start.Byte {
		at.End = at.Start // the parser of an unclosed call does not say where it ends
	}
	p.list = append(p.list, Problem{
		Severity: severity, Summary: summary, Detail: detail, Values: values, File: at.Filename,
		Start: Position(at.Start), End: Position(at.End),
	})
}

// finish puts the problems in order, and names the block around each.
func (p *Problems) finish() {
	p.hideIn()
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Start.Byte, b.Start.Byte))
	})
	for i, x := range p.list {
		for _, body := range p.bodies {
			for _, b := range body.Blocks {
				r := b.Range()
				if r.Filename == x.File && r.Start.Byte < x.Start.Byte && x.Start.Byte < r.End.Byte {
					p.list[i].Context = strings.Join(append([]string{b.Type}, quoted(b.Labels)...), " ")
				}
			}
		}
	}
}

// report turns the HCL library's diagnostics into problems.
func (p *Problems) report(diags hcl.Diagnostics) {
	for _, d := range diags {
		severity, at := SeverityError, hcl.Range{}
		if d.Severity == hcl.DiagWarning {
			severity = SeverityWarning
		}
		if where := cmp.Or(d.Subject, d.Context); where != nil {
			at = *where
		}
		summary, detail := d.Summary, d.Detail
		call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d)
		if ok && call.CalledFunctionName() != "" {
			summary, detail = unknownFunction(call.CalledFunctionName(), d.EvalContext)
		}
		var values []string
		if d.Expression != nil && d.EvalContext != nil {
			if secretsInvolved(d) {
				// The library and the functions quote what they were given, and what they
				// computed from it.
				detail = "A sensitive value takes part, so what is wrong cannot be said. Try a value that is not sensitive."
			} else {
				values = p.explainAll(d.Expression.Variables(), d.EvalContext)
			}
		}
		p.add(severity, at, summary, "", detail, values...)
	}
}

// inOrder returns attributes as they are written; HCL keeps them in a map.
func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(attrs), func(a, b *hclsyntax.Attribute) int {
		return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte
	})
}

// pos is a range as people write it: "lab.hcl:12".
func pos(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }
