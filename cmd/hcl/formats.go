package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/report"
	"hclbench/results"
	"hclbench/results/formats"
)

// formatNames are the forms in which results leave, by the name that --format has.
func formatNames() []string {
	return []string{"json", "vllm", "vllm-text", "sglang", "sglang-text", "records"}
}

// formatsHelp says what they are.
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

func checkFormat(format string, known []string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return usage("--format %s: it is %s", format, oneOf(known))
}

// writeRows writes rows in a format. records reads those of a row; detailed adds
// them to the formats of other tools, as their own flags do.
func writeRows(w io.Writer, rows []results.Row, format string, detailed bool, records func(results.Row) ([]load.Record, error)) error {
	if format == "json" {
		return report.JSON(w, rows, report.About{})
	}
	line := func(b []byte, err error) error {
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	for _, r := range rows {
		var all []load.Record
		var err error
		if detailed || format == "records" {
			all, err = records(r)
		}
		if err != nil {
			return err
		}
		switch tool, text, known := formats.Named(format); {
		case text:
			err = tool.Text(w, r)
		case known && detailed:
			err = line(tool.Detailed(r, all))
		case known:
			err = line(tool.JSON(r))
		case format == "records":
			err = writeRecords(w, r, all)
		default:
			err = fmt.Errorf("no format %q", format)
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
