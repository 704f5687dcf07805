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
	// Prompts is where the tool expects the file that PromptFile writes; empty: it makes prompts of its own.
	Prompts string
	// Dataset is where the tool expects the data set's own file; empty: there is none.
	Dataset string
	Batch   Batch

	// Dropped are flags of the lab's that its tool has no name for, and that may change what it measures.
	Dropped []string

	served  *regexp.Regexp // the line of its log that says what it runs with; nil: its figures may
	prompts func(w io.Writer) (write func(i int, prompt []byte, output int) error, end func() error)
}

// PromptFile begins the file of [Bench.Prompts]: write adds a prompt, in JSON a list of token ids or a text, of which
// so many tokens are generated, and end ends it.
func (b *Bench) PromptFile(w io.Writer) (write func(i int, prompt []byte, output int) error, end func() error) {
	return b.prompts(w)
}

const (
	resultFile  = "hcl-offline.json"
	promptsPath = "/tmp/hcl-prompts.jsonl"
	datasetPath = "/tmp/hcl-dataset.json"
)

// Offline is the engine's own offline benchmark of a batch, in the engine's
// container with the engine's flags, as far as its tool has them. The error is a
// sentence for the author of the lab: the engine has no such benchmark, or none of
// such a batch.
func Offline(e *Engine, b Batch) (Bench, error) {
	k := kinds[e.Kind]
	switch {
	case k.bench == nil:
		return Bench{}, fmt.Errorf(noBench, SGLang, VLLM, TRTLLM, e.Kind)
	case e.Kind != Sim && e.Command != nil:
		return Bench{}, errors.New(benchOfCommand)
	case len(e.Placement.front().Hosts) > 1:
		return Bench{}, errors.New("its benchmark runs on one host")
	case e.Kind != Sim && e.Model == nil:
		return Bench{}, errors.New("a benchmark needs a model")
	}
	out := Bench{Result: resultFile, Batch: b}
	if Runtime(e) == provision.Docker {
		out.Result = path.Join("/tmp", resultFile)
	}
	if k.configHasFlags() {
		// vLLM's benchmark looks for its name in the file, SGLang's passes over it in
		// silence.
		e = e.withoutConfig()
	}
	argv, flags, err := k.bench(e, &out)
	if err != nil {
		return Bench{}, err
	}
	if _, set := e.Flag("revision"); k.revisionFlag && !set && e.Model.Revision != "" && e.Build == nil {
		argv = append(argv, "--revision", e.Model.Revision)
	}
	like := *e
	like.Flags = flags
	like.Command = append(plainWords(argv), like.flagWords()...)
	out.Container = Container(&like)
	out.Container.Port = 0
	return out, nil
}

// Why there is no benchmark.
const (
	noBench        = "hcl knows the offline benchmarks of %q, %q and %q, and this engine is of kind %q"
	benchOfCommand = "the lab gives the whole command of its server, which does not tell how its benchmark " +
		"is started: say image, model and flags instead of command"
	ownRanges = "the benchmark of %s has ranges of lengths for random prompts alone, and by its own convention: " +
		"convention = %q"
	notAllPrompts = "its prompts are those of all groups, each once: %d groups of %d are %d requests, " +
		"and the benchmark says %d"
	otherKinds = "the benchmark of %s takes data sets of kind %q, %q and %q, and this one is of kind %q"
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

// fits reports why a tool that makes its prompts as the kind does can make none of the
// batch.
func (b Batch) fits(tool, kind string) error {
	all := b.Groups * b.PromptsPerGroup
	switch {
	case b.RangeOf != "" && (b.Kind != Random || b.RangeOf != kind):
		return fmt.Errorf(ownRanges, tool, kind)
	case b.Kind == ShareGPT && b.Filter != kind:
		return fmt.Errorf("the benchmark of %s leaves out conversations as %[1]s does: write filter = %q in the data set", tool, kind)
	case b.Kind == ShareGPT && b.InputTokens > 0:
		return fmt.Errorf("the benchmark of %s cuts no conversation to a length: remove input_tokens from the data set", tool)
	case b.Kind == SharedPrefix && b.Requests != all: // it makes all prompts of all groups, no fewer, and no more
		return fmt.Errorf(notAllPrompts, b.Groups, b.PromptsPerGroup, all, b.Requests)
	case b.Kind != Random && b.Kind != ShareGPT && b.Kind != SharedPrefix:
		return fmt.Errorf(otherKinds, tool, Random, SharedPrefix, ShareGPT, b.Kind)
	}
	return nil
}

func (b Batch) ratio() string { return strconv.FormatFloat(b.Ratio, 'g', -1, 64) }

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
		outputs = cmp.Or(outputs, b.fixedOutputs(r.NumRequests))
		out = BenchResult{r.NumRequests, r.ElapsedTime, r.TotalNumTokens - outputs, outputs}
	case r.TotalLatency > 0:
		// The first versions count no requests.
		out = BenchResult{cmp.Or(r.SuccessfulRequests, b.Requests), r.TotalLatency, r.TotalInputTokens, r.TotalOutputTokens}
	case r.Performance.TotalLatencyMs > 0:
		all := func(mean float64) int64 { return int64(math.Round(float64(r.RequestInfo.NumRequests) * mean)) }
		info := r.RequestInfo
		out = BenchResult{info.NumRequests, r.Performance.TotalLatencyMs / 1000, all(info.AvgInputLength), all(info.AvgOutputLength)}
	}
	if out.Requests <= 0 || out.InputTokens < 0 || out.OutputTokens <= 0 {
		return BenchResult{}, fmt.Errorf("read the benchmark's result: it says no requests, time or tokens: %.300s", text)
	}
	return out, nil
}
