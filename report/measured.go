package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hclbench/report/number"
	"hclbench/results"
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
func plans(rows []results.Row, planned []Planned) (out []pagePlan) {
	asked := map[string]int{} // cells of each benchmark
	for _, c := range planned {
		asked[c.Benchmark]++
	}
	all := slices.Clone(planned)
	of := map[string]*results.Row{}
	measured := map[string]int{}
	for i := range rows {
		r := &rows[i]
		of[r.ID] = r
		if isMeasured(r) {
			measured[r.Benchmark]++
		}
		if asked[r.Benchmark] == 0 { // nobody knows what was asked for, but this
			all = append(all, Planned{ID: r.ID, Benchmark: r.Benchmark, Axes: r.Axes})
		}
	}
	byBenchmark := map[string][]Planned{}
	var order []string
	for _, c := range all {
		if byBenchmark[c.Benchmark] == nil {
			order = append(order, c.Benchmark)
		}
		byBenchmark[c.Benchmark] = append(byBenchmark[c.Benchmark], c)
	}
	for _, name := range order {
		p := pagePlan{Benchmark: name, Axes: turned(byBenchmark[name])}
		for _, c := range byBenchmark[name] {
			switch r := of[c.ID]; {
			case r == nil:
				p.Missing = append(p.Missing, c.place())
			case !isMeasured(r):
				p.Missing = append(p.Missing, c.place()+": void")
			}
		}
		p.Counts = number.Count(measured[name], "cell") +
			" measured. The lab's text is not at hand, so what else it asks for is not known."
		if n := asked[name]; n > 0 {
			p.Counts = fmt.Sprintf("%s planned, %s not measured.", number.Count(n, "cell"), number.Whole(len(p.Missing)))
		}
		if more := len(p.Missing) - maxMissing; more > 0 {
			p.Missing = append(p.Missing[:maxMissing:maxMissing], fmt.Sprintf("and %s more", number.Whole(more)))
		}
		out = append(out, p)
	}
	return out
}

// turned are the axes of cells with all their values; numbers rise.
func turned(cells []Planned) (axes []fact) {
	for _, axis := range axisNames(len(cells), func(i int) results.Axes { return cells[i].Axes }) {
		var values []string
		numbers := true
		for _, c := range cells {
			if text := axisOf(c.Axes, axis); text != "" && !slices.Contains(values, text) {
				values = append(values, text)
				numbers = numbers && isNumber(text)
			}
		}
		if numbers {
			slices.SortFunc(values, func(a, b string) int {
				x, _ := float(a) // all of them are numbers
				y, _ := float(b)
				return cmp.Compare(x, y)
			})
		}
		axes = append(axes, fact{strings.ReplaceAll(axis, "_", " "), strings.Join(values, ", ")})
	}
	return axes
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
