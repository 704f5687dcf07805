package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/results"
)

// Markdown writes what [Table] shows as a table of GitHub's Markdown, below what
// the lab says about it, and with the published figures, if there are any, below
// that.
func Markdown(w io.Writer, rows []results.Row, about About) error {
	var b bytes.Buffer
	if title := about.Layout.Title; title != "" {
		fmt.Fprintf(&b, "## %s\n\n", markdownText(title))
	}
	for _, text := range append([]string{about.Layout.Description}, about.Layout.Notes...) {
		if text != "" {
			fmt.Fprintf(&b, "%s\n\n", markdownText(text))
		}
	}
	if len(rows) > 0 {
		notes := newFootnotes(rows)
		var columns []column
		constant := origin(rows)
		for _, c := range append(slices.Concat(identity(rows), counts(rows), metrics(rows, about.Layout.Columns)), verdicts(rows, notes)) {
			switch {
			case c.constant == nil || !c.same():
				columns = append(columns, c)
			case c.cells[0] != "" && c.cells[0] != none:
				constant = append(constant, c.constant(c.cells[0]))
			}
		}
		if text := mark(rows[0]); text != "" && !mixed(rows) {
			fmt.Fprintf(&b, "%s\n\n", markdownText(sentence(text)))
		}
		fmt.Fprintf(&b, "%s\n\n", markdownText(strings.Join(constant, ", ")))
		markdownTable(&b, columns)
		for i, text := range notes.texts {
			fmt.Fprintf(&b, "\n[%d] %s\n", i+1, markdownText(text))
		}
	}
	for _, of := range byReference(about.References) {
		if len(rows) > 0 {
			b.WriteByte('\n')
		}
		title := fmt.Sprintf("Published by %s, benchmark %s", of[0].Reference, of[0].Benchmark)
		fmt.Fprintf(&b, "%s", markdownText(title))
		if of[0].Source != "" {
			fmt.Fprintf(&b, ", <%s>", of[0].Source)
		}
		b.WriteString("\n\n")
		markdownTable(&b, referenceGrid(of, shown(of)).columns)
	}
	if len(rows)+len(about.References) == 0 {
		b.WriteString("No results.\n")
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

func markdownTable(b *bytes.Buffer, columns []column) {
	b.WriteByte('|')
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", markdownText(strings.TrimSpace(c.group+" "+c.name)))
	}
	b.WriteString("\n|")
	for _, c := range columns {
		b.WriteString(map[bool]string{true: "---|", false: "---:|"}[c.left])
	}
	b.WriteByte('\n')
	if len(columns) == 0 {
		return
	}
	for i := range columns[0].cells {
		b.WriteByte('|')
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", markdownText(c.cells[i]))
		}
		b.WriteByte('\n')
	}
}

// markdownText is text that Markdown shows as it is.
func markdownText(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`").Replace(s)
}
