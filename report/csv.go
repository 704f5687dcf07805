package report

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// CSV writes every row with exact numbers: who and where it is, a column for each
// axis, then every metric that any row has. docs/report.md names the columns.
func CSV(w io.Writer, rows []results.Row) error {
	s := &sheet{rows: len(rows)}
	text := func(name string, of func(r *results.Row) string) {
		c := column{key: csvText(name)}.with(len(rows), func(i int) entry { return entry{Text: csvText(of(&rows[i]))} })
		s.columns = append(s.columns, c)
	}
	for _, word := range textColumns {
		text(word.name, word.of)
	}
	for _, name := range axes(rows) {
		text("axis_"+name, func(r *results.Row) string { return axisOf(r.Axes, name) })
	}
	text("repetition", func(r *results.Row) string { return strconv.Itoa(r.Repetition) })
	text("started", func(r *results.Row) string { return stamp(r.Started) })
	text("finished", func(r *results.Row) string { return stamp(r.Finished) })
	text("verdict", func(r *results.Row) string { return r.Verdict().Verdict })
	text("reasons", func(r *results.Row) string { return strings.Join(r.Verdict().Reasons, "; ") })
	if slices.ContainsFunc(rows, func(r results.Row) bool { return metText(&r) != "" }) {
		text("slo", metText)
	}
	if slices.ContainsFunc(rows, func(r results.Row) bool { return r.Stale }) {
		text("stale", func(r *results.Row) string { return strconv.FormatBool(r.Stale) })
	}
	for _, m := range allMetrics(rows) {
		if c := m.column(rows, 0); c.known() {
			s.columns = append(s.columns, c)
		}
	}
	return s.csv(w)
}

// csv writes the sheet under the keys of its columns.
func (s *sheet) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	line := make([]string, len(s.columns))
	for row := -1; row < s.rows; row++ {
		for i, c := range s.columns {
			if line[i] = c.key; row >= 0 {
				line[i] = c.exact(row)
			}
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// exact is a number as it was measured.
func exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// csvText is text that no spreadsheet takes for a formula and no terminal for a
// command.
func csvText(s string) string {
	s = plain.Line(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) && !isNumber(s) {
		return "'" + s
	}
	return s
}

// stamp is a time as text; what is not known is empty.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// csv is what a figure's charts are drawn from, a line for each value.
func (f *figure) csv() string {
	var b bytes.Buffer
	out := csv.NewWriter(&b)
	// A buffer takes whatever is written.
	_ = out.Write([]string{"chart", "series", "engine", "gpus", "x", "x_unit", "y", "y_unit", "label", "repetitions", "lowest", "highest", "verdict"})
	for _, c := range f.charts {
		for _, l := range c.lines {
			if l.series == nil {
				continue // what is joined is there already
			}
			for _, p := range l.dots {
				_ = out.Write([]string{c.title, csvText(l.series.label), csvText(l.series.engine), csvText(l.series.gpus), exact(p.x), unit(c.x), exact(p.y), unit(c.y),
					csvText(p.label), strconv.Itoa(p.n), exact(p.low), exact(p.high), l.verdict(p)})
			}
		}
		for _, g := range c.groups {
			for _, x := range g.bars {
				label := g.label
				if x.before {
					label += ", without"
				}
				_ = out.Write([]string{c.title, csvText(x.series.label), csvText(x.series.engine), csvText(x.series.gpus), "", "", exact(x.value), unit(c.y), csvText(label), "", "", "", line{}.verdict(dot{doubt: x.doubt, mark: x.mark})})
			}
		}
	}
	out.Flush()
	return b.String()
}

// verdict is that of a value of a line.
func (l line) verdict(d dot) string {
	switch {
	case l.published:
		return "published"
	case d.doubt:
		return load.Suspect
	case d.mark != "":
		return d.mark
	}
	return load.Valid
}

// unit says what an axis counts.
func unit(a axis) string {
	return strings.TrimSpace(strings.Trim(a.title+" "+a.unit, " "))
}
