package table

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost/golden"
)

// TestCapacity: what engines hold stands above the loads that were tried.
func TestCapacity(t *testing.T) {
	rows, found := reporttest.Searched(
		reporttest.Search{Engine: "sglang.h200", Pass: []float64{4, 8, 32, 79}, Open: []float64{16, 91}, Fail: []float64{99, 128}},
		reporttest.Search{Engine: "trtllm.h200", Pass: []float64{4, 83}, Fail: []float64{87, 128}},
		reporttest.Search{Engine: "vllm.h200", Pass: []float64{4, 28}, Fail: []float64{34}, Running: true},
		reporttest.Search{Engine: "vllm.old", Pass: []float64{4, 52}, Fail: []float64{67},
			Flaw: "drifting: a load of 52 has passed, and failed when it was tried again at the end"},
		reporttest.Search{Engine: "vllm.big", Pass: []float64{4, 64}, Most: 64},
		reporttest.Search{Engine: "vllm.tiny", Fail: []float64{1, 4}},
		reporttest.Search{Engine: "vllm.poor", Open: []float64{4, 8}})
	for name, width := range map[string]int{"capacity.txt": 120, "capacity-80.txt": 80} {
		golden.Check(t, name, reporttest.Written(t, func(w io.Writer) error {
			return Table(w, rows, Options{Width: width, Found: figure.Found{Capacities: found}})
		}))
	}
	golden.Check(t, "capacity.golden", reporttest.Written(t, func(w io.Writer) error {
		return Markdown(w, rows, figure.About{Found: figure.Found{Capacities: found}})
	}))
}

// TestCapacityFacts: a cell that a search has tried says what is certain of its load.
func TestCapacityFacts(t *testing.T) {
	rows, found := reporttest.Searched(reporttest.Search{Engine: "sglang.h200", Pass: []float64{9}}, reporttest.Search{Engine: "vllm.h200", Pass: []float64{2}, Fail: []float64{4}})
	at := slices.IndexFunc(rows, func(r results.Row) bool { return r.ID == "vllm.h200-4-1" })
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return Cell(w, rows[at], figure.Found{Capacities: found}, nil, 0) }),
		"Capacity            holds 2, breaks by 4 concurrent (95 %); closed loop; bound by TTFT p95;",
		"                    4 concurrent: FAIL\n", "                    TTFT p95 ≤ 1s: 88.1 % of 404 requests, FAIL\n", "TPOT p90 ≤ 50ms: 93.1 % of 404 requests, UNRESOLVED\n")
	rows[at].Benchmark = "another"
	if text := reporttest.Written(t, func(w io.Writer) error { return Cell(w, rows[at], figure.Found{Capacities: found}, nil, 0) }); strings.Contains(text, "Capacity") {
		t.Error(text)
	}
}

// TestCapacityExports: JSON has all that was found, as it can be read again; CSV what is certain of each load.
func TestCapacityExports(t *testing.T) {
	rows, found := reporttest.Searched(reporttest.Search{Engine: "sglang.h200", Pass: []float64{4, 8}, Fail: []float64{9}})
	text := reporttest.Written(t, func(w io.Writer) error { return JSON(w, rows, figure.About{Found: figure.Found{Capacities: found}}) })
	var doc struct {
		Capacities []struct {
			results.Capacity
			Answer string
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Capacities) != 1 || !strings.HasPrefix(doc.Capacities[0].Answer, "holds ") {
		t.Fatalf("%+v", doc)
	}
	reporttest.Check(t, "what is read again", found[0].Outcome, doc.Capacities[0].Outcome)
	csv := reporttest.Written(t, func(w io.Writer) error { return CSV(w, rows, figure.About{Found: figure.Found{Capacities: found}}) })
	lines := strings.Split(csv, "\n")
	reporttest.Holds(t, lines[0], ",capacity,capacity_holds,capacity_breaks,")
	reporttest.Holds(t, lines[1], ",PASS,8,9,")
	if text := reporttest.Written(t, func(w io.Writer) error { return JSON(w, nil, figure.About{Found: figure.Found{Capacities: found}}) }); strings.Contains(text, "capacities") {
		t.Error("without its cells it is shown")
	}
}
