package compare

import (
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestGate: no way in which B is worse, void, missing, failed or of another thing lets a gate pass.
func TestGate(t *testing.T) {
	cells := func(changed func(rows []results.Row) []results.Row) []results.Row {
		rows := []results.Row{reporttest.Row("vllm.h200", 4, 100, 20), reporttest.Row("vllm.h200", 16, 120, 22)}
		for i := range rows {
			rows[i].Job.Workload = load.Workload{Requests: 64, Concurrency: 4 + 12*i, OutputTokens: 128,
				Dataset: load.Dataset{Kind: load.Random, InputTokens: 1024}}
			rows[i].Deployment.Facts = json.RawMessage(`{"gpus":[{"name":"NVIDIA H200"}]}`)
			rows[i].Summary.Goodput = new(3.0)
		}
		if changed != nil {
			return changed(rows)
		}
		return rows
	}
	second := func(change func(r *results.Row)) func([]results.Row) []results.Row {
		return func(rows []results.Row) []results.Row {
			change(&rows[1])
			return rows
		}
	}
	more := func(change func(r *results.Row)) func([]results.Row) []results.Row { // with a second repetition
		return func(rows []results.Row) []results.Row {
			r := rows[1]
			r.Repetition = 2
			change(&r)
			return append(rows, r)
		}
	}
	one := func(rows []results.Row) []results.Row { return rows[:1] }
	none := func([]results.Row) []results.Row { return nil }
	const lost, late = "output_throughput < -5%", "p99_ttft_ms > 10%"
	verdict := func(v string) func([]results.Row) []results.Row {
		return second(func(r *results.Row) {
			r.Summary.Verdict = load.Verdict{Verdict: v, Reasons: load.Because("", "because")}
		})
	}
	for _, c := range []struct {
		name, limit string
		b           func(rows []results.Row) []results.Row
		a           func(rows []results.Row) []results.Row
		why         string
	}{
		{"slower", lost, second(func(r *results.Row) { r.Summary.OutputThroughput *= 0.9 }), nil, "changed by −10 %"},
		{"a little slower than allowed", lost, second(func(r *results.Row) { r.Summary.OutputThroughput *= 0.9496 }), nil, "changed by −5.04 %"},
		{"later", late, second(func(r *results.Row) { r.Summary.TTFT.Percentiles["99"] *= 2 }), nil, "changed by +100 %"},
		{"void", lost, second(func(r *results.Row) { r.Summary, r.Error = nil, "out of memory" }), nil, "it is void in B: out of memory"},
		{"void by its verdict", lost, verdict(load.Void), nil, "it is void in B: because"},
		{"a verdict that nobody knows", lost, verdict("splendid"), nil, "it is void in B: because"},
		{"no verdict", lost, verdict(""), nil, "it is void in B: because"},
		{"one repetition void", lost, more(func(r *results.Row) { r.Summary, r.Error = nil, "crashed" }), nil, "it is void in B: crashed"},
		{"suspect", lost, verdict(load.Suspect), nil, "it is suspect in B: because"},
		{"suspect in A", lost, nil, verdict(load.Suspect), "it is suspect in A: because"},
		{"void in A", lost, nil, verdict(load.Void), "it is void in A: because"},
		{"missing", lost, one, nil, "it is missing in B"},
		{"all missing", lost, none, nil, "it is missing in B"},
		{"nothing in A", lost, nil, none, "none could be held against it"},
		{"stale", lost, second(func(r *results.Row) { r.Stale = true }), nil, "it is missing in B"},
		{"planned and not measured", lost, func(rows []results.Row) []results.Row {
			return append(rows[:1], figure.Unmeasured(rows[:1], []figure.Planned{{ID: "x", Benchmark: "online", Engine: "vllm.h200", Axes: rows[1].Axes}})...)
		}, nil, "it is void in B: not measured"},
		{"requests fail", lost, second(func(r *results.Row) { r.Summary.Failed = 3 }), nil, "3 requests failed in B, none in A"},
		{"requests fail, by a limit", "failed > 10%", second(func(r *results.Row) { r.Summary.Failed = 50 }), nil,
			"50 requests failed in B, none in A"},
		{"without its metric", late, second(func(r *results.Row) { r.Summary.TTFT.Percentiles = nil }), nil, "B does not have it"},
		{"its metric is new", late, nil, second(func(r *results.Row) { r.Summary.TTFT.Percentiles = nil }), "A does not have it"},
		{"nobody has the metric", "usd_per_million_output_tokens > 5%", nil, nil, "none could be held against it"},
		{"throughput of nothing", lost, second(func(r *results.Row) { r.Summary.OutputThroughput = 0 }), nil, "B does not have it"},
		{"throughput that is no number", lost, second(func(r *results.Row) { r.Summary.OutputThroughput = math.NaN() }),
			nil, "B does not have it"},
		{"from zero", "goodput > 5%", nil, second(func(r *results.Row) { *r.Summary.Goodput = 0 }), "changed from 0 req/s to 3.00 req/s"},
		{"to zero", "goodput < -5%", second(func(r *results.Row) { *r.Summary.Goodput = 0 }), nil, "changed by −100 %"},
		{"other GPUs", lost, second(func(r *results.Row) { r.Deployment.GPUs = "8xH100" }), nil, "another gpus, 8 of 8xH100 was 8 of 8xH200"},
		{"fewer GPUs", lost, second(func(r *results.Row) { r.Deployment.GPUCount = 4 }), nil, "another gpus, 4 of 8xH200 was 8 of 8xH200"},
		{"other GPUs behind the same words", lost,
			second(func(r *results.Row) { r.Deployment.Facts = json.RawMessage(`{"gpus":[{"name":"NVIDIA H100"}]}`) }), nil,
			"another gpus, 1 × NVIDIA H100 was 1 × NVIDIA H200"},
		{"another model", lost, second(func(r *results.Row) { r.Deployment.Model = "small" }), nil,
			"another model, small was deepseek-ai/DeepSeek-R1"},
		{"another load", lost, second(func(r *results.Row) { r.Job.Workload.Dataset.InputTokens = 16 }), nil,
			"another load, dataset.input_tokens 16 was 1024"},
		{"a rehearsal", lost, second(func(r *results.Row) { r.Run.Command = "rehearse" }), nil, "another kind of run, rehearsal was measured"},
		{"two things of one name", lost, more(func(r *results.Row) {
			r.Repetition, r.Deployment.ID, r.DeploymentID = 1, "other", "other"
		}), nil, "two different things are called so in B"},
		{"too late", "p99_ttft_ms > 150", nil, nil, "p99_ttft_ms is 204"},
		{"without the value", "p99_ttft_ms > 500", second(func(r *results.Row) { r.Summary.TTFT.Percentiles = nil }), nil,
			"B does not have p99_ttft_ms"},
		{"a value that nobody has", "p99.9_ttft_ms > 500", nil, nil, "none could be held against it"},
		{"void, and a value", "p99_ttft_ms > 500", second(func(r *results.Row) { r.Summary = nil }), nil, "it is void in B: not measured"},
		{"missing, and a value", "p99_ttft_ms > 500", one, nil, "it is missing in B"},
		{"any failure", "failed > 0", func(rows []results.Row) []results.Row { rows[0].Summary.Failed = 1; return rows }, nil, "failed is 1"},
		{"new, and failing", "failed > 0", second(func(r *results.Row) { r.Summary.Failed = 1 }),
			one, "failed is 1"},
		{"a second repetition on other GPUs", lost, more(func(r *results.Row) {
			r.Deployment.Facts = json.RawMessage(`{"gpus":[{"name":"NVIDIA H100"}]}`)
		}), nil, "another gpus, 1 × NVIDIA H100 was 1 × NVIDIA H200"},
		{"a rehearsal, and a value", "p99_ttft_ms > 500", second(func(r *results.Row) { r.Run.Command = "rehearse" }), nil,
			"another kind of run"},
		{"another model, and a value", "p99_ttft_ms > 500", second(func(r *results.Row) { r.Deployment.Model = "small" }), nil, "another model"},
		{"requests fail, and a value", "p99_ttft_ms > 500", second(func(r *results.Row) { r.Summary.Failed = 3 }), nil,
			"3 requests failed in B, none in A"},
		{"no valid one", "verdict != valid", verdict(load.Imported), nil, "verdict is imported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failing := gated(t, cells(c.a), cells(c.b), c.limit)
			if len(failing) == 0 {
				t.Fatal("the gate passes")
			}
			if why := failing[len(failing)-1].Why; !strings.Contains(why, c.why) {
				t.Errorf("why = %q, want %q", why, c.why)
			}
		})
	}

	for _, c := range []struct {
		name, limit string
		a, b        func(rows []results.Row) []results.Row
		allowed     []string
	}{
		{"the same", lost, nil, nil, nil},
		{"the same value", "p99_ttft_ms > 500 or failed > 0", nil, nil, nil},
		{"renamed, and the axes in another order", lost, nil, func(rows []results.Row) []results.Row {
			rows[1].Axes = results.Axes{rows[1].Axes[2], rows[1].Axes[0], rows[1].Axes[1]}
			rows[0].Benchmark = "serving"
			return rows
		}, nil},
		{"faster, and a new cell", lost, one,
			func(rows []results.Row) []results.Row { rows[0].Summary.OutputThroughput *= 2; return rows }, nil},
		{"other GPUs on purpose", lost, nil,
			func(rows []results.Row) []results.Row { rows[0].Deployment.GPUs = "8xB200"; return rows }, []string{"gpus"}},
		{"suspect, and allowed", lost, nil, verdict(load.Suspect), []string{Suspects}},
		{"one of two repetitions suspect", lost, nil, more(func(r *results.Row) {
			s := *r.Summary
			s.OutputThroughput, s.Verdict = 1, load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "hot")}
			r.Summary = &s
		}), nil},
		{"a repetition without an engine, before", lost, func(rows []results.Row) []results.Row {
			rows[1].Group = "g"
			r := rows[1]
			r.Repetition, r.Summary, r.Error, r.Deployment = 2, nil, "not measured", results.Deployment{Engine: r.Deployment.Engine}
			return []results.Row{rows[0], r, rows[1]}
		}, nil, nil},
		{"fewer failures than are allowed", "failed > 5", nil, second(func(r *results.Row) { r.Summary.Failed = 3 }), nil},
		{"failures that A did not count", lost,
			func(rows []results.Row) []results.Row { rows[1].Summary.Unknown = []string{"failed"}; return rows },
			second(func(r *results.Row) { r.Summary.Failed = 3 }), nil},
		{"a value of other cells", "engine = 'sglang' and p99_ttft_ms > 500", nil,
			second(func(r *results.Row) { r.Summary.TTFT.Percentiles = nil }), nil},
		{"another SLO", lost, nil, func(rows []results.Row) []results.Row {
			rows[0].Job.Workload.SLO = []load.Objective{{Metric: "ttft", Max: 1}}
			return rows
		}, nil},
	} {
		if failing := gated(t, cells(c.a), cells(c.b), c.limit, c.allowed...); len(failing) > 0 {
			t.Errorf("%s: %v", c.name, failing)
		}
	}
}

// TestGateTells: what is beyond a limit never passes, however many repetitions there are, and is unknown where
// they do not tell it from chance; nothing is a pass that nobody can tell.
func TestGateTells(t *testing.T) {
	const lost = "output_throughput < -5%"
	a := reporttest.Repeated("vllm.h200", 4, 100, 101, 102, 103)
	few := func(rows []results.Row) []results.Row {
		rows[0].Summary.TTFT.Count = 100
		return rows
	}
	strict, loose := reporttest.Repeated("vllm.h200", 4, 100), reporttest.Repeated("vllm.h200", 4, 100)
	for i, rows := range [][]results.Row{strict, loose} {
		rows[0].Summary.Goodput = new(3.0)
		rows[0].Job.Workload.SLO = []load.Objective{{Metric: "ttft", Max: load.Duration(1 + i)}}
	}
	suspect := reporttest.Repeated("vllm.h200", 8, 100)
	suspect[0].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "hot")}
	for _, c := range []struct {
		name, limit string
		a, b        []results.Row
		want        Result
		why         string
	}{
		{"one of four is as before", lost, a, reporttest.Repeated("vllm.h200", 4, 70, 71, 72, 101.5), Unknown, "4+4 repetitions do not tell"},
		{"another one of four", lost, a, reporttest.Repeated("vllm.h200", 4, 70, 71, 72, 100.5), Unknown, "changed by −30 %"},
		{"of three", lost, a[:3], reporttest.Repeated("vllm.h200", 4, 70, 71, 101.5), Fail, "changed by −30 %"},
		{"all of four", lost, a, reporttest.Repeated("vllm.h200", 4, 70, 71, 72, 73), Fail, "changed by"},
		{"no improvement where one is asked for", "output_throughput < 5%", a, a, Unknown, "do not tell"},
		{"within", lost, a, reporttest.Repeated("vllm.h200", 4, 99, 100, 101, 104), Pass, ""},
		{"a percentile that is not carried", "p99_ttft_ms > 10%", reporttest.Repeated("vllm.h200", 4, 100), few(reporttest.Repeated("vllm.h200", 4, 100)),
			Unknown, "368 requests that it needs"},
		{"another SLO", "goodput < -5%", strict, loose, Unknown, "judged by"},
		{"imports beside", lost, reporttest.Repeated("vllm.h200", 4, 100), append(reporttest.Imported(reporttest.Repeated("vllm.h200", 16, 1), 1), reporttest.Repeated("vllm.h200", 4, 100)...),
			Pass, ""},
		{"new and suspect", lost, reporttest.Repeated("vllm.h200", 4, 100), append(suspect, reporttest.Repeated("vllm.h200", 4, 100)...), Skipped, "only in B"},
	} {
		limit, err := ParseLimit(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Diff("a", c.a, "b", c.b, []string{limit.Metric})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check([]GateLimit{limit}, nil); err != nil {
			t.Fatal(err)
		}
		last := d.Checks[len(d.Checks)-1]
		if last.Result != c.want || !strings.Contains(last.Why, c.why) {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, last.Result, last.Why, c.want, c.why)
		}
	}
}

// TestFindingsByChance: nobody takes the differences of many cells that chance makes for findings, and one
// repetition of each tells nothing.
func TestFindingsByChance(t *testing.T) {
	if got := figure.FalseAlarms(4, 4); math.Abs(got-2./70) > 1e-9 {
		t.Errorf("of four and four the test errs in %v, want 2 of 70", got)
	}
	if got := figure.FalseAlarms(3, 3); got != 0 {
		t.Errorf("of three and three the test errs in %v, and can find nothing", got)
	}
	var a, b []results.Row
	for i := range int64(60) {
		a = append(a, reporttest.Repeated("vllm.h200", i+1, 100, 101, 102, 103)...)
		last := 103.5
		if i == 0 {
			last = 99.5
		}
		b = append(b, reporttest.Repeated("vllm.h200", i+1, 99.1+last-99.5, 99.2, 99.3, 99.4+last-99.5)...)
	}
	d, err := Diff("a", a, "b", b, []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	_, names := d.Names()
	var cells []int
	for i := range d.Cells {
		cells = append(cells, i)
	}
	first, _ := d.Finding(cells, names)
	reporttest.Holds(t, first, "worse in 1, level in 59 of 60 cells (1.7 would be by chance)")
	one, err := Diff("a", a[:1], "b", b[:1], []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	if got := one.Cells[0].Figures[0].Verdict; got != "level" {
		t.Errorf("a change below a hundredth is %q", got)
	}
	if one, err = Diff("a", a[:1], "b", reporttest.Repeated("vllm.h200", 1, 50), []string{"output_throughput"}); err != nil || one.Cells[0].Figures[0].Verdict != "unknown" {
		t.Errorf("a change of single runs is %+v, %v", one.Cells, err)
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "is not a limit",
		"output_throughput":            "is not a limit",
		"output_throughput < -5":       "write -5%",
		"< 5%":                         "is not a limit",
		"output_throughput < much%":    "no number of percent",
		"output_throughput < NaN%":     "no number of percent",
		"output_throughput > +Inf%":    "no number of percent",
		"speed < -5%":                  `no metric "speed"`,
		"failed > 0 and goodput < -5%": "stands alone",
		"output_throughput < -100%":    "falls by more than 100",
		"p99_ttft_ms > 5s":             "5s is none",
		"p99_ttft_ms > 'late'":         "is none",
	} {
		if _, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseLimit(%q) = %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"p99_ttft_ms > 500", "verdict != valid", "failed > 0 and engine = 'vllm'", " output_throughput<-5 %"} {
		if _, err := ParseLimit(text); err != nil {
			t.Errorf("ParseLimit(%q) = %v", text, err)
		}
	}
	d := &Difference{fields: figure.NewFields(nil)}
	if err := d.Check([]GateLimit{{Text: "colour = red"}}, nil); err == nil {
		t.Error("a condition on a column that there is not is no error")
	}
}

func TestPercent(t *testing.T) {
	var got []string
	for _, v := range []Percent{-0.04, 0.04, 0.06, -12.34, 99.9, 250, 68127, -95, Percent(math.Inf(1))} {
		got = append(got, v.String())
	}
	if diff := cmp.Diff([]string{"±0 %", "±0 %", "+0.1 %", "−12 %", "+100 %", "×3.50", "×682", "÷20.0", "from 0"}, got); diff != "" {
		t.Error(diff)
	}
}

// gated is what a gate says of two sets of results: the results of its checks, and
// why those fail that do.
func gated(t *testing.T, a, b []results.Row, limit string, allowed ...string) (failing []Check) {
	t.Helper()
	l, err := ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	var metrics []string
	if l.Metric != "" {
		metrics = []string{l.Metric}
	}
	d, err := Diff("a", a, "b", b, metrics)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check([]GateLimit{l}, allowed); err != nil {
		t.Fatal(err)
	}
	if text := reporttest.Written(t, func(w io.Writer) error { return d.Write(w, "json", 0) }); !json.Valid([]byte(text)) {
		t.Fatalf("this is no JSON: %s", text)
	}
	failing = d.Failing()
	junit := reporttest.Written(t, d.JUnit)
	if n := strings.Count(junit, "<failure "); n != len(failing) {
		t.Errorf("JUnit has %d failures, the gate %d:\n%s", n, len(failing), junit)
	}
	return failing
}
