package report

import (
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/results"
)

// surely is a row with intervals.
func surely(throughput, low, high float64) results.Row {
	r := repeated("vllm.h200", 16, throughput)[0]
	r.Summary.Intervals = map[string]load.Interval{"output_throughput": {Low: low, High: high},
		"ttft_ms.mean": {Low: 95, High: 105}, "ttft_ms.median": {Low: 90, High: 99, AtMost: 101.5},
		"ttft_ms.p90": {Low: 106, High: 115, AtMost: 117}}
	return r
}

func TestIntervals(t *testing.T) {
	r := surely(900, 880, 920)
	r.Summary.Unbounded = []load.Unbounded{{Why: "it needs 300", Figures: []string{"ttft_ms.p99", "itl_ms.mean", "itl_ms.p99"}},
		{Why: "a row of its own", Figures: []string{"normalized_latency_ms.p99"}}, {Why: "too short"}}
	show := written(t, func(w io.Writer) error { return Text(w, r.Summary) })
	holds(t, show, "No 95 % interval    TTFT p99; ITL mean, p99: it needs 300\n                    too short\n", " in the best second, in 95 of 100 runs 880 to 920\n", "At most, 99 % sure  TTFT p50 102, p90 117\n")
	var lines [][]string
	for line := range strings.Lines(show) {
		if strings.HasPrefix(line, "  in 95 of 100 runs") || strings.HasPrefix(line, "TTFT") {
			lines = append(lines, strings.Fields(line))
		}
	}
	check(t, "lines of TTFT", []string{
		"TTFT to the first token 100 12.0 80.0 97.0 110 125 170 190",
		"in 95 of 100 runs 95.0 to 105 - - 90.0 to 99.0 106 to 115 - - -",
	}, []string{strings.Join(lines[0], " "), strings.Join(lines[1], " ")})
	trimmed(t, show)

	rows := []results.Row{r, row("sglang.h200", 16, 100, 20)}
	plainly := written(t, func(w io.Writer) error { return Table(w, rows, Options{}) })
	surer := written(t, func(w io.Writer) error { return Table(w, rows, Options{Layout: Layout{Intervals: true}}) })
	if strings.Contains(plainly, "[880") {
		t.Errorf("a table has intervals that nobody asked for:\n%s", plainly)
	}
	holds(t, surer, "900 [880 to 920]", "97.0 [90.0 to 99.0]")
	page := written(t, func(w io.Writer) error { return HTML(w, rows, About{}) })
	holds(t, page, `"low":[880,null],"high":[920,null]`, `"TTFT p99; ITL mean, p99: it needs 300; too short"`)
	holds(t, written(t, func(w io.Writer) error { return Markdown(w, rows, About{Layout: Layout{Intervals: true}}) }), "| 900 [880 to 920] |")
}

// fewRequests is a row of so many, whatever its figures are.
func fewRequests(n int, engine string, mean float64) results.Row {
	r := row(engine, 16, mean, 20)
	s := r.Summary
	s.Requests, s.Completed = n, n
	for _, t := range []*load.Stats{&s.TTFT, &s.TPOT, &s.ITL, &s.E2EL} {
		t.Count = n
	}
	return r
}

// TestTooFew: no text shows a percentile that its requests do not carry, and each says why; programs
// have it.
func TestTooFew(t *testing.T) {
	const note = "n<368: too few requests for that percentile. JSON and CSV have what was seen.\n"
	many, few := fewRequests(368, "vllm.h200", 100), fewRequests(367, "sglang.h200", 100)
	of := func(rows ...results.Row) string {
		return written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 0}) })
	}
	holds(t, of(many, few), "  97.0    170  ", "  97.0  n<368  ", note)
	holds(t, of(few, fewRequests(71, "vllm.h200", 100)), "   p95  ", "  97.0   125  ", "  97.0  n<72  ", "n<72: too few")
	alone := of(fewRequests(35, "vllm.h200", 100), fewRequests(5, "sglang.h200", 100))
	holds(t, alone, "\nNo p99: it needs 368 requests.\n", "  97.0  ")
	if strings.Contains(alone, "n<") {
		t.Errorf("columns of marks alone:\n%s", alone)
	}
	chosen := written(t, func(w io.Writer) error {
		return Table(w, []results.Row{few}, Options{Layout: Layout{Columns: []string{"p99_ttft_ms"}}})
	})
	holds(t, chosen, "n<368", note)

	unsent := few
	s := *few.Summary
	s.SendLag = load.Stats{Count: 367, Percentiles: map[string]float64{"99": 4.25}}
	unsent.Summary = &s
	show := written(t, func(w io.Writer) error { return Text(w, &s) })
	holds(t, show, "    110    125  n<368    190\n", "4.25", note)
	holds(t, written(t, func(w io.Writer) error { return Markdown(w, []results.Row{many, few}, About{}) }), "| n&lt;368 |", "\nn&lt;368: too few")
	holds(t, written(t, func(w io.Writer) error { return CSV(w, []results.Row{few}) }), ",170,")
	holds(t, written(t, func(w io.Writer) error { return JSON(w, []results.Row{few}, About{}) }), `"99": 170`, `"99": 368`)
	holds(t, written(t, func(w io.Writer) error { return HTML(w, []results.Row{many, few}, About{}) }),
		`"values":[170,null],"needs":[0,368]`)
	kept, err := Where([]results.Row{many, few}, "p99_ttft_ms > 169")
	if err != nil || len(kept) != 2 {
		t.Errorf("a condition on what was seen keeps %d rows, %v", len(kept), err)
	}
}

// TestTooFewCompared: percentiles that too few requests carry are no change, but are held against a limit.
func TestTooFewCompared(t *testing.T) {
	few, slow := fewRequests(300, "vllm.h200", 100), fewRequests(400, "vllm.h200", 200)
	slow.RunID = "other"
	for name, a := range map[string]results.Row{"few": few, "many": fewRequests(400, "vllm.h200", 100)} {
		d, err := Diff("a", []results.Row{a}, "b", []results.Row{slow}, []string{"median_ttft_ms", "p99_ttft_ms"})
		if err != nil {
			t.Fatal(err)
		}
		limit, err := ParseLimit("p99_ttft_ms > 10%")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check([]Limit{limit}, Differing()); err != nil {
			t.Fatal(err)
		}
		text := written(t, func(w io.Writer) error { return d.Write(w, "text", 0) })
		page := written(t, func(w io.Writer) error { return d.HTML(w, About{}) })
		told, why := "p99_ttft_ms: 1 unknown\n", "changed by +100.0 % (170 to 340)"
		if name == "few" {
			told = "p99_ttft_ms: 1 of too few requests (n<368)\n"
			why += ", of fewer than the 368 requests that it needs"
		}
		holds(t, text, "median_ttft_ms: 1 unknown\n", told)
		if got := strings.Contains(text, "340"); got != (name == "many") {
			t.Errorf("%s: p99 shown: %v\n%s", name, got, text)
		}
		if got := strings.Contains(page, "P99 time to first token: too few"); got != (name == "many") {
			t.Errorf("%s: the page's finding tells of p99: %v", name, got)
		}
		check(t, name, why, d.Checks[0].Why)
	}
}

// TestIntervalsCompared: what single measurements tell of each other.
func TestIntervalsCompared(t *testing.T) {
	for want, b := range map[string]results.Row{"overlap": surely(910, 900, 930), "apart": surely(990, 950, 1030), "": row("vllm.h200", 16, 100, 20)} {
		d, err := Diff("a", []results.Row{surely(900, 880, 920)}, "b", []results.Row{b}, []string{"output_throughput"})
		if err != nil || len(d.Cells) != 1 || len(d.Cells[0].Figures) != 1 {
			t.Fatalf("%q: %v, %+v", want, err, d)
		}
		if got := d.Cells[0].Figures[0].Intervals; got != want {
			t.Errorf("intervals %q, want %q", got, want)
		}
		text := written(t, func(w io.Writer) error { return d.Write(w, "text", 0) })
		if want != "" {
			holds(t, text, "n=1+1, too few to tell, which takes 4 of each, intervals "+want)
		} else if strings.Contains(text, "interval") {
			t.Errorf("what is not known is told:\n%s", text)
		}
	}
}
