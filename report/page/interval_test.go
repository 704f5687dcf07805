package page

import (
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/compare"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
)

func TestIntervals(t *testing.T) {
	r := reporttest.Surely(900, 880, 920)
	r.Summary.Unbounded = []load.Unbounded{{Why: "it needs 300", Figures: []string{"ttft_ms.p99", "itl_ms.mean", "itl_ms.p99"}},
		{Why: "a row of its own", Figures: []string{"normalized_latency_ms.p99"}}, {Why: "too short"}}
	show := reporttest.Written(t, func(w io.Writer) error { return table.Summary(w, r.Summary, 0) })
	reporttest.Holds(t, show, "No 95 % interval    TTFT p99; ITL mean, p99: it needs 300\n                    too short\n", " in the best second, in 95 of 100 runs 880 to 920\n", "At most, 99 % sure  TTFT p50 102, p90 117\n")
	reporttest.Holds(t, show, "\np50         97.0 ", "\nIn 95 of 100 runs       TTFT ms\nmean                95.0 to 105\np50                90.0 to 99.0\np90                  106 to 115\n")
	reporttest.Trimmed(t, show)

	rows := []results.Row{r, reporttest.Row("sglang.h200", 16, 100, 20)}
	plainly := reporttest.Written(t, func(w io.Writer) error { return table.Table(w, rows, table.Options{}) })
	surer := reporttest.Written(t, func(w io.Writer) error {
		return table.Table(w, rows, table.Options{Layout: figure.Layout{Intervals: true}})
	})
	if strings.Contains(plainly, "[880") {
		t.Errorf("a table has intervals that nobody asked for:\n%s", plainly)
	}
	reporttest.Holds(t, surer, "900 [880 to 920]", "97.0 [90.0 to 99.0]")
	page := reporttest.Written(t, func(w io.Writer) error { return HTML(w, rows, figure.About{}) })
	reporttest.Holds(t, page, `"low":[880,null],"high":[920,null]`, `"TTFT p99; ITL mean, p99: it needs 300; too short"`)
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error {
		return table.Markdown(w, rows, figure.About{Layout: figure.Layout{Intervals: true}})
	}), "| 900 [880 to 920] |")
}

// TestTooFew: no text shows a percentile that its requests do not carry, and each says why; programs
// have it.
func TestTooFew(t *testing.T) {
	const note = "n<368: too few requests for that percentile. JSON and CSV have what was seen.\n"
	many, few := fewRequests(368, "vllm.h200", 100), fewRequests(367, "sglang.h200", 100)
	of := func(rows ...results.Row) string {
		return reporttest.Written(t, func(w io.Writer) error { return table.Table(w, rows, table.Options{Width: 0}) })
	}
	reporttest.Holds(t, of(many, few), "  97.0    170  ", "  97.0  n<368  ", note)
	reporttest.Holds(t, of(few, fewRequests(71, "vllm.h200", 100)), "   p95  ", "  97.0   125  ", "  97.0  n<72  ", "n<72: too few")
	alone := of(fewRequests(35, "vllm.h200", 100), fewRequests(5, "sglang.h200", 100))
	reporttest.Holds(t, alone, "\nNo p99: it needs 368 requests.\n", "  97.0  ")
	if strings.Contains(alone, "n<") {
		t.Errorf("columns of marks alone:\n%s", alone)
	}
	chosen := reporttest.Written(t, func(w io.Writer) error {
		return table.Table(w, []results.Row{few}, table.Options{Layout: figure.Layout{Columns: []string{"p99_ttft_ms"}}})
	})
	reporttest.Holds(t, chosen, "n<368", note)

	unsent := few
	s := *few.Summary
	s.SendLag = load.Stats{Count: 367, Percentiles: map[string]float64{"99": 4.25}}
	unsent.Summary = &s
	show := reporttest.Written(t, func(w io.Writer) error { return table.Summary(w, &s, 0) })
	reporttest.Holds(t, show, "\np99        n<368    n<368   n<368   n<368     4.25\n", "4.25", note)
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Markdown(w, []results.Row{many, few}, figure.About{}) }), "| n&lt;368 |", "\nn&lt;368: too few")
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.CSV(w, []results.Row{few}, figure.About{}) }), ",170,")
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.JSON(w, []results.Row{few}, figure.About{}) }), `"99": 170`, `"99": 368`)
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return HTML(w, []results.Row{many, few}, figure.About{}) }),
		`"values":[170,null],"needs":[0,368]`)
	kept, err := figure.Matching([]results.Row{many, few}, "p99_ttft_ms > 169")
	if err != nil || len(kept) != 2 {
		t.Errorf("a condition on what was seen keeps %d rows, %v", len(kept), err)
	}
}

// TestTooFewCompared: percentiles that too few requests carry are no change, but are held against a limit.
func TestTooFewCompared(t *testing.T) {
	few, slow := fewRequests(300, "vllm.h200", 100), fewRequests(400, "vllm.h200", 200)
	slow.RunID = "other"
	for name, a := range map[string]results.Row{"few": few, "many": fewRequests(400, "vllm.h200", 100)} {
		d, err := compare.Diff("a", []results.Row{a}, "b", []results.Row{slow}, []string{"median_ttft_ms", "p99_ttft_ms"})
		if err != nil {
			t.Fatal(err)
		}
		limit, err := compare.ParseLimit("p99_ttft_ms > 10%")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check([]compare.GateLimit{limit}, compare.Differing()); err != nil {
			t.Fatal(err)
		}
		text := reporttest.Written(t, func(w io.Writer) error { return d.Write(w, "text", 0) })
		page := reporttest.Written(t, func(w io.Writer) error { return Comparison(w, d, figure.About{}) })
		told, why := "p99_ttft_ms: 1 unknown\n", "changed by +100 % (170 ms to 340 ms)"
		if name == "few" {
			told = "p99_ttft_ms: 1 with too few requests (n<368)\n"
			why += ", of fewer than the 368 requests that it needs"
		}
		reporttest.Holds(t, text, "median_ttft_ms: 1 unknown\n", told)
		if got := strings.Contains(text, "340"); got != (name == "many") {
			t.Errorf("%s: p99 shown: %v\n%s", name, got, text)
		}
		if got := strings.Contains(page, "P99 time to first token: too few"); got != (name == "many") {
			t.Errorf("%s: the page's finding tells of p99: %v", name, got)
		}
		reporttest.Check(t, name, why, d.Checks[0].Why)
	}
}

// fewRequests is a row of so many, whatever its figures are.
func fewRequests(n int, engine string, mean float64) results.Row {
	r := reporttest.Row(engine, 16, mean, 20)
	s := r.Summary
	s.Requests, s.Completed = n, n
	for _, t := range []*load.Stats{&s.TTFT, &s.TPOT, &s.ITL, &s.E2EL} {
		t.Count = n
	}
	return r
}
