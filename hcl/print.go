package hcl

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/rivo/uniseg"

	"hclbench/plain"
	"hclbench/provision"
)

// The colours of problems, as terminals understand them.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	reset  = "\x1b[0m"
)

// Write prints the problems for people: what is wrong, where, the line with the
// offending text underlined, and what to write instead. Text is wrapped at
// width columns; 0 means 80.
func (p *Problems) Write(w io.Writer, width int, color bool) error {
	if width <= 0 {
		width = 80
	}
	var b bytes.Buffer
	for i, x := range p.list {
		if i > 0 {
			b.WriteByte('\n')
		}
		p.write(&b, x, width, color)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write problems: %w", err)
	}
	return nil
}

func (p *Problems) write(b *bytes.Buffer, x Problem, width int, color bool) {
	paint := func(code, s string) string {
		if !color {
			return s
		}
		return code + s + reset
	}
	tone, word := red, "Error"
	if x.Severity == SeverityWarning {
		tone, word = yellow, "Warning"
	}
	fmt.Fprintf(b, "%s%s\n\n", paint(bold+tone, word+": "), paint(bold, x.Summary))
	if x.File != "" {
		place := fmt.Sprintf("%s:%d:%d", x.File, x.Start.Line, x.Start.Column)
		if p.outside[x.File] {
			place = x.File
		}
		if x.Context != "" {
			place += ", in " + x.Context
		}
		fmt.Fprintf(b, "  %s\n", place)
		if before, marked, after, ok := p.snippet(x, width-10); ok {
			number := fmt.Sprint(x.Start.Line)
			fmt.Fprintf(b, "  %s %s%s%s\n", paint(dim, number+" |"), before, paint(bold, marked), after)
			line := strings.Repeat("^", max(1, uniseg.StringWidth(marked)))
			fmt.Fprintf(b, "  %s %s%s\n", paint(dim, blank(number)+" |"), blank(before), paint(tone, line))
		}
		for _, v := range x.Values {
			fmt.Fprintf(b, "    %s\n", paint(dim, v))
		}
		b.WriteByte('\n')
	}
	for _, line := range wrap(x.Detail, width-2) {
		b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
}

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
	if cut := len([]rune(before)) - width/2; cut > 0 && uniseg.StringWidth(before+marked+after) > width {
		before = "…" + string([]rune(before)[cut:])
	}
	if room := width - uniseg.StringWidth(before); uniseg.StringWidth(marked) > room {
		marked, after = cutTo(marked, room), ""
	} else if room -= uniseg.StringWidth(marked); uniseg.StringWidth(after) > room {
		after = cutTo(after, room)
	}
	return before, marked, after, true
}

// cutTo shortens s to about width columns.
func cutTo(s string, width int) string {
	r := []rune(s)
	return string(r[:min(len(r), max(width-1, 1))]) + "…"
}

// printable shows tabs as four columns, and nothing that a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '·'
		}
		return r
	}, strings.ReplaceAll(strings.TrimSuffix(strings.ToValidUTF8(s, "·"), "\r"), "\t", "    "))
}

func blank(s string) string { return strings.Repeat(" ", uniseg.StringWidth(s)) }

// wrap breaks text into lines; what is indented stays as it is.
func wrap(text string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, " ") || line == "" {
			out = append(out, line)
			continue
		}
		out = append(out, plain.Wrap(plain.Words(line), " ", width)...)
	}
	return out
}
