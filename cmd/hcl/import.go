package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/load"
	"hclbench/results"
)

func (a *app) importVerb() *cobra.Command {
	var f importFlags
	var dir string
	c := &cobra.Command{
		Use:   "import FILE...",
		Short: "Bring results of others into the store",
		Long: `Reads what other tools have measured and what others have published, and stores
it beside what was measured here, marked as imported wherever it is shown: the
JSON and the text block of vllm bench serve and of SGLang's bench_serving, the JSON
of vllm bench throughput and latency, and tables (*.csv, *.tsv) whose first line
names the columns. docs/results.md lists the
columns that are understood. A plan never takes an imported result for one of its
cells. Importing a file again puts the new figures in the place of the old.

A file that hcl bundle has written becomes a run of its own again; hcl report --run
shows it as it was.`,
		Example: `  hcl import old/vllm-*.json --engine vllm.h200 --gpus 8xH200
  hcl import published/online.csv --gpu-count 8 --model deepseek-ai/DeepSeek-R1
  hcl import theirs.bundle && hcl report --run 20261121-142501-k3f9 --html theirs.html
  hcl report --html report.html

Exit codes: 0 done, 1 failed, 2 the command line is wrong or a file cannot be
understood; then nothing is stored.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("name the files to import\nSee '%s --help'.", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			rows, bundles, err := a.readFiles(args, f)
			if err != nil {
				return &exit{exitUsage, err}
			}
			store, err := a.openStore(c.Context(), labDir([]string{dir}))
			if err != nil {
				return err
			}
			defer store.Close()
			if err := a.importBundles(c.Context(), store, bundles); err != nil || len(rows) == 0 {
				return err
			}
			return a.importRows(c.Context(), store, dir, rows)
		},
	}
	c.Flags().StringVar(&dir, "lab", ".", "the lab's `directory` or file, beside which results are kept")
	a.storeFlag(c)
	c.Flags().StringVar(&f.benchmark, "benchmark", "", "the benchmark's `name`; else the file's")
	c.Flags().StringVar(&f.engine, "engine", "", "the engine, as `KIND.NAME`; else as the file says")
	c.Flags().StringVar(&f.gpus, "gpus", "", "what it ran on, such as `8xH200`; else as the file says")
	c.Flags().IntVar(&f.count, "gpu-count", 0, "how many GPUs it ran on, where the file says only which")
	c.Flags().StringVar(&f.model, "model", "", "the model; else as the file says")
	return c
}

// readFiles reads every file but bundles, which it names, before anything is stored.
func (a *app) readFiles(names []string, f importFlags) (rows []imported, bundles []string, err error) {
	var errs []error
	for _, name := range names {
		if is, err := isBundle(name); err != nil {
			errs = append(errs, err)
			continue
		} else if is {
			bundles = append(bundles, name)
			continue
		}
		read, unused, err := readResults(name)
		for i := range read {
			if err == nil {
				err = f.complete(&read[i])
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if len(unused) > 0 {
			a.logger().Warn("figures that are not used", "file", name, "named", strings.Join(unused, ", "))
		}
		rows = append(rows, read...)
	}
	return rows, bundles, errors.Join(errs...)
}

// importRows stores what others have measured as one run, whole or not at all.
func (a *app) importRows(ctx context.Context, store *results.Store, dir string, rows []imported) (err error) {
	lab, err := filepath.Abs(labDir([]string{dir}))
	if err != nil {
		return err
	}
	named, err := labIn(store, []string{dir})
	if err != nil {
		return err
	}
	run := newRun(cmp.Or(named, filepath.Base(lab)), "import")
	if err := store.BeginRun(ctx, run); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.Remove(context.WithoutCancel(ctx), results.Litter{Run: run.ID}))
		}
	}()
	doubtful := 0
	repeated := map[string]int{}
	for _, r := range rows {
		key := fmt.Sprint(r.deployment.Engine, r.deployment.GPUs, r.deployment.Model, r.cell.Benchmark, r.cell.Axes)
		repeated[key]++
		r.cell.Repetition = repeated[key]
		r.identify(run.ID)
		if err := store.PutDeployment(ctx, r.deployment); err != nil {
			return err
		}
		if err := store.PutCell(ctx, r.cell, r.records); err != nil {
			return err
		}
		if len(r.cell.Summary.Contradictions(r.cell.Job.Workload.Concurrency)) > 0 {
			doubtful++
		}
	}
	if err := store.FinishRun(ctx, run.ID, "done", time.Now()); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "Imported %s as run %s into %s\n", plural(len(rows), "cell"), run.ID, placeOf(store))
	if doubtful > 0 {
		fmt.Fprintf(a.stdout, "%d of them contradict themselves; hcl audit says how.\n", doubtful)
	}
	return nil
}

// importFlags are what files do not say.
type importFlags struct {
	benchmark, engine, gpus, model string
	count                          int
}

// imported is a cell on its way into the store.
type imported struct {
	cell       results.Cell
	deployment results.Deployment
	records    []load.Record
}

// read reads a file; what it does not say is not filled in.
func readResults(name string) (rows []imported, unused []string, err error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	if slices.Contains([]string{".csv", ".tsv"}, strings.ToLower(filepath.Ext(name))) {
		published, left, err := results.ReadCSV(in)
		if err != nil {
			return nil, nil, err
		}
		unused = left
		for _, p := range published {
			rows = append(rows, imported{cell: p.Cell, deployment: p.Deployment})
		}
	} else {
		measured, left, err := results.Import(in)
		if err != nil {
			return nil, nil, err
		}
		unused = left
		for _, m := range measured {
			rows = append(rows, imported{cell: m.Cell, deployment: deploymentOf(m.Cell), records: m.Records})
		}
	}
	base := filepath.Base(name)
	for i := range rows {
		rows[i].cell.Benchmark = strings.TrimSuffix(base, filepath.Ext(base))
		rows[i].deployment.Engine = rows[i].deployment.Kind
	}
	return rows, unused, nil
}

// complete fills in what a file does not say.
func (f *importFlags) complete(r *imported) error {
	d := &r.deployment
	d.GPUs = cmp.Or(f.gpus, d.GPUs)
	if f.count > 0 && d.GPUs != "" && !strings.ContainsAny(d.GPUs[:1], "0123456789") {
		d.GPUs = fmt.Sprintf("%dx%s", f.count, d.GPUs)
	}
	d.GPUCount = f.count
	d.Model = cmp.Or(f.model, d.Model)
	d.Host = "elsewhere"
	if f.engine != "" {
		kind, name, ok := strings.Cut(f.engine, ".")
		if !ok || kind == "" || name == "" {
			return usage("--engine %q: write KIND.NAME, such as vllm.h200", f.engine)
		}
		d.Kind, d.Engine = kind, f.engine
	}
	if d.Kind == "" {
		return usage("the file does not say which engine it was; say it: --engine vllm.h200")
	}
	if f.engine == "" {
		d.Engine = d.Kind + "." + cmp.Or(gpuName(d.GPUs), "elsewhere")
	}
	r.cell.Benchmark = cmp.Or(f.benchmark, r.cell.Benchmark)
	r.cell.Axes = append(results.Axes{{Name: "engine", Value: d.Engine}}, r.cell.Axes...)
	return nil
}

// gpuName is a GPU's model in small letters, without how many there are: "8xMI300X" is
// mi300x.
func gpuName(gpus string) string {
	name := strings.ToLower(gpus)
	if count, model, ok := strings.Cut(name, "x"); ok && model != "" && strings.Trim(count, "0123456789 ") == "" {
		name = model
	}
	return strings.TrimSpace(name)
}

// deploymentOf is what a result of another tool says of the server.
func deploymentOf(c results.Cell) results.Deployment {
	d := results.Deployment{Model: c.Job.Target.Model}
	var said struct {
		Backend string `json:"backend"`
		Model   string `json:"model_id"`
	}
	if c.Origin != nil && json.Unmarshal(c.Origin.Fields, &said) == nil {
		switch backend := strings.ToLower(said.Backend); {
		case strings.HasPrefix(backend, "vllm") || strings.HasPrefix(c.Origin.Format, "vllm-"): // its offline tools
			d.Kind = "vllm"
		case strings.HasPrefix(backend, "sglang"):
			d.Kind = "sglang"
		case strings.HasPrefix(backend, "trt") || strings.HasPrefix(backend, "tensorrt"):
			d.Kind = "trtllm"
		}
		d.Model = cmp.Or(d.Model, said.Model)
	}
	return d
}

// identify gives ids that the same figures get again, and no plan ever does.
func (r *imported) identify(run string) {
	d, c := &r.deployment, &r.cell
	c.Identity = map[string]string{
		"imported": "true", "engine": d.Engine, "gpus": d.GPUs, "model": d.Model, "command": strings.Join(d.Command, " "),
		"benchmark": c.Benchmark, "axes": fmt.Sprint(c.Axes), "repetition": fmt.Sprint(c.Repetition),
	}
	d.Identity = map[string]string{"imported": "true", "engine": d.Engine, "gpus": d.GPUs, "model": d.Model, "command": c.Identity["command"]}
	d.RunID, d.ID, d.Started = run, hashOf(d.Identity), c.Started
	c.RunID, c.DeploymentID, c.ID = run, d.ID, hashOf(c.Identity)
}

// hashOf is the id of an imported thing. Maps print in the order of their keys.
func hashOf(identity map[string]string) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, identity)))[:12]
}
