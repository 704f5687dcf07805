package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Batch is a run of an engine's own offline benchmark, as its command line asks
// for it.
type Batch struct {
	Config       Config
	Requests     int
	InputTokens  int // of each request, on average
	OutputTokens int // of each request, on average
	// vLLM and SGLang, of the data set: "random", "sharegpt", "prefix_repetition", "generated-shared-prefix"
	Name    string
	Path    string // likewise, its file; empty: none
	Dataset string // trtllm-bench: the file that says all three; older vLLM: Path; empty otherwise
	Result  string // the file that the figures are written to; empty: none

	groups, each, suffix int // shared prefixes: how many, requests of each, tokens behind one
}

// BatchCommand reads the command line of an offline benchmark; ok is false for
// any other.
//
//	vllm bench throughput --model MODEL …
//	python3 …/benchmark_throughput.py --model MODEL …
//	python3 -m sglang.benchmark.offline_throughput --model-path MODEL …
//	trtllm-bench --model MODEL throughput …
func BatchCommand(args []string) (b Batch, ok bool, err error) {
	p := parser{engine: true, batch: &b, cfg: Config{As: VLLM}}
	switch {
	case starts(args, "vllm", "bench", "throughput"):
		args = args[3:]
	case isPython(args) && len(args) > 1 && filepath.Base(args[1]) == "benchmark_throughput.py":
		args = args[2:]
	case isPython(args) && (starts(args[1:], "-m", "sglang.benchmark.offline_throughput") ||
		starts(args[1:], "-m", "sglang.bench_offline_throughput")): // before 0.5.21
		p.cfg.As, args = SGLang, args[3:]
	case starts(args, "trtllm-bench"):
		p.cfg.As, args = TRTLLM, args[1:]
	default:
		return Batch{}, false, nil
	}
	if err := p.parse(args); err != nil {
		return Batch{}, true, err
	}
	b.Config = p.cfg
	if b.Config.As == VLLM && b.Dataset != "" {
		b.Name, b.Path, b.Dataset = "sharegpt", b.Dataset, ""
	}
	switch b.Name {
	case "prefix_repetition":
		b.InputTokens += b.suffix
		b.Requests -= b.Requests % max(b.groups, 1)
	case "generated-shared-prefix":
		b.InputTokens += b.suffix
		b.Requests = b.groups * b.each
	}
	switch {
	case b.Config.Model == "":
		err = errors.New("the command line names no model")
	case b.Dataset == "" && (b.Requests == 0 || b.OutputTokens == 0 && b.Path == ""):
		err = errors.New("the command line says no requests or no output length")
	}
	return b, true, err
}

// set is how a flag of a benchmark is taken; nil for one that it does not have.
func (b *Batch) set(name string) func(*parser, string) error {
	number := func(to *int) func(*parser, string) error {
		return func(_ *parser, v string) error {
			return count(func(*Config) *int { return to })(&parser{}, v)
		}
	}
	text := func(to *string) func(*parser, string) error {
		return func(_ *parser, v string) error { *to = v; return nil }
	}
	switch name {
	case "num-prompts", "num-requests":
		return number(&b.Requests)
	case "input-len", "random-input-len", "prefix-repetition-prefix-len", "gsp-system-prompt-len":
		return number(&b.InputTokens)
	case "output-len", "random-output-len", "sharegpt-output-len", "prefix-repetition-output-len", "gsp-output-len":
		return number(&b.OutputTokens)
	case "prefix-repetition-suffix-len", "gsp-question-len":
		return number(&b.suffix)
	case "prefix-repetition-num-prefixes", "gsp-num-groups":
		return number(&b.groups)
	case "gsp-prompts-per-group":
		return number(&b.each)
	case "dataset-name":
		return text(&b.Name)
	case "dataset-path":
		return text(&b.Path)
	case "dataset":
		return text(&b.Dataset)
	case "output-json", "result-filename", "report-json":
		return text(&b.Result)
	}
	return nil
}

// Run takes as long as the simulated engine would for the whole batch at once,
// and writes the figures in the form of the real tool.
func (b Batch) Run(ctx context.Context, log io.Writer) error {
	cfg := b.Config.withDefaults()
	if cfg.FailStart != "" {
		fmt.Fprintln(log, cfg.FailStart)
		return errors.New("the engine failed to start")
	}
	if b.Dataset != "" {
		if err := b.readDataset(); err != nil {
			return err
		}
	}
	if b.Name == "sharegpt" && b.Path != "" {
		if err := b.readConversations(); err != nil {
			return err
		}
	}
	switch cfg.As {
	case VLLM:
		fmt.Fprintf(log, "INFO 03-01 12:00:00 [core.py:77] Initializing a V1 LLM engine (v%s) with config: model='%s', %s\n", simVersion, cfg.Model, cfg.printedFlags())
	case SGLang:
		fmt.Fprintf(log, "server_args=ServerArgs(model_path='%s', %s)\n", cfg.Model, cfg.printedFlags())
	}
	fmt.Fprintf(log, "simulated %s benchmark of %d requests\n", cfg.As, b.Requests)
	at := cfg.Table.At(b.Requests)
	if err := pause(ctx, cfg.NotReadyFor); err != nil {
		return err
	}
	if cfg.As == SGLang {
		fmt.Fprint(log, "\nBenchmark...\n")
	}
	started := time.Now()
	if err := pause(ctx, at.TTFT+time.Duration(b.OutputTokens-1)*at.ITL); err != nil {
		return err
	}
	took := time.Since(started).Seconds()
	if cfg.As == VLLM {
		fmt.Fprintf(log, "\rProcessed prompts:   0%%|          | 0/%[1]d\rProcessed prompts: 100%%|██████████| %[1]d/%[1]d\n", b.Requests)
	}
	figures := b.figures(cfg.As, took)
	fmt.Fprintf(log, "Throughput: %.2f requests/s\n", float64(b.Requests)/took)
	if cfg.As == VLLM {
		fmt.Fprintf(log, "Total num prompt tokens:  %d\nTotal num output tokens:  %d\n", b.Requests*b.InputTokens,
			b.Requests*b.OutputTokens)
	}
	if b.Result == "" {
		return nil
	}
	line, err := json.Marshal(figures)
	if err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	f, err := os.OpenFile(b.Result, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return errors.Join(fmt.Errorf("write the figures: %w", err), f.Close())
	}
	return f.Close()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// foreign are the flags of the engine's command line, by the names of Python's, with
// what the engine says of them.
func (c Config) foreign() map[string]string {
	all := map[string]string{}
	for _, told := range []map[string]string{c.Flags, c.Lies} {
		for flag, value := range told {
			all[strings.ReplaceAll(flag, "-", "_")] = value
		}
	}
	return all
}

// printedFlags are the flags as vLLM and SGLang print what they run with.
func (c Config) printedFlags() string {
	var pairs []string
	for name, value := range c.foreign() {
		switch {
		case c.As == SGLang && (name == "tp" || name == "dp" || name == "pp"):
			name += "_size"
		case c.As == VLLM && name == "max_model_len":
			name = "max_seq_len"
		case c.As == VLLM && name == "enable_chunked_prefill":
			name = "chunked_prefill_enabled"
		}
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			switch value {
			case "true":
				value = "True"
			case "false":
				value = "False"
			default:
				value = "'" + value + "'"
			}
		}
		pairs = append(pairs, name+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ", ")
}

// world are the flags as trtllm-bench reports them.
func (c Config) world() map[string]any {
	out := map[string]any{}
	for name, value := range c.foreign() {
		as, ok := map[string]string{"tp": "tp_size", "pp": "pp_size", "max_batch_size": "max_batch_size",
			"max_num_tokens": "max_num_tokens", "kv_cache_free_gpu_mem_fraction": "kv_cache_percentage"}[name]
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			out[as] = n
		}
	}
	return out
}

// figures have the members that each tool writes.
func (b Batch) figures(as string, seconds float64) any {
	n := float64(b.Requests)
	input, output := b.Requests*b.InputTokens, b.Requests*b.OutputTokens
	type object = map[string]any
	switch as {
	case SGLang:
		return object{
			"backend": "engine", "successful_requests": b.Requests, "total_latency": seconds,
			"total_input_tokens": input, "total_output_tokens": output,
			"request_throughput": n / seconds, "input_throughput": float64(input) / seconds,
			"output_throughput": float64(output) / seconds, "total_throughput": float64(input+output) / seconds,
		}
	case TRTLLM:
		return object{
			"engine":     object{"model": b.Config.Model, "version": simVersion, "backend": "pytorch"},
			"world_info": b.Config.world(),
			"request_info": object{"num_requests": b.Requests, "avg_input_length": float64(b.InputTokens),
				"avg_output_length": float64(b.OutputTokens)},
			"performance": object{
				"total_latency_ms": 1000 * seconds, "request_throughput_req_s": n / seconds,
				"system_output_throughput_tok_s": float64(output) / seconds, "system_total_throughput_tok_s": float64(input+output) / seconds,
			},
		}
	}
	return object{
		"elapsed_time": seconds, "num_requests": b.Requests, "total_num_tokens": input + output,
		"requests_per_second": n / seconds, "tokens_per_second": float64(input+output) / seconds,
	}
}

// readDataset takes requests and lengths from a file of prompts; of texts, words
// stand for tokens.
func (b *Batch) readDataset() error {
	text, err := os.ReadFile(b.Dataset)
	if err != nil {
		return fmt.Errorf("read the prompts: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20)
	b.Requests = 0
	input, output := 0, 0
	for lines.Scan() {
		b.Requests++
		var request struct {
			InputIDs     []int  `json:"input_ids"`
			Prompt       string `json:"prompt"`
			OutputTokens int    `json:"output_tokens"`
		}
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return fmt.Errorf("read prompt %d: %w", b.Requests, err)
		}
		input += len(request.InputIDs) + len(strings.Fields(request.Prompt))
		output += request.OutputTokens
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the prompts: %w", err)
	}
	if output < b.Requests || output == 0 {
		return errors.New("read the prompts: there is none that asks for output")
	}
	b.InputTokens, b.OutputTokens = input/b.Requests, output/b.Requests
	return nil
}

// readConversations takes lengths from a file of ShareGPT's form: words stand for
// tokens.
func (b *Batch) readConversations() error {
	text, err := os.ReadFile(b.Path)
	if err != nil {
		return fmt.Errorf("read the conversations: %w", err)
	}
	var all []struct {
		Conversations []struct {
			Value string `json:"value"`
		} `json:"conversations"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read the conversations: %w", err)
	}
	n, input, output := 0, 0, 0
	for _, c := range all {
		if len(c.Conversations) >= 2 {
			n++
			input += len(strings.Fields(c.Conversations[0].Value))
			output += len(strings.Fields(c.Conversations[1].Value))
		}
	}
	if n == 0 || input < n || output < n {
		return errors.New("read the conversations: there is no prompt with an answer")
	}
	b.InputTokens = input / n
	if b.OutputTokens == 0 {
		b.OutputTokens = output / n
	}
	return nil
}
