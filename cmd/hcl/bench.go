package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"hclbench/load"
	"hclbench/report"
	"hclbench/results"
)

func (a *app) bench() *cobra.Command {
	var (
		job                       load.Job
		dataset, rate, burstiness string
		rangeRatio                float64
		format, output            string
		duration, timeout, stall  time.Duration
		stopAtEOS                 bool
	)
	w := &job.Workload
	c := &cobra.Command{
		Use:   "bench URL",
		Short: "Run only the load generator, against a running server",
		Long: `Sends requests to a server that speaks the OpenAI API (or SGLang's /generate),
and prints what was measured. Nothing is stored unless --output says where.

Without --rate, --concurrency requests are in flight at any time; with --rate,
requests leave on a schedule, and --concurrency is a cap.`,
		Example: `  hcl bench http://127.0.0.1:8000 --concurrency 64 --requests 500
  hcl bench http://127.0.0.1:8000 --rate 10 --requests 1000 --format vllm --output r.json

Exit codes: 0 done, 1 failed, 2 the command line is wrong, 3 the measurement is
suspect or void, 130 interrupted.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name the server's URL, such as http://127.0.0.1:8000\nSee '%s --help'.", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			base, err := baseURL(args[0])
			if err != nil {
				return err
			}
			job.Target.BaseURL = base
			if dataset != load.Random {
				return usage("--dataset %s: this version makes prompts of kind %q only", dataset, load.Random)
			}
			w.Dataset.Kind = dataset
			if c.Flags().Changed("range-ratio") {
				w.Dataset.RangeRatio = &rangeRatio
			}
			if w.Rate, err = load.ParseRate(rate); err != nil {
				return usage("--rate: %w", err)
			}
			if w.Burstiness, err = load.ParseRate(burstiness); err != nil {
				return usage("--burstiness: %q is neither a number nor \"inf\"", burstiness)
			}
			if !slices.Contains([]string{load.Completions, load.Chat, load.Generate}, w.Endpoint) {
				return usage("--endpoint %s: it is completions, chat or generate", w.Endpoint)
			}
			if err := checkFormat(format, append([]string{"text"}, formats()...)); err != nil {
				return err
			}
			w.IgnoreEOS = !stopAtEOS
			w.Duration, w.Timeout, w.Stall = load.Duration(duration), load.Duration(timeout), load.Duration(stall)
			if duration > 0 && !c.Flags().Changed("requests") {
				w.Requests = 0
			}
			if err := sensible(w); err != nil {
				return err
			}
			if job.Target.Model == "" {
				if job.Target.Model, err = onlyModel(ctx, base); err != nil {
					return err
				}
			}
			return a.runBench(ctx, job, format, output)
		},
	}
	f := c.Flags()
	f.StringVar(&job.Target.Model, "model", "", "the model's name at the server; without it the server is asked")
	f.StringVar(&w.Endpoint, "endpoint", load.Completions, "completions, chat or generate (SGLang's own)")
	f.StringVar(&dataset, "dataset", load.Random, "what prompts are made of")
	f.IntVar(&w.Dataset.InputTokens, "input-tokens", 1024, "length of each prompt")
	f.IntVar(&w.OutputTokens, "output-tokens", 128, "tokens asked for per request")
	f.Float64Var(&rangeRatio, "range-ratio", 1, "vary the lengths, in the sense of --convention")
	f.StringVar(&w.Dataset.Convention, "convention", load.ConventionSGLang, "what --range-ratio means: sglang ([L·r, L]) or vllm ([L·(1-r), L·(1+r)])")
	f.IntVar(&w.Requests, "requests", 500, "how many requests are measured")
	f.DurationVar(&duration, "duration", 0, "send for this long instead of a number of requests")
	f.IntVar(&w.Concurrency, "concurrency", 0, "requests in flight: exactly this many, or with --rate at most; 0 is no cap")
	f.StringVar(&rate, "rate", "0", "requests per second, or inf; 0 keeps --concurrency in flight")
	f.StringVar(&burstiness, "burstiness", "1", "gamma shape of the gaps with --rate: 1 is Poisson, inf is constant")
	f.IntVar(&w.Warmup, "warmup-requests", 0, "sent and waited for before the measurement")
	f.BoolVar(&stopAtEOS, "stop-at-eos", false, "let the model end its answers early")
	f.Float64Var(&w.Temperature, "temperature", 0, "sampling temperature")
	f.StringVar(&w.ExtraBody, "extra-body", "", "JSON object merged into every request")
	f.DurationVar(&timeout, "timeout", 0, "for one request in all; 0 is none")
	f.DurationVar(&stall, "stall", 0, "a request without a byte for this long has failed; 0 is 5m")
	f.Uint64Var(&job.Seed, "seed", 0, "of prompts and arrivals")
	f.Float64SliceVar(&job.Percentiles, "percentiles", nil, "percentiles to print (default 50,90,95,99)")
	f.StringVar(&format, "format", "text", "text, json, vllm, vllm-text, sglang, sglang-text or records; see hcl export --help")
	f.StringVar(&output, "output", "", "write there instead of to the terminal")
	return c
}

// baseURL accepts a server's URL with or without /v1.
func baseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", usage("%q is not the URL of a server; write for example http://127.0.0.1:8000", s)
	}
	return strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1"), nil
}

func sensible(w *load.Workload) error {
	switch {
	case w.Dataset.InputTokens < 1:
		return usage("--input-tokens must be at least 1")
	case w.OutputTokens < 1:
		return usage("--output-tokens must be at least 1")
	case w.Requests < 0 || w.Requests == 0 && w.Duration <= 0:
		return usage("--requests must be at least 1, unless --duration is given")
	case w.Concurrency < 0:
		return usage("--concurrency cannot be negative")
	case w.Concurrency == 0 && w.Rate == 0:
		return usage("say how the load is offered: --concurrency, --rate or both; for all at once --rate inf")
	case w.Dataset.Convention != load.ConventionSGLang && w.Dataset.Convention != load.ConventionVLLM:
		return usage("--convention is sglang or vllm")
	case w.ExtraBody != "" && !json.Valid([]byte(w.ExtraBody)):
		return usage("--extra-body is not JSON: %s", w.ExtraBody)
	}
	return nil
}

// onlyModel asks the server what it serves.
func onlyModel(ctx context.Context, base string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", base+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the server for its model: %w", err)
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil || len(list.Data) == 0 {
		return "", fmt.Errorf("%s/v1/models answers %s and lists no model; say it with --model", base, resp.Status)
	}
	return list.Data[0].ID, nil
}

func (a *app) runBench(ctx context.Context, job load.Job, format, output string) error {
	l := &lines{log: a.logger(), w: a.stderr, last: map[string]time.Time{"progress": time.Now()}}
	job.Calibrated = calibrated(slog.New(a.logger()))
	started := time.Now()
	result, err := load.Run(ctx, job, func(p load.Progress) {
		if terminal(a.stderr) {
			fmt.Fprintf(a.stderr, "\r\x1b[K%s", advanced(p))
		} else if now := time.Now(); now.Sub(l.last["progress"]) > linePause {
			l.last["progress"] = now
			l.log.Info(advanced(p))
		}
	})
	if terminal(a.stderr) {
		fmt.Fprint(a.stderr, "\r\x1b[K")
	}
	if result == nil {
		return err
	}
	row := results.Row{
		Cell: results.Cell{Benchmark: "bench", Job: job, Started: started, Finished: time.Now(), Summary: &result.Summary},
		Run:  results.Run{Command: "bench", Version: version, Started: started},
	}
	if e := a.write(output, func(w io.Writer) error {
		if format == "text" {
			return report.Text(w, row.Summary)
		}
		return writeRows(w, []results.Row{row}, format, false, func(results.Row) ([]load.Record, error) { return result.Records, nil })
	}); e != nil {
		return errors.Join(e, err)
	}
	if err != nil {
		return err
	}
	if v := result.Summary.Verdict; v.Verdict != load.Valid {
		// The text says so itself.
		e := &exit{code: exitCells}
		if format != "text" || output != "" {
			e.err = fmt.Errorf("the measurement is %s: %s", v.Verdict, strings.Join(v.Reasons, "; "))
		}
		return e
	}
	return nil
}

// write writes to a file, whole or not at all, or to stdout when output is "".
func (a *app) write(output string, to func(io.Writer) error) error {
	if output == "" {
		return to(a.stdout)
	}
	f, err := renameio.NewPendingFile(output, renameio.WithPermissions(0o644))
	if err != nil {
		return fmt.Errorf("write %s: %w", output, err)
	}
	defer f.Cleanup()
	if err := to(f); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write %s: %w", output, err)
	}
	fmt.Fprintln(a.stderr, "Written to", output)
	return nil
}
