package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/apply/place"
	"hclbench/capacity"
	"hclbench/load"
	"hclbench/load/measure"
	"hclbench/load/wire"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/report/table"
	"hclbench/results"
)

type benchOptions struct {
	benchFlags
	capacity       capacityFlags
	hosts          hostFlags
	format, output string
}

func benchVerb(t *console) *cobra.Command {
	var o benchOptions
	c := verb("bench", between(1, math.MaxInt, "name the server's URL, such as http://127.0.0.1:8000"),
		func(ctx context.Context, args []string) error { return runBench(ctx, t, o, args) })
	c.Long += "\n\nFormats:\n" + formatsHelp(benchExports())
	o.said = c.Flags().Changed
	o.add(c)
	o.capacity.add(c)
	o.hosts.addAccept(c)
	c.Flags().StringVar(&o.format, "format", "text", plain.List(benchFormats(), "or"))
	words(c, "format", benchFormats()...)
	c.Flags().StringVar(&o.output, "output", "", "write there instead of to the terminal")
	return c
}

func benchFormats() []string { return append([]string{"text"}, formatNames(benchExports())...) }

// benchExports are the formats that need no lab.
func benchExports() []exportFormat {
	return slices.DeleteFunc(exportFormats(), func(f exportFormat) bool { return f.ofLab })
}

const exposedKey = "a key in --header can be read by every user of this machine; put it into a file and name that with --header-file"

func runBench(ctx context.Context, t *console, o benchOptions, urls []string) error {
	if err := checkWord("format", o.format, benchFormats()); err != nil {
		return err
	}
	var search *capacity.Search
	if o.capacity.of != "" {
		if o.format != "text" && o.format != "json" {
			return usage("--format %s has no place for --capacity: take text or json", o.format)
		}
		var err error
		if search, err = o.capacity.search(o.Workload); err != nil {
			return err
		}
		o.Workload = search.Workload(o.Workload, search.Least, search.Budget)
	}
	job, err := o.job(urls)
	if err != nil {
		return err
	}
	from, err := o.clients(&job.Workload)
	if err != nil {
		return err
	}
	if d := &job.Workload.Dataset; d.ImageDir != "" {
		sum, err := checksums(t).Of(ctx, d.ImageDir)
		if err != nil {
			return err
		}
		d.ImageDirSHA256 = strings.TrimPrefix(sum, "sha256:")
	}
	for _, name := range o.exposed {
		t.logger().Warn(exposedKey, "header", name)
	}
	if search != nil {
		return runCapacity(ctx, t, o, job, search)
	}
	by, err := o.senders(ctx, t, job, from)
	if err != nil {
		return err
	}
	rows, records, failed := sendTimes(ctx, t, job, o.repeat, by)
	if failed = errors.Join(failed, by.give()); len(rows) == 0 {
		return failed
	}
	job = rows[0].Job.Job
	recordsOf := func(r results.Row) ([]load.Record, error) { return records[r.Repetition-1], nil }
	if err := t.write(o.output, func(w io.Writer) error {
		if o.format == "text" {
			return benchText(w, rows, t.widthOf(o.output))
		}
		return writeRows(w, o.format, exported{rows: rows, records: recordsOf})
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if text := wantsText(job.Workload, rows[0].Summary); text != "" {
		fmt.Fprintln(t.stderr, text)
	}
	return doubts(rows, o.format == "text" && o.output == "") // the text says so itself
}

// sendLoad sends a load and returns what was measured, also a part of it beside an error.
type sendLoad func(context.Context, load.Job, func(load.Progress)) (*load.Result, error)

// senders are who sends the load.
type senders struct {
	send sendLoad
	dial wire.Dial    // from where they are; nil: from this machine
	give func() error // back what was taken for it
}

// senders are the hosts that were named, or this machine.
func (o benchOptions) senders(ctx context.Context, t *console, job load.Job, hosts []*provision.Host) (senders, error) {
	if len(hosts) == 0 {
		known := calibrated(slog.New(t.logger()))
		return senders{send: func(ctx context.Context, job load.Job, progress func(load.Progress)) (*load.Result, error) {
			job.Calibrated = known
			return measure.Run(ctx, job, progress)
		}, give: func() error { return nil }}, nil
	}
	opt, err := o.hosts.options(ctx, t)
	if err != nil {
		return senders{}, err
	}
	b, err := place.OpenBench(ctx, results.NewRunID(time.Now()), hosts, job.Workload.Dataset.Inputs(), opt, tellPlace(t.logger()))
	if err != nil {
		return senders{}, errors.Join(err, b.Close())
	}
	return senders{b.Run, b.Dial, b.Close}, nil
}

// sendTimes sends the load so many times, each time with prompts of its own, up to the first
// that fails. It returns the requests of each row.
func sendTimes(
	ctx context.Context, t *console, job load.Job, times int, by senders,
) (rows []results.Row, records [][]load.Record, err error) {
	if job.Target.Model == "" {
		if job.Target.Model, err = onlyModel(ctx, job, wire.DirectBy(by.dial)); err != nil {
			return nil, nil, err
		}
	}
	for i := range times {
		started := time.Now()
		result, err := by.send(ctx, job, benchProgress(t))
		if terminal(t.stderr) {
			fmt.Fprint(t.stderr, "\r\x1b[K")
		}
		if result != nil {
			rows = append(rows, benchRow(job, i+1, started, result))
			records = append(records, result.Records)
		}
		if err != nil {
			return rows, records, err
		}
		job.Seed++
	}
	return rows, records, nil
}

// benchRow is a measurement as reports take it.
func benchRow(job load.Job, repetition int, started time.Time, result *load.Result) results.Row {
	return results.Row{
		Cell: results.Cell{
			Benchmark: "bench", Job: results.Task{Job: job}, Repetition: repetition,
			Started: started, Finished: time.Now(), Summary: &result.Summary,
		},
		Run: results.Run{Command: "bench", Version: version, Started: started},
	}
}

// doubts is the error of measurements that are not valid; it says nothing when that was said.
func doubts(rows []results.Row, said bool) error {
	var why []string
	for _, r := range rows {
		if v := r.Verdict(); v.Verdict != load.Valid {
			reasons := strings.Join(slices.Concat(v.Texts(), r.Summary.ErrorSamples), "; ")
			why = append(why, fmt.Sprintf("the measurement is %s: %s", v.Verdict, reasons))
		}
	}
	switch {
	case len(why) == 0:
		return nil
	case said:
		return &exit{code: exitCells}
	}
	return &exit{exitCells, errors.New(strings.Join(slices.Compact(why), "\n"))}
}

// onlyModel is the first model that the server lists.
func onlyModel(ctx context.Context, job load.Job, client *http.Client) (string, error) {
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
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the server for its model (or say it with --model): %w", err)
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil || len(list.Data) == 0 {
		return "", fmt.Errorf("%s/v1/models answers %s and lists no model; say it with --model", base, resp.Status)
	}
	return list.Data[0].ID, nil
}

// wantsText is what to try with a server that refuses every prompt of token ids: some take prompts as text only.
func wantsText(w load.Workload, s *load.Summary) string {
	ids := w.Endpoint == load.Completions && w.Dataset.Kind != load.JSONL
	if !ids || s.Completed > 0 || s.Statuses[http.StatusBadRequest]+s.Statuses[http.StatusUnprocessableEntity] == 0 {
		return ""
	}
	return "Prompts were sent as token ids, which not every server takes. To send text, say --endpoint chat, or --dataset jsonl."
}

func benchText(w io.Writer, rows []results.Row, width int) error {
	t := rows[0].Job.Target
	urls := strings.Join(append([]string{t.BaseURL}, t.BaseURLs...), ", ")
	var b bytes.Buffer
	fmt.Fprintf(&b, "%-19s %s at %s\n", "Model", cmp.Or(plain.Line(t.Model), "not said"), urls)
	for i, r := range rows {
		if len(rows) > 1 {
			fmt.Fprintf(&b, "Repetition %d of %d\n\n", i+1, len(rows))
		}
		if err := table.Summary(&b, r.Summary, width); err != nil {
			return err
		}
		if len(rows) > 1 {
			fmt.Fprintln(&b)
		}
	}
	if err := table.Together(&b, rows); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

func benchProgress(t *console) func(load.Progress) {
	log, last := t.logger(), time.Now()
	return func(p load.Progress) {
		if terminal(t.stderr) {
			fmt.Fprintf(t.stderr, "\r\x1b[K%s", advanced(p))
		} else if now := time.Now(); now.Sub(last) > linePause {
			last = now
			log.Info(advanced(p))
		}
	}
}
