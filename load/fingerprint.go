package load

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Fingerprint is everything about a workload that can change a number, as named words. A data file
// counts by its content; by its path only as long as its checksum is not known. A default counts
// the same whether it is said or not, and what has no effect does not count. Nor does an SLO: what
// it asks for is computed from the records, whenever it is asked.
func (w Workload) Fingerprint() map[string]string {
	w = w.effective()
	f := fingerprint{}
	add(f, "endpoint", w.Endpoint)
	add(f, "requests", w.Requests)
	add(f, "duration", w.Duration)
	add(f, "concurrency", w.Concurrency)
	add(f, "rate", w.Rate)
	add(f, "burstiness", unless(1, w.Burstiness))
	add(f, "ramp", w.Ramp)
	f.stages(w.Stages)
	add(f, "output_tokens", w.OutputTokens)
	add(f, "ignore_eos", w.IgnoreEOS)
	add(f, "temperature", w.Temperature)
	add(f, "no_stream", w.NoStream)
	add(f, "batch_size", unless(1, w.BatchSize))
	add(f, "extra_body", unless("{}", compact(w.ExtraBody)))
	add(f, "adapters", w.Adapting())
	add(f, "warmup_requests", w.Warmup)
	add(f, "warmup", w.CutBeginning)
	add(f, "cooldown", w.CutEnd)
	add(f, "stop_when_overloaded", w.StopWhenOverloaded)
	add(f, "timeout", unless(Duration(DefaultTimeout), w.Timeout))
	add(f, "stall", unless(Duration(DefaultStall), w.Stall))
	f.dataset(w.Dataset)
	return f
}

// effective is the workload without what has no effect on it: recorded times are
// the data set's own, and only a rate has arrivals.
func (w Workload) effective() Workload {
	if w.Dataset.Timed() {
		w.Rate, w.Ramp, w.Stages = 0, 0, nil
	}
	paced := func(r Rate) bool { return r != 0 && r != Inf }
	if !paced(w.Rate) && !slices.ContainsFunc(w.Stages, func(s Stage) bool { return paced(s.Rate) }) {
		w.Burstiness = 0
	}
	return w
}

type fingerprint map[string]string

// add adds a pair, unless its value says nothing.
func add[T comparable](f fingerprint, name string, value T) {
	if value != *new(T) {
		f[name] = fmt.Sprint(value)
	}
}

// unless is a value, and nothing where it is the one that holds anyway.
func unless[T comparable](anyway, value T) T {
	if value == anyway {
		return *new(T)
	}
	return value
}

func (f fingerprint) stages(stages []Stage) {
	var parts []string
	for _, s := range stages {
		part := s.Duration.String()
		if s.Rate != 0 {
			part += " rate " + s.Rate.String()
		}
		if s.Concurrency != 0 {
			part += fmt.Sprint(" concurrency ", s.Concurrency)
		}
		parts = append(parts, part)
	}
	add(f, "stages", strings.Join(parts, ", "))
}

func (f fingerprint) dataset(d Dataset) {
	add(f, "dataset.kind", d.Kind)
	add(f, "dataset.input_tokens", d.InputTokens)
	add(f, "dataset.output_tokens", d.OutputTokens)
	if d.Ranged() {
		f["dataset.range_ratio"] = fmt.Sprint(*d.RangeRatio)
		f["dataset.convention"] = cmp.Or(d.Convention, ConventionSGLang)
	}
	add(f, "dataset.seed", d.Seed)
	add(f, "dataset.groups", d.Groups)
	add(f, "dataset.prompts_per_group", d.PromptsPerGroup)
	add(f, "dataset.prefix_tokens", d.PrefixTokens)
	add(f, "dataset.question_tokens", d.QuestionTokens)
	add(f, "dataset.filter", d.Filter)
	add(f, "dataset.turns", d.Turns)
	add(f, "dataset.tool_calls", d.ToolCalls)
	add(f, "dataset.sub_agents", d.SubAgents)
	add(f, "dataset.result_tokens", d.ResultTokens)
	add(f, "dataset.tool_delay", d.ToolDelay)
	add(f, "dataset.documents", d.Documents)
	add(f, "dataset.query_tokens", d.QueryTokens)
	add(f, "dataset.document_tokens", d.DocumentTokens)
	add(f, "dataset.think_time", d.ThinkTime)
	add(f, "dataset.max_delay", d.MaxDelay)
	add(f, "dataset.arrivals", d.Arrivals)
	add(f, "dataset.history", unless(Answered, d.History))
	add(f, "dataset.salt", d.Salt)
	add(f, "dataset.of_model", d.OfModel)
	f.images(d)
	if !math.IsNaN(d.Slowdown) {
		add(f, "dataset.slowdown", unless(1, d.Slowdown))
	}
	f.file("dataset.", d.Path, d.SHA256)
	f.file("dataset.image_dir_", d.ImageDir, d.ImageDirSHA256)
	f.file("dataset.tokenizer_", d.Tokenizer, d.TokenizerSHA256)
}

func (f fingerprint) images(d Dataset) {
	add(f, "dataset.images", d.Images)
	if d.ImagesRatio != nil {
		add(f, "dataset.images_range_ratio", *d.ImagesRatio)
	}
	add(f, "dataset.max_images", unless(maxImages, d.MaxImages))
	add(f, "dataset.image_sizes", d.ImageWords())
}

// file adds a file by its content, or by its path where that is not known.
func (f fingerprint) file(prefix, path, sha256 string) {
	if path != "" && sha256 != "" {
		f[prefix+"sha256"] = strings.ToLower(sha256)
	} else {
		add(f, prefix+"path", path)
	}
}

// compact is a JSON text in one form of all that mean the same: without blanks, its
// members sorted, its numbers as they are written.
func compact(text string) string {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return text
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("encode what was decoded: %v. This is a bug in hcl.", err))
	}
	return strings.TrimSpace(b.String())
}
