package report

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/plain"
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/results/formats"
)

// Reference is a table of figures that someone else published for the cells of a
// benchmark. A column is an axis of the benchmark, a metric, or neither.
type Reference struct {
	Benchmark string
	Name      string
	Source    string           // where they are published, usually a URL
	Rows      []map[string]any // values are int64, float64, bool or string
}

// Compared is one published row beside what was measured.
type Compared struct {
	Benchmark string       `json:"benchmark"`
	Reference string       `json:"reference"`
	Source    string       `json:"source,omitempty"`
	Axes      results.Axes `json:"axes"`           // of the published row, as far as the lab has them
	Cell      string       `json:"cell,omitempty"` // that it is compared with; empty: there is none
	Figures   []Figure     `json:"figures"`

	row map[string]any // as it was published
}

// Figure is one metric, published and measured.
type Figure struct {
	Metric    string   `json:"metric"`
	Unit      string   `json:"unit,omitempty"`
	Published float64  `json:"published"`
	Measured  *float64 `json:"measured,omitempty"`       // the median of the repetitions; nil: not measured
	Change    *float64 `json:"change_percent,omitempty"` // of measured against published
	Suspect   bool     `json:"suspect,omitempty"`        // what was measured is

	of Metric
}

// Compare finds for each published row the cell that it is of: the one whose axes
// have the values of the row's columns of the same names. A row that fits several
// cells that differ in more than their repetition is compared with none.
func Compare(rows []results.Row, references []Reference) []Compared {
	// What was published itself, simulated, or is of another lab than this one, is not
	// compared; and two things of the same axes are no repetitions.
	known := cells(rows, func(r *results.Row) bool { return kindOfRun(r) == "" && !r.Stale })
	var out []Compared
	for _, ref := range references {
		for _, published := range ref.Rows {
			c := Compared{Benchmark: ref.Benchmark, Reference: ref.Name, Source: ref.Source, Axes: publishedAxes(published),
				row: published}
			fits := slices.DeleteFunc(slices.Clone(known), func(rows []*results.Row) bool {
				return rows[0].Benchmark != ref.Benchmark || !fit(rows[0].Axes, published)
			})
			var of []*results.Row
			if len(fits) == 1 {
				of = notVoid(fits[0])
				c.Axes = fits[0][0].Axes
			}
			if len(of) > 0 {
				c.Cell = of[0].ID
			}
			for _, f := range publishedFigures(published) {
				if e, ok := weigh(f.of, of, nil); ok {
					f.Measured, f.Suspect = new(e.Median), e.Suspect
					if f.Published != 0 {
						f.Change = new((*f.Measured/f.Published - 1) * 100)
					}
				}
				c.Figures = append(c.Figures, f)
			}
			if len(c.Figures) > 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

// Measured are the published rows that were measured, and how many were not.
func Measured(all []Compared) (with []Compared, without int) {
	with = slices.DeleteFunc(slices.Clone(all), func(c Compared) bool { return c.Cell == "" })
	return with, len(all) - len(with)
}

// fit reports whether a published row is of the cell: whatever both name is the same.
func fit(axes results.Axes, published map[string]any) bool {
	return !slices.ContainsFunc(axes, func(a results.Axis) bool {
		v, named := published[a.Name]
		return named && !same(a.Value, v)
	})
}

// same compares a lab's value with a published one, which may be text: files of
// comma-separated values have nothing else.
func same(a, b any) bool {
	if x, ok := float(a); ok {
		if y, ok := float(b); ok {
			return x == y
		}
	}
	return strings.EqualFold(fmt.Sprint(a), fmt.Sprint(b))
}

// thousands is a number whose thousands are parted by commas. A comma before decimals is not read.
var thousands = regexp.MustCompile(`^-?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$`)

// float is a number, or a text that is one.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		if v = strings.TrimSpace(v); thousands.MatchString(v) {
			v = strings.ReplaceAll(v, ",", "")
		}
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil
	}
	return 0, false
}

// publishedAxes are the columns by which a row without a cell is told from others.
func publishedAxes(published map[string]any) results.Axes {
	var axes results.Axes
	for _, name := range []string{"model", "engine", "dataset", "input_tokens", "output_tokens", "concurrency", "rate",
		"batch"} {
		if v, ok := published[name]; ok {
			if f, isNumber := float(v); isNumber {
				v = f
				if f == float64(int64(f)) {
					v = int64(f)
				}
			}
			axes = append(axes, results.Axis{Name: name, Value: v})
		}
	}
	return axes
}

// publishedFigures are a row's columns that are metrics, in the order of tables.
func publishedFigures(published map[string]any) []Figure {
	r := results.Row{Cell: results.Cell{Summary: formats.Figures(published)}}
	var figures []Figure
	for _, m := range allMetrics([]results.Row{r}) {
		if v, ok := m.value(&r); ok && m.Better != 0 && m.Name != failed.Name && m.Name != interactivity.Name {
			figures = append(figures, Figure{Metric: m.Name, Unit: m.Unit, Published: v, of: m})
		}
	}
	slices.SortStableFunc(figures, func(a, b Figure) int { return tableOrder(a.Metric) - tableOrder(b.Metric) })
	return figures
}

// tableOrder orders metrics: throughputs, then each timing with its median first.
func tableOrder(name string) int {
	kinds := []string{"output_throughput", "total_throughput", "request_throughput", "input_throughput", "goodput",
		"_ttft_", "_tpot_", "_itl_", "_e2el_"}
	i := slices.IndexFunc(kinds, func(kind string) bool { return strings.Contains(name, kind) })
	if i < 0 || strings.HasPrefix(name, "peak") {
		return 1000
	}
	statistics := []string{"median", "mean", "p", ""}
	return 10*i + slices.IndexFunc(statistics, func(s string) bool { return strings.HasPrefix(name, s) })
}

// shown are what tables have room for: one throughput and one statistic of each timing.
func shown(all []Compared) []Metric {
	var metrics []Metric
	for _, choice := range [][]string{
		{"output_throughput", "total_throughput", "request_throughput"},
		{"median_ttft_ms", "mean_ttft_ms", "p99_ttft_ms"},
		{"median_tpot_ms", "mean_tpot_ms", "p99_tpot_ms"},
		{"median_itl_ms", "mean_itl_ms", "p99_itl_ms"},
		{"median_e2el_ms", "mean_e2el_ms", "p99_e2el_ms"},
	} {
		for _, name := range choice {
			if i := slices.IndexFunc(all, func(c Compared) bool { return c.figure(name) != nil }); i >= 0 {
				metrics = append(metrics, all[i].figure(name).of)
				break
			}
		}
	}
	return metrics
}

func (c *Compared) figure(name string) *Figure {
	for i := range c.Figures {
		if c.Figures[i].Metric == name {
			return &c.Figures[i]
		}
	}
	return nil
}

// header is a metric above its columns: "TTFT p50 ms".
func (m Metric) header() string {
	if m.Name == outputThroughput.Name || m.Name == totalThroughput.Name || m.Name == inputThroughput.Name {
		return m.Short + " " + m.Unit
	}
	if m.Group == "" {
		return m.Short
	}
	return strings.TrimSpace(m.Group + " " + m.Short + " " + m.Unit)
}

// PublishedFindings are what published figures say of cells that the lab plans.
func PublishedFindings(about About) []string {
	return Findings(publishedRows(nil, about), &about.Layout)
}

// References prints published figures beside measured ones, a table for each
// reference, as wide as fits.
func References(w io.Writer, all []Compared, opt Options) error {
	var b bytes.Buffer
	for _, of := range byReference(all) {
		metrics := shown(of)
		s := referenceSheet(of, metrics)
		for n := len(metrics) - 1; n >= 1 && s.over(opt.Width) > 0; n-- {
			s = referenceSheet(of, metrics[:n])
		}
		title := fmt.Sprintf("published by %s, benchmark %s", of[0].Reference, of[0].Benchmark)
		if of[0].Source != "" {
			title += ", " + of[0].Source
		}
		title = strings.Join(plain.Wrap(strings.Split(plain.Line(title), ", "), ", ", opt.Width), "\n")
		fmt.Fprintf(&b, "%s\n\n%s\n\n", title, strings.Join(s.lines(), "\n"))
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// byReference keeps together what stands in one table.
func byReference(all []Compared) [][]Compared {
	return grouped(all, func(c Compared) [2]string { return [2]string{c.Reference, c.Benchmark} })
}

// referenceSheet has a column for each axis and three for each metric, or one where
// nothing was measured.
func referenceSheet(all []Compared, metrics []Metric) *sheet {
	s := &sheet{rows: len(all)}
	for _, name := range axisNames(len(all), func(i int) results.Axes { return all[i].Axes }) {
		c := column{name: name}.filled(len(all), func(i int) string { return axisOf(all[i].Axes, name) })
		s.columns = append(s.columns, c.aligned())
	}
	with, _ := Measured(all)
	for _, m := range metrics {
		parts := []column{{group: m.header(), name: "published"}, {group: m.header(), name: "measured"},
			{group: m.header(), name: "change"}}
		if len(with) == 0 {
			parts = []column{{name: m.header()}}
		}
		for part, c := range parts {
			s.columns = append(s.columns, c.filled(len(all), func(i int) string { return all[i].figure(m.Name).texts()[part] }))
		}
	}
	return s
}

// texts are a figure for people: published, measured, change.
func (f *Figure) texts() (parts [3]string) {
	if f == nil {
		return parts
	}
	parts[0] = number.Text(f.Published)
	if f.Measured != nil {
		if parts[1] = number.Text(*f.Measured); f.Suspect {
			parts[1] += " suspect"
		}
	}
	if f.Change != nil {
		parts[2] = number.Change(*f.Change / 100)
	}
	return parts
}
