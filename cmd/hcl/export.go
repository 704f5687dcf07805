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
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report"
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
	c.Long += "\n\nThe formats are:\n" + formatsHelp
	o.which.add(t, c)
	o.which.addAll(c)
	c.Flags().StringVar(&o.format, "format", "vllm", oneOf(formatNames()))
	words(c, "format", formatNames()...)
	c.Flags().BoolVar(&o.detailed, "detailed", false, "with the figures of every request, for vllm and sglang")
	c.Flags().StringVar(&o.output, "output", "", "write there instead of to the terminal")
	return c
}

func runExport(ctx context.Context, t *console, o exportOptions) error {
	if err := checkWord("format", o.format, formatNames()); err != nil {
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
	rows := slices.DeleteFunc(v.rows, func(r results.Row) bool { return r.Summary == nil })
	if len(rows) == 0 {
		return errors.New("no measured cell is selected")
	}
	return t.write(o.output, func(w io.Writer) error {
		return writeRows(w, rows, o.format, o.detailed, func(r results.Row) ([]load.Record, error) {
			return v.store.Records(ctx, r.RunID, r.ID)
		})
	})
}

func formatNames() []string {
	return []string{"json", "vllm", "vllm-text", "sglang", "sglang-text", "records"}
}

const formatsHelp = `  json         our own: exact numbers, and everything that was kept
  vllm         the object of vllm bench serve --save-result, one a line
  vllm-text    the block that it prints
  sglang       the line of SGLang's bench_serving --output-file
  sglang-text  the block that it prints
  records      one JSON object for each request, one a line`

// oneOf lists words of which one is to be said: "a, b or c".
func oneOf(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

func checkWord(flag, said string, known []string) error {
	if slices.Contains(known, said) {
		return nil
	}
	return usage("--%s %s: it is %s", flag, said, oneOf(known))
}

// writeRows writes rows in a format. records reads those of a row; detailed adds
// them to the formats of other tools, as their own flags do.
func writeRows(w io.Writer, rows []results.Row, format string, detailed bool, records func(results.Row) ([]load.Record, error)) error {
	if format == "json" {
		return report.JSON(w, rows, report.About{})
	}
	tool, text, known := formats.Named(format)
	for _, r := range rows {
		var all []load.Record
		var line []byte
		var err error
		if detailed || !known {
			if all, err = records(r); err != nil {
				return err
			}
		}
		switch {
		case text:
			err = tool.Text(w, r)
		case known && detailed:
			line, err = tool.Detailed(r, all)
		case known:
			line, err = tool.JSON(r)
		default:
			err = writeRecords(w, r, all)
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

// writeRecords writes each request on a line, with the cell that it belongs to.
// Times are in nanoseconds since the measurement began.
func writeRecords(w io.Writer, r results.Row, records []load.Record) error {
	enc := json.NewEncoder(w)
	for i := range records {
		line := struct {
			Run  string `json:"run,omitempty"`
			Cell string `json:"cell,omitempty"`
			*load.Record
		}{r.RunID, r.ID, &records[i]}
		if err := enc.Encode(line); err != nil {
			return fmt.Errorf("export cell %s: %w", r.ID, err)
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
	var page, table bytes.Buffer
	if err := report.HTML(&page, rows, about); err != nil {
		return err
	}
	if err := report.Table(&table, rows, report.Options{Width: 160, Layout: about.Layout}); err != nil {
		return err
	}
	output = cmp.Or(output, run.ID+".bundle")
	made := map[string][]byte{"report.html": page.Bytes(), "report.txt": table.Bytes()}
	to := func(w io.Writer) error { return bundle.Write(ctx, w, store, run.ID, made) }
	if err := writeWhole(output, to); err != nil {
		return err
	}
	info, err := os.Stat(output)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.stdout, "Written %s: %s, %s\n", output, plain.Count(len(rows), "cell"), plain.Bytes(info.Size()))
	return err
}
