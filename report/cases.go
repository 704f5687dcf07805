package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hclbench/results"
)

// caseAxes are the columns of published tables that nobody understands and that tell loads apart, not
// servers: one server, which is its command, has several of them. Only those that are needed are told:
// GPUStack's sections say nothing that its cases do not.
func caseAxes(rows []results.Row) (all, told []string) {
	published := those(rows, func(r *results.Row) bool {
		return kindOfRun(r) == "imported" && len(r.Deployment.Command) > 0
	})
	if len(published) == 0 || len(published) < len(rows) {
		return nil, nil
	}
	server := func(r *results.Row) string { return strings.Join(r.Deployment.Command, "\x00") }
	for _, name := range axes(rows) {
		if ofLoad(name) || name == "engine" || name == sideAxis {
			continue
		}
		for _, of := range grouped(published, server) {
			if slices.ContainsFunc(of, func(r *results.Row) bool { return axisOf(r.Axes, name) != axisOf(of[0].Axes, name) }) {
				all = append(all, name)
				break
			}
		}
	}
	told = slices.Clone(all)
	for _, name := range all {
		rest := slices.DeleteFunc(slices.Clone(told), func(n string) bool { return n == name })
		if len(grouped(published, placeIn(told))) == len(grouped(published, placeIn(rest))) {
			told = rest
		}
	}
	return all, told
}

// placeIn is the same for rows of an engine under the same load, as these columns tell it.
func placeIn(told []string) func(r *results.Row) string {
	return func(r *results.Row) string {
		return fmt.Sprint(r.Benchmark, "\x00", r.Deployment.Engine, "\x00", r.Deployment.GPUs, "\x00",
			axisWords(r.Axes, func(name string) bool { return ofLoad(name) || slices.Contains(told, name) }))
	}
}

// ofLoad reports whether an axis of the cell says what was sent.
func (s *sample) ofLoad(name string) bool { return ofLoad(name) || slices.Contains(s.told, name) }

// others are what published columns say of the cell's load beside dimensions and data set, in words.
func (s *sample) others() []string { return others(s.rows[0], s.told) }

func others(r *results.Row, told []string) []string {
	return axisWords(r.Axes, func(name string) bool { return name == "burstiness" || slices.Contains(told, name) })
}

// caseNames are short names of the loads of cells, by [sample.caseKey], each its own.
func caseNames(cells []*sample) map[string]string {
	names := map[string]string{}
	taken := unique{}
	for _, of := range grouped(cells, func(s *sample) string { return s.benchmark }) {
		loads := grouped(of, (*sample).caseKey)
		tells := func(name string) bool {
			values := map[string]bool{}
			for _, load := range loads {
				values[axisOf(load[0].rows[0].Axes, name)] = true
			}
			return len(values) == len(loads)
		}
		var axes []string // that tell them apart: one of them, if one does
		for _, load := range loads {
			for _, a := range load[0].rows[0].Axes {
				if load[0].ofLoad(a.Name) {
					axes = once(axes, a.Name)
				}
			}
		}
		if i := slices.IndexFunc(axes, tells); i >= 0 {
			axes = axes[i : i+1]
		}
		short := map[string]int{}
		for _, load := range loads {
			short[load[0].caseName(axes)]++
		}
		for _, load := range loads {
			name := of[0].benchmark
			if len(loads) > 1 {
				name = load[0].caseName(axes)
			}
			if short[name] > 1 && len(axes) == 1 { // text.isl512 beside sharegpt.isl512
				name = axisOf(load[0].rows[0].Axes, axes[0])
			}
			if name == "" && slices.ContainsFunc(axes, limits) {
				name = "no limit"
			}
			names[load[0].caseKey()] = taken.name(cmp.Or(name, "all"))
		}
	}
	return names
}

// limits reports whether an axis says how much a load may send at most: without it there is no limit.
func limits(name string) bool {
	return slices.Contains([]string{"concurrency", "max_concurrency", "rate", "request_rate"}, name)
}

// caseKey is the same for cells under the same load.
func (s *sample) caseKey() string {
	return s.benchmark + "\x00" + s.load()
}

// caseName is what the axes of the load among these say of a cell: of one alone its value.
func (s *sample) caseName(axes []string) string {
	if len(axes) != 1 {
		return s.load()
	}
	value := axisOf(s.rows[0].Axes, axes[0])
	if axes[0] == "dataset" {
		if _, own, ok := strings.Cut(value, "."); ok {
			return own
		}
	}
	if isNumber(value) {
		return fmt.Sprintf("%s %s", strings.ReplaceAll(axes[0], "_", " "), value)
	}
	return value
}
