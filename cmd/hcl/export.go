package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"hclbench/load"
	"hclbench/results"
)

type exportOptions struct {
	which          selection
	lab            labFlags
	format, output string
	detailed       bool
}

func exportVerb(t *console) *cobra.Command {
	var o exportOptions
	c := labVerb("export", &o.lab, func(ctx context.Context) error { return runExport(ctx, t, o) })
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
	if err := checkFormat(o.format, formatNames()); err != nil {
		return err
	}
	if o.detailed && o.format != "vllm" && o.format != "sglang" {
		return usage("--detailed goes with --format vllm or sglang; --format records has every request of itself")
	}
	v, err := o.which.shown(ctx, t, o.lab)
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
