package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
)

// vllmDevMode opens vLLM's requests that are not for users: the cache reset and
// the configuration it serves with, but also others that change the server.
const vllmDevMode = "VLLM_SERVER_DEV_MODE=1"

var vllm = kind{
	program:      func(e *Engine) []string { return []string{"vllm", "serve", e.serves()} },
	port:         8000,
	needsModel:   true,
	pkg:          "vllm",
	version:      []string{"/version"},
	revisionFlag: true,
	configFlag:   "config",
	configSince:  [3]int{0, 6, 0}, // vllm-project/vllm#7737
	keyFlag:      true,
	keyEnv:       "VLLM_API_KEY",
	startsDiffer: true,
	image:        "vllm/vllm-openai:v0.32.0",
	forAMD:       "vllm/vllm-openai-rocm or rocm/vllm",
	families:     []string{"vllm"},

	modelID: servedName,
	health:  "/health",
	reset:   reset{vllmDevMode, vllmResets},
	tells: func(e *Engine) []string {
		if e.hasEnv(vllmDevMode) {
			return []string{"/server_info?config_format=json", "/v1/models"}
		}
		return models(e)
	},
	bench: vllmBench,

	rank:         vllmRank,
	shortPrefill: true,
	transfers:    []string{"nixl", mooncake, "mori", "p2p_nccl"},
	disaggregate: vllmSplit,
}

// vllmResets drop what connectors keep, too, vllm-project/vllm#27170; those that only transfer keep nothing. LMCache's does
// as if it did (0.32.0: connectors without reset_cache are told of in vLLM's log alone).
func vllmResets(e *Engine) (posts []string, kept string) {
	posts = []string{"/reset_prefix_cache"}
	config, _ := transferConfig(e) // one that cannot be read is told elsewhere
	var transfer struct {
		Connector string `json:"kv_connector"`
	}
	json.Unmarshal([]byte(config.Reveal()), &transfer) // likewise
	_, offloads := e.Flag("kv-offloading-size")
	backend, _ := e.Flag("kv-offloading-backend")
	switch caches := []string{"OffloadingConnector", "SimpleCPUOffloadConnector", "MooncakeStoreConnector", "MultiConnector"}; {
	case strings.Contains(config.Reveal(), `"LMCache`), offloads && backend == "lmcache":
		return posts, "LMCache keeps its own, which vLLM does not drop"
	case !offloads && !slices.Contains(caches, transfer.Connector):
		return posts, ""
	case e.before(0, 13, 0):
		return posts, "what it has put elsewhere stays before vLLM 0.13"
	}
	return []string{posts[0] + "?reset_external=true"}, ""
}

// What its benchmark writes in its log. It ends its engine before it leaves its figures,
// which takes seconds.
var (
	vllmOutputs = regexp.MustCompile(`^Total num output tokens: +(\d+)$`)
	vllmDone    = regexp.MustCompile(`^Processed prompts: +100%`) // the bar of LLM.generate
	vllmServed  = regexp.MustCompile(`Initializing a V[01] LLM engine \(.*?\) with config: (.*)$`)
)

// vllmBench is vllm/benchmarks/throughput.py. Before 0.9 it was a script beside the
// package: in the working directory of vLLM's own images, and in /app/vllm of AMD's.
func vllmBench(e *Engine, out *Bench) (argv []string, flags []Flag, err error) {
	out.Ends, out.Outputs, out.served = vllmDone, vllmOutputs, vllmServed
	data, err := vllmData(e, out)
	if f, _, _ := e.meant(setting.DataParallel); e.wholeNumber(1, setting.DataParallel) > 1 && err == nil {
		err = fmt.Errorf("the benchmark of vLLM has no data parallel: remove the flag %s, or measure the server", f.Name)
	}
	argv = e.started("vllm", "bench", "throughput")
	if out.Tool = "vllm bench throughput"; e.before(0, 9, 0) {
		script := "benchmarks/benchmark_throughput.py"
		if amdOnly(e.Image) {
			script = "/app/vllm/" + script
		}
		out.Tool, argv = "benchmark_throughput.py", e.started("python3", script)
	}
	argv = append(argv, "--model", e.benchModel(), "--num-prompts", strconv.Itoa(out.Batch.Requests))
	argv = append(append(argv, data...), "--seed", out.Batch.seed(), "--output-json", out.Result)
	d := e.dialect()
	flags = slices.DeleteFunc(slices.Clone(e.Flags), func(f Flag) bool {
		return d.means(f.Name).Is(setting.Served)
	})
	return argv, flags, err
}

// vllmData are the arguments that say what it makes prompts of.
func vllmData(e *Engine, out *Bench) ([]string, error) {
	b, old := out.Batch, e.before(0, 9, 0)
	if b.RangeOf != "" && old {
		return nil, errors.New("the benchmark of vLLM before 0.9 has one length for all prompts: remove range_ratio")
	}
	if err := b.fits("vLLM", VLLM); err != nil {
		return nil, err
	}
	switch {
	case b.RangeOf != "" && b.Ratio >= 1:
		return nil, errors.New("the benchmark of vLLM has ranges from n·(1-ratio) to n·(1+ratio): write a range_ratio below 1")
	case b.Kind == ShareGPT && old && b.OutputTokens == 0:
		return nil, errors.New("the benchmark of vLLM before 0.9 does not tell how much it generated: say output_tokens")
	case b.Kind == SharedPrefix && e.before(0, 13, 0): // until pull request 29663 it takes random prompts, and says nothing
		return nil, errors.New("the benchmark of vLLM before 0.13 has no shared prefixes")
	case b.Kind == SharedPrefix:
		return []string{"--dataset-name", "prefix_repetition",
			"--prefix-repetition-num-prefixes", strconv.Itoa(b.Groups),
			"--prefix-repetition-prefix-len", strconv.Itoa(b.PrefixTokens),
			"--prefix-repetition-suffix-len", strconv.Itoa(b.QuestionTokens),
			"--prefix-repetition-output-len", strconv.Itoa(b.OutputTokens)}, nil
	}
	var data []string
	if !old {
		data = []string{"--dataset-name", b.Kind}
	}
	switch {
	case b.Kind == Random:
		data = append(data, "--input-len", strconv.Itoa(b.InputTokens))
	case old:
		out.Dataset, data = datasetPath, append(data, "--dataset", datasetPath)
	default:
		out.Dataset, data = datasetPath, append(data, "--dataset-path", datasetPath)
	}
	if b.OutputTokens > 0 {
		data = append(data, "--output-len", strconv.Itoa(b.OutputTokens))
	}
	if b.RangeOf != "" {
		data = append(data, "--random-range-ratio", b.ratio())
	}
	return data, nil
}
