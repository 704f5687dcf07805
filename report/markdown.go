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

// Markdown writes what [Table] shows as a table of GitHub's Markdown, below what the lab says about
// it, and with the published figures, if there are any, below that.
func Markdown(w io.Writer, rows []results.Row, about About) error {
	var b bytes.Buffer
	paragraph := func(text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s\n\n", markdownText(text))
		}
	}
	if title := about.Layout.Title; title != "" {
		fmt.Fprintf(&b, "## %s\n\n", markdownText(title))
	}
	for _, text := range slices.Concat([]string{about.Layout.Description}, about.Layout.Notes) {
		paragraph(text)
	}
	if len(rows) > 0 {
		notes := newDoubts(rows)
		tables, common := newSheets(rows, &about.Layout, notes)
		paragraph(sentence(commonMark(rows)))
		paragraph(strings.Join(slices.Concat(origin(rows), common), ", "))
		for i, s := range tables {
			if i > 0 {
				b.WriteByte('\n')
			}
			paragraph(strings.Join(s.common, ", "))
			s.markdown(&b)
		}
		for _, text := range slices.Concat(Findings(rows, &about.Layout), forcedText(rows), tooFew(rows, &about.Layout, tables)) {
			fmt.Fprintf(&b, "\n%s\n", markdownText(text))
		}
		for i, d := range notes {
			fmt.Fprintf(&b, "\n[%d] %s\n", i+1, markdownText(d.Text))
		}
	}
	for _, of := range byReference(about.References) {
		if len(rows) > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(markdownText(fmt.Sprintf("Published by %s, benchmark %s", of[0].Reference, of[0].Benchmark)))
		if of[0].Source != "" {
			fmt.Fprintf(&b, ", <%s>", of[0].Source)
		}
		b.WriteString("\n\n")
		referenceSheet(of, shown(of)).markdown(&b)
	}
	if len(rows)+len(about.References) == 0 {
		b.WriteString("No results.\n")
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

func (s *sheet) markdown(b *bytes.Buffer) {
	line := func(of func(c column) string) {
		for _, c := range s.columns {
			b.WriteString("|" + of(c))
		}
		b.WriteString("|\n")
	}
	line(func(c column) string { return " " + markdownText(strings.TrimSpace(c.group+" "+c.name)) + " " })
	line(func(c column) string {
		if c.left {
			return "---"
		}
		return "---:"
	})
	for row := range s.rows {
		line(func(c column) string { return " " + markdownText(c.text(row)) + " " })
	}
}

// markdownText is text that Markdown shows as it is, and that names nobody to GitHub.
func markdownText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "](", `]\(`, "@", "@\u200b", "|", `\|`, "\n", " ", "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`").Replace(s)
}
