package table

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/testhost/golden"
)

func TestTable(t *testing.T) {
	const stopped = "the server stopped answering: 503 Service Unavailable"
	doubtful := func() []results.Row {
		rows := reporttest.Matrix()
		rows[1].Summary.Verdict = load.Verdict{Verdict: load.Suspect,
			Reasons: load.Because("", "3 of 64 requests failed", "the generator used 97 % of a core")}
		rows[1].Summary.Completed, rows[1].Summary.Failed = 61, 3
		rows[2].Summary, rows[2].Error = nil, stopped
		rows[4].Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("", "all requests failed")}
		rows[4].Summary.Completed, rows[4].Summary.Failed = 0, 64
		rows[5].Summary, rows[5].Error = nil, stopped
		return rows
	}
	goodput := func() []results.Row {
		rows := reporttest.Matrix()
		for i := range rows {
			g := rows[i].Summary.RequestThroughput * 0.9
			rows[i].Summary.Goodput = &g
			for _, s := range []*load.Stats{&rows[i].Summary.TTFT, &rows[i].Summary.TPOT, &rows[i].Summary.ITL, &rows[i].Summary.E2EL} {
				s.Percentiles = map[string]float64{"50": s.Median, "95": s.Percentiles["95"]}
			}
		}
		return rows
	}
	mixed := func() []results.Row {
		rows := append(reporttest.Quickstart()[:2], reporttest.Matrix()[:2]...)
		published := reporttest.Row("vllm.h200", 4, 100, 20)
		published.Run.Command, published.RunID = "import", "20260301-000000-dstk"
		published.Axes = published.Axes[1:]
		return append(rows, published)
	}
	repeated := func() []results.Row {
		rows := reporttest.Matrix()[:2]
		rows[1].Cell = rows[0].Cell
		rows[1].Repetition = 2
		again := reporttest.Row("sglang.h200", 4, 181, 21)
		again.RunID = "20261122-090000-aaaa"
		return append(rows, again)
	}
	twoBenchmarks := func() []results.Row {
		rows := reporttest.Matrix()[:3]
		rows[2].Benchmark = "long"
		rows[2].Axes = results.Axes{{Name: "rate", Value: 2.5}, {Name: "engine", Value: "sglang.h200"},
			{Name: "chunked", Value: true}, {Name: "attention", Value: "flash"}}
		return rows
	}
	for name, c := range map[string]struct {
		rows  []results.Row
		width int
	}{
		"quickstart":     {reporttest.Quickstart(), 110},
		"quickstart-80":  {reporttest.Quickstart(), 80},
		"matrix":         {reporttest.Matrix(), 0},
		"matrix-100":     {reporttest.Matrix(), 100},
		"matrix-40":      {reporttest.Matrix(), 40},
		"doubtful":       {doubtful(), 110},
		"goodput":        {goodput(), 120},
		"mixed":          {mixed(), 120},
		"repeated":       {repeated(), 120},
		"two-benchmarks": {twoBenchmarks(), 120},
		"one":            {reporttest.Matrix()[:1], 100},
		"none":           {nil, 100},
	} {
		t.Run(name, func(t *testing.T) { golden.Check(t, name+".txt", table(t, c.rows, c.width)) })
	}
}

// TestColours: the best under each load is bold, and what is no measurement is red; a name has no colour of its own.
func TestColours(t *testing.T) {
	rows := reporttest.Matrix()
	rows[2].Summary, rows[2].Error = nil, "it stopped"
	rows[0].Deployment.Engine, rows[0].Axes = "sglang.\x1b[31mred", rows[0].Axes[1:]
	text := reporttest.Written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 120, Colour: true}) })
	reporttest.Holds(t, text, "\x1b[1m  92.2\x1b[0m", "\x1b[31mvoid", "\x1b[32mvalid")
	if strings.Contains(text, "\x1b[31mred") || strings.Contains(text, "\x1b[1m 0.175") {
		t.Errorf("a name brings its colour, or what is not best is bold:\n%q", text)
	}
}

func TestText(t *testing.T) {
	plain := reporttest.Matrix()[2].Summary
	troubled := reporttest.Matrix()[5].Summary
	goodput := 4.5
	troubled.Goodput = &goodput
	troubled.Failed, troubled.Completed = 5, 59
	troubled.Errors = map[string]int{load.ClassStall: 1, load.ClassStatus: 3, load.ClassConnect: 1}
	troubled.ErrorSamples = []string{"503: {\n  \"error\": \"busy\"\n}", "no byte for 5m0s"}
	troubled.OutputTokens -= 1000
	troubled.UsageMissing = 2
	troubled.ITL = load.Stats{}
	troubled.Queue, troubled.SendLag = reporttest.Stats(0.012), reporttest.Stats(0.0004)
	troubled.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "5 of 64 requests failed",
		"1,000 output tokens fewer than asked for")}
	for name, s := range map[string]*load.Summary{
		"bench": plain, "bench-troubled": troubled,
		"bench-empty": {Part: load.Part{Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Void,
			Reasons: load.Because("", "no request was sent")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, name+".txt", reporttest.Written(t, func(w io.Writer) error { return Summary(w, s, 0) }))
		})
	}
}

func TestJSON(t *testing.T) {
	rows := reporttest.Matrix()[:2]
	rows[0].Summary.OutputThroughput = 1e4 / 3
	rows[1].Summary, rows[1].Error = nil, "exited <1>"
	text := reporttest.Written(t, func(w io.Writer) error { return JSON(w, rows, figure.About{}) })
	golden.Check(t, "rows.json", text)

	var got struct {
		Rows []struct {
			results.Row
			Verdict load.Verdict
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		reporttest.Check(t, "row", rows[i], got.Rows[i].Row)
		reporttest.Check(t, "verdict", rows[i].Verdict(), got.Rows[i].Verdict)
	}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return JSON(w, nil, figure.About{}) }), `"rows": []`)
}

// A writer that fails must not look like success.
func TestWriteErrors(t *testing.T) {
	f, err := os.Open(os.DevNull) // for reading
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, err := range map[string]error{
		"table": Table(f, reporttest.Matrix(), Options{}),
		"none":  Table(f, nil, Options{}),
		"json":  JSON(f, reporttest.Matrix(), figure.About{}),
		"text":  Summary(f, reporttest.Matrix()[0].Summary, 0),
	} {
		if err == nil {
			t.Errorf("%s: no error from a file that cannot be written", name)
		}
	}
}

// TestNarrow: no line of a table is wider than it may be, however long names are.
func TestNarrow(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		if i%2 == 1 {
			rows[i].Deployment.Engine += "-" + strings.Repeat("long-", 14)
			rows[i].Axes[0].Value = rows[i].Deployment.Engine
		}
		rows[i].Benchmark = []string{"online-with-a-name-of-its-own", "offline"}[i%2]
		rows[i].Axes = append(rows[i].Axes, results.Axis{Name: "dataset", Value: "generated-shared-prefix"})
	}
	rows[0].Axes[len(rows[0].Axes)-1].Value = "random"
	for _, width := range []int{80, 100, 120} {
		reporttest.Holds(t, table(t, rows, width), "output") // there is a figure
	}
}

func table(t *testing.T, rows []results.Row, width int) string {
	t.Helper()
	text := reporttest.Written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: width}) })
	for line := range reporttest.Trimmed(t, text) {
		if n := utf8.RuneCountInString(line); width >= 80 && n > width {
			t.Errorf("%d wide: %q", n, line)
		}
	}
	return text
}

// TestWorkloads: each workload has a table, under what its rows have in common; in it the load grows, series by
// series, whatever the order of rows, and long times are in seconds.
func TestWorkloads(t *testing.T) {
	var rows []results.Row
	for _, data := range []string{"random", "shared"} {
		for _, concurrency := range []int64{128, 16, 4} {
			for _, engine := range []string{"vllm.h200", "sglang.h200"} {
				r := reporttest.Row(engine, concurrency, 100+float64(concurrency), 20)
				r.ID = data + r.ID
				r.Axes = append(r.Axes, results.Axis{Name: "dataset", Value: data})
				rows = append(rows, r)
			}
		}
	}
	rows[0].Summary.TTFT.Median = 82_846
	golden.Check(t, "workloads.txt", table(t, rows, 100))
}
