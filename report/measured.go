package report

import (
	"cmp"
	"fmt"
	"hclbench/load"
	"hclbench/report/number"
	"hclbench/results"
	"slices"
	"strings"
)

// pagePlan is what a benchmark asked for and what came of it.
type pagePlan struct {
	Benchmark, Counts string
	Axes              []fact
	Missing           []string
}

// fact is something with its name.
type fact struct{ Name, Value string }

// maxMissing bounds the cells that are listed as not measured.
const maxMissing = 200

// plans say of each benchmark what it turned and what is not measured.
func plans(rows []results.Row, planned []Planned) []pagePlan {
	var order []string
	axesOf := map[string][]results.Axes{}
	add := func(benchmark string, axes results.Axes) {
		if axesOf[benchmark] == nil {
			order = append(order, benchmark)
		}
		axesOf[benchmark] = append(axesOf[benchmark], axes)
	}
	verdict := map[string]string{}
	measured := map[string]int{}
	for i := range rows {
		r := &rows[i]
		verdict[r.ID] = r.Verdict().Verdict
		if verdict[r.ID] != load.Void {
			measured[r.Benchmark]++
		}
	}
	missing := map[string][]string{}
	for _, c := range planned {
		add(c.Benchmark, c.Axes)
		if v, ok := verdict[c.ID]; !ok {
			missing[c.Benchmark] = append(missing[c.Benchmark], c.place())
		} else if v == load.Void {
			missing[c.Benchmark] = append(missing[c.Benchmark], c.place()+": void")
		}
	}
	counts := map[string]int{}
	for _, c := range planned {
		counts[c.Benchmark]++
	}
	for i := range rows {
		if counts[rows[i].Benchmark] == 0 {
			add(rows[i].Benchmark, rows[i].Axes)
			if verdict[rows[i].ID] == load.Void {
				missing[rows[i].Benchmark] = append(missing[rows[i].Benchmark], Planned{Axes: rows[i].Axes}.place()+": void")
			}
		}
	}
	var out []pagePlan
	for _, name := range order {
		p := pagePlan{Benchmark: name, Missing: missing[name]}
		if n := counts[name]; n > 0 {
			p.Counts = fmt.Sprintf("%s planned, %s not measured.", number.Count(n, "cell"), number.Whole(len(p.Missing)))
		} else {
			p.Counts = fmt.Sprintf("%s measured. The lab's text is not at hand, so what else it asks for is not known.", number.Count(measured[name], "cell"))
		}
		if more := len(p.Missing) - maxMissing; more > 0 {
			p.Missing = append(p.Missing[:maxMissing:maxMissing], fmt.Sprintf("and %s more", number.Whole(more)))
		}
		for _, axis := range axisNames(len(axesOf[name]), func(i int) results.Axes { return axesOf[name][i] }) {
			var values []string
			for _, axes := range axesOf[name] {
				if v, ok := axes.Value(axis); ok && !slices.Contains(values, axisText(v)) {
					values = append(values, axisText(v))
				}
			}
			if !slices.ContainsFunc(values, func(v string) bool { return !isNumber(v) }) {
				slices.SortFunc(values, func(a, b string) int {
					x, _ := float(a) // all of them are numbers
					y, _ := float(b)
					return cmp.Compare(x, y)
				})
			}
			p.Axes = append(p.Axes, fact{strings.ReplaceAll(axis, "_", " "), strings.Join(values, ", ")})
		}
		out = append(out, p)
	}
	return out
}

// axesText is a cell's place: ", concurrency 64, output tokens 800".
func axesText(axes results.Axes) string {
	var b strings.Builder
	for _, a := range axes {
		if a.Name != "engine" {
			fmt.Fprintf(&b, ", %s %s", strings.ReplaceAll(a.Name, "_", " "), axisText(a.Value))
		}
	}
	return b.String()
}

func (c Planned) place() string {
	var parts []string
	for _, a := range c.Axes {
		part := axisText(a.Value)
		if a.Name != "engine" {
			part += " " + strings.ReplaceAll(a.Name, "_", " ")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
