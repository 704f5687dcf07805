package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/page"
	"hclbench/report/table"
	"hclbench/results"
	"hclbench/results/bundle"
	"hclbench/results/formats"
)

type exportOptions struct {
	which          selection
	format, output string
	detailed       bool
}

func exportVerb(t *console) *cobra.Command {
	var o exportOptions
	c := labVerb("export", &o.which.lab, func(ctx context.Context) error { return runExport(ctx, t, o) })
	c.Long += "\n\nThe formats are:\n" + formatsHelp(exportFormats())
	o.which.addSelection(t, c)
	o.which.addAll(c)
	c.Flags().StringVar(&o.format, "format", "vllm", plain.List(formatNames(exportFormats()), "or"))
	words(c, "format", formatNames(exportFormats())...)
	c.Flags().BoolVar(&o.detailed, "detailed", false, "with the figures of every request, for vllm and sglang")
	c.Flags().StringVar(&o.output, "output", "", "write there instead of to the terminal")
	return c
}

func runExport(ctx context.Context, t *console, o exportOptions) error {
	if err := checkWord("format", o.format, formatNames(exportFormats())); err != nil {
		return err
	}
	if o.detailed && o.format != "vllm" && o.format != "sglang" {
		return usage("--detailed goes with --format vllm or sglang; --format records has every request of itself")
	}
	v, err := o.which.shown(ctx, t)
	if err != nil {
		return err
	}
	defer v.store.Close()
	rows, about, err := v.about(ctx, v.said.published(o.which.benchmark))
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r results.Row) bool { return r.Summary == nil })
	if len(rows) == 0 {
		return errors.New("no measured cell is selected")
	}
	x := exported{rows, about, o.detailed, func(r results.Row) ([]load.Record, error) {
		return v.store.Records(ctx, r.RunID, r.ID)
	}}
	if info, err := os.Stat(o.output); err == nil && info.IsDir() {
		return x.toFolder(t, o.output, o.format)
	}
	return t.write(o.output, func(w io.Writer) error { return writeRows(w, o.format, x) })
}

// toFolder writes a file for each row, in a format that has such.
func (x exported) toFolder(t *console, folder, format string) error {
	if format != "benchmark-report" {
		return usage("--output %s is a folder: only --format benchmark-report has a file for each cell", folder)
	}
	for _, r := range x.rows {
		one := func(w io.Writer) error { return formats.BenchmarkReport(w, []results.Row{r}) }
		if err := writeWhole(filepath.Join(folder, formats.ReportFile(r)), one); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(t.stderr, "Written %s to %s\n", plain.Count(len(x.rows), "report"), folder)
	return err
}

// exportFormat is one in which results are written.
type exportFormat struct {
	name, is string
	write    func(x exported, w io.Writer) error
	ofLab    bool // it is of engines and GPUs, which only a lab knows
}

// exported is what is written: rows, each with its requests where they are asked for.
type exported struct {
	rows     []results.Row
	about    figure.About
	detailed bool // as their own flags add the requests to the formats of other tools
	records  func(results.Row) ([]load.Record, error)
}

func exportFormats() []exportFormat {
	tool := func(name string) func(exported, io.Writer) error {
		return func(x exported, w io.Writer) error { return x.asTool(w, name) }
	}
	return []exportFormat{
		{"json", "our own: exact numbers, and everything that was kept",
			func(x exported, w io.Writer) error { return table.JSON(w, x.rows, x.about) }, false},
		{"vllm", "the object of vllm bench serve --save-result, one a line", tool("vllm"), false},
		{"vllm-text", "the block that it prints", tool("vllm-text"), false},
		{"sglang", "the line of SGLang's bench_serving --output-file", tool("sglang"), false},
		{"sglang-text", "the block that it prints", tool("sglang-text"), false},
		{"inferencex", "an array of InferenceX's rows: latencies in seconds, throughput for a GPU",
			func(x exported, w io.Writer) error { return formats.InferenceX(w, x.rows) }, true},
		{"benchmark-report", "llm-d's Benchmark Report 0.2.1 of each cell, with --output FOLDER a file each",
			func(x exported, w io.Writer) error { return formats.BenchmarkReport(w, x.rows) }, true},
		{"records", "one JSON object for each request, one a line", exported.asRecords, false},
	}
}

func formatNames(all []exportFormat) (names []string) {
	for _, f := range all {
		names = append(names, f.name)
	}
	return names
}

// formatsHelp is a line for each format.
func formatsHelp(all []exportFormat) string {
	var lines []string
	for _, f := range all {
		lines = append(lines, fmt.Sprintf("  %-17s %s", f.name, f.is))
	}
	return strings.Join(lines, "\n")
}

// writeRows writes rows in a format.
func writeRows(w io.Writer, format string, x exported) error {
	all := exportFormats()
	return all[slices.Index(formatNames(all), format)].write(x, w)
}

// asTool writes rows in a format of a load generator of others.
func (x exported) asTool(w io.Writer, format string) error {
	tool, text, _ := formats.Named(format)
	for _, r := range x.rows {
		var line []byte
		var err error
		switch {
		case text:
			err = tool.Text(w, r)
		case x.detailed:
			var all []load.Record
			if all, err = x.records(r); err == nil {
				line, err = tool.Detailed(r, all)
			}
		default:
			line, err = tool.JSON(r)
		}
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// asRecords writes each request on a line, with the cell that it belongs to. Times are in
// nanoseconds since the measurement began.
func (x exported) asRecords(w io.Writer) error {
	enc := json.NewEncoder(w)
	for _, r := range x.rows {
		records, err := x.records(r)
		if err != nil {
			return err
		}
		for i := range records {
			line := struct {
				Run       string `json:"run,omitempty"`
				Cell      string `json:"cell,omitempty"`
				Rehearsal bool   `json:"rehearsal,omitempty"`
				*load.Record
			}{r.RunID, r.ID, r.Run.Command == "rehearse", &records[i]}
			if err := enc.Encode(line); err != nil {
				return fmt.Errorf("export cell %s: %w", r.ID, err)
			}
		}
	}
	return nil
}

func bundleVerb(t *console) *cobra.Command {
	var lab labFlags
	var output string
	c := verb("bundle", between(1, 1, "name one run, as hcl runs lists them"),
		func(ctx context.Context, args []string) error { return runBundle(ctx, t, lab, args[0], output) })
	c.ValidArgsFunction = firstOnly(runIDs(t))
	lab.addPath(c, ", to which the run belongs")
	lab.addStore(c)
	c.Flags().StringVarP(&output, "output", "o", "", "write to this `file`; else RUN.bundle")
	return c
}

func runBundle(ctx context.Context, t *console, lab labFlags, id, output string) error {
	store, err := lab.existing(ctx, t)
	if err != nil {
		return err
	}
	defer store.Close()
	run, err := runNamed(ctx, store, "", id)
	if err != nil {
		return err
	}
	v := &shown{store: store}
	if err := v.ofRun(ctx, run); err != nil {
		return err
	}
	rows, about, err := v.about(ctx, v.said.published(""))
	if err != nil {
		return err
	}
	var html, text bytes.Buffer
	if err := page.HTML(&html, rows, about); err != nil {
		return err
	}
	if err := table.Table(&text, rows, table.Options{Width: 160, Layout: about.Layout}); err != nil {
		return err
	}
	output = cmp.Or(output, run.ID+".bundle")
	made := map[string][]byte{"report.html": html.Bytes(), "report.txt": text.Bytes()}
	to := func(w io.Writer) error { return bundle.Write(ctx, w, store, run.ID, !about.Layout.NoPrices, made) }
	if err := writeWhole(output, to); err != nil {
		return err
	}
	info, err := os.Stat(output)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.stdout, "Written %s: %s, %s\n", output, plain.Count(len(rows)+len(about.Scores), "cell"), plain.Bytes(info.Size()))
	return err
}
