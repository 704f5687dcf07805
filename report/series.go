package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
)

// series is what one line of a chart stands for: an engine on its GPUs. Its colour
// and its marker are the same in every chart of a report.
type series struct {
	index  int // among all series
	gpu    int // index of its kind of GPU
	hue    int // of its engine's kind, as far as there are enough
	marker int // of its GPU, likewise
	dash   int
	label  string
	gpus   string // "8xH200"
	engine string // "vllm.h200"
	kind   string
}

// seriesOf is the series of each row.
type seriesOf struct {
	all     []*series
	byKey   map[string]*series
	varying []string // axes of the engine that are not the same everywhere
	by      []string // columns that make a series instead; nil: none are said
}

// newSeries finds the series of rows: GPU × engine × whatever the lab varies of
// engines, or the columns that are said, ordered by GPU and then as they come.
func newSeries(rows []results.Row, by []string) *seriesOf {
	s := &seriesOf{byKey: map[string]*series{}, by: by}
	for _, name := range axes(rows) {
		if ofLoad(name) || name == "engine" {
			continue
		}
		values := map[string]bool{}
		for i := range rows {
			if v, ok := rows[i].Axes.Value(name); ok {
				values[axisText(v)] = true
			}
		}
		if len(values) > 1 {
			s.varying = append(s.varying, name)
		}
	}
	var gpus []string
	for i := range rows {
		d := &rows[i].Deployment
		if !slices.Contains(gpus, d.GPUs) {
			gpus = append(gpus, d.GPUs)
		}
		key := s.key(&rows[i])
		if s.byKey[key] == nil {
			x := &series{gpus: d.GPUs, engine: d.Engine, kind: kind(d), gpu: slices.Index(gpus, d.GPUs), label: s.label(&rows[i])}
			s.byKey[key] = x
			s.all = append(s.all, x)
		}
	}
	slices.SortStableFunc(s.all, func(a, b *series) int { return cmp.Compare(a.gpu, b.gpu) })

	// The kind alone names an engine where it is the only one of its kind on its GPUs.
	engines := map[[2]string][]string{}
	for _, x := range s.all {
		k := [2]string{x.gpus, x.kind}
		if !slices.Contains(engines[k], x.engine) {
			engines[k] = append(engines[k], x.engine)
		}
	}
	several := func(gpus string) bool { return hostGPUs(gpus) != hostGPUs(s.all[0].gpus) }
	counts := slices.ContainsFunc(gpus, several) // of GPUs differ: they belong to the names
	for i, x := range s.all {
		x.index = i
		if by != nil {
			continue // its columns name it
		}
		name := kindName(x.kind)
		if len(engines[[2]string{x.gpus, x.kind}]) > 1 {
			_, own, _ := strings.Cut(x.engine, ".")
			name += " " + own
		}
		if x.gpus != "" {
			gpu := gpuName(x.gpus)
			if _, model, found := strings.Cut(gpu, "×"); found && !counts {
				gpu = model
			}
			name = gpu + " · " + name
		}
		x.label = strings.TrimSpace(name + x.label)
	}
	s.looks()
	return s
}

// variants is how many markers there are, and how many kinds of dashes.
const variants = 4

// looks gives each series a look of its own: the hue is that of its engine's kind, the
// marker and the dashes are those of its GPUs, and where another one has both, it is the
// next hue that is of no kind, then another marker, then other dashes. 32 series differ
// in hue or marker, 128 in one of the three; no page can tell more apart.
func (s *seriesOf) looks() {
	hues := len(palette())
	own := map[string]int{}
	for _, x := range s.all {
		if _, ok := own[x.kind]; !ok {
			own[x.kind] = len(own) % hues
		}
	}
	taken := map[[3]int]bool{}
	place := func(x *series) {
		for turn := range variants { // of the dashes against the marker
			for step := range variants {
				marker := (x.gpu + step) % variants
				for i := range hues {
					hue := own[x.kind]
					if i > 0 { // those of no kind first
						hue = (len(own) + i - 1) % hues
					}
					look := [3]int{hue, marker, (marker + turn) % variants}
					if !taken[look] {
						taken[look] = true
						x.hue, x.marker, x.dash = look[0], look[1], look[2]
						return
					}
				}
			}
		}
		x.hue, x.marker, x.dash = own[x.kind], x.gpu%variants, x.gpu%variants
	}
	for _, x := range s.all {
		place(x)
	}
}

func (s *seriesOf) key(r *results.Row) string {
	if s.by != nil {
		return s.label(r)
	}
	return r.Deployment.GPUs + "\x00" + r.Deployment.Engine + "\x00" + s.extra(r)
}

// label is how a series is called, or the end of it where GPUs and engine come
// first.
func (s *seriesOf) label(r *results.Row) string {
	if s.by == nil {
		return s.extra(r)
	}
	var parts []string
	d := &r.Deployment
	for _, name := range s.by {
		part := ""
		switch v, isAxis := r.Axes.Value(name); {
		case name == "gpus":
			part = gpuName(d.GPUs)
		case name == "kind":
			part = kindName(kind(d))
		case name == "engine":
			part = d.Engine
		case name == "host":
			part = d.Host
		case name == "model":
			part = d.Model
		case name == "image":
			part = d.Image
		case name == "benchmark":
			part = r.Benchmark
		case isAxis:
			part = strings.ReplaceAll(name, "_", " ") + " " + axisText(v)
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	return cmp.Or(strings.Join(parts, " · "), "the rest")
}

// extra are the engine's own axes as the end of a label: ", tp 8".
func (s *seriesOf) extra(r *results.Row) string {
	var b strings.Builder
	for _, name := range s.varying {
		if v, ok := r.Axes.Value(name); ok {
			fmt.Fprintf(&b, ", %s %s", name, axisText(v))
		}
	}
	return b.String()
}

func (s *seriesOf) find(r *results.Row) *series { return s.byKey[s.key(r)] }

// kind of a deployment's engine. What stood in for an engine in a rehearsal is named
// after that.
func kind(d *results.Deployment) string {
	if d.Kind == "" || d.Kind == "sim" {
		return kindOf(d.Engine)
	}
	return d.Kind
}

// kindOf is the kind in an engine's address: "vllm" of "vllm.h200".
func kindOf(engine string) string {
	kind, _, _ := strings.Cut(engine, ".")
	return kind
}

// kindName is an engine as its makers write it.
func kindName(kind string) string {
	switch strings.ToLower(kind) {
	case "sglang":
		return "SGLang"
	case "vllm":
		return "vLLM"
	case "trtllm", "trt-llm", "tensorrt-llm":
		return "TensorRT-LLM"
	}
	return kind
}

// gpuName is "8×H200" of "8xH200".
func gpuName(gpus string) string {
	if hostGPUs(gpus) > 0 {
		return strings.Replace(gpus, "x", "×", 1)
	}
	return gpus
}

// ofLoad reports whether an axis is of the load: what is sent, not what serves it.
func ofLoad(name string) bool {
	return slices.Contains([]string{"concurrency", "max_concurrency", "rate", "request_rate", "burstiness", "batch", "requests", "duration",
		"input_tokens", "output_tokens", "dataset", "warmup", "cooldown", "warmup_requests"}, name)
}

// dimension is a quantity of the load that charts have along their x axis.
type dimension struct {
	name  string // of the axis in a lab
	title string
	unit  string
	of    func(t *results.Task) float64 // 0: not said
}

var dimensions = []dimension{
	{"concurrency", "Concurrency", "requests in flight", func(t *results.Task) float64 { return float64(t.Workload.Concurrency) }},
	{"rate", "Request rate", "requests per second", func(t *results.Task) float64 {
		if t.Workload.Rate == load.Inf {
			return 0
		}
		return float64(t.Workload.Rate)
	}},
	{"batch", "Batch", "requests", func(t *results.Task) float64 {
		if t.Batch == nil {
			return 0
		}
		return float64(t.Batch.Requests)
	}},
	{"input_tokens", "Input length", "tokens", func(t *results.Task) float64 {
		d := t.Prompts().Dataset
		return float64(cmp.Or(d.InputTokens, d.PrefixTokens+d.QuestionTokens))
	}},
	{"output_tokens", "Output length", "tokens", func(t *results.Task) float64 {
		p := t.Prompts()
		return float64(cmp.Or(p.OutputTokens, p.Dataset.OutputTokens))
	}},
}

// value is where the row lies along the dimension: by its axis, else by its job.
func (d dimension) value(r *results.Row) (float64, bool) {
	for _, name := range []string{d.name, "max_" + d.name} {
		switch v, _ := r.Axes.Value(name); v := v.(type) {
		case int64:
			return float64(v), v > 0
		case float64:
			return v, v > 0
		}
	}
	v := d.of(&r.Job)
	return v, v > 0
}

// dataset is what a cell's prompts are of, where that is not the same for all
// cells of its benchmark.
func dataset(r *results.Row) string {
	if v, ok := r.Axes.Value("dataset"); ok {
		return axisText(v)
	}
	return r.Job.Prompts().Dataset.Kind
}

// sortedByKey are a map's values in the order of its keys.
func sortedByKey[K cmp.Ordered, V any](m map[K]V) []V {
	values := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[k])
	}
	return values
}

// sentence begins with a capital.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// upper is the name of a timing as the field writes it.
func upper(key string) string { return strings.ToUpper(key) }
