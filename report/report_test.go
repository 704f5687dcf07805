package report

import (
	"encoding/json"
	"io"
	"iter"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/testhost/golden"
)

var start = time.Date(2026, 11, 21, 14, 25, 1, 0, time.UTC)

// stats spread around a mean as latencies do.
func stats(mean float64) load.Stats {
	return load.Stats{Count: 512, Mean: mean, Median: mean * 0.97, Std: mean * 0.12, Min: mean * 0.8, Max: mean * 1.9,
		Percentiles: map[string]float64{"50": mean * 0.97, "90": mean * 1.1, "95": mean * 1.25, "99": mean * 1.7}}
}

// kindIn is the kind in an engine's name: "vllm" of "vllm.h200".
func kindIn(engine string) string { kind, _, _ := strings.Cut(engine, "."); return kind }

// row is a cell of an engine at a concurrency, as busy as such a cell may be.
func row(engine string, concurrency int64, ttft, itl float64) results.Row {
	const tokens = 128
	seconds := (ttft + tokens*itl) / 1000
	throughput := float64(concurrency) / seconds
	return results.Row{
		Cell: results.Cell{
			ID: engine + "-" + time.Duration(concurrency).String(), RunID: "20261121-142501-k3f9", Benchmark: "online",
			Axes: results.Axes{{Name: "engine", Value: engine}, {Name: "concurrency", Value: concurrency},
				{Name: "output_tokens", Value: int64(tokens)}},
			Repetition: 1, Started: start, Finished: start.Add(time.Minute),
			Summary: &load.Summary{
				Part: load.Part{Figures: load.Figures{
					Started: start, Duration: 64 / throughput, Requests: 64, Completed: 64,
					InputTokens: 64 * 1024, AskedInput: 64 * 1024, OutputTokens: 64 * tokens, AskedOutput: 64 * tokens,
					RequestThroughput: throughput, OutputThroughput: throughput * tokens,
					InputThroughput: throughput * 1024, TotalThroughput: throughput * (tokens + 1024),
					TTFT: stats(ttft), TPOT: stats(itl), ITL: stats(itl), E2EL: stats(seconds * 1000),
					MeanConcurrency: float64(concurrency) * 0.98, PeakConcurrency: int(concurrency), PeakOutputThroughput: throughput * tokens * 1.1,
				}, Generator: load.Generator{CPUShare: 0.0312}, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Valid}}},
			},
		},
		Deployment: results.Deployment{Engine: engine, Kind: kindIn(engine), Host: "h200", GPUs: "8xH200", Model: "deepseek-ai/DeepSeek-R1"},
		Run:        results.Run{ID: "20261121-142501-k3f9", Lab: "deepseek-r1", Command: "apply", Started: start},
	}
}

func matrix() []results.Row {
	return []results.Row{
		row("sglang.h200", 4, 180.4, 21.31), row("sglang.h200", 16, 310, 24.9), row("sglang.h200", 128, 1432, 61.2),
		row("vllm.h200", 4, 95.06, 19.8), row("vllm.h200", 16, 240, 27.33), row("vllm.h200", 128, 12_345, 99.7),
	}
}

// quickstart is what the first command that a user runs prints.
func quickstart() []results.Row {
	var rows []results.Row
	for _, e := range []string{"sim.vllm", "sim.sglang"} {
		for _, c := range []int64{1, 4, 16} {
			r := row(e, c, 20, 5)
			r.Run.Lab, r.Run.Command = "quickstart", "rehearse"
			r.Deployment = results.Deployment{Engine: e, Kind: "sim", Host: "local", Model: "sim/small"}
			rows = append(rows, r)
		}
	}
	return rows
}

func table(t *testing.T, rows []results.Row, width int) string {
	t.Helper()
	text := written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: width}) })
	for line := range trimmed(t, text) {
		if n := utf8.RuneCountInString(line); width >= 80 && n > width {
			t.Errorf("%d wide: %q", n, line)
		}
	}
	return text
}

// written is what is written into a file.
func written(t *testing.T, write func(w io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// trimmed are the lines of a text, none of which may end in blanks.
func trimmed(t *testing.T, text string) iter.Seq[string] {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimRight(line, " ") != line {
			t.Errorf("blanks at the end of %q", line)
		}
	}
	return strings.SplitSeq(text, "\n")
}

// check says what differs.
func check(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// holds says which of the texts are not in one.
func holds(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTable(t *testing.T) {
	const stopped = "the server stopped answering: 503 Service Unavailable"
	doubtful := func() []results.Row {
		rows := matrix()
		rows[1].Summary.Verdict = load.Verdict{Verdict: load.Suspect,
			Reasons: load.Because("3 of 64 requests failed", "the generator used 97 % of a core")}
		rows[1].Summary.Completed, rows[1].Summary.Failed = 61, 3
		rows[2].Summary, rows[2].Error = nil, stopped
		rows[4].Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("all requests failed")}
		rows[4].Summary.Completed, rows[4].Summary.Failed = 0, 64
		rows[5].Summary, rows[5].Error = nil, stopped
		return rows
	}
	goodput := func() []results.Row {
		rows := matrix()
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
		rows := append(quickstart()[:2], matrix()[:2]...)
		published := row("vllm.h200", 4, 100, 20)
		published.Run.Command, published.RunID = "import", "20260301-000000-dstk"
		published.Axes = published.Axes[1:]
		return append(rows, published)
	}
	repeated := func() []results.Row {
		rows := matrix()[:2]
		rows[1].Cell = rows[0].Cell
		rows[1].Repetition = 2
		again := row("sglang.h200", 4, 181, 21)
		again.RunID = "20261122-090000-aaaa"
		return append(rows, again)
	}
	twoBenchmarks := func() []results.Row {
		rows := matrix()[:3]
		rows[2].Benchmark = "long"
		rows[2].Axes = results.Axes{{Name: "rate", Value: 2.5}, {Name: "engine", Value: "sglang.h200"},
			{Name: "chunked", Value: true}, {Name: "attention", Value: "flash"}}
		return rows
	}
	for name, c := range map[string]struct {
		rows  []results.Row
		width int
	}{
		"quickstart":     {quickstart(), 110},
		"quickstart-80":  {quickstart(), 80},
		"matrix":         {matrix(), 0},
		"matrix-100":     {matrix(), 100},
		"matrix-40":      {matrix(), 40},
		"doubtful":       {doubtful(), 110},
		"goodput":        {goodput(), 120},
		"mixed":          {mixed(), 120},
		"repeated":       {repeated(), 120},
		"two-benchmarks": {twoBenchmarks(), 120},
		"one":            {matrix()[:1], 100},
		"none":           {nil, 100},
	} {
		t.Run(name, func(t *testing.T) { golden.Check(t, name+".txt", table(t, c.rows, c.width)) })
	}
}

// TestDoubts: reasons that differ in their numbers alone are one, with their range.
func TestDoubts(t *testing.T) {
	rows := matrix()
	for i, late := range []string{"8.5", "1,200", "9"} {
		rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect,
			Reasons: load.Because("what had come was read up to " + late + " ms late, p99 of 5")}
	}
	rows[4].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("a neighbour")}
	all := newDoubts(rows)
	check(t, "texts", []string{"suspect: what had come was read up to 8.5–1,200 ms late, p99 of 5", "suspect: a neighbour"}, all.texts())
	var numbers []int
	for i := range rows {
		numbers = append(numbers, all.number(&rows[i]))
	}
	check(t, "numbers", []int{1, 1, 1, 0, 2, 0}, numbers)
}

// TestColours: the best under each load is bold, and what is no measurement is red; a name has no colour of its own.
func TestColours(t *testing.T) {
	rows := matrix()
	rows[2].Summary, rows[2].Error = nil, "it stopped"
	rows[0].Deployment.Engine, rows[0].Axes = "sglang.\x1b[31mred", rows[0].Axes[1:]
	text := written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 120, Colour: true}) })
	holds(t, text, "\x1b[1m  92.2\x1b[0m", "\x1b[31mvoid", "\x1b[32mvalid")
	if strings.Contains(text, "\x1b[31mred") || strings.Contains(text, "\x1b[1m     175") {
		t.Errorf("a name brings its colour, or what is not best is bold:\n%q", text)
	}
}

func TestText(t *testing.T) {
	plain := matrix()[2].Summary
	troubled := matrix()[5].Summary
	goodput := 4.5
	troubled.Goodput = &goodput
	troubled.Failed, troubled.Completed = 5, 59
	troubled.Errors = map[string]int{load.ClassStall: 1, load.ClassStatus: 3, load.ClassConnect: 1}
	troubled.ErrorSamples = []string{"503: {\n  \"error\": \"busy\"\n}", "no byte for 5m0s"}
	troubled.OutputTokens -= 1000
	troubled.UsageMissing = 2
	troubled.ITL = load.Stats{}
	troubled.Queue, troubled.SendLag = stats(0.012), stats(0.0004)
	troubled.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("5 of 64 requests failed",
		"1,000 output tokens fewer than asked for")}
	for name, s := range map[string]*load.Summary{
		"bench": plain, "bench-troubled": troubled,
		"bench-empty": {Part: load.Part{Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Void,
			Reasons: load.Because("no request was sent")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, name+".txt", written(t, func(w io.Writer) error { return Text(w, s) }))
		})
	}
}

func TestJSON(t *testing.T) {
	rows := matrix()[:2]
	rows[0].Summary.OutputThroughput = 1e4 / 3
	rows[1].Summary, rows[1].Error = nil, "exited <1>"
	text := written(t, func(w io.Writer) error { return JSON(w, rows, About{}) })
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
		check(t, "row", rows[i], got.Rows[i].Row)
		check(t, "verdict", rows[i].Verdict(), got.Rows[i].Verdict)
	}
	holds(t, written(t, func(w io.Writer) error { return JSON(w, nil, About{}) }), `"rows": []`)
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1.00", 9.994: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 999.6: "1,000",
		1234: "1,234", 123456: "123,456", 1234567.89: "1,234,568", 0.1234: "0.123", 0.01234: "0.0123",
		0.001: "0.00100", 0.00001: "<0.001", -1234.5: "-1,234", -0.5: "-0.500",
		math.Inf(1): "-", math.NaN(): "-",
	} {
		if got := number.Text(v); got != want {
			t.Errorf("number.Text(%v) = %q, want %q", v, got, want)
		}
	}
}

// A writer that fails must not look like success.
func TestWriteErrors(t *testing.T) {
	f, err := os.Open(os.DevNull) // for reading
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, err := range map[string]error{
		"table": Table(f, matrix(), Options{}),
		"none":  Table(f, nil, Options{}),
		"json":  JSON(f, matrix(), About{}),
		"text":  Text(f, matrix()[0].Summary),
	} {
		if err == nil {
			t.Errorf("%s: no error from a file that cannot be written", name)
		}
	}
}

// TestNarrow: no line of a table is wider than it may be, however long names are.
func TestNarrow(t *testing.T) {
	rows := matrix()
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
		holds(t, table(t, rows, width), "output") // there is a figure
	}
}
