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
	"time"
)

// Batch is a run of an engine's own offline benchmark, as its command line asks
// for it.
type Batch struct {
	Config       Config
	Requests     int
	InputTokens  int    // of each request
	OutputTokens int    // of each request
	Dataset      string // trtllm-bench: the file that says all three; empty otherwise
	Result       string // the file that the figures are written to; empty: none
}

// BatchCommand reads the command line of an offline benchmark; ok is false for
// any other.
//
//	vllm bench throughput --model MODEL …
//	python3 …/benchmark_throughput.py --model MODEL …
//	python3 -m sglang.bench_offline_throughput --model-path MODEL …
//	trtllm-bench --model MODEL throughput …
func BatchCommand(args []string) (b Batch, ok bool, err error) {
	p := parser{engine: true, batch: &b, cfg: Config{As: VLLM}}
	switch {
	case starts(args, "vllm", "bench", "throughput"):
		args = args[3:]
	case isPython(args) && len(args) > 1 && filepath.Base(args[1]) == "benchmark_throughput.py":
		args = args[2:]
	case isPython(args) && starts(args[1:], "-m", "sglang.bench_offline_throughput"):
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
	switch {
	case b.Config.Model == "":
		err = errors.New("the command line names no model")
	case b.Dataset == "" && (b.Requests == 0 || b.OutputTokens == 0):
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
	case "input-len", "random-input-len":
		return number(&b.InputTokens)
	case "output-len", "random-output-len":
		return number(&b.OutputTokens)
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
			"engine":       object{"model": b.Config.Model, "version": simVersion, "backend": "pytorch"},
			"request_info": object{"num_requests": b.Requests, "avg_input_length": float64(b.InputTokens), "avg_output_length": float64(b.OutputTokens)},
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

// readDataset takes requests and lengths from a file of prompts, whose requests
// are all alike.
func (b *Batch) readDataset() error {
	text, err := os.ReadFile(b.Dataset)
	if err != nil {
		return fmt.Errorf("read the prompts: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20)
	b.Requests = 0
	for lines.Scan() {
		b.Requests++
		var request struct {
			InputIDs     []int `json:"input_ids"`
			OutputTokens int   `json:"output_tokens"`
		}
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return fmt.Errorf("read prompt %d: %w", b.Requests, err)
		}
		b.InputTokens, b.OutputTokens = len(request.InputIDs), request.OutputTokens
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the prompts: %w", err)
	}
	if b.OutputTokens == 0 {
		return errors.New("read the prompts: there is none that asks for output")
	}
	return nil
}
