package formats

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/results"
	"hclbench/results/door"
)

// ReadFile reads a file of another tool, a table by its ending, and names the figures in
// it that are not used. What it does not say is not filled in, but for the benchmark,
// which is then the file's name.
func ReadFile(name string) (all []Result, unused []string, err error) {
	in, err := door.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	read, ext := Read, filepath.Ext(name)
	if ext := strings.ToLower(ext); ext == ".csv" || ext == ".tsv" {
		read = ReadTable
	}
	if all, unused, err = read(in); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range all {
		c := &all[i].Cell
		c.Benchmark = cmp.Or(c.Benchmark, strings.TrimSuffix(filepath.Base(name), ext))
		d := &all[i].Deployment
		d.Engine = cmp.Or(d.Engine, d.Kind)
	}
	return all, unused, nil
}

// Unsaid is what files do not say of their results.
type Unsaid struct {
	Benchmark, Engine, GPUs, Model string // Engine is KIND.NAME
	Count                          int    // of GPUs, where the file says only which
}

// Complete fills in what a file does not say.
func (u Unsaid) Complete(all []Result) error {
	var engines, gpus, models []string
	add := func(names *[]string, name string) {
		if name != "" && !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
	for i := range all {
		r := &all[i]
		d := &r.Deployment
		add(&gpus, d.GPUs)
		add(&models, d.Model)
		d.GPUs = cmp.Or(u.GPUs, d.GPUs)
		if u.Count > 0 && d.GPUs != "" && !strings.ContainsAny(d.GPUs[:1], "0123456789") {
			d.GPUs = fmt.Sprintf("%dx%s", u.Count, d.GPUs)
		}
		d.GPUCount = cmp.Or(u.Count, d.GPUCount)
		d.Model = cmp.Or(u.Model, d.Model)
		d.Host = "elsewhere"
		r.Benchmark = cmp.Or(u.Benchmark, r.Benchmark)
		if d.Kind == "" && u.Engine == "" {
			return errors.New("the file does not say which engine it was; say it: --engine vllm.h200")
		}
		as := d.Engine
		if as == "" || as == d.Kind { // else the file has its name
			as = strings.TrimSuffix(d.Kind+"."+r.server, ".")
			parts := slices.DeleteFunc([]string{gpuName(d.GPUs), r.server}, func(s string) bool { return s == "" })
			d.Engine = d.Kind + "." + cmp.Or(strings.Join(parts, "-"), "elsewhere")
		}
		add(&engines, as)
	}
	kind, name, _ := strings.Cut(u.Engine, ".")
	switch {
	case u.Engine != "" && (kind == "" || name == ""):
		return errors.New("an engine is written KIND.NAME, such as --engine vllm.h200")
	case u.Engine != "" && len(engines) > 1:
		return fmt.Errorf("it is of several engines, %s, and --engine names one", strings.Join(engines, ", "))
	case u.GPUs != "" && len(gpus) > 1:
		return fmt.Errorf("it is of several GPUs, %s, and --gpus names one; --gpu-count says how many there were", strings.Join(gpus, ", "))
	case u.Model != "" && len(models) > 1:
		return fmt.Errorf("it is of several models, %s, and --model names one", strings.Join(models, ", "))
	}
	for i := range all {
		d := &all[i].Deployment
		if u.Engine != "" {
			d.Kind, d.Engine = kind, u.Engine
		}
		all[i].Axes = append(results.Axes{{Name: "engine", Value: d.Engine}}, all[i].Axes...)
	}
	return nil
}

// Keep stores what others have measured as one run, whole or not at all, and counts the
// cells that contradict themselves.
func Keep(ctx context.Context, store *results.Store, run results.Run, all []Result) (doubtful int, err error) {
	stage, err := store.Stage(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	taken := map[string]bool{}
	for i := range all {
		r := &all[i]
		identify(r, run.ID, taken)
		if r.Records != nil {
			if err := layDown(stage, r); err != nil {
				return 0, err
			}
		}
		if len(Contradictions(r.Cell.Summary, r.Cell.Job.Workload.Concurrency)) > 0 {
			doubtful++
		}
	}
	run.Outcome, run.Finished = "done", time.Now()
	return doubtful, stage.Keep(ctx, run, func(rows *results.Rows) error {
		for _, r := range all {
			if err := errors.Join(rows.Deployment(r.Deployment), rows.Cell(r.Cell)); err != nil {
				return err
			}
		}
		return nil
	})
}

func layDown(stage *results.Stage, r *Result) error {
	return stage.Records(r.Cell.ID, func(put func(*load.Record) error) error {
		for i := range r.Records {
			if err := put(&r.Records[i]); err != nil {
				return err
			}
		}
		return nil
	})
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

// identify gives ids that the same figures get again, and no plan ever does. Results that are
// alike are repetitions, counted where they do not say which.
func identify(r *Result, run string, taken map[string]bool) {
	d, c := &r.Deployment, &r.Cell
	d.Identity = map[string]string{
		"imported": "true", "engine": d.Engine, "gpus": d.GPUs, "model": d.Model, "command": strings.Join(d.Command, " "),
	}
	c.Identity = maps.Clone(d.Identity)
	c.Identity["benchmark"], c.Identity["axes"] = c.Benchmark, fmt.Sprint(c.Axes)
	alike := hashOf(c.Identity)
	for c.Repetition = max(c.Repetition, 1); taken[fmt.Sprint(alike, c.Repetition)]; {
		c.Repetition++
	}
	taken[fmt.Sprint(alike, c.Repetition)] = true
	c.Identity["repetition"] = fmt.Sprint(c.Repetition)
	d.RunID, d.ID, d.Started = run, hashOf(d.Identity), c.Started
	c.RunID, c.DeploymentID, c.ID = run, d.ID, hashOf(c.Identity)
}

// hashOf is the id of an imported thing. Maps print in the order of their keys.
func hashOf(identity map[string]string) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, identity)))[:12]
}
