package engines

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/provision"
)

// Batch is what an engine's own offline benchmark is given: requests that are all
// there at the start, each of the same length, generated to the full.
type Batch struct {
	Requests     int
	InputTokens  int // of each request
	OutputTokens int // of each request; none ends early
	Seed         uint64
}

// Bench is one run of an engine's own offline benchmark.
type Bench struct {
	Tool      string              // as people call it: "vllm bench throughput"
	Container provision.Container // without name and labels, as of [Container]
	Result    string              // where the tool leaves its figures; of a process, in its own directory
	// Begins and Ends match lines of its log: the last such line is written when what
	// is measured begins, or when it has ended. nil: no line says so.
	Begins, Ends *regexp.Regexp
	// Prompts is where the tool expects the file that [Batch.WritePrompts] writes;
	// empty: it makes prompts of its own.
	Prompts string
}

const (
	resultFile  = "hcl-offline.json"
	promptsPath = "/tmp/hcl-prompts.jsonl"
)

// Offline is the engine's own offline benchmark of a batch, in the engine's
// container with the engine's flags, as far as its tool has them: the commands of
// vllm/benchmarks/throughput.py, sglang/bench_offline_throughput.py and
// tensorrt_llm/bench. The error is a sentence for the author of the lab: the
// engine has no such benchmark.
func Offline(e *Engine, b Batch) (Bench, error) {
	switch {
	case !slices.Contains([]string{VLLM, SGLang, TRTLLM, Sim}, e.Kind):
		return Bench{}, fmt.Errorf("hcl knows the offline benchmarks of %q, %q and %q, and this engine is of kind %q", SGLang, VLLM, TRTLLM, e.Kind)
	case e.Kind != Sim && e.Command != nil:
		return Bench{}, errors.New("the lab gives the whole command of its server, which does not tell how its benchmark is started: say image, model and flags instead of command")
	case e.Kind != Sim && e.Model == nil:
		return Bench{}, errors.New("a benchmark needs a model")
	}
	out := Bench{Result: resultFile}
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
	if e.Config.Reveal() != "" && kind != TRTLLM {
		// vLLM's looks for a subcommand behind it, SGLang's passes over it in silence.
		return Bench{}, fmt.Errorf("the benchmark of %q reads no configuration file: say in flags what stands in config, by the same names", kind)
	}
	var argv []string
	var flags []Flag
	switch kind {
	case VLLM:
		out.Tool, argv = vllmThroughput(e, b, out.Result)
		out.Ends = vllmDone
		flags = vllmEngineFlags(e)
	case SGLang:
		out.Tool, out.Begins = "sglang.bench_offline_throughput", sglangBegins
		argv = []string{"python3", "-m", "sglang.bench_offline_throughput", "--model-path", e.benchModel(),
			"--dataset-name", "random", "--num-prompts", strconv.Itoa(b.Requests),
			"--random-input-len", strconv.Itoa(b.InputTokens), "--random-output-len", strconv.Itoa(b.OutputTokens),
			"--random-range-ratio", "1", "--seed", b.seed(), "--result-filename", out.Result}
		flags = e.Flags // they are the server's own arguments, all of them
	case TRTLLM:
		out.Tool, out.Prompts = "trtllm-bench", promptsPath
		argv, flags = trtllmBench(e, b, out)
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
	vllmDone     = regexp.MustCompile(`^Processed prompts: +100%`) // the bar of LLM.generate
	sglangBegins = regexp.MustCompile(`^Benchmark\.\.\.`)
)

// seed is the batch's seed as every tool takes it: numpy's is of 32 bits.
func (b Batch) seed() string { return strconv.FormatUint(b.Seed&math.MaxInt32, 10) }

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
func vllmThroughput(e *Engine, b Batch, result string) (tool string, argv []string) {
	tool, argv = "vllm bench throughput", []string{"vllm", "bench", "throughput", "--dataset-name", "random"}
	if e.before(0, 9, 0) {
		script := "benchmarks/benchmark_throughput.py"
		if amdOnly(e.Image) {
			script = "/app/vllm/" + script
		}
		tool, argv = "benchmark_throughput.py", []string{"python3", script}
	}
	return tool, append(argv, "--model", e.benchModel(), "--num-prompts", strconv.Itoa(b.Requests),
		"--input-len", strconv.Itoa(b.InputTokens), "--output-len", strconv.Itoa(b.OutputTokens),
		"--seed", b.seed(), "--output-json", result)
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
	argv = []string{"trtllm-bench", "--model", model}
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

// firstToken and tokens bound the token ids of prompts: above what vocabularies
// keep for special tokens, below the end of every one in use.
const (
	firstToken = 1000
	tokens     = 20000
)

// WritePrompts writes the batch as the file of prompts that trtllm-bench reads:
// a JSON object a line with the token ids of a request and how many tokens are to
// be generated. The ids are random, and the same whenever the seed is.
func (b Batch) WritePrompts(w io.Writer) error {
	out := bufio.NewWriter(w)
	r := rand.New(rand.NewPCG(b.Seed, 0))
	for i := range b.Requests {
		fmt.Fprintf(out, `{"task_id": %d, "input_ids": [`, i)
		for j := range b.InputTokens {
			if j > 0 {
				out.WriteByte(',')
			}
			fmt.Fprint(out, firstToken+r.IntN(tokens))
		}
		fmt.Fprintf(out, "], \"output_tokens\": %d}\n", b.OutputTokens)
	}
	return out.Flush()
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
// vLLM gives only the tokens in all. Its benchmark always ignores the end of
// text, so that what was generated is what the batch asked for.
func (b Batch) ReadResult(text []byte) (BenchResult, error) {
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
		out = BenchResult{Requests: r.NumRequests, Seconds: r.ElapsedTime, OutputTokens: int64(r.NumRequests) * int64(b.OutputTokens)}
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
