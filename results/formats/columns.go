package formats

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"hclbench/load"
	"hclbench/load/metric"
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
		add(name, axisNamed(name))
	}
	add("gpu gpus", meaning{text: func(r *Result, s string) { r.Deployment.GPUs = gpuModel(s) }})
	add("engine", meaning{text: func(r *Result, s string) { r.Deployment.Kind, r.Deployment.Engine = engineNamed(s) }})
	add("backend", meaning{text: func(r *Result, s string) {
		if r.Deployment.Kind == "" { // else a column says the engine
			r.Deployment.Kind, r.Deployment.Engine = engineNamed(s)
		}
	}})
	add("model model_id", meaning{text: func(r *Result, s string) { r.Deployment.Model = s }})
	add("command serve_command", meaning{text: func(r *Result, s string) { r.Deployment.Command = strings.Fields(s) }})
	add("dataset dataset_name workload", meaning{text: func(r *Result, s string) {
		r.Job.Workload.Dataset.Kind = s
		r.Axes = append(r.Axes, results.Axis{Name: "dataset", Value: s})
	}})
	add("date timestamp datetime started started_at start_time", meaning{text: func(r *Result, s string) { r.Started = parseMoment(s) }})
	add("repetition", meaning{text: func(r *Result, s string) { r.Repetition, _ = strconv.Atoi(s) }})
	return all
})

func axisNamed(name string) meaning { return meaning{figure: figure{name: name}, axis: true} }

// parseMoment is a time as tables and tools write it; zero: it is none.
func parseMoment(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly, vllmDate} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t
		}
	}
	return time.Time{}
}

// figureOf is the figure that a member of a tool's object is, with SGLang's word for how
// many requests there were.
func figureOf(member string) figure {
	if member == "concurrency" {
		member = "mean_concurrency"
	}
	return meanings()[member].figure
}

// median is how half of all has another name.
var median = regexp.MustCompile(`(^|_)p50(_|$)`)

func guess(name string) meaning {
	if m, ok := meanings()[name]; ok {
		return m
	}
	name = median.ReplaceAllString(strings.Replace(name, "_ms.", "_ms_", 1), "${1}median$2") // "ttft_ms.p50" in JSON
	if key, statistic, _ := strings.Cut(name, "_"); strings.Contains(name, "_") {
		if m, ok := metric.Named(statistic + "_" + key + "_ms"); ok { // as the tables of hcl name it: ttft_p99
			name = m.Name
		}
	}
	f, unit, _ := latencyNamed(name)
	if unit == "" {
		return meaning{}
	}
	return meaning{figure: f}
}

// ourColumn is what a column of `hcl report --csv` means that a table of others may have for something else.
func ourColumn(name string) (m meaning, ok bool) {
	said := func(r *Result) *load.Verdict {
		r.ours = cmp.Or(r.ours, new(load.Verdict))
		return r.ours
	}
	if axis, ok := strings.CutPrefix(name, "axis_"); ok && axis != "engine" { // which is the column engine
		return axisOr(guess(axis), axis), true
	}
	text := map[string]func(*Result, string){
		"benchmark":  func(r *Result, s string) { r.Benchmark = s },
		"kind":       func(r *Result, s string) { r.Deployment.Kind = s },
		"engine":     func(r *Result, s string) { r.Deployment.Engine = s },
		"image":      func(r *Result, s string) { r.Deployment.Image = s },
		"gpu_count":  func(r *Result, s string) { r.Deployment.GPUCount, _ = strconv.Atoi(s) },
		"started":    func(r *Result, s string) { r.Started = parseMoment(s) },
		"finished":   func(r *Result, s string) { r.Finished = parseMoment(s) },
		"command":    func(r *Result, s string) { r.rehearsed = s == "rehearse" },
		"verdict":    func(r *Result, s string) { said(r).Verdict = s },
		"reasons":    func(r *Result, s string) { said(r).Reasons = load.Because("", strings.Split(s, "; ")...) },
		"repetition": meanings()["repetition"].text,
	}[name]
	if slices.Contains(strings.Fields("lab run cell host digest members slo stale axis_engine"), name) {
		text = func(*Result, string) {}
	}
	return meaning{text: text}, text != nil
}

// axisOr is a meaning that is an axis, or else the axis of that name.
func axisOr(m meaning, name string) meaning {
	if m.axis || name == "dataset" {
		return m
	}
	return axisNamed(name)
}

func columnsNamed(head []string) []column {
	columns := make([]column, len(head))
	mean := false // how many requests there were stands beside how many there might be
	for i, written := range head {
		columns[i] = column{written: written, normal: normalName(written)}
		mean = mean || strings.Contains(columns[i].normal, "max_concurrency")
	}
	ours := len(head) > 4 && slices.Equal(head[:4], []string{"lab", "run", "command", "cell"}) // report --csv
	for i := range columns {
		c := &columns[i]
		if m, ok := ourColumn(c.normal); ours && ok {
			c.meaning = m
			continue
		}
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
	for _, kind := range [][2]string{{"sglang", "sglang"}, {"tensorrt", "trtllm"}, {"trt", "trtllm"}, {"vllm", "vllm"}} {
		if strings.Contains(strings.ToLower(name), kind[0]) { // SGLang can say that it speaks as vLLM
			return kind[1]
		}
	}
	return ""
}

var (
	kindAndName = regexp.MustCompile(`^([A-Za-z][A-Za-z_-]*)\.(\S+)$`)
	// kindWords name an engine's kind, or how a client speaks to it.
	kindWords = strings.Fields("vllm sglang trt trtllm tensorrt llm rt openai oai native chat completions responses")
)

// engineNamed is an engine as a text names it: KIND.NAME as it stands, or a kind with what else
// is said, so that "vLLM v0.11 TP8" is vllm.v0.11-TP8. Of a kind alone there is no label.
func engineNamed(text string) (kind, label string) {
	if m := kindAndName.FindStringSubmatch(text); m != nil {
		kind = cmp.Or(engineKind(m[1]), strings.ToLower(m[1]))
		return kind, kind + "." + m[2]
	}
	if kind = engineKind(text); kind == "" {
		return strings.ToLower(text), ""
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("-_/:,()", r) })
	words = slices.DeleteFunc(words, func(word string) bool { return slices.Contains(kindWords, strings.ToLower(word)) })
	if len(words) == 0 {
		return kind, ""
	}
	return kind, kind + "." + strings.Join(words, "-")
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
