package report

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/results"
)

// seriesOf is the series of each row.
type seriesOf struct {
	all     []*chart.Series
	byKey   map[string]*chart.Series
	varying []string          // axes of the engine that are not the same everywhere
	told    []string          // columns of published tables that tell loads apart
	by      []string          // columns that make a series instead; nil: none are said
	refs    map[place]int     // of cells, as [chart.Dot.Ref]; nil: nothing is drawn for a page
	own     map[string]string // of each side of a comparison, or of all, the kind of run that the report is about
}

// newSeries finds the series of rows: GPU × engine × whatever the lab varies of
// engines, or the columns that are said, ordered by GPU and then as they come.
func newSeries(rows []results.Row, by []string) *seriesOf {
	s := &seriesOf{byKey: map[string]*chart.Series{}, by: by, own: map[string]string{}}
	for _, of := range grouped(rows, func(r results.Row) string { return axisOf(r.Axes, sideAxis) }) {
		s.own[axisOf(of[0].Axes, sideAxis)] = ownKind(of)
	}
	var ofCases []string
	ofCases, s.told = caseAxes(rows)
	for _, name := range axes(rows) {
		if ofLoad(name) || name == "engine" || name == sideAxis || slices.Contains(ofCases, name) {
			continue
		}
		if len(axisValues(name, len(rows), func(i int) results.Axes { return rows[i].Axes })) > 1 {
			s.varying = append(s.varying, name)
		}
	}
	var gpus []string
	for i := range rows {
		d := &rows[i].Deployment
		gpus = once(gpus, d.GPUs)
		key := s.whole(&rows[i])
		if s.byKey[key] == nil {
			x := &chart.Series{GPUs: d.GPUs, Engine: d.Engine, Kind: kind(d), GPU: slices.Index(gpus, d.GPUs),
				Label: s.label(&rows[i])}
			s.byKey[key] = x
			s.all = append(s.all, x)
		}
	}
	slices.SortStableFunc(s.all, func(a, b *chart.Series) int { return cmp.Compare(a.GPU, b.GPU) })
	for i, x := range s.all {
		x.Index = i
	}
	if by == nil { // else its columns name it
		s.name()
	}
	s.force(rows)
	chart.Look(s.all)
	s.part(rows)
	return s
}

// sideAxis tells the two sides of a comparison apart. No axis of a lab has such a name.
const sideAxis = "compared side"

// part makes of each series one for each side of a comparison. They look alike, that of A pale.
func (s *seriesOf) part(rows []results.Row) {
	whole := maps.Clone(s.byKey)
	sided := map[*chart.Series]map[string]*chart.Series{}
	for i := range rows {
		side := axisOf(rows[i].Axes, sideAxis)
		if side == "" {
			return // it is no comparison
		}
		key := s.whole(&rows[i])
		of := whole[key]
		if sided[of] == nil {
			sided[of] = map[string]*chart.Series{}
			delete(s.byKey, key)
		}
		if sided[of][side] == nil {
			x := *of
			x.Label, x.Pale = x.Label+", "+side, side == "A"
			sided[of][side] = &x
			s.byKey[s.key(&rows[i])] = &x
		}
	}
	all := s.all
	s.all = nil
	for _, of := range all {
		for _, side := range slices.Sorted(maps.Keys(sided[of])) { // A is drawn first, below B
			x := sided[of][side]
			x.Index = len(s.all)
			s.all = append(s.all, x)
		}
	}
}

// name puts GPUs and engine before what the labels say already. The kind alone names an
// engine where it is the only one of its kind on its GPUs.
func (s *seriesOf) name() {
	engines := map[[2]string][]string{}
	counts := false // of GPUs differ: they belong to the names
	for _, x := range s.all {
		k := [2]string{x.GPUs, x.Kind}
		engines[k] = once(engines[k], x.Engine)
		counts = counts || results.CountGPUs(x.GPUs) != results.CountGPUs(s.all[0].GPUs)
	}
	for _, x := range s.all {
		name := kindName(x.Kind)
		if x.Kind == "group" || len(engines[[2]string{x.GPUs, x.Kind}]) > 1 {
			_, own, _ := strings.Cut(x.Engine, ".")
			name += " " + own
		}
		if x.GPUs != "" {
			gpu := gpuName(x.GPUs)
			if _, model, found := strings.Cut(gpu, "×"); found && !counts && !strings.Contains(model, "×") {
				gpu = model
			}
			name = gpu + " · " + name
		}
		x.Label = strings.TrimSpace(name + x.Label)
	}
}

// force names what engines were told to accept of their drafts, of those that were.
func (s *seriesOf) force(rows []results.Row) {
	of := map[*chart.Series][]string{} // what is said of each row, each once
	for i := range rows {
		x := s.byKey[s.whole(&rows[i])]
		of[x] = once(of[x], forced(&rows[i]))
	}
	for x, said := range of {
		switch {
		case len(said) > 1:
			x.Label += ", in part with " + forcedMark
		case said[0] != "":
			x.Label += ", " + said[0]
		}
	}
}

func (s *seriesOf) key(r *results.Row) string {
	if side := axisOf(r.Axes, sideAxis); side != "" {
		return s.whole(r) + "\x00" + side
	}
	return s.whole(r)
}

// whole is the key of a series, whatever the side.
func (s *seriesOf) whole(r *results.Row) string {
	if s.by != nil {
		return s.label(r)
	}
	return r.Deployment.GPUs + "\x00" + r.Deployment.Engine + "\x00" + s.label(r)
}

// label is how a series is called, or, where GPUs and engine come first, the engine's own
// axes after them: ", tp 8".
func (s *seriesOf) label(r *results.Row) (label string) {
	if s.by == nil {
		for _, name := range s.varying {
			if v, ok := r.Axes.Value(name); ok {
				label += fmt.Sprintf(", %s %s", name, axisText(v))
			}
		}
		return label
	}
	var parts []string
	for _, name := range s.by {
		part := wordOf(r, name)
		switch v, isAxis := r.Axes.Value(name); {
		case name == "gpus":
			part = gpuName(part)
		case name == "kind":
			part = kindName(kind(&r.Deployment))
		case part == "" && isAxis:
			part = strings.ReplaceAll(name, "_", " ") + " " + axisText(v)
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	return cmp.Or(strings.Join(parts, " · "), "the rest")
}

func (s *seriesOf) find(r *results.Row) *chart.Series { return s.byKey[s.key(r)] }

// kind of a deployment's engine. What stood in for an engine in a rehearsal is named after that.
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

// counted is a count of GPUs, before their model.
var counted = regexp.MustCompile(`\b(\d+)x`)

// gpuName is "8×H200" of "8xH200".
func gpuName(gpus string) string {
	if results.CountGPUs(gpus) > 0 {
		return counted.ReplaceAllString(gpus, "$1×")
	}
	return gpus
}

// ofLoad reports whether an axis is of the load: what is sent, not what serves it.
func ofLoad(name string) bool {
	return slices.Contains([]string{"concurrency", "max_concurrency", "rate", "request_rate", "burstiness", "batch",
		"requests", "duration", "input_tokens", "output_tokens", "dataset", "warmup", "cooldown", "warmup_requests"}, name)
}

// dimension is a quantity of the load that charts have along their x axis.
type dimension struct {
	name  string // of the axis in a lab
	title string
	unit  string
	of    func(t *results.Task) float64 // 0: not said
}

var dimensions = []dimension{
	{"concurrency", "Concurrency", "requests in flight",
		func(t *results.Task) float64 { return float64(t.Workload.Concurrency) }},
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

// along is where the row lies along each dimension, by its name.
func along(r *results.Row) map[string]float64 {
	at := map[string]float64{}
	for _, d := range dimensions {
		if v, ok := d.value(r); ok {
			at[d.name] = v
		}
	}
	return at
}

// dataset is what a cell's prompts are of.
func dataset(r *results.Row) string {
	if v, ok := r.Axes.Value("dataset"); ok {
		return axisText(v)
	}
	return r.Job.Prompts().Dataset.Kind
}
