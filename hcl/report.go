package hcl

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/where"
)

// Report is the report block: what the lab wants to show of its results.
type Report struct {
	Title       string
	Description string
	Headline    string // empty: what was found
	Notes       []string
	Output      string   // where apply writes the page, relative to the lab's directory; empty: nowhere
	Series      []string // columns; nil: not said
	Baseline    *engines.Engine
	Columns     []string // metrics; nil: not said
	Automatic   []string // of the words below; nil: all
	References  bool     // published figures are shown
	Prices      bool     // and money
	Charts      []Chart  // in the order in which they are written
}

// Chart is a chart block.
type Chart struct {
	Title string
	X     string   // a quantity of the load, a metric, or another column
	Y     []string // metrics
	Where string   // a condition of package where; empty: all cells
	Label string   // a quantity of the load; empty: not said
	Note  string
}

// The charts that a report has without being asked for them.
const (
	AutomaticBenchmarks    = "benchmarks"
	AutomaticPrefixCache   = "prefix-cache"
	AutomaticDistributions = "distributions"
	AutomaticTimeLines     = "time-lines"
)

func reportBlock() *blockType {
	return &blockType{
		name: "report", once: true,
		args: []argument{
			arg("title", text, func(r *Report, s string) { r.Title = s }),
			arg("description", text, func(r *Report, s string) { r.Description = s }),
			arg("headline", text, func(r *Report, s string) { r.Headline = s }),
			arg("notes", texts, func(r *Report, list []string) { r.Notes = list }),
			arg("output", htmlFile, func(r *Report, s string) { r.Output = s }),
			arg("series", names, func(r *Report, list []string) { r.Series = list }),
			arg("baseline", measured, func(r *Report, e *engines.Engine) { r.Baseline = e }),
			arg("columns", names, func(r *Report, list []string) { r.Columns = list }),
			arg("automatic", automatic, func(r *Report, list []string) { r.Automatic = list }),
			arg("references", truth, func(r *Report, on bool) { r.References = on }),
			arg("prices", truth, func(r *Report, on bool) { r.Prices = on }),
		},
		blocks: []nested{{typ: chartBlock(), many: true}},
	}
}

func chartBlock() *blockType {
	return &blockType{
		name: "chart", labels: []label{{what: "title", form: anyText}},
		args: []argument{
			arg("x", text, func(c *Chart, s string) { c.X = s }).must("Along the axis: " +
				inWords(ticked(loadColumns()), "or") + "; a metric; or any other axis or column, which makes bars."),
			arg("y", oneOrMore, func(c *Chart, list []string) { c.Y = list }).
				must("A metric, or a list of metrics with a panel for each."),
			arg("where", text, func(c *Chart, s string) { c.Where = s }),
			arg("label", word(loadColumns()...), func(c *Chart, s string) { c.Label = s }),
			arg("note", text, func(c *Chart, s string) { c.Note = s }),
		},
	}
}

// reportReader reads the report block, and holds its names against what results have.
type reportReader struct {
	*block
	axes    []string
	columns []string // and axes
	metrics []metric.Metric
}

func readReport(r *reader, benchmarks []Benchmark) Report {
	out := Report{References: true, Prices: true}
	x := &reportReader{axes: r.axisNames(), metrics: withPercentiles(load.DefaultPercentiles())}
	x.columns = slices.Concat(ColumnNames(), x.axes)
	for _, b := range benchmarks {
		x.metrics = append(x.metrics, withPercentiles(b.Percentiles)...)
	}
	for _, b := range r.topBlocks("report") {
		x.block = b.read(&out, nil)
		x.checkBaseline(out.Baseline, benchmarks)
		x.eachName("series", out.Series, x.checkSeries)
		x.eachName("columns", out.Columns, x.checkMetric)
		for _, chart := range b.inner("chart") {
			c := Chart{Title: chart.label}
			x.block = chart.read(&c, nil)
			x.checkChart(c)
			out.Charts = append(out.Charts, c)
		}
	}
	return out
}

// checkBaseline: only what is measured has figures that others can be held against.
func (x *reportReader) checkBaseline(e *engines.Engine, benchmarks []Benchmark) {
	if e == nil || !x.settled() || slices.ContainsFunc(benchmarks, func(b Benchmark) bool {
		return slices.ContainsFunc(b.Cells, func(c Cell) bool { return c.Engine.Label() == e.Label() })
	}) {
		return
	}
	x.warn(x.arg("baseline").at, "Nothing to compare",
		"No benchmark measures %s, so nothing is held against it. Name an engine that one measures.", e.Address())
}

func (x *reportReader) checkMetric(at hcl.Range, name string) {
	if isMetric(name) {
		return
	}
	hint := didYouMean(name, metric.Names(x.metrics), nil)
	if hint == "" {
		var timings []string
		for _, t := range metric.Timings() {
			timings = append(timings, t.Key)
		}
		hint = fmt.Sprintf(" There are %s, and %s, or a percentile, of %s: p99_ttft_ms.",
			inWords(metric.Names(metric.Figures()), "and"), inWords(metric.Statistics(), "or"), inWords(timings, "or"))
	}
	x.fail(at, "Unknown metric", "There is no metric %q.%s", name, hint)
}

func (x *reportReader) checkSeries(at hcl.Range, name string) {
	if known := slices.Concat(seriesColumns(), x.axes); !slices.Contains(known, name) {
		x.missing(at, "", "Unknown column", "Series cannot differ in %q.%s They differ in %s, or in an axis of a benchmark.",
			name, didYouMean(name, known, nil), inWords(seriesColumns(), "or"))
	}
}

func (x *reportReader) checkChart(c Chart) {
	all := slices.Concat(x.columns, metric.Names(x.metrics))
	if along := x.arg("x"); along.fits() && !isMetric(c.X) && !slices.Contains(x.columns, c.X) {
		x.missing(along.at, "", "Unknown column", "Results have no %q to draw along an axis.%s Write %s, another axis, "+
			"or a metric.", c.X, didYouMean(c.X, all, nil), inWords(loadColumns(), "or"))
	}
	if label := x.arg("label"); label.fits() && c.X != "" && !isMetric(c.X) {
		x.fail(label.at, "No effect",
			"The points of this chart lie along %s and need no label. Remove it, or let x be a metric.", c.X)
	}
	x.eachName("y", c.Y, x.checkMetric)
	if condition := x.arg("where"); condition.fits() && !x.broken {
		x.checkCondition(condition.at, c.Where, slices.Concat(all, headings(x.metrics)))
	}
}

func (x *reportReader) checkCondition(at hcl.Range, condition string, names []string) {
	var mistake *where.Error
	_, comparisons, err := where.Read(condition, names)
	if errors.As(err, &mistake) {
		detail := strings.TrimSuffix(title(mistake.Detail), ".") + "."
		if name := mistake.Name; name != "" {
			detail = fmt.Sprintf("Results have no column %q.%s Write an axis of a benchmark, %s, or a metric.",
				name, didYouMean(name, names, nil), inWords(ColumnNames(), "or"))
		}
		x.fail(at, "Wrong condition", "The condition is wrong here:\n\n%s\n\n%s", mistake.Place(), detail)
	}
	for _, c := range comparisons {
		there := namesIn(x.reader, c.Name)
		matches := func(name string) bool { return where.Match(c.Value, name) }
		if c.Negated || len(there) == 0 || c.Op != "=" && c.Op != "==" || slices.ContainsFunc(there, matches) {
			continue
		}
		x.warn(at, "Nothing to compare", "The lab has no %s %q, so the condition %[1]s = %[2]s never holds.%[3]s",
			c.Name, c.Value, didYouMean(c.Value, there, nil))
	}
}

// namesIn are what results of this lab can have in a column; nil: anything.
func namesIn(r *reader, column string) []string {
	var names []string
	for _, d := range r.declaredOf("engine", "group", "host") {
		_, label, _ := strings.Cut(d.address, ".")
		switch {
		case column == "engine" && d.typ.name == "engine":
			names = append(names, label, d.kind, d.name, d.address, d.fullName())
		case column == "kind" && d.typ.name == "engine":
			names = append(names, d.kind)
		case column == "engine" && d.typ.name == "group":
			names = append(names, d.address, d.name, d.fullName())
		case column == "kind" && d.typ.name == "group":
			names = append(names, d.typ.name)
		case column == "host" && d.typ.name == "host":
			names = append(names, d.fullName(), label, d.address)
		}
	}
	if column == "benchmark" {
		for _, b := range r.topBlocks("benchmark") {
			names = append(names, b.label)
		}
	}
	return names
}

// eachName calls do for the names in an argument, with their places.
func (x *reportReader) eachName(argument string, names []string, do func(hcl.Range, string)) {
	for i, name := range names {
		do(x.elementRange(argument, i), name)
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
		strings.Fields("dataset lab run command cell digest verdict slo repetition gpu_count"))
}

// loadColumns are the quantities of the load that charts have along an axis.
func loadColumns() []string {
	return []string{"concurrency", "rate", "batch", "input_tokens", "output_tokens"}
}

// seriesColumns are those that set series apart.
func seriesColumns() []string {
	return []string{"gpus", "engine", "kind", "host", "model", "image", "benchmark"}
}
