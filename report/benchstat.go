package report

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"hclbench/report/number"
)

// benchstat writes the rows of both sides, told apart by the key "side":
// benchstat -col side.
func (d *Difference) benchstat(b *bytes.Buffer) {
	for _, side := range d.sides() {
		fmt.Fprintf(b, "side: %s\nresults: %s\n", side.name, strings.Join(strings.Fields(side.of), " "))
		for _, c := range d.Cells {
			for _, r := range side.rows(c) {
				var figures []string
				for _, f := range c.Figures {
					if v, ok := f.of.value(r); ok {
						unit := strings.ReplaceAll(f.Metric, "_ms", "-ms")
						figures = append(figures, fmt.Sprintf("%s %s", number.Exact(v), unit))
					}
				}
				if len(figures) > 0 {
					fmt.Fprintf(b, "Benchmark%s\t1\t%s\n", benchmarkName(c), strings.Join(figures, "\t"))
				}
			}
		}
	}
}

// benchmarkName is a cell in the form of Go's benchmarks: Online/engine=vllm.h200/concurrency=4.
func benchmarkName(c CellDiff) string {
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || r == '/' {
				return '_'
			}
			return r
		}, s)
	}
	name := []rune(cmp.Or(clean(c.Benchmark), "cell"))
	name[0] = unicode.ToUpper(name[0])
	parts := []string{string(name), "engine=" + clean(c.Engine)}
	for _, x := range c.Axes {
		if x.Name != "engine" {
			parts = append(parts, clean(x.Name+"="+axisText(x.Value)))
		}
	}
	return strings.Join(parts, "/")
}
