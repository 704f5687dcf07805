package engines

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fatal are log lines after which no server ever comes up, with what they mean.
// Those marked "recorded" stand in testdata/real, as engines wrote them; most of the others
// need GPUs, and are known from issue threads (testdata/real/by-hand/reported.tsv) and the
// engines' sources. The more telling come first.
var fatal = []struct {
	means string
	line  *regexp.Regexp
}{
	{"the GPUs' memory is not free", anyOf(`Free memory on device .* on startup is less than desired GPU memory utilization`,
		`The memory capacity is unbalanced`)},
	{"out of GPU memory", anyOf(`torch\.(cuda\.)?OutOfMemoryError`, `(CUDA|HIP) out of memory`, `CUDA error: out of memory`,
		`HSA_STATUS_ERROR_OUT_OF_RESOURCES`)},
	{"no room for the KV cache", anyOf(
		`KV cache is needed, which is larger than the available`, // recorded
		`leave no GPU memory for the KV cache`,                   // recorded
		`No available memory for the cache blocks`, `Not enough memory\. Please try to increase --mem-fraction-static`)},
	{"there is no GPU, or other device, that it can use", anyOf(`Failed to initialize NVML`, `No (?:CUDA|HIP) GPUs are available`,
		`no (ROCm|CUDA)-capable device`, `Failed to infer device type`)},
	{"the GPU driver is too old for it", anyOf(`NVIDIA driver on your system is too old`,
		`CUDA driver version is insufficient`, `unsatisfied condition: cuda`)},
	{"it has no kernels for this GPU", anyOf(`no kernel image is available for execution`, `hipErrorNoBinaryForGpu`,
		`invalid device function`)},
	{"the GPU faulted", anyOf(`CUDA_ERROR_ILLEGAL_ADDRESS`, `Memory access fault by GPU node`, `no TensileLibrary_lazy_gfx`)},
	{"the GPUs cannot talk to each other", anyOf(`NCCL error(:| in:)`, `nccl(Unhandled|System|Remote|Internal)\w*Error`,
		`Watchdog caught collective operation timeout`)},
	{"NIXL cannot open the network", anyOf(`UCX +ERROR uct_iface_open`, `NIXL_ERR_BACKEND`)}, // recorded
	{"NIXL is missing where it runs", anyOf(`(RuntimeError: |error ')NIXL is not available`)},
	{"the port is taken", anyOf(`\[Errno 98\]`, `(?i)address already in use`, `EADDRINUSE`)}, // recorded
	{"a rank does not find the others", anyOf(`The client socket has timed out`)},
	{"the engine does not know an argument", anyOf(`error: unrecognized arguments`,
		`error: ambiguous option`)}, // recorded
	{"the engine does not take the value of an argument", anyOf(`error: argument .*: (invalid|expected)`)}, // recorded
	{"max-model-len is beyond the model's own context",
		anyOf(`max_model_len \(.*\) is greater than the derived max_model_len`)}, // recorded
	{"the engine refuses its settings", anyOf(`^Value error, `)},                        // recorded
	{"the model has no tokenizer", anyOf(`Couldn't instantiate the backend tokenizer`)}, // recorded
	{"the model is not there, and cannot be fetched", anyOf(
		`^[\w.]*HFValidationError: `, `^[\w.]*LocalEntryNotFoundError: `, // recorded
		`(401|403) Client Error`, `is not a valid model identifier`, `does not appear to have a file named`, `GatedRepoError`)},
	{"this version does not know the model", anyOf(`Transformers does not recognize this architecture`,
		`Model architectures .* are not supported`)},
	{"/dev/shm has no room", anyOf(`Insufficient space in /dev/shm`)},
	{"the disk is full", anyOf(`No space left on device`)},
	{"it gave up on its own processes; VLLM_ENGINE_READY_TIMEOUT_S in its env lets it wait longer",
		anyOf(`Timed out waiting for engine core processes to start`)},
}

// cascade are lines of processes that fail because another one has, or of the one
// that has before it says why.
var cascade = anyOf(`Engine core initialization failed`, `WorkerProc failed to start`, `EngineDeadError`,
	`Received sigquit from a child process`, `SIGQUIT received`, `Worker failed with error`)

// died is a process that has ended, by which others fail. Where something failed before it is one of those itself.
var died = anyOf(`^Worker proc \S+ died unexpectedly`, // recorded
	`^Subprocess \S+ \(pid=\d+\) crashed with exit code`)

// opens are those that the error itself follows.
var opens = anyOf(`(Scheduler|DataParallelController|WorkerProc) hit an exception`, `EngineCore failed to start`)

func anyOf(patterns ...string) *regexp.Regexp { return regexp.MustCompile(strings.Join(patterns, "|")) }

// IsOutOfMemory reports whether why an engine does not serve is that the memory of its GPUs or its host is too small for it.
func IsOutOfMemory(why string) bool {
	return strings.Contains(why, "out of GPU memory") || strings.Contains(why, "no room for the KV cache") ||
		strings.Contains(why, "kernel killed it: out of memory")
}

// IsOfHost reports whether why an engine does not serve lies in its host at that moment, whatever its settings are.
func IsOfHost(why string) bool {
	return strings.Contains(why, "the port is taken") || strings.Contains(why, "the disk is full")
}

// Fatal is what a log says after which no server comes up.
type Fatal struct {
	Means string // empty: a form that is not known: the line says it
	Line  string
	Rank  string // of the process that says so: "3"; empty: the line does not tell
	// Follows says that the line tells of a failure elsewhere: one of its causes
	// may have its own line, before it or shortly after.
	Follows bool
}

func (f Fatal) String() string {
	means := f.Means
	if f.Rank != "" {
		means = strings.TrimSpace(means + " (rank " + f.Rank + ")")
	}
	return strings.TrimPrefix(means+": "+f.Line, ": ")
}

// Cause finds in an engine's log why it fails: the first line that means that it will never serve,
// or, where that only follows from something, the last error before it. The zero value has read nothing.
type Cause struct {
	fatal, failed *Fatal // failed: the error that may be the cause
	assert        string // the condition that a traceback has shown
}

// Read reads the next line.
func (c *Cause) Read(line string) {
	if ofRequest.MatchString(line) {
		return
	}
	text := bare(line)
	say := func(means, text string) *Fatal {
		return &Fatal{Means: means, Line: text, Rank: rankOf(line)}
	}
	for _, known := range fatal {
		if known.line.MatchString(text) {
			if c.fatal == nil || c.fatal.Follows {
				c.fatal = say(known.means, text)
			}
			return
		}
	}
	switch {
	case c.fatal != nil && (!c.fatal.Follows || c.failed != nil): // the rest follows from it
	case died.MatchString(text) && c.fatal == nil && c.failed == nil:
		c.fatal = say("one of its processes has ended", text)
	case opens.MatchString(text), cascade.MatchString(text):
		if c.fatal == nil {
			c.fatal = say("the engine's core failed", text)
			c.fatal.Follows = true
		}
		if opens.MatchString(text) {
			c.failed = nil
		}
	case strings.HasPrefix(text, "assert "):
		c.assert = text
	case failure.MatchString(text):
		if !strings.Contains(text, ": ") && c.assert != "" {
			text += ": " + c.assert
		}
		c.failed = say("", text)
	}
}

// Fatal returns why the engine will never serve; ok is false while the log does not say that.
func (c *Cause) Fatal() (f Fatal, ok bool) {
	switch {
	case c.fatal == nil:
		return f, false
	case c.fatal.Follows && c.failed != nil:
		f = *c.failed
		f.Follows = true
		return f, true
	}
	return *c.fatal, true
}

// Last is [Cause.Fatal] of an engine that has ended: without such a line, the last error is why.
func (c *Cause) Last() (f Fatal, ok bool) {
	if c.fatal == nil && c.failed != nil {
		return *c.failed, true
	}
	return c.Fatal()
}

// ofRequest is what vLLM's server tells of requests that it refuses and of answers that it cannot read, with tracebacks.
var ofRequest = regexp.MustCompile(` ERROR \S+ \S+ \[(?:validation|exception|\w+_tool_parser)\.py:\d+\]`)

// failure is the last line of a traceback, and what a program says of its arguments, or of itself.
var failure = regexp.MustCompile(`^(?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?:: .*)?$|^[\w. /-]+: error: |^(?i:error): .`)

// bare is a line without colours, and without the name of who says it, when and how loud,
// where that is an error.
func bare(line string) string {
	return said.ReplaceAllString(strings.TrimSpace(colour.ReplaceAllString(line, "")), "")
}

var (
	colour = regexp.MustCompile("\x1b\\[[0-9;]*m")
	said   = regexp.MustCompile(`^(?:\([^()]*pid=\d+\) *)?(?:ERROR \d\d-\d\d [\d:]+ (?:\[[^\]]*\]|\S+\]) *)?(?:\[[^\]]*\]:? +)?`)
)

// AccessLine reports whether a log line tells of a request, as servers write one of each, or of a path that it may ask for.
func AccessLine(line string) bool { return access.MatchString(colour.ReplaceAllString(line, "")) }

// access are uvicorn's, SGLang's router's (Rust), gin's and llama.cpp's, and of vLLM's start.
var access = anyOf(`"[A-Z]+ \S+ HTTP/[\d.]+" \d{3}`, `\bhttp_request\{.*(?:processing request|request failed with \w+ error)`, `^\[GIN\] `, `log_server_r: request: `,
	`\] Route: /\S*, `, `\] Available routes are:$`)

// ranks are how the engines name the process that writes a line: "[… TP3]" and
// "[… DP1 TP3 EP3]" (SGLang), "(VllmWorker rank=3 pid=…)" and "(Worker_TP3 pid=…)"
// (vLLM), "[rank3]:" (torch), "[TensorRT-LLM][RANK 3]" and "[RANK 3]".
var ranks = regexp.MustCompile(`\bTP(\d+)(?: EP\d+)?\]|\brank=(\d+)|Worker\w*_TP(\d+)\b|\[(?i:rank) ?(\d+)\]`)

func rankOf(line string) string {
	for _, n := range submatches(ranks, line) {
		return n
	}
	return ""
}

// submatches are a line's groups that matched anything.
func submatches(r *regexp.Regexp, line string) []string {
	m := r.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	return slices.DeleteFunc(m[1:], func(s string) bool { return s == "" })
}

// Progress is what an engine that is coming up is doing, by its log.
type Progress struct {
	Phase string // "loading weights"
	N, Of int    // so many of so many parts are done; 0: the line does not say
}

// ProgressOf tells from a log line what the engine is doing; ok is false for a
// line that does not say.
func ProgressOf(line string) (p Progress, ok bool) {
	line = colour.ReplaceAllString(line, "")
	for _, known := range phases {
		if !known.line.MatchString(line) {
			continue
		}
		p.Phase = known.phase
		if n := submatches(known.line, line); len(n) == 2 {
			p.N, _ = strconv.Atoi(n[0])
			p.Of, _ = strconv.Atoi(n[1])
		}
		return p, true
	}
	return p, false
}

// phases are lines of vLLM, SGLang and TensorRT-LLM by which a phase begins or goes on, and no others
// that have its words, as settings do ("Enforce eager set, disabling torch.compile"). Of several that
// match the first counts.
var phases = []struct {
	phase string
	line  *regexp.Regexp
}{
	{"downloading the model", anyOf(`(?:Fetching \d+ files|Downloading \w*):.*?(\d+)/(\d+)`)},
	{"starting the engine", anyOf(`Initializing an? (?:V\d )?LLM engine`, `Init (?:parallel|torch distributed) begin`)},
	{"loading weights", anyOf(`(?i)(?:checkpoint shards|loading shards|loading weights\w*|loading weights concurrently):.*?(\d+)/(\d+)`)},
	{"loading weights", anyOf(`Load weight begin`, `(?i:starting to load model|loading model )`, `\[TensorRT-LLM\] Loading`)},
	{"warming up", anyOf(`Loading weights took`, `Model loading took`, `Load weight end`)},
	{"compiling", anyOf(`(?i)(?:compiling|DeepGEMM warmup|autotun\w*).*?(\d+)/(\d+)`)},
	{"compiling", anyOf(`torch\.compile (?:takes|took)`, `for vLLM's torch\.compile`, `Dynamo bytecode transform`, `Compiling a graph`,
		`DeepGEMM (?:JIT|warmup)`)},
	{"capturing graphs", anyOf(`(?i)captur(?:e|ing) (?:batches|[a-z -]*graph).*?(\d+)/(\d+)`)},
	{"capturing graphs", anyOf(`(?i)captur(?:e|ing) (?:batches|[a-z -]*graph)`)},
	{"starting the server", anyOf(`init engine \(profile, create kv cache, warmup model\) took`,
		`Started server process`, `Waiting for application startup`)},
}
