package table

import (
	"io"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/testhost/golden"
)

// TestCapacity: what engines hold stands above the loads that were tried.
func TestCapacity(t *testing.T) {
	rows, found := reporttest.Searched(t, reporttest.Server{Engine: "sglang.h200", Holds: 90}, reporttest.Server{Engine: "vllm.h200", Holds: 30},
		reporttest.Server{Engine: "trtllm.h200", Holds: 100}, reporttest.Server{Engine: "vllm.old", Holds: 60, After: 10},
		reporttest.Server{Engine: "vllm.big", Holds: 4000, Most: 64}, reporttest.Server{Engine: "vllm.tiny", Holds: 0.2}, reporttest.Server{Engine: "vllm.poor", Holds: 80, Budget: 700})
	for name, width := range map[string]int{"capacity.txt": 120, "capacity-80.txt": 80} {
		golden.Check(t, name, reporttest.Written(t, func(w io.Writer) error {
			return Table(w, rows, Options{Width: width, Capacities: found})
		}))
	}
	golden.Check(t, "capacity.golden", reporttest.Written(t, func(w io.Writer) error {
		return Markdown(w, rows, figure.About{Capacities: found})
	}))
}
