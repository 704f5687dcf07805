package hcl

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"hclbench/load"
	"hclbench/where"
)

// Report is the report block: what the lab wants to show of its results.
type Report struct {
	Title       string
	Description string
	Notes       []string
	Output      string   // where apply writes the page, relative to the lab's directory; empty: nowhere
	Series      []string // columns; nil: not said
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

// MetricNames are the metrics that a report block may name, besides percentiles of
// the four timings: p99_ttft_ms.
func MetricNames() []string {
	names := figures()
	for _, timing := range timings() {
		for _, statistic := range statistics() {
			names = append(names, statistic+"_"+timing+"_ms")
		}
	}
	return names
}

// figures are the metrics that are no statistic of a timing.
func figures() []string {
	return []string{"duration_s", "completed", "failed", "total_input_tokens", "total_output_tokens",
		"request_throughput", "goodput", "input_throughput", "output_throughput", "total_throughput", "peak_output_throughput",
		"output_throughput_per_gpu", "interactivity", "mean_concurrency", "prefix_cache_hit_rate", "speculative_acceptance", "tokens_per_step",
		"usd_per_million_output_tokens", "usd_per_million_total_tokens", "joules_per_output_token", "mean_gpu_power_w"}
}

func timings() []string    { return []string{"ttft", "tpot", "itl", "e2el"} }
func statistics() []string { return []string{"mean", "median", "std", "min", "max"} }

// ColumnNames are the other columns of results that its conditions may be about,
// besides the axes of the lab.
func ColumnNames() []string {
	return slices.Concat(loadColumns(), seriesColumns(),
		[]string{"dataset", "lab", "run", "command", "cell", "digest", "verdict", "slo", "repetition", "gpu_count"})
}

// loadColumns are the quantities of the load that charts have along an axis.
func loadColumns() []string {
	return []string{"concurrency", "rate", "batch", "input_tokens", "output_tokens"}
}

// seriesColumns are those that set series apart.
func seriesColumns() []string {
	return []string{"gpus", "engine", "kind", "host", "model", "image", "benchmark"}
}

var percentileName = regexp.MustCompile(`^p[0-9]{1,2}(\.[0-9]+)?_(ttft|tpot|itl|e2el)_ms$`)

func isMetric(name string) bool {
	return slices.Contains(MetricNames(), name) || percentileName.MatchString(name)
}

// metricNames are all metrics, with these percentiles.
func metricNames(percentiles []float64) []string {
	all := MetricNames()
	for _, timing := range timings() {
		for _, p := range percentiles {
			all = append(all, "p"+strconv.FormatFloat(p, 'f', -1, 64)+"_"+timing+"_ms")
		}
	}
	return all
}

// readReport evaluates the report block, and holds the names in it against the
// metrics, the columns of results, and the axes of the lab.
func (l *lab) readReport(benchmarks []Benchmark) Report {
	out := Report{References: true, Prices: true}
	if l.reportBlock == nil {
		return out
	}
	body := l.reportBlock.Body
	s := l.read(body, reportBlock, nil)
	out.Title = get[string](s, "title")
	out.Description = get[string](s, "description")
	out.Notes = get[[]string](s, "notes")
	out.Output = get[string](s, "output")
	out.Series = get[[]string](s, "series")
	out.Columns = get[[]string](s, "columns")
	out.Automatic = get[[]string](s, "automatic")
	out.References = getOr(s, "references", true)
	out.Prices = getOr(s, "prices", true)
	axes, metrics := l.axisNames(), metricNames(load.DefaultPercentiles())
	for _, b := range benchmarks {
		metrics = append(metrics, metricNames(b.Percentiles)...)
	}
	known := func(at hcl.Range, name string) {
		if !isMetric(name) {
			detail := didYouMean(name, metrics, nil)
			if detail == "" {
				detail = fmt.Sprintf(" There are %s, and %s, or a percentile, of %s: p99_ttft_ms.", inWords(figures(), "and"), inWords(statistics(), "or"), inWords(timings(), "or"))
			}
			l.err(at, "Unknown metric", "There is no metric %q.%s", name, detail)
		}
	}
	l.eachName(body, "series", out.Series, func(at hcl.Range, name string) {
		if known := slices.Concat(seriesColumns(), axes); !slices.Contains(known, name) {
			l.absent(at, "Unknown column", "Series cannot differ in %q.%s They differ in %s, or in an axis of a benchmark.", name, didYouMean(name, known, nil), inWords(seriesColumns(), "or"))
		}
	})
	l.eachName(body, "columns", out.Columns, known)
	titles := map[string]hcl.Range{}
	for _, b := range body.Blocks {
		if b.Type != chartBlock.name || len(b.Labels) != 1 {
			continue
		}
		if first, twice := titles[b.Labels[0]]; twice {
			l.err(b.DefRange(), "Duplicate chart block", "A chart with the title %q stands at %s already. Give this one another title.", b.Labels[0], pos(first))
			continue
		}
		titles[b.Labels[0]] = b.DefRange()
		out.Charts = append(out.Charts, l.chart(b, slices.Concat(ColumnNames(), axes), metrics, known))
	}
	return out
}

func (l *lab) chart(b *hclsyntax.Block, columns, metrics []string, known func(at hcl.Range, name string)) Chart {
	s := l.read(b.Body, chartBlock, nil)
	out := Chart{
		Title: b.Labels[0],
		X:     get[string](s, "x"),
		Y:     get[[]string](s, "y"),
		Where: get[string](s, "where"),
		Label: get[string](s, "label"),
		Note:  get[string](s, "note"),
	}
	if x := s["x"]; x.value != nil && !isMetric(out.X) && !slices.Contains(columns, out.X) {
		l.absent(x.at, "Unknown column", "Results have no %q to draw along an axis.%s Write %s, another axis of a benchmark, or a metric such as \"median_e2el_ms\".", out.X, didYouMean(out.X, slices.Concat(columns, metrics), nil), inWords(loadColumns(), "or"))
	}
	if x := s["label"]; x.value != nil && out.X != "" && !isMetric(out.X) {
		l.err(x.at, "No effect", "The points of this chart lie along %s, so they need no label. Remove label, or let x be a metric.", out.X)
	}
	l.eachName(b.Body, "y", out.Y, known)
	if x := s["where"]; x.value != nil && !l.broken {
		names := slices.Concat(columns, metrics)
		var mistake *where.Error
		_, comparisons, err := where.Read(out.Where, names)
		if errors.As(err, &mistake) {
			detail := strings.TrimSuffix(title(mistake.Detail), ".") + "."
			if name := mistake.Name; name != "" {
				detail = fmt.Sprintf("Results have no column %q.%s Write an axis of a benchmark, %s, or a metric such as \"p99_ttft_ms\".", name, didYouMean(name, names, nil), inWords(ColumnNames(), "or"))
			}
			l.err(x.at, "Wrong condition", "The condition is wrong here:\n\n%s\n\n%s", mistake.Place(), detail)
		}
		l.warnOfStrangers(x.at, comparisons)
	}
	return out
}

// warnOfStrangers is about comparisons with a benchmark, an engine or a host that the lab
// does not have.
func (l *lab) warnOfStrangers(at hcl.Range, comparisons []where.Comparison) {
	for _, c := range comparisons {
		there := l.namesIn(c.Name)
		if c.Negated || len(there) == 0 || c.Op != "=" && c.Op != "==" || slices.ContainsFunc(there, func(name string) bool { return where.Match(c.Value, name) }) {
			continue
		}
		l.warn(at, "Nothing to compare", "The lab has no %s %q, so the condition %s = %s never holds.%s", c.Name, c.Value, c.Name, c.Value, didYouMean(c.Value, there, nil))
	}
}

// namesIn are what results of this lab can have in a column; nil: anything.
func (l *lab) namesIn(column string) []string {
	var names []string
	for _, d := range l.order {
		all := []*declared{d}
		if d.isGroup() {
			all = d.members
		}
		for _, m := range all {
			_, label, _ := strings.Cut(m.address, ".")
			switch {
			case column == "engine" && d.typ == engineBlock:
				names = append(names, label, d.kind, d.name, m.address, m.fullName())
			case column == "kind" && d.typ == engineBlock:
				names = append(names, d.kind)
			case column == "host" && d.typ == hostBlock:
				names = append(names, m.fullName(), label, m.address)
			}
		}
	}
	for _, b := range l.benchmarks {
		if column == "benchmark" {
			names = append(names, b.Labels[0])
		}
	}
	return names
}

// eachName calls do for the names in an argument, with the range of each where
// they are written one by one.
func (l *lab) eachName(body *hclsyntax.Body, argument string, names []string, do func(at hcl.Range, name string)) {
	a, said := body.Attributes[argument]
	if !said {
		return
	}
	list, _ := a.Expr.(*hclsyntax.TupleConsExpr)
	for i, name := range names {
		at := a.Expr.Range()
		if list != nil && len(list.Exprs) == len(names) {
			at = list.Exprs[i].Range()
		}
		do(at, name)
	}
}

// axisNames are the axes of all benchmarks, as written.
func (l *lab) axisNames() []string {
	var names []string
	var walk func(body *hclsyntax.Body)
	walk = func(body *hclsyntax.Body) {
		for _, b := range body.Blocks {
			if b.Type != matrixBlock.name && b.Type != zipBlock.name && b.Type != includeBlock.name {
				continue
			}
			for _, a := range inOrder(b.Body.Attributes) {
				if !slices.Contains(names, a.Name) {
					names = append(names, a.Name)
				}
			}
			walk(b.Body)
		}
	}
	for _, b := range l.benchmarks {
		walk(b.Body)
	}
	return names
}
