package engines

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hclbench/provision"
	"hclbench/telemetry"
)

var trtllm = kind{
	program:    func(e *Engine) []string { return []string{"trtllm-serve", e.serves()} },
	port:       8000,
	needsModel: true,
	click:      true,
	configFlag: "extra_llm_api_options", // newer versions have --config as another name of it
	oneReplica: true,
	nvidia:     true,
	image:      "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
	families:   []string{"tensorrt-llm", "tensorrt_llm", "trtllm", "tritonserver"},

	modelID: lastElement,
	health:  "/health",
	exports: func(*Engine) *telemetry.Exports { return &telemetry.Exports{Iterations: true} },
	tells:   models,
	served:  trtllmFields,
	bench:   trtllmBench,

	transfers:    []string{"ucx", "nixl", "mpi", "default"},
	disaggregate: trtllmSplit,
}

// trtllmFields is what the report of its benchmark says of the world that it ran in
// (tensorrt_llm/bench/dataclasses/reporting.py); its server tells nothing.
var trtllmFields = []served{
	{"world_info.tp_size", "tp-size"},
	{"world_info.pp_size", "pp-size"},
	{"world_info.max_batch_size", "max-batch-size"},
	{"world_info.max_num_tokens", "max-num-tokens"},
	{"world_info.kv_cache_percentage", "kv-cache-free-gpu-memory-fraction"},
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

// trtllmBench is tensorrt_llm/bench, for the model itself or for an engine that was built
// of it, whose parallelism is in the engine. It leaves its figures at once.
func trtllmBench(e *Engine, out *Bench) (argv []string, flags []Flag, err error) {
	out.Tool, out.Prompts = "trtllm-bench", promptsPath
	model := simModel(e)
	argv = append(e.started("trtllm-bench"), "--model", model)
	if tokenizer, ok := e.Flag("tokenizer"); ok {
		argv = append(argv, "--model_path", tokenizer)
	} else if strings.HasPrefix(model, "/") {
		argv = append(argv, "--model_path", model)
	}
	argv = append(argv, "throughput", "--dataset", out.Prompts, "--num_requests", strconv.Itoa(out.Batch.Requests),
		"--report_json", out.Result)
	if e.Build != nil {
		argv = append(argv, "--engine_dir", e.Build.Output)
	}
	for _, f := range e.Flags {
		name, has := trtllmFlags[strings.ReplaceAll(f.Name, "-", "_")]
		if !has || e.Build != nil && slices.Contains([]string{"tp", "pp", "ep"}, name) {
			continue
		}
		f.Name = name
		flags = append(flags, f)
	}
	add := func(name, value string) {
		text := provision.Plain(value)
		flags = append(flags, Flag{Name: name, Value: &text})
	}
	if e.Config.Reveal() != "" {
		add("extra_llm_api_options", ConfigFile(e))
	}
	if _, said := e.Flag("backend"); !said && e.Build == nil {
		add("backend", "pytorch")
	}
	return argv, flags, nil
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
