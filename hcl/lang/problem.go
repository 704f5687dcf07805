package lang

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/where"
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

// Place is where something in the text is wrong, and in which way.
type Place struct {
	hcl.Range
	lacks  bool            // what is wrong is that something is not there
	thing  string          // which of several things: each is reported once
	once   bool            // a warning is the same whatever its words
	values func() []string // what explains it: "var.tp is 16"
}

func place(r hcl.Range) Place { return Place{Range: r} }

// String is the place as people write it: "lab.hcl:12".
func (p Place) String() string { return lineOf(p.Range) }

// Lacking is the place of a block that lacks what has this name, or for which there are several (""). It is
// not reported where that may stand under a wrong name, or in a part of the text that was lost to a syntax
// error.
func (p Place) Lacking(name string) Place {
	p.lacks, p.thing = true, name
	return p
}

// Once is the place for a warning that is given once, however many cells have words of their own for it.
func (p Place) Once() Place {
	p.once = true
	return p
}

// Because is the place with what explains the problem: "requests is 5".
func (p Place) Because(values ...string) Place {
	p.values = func() []string { return values }
	return p
}

// labText is the text that a lab was read from, and what of it is not shown.
type labText struct {
	files map[string][]byte
	names []string // of files, in the order in which they were read
	// outside are the names that are no files of the lab; true: of no file at all, "--var x".
	outside map[string]bool
	// hidden are ranges of text that hold sensitive values in clear: a default, a
	// line of lab.hclvars. Snippets leave them out.
	hidden  []hcl.Range
	keys    map[string]bool   // arguments that are secrets, whatever they say
	secrets map[string]bool   // texts that were sensitive, or keys, when the lab was evaluated
	bodies  []*hclsyntax.Body // of the lab's files, then of those with values
}

// Problems are all the problems of a lab, ordered by file and position, and the text
// that they are about.
type Problems struct {
	labText
	list []Problem
	seen map[[4]string]bool // summary, thing, file and byte of what was said
	// Broken: a file does not parse, so what seems to be missing may stand in the
	// part that was lost, and is not reported.
	Broken bool
	syntax map[string]bool // the lines that do not parse, "lab.hcl:12"
	// misspelt are the names in each block that are a slip of others: what is there under
	// a wrong name is not missing as well.
	misspelt map[hcl.Range]map[string]bool
	reading  []string // which instance of for_each is being read: "each.key is …"
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

// Fail reports a mistake, once for a place, however many cells have it. Half of a line that does not parse
// means nothing.
func (p *Problems) Fail(at Place, summary, format string, args ...any) {
	switch {
	case at.lacks && (p.Broken || at.thing != "" && p.misspelt[at.Range][at.thing]):
	case !at.lacks && p.Broken && p.syntax[at.String()]:
	case at.values != nil:
		p.add(SeverityError, at.Range, summary, at.thing, fmt.Sprintf(format, args...), at.values)
	default:
		p.add(SeverityError, at.Range, summary, at.thing, fmt.Sprintf(format, args...), func() []string { return p.reading })
	}
}

// Warn reports what is right, but perhaps not what was meant: in each cell where it is another.
func (p *Problems) Warn(at Place, summary, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if !at.once {
		at.thing = detail
	}
	p.add(SeverityWarning, at.Range, summary, at.thing, detail, at.values)
}

// IsMisspelt reports whether what a block lacks may stand there under a wrong name.
func (p *Problems) IsMisspelt(header Place, name string) bool { return p.misspelt[header.Range][name] }

// Settled reports whether nothing is wrong: what hardly anybody means is told only then.
func (p *Problems) Settled() bool { return !p.Broken && !p.HasErrors() }

// add keeps a problem unless the same was said of the place before, and of the same thing where
// it can be of several: an expression in a matrix is evaluated once per cell.
func (p *Problems) add(severity string, at hcl.Range, summary, thing, detail string, values func() []string) {
	key := [...]string{summary, thing, at.Filename, fmt.Sprint(at.Start.Byte)}
	if p.seen[key] {
		return
	}
	p.seen[key] = true
	if at.End.Byte < at.Start.Byte {
		at.End = at.Start // the parser of an unclosed call does not say where it ends
	}
	problem := Problem{
		Severity: severity, Summary: summary, Detail: detail, File: at.Filename,
		Start: Position(at.Start), End: Position(at.End),
	}
	if values != nil {
		problem.Values = values()
	}
	p.list = append(p.list, problem)
}

// finish puts the problems in order, takes the secrets out of them, and names the block around each.
func (p *Problems) finish() {
	secrets := plain.NewSecrets(slices.Collect(maps.Keys(p.secrets))...)
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Start.Byte, b.Start.Byte))
	})
	for i, x := range p.list {
		p.list[i].Detail = secrets.Hide(x.Detail)
		p.list[i].Values = mapped(x.Values, secrets.Hide)
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
		p.keep(d, d.Detail, nil)
	}
}

// keep is report with another detail, and with values that explain the problem.
func (p *Problems) keep(d *hcl.Diagnostic, detail string, values func() []string) {
	severity, at := SeverityError, hcl.Range{}
	if d.Severity == hcl.DiagWarning {
		severity = SeverityWarning
	}
	if where := cmp.Or(d.Subject, d.Context); where != nil {
		at = *where
	}
	p.add(severity, at, d.Summary, "", detail, values)
}

// ShowText keeps the text of another file, so that problems can show a line of it. It may hold secrets,
// so that [Problems.Text] has it not.
func (t *labText) ShowText(path string, text []byte) {
	t.read(path, text)
	t.outside[path] = false
}

// LineOf is the place of a line of a text that is kept, counted from 1; of one that it has not, its beginning.
func (t *labText) LineOf(name string, line int) Place {
	at := hcl.InitialPos
	for s := range strings.Lines(string(t.files[name])) {
		if at.Line == line {
			end, long := at, len(strings.TrimRight(s, "\r\n"))
			end.Byte, end.Column = at.Byte+long, 1+long
			return place(hcl.Range{Filename: name, Start: at, End: end})
		}
		at.Line, at.Byte = at.Line+1, at.Byte+len(s)
	}
	return place(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos})
}

// read notes the text of a file, or of what is shown under its name.
func (t *labText) read(name string, text []byte) {
	if _, known := t.files[name]; !known {
		t.names = append(t.names, name)
	}
	t.files[name] = text
}

// inOrder returns attributes as they are written; HCL keeps them in a map.
func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(attrs), func(a, b *hclsyntax.Attribute) int {
		return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte
	})
}

// lineOf is a range as people write it: "lab.hcl:12".
func lineOf(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

// Write prints the problems for people, in the form of the HCL library: what is wrong, where, the line with
// the offending text underlined, and what to write instead. Text is wrapped at width columns; 0 means 80.
// Without colour a line of carets stands for the underline.
func (p *Problems) Write(w io.Writer, width int, color bool) error {
	width = cmp.Or(max(width, 0), 80)
	var b strings.Builder
	for _, x := range p.list {
		d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: plain.Line(x.Summary), Detail: plain.Text(x.Detail)}
		if x.Severity == SeverityWarning {
			d.Severity = hcl.DiagWarning
		}
		if len(x.Values) > 0 {
			d.Detail = strings.Join(mapped(x.Values, plain.Line), "\n") + "\n\n" + d.Detail
		}
		// The library would also break the lines of examples, which are indented: nobody could copy them.
		var lines []string
		for line := range strings.SplitSeq(d.Detail, "\n") {
			if strings.HasPrefix(line, " ") {
				lines = append(lines, line)
			} else {
				lines = append(lines, strings.Join(plain.Wrap(strings.Fields(line), " ", width), "\n"))
			}
		}
		d.Detail = strings.Join(lines, "\n")
		files := map[string]*hcl.File{}
		if before, marked, after, ok := p.snippet(x, width-len("   1: ")); ok {
			// The library gets no more of the text than the line that may be shown.
			begin := max(x.Start.Line-1, 0)
			text := strings.Repeat("\n", begin) + before + marked + after
			files[x.File] = &hcl.File{Bytes: []byte(text), Nav: around(x.Context)}
			at := hcl.Pos{Line: x.Start.Line, Byte: begin + len(before)}
			d.Subject = &hcl.Range{Filename: x.File, Start: at, End: hcl.Pos{Line: x.Start.Line, Byte: at.Byte + len(marked)}}
		}
		if err := hcl.NewDiagnosticTextWriter(&b, files, 0, true).WriteDiagnostic(d); err != nil {
			return fmt.Errorf("write problems: %w", err)
		}
	}
	text := b.String()
	for name, typed := range p.outside {
		if typed {
			text = strings.ReplaceAll(text, "  on "+name+" line 1:\n", "  in "+name+":\n")
		}
	}
	if !color {
		text = colors.ReplaceAllString(underlined.ReplaceAllStringFunc(text, func(line string) string {
			m := underlined.FindStringSubmatch(line)
			return fmt.Sprintf("%s\n%*s", line, len(m[1])+plain.Width(m[2]+m[3]), strings.Repeat("^", max(1, plain.Width(m[3]))))
		}), "")
	}
	if _, err := io.WriteString(w, strings.TrimSuffix(text, "\n")); err != nil {
		return fmt.Errorf("write problems: %w", err)
	}
	return nil
}

var (
	// underlined is a line of text as the library shows it: its number, and what of it is marked.
	underlined = regexp.MustCompile(`(?m)^( *\d+: )(.*)\x1b\[1;4m(.*)\x1b\[0m.*$`)
	colors     = regexp.MustCompile(`\x1b\[[0-9;]*m`)
)

// around is the block around a problem, as the library asks for it.
type around string

// ContextString is the block around any place of the text.
func (a around) ContextString(int) string { return string(a) }

// snippet is the first line of the offending text, in three parts; nothing that is sensitive.
func (p *Problems) snippet(x Problem, width int) (before, marked, after string, ok bool) {
	text, known := p.files[x.File]
	if !known || x.Start.Byte > len(text) || x.End.Byte > len(text) || x.Start.Byte > x.End.Byte {
		return "", "", "", false
	}
	from := bytes.LastIndexByte(text[:x.Start.Byte], '\n') + 1
	behind, _, _ := bytes.Cut(text[x.Start.Byte:], []byte("\n"))
	to := x.Start.Byte + len(behind)
	end, tail := min(x.End.Byte, to), ""
	for _, h := range p.hidden {
		if h.Filename != x.File || h.Start.Byte >= to || h.End.Byte <= from {
			continue
		}
		if h.Start.Byte < end {
			return "", provision.Redacted, "", true
		}
		to, tail = h.Start.Byte, provision.Redacted
	}
	first, said, rest := string(text[from:x.Start.Byte]), string(text[x.Start.Byte:end]), string(text[end:to])
	switch line := p.shown(first + said + rest); {
	case line == first+said+rest:
	case p.shown(said) != said || p.shown(first)+said+p.shown(rest) != line:
		return "", provision.Redacted, "", true
	default:
		first, rest = p.shown(first), p.shown(rest)
	}
	// A line may be megabytes long.
	const window = 400
	first, said, rest = first[max(0, len(first)-window):], said[:min(len(said), window)], rest[:min(len(rest), window)]
	before, marked = printable(first), printable(said)
	after = strings.TrimRight(printable(rest)+tail, " ")
	if marked == "" { // the place is before a character, or behind the line
		after = cmp.Or(after, " ")
		_, n := utf8.DecodeRuneInString(after)
		marked, after = after[:n], after[n:]
	}
	if cut := len([]rune(before)) - width/2; cut > 0 && plain.Width(before+marked+after) > width {
		before = "…" + string([]rune(before)[cut:])
	}
	if room := width - plain.Width(before); plain.Width(marked) > room {
		marked, after = plain.Fit(marked, room), ""
	} else if room -= plain.Width(marked); plain.Width(after) > room {
		after = plain.Fit(after, room)
	}
	return before, marked, after, true
}

// printable shows tabs as four columns, and nothing that a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) && r != '\u200d' {
			return '·'
		}
		return r
	}, strings.ReplaceAll(strings.TrimSuffix(strings.ToValidUTF8(s, "·"), "\r"), "\t", "    "))
}

// DidYouMean is " Did you mean x?" for the known name nearest to the wrong one,
// or "" when none is near. The suggestion is shown as say(name); nil: in quotes.
func DidYouMean(wrong string, known []string, say func(string) string) string {
	best := where.Nearest(wrong, known)
	switch {
	case best == "":
		return ""
	case say == nil:
		say = quote
	}
	return " Did you mean " + say(best) + "?"
}

// below is how a name is shown behind what it belongs to.
func below(root string) func(string) string {
	return func(name string) string { return root + "." + name }
}

// Plainly is a name as it is, for [DidYouMean].
func Plainly(s string) string { return s }

func withArticle(noun string) string {
	if strings.ContainsRune("aeio", rune(noun[0])) || noun == "slo" {
		return "an " + noun
	}
	return "a " + noun
}

func quote(s string) string { return strconv.Quote(s) }

func quoted(names []string) []string { return mapped(names, quote) }

// Ticked are names as Markdown shows code.
func Ticked(names []string) []string {
	return mapped(names, func(s string) string { return "`" + s + "`" })
}

func mapped[T any](list []T, do func(T) string) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = do(x)
	}
	return out
}

// Title is a text with a capital at its beginning.
func Title(s string) string {
	if word, _, _ := strings.Cut(s, " "); strings.ContainsAny(word, "_0123456789") { // a name, which stands as it is written
		return s
	}
	return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):]
}

// elementRange is the range of one element where the list is written out.
func elementRange(expr hclsyntax.Expression, i int) hcl.Range {
	if list, ok := expr.(*hclsyntax.TupleConsExpr); ok && i >= 0 && i < len(list.Exprs) {
		return list.Exprs[i].Range()
	}
	return expr.Range()
}

// writtenKey is the key of an object's item, where the text shows it.
func writtenKey(item hclsyntax.ObjectConsItem) (string, bool) {
	v, diags := item.KeyExpr.Value(nil) // no reference has a value here
	if diags.HasErrors() || !v.IsKnown() {
		return "", false
	}
	return AsString(v)
}

var (
	// secretLine is a line that says a secret, whatever is wrong with it.
	secretLine = regexp.MustCompile(`(?i)(\b(?:[a-z0-9_-]*[_-])?(?:api[_-]?key|token|secret|password|authorization)"?[ \t]*[=:][ \t]*["'])[^"'\n]{6,}`)
	// tokenForm is a well-known token in a line.
	tokenForm = regexp.MustCompile(`\b(hf_|sk-|nvapi-|gh[pousr]_|glpat-|xox[abp]-|AKIA)[A-Za-z0-9._-]{6,}`)
)

// shown is a part of the lab's text as a message may show it.
func (t *labText) shown(line string) string {
	line = plain.NewSecrets(slices.Collect(maps.Keys(t.secrets))...).Hide(line)
	line = tokenForm.ReplaceAllString(line, provision.Redacted)
	return secretLine.ReplaceAllString(line, "${1}"+provision.Redacted)
}
