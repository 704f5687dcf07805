package formats

import (
	"cmp"
	"strings"

	"hclbench/load"
	"hclbench/results"
)

// sglang is SGLang's own load generator, bench_serving. Its line is valid JSON here: an
// unbounded rate is "inf", where SGLang writes a bare Infinity, which no reader of JSON
// but Python's takes. Answers are counted by the server and never tokenized again, so
// that total_output_tokens_retokenized is null and has no row. Two members are more than
// SGLang has: failed, which it does not count, and max_itl_ms, which it only prints.
func sglang() Tool {
	return Tool{
		format: results.OriginSGLang,
		members: `tag backend dataset_name request_rate max_concurrency sharegpt_output_len random_input_len random_output_len
			random_range_ratio server_info duration completed failed total_input_tokens total_input_text_tokens
			total_input_vision_tokens total_output_tokens total_output_tokens_retokenized
			request_throughput input_throughput output_throughput total_throughput`,
		values: map[string]func(*results.Row) any{
			"tag":                             null,
			"backend":                         sglangBackend,
			"dataset_name":                    func(r *results.Row) any { return sglangDataset(r.Job.Prompts().Dataset.Kind) },
			"request_rate":                    sglangRate,
			"max_concurrency":                 maxConcurrency,
			"sharegpt_output_len":             func(r *results.Row) any { return orNull(r.Job.Prompts().Dataset.OutputTokens) },
			"random_input_len":                ofRandom(func(b load.Batch) any { return b.Dataset.InputTokens }),
			"random_output_len":               ofRandom(func(b load.Batch) any { return b.OutputTokens }),
			"random_range_ratio":              ofRandom(sglangRatio),
			"server_info":                     sglangInfo,
			"total_input_vision_tokens":       func(*results.Row) any { return 0 },
			"total_output_tokens_retokenized": null,
			"accept_length": func(r *results.Row) any {
				if t := r.Telemetry; t != nil && t.StepTokens != nil {
					return t.StepTokens
				}
				return nil
			},
			"cache_report": func(r *results.Row) any {
				if t := r.Telemetry; t != nil && t.PrefixHitRate != nil {
					return map[string]float64{"cache_hit_rate_pct": 100 * *t.PrefixHitRate}
				}
				return absent{}
			},
		},
		latencies: []section{
			{key: "e2e_latency", name: "E2E Latency", title: "End-to-End Latency"},
			{key: "ttft", name: "TTFT", title: "Time to First Token"},
			{key: "tpot", name: "TPOT", title: "Time per Output Token (excl. 1st token)"},
			{key: "itl", name: "ITL", title: "Inter-Token Latency", hasMax: true},
		},
		percentiles: []string{"90", "95", "99"},
		after:       "concurrency accept_length max_output_tokens_per_s max_concurrent_requests cache_report",
		head:        sglangRows(),
		readLoad:    readSGLang,
	}
}

func sglangRows() []blockRow {
	return []blockRow{
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
	}
}

// sglangRate is the rate, or that requests come when a trace says.
func sglangRate(r *results.Row) any {
	if r.Job.Workload.Dataset.Timed() {
		return "trace"
	}
	return rate(r)
}

// ofRandom is what only random prompts have.
func ofRandom(of func(load.Batch) any) func(*results.Row) any {
	return func(r *results.Row) any {
		b := r.Job.Prompts()
		if b.Dataset.Kind != load.Random {
			return nil
		}
		return of(b)
	}
}

func sglangRatio(b load.Batch) any {
	switch d := b.Dataset; {
	case d.RangeRatio == nil:
		return 1.0
	case d.Convention == load.ConventionSGLang:
		return *d.RangeRatio
	}
	return nil
}

func sglangInfo(r *results.Row) any {
	if said := r.Deployment.ServedBy(results.Member{Role: "serve"}); r.Deployment.Kind == "sglang" && len(said) > 0 {
		return said
	}
	return nil
}

func readSGLang(c *results.Cell, o *object) {
	s, w := c.Summary, &c.Job.Workload
	d := &w.Dataset
	d.Kind = o.text("dataset_name")
	for _, kind := range load.DatasetKinds() {
		if sglangDataset(kind) == d.Kind {
			d.Kind = kind
		}
	}
	d.OutputTokens = int(o.integer("sharegpt_output_len"))
	if d.Kind == load.Random {
		d.InputTokens, w.OutputTokens = int(o.integer("random_input_len")), int(o.integer("random_output_len"))
		if ratio, ok := o.number("random_range_ratio"); ok {
			d.RangeRatio, d.Convention = &ratio, load.ConventionSGLang
		}
	}
	switch backend := o.text("backend"); {
	case strings.HasSuffix(backend, "chat"):
		w.Endpoint = load.Chat
	case strings.HasSuffix(backend, "responses"):
		w.Endpoint = load.Responses
	case backend == "sglang" || backend == "sglang-native":
		w.Endpoint = load.Generate
	}
	var info struct {
		ModelPath       string `json:"model_path"`
		ServedModelName string `json:"served_model_name"`
	}
	if o.into("server_info", &info) == nil { // of another form: the model is not known
		c.Job.Target.Model = cmp.Or(info.ServedModelName, info.ModelPath)
	}
	if s.TotalThroughput == 0 && s.InputThroughput > 0 && s.OutputThroughput > 0 {
		s.TotalThroughput = s.InputThroughput + s.OutputThroughput // it is not in lines of old
	}
}

func sglangBackend(r *results.Row) any {
	backend := "vllm" // which is its word for any server that speaks the OpenAI API
	if r.Deployment.Kind == "sglang" {
		backend = "sglang-oai"
	}
	switch r.Job.Workload.Endpoint {
	case load.Generate:
		return "sglang"
	case load.Chat:
		return backend + "-chat"
	case load.Responses:
		return backend + "-responses"
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
