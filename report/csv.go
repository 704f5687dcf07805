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
	out := csv.NewWriter(w)
	names := axes(rows)
	var metrics []metric
	for _, m := range allMetrics(rows) {
		if anyValue(rows, m) {
			metrics = append(metrics, m)
		}
	}
	head := []string{"lab", "run", "command", "cell", "benchmark", "engine", "kind", "host", "gpus", "gpu_count", "model", "image", "digest"}
	for _, name := range names {
		head = append(head, csvText("axis_"+name))
	}
	head = append(head, "repetition", "started", "finished", "verdict", "reasons")
	slo := slices.ContainsFunc(rows, func(r results.Row) bool { return metText(&r) != "" })
	if slo {
		head = append(head, "slo")
	}
	stale := slices.ContainsFunc(rows, func(r results.Row) bool { return r.Stale })
	if stale {
		head = append(head, "stale")
	}
	for _, m := range metrics {
		head = append(head, m.name)
	}
	if err := out.Write(head); err != nil {
		return err
	}
	texts := len(head) - len(metrics) // what is no figure comes first
	line := make([]string, 0, len(head))
	for i := range rows {
		r := &rows[i]
		d := &r.Deployment
		line = append(line[:0], r.Run.Lab, r.RunID, r.Run.Command, r.ID, r.Benchmark, d.Engine, d.Kind, d.Host, d.GPUs, strconv.Itoa(gpuCount(r)), d.Model, d.Image, d.Digest)
		for _, name := range names {
			v, ok := r.Axes.Value(name)
			if !ok {
				v = ""
			}
			line = append(line, axisText(v))
		}
		v := r.Verdict()
		line = append(line, strconv.Itoa(r.Repetition), stamp(r.Started), stamp(r.Finished), v.Verdict, strings.Join(v.Texts(), "; "))
		if slo {
			line = append(line, metText(r))
		}
		if stale {
			line = append(line, strconv.FormatBool(r.Stale))
		}
		for _, m := range metrics {
			if v, ok := m.value(r); ok {
				line = append(line, exact(v))
			} else {
				line = append(line, "")
			}
		}
		for j := range texts {
			line[j] = csvText(line[j])
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

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
