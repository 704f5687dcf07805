package formats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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
	normal  string // in small letters and underscores
	engine  string // that the figure is of, when its name says so
	meaning
}

// meaning is what is made of a name's numbers or texts.
type meaning struct {
	figure                           // without a name: it is no number that is known
	axis   bool                      // it is of the load or the engine, which text may be too: "sharegpt" for a length
	text   func(r *Result, s string) // nil: it is no text
}

// isFigure reports whether it is a figure of a summary.
func (m meaning) isFigure() bool { return m.name != "" && !m.axis }

// set takes in a number.
func (m meaning) set(c *results.Cell, v float64) {
	if m.at != nil {
		m.figure.set(c, v)
	}
	if m.axis {
		addAxis(c, m.name, v)
	}
}

func addAxis(c *results.Cell, name string, v float64) {
	if _, there := c.Axes.Value(name); !there {
		c.Axes = append(c.Axes, results.Axis{Name: name, Value: wholeOr(v)})
	}
}

func loads() []figure {
	of := func(name, names string, at func(*load.Workload) any) figure {
		return figure{name: name, names: names, at: func(c *results.Cell) any { return at(&c.Job.Workload) }}
	}
	return []figure{
		of("concurrency", "concurrency max_concurrency maximum_request_concurrency conc num_concurrency concurrent_requests",
			func(w *load.Workload) any { return &w.Concurrency }),
		of("rate", "rate request_rate request_rate_configured_rps qps", func(w *load.Workload) any { return &w.Rate }),
		of("batch", "batch batch_size", func(w *load.Workload) any { return &w.Requests }),
		of("input_tokens", "input_tokens input_len random_input_len isl in_len input_length prompt_len prompt_length",
			func(w *load.Workload) any { return &w.Dataset.InputTokens }),
		of("output_tokens", "output_tokens output_len random_output_len osl out_len output_length",
			func(w *load.Workload) any { return &w.OutputTokens }),
	}
}

// settings of an engine are axes under their own names.
const settings = "prefill decode tp pp dp ep tensor_parallel_size pipeline_parallel_size data_parallel_size"

// meanings are those of all names that are known, made once, but of latencies, which
// [latencyNamed] reads.
var meanings = sync.OnceValue(func() map[string]meaning {
	all := map[string]meaning{}
	add := func(names string, m meaning) {
		for name := range strings.FieldsSeq(names) {
			all[name] = m
		}
	}
	for _, f := range figures() {
		add(f.names, meaning{figure: f})
	}
	for _, f := range loads() {
		add(f.names, meaning{figure: f, axis: true})
	}
	for name := range strings.FieldsSeq(settings) {
		add(name, meaning{figure: figure{name: name}, axis: true})
	}
	add("gpu gpus", meaning{text: func(r *Result, s string) { r.Deployment.GPUs = gpuModel(s) }})
	add("engine backend", meaning{text: func(r *Result, s string) { r.Deployment.Kind = cmp.Or(engineKind(s), strings.ToLower(s)) }})
	add("model model_id", meaning{text: func(r *Result, s string) { r.Deployment.Model = s }})
	add("command serve_command", meaning{text: func(r *Result, s string) { r.Deployment.Command = strings.Fields(s) }})
	add("dataset dataset_name workload", meaning{text: func(r *Result, s string) {
		r.Job.Workload.Dataset.Kind = s
		r.Axes = append(r.Axes, results.Axis{Name: "dataset", Value: s})
	}})
	return all
})

// figureOf is the figure that a member of a tool's object is, with SGLang's word for how
// many requests there were.
func figureOf(member string) figure {
	if member == "concurrency" {
		member = "mean_concurrency"
	}
	return meanings()[member].figure
}

func guess(name string) meaning {
	if m, ok := meanings()[name]; ok {
		return m
	}
	f, unit, _ := latencyNamed(strings.Replace(name, "p50_", "median_", 1))
	if unit == "" {
		return meaning{}
	}
	return meaning{figure: f}
}

func columnsNamed(head []string) []column {
	columns := make([]column, len(head))
	mean := false // how many requests there were stands beside how many there might be
	for i, written := range head {
		columns[i] = column{written: written, normal: normalName(written)}
		mean = mean || strings.Contains(columns[i].normal, "max_concurrency")
	}
	for i := range columns {
		c := &columns[i]
		if c.meaning = guess(c.normal); mean && c.normal == "concurrency" {
			c.meaning = guess("mean_concurrency") // as SGLang calls it
		}
		if engine, rest, _ := strings.Cut(c.normal, "_"); engine == "vllm" || engine == "sglang" || engine == "trtllm" {
			if m := guess(rest); m.name != "" {
				c.engine, c.meaning = engine, m
			}
		}
	}
	return columns
}

// normalName is a column's name in small letters and digits, joined by
// underscores: "Mean TTFT (ms)" is mean_ttft_ms.
func normalName(column string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(column), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.'
	}), "_")
}

// engineKind is the kind of an engine that others call otherwise, or that is the
// program of a command; empty: not known.
func engineKind(name string) string {
	kinds := map[string]string{"sglang": "sglang", "vllm": "vllm", "trt": "trtllm", "tensorrt": "trtllm"}
	for _, part := range slices.Sorted(maps.Keys(kinds)) { // SGLang can say that it speaks as vLLM
		if strings.Contains(strings.ToLower(name), part) {
			return kinds[part]
		}
	}
	return ""
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
