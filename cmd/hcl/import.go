package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/plain"
	"hclbench/results"
	"hclbench/results/bundle"
	"hclbench/results/door"
	"hclbench/results/formats"
)

func importVerb(t *console) *cobra.Command {
	var lab labFlags
	var unsaid formats.Unsaid
	c := verb("import", between(1, math.MaxInt, "name the files to import"),
		func(ctx context.Context, args []string) error { return runImport(ctx, t, lab, unsaid, args) })
	lab.addPath(c, ", beside which results are kept")
	lab.addStore(c)
	c.Flags().StringVar(&unsaid.Benchmark, "benchmark", "", "the benchmark's `name`; else the file's")
	c.Flags().StringVar(&unsaid.Engine, "engine", "", "the engine, as `KIND.NAME`; else as the file says")
	c.Flags().StringVar(&unsaid.GPUs, "gpus", "", "what it ran on, such as `8xH200`; else as the file says")
	c.Flags().IntVar(&unsaid.Count, "gpu-count", 0, "how many GPUs it ran on, where the file says only which")
	c.Flags().StringVar(&unsaid.Model, "model", "", "the model; else as the file says")
	return c
}

// runImport reads all files before anything is stored.
func runImport(ctx context.Context, t *console, lab labFlags, unsaid formats.Unsaid, files []string) error {
	rows, bundles, err := readFiles(t, files, unsaid)
	if err != nil {
		return &exit{exitUsage, err}
	}
	store, err := lab.openStore(ctx, t)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := importBundles(ctx, t.stdout, store, bundles); err != nil || len(rows) == 0 {
		return err
	}
	dir, err := filepath.Abs(lab.dir())
	if err != nil {
		return err
	}
	named, err := lab.name()
	if err != nil {
		return err
	}
	run := newRun(cmp.Or(named, filepath.Base(dir)), "import")
	doubtful, err := formats.Keep(ctx, store, run, rows)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.stdout, "Imported %s as run %s into %s\n", plain.Count(len(rows), "cell"), run.ID, placeOf(store))
	if err == nil && doubtful > 0 {
		_, err = fmt.Fprintf(t.stdout, "%d of them contradict themselves; hcl audit says how.\n", doubtful)
	}
	return err
}

// readFiles reads every file but bundles, which it names.
func readFiles(t *console, names []string, unsaid formats.Unsaid) (rows []formats.Result, bundles []string, err error) {
	var errs []error
	for _, name := range names {
		if isBundle(name) {
			bundles = append(bundles, name)
			continue
		}
		read, unused, err := formats.ReadFile(name)
		if e := unsaid.Complete(read); e != nil && err == nil {
			err = fmt.Errorf("%s: %w", name, e)
		}
		errs = append(errs, err)
		if len(unused) > 0 && err == nil {
			t.logger().Warn("figures that are not used", "file", name, "named", strings.Join(unused, ", "))
		}
		rows = append(rows, read...)
	}
	return rows, bundles, errors.Join(errs...)
}

// foreignRows reads a file of another tool, to be looked at and not to be stored.
func foreignRows(name string) ([]results.Row, error) {
	read, _, err := formats.ReadFile(name)
	var rows []results.Row
	for _, r := range read {
		rows = append(rows, results.Row{Cell: r.Cell, Deployment: r.Deployment, Run: results.Run{Command: "import"}})
	}
	return rows, asUsage(err)
}

// isBundle looks at how a file begins. What cannot be read is for its reader to say.
func isBundle(name string) bool {
	f, err := door.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var begin [4]byte
	_, _ = io.ReadFull(f, begin[:])
	return bundle.Is(begin[:])
}

// importBundles reads all of them to their ends before it keeps the first.
func importBundles(ctx context.Context, w io.Writer, store *results.Store, names []string) (err error) {
	var all []*bundle.Incoming
	defer func() {
		for _, in := range all {
			err = errors.Join(err, in.Close())
		}
	}()
	for _, name := range names {
		in, e := receiveBundle(ctx, store, name)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
			continue
		}
		all = append(all, in)
	}
	if err != nil {
		return asUsage(err)
	}
	for _, in := range all {
		if err := in.Keep(ctx); err != nil {
			return err
		}
		run := in.Run()
		_, err = fmt.Fprintf(w, "Imported run %s of %s with %s; see it with: hcl report %s --run %s\n",
			run.ID, run.Lab, plain.Count(in.Cells(), "cell"), strings.TrimSuffix(relative(filepath.Dir(store.Path())), "/"), run.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

func receiveBundle(ctx context.Context, store *results.Store, name string) (*bundle.Incoming, error) {
	f, err := door.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bundle.Receive(ctx, f, store)
}
