package load

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fingerprint is everything about a workload that can change a number, as named
// words. A data file counts by its content; by its path only as long as its checksum is
// not known. A default counts the same whether it is said or not, and what has no
// effect does not count. Nor does an SLO: what it asks for is computed from the records,
// whenever it is asked.
func (w Workload) Fingerprint() map[string]string {
	w = w.effective()
	f := fingerprint{}
	f.set("endpoint", w.Endpoint)
	f.number("requests", w.Requests)
	f.duration("duration", w.Duration)
	f.number("concurrency", w.Concurrency)
	f.rate("rate", w.Rate)
	if b := cmp.Or(w.Burstiness, 1); b != 1 {
		f.rate("burstiness", b)
	}
	f.duration("ramp", w.Ramp)
	f.stages(w.Stages)
	f.number("output_tokens", w.OutputTokens)
	f.truth("ignore_eos", w.IgnoreEOS)
	f.float("temperature", w.Temperature)
	f.truth("no_stream", w.NoStream)
	if body := compact(w.ExtraBody); body != "{}" {
		f.set("extra_body", body)
	}
	f.number("warmup_requests", w.Warmup)
	f.duration("warmup", w.CutBeginning)
	f.duration("cooldown", w.CutEnd)
	if t := cmp.Or(w.Timeout, Duration(DefaultTimeout)); t != Duration(DefaultTimeout) {
		f.duration("timeout", t)
	}
	if s := cmp.Or(w.Stall, Duration(DefaultStall)); s != Duration(DefaultStall) {
		f.duration("stall", s)
	}
	f.dataset(w.Dataset)
	return f
}

// effective is the workload without what has no effect on it: a trace has times of its
// own, and only a rate has arrivals.
func (w Workload) effective() Workload {
	if w.Dataset.Kind == Trace {
		w.Rate, w.Ramp, w.Stages = 0, 0, nil
	}
	paced := func(r Rate) bool { return r != 0 && r != Inf }
	if !paced(w.Rate) && !slices.ContainsFunc(w.Stages, func(s Stage) bool { return paced(s.Rate) }) {
		w.Burstiness = 0
	}
	return w
}

// fingerprint collects pairs; a value that says nothing is left out.
type fingerprint map[string]string

func (f fingerprint) set(name, value string) {
	if value != "" {
		f[name] = value
	}
}

func (f fingerprint) number(name string, n int) {
	if n != 0 {
		f[name] = strconv.Itoa(n)
	}
}

func (f fingerprint) float(name string, x float64) {
	if x != 0 {
		f[name] = strconv.FormatFloat(x, 'g', -1, 64)
	}
}

func (f fingerprint) rate(name string, r Rate) {
	if r != 0 {
		f[name] = r.String()
	}
}

func (f fingerprint) duration(name string, d Duration) {
	if d != 0 {
		f[name] = d.String()
	}
}

func (f fingerprint) truth(name string, v bool) {
	if v {
		f[name] = "true"
	}
}

func (f fingerprint) stages(stages []Stage) {
	var parts []string
	for _, s := range stages {
		part := time.Duration(s.Duration).String()
		if s.Rate != 0 {
			part += " rate " + s.Rate.String()
		}
		if s.Concurrency != 0 {
			part += " concurrency " + strconv.Itoa(s.Concurrency)
		}
		parts = append(parts, part)
	}
	f.set("stages", strings.Join(parts, ", "))
}

// dataset adds what prompts are made of.
func (f fingerprint) dataset(d Dataset) {
	f.set("dataset.kind", d.Kind)
	f.number("dataset.input_tokens", d.InputTokens)
	f.number("dataset.output_tokens", d.OutputTokens)
	if d.Ranged() {
		f["dataset.range_ratio"] = strconv.FormatFloat(*d.RangeRatio, 'g', -1, 64)
		f["dataset.convention"] = cmp.Or(d.Convention, ConventionSGLang)
	}
	f.set("dataset.seed", seedText(d.Seed))
	f.number("dataset.groups", d.Groups)
	f.number("dataset.prompts_per_group", d.PromptsPerGroup)
	f.number("dataset.prefix_tokens", d.PrefixTokens)
	f.number("dataset.question_tokens", d.QuestionTokens)
	f.set("dataset.filter", d.Filter)
	if slow := cmp.Or(d.Slowdown, 1); slow != 1 && !math.IsNaN(slow) {
		f.float("dataset.slowdown", slow)
	}
	f.file("dataset.", d.Path, d.SHA256)
	f.file("dataset.tokenizer_", d.Tokenizer, d.TokenizerSHA256)
}

func seedText(seed uint64) string {
	if seed == 0 {
		return ""
	}
	return strconv.FormatUint(seed, 10)
}

// file adds a file by its content, or by its path where that is not known.
func (f fingerprint) file(prefix, path, sha256 string) {
	switch {
	case path == "":
	case sha256 != "":
		f[prefix+"sha256"] = strings.ToLower(sha256)
	default:
		f[prefix+"path"] = path
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
