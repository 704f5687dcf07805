package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"hclbench/lock"
	"hclbench/plan"
	"hclbench/report"
	"hclbench/results"
)

func (a *app) bundle() *cobra.Command {
	var dir, output string
	c := &cobra.Command{
		Use:   "bundle RUN",
		Short: "Write all that is known of a run into one file",
		Long: `Writes one file with everything that is needed to check the numbers of a run:
the lab's text, hcl.lock and the plan as they were, the facts of the hosts, what
happened, every cell with the records of its requests, and the report as a page
and as text. Secrets are not in it. It is a tar archive, compressed with zstd.

hcl import reads it into another store, where the report of the run is the same,
byte for byte.`,
		Example: `  hcl bundle 20261121-142501-k3f9 --output run.bundle
  zstd -dc run.bundle | tar -t
  hcl import run.bundle --lab elsewhere/

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name one run, as hcl runs lists them\nSee '%s --help'.", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx, run := c.Context(), args[0]
			store, err := a.existing(c, []string{dir})
			if err != nil {
				return err
			}
			defer store.Close()
			found, err := runNamed(ctx, store, "", run)
			if err != nil {
				return err
			}
			if run = found.ID; output == "" {
				output = run + ".bundle"
			}
			v := &shown{store: store}
			if err := v.ofRun(ctx, found); err != nil {
				return err
			}
			rows, about, err := a.about(ctx, v, v.published(""))
			if err != nil {
				return err
			}
			var page, table bytes.Buffer
			if err := errors.Join(report.HTML(&page, rows, about), report.Table(&table, rows, report.Options{Width: 160, Columns: about.Layout.Columns})); err != nil {
				return err
			}
			f, err := renameio.NewPendingFile(output, renameio.WithPermissions(0o644))
			if err != nil {
				return fmt.Errorf("write bundle: %w", err)
			}
			defer f.Cleanup() // nothing is left to clean once the file has its name
			err = store.WriteBundle(ctx, f, run, map[string][]byte{"report.html": page.Bytes(), "report.txt": table.Bytes()})
			if errors.Is(err, results.ErrNoRun) {
				return fmt.Errorf("%w; hcl runs lists the runs", err)
			}
			if err == nil {
				err = f.CloseAtomicallyReplace()
			}
			if err != nil {
				return err
			}
			info, err := os.Stat(output)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "Written %s: %s, %s\n", output, plural(len(rows), "cell"), size(info.Size()))
			return err
		},
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.runNames(c, nil, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
	c.Flags().StringVar(&dir, "lab", ".", "the lab's `directory` or file, to which the run belongs")
	a.storeFlag(c)
	c.Flags().StringVarP(&output, "output", "o", "", "write to this `file`; else RUN.bundle")
	return c
}

// Names under which what a run is made from is kept with it.
const (
	inputLab    = "lab/" // and the file's name
	inputPlan   = "plan.json"
	inputReport = "report.json"
)

// reported is what a run's report needs of the lab's text.
type reported struct {
	Lab         string             `json:"lab"`
	Description string             `json:"description,omitempty"`
	Speed       float64            `json:"speed,omitempty"` // of a rehearsal
	Planned     []report.Planned   `json:"planned"`
	References  []report.Reference `json:"references,omitempty"`
	Layout      report.Layout      `json:"layout"`
}

// inputs are what is kept with a run: the lab's text without what is sensitive,
// its lock, the plan, and what the report needs of them.
func inputs(l *lab, p *plan.Plan, published []report.Reference) (map[string][]byte, error) {
	kept := map[string][]byte{}
	for name, text := range l.problems.Text() {
		kept[inputLab+name] = text
	}
	if l.locked != nil {
		kept[inputLab+lock.Name] = l.lockText
	}
	var b bytes.Buffer
	if err := p.JSON(&b); err != nil {
		return nil, fmt.Errorf("keep the plan with the run: %w", err)
	}
	kept[inputPlan] = b.Bytes()
	of := reported{Lab: l.text.Lab.Name, Description: l.text.Lab.Description, Speed: p.Speed, Planned: plannedCells(p), References: published, Layout: layout(l.text)}
	text, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("keep the report's part of the lab with the run: %w", err)
	}
	kept[inputReport] = text
	return kept, nil
}

// keptReport reads what was kept for the report of a run; nil: nothing was.
func keptReport(ctx context.Context, store *results.Store, run string) (*reported, error) {
	kept, err := store.Inputs(ctx, run)
	if err != nil || kept[inputReport] == nil {
		return nil, err
	}
	var of reported
	d := json.NewDecoder(bytes.NewReader(kept[inputReport]))
	d.UseNumber() // a whole number stays one
	if err := d.Decode(&of); err != nil {
		return nil, fmt.Errorf("read %s of run %s: %w", inputReport, run, err)
	}
	for _, r := range of.References {
		for _, row := range r.Rows {
			for name, v := range row {
				if n, ok := v.(json.Number); ok {
					if row[name], err = n.Int64(); err != nil {
						if row[name], err = n.Float64(); err != nil {
							return nil, fmt.Errorf("read %s of run %s: %w", inputReport, run, err)
						}
					}
				}
			}
		}
	}
	return &of, nil
}

// published are the published rows of one benchmark, or of all.
func (r *reported) published(benchmark string) []report.Reference {
	return slices.DeleteFunc(slices.Clone(r.References), func(ref report.Reference) bool {
		return benchmark != "" && ref.Benchmark != benchmark
	})
}

// isBundle looks at how a file begins.
func isBundle(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var begin [4]byte
	if _, err := io.ReadFull(f, begin[:]); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return results.IsBundle(begin[:]), nil
}

// importBundles reads all of them to their ends before it keeps the first.
func (a *app) importBundles(ctx context.Context, store *results.Store, names []string) (err error) {
	var all []*results.Incoming
	defer func() {
		for _, in := range all {
			err = errors.Join(err, in.Close())
		}
	}()
	var errs []error
	for _, name := range names {
		in, err := receiveBundle(ctx, store, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		all = append(all, in)
	}
	if len(errs) > 0 {
		return &exit{exitUsage, errors.Join(errs...)}
	}
	for _, in := range all {
		if err := in.Keep(ctx); err != nil {
			return err
		}
		run := in.Run()
		_, err = fmt.Fprintf(a.stdout, "Imported run %s of %s with %s; see it with: hcl report %s --run %s\n",
			run.ID, run.Lab, plural(in.Cells(), "cell"), strings.TrimSuffix(relative(filepath.Dir(store.Path())), "/"), run.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

func receiveBundle(ctx context.Context, store *results.Store, name string) (*results.Incoming, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return store.ReceiveBundle(ctx, f)
}
