package main

import (
	"cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/lock"
)

// pin is the lab with what is locked put in: images by digest beside their tag,
// models by commit, data sets by checksum. The lab itself stays as it is.
func pin(cfg *hcl.Config, f *lock.File) *hcl.Config {
	out := *cfg
	models := map[*engines.Model]*engines.Model{}
	model := func(e *engines.Engine) *engines.Model {
		if !fromHub(e) {
			return e.Model
		}
		if models[e.Model] == nil {
			pinned := *e.Model
			pinned.Revision = cmp.Or(f.Models[lock.Model{Repo: pinned.Repo, Revision: pinned.Revision}.Key()], pinned.Revision)
			models[e.Model] = &pinned
		}
		return models[e.Model]
	}
	image := func(name string) string {
		if digest := f.Images[name]; digest != "" {
			return name + "@" + digest
		}
		return name
	}
	all := map[*engines.Engine]*engines.Engine{}
	engine := func(e *engines.Engine) *engines.Engine {
		if e == nil || all[e] != nil {
			return all[e]
		}
		pinned := *e
		pinned.Image = image(e.Image)
		if e.Build != nil {
			build := *e.Build
			build.Image = image(build.Image)
			pinned.Build = &build
		}
		pinned.Model = model(e)
		all[e] = &pinned
		return &pinned
	}
	out.Engines, out.Benchmarks = nil, nil
	for _, e := range cfg.Engines {
		out.Engines = append(out.Engines, engine(e))
	}
	for _, b := range cfg.Benchmarks {
		cells := make([]hcl.Cell, len(b.Cells))
		for i, c := range b.Cells {
			c.Engine = engine(c.Engine)
			cells[i] = c
		}
		b.Cells = cells
		out.Benchmarks = append(out.Benchmarks, b)
	}
	return &out
}
