package hcl

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/plain"
	"hclbench/where"
)

func reportBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "report", Once: true,
		Args: []lang.Argument{
			lang.Arg("title", lang.Text, func(r *Report, s string) { r.Title = s }),
			lang.Arg("description", lang.Text, func(r *Report, s string) { r.Description = s }),
			lang.Arg("headline", lang.Text, func(r *Report, s string) { r.Headline = s }),
			lang.Arg("notes", lang.Texts, func(r *Report, list []string) { r.Notes = list }),
			lang.Arg("output", htmlFile, func(r *Report, s string) { r.Output = s }),
			lang.Arg("series", lang.Names, func(r *Report, list []string) { r.Series = list }),
			lang.Arg("baseline", measured, func(r *Report, e *engines.Engine) { r.Baseline = e }),
			lang.Arg("columns", lang.Names, func(r *Report, list []string) { r.Columns = list }),
			lang.Arg("automatic", automatic, func(r *Report, list []string) { r.Automatic = list }),
			lang.Arg("references", lang.Bool, func(r *Report, on bool) { r.References = on }),
			lang.Arg("prices", lang.Bool, func(r *Report, on bool) { r.Prices = on }),
		},
		Blocks: []lang.Nested{{Type: chartBlock(), Many: true}},
	}
}

func chartBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "chart", Labels: []lang.Label{{What: "title", Form: lang.AnyText}},
		Args: []lang.Argument{
			lang.Arg("x", lang.Text, func(c *Chart, s string) { c.X = s }).Required("Along the axis: " +
				plain.List(lang.Ticked(loadColumns()), "or") + "; a metric; or any other axis or column, which makes bars."),
			lang.Arg("y", lang.OneOrMoreNames, func(c *Chart, list []string) { c.Y = list }).
				Required("A metric, or a list of metrics with a panel for each."),
			lang.Arg("where", lang.Text, func(c *Chart, s string) { c.Where = s }),
			lang.Arg("label", lang.OneOf(loadColumns()...), func(c *Chart, s string) { c.Label = s }),
			lang.Arg("note", lang.Text, func(c *Chart, s string) { c.Note = s }),
		},
	}
}

// reportReader reads the report block, and holds its names against what results have.
type reportReader struct {
	*lang.Block
	axes    []string
	columns []string // and axes
	metrics []metric.Metric
}

func readReport(r *lang.Reader, benchmarks []Benchmark) Report {
	out := Report{References: true, Prices: true}
	x := &reportReader{axes: r.AxisNames(), metrics: withPercentiles(load.DefaultPercentiles())}
	x.columns = slices.Concat(ColumnNames(), x.axes)
	for _, b := range benchmarks {
		x.metrics = append(x.metrics, withPercentiles(b.Percentiles)...)
	}
	for _, b := range r.Blocks("report") {
		x.Block = b.Read(&out, nil)
		x.checkBaseline(out.Baseline, benchmarks)
		x.eachName("series", out.Series, x.checkSeries)
		x.eachName("columns", out.Columns, x.checkMetric)
		for _, chart := range b.Inner("chart") {
			c := Chart{Title: chart.Label}
			x.Block = chart.Read(&c, nil)
			x.checkChart(c)
			out.Charts = append(out.Charts, c)
		}
	}
	return out
}

// checkBaseline: only what is measured has figures that others can be held against.
func (x *reportReader) checkBaseline(e *engines.Engine, benchmarks []Benchmark) {
	if e == nil || !x.Settled() || slices.ContainsFunc(benchmarks, func(b Benchmark) bool {
		return slices.ContainsFunc(b.Cells, func(c Cell) bool { return c.Engine.Label() == e.Label() })
	}) {
		return
	}
	x.Warn(x.At("baseline"), "Nothing to compare",
		"No benchmark measures %s, so nothing is held against it. Name an engine that one measures.", e.Address())
}

func (x *reportReader) checkMetric(at lang.Place, name string) {
	if isMetric(name) {
		return
	}
	hint := lang.DidYouMean(name, metric.Names(x.metrics), nil)
	if hint == "" {
		var timings []string
		for _, t := range metric.Timings() {
			timings = append(timings, t.Key)
		}
		hint = fmt.Sprintf(" There are %s, and %s, or a percentile, of %s: p99_ttft_ms.",
			plain.List(metric.Names(metric.Figures()), "and"), plain.List(metric.Statistics(), "or"), plain.List(timings, "or"))
	}
	x.Fail(at, "Unknown metric", "There is no metric %q.%s", name, hint)
}

func (x *reportReader) checkSeries(at lang.Place, name string) {
	if known := slices.Concat(seriesColumns(), x.axes); !slices.Contains(known, name) {
		x.Fail(at.Lacking(""), "Unknown column", "Series cannot differ in %q.%s They differ in %s, or in an axis of a benchmark.",
			name, lang.DidYouMean(name, known, nil), plain.List(seriesColumns(), "or"))
	}
}

func (x *reportReader) checkChart(c Chart) {
	all := slices.Concat(x.columns, metric.Names(x.metrics))
	if along := x.Arg("x"); along.IsValid() && !isMetric(c.X) && !slices.Contains(x.columns, c.X) {
		x.Fail(along.At.Lacking(""), "Unknown column", "Results have no %q to draw along an axis.%s Write %s, another axis, "+
			"or a metric.", c.X, lang.DidYouMean(c.X, all, nil), plain.List(loadColumns(), "or"))
	}
	if label := x.Arg("label"); label.IsValid() && c.X != "" && !isMetric(c.X) {
		x.Fail(label.At, "No effect",
			"The points of this chart lie along %s and need no label. Remove it, or let x be a metric.", c.X)
	}
	x.eachName("y", c.Y, x.checkMetric)
	if condition := x.Arg("where"); condition.IsValid() && !x.Broken {
		x.checkCondition(condition.At, c.Where, slices.Concat(all, headings(x.metrics)))
	}
}

func (x *reportReader) checkCondition(at lang.Place, condition string, names []string) {
	var mistake *where.Error
	_, comparisons, err := where.Read(condition, names)
	if errors.As(err, &mistake) {
		detail := strings.TrimSuffix(lang.Title(mistake.Detail), ".") + "."
		if name := mistake.Name; name != "" {
			detail = fmt.Sprintf("Results have no column %q.%s Write an axis of a benchmark, %s, or a metric.",
				name, lang.DidYouMean(name, names, nil), plain.List(ColumnNames(), "or"))
		}
		x.Fail(at, "Wrong condition", "The condition is wrong here:\n\n%s\n\n%s", mistake.Place(), detail)
	}
	for _, c := range comparisons {
		there := namesIn(x.Reader, c.Name)
		matches := func(name string) bool { return where.Match(c.Value, name) }
		if c.Negated || len(there) == 0 || c.Op != "=" && c.Op != "==" || slices.ContainsFunc(there, matches) {
			continue
		}
		x.Warn(at, "Nothing to compare", "The lab has no %s %q, so the condition %[1]s = %[2]s never holds.%[3]s",
			c.Name, c.Value, lang.DidYouMean(c.Value, there, nil))
	}
}

// namesIn are what results of this lab can have in a column; nil: anything.
func namesIn(r *lang.Reader, column string) []string {
	var names []string
	for _, d := range r.Declared("engine", "group", "host") {
		_, label, _ := strings.Cut(d.Address, ".")
		switch {
		case column == "engine" && d.Type.Name == "engine":
			names = append(names, label, d.Kind, d.Name, d.Address, d.FullName())
		case column == "kind" && d.Type.Name == "engine":
			names = append(names, d.Kind)
		case column == "engine" && d.Type.Name == "group":
			names = append(names, d.Address, d.Name, d.FullName())
		case column == "kind" && d.Type.Name == "group":
			names = append(names, d.Type.Name)
		case column == "host" && d.Type.Name == "host":
			names = append(names, d.FullName(), label, d.Address)
		}
	}
	if column == "benchmark" {
		for _, b := range r.Blocks("benchmark") {
			names = append(names, b.Label)
		}
	}
	return names
}

// eachName calls do for the names in an argument, with their places.
func (x *reportReader) eachName(argument string, names []string, do func(lang.Place, string)) {
	for i, name := range names {
		do(x.Element(argument, i), name)
	}
}

// withPercentiles are all metrics, with these percentiles.
func withPercentiles(percentiles []float64) []metric.Metric {
	return metric.All(func(metric.Timing) []string {
		names := make([]string, len(percentiles))
		for i, p := range percentiles {
			names[i] = "p" + strconv.FormatFloat(p, 'f', -1, 64)
		}
		return names
	})
}

func isMetric(name string) bool { _, ok := metric.Named(name); return ok }

// headings are metrics by the names above their columns, which conditions take too: ttft_p99.
func headings(metrics []metric.Metric) []string {
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.Heading()
	}
	return names
}

// ConditionNames are all that its conditions may be about, besides the axes of the lab and percentiles.
func ConditionNames() []string {
	all := metric.All(nil)
	return slices.Concat(ColumnNames(), metric.Names(all), headings(all))
}

// ColumnNames are the columns of results that are no metric, besides the axes of the lab.
func ColumnNames() []string {
	return slices.Concat(loadColumns(), seriesColumns(),
		strings.Fields("dataset lab run command cell digest verdict accuracy tool_call_f1 slo repetition gpu_count"))
}

// loadColumns are the quantities of the load that charts have along an axis.
func loadColumns() []string {
	return []string{"concurrency", "rate", "batch", "input_tokens", "output_tokens"}
}

// seriesColumns are those that set series apart.
func seriesColumns() []string {
	return []string{"gpus", "engine", "kind", "host", "model", "image", "benchmark"}
}
