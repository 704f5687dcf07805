package engines

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

var trtllm = kind{
	program:    func(e *Engine) []string { return []string{"trtllm-serve", e.serves()} },
	port:       8000,
	needsModel: true,
	pkg:        "tensorrt_llm",
	version:    []string{"/version"},
	click:      true,
	configFlag: "extra_llm_api_options", // newer versions have --config as another name of it
	nvidia:     true,
	image:      "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
	families:   []string{"tensorrt-llm", "tensorrt_llm", "trtllm", "tritonserver"},

	modelID: lastElement,
	health:  "/health",
	tells:   models,
	bench:   trtllmBench,

	shortPrefill: true,
	transfers:    []string{"ucx", "nixl", "mooncake", "default"},
	disaggregate: trtllmSplit,
}

// trtllmBench is tensorrt_llm/bench, for the model itself or for an engine that was built
// of it, whose parallelism is in the engine. It leaves its figures at once.
func trtllmBench(e *Engine, out *Bench) (argv []string, flags []Flag, err error) {
	out.Tool, out.Prompts, out.prompts = "trtllm-bench", promptsPath, trtllmPrompts
	model := simModel(e)
	argv = append(e.started("trtllm-bench"), "--model", model)
	if tokenizer, ok := e.says(setting.Tokenizer); ok {
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
		m := e.dialect().means(f.Name)
		switch parallel := m.Is(setting.Count); {
		case parallel && e.Build != nil: // it is in what was built
		case parallel && m.Bench() == "":
			return nil, nil, fmt.Errorf("trtllm-bench has no %s: remove the flag %s", m.Name, f.Name)
		case m.Bench() != "":
			f.Name = m.Bench()
			flags = append(flags, f)
		case m.Is(setting.Listening) || m != nil && m.Name == setting.Tokenizer:
		case !slices.Contains(out.Dropped, f.Name):
			out.Dropped = append(out.Dropped, f.Name)
		}
	}
	add := func(name, value string) {
		text := provision.Plain(value)
		flags = append(flags, Flag{Name: name, Value: &text})
	}
	if e.Config.Reveal() != "" {
		add("extra_llm_api_options", ConfigFile(e))
	}
	if _, said := e.says(setting.Backend); !said && e.Build == nil {
		add("backend", "pytorch")
	}
	return argv, flags, nil
}

// trtllmPrompts writes requests as lines of the file that trtllm-bench reads: the prompt and how many tokens are generated.
func trtllmPrompts(w io.Writer) (write func(i int, prompt []byte, output int) error, end func() error) {
	write = func(i int, prompt []byte, output int) error {
		member := "input_ids"
		if bytes.HasPrefix(prompt, []byte(`"`)) {
			member = "prompt"
		}
		_, err := fmt.Fprintf(w, "{\"task_id\": %d, %q: %s, \"output_tokens\": %d}\n", i, member, prompt, output)
		return err
	}
	return write, func() error { return nil }
}
