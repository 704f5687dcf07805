package results

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
)

// The formats of SGLang's own load generator, bench_serving: the block that it
// prints and the line of its --output-file. The line is valid JSON: an unbounded
// rate is "inf", where SGLang writes a bare Infinity, which no reader of JSON but
// Python's takes. Answers are counted by the server and never tokenized again, so
// that total_output_tokens_retokenized is null and has no row. Two members are
// more than SGLang has: failed, which it does not count, and max_itl_ms, which it
// only prints.

// SGLangJSON is the cell as a line of --output-file. A cell without a
// measurement is an error.
func SGLangJSON(r Row) ([]byte, error) {
	o, err := sglangObject(r)
	return exported(r, o, err)
}

// SGLangDetailedJSON is SGLangJSON with the arrays of --output-details: one
// element per request, failed ones included, times in seconds. SGLang does not
// say when requests began.
func SGLangDetailedJSON(r Row, records []load.Record) ([]byte, error) {
	o, err := sglangObject(r)
	if err == nil {
		o.addRecords(records)
		o = o.without("start_times")
	}
	return exported(r, o, err)
}

// SGLangText writes the cell as the block that bench_serving prints. A cell
// without a measurement is an error.
func SGLangText(w io.Writer, r Row) error {
	o, err := sglangObject(r)
	if err != nil {
		return fmt.Errorf("export cell %s: %w", r.ID, err)
	}
	return sglangDialect().write(w, o)
}

func sglangObject(r Row) (*object, error) {
	if o, err := foreign(r, "sglang"); o != nil || err != nil {
		return o, err
	}
	s, w := r.Summary, r.Job.Workload
	d := w.Dataset
	o := &object{}
	o.addOf(r)
	o.add("tag", nil)
	o.add("backend", sglangBackend(r.Deployment.Kind, w.Endpoint))
	o.add("dataset_name", sglangDataset(d.Kind))
	o.addRate(w)
	if d.Kind == load.Trace {
		o.add("request_rate", "trace")
	}
	o.add("max_concurrency", orNull(w.Concurrency))
	o.add("sharegpt_output_len", orNull(d.OutputTokens))
	input, output, ratio := any(nil), any(nil), any(nil)
	if d.Kind == load.Random {
		input, output = d.InputTokens, w.OutputTokens
		switch {
		case d.RangeRatio == nil:
			ratio = 1.0
		case d.Convention == load.ConventionSGLang:
			ratio = *d.RangeRatio
		}
	}
	o.add("random_input_len", input)
	o.add("random_output_len", output)
	o.add("random_range_ratio", ratio)
	info := json.RawMessage("null")
	if r.Deployment.Kind == "sglang" && len(r.Deployment.Served) > 0 {
		info = r.Deployment.Served
	}
	o.add("server_info", info)
	o.addFigure(s, "duration_s", "duration", s.Duration)
	o.addCount(s, "completed", "completed", int64(s.Completed))
	o.addCount(s, "failed", "failed", int64(s.Failed))
	o.addCount(s, "input_tokens", "total_input_tokens", s.InputTokens)
	o.addCount(s, "input_tokens", "total_input_text_tokens", s.InputTokens)
	o.add("total_input_vision_tokens", 0)
	o.addCount(s, "output_tokens", "total_output_tokens", s.OutputTokens)
	o.add("total_output_tokens_retokenized", nil)
	o.addFigure(s, "request_throughput", "request_throughput", s.RequestThroughput)
	o.addFigure(s, "input_throughput", "input_throughput", s.InputThroughput)
	o.addFigure(s, "output_throughput", "output_throughput", s.OutputThroughput)
	o.addFigure(s, "total_throughput", "total_throughput", s.TotalThroughput)
	for i, m := range sglangDialect().metrics {
		stats := []load.Stats{s.E2EL, s.TTFT, s.TPOT, s.ITL}[i]
		o.addStats(s, m, stats, func(s load.Stats) []string {
			return slices.DeleteFunc([]string{"90", "95", "99"}, func(p string) bool {
				_, there := s.Percentiles[p]
				return !there
			})
		})
		if m.hasMax {
			o.addFigure(s, "itl_ms.max", "max_"+m.key+"_ms", stats.Max)
		}
	}
	o.addFigure(s, "mean_concurrency", "concurrency", s.MeanConcurrency)
	var perStep *float64
	if r.Telemetry != nil {
		perStep = r.Telemetry.StepTokens
	}
	o.add("accept_length", perStep)
	o.addFigure(s, "peak_output_throughput", "max_output_tokens_per_s", s.PeakOutputThroughput)
	o.addCount(s, "peak_concurrency", "max_concurrent_requests", int64(s.PeakConcurrency))
	if t := r.Telemetry; t != nil && t.PrefixHitRate != nil {
		report := &object{}
		report.add("cache_hit_rate_pct", 100**t.PrefixHitRate)
		line, err := report.line()
		if err != nil {
			return nil, err
		}
		o.add("cache_report", json.RawMessage(line))
	}
	return o, nil
}

func readSGLang(c *Cell, o *object) {
	s, w := c.Summary, &c.Job.Workload
	d := &w.Dataset
	d.Kind = o.text("dataset_name")
	for _, kind := range load.DatasetKinds() {
		if sglangDataset(kind) == d.Kind {
			d.Kind = kind
		}
	}
	d.OutputTokens = int(o.whole("sharegpt_output_len"))
	if d.Kind == load.Random {
		d.InputTokens, w.OutputTokens = int(o.whole("random_input_len")), int(o.whole("random_output_len"))
		if ratio, ok := o.number("random_range_ratio"); ok {
			d.RangeRatio, d.Convention = &ratio, load.ConventionSGLang
		}
	}
	switch backend := o.text("backend"); {
	case strings.HasSuffix(backend, "chat"):
		w.Endpoint = load.Chat
	case backend == "sglang" || backend == "sglang-native":
		w.Endpoint = load.Generate
	}
	var info struct {
		ModelPath       string `json:"model_path"`
		ServedModelName string `json:"served_model_name"`
	}
	if o.into("server_info", &info) == nil { // of another form: the model is not known
		c.Job.Target.Model = info.ServedModelName
		if info.ServedModelName == "" {
			c.Job.Target.Model = info.ModelPath
		}
	}
	s.InputThroughput, s.MeanConcurrency = o.float("input_throughput"), o.float("concurrency")
	if s.TotalThroughput = o.float("total_throughput"); s.TotalThroughput == 0 && s.InputThroughput > 0 && s.OutputThroughput > 0 {
		s.TotalThroughput = s.InputThroughput + s.OutputThroughput // it is not in lines of old
	}
	m := sglangDialect().metrics
	s.E2EL, s.TTFT = m[0].stats(o, s.Completed), m[1].stats(o, s.Completed)
	s.TPOT, s.ITL = m[2].stats(o, s.Completed), m[3].stats(o, gaps(s))
}

// sglangDialect is the block of bench_serving.
func sglangDialect() dialect {
	return dialect{
		name: formatSGLang,
		head: []blockRow{
			{"Backend:", "backend", asSpelt},
			{"Traffic request rate:", "request_rate", asSpelt},
			{"Max request concurrency:", "max_concurrency", orNotSet},
			{"Successful requests:", "completed", whole},
			{"Benchmark duration (s):", "duration", hundredth},
			{"Total input tokens:", "total_input_tokens", whole},
			{"Total input text tokens:", "total_input_text_tokens", whole},
			{"Total generated tokens:", "total_output_tokens", whole},
			{"Total generated tokens (retokenized):", "total_output_tokens_retokenized", whole},
			{"Request throughput (req/s):", "request_throughput", hundredth},
			{"Input token throughput (tok/s):", "input_throughput", hundredth},
			{"Output token throughput (tok/s):", "output_throughput", hundredth},
			{"Peak output token throughput (tok/s):", "max_output_tokens_per_s", hundredth},
			{"Peak concurrent requests:", "max_concurrent_requests", whole},
			{"Total token throughput (tok/s):", "total_throughput", hundredth},
			{"Concurrency:", "concurrency", hundredth},
			{"Accept length:", "accept_length", hundredth},
		},
		metrics: []blockMetric{
			{key: "e2e_latency", name: "E2E Latency", title: "End-to-End Latency"},
			{key: "ttft", name: "TTFT", title: "Time to First Token"},
			{key: "tpot", name: "TPOT", title: "Time per Output Token (excl. 1st token)"},
			{key: "itl", name: "ITL", title: "Inter-Token Latency", hasMax: true},
		},
	}
}

// sglangBackend is what --backend would have been.
func sglangBackend(kind, endpoint string) string {
	backend := "vllm" // which is its word for any server that speaks the OpenAI API
	if kind == "sglang" {
		backend = "sglang-oai"
	}
	switch endpoint {
	case load.Generate:
		return "sglang"
	case load.Chat:
		return backend + "-chat"
	}
	return backend
}

// sglangDataset is SGLang's name for a data set; one that it does not have keeps
// its own.
func sglangDataset(kind string) string {
	switch kind {
	case load.Random:
		return "random-ids"
	case load.SharedPrefix:
		return "generated-shared-prefix"
	case load.JSONL:
		return "custom"
	case load.Trace:
		return "mooncake"
	}
	return kind
}

// pythonFloat spells a number as Python does: 10 is 10.0, and 0.00001 is 1e-05.
func pythonFloat(f float64) string {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
