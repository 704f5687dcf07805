package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hclbench/results"
	"hclbench/results/formats"
)

// readForeign reads a file of another tool; what it does not say is not filled in.
func readForeign(name string) (rows []formats.Result, unused []string, err error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	read := formats.Read
	if slices.Contains([]string{".csv", ".tsv"}, strings.ToLower(filepath.Ext(name))) {
		read = formats.ReadTable
	}
	if rows, unused, err = read(in); err != nil {
		return nil, nil, err
	}
	base := filepath.Base(name)
	for i := range rows {
		rows[i].Cell.Benchmark = strings.TrimSuffix(base, filepath.Ext(base))
		rows[i].Deployment.Engine = rows[i].Deployment.Kind
	}
	return rows, unused, nil
}

// foreignRows reads a file of another tool, to be looked at and not to be stored.
func foreignRows(name string) ([]results.Row, error) {
	read, _, err := readForeign(name)
	if err != nil {
		return nil, &exit{exitUsage, fmt.Errorf("%s: %w", name, err)}
	}
	var rows []results.Row
	for _, r := range read {
		rows = append(rows, results.Row{Cell: r.Cell, Deployment: r.Deployment, Run: results.Run{Command: "import"}})
	}
	return rows, nil
}

// complete fills in what a file does not say.
func (f importFlags) complete(r *formats.Result) error {
	d := &r.Deployment
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
	r.Cell.Benchmark = cmp.Or(f.benchmark, r.Cell.Benchmark)
	r.Cell.Axes = append(results.Axes{{Name: "engine", Value: d.Engine}}, r.Cell.Axes...)
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

// identify gives ids that the same figures get again, and no plan ever does.
func identify(r *formats.Result, run string) {
	d, c := &r.Deployment, &r.Cell
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
