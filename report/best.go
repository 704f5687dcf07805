package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hclbench/results"
)

// best is the class of the best under a load.
const best = "best"

// loadsOf are the rows under each load, by their index, where several series were measured once each.
func loadsOf(rows []results.Row) (loads [][]int) {
	_, told := caseAxes(rows)
	all := make([]int, len(rows))
	for i := range all {
		all[i] = i
	}
	for _, of := range grouped(all, func(i int) string {
		r := &rows[i]
		return fmt.Sprint(r.Benchmark, "\x00", dataset(r), placeOf(r), axisWords(r.Axes, func(name string) bool {
			return ofLoad(name) || slices.Contains(told, name)
		}))
	}) {
		series := map[string]bool{}
		for _, i := range of {
			d := &rows[i].Deployment
			series[fmt.Sprint(d.Engine, "\x00", d.GPUs, "\x00", rows[i].Axes)] = true
		}
		if len(of) > 1 && len(series) == len(of) {
			loads = append(loads, of)
		}
	}
	return loads
}

// markBest marks the best of a metric under each load, and what is level with it: nothing that is in doubt.
func (c column) markBest(m metric, rows []results.Row, loads [][]int) {
	if m.better == 0 {
		return
	}
	for _, of := range loads {
		var at []int
		for _, i := range of {
			if _, ok := m.value(&rows[i]); ok && !rows[i].Verdict().Doubts(m.name) {
				at = append(at, i)
			}
		}
		if len(at) < 2 {
			continue
		}
		value := func(i int) float64 { v, _ := m.value(&rows[i]); return v }
		first := slices.MaxFunc(at, func(a, b int) int { return m.better * cmp.Compare(value(a), value(b)) })
		for _, i := range at {
			if value(i) == value(first) || math.Abs(value(i)/value(first)-1) < level {
				c.entries[i].Class = best
			}
		}
	}
}
