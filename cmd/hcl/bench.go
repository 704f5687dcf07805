package main

import (
	"cmp"
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
	"hclbench/load/measure"
	"hclbench/load/wire"
	"hclbench/plain"
	"hclbench/report"
	"hclbench/results"
)

func (a *app) bench() *cobra.Command {
	var f benchFlags
	var format, output string
	c := &cobra.Command{
		Use:   "bench URL...",
		Short: "Run only the load generator, against a running server",
		Long: `Sends requests to a server that speaks the OpenAI API (or SGLang's /generate),
and prints what was measured. Nothing is stored unless --output says where. With
several URLs of the same model, requests go to each in turn.

Without --rate, --concurrency requests are in flight at any time; with --rate,
requests leave on a schedule, and --concurrency is a cap. Each --stage is a part of
the run with a pace of its own.

A key does not belong on a command line, which every user of the machine can read:
--api-key-file and --api-key-env say where it is, --header-file has other headers.
What they hold is in no output.

Formats:
` + formatsHelp,
		Example: `  hcl bench http://127.0.0.1:8000 --concurrency 64 --requests 500 --repeat 3
  hcl bench http://127.0.0.1:8000 --rate 10 --requests 1000 --format vllm --output r.json
  hcl bench http://127.0.0.1:8000 --dataset sharegpt --path sharegpt.json --concurrency 32
  hcl bench http://127.0.0.1:8000 --stage 1m,rate=2 --stage 1m,rate=8 --slo ttft=500ms,tpot=50ms
  hcl bench https://a.example.com https://b.example.com --api-key-env KEY --concurrency 8

Exit codes: 0 done, 1 failed, 2 the command line is wrong, 3 the measurement is
suspect or void, 130 interrupted.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("name the server's URL, such as http://127.0.0.1:8000\nSee '%s --help'.", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkFormat(format, append([]string{"text"}, formats()...)); err != nil {
				return err
			}
			job, err := f.job(c, args)
			if err != nil {
				return err
			}
			for _, name := range f.exposed {
				a.logger().Warn("a key in --header can be read by every user of this machine; put it into a file and name that with --header-file", "header", name)
			}
			if job.Target.Model == "" {
				if job.Target.Model, err = onlyModel(c.Context(), job); err != nil {
					return err
				}
			}
			return a.runBench(c.Context(), job, f.repeat, format, output)
		},
	}
	f.add(c)
	c.Flags().StringVar(&format, "format", "text", "text, json, vllm, vllm-text, sglang, sglang-text or records")
	words(c, "format", append([]string{"text"}, formats()...)...)
	c.Flags().StringVar(&output, "output", "", "write there instead of to the terminal")
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

// onlyModel asks the server what it serves.
func onlyModel(ctx context.Context, job load.Job) (string, error) {
	base := job.Target.BaseURL
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", base+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	for _, set := range []map[string]string{job.Target.Headers, job.Secrets} {
		for name, value := range set {
			req.Header.Set(name, value)
		}
	}
	resp, err := wire.Direct().Do(req)
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

// runBench measures the job, as often as it is to be repeated, each time with
// prompts of its own.
func (a *app) runBench(ctx context.Context, job load.Job, repeat int, format, output string) error {
	job.Calibrated = calibrated(slog.New(a.logger()))
	var rows []results.Row
	var records [][]load.Record
	var failed error
	for i := range repeat {
		started := time.Now()
		result, err := measure.Run(ctx, job, a.benchProgress())
		if terminal(a.stderr) {
			fmt.Fprint(a.stderr, "\r\x1b[K")
		}
		failed = err
		if result == nil {
			break
		}
		rows = append(rows, results.Row{
			Cell: results.Cell{Benchmark: "bench", Job: results.Task{Job: job}, Repetition: i + 1, Started: started, Finished: time.Now(), Summary: &result.Summary},
			Run:  results.Run{Command: "bench", Version: version, Started: started},
		})
		records = append(records, result.Records)
		if err != nil {
			break
		}
		job.Seed++
	}
	if len(rows) == 0 {
		return failed
	}
	if e := a.write(output, func(w io.Writer) error {
		if format == "text" {
			return benchText(w, rows)
		}
		return writeRows(w, rows, format, false, func(r results.Row) ([]load.Record, error) { return records[r.Repetition-1], nil })
	}); e != nil {
		return errors.Join(e, failed)
	}
	if failed != nil {
		return failed
	}
	var doubts []string
	for _, r := range rows {
		if v := r.Verdict(); v.Verdict != load.Valid {
			doubts = append(doubts, fmt.Sprintf("the measurement is %s: %s", v.Verdict, strings.Join(slices.Concat(v.Texts(), r.Summary.ErrorSamples), "; ")))
		}
	}
	if text := wantsText(job.Workload, rows[0].Summary); text != "" {
		fmt.Fprintln(a.stderr, text)
	}
	if len(doubts) == 0 {
		return nil
	}
	e := &exit{code: exitCells}
	if format != "text" || output != "" { // the text says so itself
		e.err = errors.New(strings.Join(slices.Compact(doubts), "\n"))
	}
	return e
}

// wantsText is what to try with a server that refuses every prompt of token ids: some
// take prompts as text only.
func wantsText(w load.Workload, s *load.Summary) string {
	ids := w.Endpoint == load.Completions && w.Dataset.Kind != load.JSONL
	if !ids || s.Completed > 0 || s.Statuses[http.StatusBadRequest]+s.Statuses[http.StatusUnprocessableEntity] == 0 {
		return ""
	}
	return "Prompts were sent as token ids, which not every server takes. To send text, say --endpoint chat, or --dataset jsonl."
}

// benchText prints each measurement, and all of them together.
func benchText(w io.Writer, rows []results.Row) error {
	t := rows[0].Job.Target
	if _, err := fmt.Fprintf(w, "%-19s %s at %s\n", "Model", cmp.Or(plain.Line(t.Model), "not said"), strings.Join(append([]string{t.BaseURL}, t.BaseURLs...), ", ")); err != nil {
		return err
	}
	for i, r := range rows {
		if len(rows) > 1 {
			if _, err := fmt.Fprintf(w, "Repetition %d of %d\n\n", i+1, len(rows)); err != nil {
				return err
			}
		}
		if err := report.Text(w, r.Summary); err != nil {
			return err
		}
		if len(rows) > 1 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	return report.Together(w, rows)
}

func (a *app) benchProgress() func(load.Progress) {
	l := &lines{log: a.logger(), w: a.stderr, last: map[string]time.Time{"progress": time.Now()}}
	return func(p load.Progress) {
		if terminal(a.stderr) {
			fmt.Fprintf(a.stderr, "\r\x1b[K%s", advanced(p))
		} else if now := time.Now(); now.Sub(l.last["progress"]) > linePause {
			l.last["progress"] = now
			l.log.Info(advanced(p))
		}
	}
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
