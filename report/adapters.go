package report

import (
	"cmp"

	"hclbench/load"
	"hclbench/report/number"
)

// adaptersOf has a line for each adapter that requests were sent to; nil: there were none.
func adaptersOf(s *load.Summary) *sheet {
	if len(s.Adapters) == 0 {
		return nil
	}
	columns := []column{{name: "Adapter", left: true}, {name: "requests"}, {name: "failed"}, {name: "tok/s"}, {name: "TTFT p50"},
		{name: "p99"}, {name: "TPOT p50"}, {name: "p99"}, {name: "E2EL p50"}, {name: "p99 ms"}}
	var lines [][]string
	for i := range s.Adapters {
		a := &s.Adapters[i]
		lines = append(lines, []string{cmp.Or(a.Name, "(the model itself)"), number.Whole(a.Completed), number.Whole(a.Failed),
			number.Text(a.OutputThroughput), middle(a.TTFT), high(a.TTFT), middle(a.TPOT), high(a.TPOT),
			middle(a.E2EL), high(a.E2EL)})
	}
	return tabulate(columns, lines)
}
