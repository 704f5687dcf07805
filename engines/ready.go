package engines

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Readiness says how to tell that a server really serves.
type Readiness struct {
	Health      string        // path that answers 200; empty: skip
	HealthEvery time.Duration // never ask more often than this
	Models      string        // path that lists the models; empty: it lists none
	Model       string        // the model that must be listed; empty: any
	Stall       time.Duration // nothing has moved for this long: give up
	Timeout     time.Duration // give up after this in all; 0: never
}

// ReadinessOf returns how the engine is to be waited for.
func ReadinessOf(e *Engine) Readiness {
	k := kinds[e.Kind]
	if e.Kind == GroupKind { // the slowest decides
		out := Readiness{Models: "/v1/models", Model: ServedModel(e)}
		for _, r := range e.workers() {
			one := ReadinessOf(r.engine)
			out.Stall, out.Timeout = max(out.Stall, one.Stall), max(out.Timeout, one.Timeout)
		}
		return out
	}
	models := "/v1/models"
	if e.discovers() {
		models = ""
	}
	return Readiness{
		Health:      k.health,
		HealthEvery: max(k.healthEvery, 250*time.Millisecond),
		Models:      models,
		Model:       ServedModel(e),
		Stall:       cmp.Or(e.Ready.Stall, DefaultStall),
		Timeout:     e.Ready.Timeout,
	}
}

// CacheReset is the request that drops the engine's prefix cache. ok is false
// when the engine, as it is started, cannot: why says so.
func CacheReset(e *Engine) (method, path, why string, ok bool) {
	r := kinds[e.Kind].reset
	switch {
	case r.path == "":
		return "", "", e.Kind + " has no request for it", false
	case r.needsEnv != "" && !e.hasEnv(r.needsEnv):
		return "", "", e.Kind + " offers it only with env " + r.needsEnv, false
	}
	return "POST", r.path, "", true
}

const coreFailed = "the engine's core failed"

// fatal are log lines after which no server ever comes up, with what they mean,
// from the engines' own sources and issue threads. The more telling come first.
var fatal = []struct {
	means string
	line  *regexp.Regexp
}{
	{"the GPUs' memory is not free", anyOf(`Free memory on device .* on startup is less than desired GPU memory utilization`,
		`The memory capacity is unbalanced`)},
	{"out of GPU memory", anyOf(`torch\.(cuda\.)?OutOfMemoryError`, `(CUDA|HIP) out of memory`, `CUDA error: out of memory`,
		`HSA_STATUS_ERROR_OUT_OF_RESOURCES`)},
	{"no room for the KV cache", anyOf(`No available memory for the cache blocks`)},
	{"its container has no GPUs, or has lost them", anyOf(`Failed to initialize NVML`, `No (?:CUDA|HIP) GPUs are available`,
		`no (ROCm|CUDA)-capable device`, `Failed to infer device type`)},
	{"the GPU faulted", anyOf(`CUDA_ERROR_ILLEGAL_ADDRESS`, `Memory access fault by GPU node`, `no TensileLibrary_lazy_gfx`)},
	{"the GPUs cannot talk to each other", anyOf(`NCCL error:`, `ncclUnhandledCudaError`,
		`Watchdog caught collective operation timeout`)},
	{"the port is taken", anyOf(`\[Errno 98\]`, `Address already in use`)},
	{"the engine does not know an argument", anyOf(`error: unrecognized arguments`, `error: argument .*: invalid choice`)},
	{"the model cannot be fetched", anyOf(`(401|403) Client Error`, `is not a valid model identifier`,
		`does not appear to have a file named`, `GatedRepoError`)},
	{"the disk is full", anyOf(`No space left on device`)},
	{coreFailed, anyOf(`Engine core initialization failed`, `WorkerProc failed to start`, `EngineDeadError`,
		`(Scheduler|DataParallelController) hit an exception`, `Received sigquit from a child process`)},
}

func anyOf(patterns ...string) *regexp.Regexp { return regexp.MustCompile(strings.Join(patterns, "|")) }

// Fatal is what a log line says after which no server comes up.
type Fatal struct {
	Means string
	Rank  string // of the process that says so: "3"; empty: the line does not tell
	// Follows says that the line tells of a failure elsewhere: one of its causes
	// may have its own line, before it or shortly after.
	Follows bool
}

// FatalLine reports whether a log line means that the engine will never serve,
// and what it means.
func FatalLine(line string) (f Fatal, ok bool) {
	for _, known := range fatal {
		if known.line.MatchString(line) {
			return Fatal{Means: known.means, Rank: rankOf(line), Follows: known.means == coreFailed}, true
		}
	}
	return f, false
}

// ranks are how the engines name the process that writes a line: "[… TP3]" and
// "[… DP1 TP3]" (SGLang), "(VllmWorker rank=3 pid=…)" and "(Worker_TP3 pid=…)"
// (vLLM), "[rank3]:" (torch), "[TensorRT-LLM][RANK 3]" and "[RANK 3]".
var ranks = regexp.MustCompile(`\bTP(\d+)\]|\brank=(\d+)|Worker\w*_TP(\d+)\b|\[(?i:rank) ?(\d+)\]`)

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

// phases are lines of vLLM, SGLang and TensorRT-LLM, in the order in which one
// counts when several match.
var phases = []struct {
	phase string
	line  *regexp.Regexp
}{
	{"downloading the model", regexp.MustCompile(`(?:Fetching \d+ files|Downloading \w*):.*?(\d+)/(\d+)`)},
	{"loading weights", regexp.MustCompile(`(?i)(?:checkpoint shards|loading weights\w*|Loading weights concurrently):.*?(\d+)/(\d+)`)},
	{"loading weights", regexp.MustCompile(`(?i)load weight begin|starting to load model|loading model|\[TensorRT-LLM\] Loading`)},
	{"compiling", regexp.MustCompile(`(?i)torch\.compile|compiling|DeepGEMM warmup|\bJIT\b|autotun`)},
	{"capturing graphs", regexp.MustCompile(`(?i)captur\w* (?:batches|(?:cuda |hip )?graph).*?(\d+)/(\d+)`)},
	{"capturing graphs", regexp.MustCompile(`(?i)captur\w* (?:batches|(?:cuda |hip )?graph)`)},
	{"starting the server", regexp.MustCompile(`Started server process|Waiting for application startup`)},
}
