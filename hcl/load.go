package hcl

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/rivo/uniseg"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"hclbench/engines"
	"hclbench/provision"
)

// lab is the text of a lab while it is being read.
type lab struct {
	src      *Source
	vars     Vars
	problems *Problems
	// broken: a file does not parse, so what seems to be missing may stand in the
	// part that was lost, and is not reported.
	broken bool
	syntax map[string]bool // the lines that do not parse, "lab.hcl:12"

	functions  map[string]function.Function
	declared   map[string]*declared // by address: everything that can be referred to
	order      []*declared          // as written
	benchmarks []*hclsyntax.Block
	labBlock   *hclsyntax.Block

	reportBlock *hclsyntax.Block

	stack     []*declared // what is being evaluated
	refs      map[hclsyntax.Expression]*references
	constants map[hclsyntax.Expression]cty.Value // those that are the same in every cell
	fixed     map[hclsyntax.Expression]setting   // and what they became
	sorted    map[*hclsyntax.Body][]*hclsyntax.Attribute
	misspelt  map[hcl.Range]map[string]bool // by block: what is there under a wrong name is not missing as well
	lost      []hcl.Range                   // where a cell was left out because something in it is wrong
	unknown   hcl.Range                     // where a value turned out to be unknown without a problem that says why
}

// Load reads a lab. The Config is nil if there is any error, and all mistakes
// that the text can show are among the Problems, which are never nil.
func Load(src *Source, vars Vars) (*Config, *Problems) {
	l := &lab{
		src: src, vars: vars,
		problems:  &Problems{files: map[string][]byte{}, outside: map[string]bool{}, seen: map[problemKey]bool{}},
		declared:  map[string]*declared{},
		refs:      map[hclsyntax.Expression]*references{},
		constants: map[hclsyntax.Expression]cty.Value{},
		fixed:     map[hclsyntax.Expression]setting{},
		syntax:    map[string]bool{},
		sorted:    map[*hclsyntax.Body][]*hclsyntax.Attribute{},
		misspelt:  map[hcl.Range]map[string]bool{},
	}
	l.functions = l.functionSet()
	names, varsFile := src.labFiles()
	for _, name := range names {
		l.problems.bodies = append(l.problems.bodies, l.parse(name, src.Files[name]))
	}
	bodies := l.problems.bodies
	for _, body := range bodies {
		l.declareAll(body)
	}
	for _, body := range bodies {
		l.splatGroups(body)
	}
	l.setVariables(varsFile)

	c := &Config{Dir: src.Dir, Lab: l.readLab(), text: l.problems}
	for _, d := range l.order {
		l.finish(d, c)
	}
	for _, b := range l.benchmarks {
		c.Benchmarks = append(c.Benchmarks, l.benchmark(b))
	}
	c.Engines = l.engines(c.Benchmarks)
	c.Report = l.readReport(c.Benchmarks)
	l.checkNames()
	l.warnUnused(len(names) == 0)
	if !l.problems.HasErrors() && l.unknown.Filename != "" {
		l.err(l.unknown, "Value not known", "This value depends on something that is decided only in a cell of a benchmark's matrix, so it is not known here. Refer to matrix.* directly, or in the engine that uses it.")
	}
	if !l.problems.HasErrors() && len(l.lost) > 0 {
		// Whoever finds something wrong says so; a lab is never smaller than it is written.
		l.err(l.lost[0], "Cell left out", "Something in a cell of this benchmark is wrong, and hcl does not say what. This is a bug in hcl.")
	}
	l.problems.sort()
	l.problems.addContext(bodies)
	if l.problems.HasErrors() {
		return nil, l.problems
	}
	return c, l.problems
}

// parse parses one file; what could be parsed of a broken one is still checked.
func (l *lab) parse(name string, text []byte) *hclsyntax.Body {
	l.problems.files[name] = text
	f, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diags.HasErrors() {
		l.broken = true
	}
	for _, d := range diags {
		if d.Summary == "Missing newline after argument" {
			d.Detail += " If the value is text, put all of it in quotes."
		}
	}
	if at, open := openQuote(diags, text); open {
		l.syntax[pos(at)] = true
		l.problems.add(SeverityError, at, "Text without an end", "The text that begins here has no closing quote in its line, so nothing that follows in the file can be read. Close it; for a text of several lines, write \\n, or <<EOT.")
		diags = nil
	}
	for _, d := range diags {
		// After the first mistake in a line, the others mean little.
		if d.Subject == nil || !l.syntax[pos(*d.Subject)] {
			l.report(hcl.Diagnostics{d})
		}
		if d.Subject != nil {
			l.syntax[pos(*d.Subject)] = true
		}
	}
	if f == nil {
		return &hclsyntax.Body{}
	}
	body, _ := f.Body.(*hclsyntax.Body)
	diags = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
		if object, ok := n.(*hclsyntax.ObjectConsExpr); ok {
			l.checkKeys(object)
		}
		// Such a number would take gigabytes when written out as text.
		if lit, ok := n.(*hclsyntax.LiteralValueExpr); ok && lit.Val.Type() == cty.Number && lit.Val.IsKnown() && !lit.Val.IsNull() {
			if exp := lit.Val.AsBigFloat().MantExp(nil); exp > 1100 || exp < -1100 {
				return hcl.Diagnostics{{Severity: hcl.DiagError, Subject: &lit.SrcRange, Summary: "Number out of range", Detail: "Numbers between 1e-300 and 1e300 can be written."}}
			}
		}
		return nil
	})
	if diags.HasErrors() {
		l.report(diags)
		return &hclsyntax.Body{}
	}
	return body
}

// openQuote is where the first mistake of a text is a quote that its line does not
// close. Everything behind it is then inside out.
func openQuote(diags hcl.Diagnostics, text []byte) (hcl.Range, bool) {
	if len(diags) == 0 || diags[0].Subject == nil || diags[0].Summary != "Invalid multi-line string" && diags[0].Summary != "Unterminated template string" {
		return hcl.Range{}, false
	}
	at := *diags[0].Subject
	begin := bytes.LastIndexByte(text[:min(at.Start.Byte, len(text))], '\n') + 1
	line := text[begin:]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	quote := bytes.LastIndexByte(line, '"')
	if quote < 0 {
		return at, true
	}
	at.Start = hcl.Pos{Line: at.Start.Line, Column: uniseg.GraphemeClusterCount(string(line[:quote])) + 1, Byte: begin + quote}
	at.End = hcl.Pos{Line: at.Start.Line, Column: at.Start.Column + 1, Byte: at.Start.Byte + 1}
	return at, true
}

// checkKeys finds a key that an object has twice: HCL keeps the last, in silence.
func (l *lab) checkKeys(object *hclsyntax.ObjectConsExpr) {
	first := map[string]hcl.Range{}
	for _, item := range object.Items {
		key, ok := writtenKey(item)
		if !ok {
			continue
		}
		if at, twice := first[key]; twice {
			l.err(item.KeyExpr.Range(), "Key given twice", "The object has the key %q at %s already, and only one of the values would count. Remove one, or give it another key.", key, pos(at))
			continue
		}
		first[key] = item.KeyExpr.Range()
	}
}

func (l *lab) err(at hcl.Range, summary, format string, args ...any) {
	if l.broken && l.syntax[pos(at)] {
		return // half of a line means nothing
	}
	l.problems.add(SeverityError, at, summary, fmt.Sprintf(format, args...))
}

// errOnce is err for what may be wrong in one cell after the other, each time in
// other words: only the first is kept.
func (l *lab) errOnce(at hcl.Range, summary, format string, args ...any) {
	key := problemKey{summary: summary, file: at.Filename, start: at.Start.Byte}
	if !l.problems.seen[key] {
		l.problems.seen[key] = true
		before := len(l.problems.list)
		l.err(at, summary, format, args...)
		if n := len(l.stack); n > 0 && l.stack[n-1].parent != nil && len(l.problems.list) > before {
			l.problems.list[before].Values = []string{fmt.Sprintf("each.key is %q", l.stack[n-1].key)}
		}
	}
}

func (l *lab) warn(at hcl.Range, summary, format string, args ...any) {
	l.problems.add(SeverityWarning, at, summary, fmt.Sprintf(format, args...))
}

// warnOnce is errOnce for warnings.
func (l *lab) warnOnce(at hcl.Range, summary, format string, args ...any) {
	key := problemKey{summary: summary, file: at.Filename, start: at.Start.Byte}
	if !l.problems.seen[key] {
		l.problems.seen[key] = true
		l.warn(at, summary, format, args...)
	}
}

// absent reports that something is not there, which cannot be known when a part
// of the text was lost to a syntax error.
func (l *lab) absent(at hcl.Range, summary, format string, args ...any) {
	if !l.broken {
		l.err(at, summary, format, args...)
	}
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	anyText    = regexp.MustCompile(`^[^\p{C}]*[^\p{C}\s][^\p{C}]*$`)
	labName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
)

// maxName bounds the names of blocks.
const maxName = 63

// declareAll checks the shape of a file's blocks and notes what they declare.
func (l *lab) declareAll(body *hclsyntax.Body) {
	for _, a := range inOrder(body.Attributes) {
		l.err(a.NameRange, "Argument outside of a block", "%q stands in no block. Arguments belong in blocks; for a value of your own, write\n\n    locals {\n      %s = …\n    }", a.Name, a.Name)
	}
	types := blockTypes()
	var names []string
	for _, t := range types {
		names = append(names, t.name)
	}
	for _, b := range body.Blocks {
		i := slices.IndexFunc(types, func(t *blockType) bool { return t.name == b.Type })
		if i >= 0 {
			l.declare(b, types[i])
		} else {
			l.declareMisspelt(b, types)
			l.absent(b.TypeRange, "Unknown block type", "There are no blocks of type %q.%s A lab is made of the blocks %s.", b.Type, didYouMean(b.Type, names, nil), inWords(names, "and"))
		}
	}
}

// declareMisspelt notes a block whose type is a slip, so that references to it
// are not reported as well.
func (l *lab) declareMisspelt(b *hclsyntax.Block, types []*blockType) {
	for _, t := range types {
		if nearest(b.Type, []string{t.name}) == "" || len(b.Labels) != len(t.labels) || len(b.Labels) == 0 {
			continue
		}
		root := t.name
		if t == variableBlock {
			root = "var"
		}
		address := root + "." + strings.Join(b.Labels, ".")
		if _, taken := l.declared[address]; !taken {
			l.add(&declared{typ: t, address: address, name: b.Labels[len(b.Labels)-1], kind: b.Labels[0], header: b.DefRange(), wrong: true})
		}
	}
}

func (l *lab) declare(b *hclsyntax.Block, t *blockType) {
	if !l.checkLabels(b, t) {
		// Its arguments are still held against the schema, except where the kind
		// decides which there are.
		if t != datasetBlock || len(b.Labels) > 0 && slices.Contains(knownKinds("dataset"), b.Labels[0]) {
			l.checkBody(b.Body, bodyType(t, b.Labels...), b.DefRange())
		}
		return
	}
	l.checkBody(b.Body, bodyType(t, b.Labels...), b.DefRange())
	switch t {
	case labBlock:
		if l.labBlock != nil {
			l.err(b.DefRange(), "Duplicate lab block", "A lab has at most one lab block, and one stands at %s already. Put everything into one.", pos(l.labBlock.DefRange()))
			return
		}
		l.labBlock = b
	case reportBlock:
		if l.reportBlock != nil {
			l.err(b.DefRange(), "Duplicate report block", "A lab has at most one report block, and one stands at %s already. Put everything into one.", pos(l.reportBlock.DefRange()))
			return
		}
		l.reportBlock = b
	case localsBlock:
		for _, a := range inOrder(b.Body.Attributes) {
			l.add(&declared{typ: localsBlock, address: "local." + a.Name, name: a.Name, body: b.Body, expr: a.Expr, header: a.NameRange})
		}
	case benchmarkBlock:
		for _, other := range l.benchmarks {
			if other.Labels[0] == b.Labels[0] {
				l.err(b.DefRange(), "Duplicate benchmark block", "A benchmark named %q stands at %s already. Give this one another name.", b.Labels[0], pos(other.DefRange()))
				return
			}
		}
		l.benchmarks = append(l.benchmarks, b)
	default:
		d := &declared{typ: t, name: b.Labels[len(b.Labels)-1], body: b.Body, header: b.DefRange()}
		d.address = t.name + "." + d.name
		if t == variableBlock {
			d.address = "var." + d.name
		}
		if len(b.Labels) == 2 {
			d.kind = b.Labels[0]
			d.address = t.name + "." + d.kind + "." + d.name
		}
		l.add(d)
		if t == variableBlock && l.broken && l.isSensitive(d) {
			// A default that does not parse would be shown as the place of the mistake.
			l.problems.hidden = append(l.problems.hidden, hcl.RangeBetween(b.DefRange(), b.Range()))
		}
	}
}

func (l *lab) add(d *declared) {
	if other, taken := l.declared[d.address]; taken {
		l.err(d.header, "Duplicate "+d.typ.name+" block", "%s is declared at %s already. Give this one another name.", d.address, pos(other.header))
		return
	}
	l.declared[d.address] = d
	l.order = append(l.order, d)
}

// checkLabels reports whether a block has the labels that its type takes.
func (l *lab) checkLabels(b *hclsyntax.Block, t *blockType) bool {
	example := t.name
	for _, label := range t.labels {
		example += " " + strings.ToUpper(label)
	}
	if len(b.Labels) != len(t.labels) {
		at := b.DefRange()
		if len(b.Labels) > len(t.labels) {
			at = b.LabelRanges[len(t.labels)]
		}
		many := fmt.Sprintf("%d labels", len(t.labels))
		if len(t.labels) == 1 {
			many = "one label"
		} else if len(t.labels) == 0 {
			many = "no label"
		}
		l.err(at, "Wrong number of labels", "A block of type %s takes %s, and this one has %d. Write %s { … }.", t.name, many, len(b.Labels), example)
		return false
	}
	good := true
	for i, label := range b.Labels {
		if t.labels[i] == "kind" {
			known := knownKinds(t.name)
			switch {
			case slices.Contains(known, label):
			default:
				// It counts as declared, so that references to it are not wrong as well.
				l.err(b.LabelRanges[i], "Unknown "+t.name+" kind", "There is no %s kind %q.%s The kinds are %s.", t.name, label, didYouMean(label, known, nil), inWords(quoted(known), "and"))
			}
			if !slices.Contains(known, label) {
				l.add(&declared{typ: t, kind: label, name: b.Labels[len(b.Labels)-1], address: t.name + "." + strings.Join(b.Labels, "."), header: b.DefRange(), wrong: true})
				good = false
			}
			continue
		}
		form, rule := identifier, "letters, digits, - and _, and begins with a letter"
		if t == labBlock {
			form, rule = labName, "letters, digits, -, _ and ., and begins with a letter or a digit"
		}
		if t == referenceBlock || t == chartBlock {
			form, rule = anyText, "letters, digits and spaces, and is not empty"
		}
		if len(label) > maxName && form != anyText {
			l.err(b.LabelRanges[i], "Name too long", "A name has at most %d characters, because it becomes a part of others, of containers for example, and this one has %d. Give a shorter one, and say the rest in description.", maxName, len(label))
			good = false
			continue
		}
		if !form.MatchString(label) {
			l.err(b.LabelRanges[i], "Invalid name", "%q cannot be a name. A name is made of %s, because it appears in references, labels and file names.", label, rule)
			good = false
		}
	}
	return good
}

// checkBody holds the arguments and blocks of a body against its type, without
// evaluating anything.
func (l *lab) checkBody(body *hclsyntax.Body, t *blockType, header hcl.Range) {
	misspelt := map[string]bool{}
	l.misspelt[header] = misspelt
	for _, a := range inOrder(body.Attributes) {
		if arg, ok := t.argument(a.Name); ok {
			if arg.name == "flags" {
				l.checkDashes(a.Expr)
			}
			continue
		}
		at := a.NameRange
		if _, ok := t.nested(a.Name); ok {
			l.err(at, "Block written as argument", "%s is a block: write it without the equals sign, %s { … }.", a.Name, a.Name)
		} else if t.free != nil {
			l.err(at, "Unknown argument", "%q is not something that %s can say. %s.", a.Name, inBlock(t), t.freeHint)
		} else {
			misspelt[nearest(a.Name, t.argumentNames())] = true
			l.err(at, "Unknown argument", "There is no argument %q in %s.%s%s", a.Name, inBlock(t), didYouMean(a.Name, append(t.argumentNames(), t.blockNames()...), nil), elsewhere(a.Name, t))
		}
	}
	seen := map[string]hcl.Range{}
	for _, b := range body.Blocks {
		at := b.DefRange()
		n, ok := t.nested(b.Type)
		if !ok {
			if _, isArgument := t.argument(b.Type); isArgument && t.free == nil {
				l.err(b.TypeRange, "Argument written as block", "%s is an argument: write it with an equals sign, %s = { … }.", b.Type, b.Type)
			} else {
				misspelt[nearest(b.Type, t.blockNames())] = true
				l.absent(b.TypeRange, "Unknown block type", "There is no block %q in %s.%s%s", b.Type, inBlock(t), didYouMean(b.Type, append(t.blockNames(), t.argumentNames()...), nil), elsewhere(b.Type, t))
			}
			continue
		}
		if len(n.typ.labels) > 0 {
			l.checkLabels(b, n.typ)
		} else if len(b.Labels) > 0 {
			l.err(b.LabelRanges[0], "Wrong number of labels", "A block of type %s takes no label. Write %s { … }.", b.Type, b.Type)
		}
		if first, twice := seen[b.Type]; twice && !n.many {
			l.err(at, "Duplicate "+b.Type+" block", "There is at most one %s block in %s, and one stands at %s already. Put everything into one.", b.Type, inBlock(t), pos(first))
			continue
		}
		seen[b.Type] = at
		l.checkBody(b.Body, n.typ, at)
	}
	for _, a := range t.args {
		if _, said := body.Attributes[a.name]; a.required && !said && !misspelt[a.name] {
			l.absent(header, "Missing argument", "%s needs the argument %q. %s", title(inBlock(t)), a.name, a.doc)
		}
	}
	for _, n := range t.blocks {
		if _, said := seen[n.typ.name]; n.required && !said && !misspelt[n.typ.name] {
			l.absent(header, "Missing block", "%s needs a block %s { … }. %s", title(inBlock(t)), n.typ.name, n.typ.doc)
		}
	}
}

// checkDashes finds flags written with their leading dashes, which HCL reads as
// minus signs before a reference.
func (l *lab) checkDashes(expr hclsyntax.Expression) {
	list, ok := expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return
	}
	for _, item := range list.Items {
		key, ok := item.KeyExpr.(*hclsyntax.ObjectConsKeyExpr)
		if !ok {
			continue
		}
		if _, minus := key.Wrapped.(*hclsyntax.UnaryOpExpr); minus {
			name := strings.TrimLeft(string(key.Range().SliceBytes(l.problems.files[key.Range().Filename])), "-")
			l.err(key.Range(), "Flag with dashes", "Flags are written without their leading dashes: %s = …", name)
			l.constants[expr] = cty.DynamicVal
			l.refs[expr] = &references{}
		}
	}
}

func inBlock(t *blockType) string {
	if t.kind != "" {
		return fmt.Sprintf("a %s %q block", t.name, t.kind)
	}
	if strings.HasPrefix(t.name, "e") || t == sloBlock {
		return "an " + t.name + " block"
	}
	return "a " + t.name + " block"
}

// elsewhere says which other blocks know the name.
func elsewhere(name string, not *blockType) string {
	var found []string
	var walk func(t *blockType)
	walk = func(t *blockType) {
		_, isBlock := t.nested(name)
		if t != not && t.name != not.name && (isBlock || slices.Contains(t.argumentNames(), name)) && !slices.Contains(found, t.name) {
			found = append(found, t.name)
		}
		for _, n := range t.blocks {
			walk(n.typ)
		}
	}
	for _, t := range blockTypes() {
		walk(t)
	}
	if len(found) == 0 || len(found) > 3 {
		return ""
	}
	return fmt.Sprintf(" It belongs in %s.", inWords(found, "or"))
}

func (l *lab) readLab() Lab {
	out := Lab{Lease: DefaultLease}
	if l.labBlock != nil {
		s := l.read(l.labBlock.Body, labBlock, nil)
		out.Name = l.labBlock.Labels[0]
		out.Description = get[string](s, "description")
		out.Lease = getOr(s, "lease", DefaultLease)
		out.MaxDuration = getOr(s, "max_duration", out.MaxDuration)
		l.checkLease(s, out)
		for _, b := range l.labBlock.Body.Blocks {
			if b.Type == noticeBlock.name {
				out.Notices = append(out.Notices, l.readNotice(b))
			}
		}
		return out
	}
	out.Name = dirName(l.src.Dir)
	return out
}

// dirName is the name of a lab that has none of its own: its directory's.
func dirName(path string) string {
	dir, err := filepath.Abs(path)
	if err != nil {
		dir = path
	}
	name := regexp.MustCompile(`[^A-Za-z0-9_.-]+`).ReplaceAllString(filepath.Base(dir), "-")
	if !labName.MatchString(name) {
		return "lab"
	}
	return name
}

// shortLease is a lease that an ordinary hiccup of a network outlasts.
const shortLease = 10 * time.Second

// checkLease is about leases that end runs too early, or for nothing.
func (l *lab) checkLease(s settings, lab Lab) {
	lease, said := s["lease"]
	if said && lease.value != nil && lab.Lease < shortLease {
		l.warn(lease.at, "Short lease", "With a lease of %s, a hiccup of the network of that length lets a host clean itself in the middle of a measurement.", lab.Lease)
	}
	if x, limited := s["max_duration"]; limited && x.value != nil && lab.MaxDuration < lab.Lease {
		l.warn(x.at, "Shorter than the lease", "Nothing of the lab lives longer than %s, which is less than its lease of %s: a run that is not over by then is cut off.", lab.MaxDuration, lab.Lease)
	}
}

func (l *lab) readNotice(b *hclsyntax.Block) Notice {
	s := l.read(b.Body, noticeBlock, nil)
	n := Notice{
		On:      getOr(s, "on", []string{NoticeEnd, NoticeFailure, NoticeIdle}),
		Command: get[[]provision.Text](s, "command"),
		URL:     get[provision.Text](s, "url"),
		Idle:    getOr(s, "idle", DefaultIdle),
	}
	_, runs := s["command"]
	at, posts := s["url"]
	if !runs && !posts {
		l.absent(b.DefRange(), "Nobody to tell", "A notice block says who is told: by url = \"https://…\", or by command = [\"program\", …]. Write one of them, or remove the block.")
	}
	if runs && n.Command != nil && len(n.Command) == 0 {
		l.err(s["command"].at, "Wrong value", "\"command\" is empty. Write the program and its arguments, such as [\"notify-send\", \"hcl\"].")
	}
	if runs && len(n.Command) > 0 {
		l.checkProgram(s["command"].at, n.Command[0].Reveal())
	}
	if posts && at.value != nil {
		if u, err := url.Parse(n.URL.Reveal()); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			l.err(at.at, "Wrong value", "\"url\" must be an address such as \"https://hooks.example.com/T0001\".")
		}
	}
	return n
}

// checkProgram warns of a program that is not there. Where there is no PATH to look
// along, nothing is known.
func (l *lab) checkProgram(at hcl.Range, name string) {
	search, _ := l.vars.lookup("PATH")
	places := filepath.SplitList(search)
	if strings.ContainsRune(name, filepath.Separator) {
		places = []string{""}
	}
	for _, dir := range places {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return
		}
	}
	if len(places) > 0 {
		l.warn(at, "Program not found", "There is no program %q on this machine, so nobody would be told. It is run where hcl apply runs: if that is another machine, all is well.", name)
	}
}

// finish evaluates what is declared even if nothing refers to it, so that its
// mistakes are found, and puts hosts into the Config.
func (l *lab) finish(d *declared, c *Config) {
	if d.wrong {
		return
	}
	switch d.typ {
	case variableBlock, localsBlock:
		l.value(d, nil)
		return
	}
	if d.isGroup() {
		for _, member := range l.expandEach(d) {
			l.finish(member, c)
		}
		return
	}
	if h, ok := l.instance(d, nil).value.(*provision.Host); ok {
		c.Hosts = append(c.Hosts, h)
	}
}

// engines are all engines of the lab, in the order of their blocks: of one that uses
// matrix.* every form that a cell gives it, or, where no cell uses it, what can be said
// of it without one.
func (l *lab) engines(benchmarks []Benchmark) []*engines.Engine {
	inCells := map[*engines.Engine]bool{}
	for _, b := range benchmarks {
		for _, c := range b.Cells {
			inCells[c.Engine] = true
		}
	}
	var all []*engines.Engine
	for _, d := range l.order {
		members := []*declared{d}
		if d.isGroup() {
			members = d.members
		}
		for _, m := range members {
			all = append(all, formsOf(m, inCells)...)
		}
	}
	return all
}

// formsOf are the engines that a block has become, those of cells before the rest,
// in the order in which they were evaluated.
func formsOf(d *declared, inCells map[*engines.Engine]bool) []*engines.Engine {
	var used, unused []*engines.Engine
	for _, i := range d.evaluated {
		e, ok := i.value.(*engines.Engine)
		switch {
		case ok && inCells[e]:
			used = append(used, e)
		case ok:
			unused = append(unused, e)
		}
	}
	if used != nil || unused == nil {
		return used
	}
	return unused[:1]
}

// warnUnused points at blocks that change nothing.
func (l *lab) warnUnused(empty bool) {
	if l.problems.HasErrors() || empty {
		return
	}
	if len(l.benchmarks) == 0 {
		names, _ := l.src.labFiles()
		at := hcl.Range{Filename: names[0], Start: hcl.InitialPos, End: hcl.InitialPos}
		l.warn(at, "Nothing to measure", "The lab has no benchmark block, so there is nothing to plan or to apply.")
		return
	}
	for _, d := range l.order {
		if d.used || d.typ == variableBlock || d.typ == localsBlock {
			continue
		}
		l.warn(d.header, "Unused "+d.typ.name, "Nothing in the lab refers to %s, so it has no effect. Use it, or remove the block.", d.address)
	}
}

// inOrder returns attributes as they are written; HCL keeps them in a map.
func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(attrs), func(a, b *hclsyntax.Attribute) int {
		return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte
	})
}

// inOrder is inOrder for a body that is read once per cell.
func (l *lab) inOrder(body *hclsyntax.Body) []*hclsyntax.Attribute {
	attrs, ok := l.sorted[body]
	if !ok {
		attrs = inOrder(body.Attributes)
		l.sorted[body] = attrs
	}
	return attrs
}

// pos is a range as people write it: "lab.hcl:12".
func pos(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
