package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"hclbench/plain"
	"hclbench/report"
	"hclbench/results/bundle"
)

type bundleOptions struct {
	lab    labFlags
	output string
}

func bundleVerb(t *console) *cobra.Command {
	var o bundleOptions
	c := verb("bundle", between(1, 1, "name one run, as hcl runs lists them"),
		func(ctx context.Context, args []string) error { return runBundle(ctx, t, o, args[0]) })
	c.ValidArgsFunction = firstOnly(runIDs(t))
	o.lab.addPath(c, ", to which the run belongs")
	o.lab.addStore(c)
	c.Flags().StringVarP(&o.output, "output", "o", "", "write to this `file`; else RUN.bundle")
	return c
}

func runBundle(ctx context.Context, t *console, o bundleOptions, id string) error {
	store, err := o.lab.existing(ctx, t)
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
	if err := report.Table(&table, rows, report.Options{Width: 160, Columns: about.Layout.Columns}); err != nil {
		return err
	}
	output := o.output
	if output == "" {
		output = run.ID + ".bundle"
	}
	if err := writeWhole(output, func(w io.Writer) error {
		err := bundle.Write(ctx, w, store, run.ID, map[string][]byte{"report.html": page.Bytes(), "report.txt": table.Bytes()})
		if errors.Is(err, bundle.ErrNoRun) {
			err = fmt.Errorf("%w; hcl runs lists the runs", err)
		}
		return err
	}); err != nil {
		return err
	}
	info, err := os.Stat(output)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.stdout, "Written %s: %s, %s\n", output, plain.Count(len(rows), "cell"), plain.Bytes(info.Size()))
	return err
}
