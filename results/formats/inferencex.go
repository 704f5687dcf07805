package formats

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
)

// InferenceX writes cells as one array of the rows that InferenceX makes of a measurement,
// each on a line: latencies in seconds, throughputs for one GPU, interactivity as the
// reciprocal of TPOT. A row is of a fixed concurrency, and of GPUs whose number is known;
// cells that are not are an error, and nothing is written.
func InferenceX(w io.Writer, rows []results.Row) error {
	var all [][]byte
	var wrong []error
	for _, r := range rows {
		o, err := inferenceXRow(&r)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("export cell %s: %w", r.ID, err))
			continue
		}
		all = append(all, bytes.TrimSpace(o.line()))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "[\n%s\n]\n", bytes.Join(all, []byte(",\n")))
	return err
}

func inferenceXRow(r *results.Row) (*object, error) {
	s, d, w := r.Summary, &r.Deployment, r.Job.Workload
	if r.Origin != nil && r.Origin.Format == results.OriginInferenceX {
		return readObject(r.Origin.Fields)
	}
	all := slices.DeleteFunc(setups(d), func(s *setup) bool { return s.role == "router" })
	gpus := 0
	for _, s := range all {
		gpus += s.gpus * s.instances
	}
	switch {
	case s == nil:
		return nil, errNothing(r)
	case r.Job.Batch != nil || w.Concurrency == 0 || w.Rate != 0 && w.Rate != load.Inf || len(w.Stages) > 0:
		return nil, errors.New("a row of InferenceX is of a fixed concurrency, which it has not; " + leaveOut)
	case gpus <= 0:
		return nil, errors.New("a row of InferenceX is for one GPU, and it is not known how many there were; " + leaveOut)
	}
	o := &object{}
	if r.Run.Command == "rehearse" {
		o.add(rehearsal, true)
	}
	addRecipe(o, r, all)
	addDivision(o, s, all)
	figures := &object{}
	for _, l := range vllm().latencies {
		if isMeasured(latencies(s)[l.key]) {
			vllm().addLatency(figures, &r.Cell, l)
		}
	}
	for _, key := range figures.keys {
		v, known := figures.number(key)
		if name := strings.TrimSuffix(key, "_ms"); known {
			o.addValue(name, v/1e3)
			if rate := strings.Replace(name, "tpot", "intvty", 1); rate != name && v > 0 {
				o.addValue(rate, 1e3/v)
			}
		}
	}
	addPower(o, r, gpus)
	return o, nil
}

const leaveOut = "leave it out with --where or --benchmark"

// isMeasured reports whether there is anything of a latency.
func isMeasured(t *load.Stats) bool {
	for _, v := range t.Percentiles {
		if v > 0 {
			return true
		}
	}
	return t.Count > 0 || t.Mean > 0 || t.Median > 0 || t.Max > 0
}

// addRecipe adds what was run. What cannot be known is null; an axis of the same name says it.
func addRecipe(o *object, r *results.Row, all []*setup) {
	s, d := r.Summary, &r.Deployment
	model := cmp.Or(d.Model, r.Job.Target.Model)
	prefix, native := inferenceXModel(model)
	first := all[0]
	said := func(name string, value any) {
		if v, ok := r.Axes.Value(name); ok {
			value = v
		}
		if value == "" {
			value = nil
		}
		o.addValue(name, value)
	}
	mean := func(tokens int64) int { return int(math.Round(float64(tokens) / float64(max(s.Completed, 1)))) }
	gpus, _, _ := strings.Cut(d.GPUs, ",") // of several models the first
	o.add("hw", gpuName(gpus))
	o.add("conc", r.Job.Workload.Concurrency)
	o.add("image", d.Image)
	o.add("model", model)
	said("infmax_model_prefix", prefix)
	said("framework", strings.Replace(d.Kind, "trtllm", "trt", 1))
	quantization, _ := first.valueOf("quantization")
	dtype, _ := first.valueOf("dtype")
	said("precision", cmp.Or(precision(quantization, model, dtype), native))
	said("spec_decoding", first.speculation())
	o.add("disagg", disaggregated(all))
	o.add("recipe_fingerprint", d.ID)
	p := r.Job.Prompts()
	o.add("isl", cmp.Or(p.Dataset.InputTokens, mean(s.InputTokens)))
	o.add("osl", cmp.Or(p.OutputTokens, p.Dataset.OutputTokens, mean(s.OutputTokens)))
	if s.Knows("failed") && s.Knows("requests") {
		status := "passed"
		if float64(s.Failed) > maxFailed*float64(s.Requests) || s.Completed == 0 {
			status = "failed" // by its rule; its page then leaves the row out
		}
		o.add("benchmark_outcome", outcome{status, &s.Requests, &s.Completed, &s.Failed, maxFailed})
	}
}

// maxFailed is the share of requests that may fail there.
const maxFailed = 0.05

// outcome is how many requests there were, which newer rows say.
type outcome struct {
	Status    string  `json:"status"` // "passed" or "failed"
	Requested *int    `json:"requested"`
	Completed *int    `json:"completed"`
	Failed    *int    `json:"failed"`
	Max       float64 `json:"max_failure_rate"`
}

func disaggregated(all []*setup) bool {
	return roleOf(all, "prefill") != nil && roleOf(all, "decode") != nil
}

func roleOf(all []*setup, role string) *setup {
	for _, s := range all {
		if s.role == role {
			return s
		}
	}
	return nil
}

// addDivision adds how the model is divided among GPUs, and throughputs for one of them.
// InferenceX has one form for an engine on one host and another for roles and for more
// hosts; of roles it holds the input against the GPUs of prefill and the output against
// those of decode.
func addDivision(o *object, s *load.Summary, all []*setup) {
	gpus := func(s *setup) int { return s.gpus * s.instances }
	perGPU := func(total, output, input int) {
		add := func(key string, v float64, gpus int, of ...string) {
			if !slices.ContainsFunc(of, func(name string) bool { return !s.Knows(name) }) {
				o.addValue(key, v/float64(gpus))
			}
		}
		add("tput_per_gpu", s.TotalThroughput, total, "total_throughput")
		add("output_tput_per_gpu", s.OutputThroughput, output, "output_throughput")
		add("input_tput_per_gpu", s.TotalThroughput-s.OutputThroughput, input, "total_throughput", "output_throughput")
	}
	one := all[0]
	if !disaggregated(all) && one.hosts < 2 && one.instances < 2 {
		o.add("is_multinode", false)
		one.addParallel(o, "")
		perGPU(gpus(one), gpus(one), gpus(one))
		return
	}
	prefill, decode := one, &setup{pp: 1, dcp: 1, pcp: 1} // nobody decodes apart
	if disaggregated(all) {
		prefill, decode = roleOf(all, "prefill"), roleOf(all, "decode")
	}
	o.add("is_multinode", true)
	prefill.addParallel(o, "prefill_")
	o.add("prefill_num_workers", prefill.instances)
	decode.addParallel(o, "decode_")
	o.add("decode_num_workers", decode.instances)
	o.add("num_prefill_gpu", gpus(prefill))
	o.add("num_decode_gpu", gpus(decode))
	total := gpus(prefill) + gpus(decode)
	perGPU(total, cmp.Or(gpus(decode), total), gpus(prefill))
}

// addParallel adds sizes whose product, but for ep, is the number of GPUs: there tensor
// parallelism has what data parallelism has elsewhere, with dp_attention "true".
func (s *setup) addParallel(o *object, before string) {
	o.add(before+"tp", s.gpus/max(s.pp*s.pcp, 1))
	o.add(before+"pp", s.pp)
	o.add(before+"dcp_size", s.dcp)
	o.add(before+"pcp_size", s.pcp)
	o.add(before+"ep", s.ep)
	o.add(before+"dp_attention", fmt.Sprint(s.attention))
}

// addPower adds all that is told of power and energy, or none of it.
func addPower(o *object, r *results.Row, gpus int) {
	s := r.Summary
	counted := s.Duration > 0 && s.Completed > 0 && s.InputTokens > 0 && s.OutputTokens > 0
	if r.Telemetry == nil || r.Telemetry.Energy <= 0 || !counted {
		return
	}
	energy := r.Telemetry.Energy
	o.add("power_metric_schema_version", 2)
	o.add("power_valid", 1)
	o.addValue("avg_power_w", energy/s.Duration/float64(gpus))
	o.addValue("avg_total_gpu_power_w", energy/s.Duration)
	o.addValue("total_gpu_energy_j", energy)
	o.addValue("joules_per_successful_query", energy/float64(s.Completed))
	o.addValue("joules_per_input_token", energy/float64(s.InputTokens))
	o.addValue("joules_per_output_token", energy/float64(s.OutputTokens))
	o.addValue("joules_per_total_token", energy/float64(s.InputTokens+s.OutputTokens))
}

// inferenceXModel is InferenceX's short name of a model, and the precision of its weights
// where its own name does not say it. Other models go by their name.
func inferenceXModel(repo string) (prefix, precision string) {
	name := strings.ToLower(path.Base(repo))
	for _, m := range [][3]string{
		{"deepseek-r1", "dsr1", "fp8"}, {"deepseek-v4", "dsv4"}, {"gpt-oss-120b", "gptoss", "fp4"},
		{"llama-3.3-70b", "llama70b"}, {"qwen3.5-397b", "qwen3.5"},
		{"kimi-k2.5", "kimik2.5"}, {"kimi-k2.6", "kimik2.6"}, {"kimi-k3", "kimik3"},
		{"minimax-m2.5", "minimaxm2.5"}, {"minimax-m3", "minimaxm3"},
		{"glm-5.2", "glm5.2"}, {"glm-5.1", "glm5.1"}, {"glm-5", "glm5"},
	} {
		if strings.HasPrefix(name, m[0]) {
			return m[1], m[2]
		}
	}
	return name, ""
}

func inferenceXReader() reader {
	return reader{
		format: results.OriginInferenceX,
		is: func(has func(...string) bool) bool {
			return has("conc") && has("tput_per_gpu", "output_tput_per_gpu") && has("hw", "framework")
		},
		required: []string{"conc"},
		read:     readInferenceX,
		known:    inferenceXMembers,
	}
}

// inferenceXSizes are how a model is divided.
const inferenceXSizes = `tp pp ep dcp_size pcp_size
	prefill_tp prefill_pp prefill_ep prefill_dcp_size prefill_pcp_size prefill_num_workers
	decode_tp decode_pp decode_ep decode_dcp_size decode_pcp_size decode_num_workers`

// inferenceXMembers are those that are read, and those that follow from others.
var inferenceXMembers = sync.OnceValue(func() map[string]bool {
	known := map[string]bool{}
	for name := range strings.FieldsSeq(inferenceXSizes + ` hw conc image model infmax_model_prefix
		framework recipe_fingerprint isl osl disagg is_multinode num_prefill_gpu num_decode_gpu tput_per_gpu
		output_tput_per_gpu input_tput_per_gpu benchmark_outcome power_metric_schema_version power_valid
		avg_power_w avg_total_gpu_power_w total_gpu_energy_j joules_per_successful_query joules_per_input_token
		joules_per_output_token joules_per_total_token`) {
		known[name] = true
	}
	for _, l := range []string{"mean", "median", "std", "p50", "p75", "p90", "p95", "p99", "p99.9"} {
		known[l+"_intvty"] = true
	}
	return known
})

// readInferenceX reads a row. Settings by which rows differ are axes: numbers and the
// recipe where rows would else be taken for repetitions, texts always.
func readInferenceX(r *Result, o *object) (told map[string]bool, err error) {
	d, w, s := &r.Deployment, &r.Job.Workload, r.Summary
	whole := func(key string, least int) int { return max(int(min(o.integer(key), math.MaxInt32)), least) }
	d.Model, d.Image = o.text("model"), o.text("image")
	d.Kind = cmp.Or(engineKind(o.text("framework")), o.text("framework"))
	w.Concurrency, w.Dataset.InputTokens, w.OutputTokens = whole("conc", 0), whole("isl", 0), whole("osl", 0)
	if !o.has("tp") && !o.has("num_prefill_gpu") {
		return nil, errors.New("it does not say of how many GPUs it is: there is neither tp nor num_prefill_gpu")
	}
	total := whole("tp", 1) * whole("pp", 1) * whole("pcp_size", 1)
	output, input := total, total
	if o.text("is_multinode") == "true" {
		total, input = whole("num_prefill_gpu", 0)+whole("num_decode_gpu", 0), whole("num_prefill_gpu", 0)
		output = cmp.Or(whole("num_decode_gpu", 0), total)
	}
	if total <= 0 || total > math.MaxInt16 {
		return nil, fmt.Errorf("it says that there are %d GPUs", total)
	}
	gpu, _, _ := strings.Cut(o.text("hw"), "-") // after it stands whose
	d.GPUCount, d.GPUs = total, gpuModel(gpu)
	if gpu != "" {
		d.GPUs = fmt.Sprintf("%dx%s", total, d.GPUs)
	}
	addAxis(&r.Cell, "concurrency", float64(w.Concurrency))
	addAxis(&r.Cell, "input_tokens", float64(w.Dataset.InputTokens))
	addAxis(&r.Cell, "output_tokens", float64(w.OutputTokens))
	for key := range strings.FieldsSeq(inferenceXSizes) {
		if v, ok := o.number(key); ok {
			r.rest = append(r.rest, results.Axis{Name: key, Value: int64(v)}) // whose meaning is known
		}
	}
	if recipe := o.text("recipe_fingerprint"); recipe != "" && len(recipe) <= maxMetadata {
		r.rest = append(r.rest, results.Axis{Name: "recipe_fingerprint", Value: recipe})
	}
	told = map[string]bool{}
	tell := func(name string, at *float64, key string, gpus int) {
		if v, ok := o.number(key); ok {
			*at, told[name] = v*float64(gpus), true
		}
	}
	tell("total_throughput", &s.TotalThroughput, "tput_per_gpu", total)
	tell("output_throughput", &s.OutputThroughput, "output_tput_per_gpu", output)
	tell("input_throughput", &s.InputThroughput, "input_tput_per_gpu", input)
	for _, key := range o.keys {
		f, unit, ok := latencyNamed(key)
		if v, number := o.number(key); ok && number {
			if unit == "" {
				f.ms = milliseconds["s"]
			}
			f.set(&r.Cell, v)
			told[f.name] = true
		}
	}
	r.readPower(o, told)
	return told, r.readOutcome(o, told)
}

// readPower takes in the energy where it is said to be valid.
func (r *Result) readPower(o *object, told map[string]bool) {
	energy, power := o.float("total_gpu_energy_j"), o.float("avg_total_gpu_power_w")
	if o.float("power_valid") == 1 && energy > 0 && power > 0 && !math.IsInf(energy/power, 0) {
		r.Telemetry = &telemetry.Record{Energy: energy}
		r.Summary.Duration, told["duration_s"] = energy/power, true
	}
}

// readOutcome takes in how many requests there were.
func (r *Result) readOutcome(o *object, told map[string]bool) error {
	var is outcome
	if err := o.into("benchmark_outcome", &is); err != nil {
		return err
	}
	for name, from := range map[string]struct{ said, at *int }{
		"requests":  {is.Requested, &r.Summary.Requests},
		"completed": {is.Completed, &r.Summary.Completed},
		"failed":    {is.Failed, &r.Summary.Failed},
	} {
		if from.said != nil {
			*from.at, told[name] = *from.said, true
		}
	}
	return nil
}

// errNothing says why there is nothing to export of a cell.
func errNothing(r *results.Row) error {
	return fmt.Errorf("there is no measurement: %s", strings.Join(r.Verdict().Texts(), "; "))
}
