package engines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/provision"
)

// Batch is what an engine's own offline benchmark is given: requests that are all
// there at the start, each generated to the full.
type Batch struct {
	Requests     int
	Kind         string // of its data set: [Random], [SharedPrefix], [ShareGPT], or another
	InputTokens  int    // of each request; 0: as the data set has it
	OutputTokens int    // of each request, none ends early; 0: as the data set has it
	Seed         uint64

	// RangeOf is the engine whose tool means by Ratio what the data set does: lengths
	// from n·(1-ratio) to n·(1+ratio) with [VLLM], from n·ratio to n with [SGLang].
	// Empty: each length is as it stands here.
	RangeOf string
	Ratio   float64

	Groups, PromptsPerGroup      int    // of shared prefixes
	PrefixTokens, QuestionTokens int    // likewise, of each prompt
	Filter                       string // of ShareGPT: whose, [VLLM] or [SGLang]
}

// The kinds of data sets that several tools have.
const (
	Random       = "random"
	SharedPrefix = "shared-prefix"
	ShareGPT     = "sharegpt"
)

// Bench is one run of an engine's own offline benchmark.
type Bench struct {
	Tool      string              // as people call it: "vllm bench throughput"
	Container provision.Container // without name and labels, as of [Container]
	Result    string              // where the tool leaves its figures; of a process, in its own directory
	// Begins and Ends match lines of its log: the last such line is written when what
	// is measured begins, or when it has ended. nil: no line says so.
	Begins, Ends *regexp.Regexp
	// Outputs matches the line of its log that says how many tokens were generated in
	// all, in its first group; nil: the figures say so.
	Outputs *regexp.Regexp
	// Prompts is where the tool expects a file of [WritePrompt]'s lines; empty: it
	// makes prompts of its own.
	Prompts string
	// Dataset is where the tool expects the data set's own file; empty: there is none.
	Dataset string
	Batch   Batch

	served *regexp.Regexp // the line of its log that says what it runs with; nil: its figures may
}

const (
	resultFile  = "hcl-offline.json"
	promptsPath = "/tmp/hcl-prompts.jsonl"
	datasetPath = "/tmp/hcl-dataset.json"
)

// Offline is the engine's own offline benchmark of a batch, in the engine's
// container with the engine's flags, as far as its tool has them: the commands of
// vllm/benchmarks/throughput.py, sglang/bench_offline_throughput.py and
// tensorrt_llm/bench. The error is a sentence for the author of the lab: the
// engine has no such benchmark, or none of such a batch.
func Offline(e *Engine, b Batch) (Bench, error) {
	switch {
	case !slices.Contains([]string{VLLM, SGLang, TRTLLM, Sim}, e.Kind):
		return Bench{}, fmt.Errorf("hcl knows the offline benchmarks of %q, %q and %q, and this engine is of kind %q", SGLang, VLLM, TRTLLM, e.Kind)
	case e.Kind != Sim && e.Command != nil:
		return Bench{}, errors.New("the lab gives the whole command of its server, which does not tell how its benchmark is started: say image, model and flags instead of command")
	case e.Kind != Sim && e.Model == nil:
		return Bench{}, errors.New("a benchmark needs a model")
	}
	out := Bench{Result: resultFile, Batch: b}
	if Runtime(e) == provision.Docker {
		out.Result = path.Join("/tmp", resultFile)
	}
	kind := e.Kind
	if kind == Sim {
		kind = VLLM
		if as, ok := e.Flag("as"); ok {
			kind = as
		}
	}
	if kind != TRTLLM {
		// vLLM's benchmark looks for its name in the file, SGLang's passes over it in
		// silence.
		e = e.withoutConfig()
	}
	var argv, data []string
	var flags []Flag
	var err error
	switch kind {
	case VLLM:
		out.Ends, out.Outputs, out.served = vllmDone, vllmOutputs, vllmServed
		data, err = vllmData(e, &out)
		out.Tool, argv = vllmThroughput(e, b, data, out.Result)
		flags = vllmEngineFlags(e)
	case SGLang:
		out.Tool, out.Begins, out.served = "sglang.bench_offline_throughput", sglangBegins, sglangServed
		data, err = sglangData(e, &out)
		argv = append(e.started("python3", "-m", "sglang.bench_offline_throughput"), "--model-path", e.benchModel())
		argv = append(argv, data...)
		argv = append(argv, "--seed", b.seed(), "--result-filename", out.Result)
		flags = e.Flags // they are the server's own arguments, all of them
	case TRTLLM:
		out.Tool, out.Prompts = "trtllm-bench", promptsPath
		argv, flags = trtllmBench(e, b, out)
	}
	if err != nil {
		return Bench{}, err
	}
	if e.Kind == Sim {
		argv = append([]string{provision.Self, "sim"}, argv...)
		flags = e.Flags
	} else if e.Model.Revision != "" && e.Build == nil && kind != TRTLLM {
		if _, set := e.Flag("revision"); !set {
			argv = append(argv, "--revision", e.Model.Revision)
		}
	}
	like := *e
	like.Flags, like.Command = flags, nil
	for _, a := range argv {
		like.Command = append(like.Command, provision.Plain(a))
	}
	like.Command = append(like.Command, like.flagWords()...)
	out.Container = Container(&like)
	out.Container.Port = 0
	return out, nil
}

// What the tools write in their logs. Both end their engine before they leave their
// figures, which takes seconds; TensorRT-LLM's leaves them at once.
var (
	vllmOutputs  = regexp.MustCompile(`^Total num output tokens: +(\d+)$`)
	vllmDone     = regexp.MustCompile(`^Processed prompts: +100%`) // the bar of LLM.generate
	sglangBegins = regexp.MustCompile(`^Benchmark\.\.\.`)
)

// seed is the batch's seed as every tool takes it: numpy's is of 32 bits.
func (b Batch) seed() string { return strconv.FormatUint(b.Seed&math.MaxInt32, 10) }

// started is how a benchmark is started: as the lab says, or else so. The simulated
// engine has them all in itself.
func (e *Engine) started(words ...string) []string {
	if len(e.OfflineCommand) > 0 && e.Kind != Sim {
		return slices.Clone(e.OfflineCommand)
	}
	return words
}

// benchModel is what a benchmark loads.
func (e *Engine) benchModel() string {
	if e.Kind == Sim {
		return simModel(e)
	}
	return e.serves()
}

// vllmThroughput is the command of vLLM's benchmark. Before 0.9 it was a script
// beside the package: in the working directory of vLLM's own images, and in
// /app/vllm of AMD's.
func vllmThroughput(e *Engine, b Batch, data []string, result string) (tool string, argv []string) {
	tool, argv = "vllm bench throughput", e.started("vllm", "bench", "throughput")
	if e.before(0, 9, 0) {
		script := "benchmarks/benchmark_throughput.py"
		if amdOnly(e.Image) {
			script = "/app/vllm/" + script
		}
		tool, argv = "benchmark_throughput.py", e.started("python3", script)
	}
	argv = append(argv, "--model", e.benchModel(), "--num-prompts", strconv.Itoa(b.Requests))
	return tool, append(append(argv, data...), "--seed", b.seed(), "--output-json", result)
}

// vllmData are the arguments that say what vLLM's benchmark makes prompts of.
func vllmData(e *Engine, bench *Bench) ([]string, error) {
	b, old := bench.Batch, e.before(0, 9, 0)
	var output []string
	if b.OutputTokens > 0 {
		output = []string{"--output-len", strconv.Itoa(b.OutputTokens)}
	}
	switch {
	case b.RangeOf != "" && old:
		return nil, errors.New("the benchmark of vLLM before 0.9 has one length for all prompts: remove range_ratio")
	case b.RangeOf != "" && (b.Kind != Random || b.RangeOf != VLLM || b.Ratio >= 1):
		return nil, fmt.Errorf("the benchmark of vLLM has ranges of lengths for random prompts alone, and by its own convention: convention = %q and a range_ratio below 1", VLLM)
	case b.Kind == Random:
		var data []string
		if !old {
			data = []string{"--dataset-name", "random"}
		}
		data = append(append(data, "--input-len", strconv.Itoa(b.InputTokens)), output...)
		if b.RangeOf != "" {
			data = append(data, "--random-range-ratio", ratio(b.Ratio))
		}
		return data, nil
	case b.Kind == ShareGPT && b.Filter != VLLM:
		return nil, fmt.Errorf("the benchmark of vLLM leaves out conversations as vLLM does: write filter = %q in the data set", VLLM)
	case b.Kind == ShareGPT && b.InputTokens > 0:
		return nil, errors.New("the benchmark of vLLM cuts no conversation to a length: remove input_tokens from the data set")
	case b.Kind == ShareGPT && old && output == nil:
		return nil, errors.New("the benchmark of vLLM before 0.9 does not tell how much it generated: say output_tokens")
	case b.Kind == ShareGPT && old:
		bench.Dataset = datasetPath
		return append([]string{"--dataset", datasetPath}, output...), nil
	case b.Kind == ShareGPT:
		bench.Dataset = datasetPath
		return append([]string{"--dataset-name", "sharegpt", "--dataset-path", datasetPath}, output...), nil
	case b.Kind == SharedPrefix && e.before(0, 13, 0):
		// Until pull request 29663 it takes random prompts instead, and says nothing.
		return nil, errors.New("the benchmark of vLLM before 0.13 has no shared prefixes")
	case b.Kind == SharedPrefix:
		if err := b.allOfGroups(); err != nil {
			return nil, err
		}
		return []string{"--dataset-name", "prefix_repetition", "--prefix-repetition-num-prefixes", strconv.Itoa(b.Groups),
			"--prefix-repetition-prefix-len", strconv.Itoa(b.PrefixTokens), "--prefix-repetition-suffix-len", strconv.Itoa(b.QuestionTokens),
			"--prefix-repetition-output-len", strconv.Itoa(b.OutputTokens)}, nil
	}
	return nil, b.unknownTo("vLLM")
}

// sglangData are the arguments that say what SGLang's benchmark makes prompts of.
func sglangData(e *Engine, bench *Bench) ([]string, error) {
	b := bench.Batch
	data := func(name string, more ...string) []string {
		return append([]string{"--dataset-name", name, "--num-prompts", strconv.Itoa(b.Requests)}, more...)
	}
	switch {
	case b.RangeOf != "" && (b.Kind != Random || b.RangeOf != SGLang):
		return nil, fmt.Errorf("the benchmark of SGLang has ranges of lengths for random prompts alone, and by its own convention: convention = %q", SGLang)
	case b.Kind == Random:
		share := "1"
		if b.RangeOf != "" {
			share = ratio(b.Ratio)
		}
		return data("random", "--random-input-len", strconv.Itoa(b.InputTokens), "--random-output-len", strconv.Itoa(b.OutputTokens),
			"--random-range-ratio", share), nil
	case b.Kind == ShareGPT && b.Filter != SGLang:
		return nil, fmt.Errorf("the benchmark of SGLang leaves out conversations as SGLang does: write filter = %q in the data set", SGLang)
	case b.Kind == ShareGPT && b.InputTokens > 0:
		return nil, errors.New("the benchmark of SGLang cuts no conversation to a length: remove input_tokens from the data set")
	case b.Kind == ShareGPT:
		bench.Dataset = datasetPath
		more := []string{"--dataset-path", datasetPath}
		if b.OutputTokens > 0 {
			more = append(more, "--sharegpt-output-len", strconv.Itoa(b.OutputTokens))
		}
		return data("sharegpt", more...), nil
	case b.Kind == SharedPrefix && e.before(0, 4, 4):
		return nil, errors.New("hcl knows the shared prefixes of SGLang's benchmark from 0.4.4 on, when its arguments got other names")
	case b.Kind == SharedPrefix:
		if err := b.allOfGroups(); err != nil {
			return nil, err
		}
		return data("generated-shared-prefix", "--gsp-num-groups", strconv.Itoa(b.Groups), "--gsp-prompts-per-group", strconv.Itoa(b.PromptsPerGroup),
			"--gsp-system-prompt-len", strconv.Itoa(b.PrefixTokens), "--gsp-question-len", strconv.Itoa(b.QuestionTokens),
			"--gsp-output-len", strconv.Itoa(b.OutputTokens)), nil
	}
	return nil, b.unknownTo("SGLang")
}

func ratio(r float64) string { return strconv.FormatFloat(r, 'g', -1, 64) }

// allOfGroups: the tools make all prompts of all groups, no fewer, and no more.
func (b Batch) allOfGroups() error {
	if all := b.Groups * b.PromptsPerGroup; b.Requests != all {
		return fmt.Errorf("its prompts are those of all groups, each once: %d groups of %d are %d requests, and the benchmark says %d", b.Groups, b.PromptsPerGroup, all, b.Requests)
	}
	return nil
}

func (b Batch) unknownTo(tool string) error {
	return fmt.Errorf("the benchmark of %s takes data sets of kind %q, %q and %q, and this one is of kind %q", tool, Random, SharedPrefix, ShareGPT, b.Kind)
}

// fixedOutputs is the number of tokens that n requests generate where the batch
// alone says it; 0: it does not.
func (b Batch) fixedOutputs(n int) int64 {
	if b.RangeOf != "" {
		return 0
	}
	return int64(n) * int64(b.OutputTokens)
}

// Asked is how many tokens n requests of the batch have and generate; 0 for what
// the batch alone does not say.
func (b Batch) Asked(n int) (input, output int64) {
	switch {
	case b.RangeOf != "":
		return 0, 0
	case b.Kind == SharedPrefix:
		return int64(n) * int64(b.PrefixTokens+b.QuestionTokens), b.fixedOutputs(n)
	}
	return int64(n) * int64(b.InputTokens), b.fixedOutputs(n)
}

// vllmServerFlags are those of vLLM's server that its engine does not have.
var vllmServerFlags = []string{
	"allow-credentials", "allowed-headers", "allowed-methods", "allowed-origins", "api-key", "api-server-count",
	"chat-template", "chat-template-content-format", "disable-fastapi-docs", "disable-frontend-multiprocessing",
	"disable-log-requests", "disable-uvicorn-access-log", "enable-auto-tool-choice", "enable-prompt-tokens-details",
	"enable-log-requests", "enable-request-id-headers", "enable-server-load-tracking", "enable-ssl-refresh", "headless",
	"host", "lora-modules", "max-log-len", "middleware", "response-role", "return-tokens-as-token-ids", "root-path",
	"seed", "ssl-ca-certs", "ssl-cert-reqs", "ssl-certfile", "ssl-keyfile", "tool-call-parser", "tool-parser-plugin",
	"uvicorn-log-level",
}

func vllmEngineFlags(e *Engine) []Flag {
	return slices.DeleteFunc(slices.Clone(e.Flags), func(f Flag) bool {
		return slices.Contains(vllmServerFlags, strings.ReplaceAll(f.Name, "_", "-"))
	})
}

// trtllmFlags are the flags of trtllm-serve that its benchmark has too, by the
// names that they have there.
var trtllmFlags = map[string]string{
	"backend":                           "backend",
	"tp_size":                           "tp",
	"pp_size":                           "pp",
	"ep_size":                           "ep",
	"max_batch_size":                    "max_batch_size",
	"max_num_tokens":                    "max_num_tokens",
	"max_seq_len":                       "max_seq_len",
	"extra_llm_api_options":             "extra_llm_api_options",
	"config":                            "config",
	"kv_cache_free_gpu_memory_fraction": "kv_cache_free_gpu_mem_fraction",
}

// trtllmBench is the command of TensorRT-LLM's benchmark, for the model itself or
// for an engine that was built of it, whose parallelism is in the engine.
func trtllmBench(e *Engine, b Batch, files Bench) (argv []string, flags []Flag) {
	model := simModel(e)
	argv = append(e.started("trtllm-bench"), "--model", model)
	if tokenizer, ok := e.Flag("tokenizer"); ok {
		argv = append(argv, "--model_path", tokenizer)
	} else if strings.HasPrefix(model, "/") {
		argv = append(argv, "--model_path", model)
	}
	argv = append(argv, "throughput", "--dataset", files.Prompts, "--num_requests", strconv.Itoa(b.Requests), "--report_json", files.Result)
	if e.Build != nil {
		argv = append(argv, "--engine_dir", e.Build.Output)
	}
	for _, f := range e.Flags {
		name, has := trtllmFlags[strings.ReplaceAll(f.Name, "-", "_")]
		if !has || e.Build != nil && (name == "tp" || name == "pp" || name == "ep") {
			continue
		}
		f.Name = name
		flags = append(flags, f)
	}
	if e.Config.Reveal() != "" {
		file := provision.Plain(ConfigFile(e))
		flags = append(flags, Flag{Name: "extra_llm_api_options", Value: &file})
	}
	if _, said := e.Flag("backend"); !said && e.Build == nil {
		backend := provision.Plain("pytorch")
		flags = append(flags, Flag{Name: "backend", Value: &backend})
	}
	return argv, flags
}

// WritePrompt writes a request as a line of the file that trtllm-bench reads: the
// prompt, in JSON a list of token ids or a text, and how many tokens are generated.
func WritePrompt(w io.Writer, i int, prompt []byte, output int) error {
	member := "input_ids"
	if bytes.HasPrefix(prompt, []byte(`"`)) {
		member = "prompt"
	}
	_, err := fmt.Fprintf(w, "{\"task_id\": %d, %q: %s, \"output_tokens\": %d}\n", i, member, prompt, output)
	return err
}

// BenchResult is what an offline benchmark measured. Figures that a tool does not
// give are 0.
type BenchResult struct {
	Requests     int
	Seconds      float64
	InputTokens  int64
	OutputTokens int64
}

// ReadResult reads what the tools write: vLLM's members of the same names, the
// last line of SGLang's file, to which it appends, and TensorRT-LLM's report.
//
// vLLM gives only the tokens in all. What it has generated its log says, see
// [Bench.Outputs], or, where that is 0, the batch: the benchmark ignores the end of
// text.
func (b Batch) ReadResult(text []byte, outputs int64) (BenchResult, error) {
	var r struct {
		// vLLM
		ElapsedTime    float64 `json:"elapsed_time"`
		NumRequests    int     `json:"num_requests"`
		TotalNumTokens int64   `json:"total_num_tokens"`
		// SGLang
		SuccessfulRequests int     `json:"successful_requests"`
		TotalLatency       float64 `json:"total_latency"`
		TotalInputTokens   int64   `json:"total_input_tokens"`
		TotalOutputTokens  int64   `json:"total_output_tokens"`
		// TensorRT-LLM
		RequestInfo struct {
			NumRequests     int     `json:"num_requests"`
			AvgInputLength  float64 `json:"avg_input_length"`
			AvgOutputLength float64 `json:"avg_output_length"`
		} `json:"request_info"`
		Performance struct {
			TotalLatencyMs float64 `json:"total_latency_ms"`
		} `json:"performance"`
	}
	text = bytes.TrimSpace(text)
	whole := json.Unmarshal(text, &r)
	if whole != nil {
		if err := json.Unmarshal(text[bytes.LastIndexByte(text, '\n')+1:], &r); err != nil {
			return BenchResult{}, fmt.Errorf("read the benchmark's result: %w", whole)
		}
	}
	var out BenchResult
	switch {
	case r.ElapsedTime > 0:
		out = BenchResult{Requests: r.NumRequests, Seconds: r.ElapsedTime, OutputTokens: cmp.Or(outputs, b.fixedOutputs(r.NumRequests))}
		out.InputTokens = r.TotalNumTokens - out.OutputTokens
	case r.TotalLatency > 0:
		// The first versions count no requests.
		out = BenchResult{Requests: cmp.Or(r.SuccessfulRequests, b.Requests), Seconds: r.TotalLatency, InputTokens: r.TotalInputTokens, OutputTokens: r.TotalOutputTokens}
	case r.Performance.TotalLatencyMs > 0:
		n := float64(r.RequestInfo.NumRequests)
		out = BenchResult{
			Requests: r.RequestInfo.NumRequests, Seconds: r.Performance.TotalLatencyMs / 1000,
			InputTokens:  int64(math.Round(n * r.RequestInfo.AvgInputLength)),
			OutputTokens: int64(math.Round(n * r.RequestInfo.AvgOutputLength)),
		}
	}
	if out.Requests <= 0 || out.InputTokens < 0 || out.OutputTokens <= 0 {
		return BenchResult{}, fmt.Errorf("read the benchmark's result: it says no requests, time or tokens: %.300s", text)
	}
	return out, nil
}
