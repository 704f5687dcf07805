package formats

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"hclbench/load"
	"hclbench/results"
)

// column is what the name of a column is guessed to mean: a figure, a part of the load,
// something about the engine, or, with none of them, an axis when it holds text.
type column struct {
	written string
	name    string // in small letters and underscores
	engine  string // that the figure is of, when its name says so
	meaning
}

// meaning is what is made of a column's numbers and texts.
type meaning struct {
	figure string                           // in a summary's JSON, when it is one
	axis   string                           // of the load, which text may be too: "sharegpt" for a length
	set    func(r *results.Cell, v float64) // nil: it is no number
	text   func(r *Result, s string)        // nil: it is no text
}

// loadColumn is a part of what the load was.
type loadColumn struct {
	axis, names string
	set         func(w *load.Workload, v float64)
}

// loadColumns are all of them; settings of an engine stand under their own names.
func loadColumns() []loadColumn {
	return []loadColumn{
		{"concurrency", "concurrency max_concurrency maximum_request_concurrency conc num_concurrency concurrent_requests",
			func(w *load.Workload, v float64) { w.Concurrency = int(v) }},
		{"rate", "rate request_rate request_rate_configured_rps qps", func(w *load.Workload, v float64) { w.Rate = load.Rate(v) }},
		{"batch", "batch batch_size", func(w *load.Workload, v float64) { w.Requests = int(v) }},
		{"input_tokens", "input_tokens input_len random_input_len isl in_len input_length prompt_len prompt_length",
			func(w *load.Workload, v float64) { w.Dataset.InputTokens = int(v) }},
		{"output_tokens", "output_tokens output_len random_output_len osl out_len output_length",
			func(w *load.Workload, v float64) { w.OutputTokens = int(v) }},
	}
}

// settings are axes of an engine.
const settings = "prefill decode tp pp dp ep tensor_parallel_size pipeline_parallel_size data_parallel_size"

// textColumn is what is said of an engine or a load in words.
type textColumn struct {
	names string
	set   func(*Result, string)
}

func textColumns() []textColumn {
	return []textColumn{
		{"gpu gpus", func(r *Result, s string) { r.Deployment.GPUs = gpuModel(s) }},
		{"engine backend", func(r *Result, s string) { r.Deployment.Kind = engineKind(s) }},
		{"model model_id", func(r *Result, s string) { r.Deployment.Model = s }},
		{"command serve_command", func(r *Result, s string) { r.Deployment.Command = strings.Fields(s) }},
		{"dataset dataset_name workload", func(r *Result, s string) {
			r.Job.Workload.Dataset.Kind = s
			r.Axes = append(r.Axes, results.Axis{Name: "dataset", Value: s})
		}},
	}
}

// guesses are the meanings of all names that are known, but those of latencies, which
// [latencyNamed] reads.
func guesses() map[string]meaning {
	all := map[string]meaning{}
	add := func(names string, m meaning) {
		for _, name := range strings.Fields(names) {
			all[name] = m
		}
	}
	for _, f := range figures() {
		add(f.names, meaning{figure: f.name, set: func(c *results.Cell, v float64) { f.set(c.Summary, v) }})
	}
	for _, l := range loadColumns() {
		add(l.names, meaning{axis: l.axis, set: func(c *results.Cell, v float64) {
			l.set(&c.Job.Workload, v)
			addAxis(c, l.axis, v)
		}})
	}
	for _, name := range strings.Fields(settings) {
		add(name, meaning{axis: name, set: func(c *results.Cell, v float64) { addAxis(c, name, v) }})
	}
	for _, t := range textColumns() {
		add(t.names, meaning{text: t.set})
	}
	return all
}

// addAxis adds an axis unless there is one of that name.
func addAxis(c *results.Cell, name string, v float64) {
	if _, there := c.Axes.Value(name); !there {
		c.Axes = append(c.Axes, results.Axis{Name: name, Value: wholeOr(v)})
	}
}

// known are the guesses, made once.
var known = sync.OnceValue(guesses)

// figureOf is the figure that a member of a tool's object is. SGLang calls it
// concurrency how many requests there were.
func figureOf(member string) string {
	if member == "concurrency" {
		return "mean_concurrency"
	}
	return known()[member].figure
}

// guess is what a normal name means.
func guess(name string) meaning {
	if m, ok := known()[name]; ok {
		return m
	}
	l, ok := latencyNamed(strings.Replace(name, "p50_", "median_", 1))
	if !ok || l.unit == "" {
		return meaning{}
	}
	factor := 1.0
	if l.unit == "s" {
		factor = 1e3
	}
	return meaning{figure: l.told(), set: func(c *results.Cell, v float64) { l.set(c.Summary, factor*v) }}
}

// columnsNamed are the columns of a table by the names in its head.
func columnsNamed(head []string) []column {
	names := make([]string, len(head))
	mean := false // how many requests there were stands beside how many there might be
	for i, written := range head {
		names[i] = normalName(written)
		mean = mean || strings.Contains(names[i], "max_concurrency")
	}
	columns := make([]column, len(head))
	for i, name := range names {
		c := column{written: head[i], name: name}
		if mean && name == "concurrency" {
			name = "mean_concurrency" // as SGLang calls it
		}
		c.meaning = guess(name)
		if engine, rest, ok := strings.Cut(name, "_"); ok && (engine == "vllm" || engine == "sglang" || engine == "trtllm") {
			if m := guess(rest); m.set != nil {
				c.engine, c.meaning = engine, m
			}
		}
		columns[i] = c
	}
	return columns
}

// normalName is a column's name in small letters and digits, joined by
// underscores: "Mean TTFT (ms)" is mean_ttft_ms.
func normalName(column string) string {
	words := strings.FieldsFunc(strings.ToLower(column), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' })
	return strings.Join(words, "_")
}

// engineKind is the kind of an engine that others call otherwise, or that is the
// program of a command; empty: not known.
func engineKind(name string) string {
	name = strings.ToLower(name)
	switch {
	case strings.Contains(name, "sglang"):
		return "sglang"
	case strings.Contains(name, "vllm"):
		return "vllm"
	case strings.Contains(name, "trt"):
		return "trtllm"
	}
	return name
}

// gpuModel is a GPU as its maker writes it, its count as we do: "8xH200".
func gpuModel(s string) string {
	count, model, found := strings.Cut(strings.ToLower(s), "x")
	if n, err := strconv.Atoi(strings.TrimSpace(count)); found && err == nil {
		return fmt.Sprintf("%dx%s", n, gpuModel(strings.TrimSpace(model)))
	}
	if s = strings.ToUpper(s); s == "MI300" { // as published tables shorten it
		return "MI300X"
	}
	return s
}
