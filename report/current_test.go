package report

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
)

func TestOfPlan(t *testing.T) {
	at := func(id, benchmark, engine, command string) results.Row {
		r := row(engine, 4, 100, 20)
		r.ID, r.Benchmark, r.Run.Command = id, benchmark, command
		return r
	}
	rows := []results.Row{at("1", "old", "vllm.a", "apply"), at("2", "old", "vllm.b", "apply"),
		at("3", "old", "vllm.c", "apply"), at("4", "theirs", "sglang.x", "import")}
	planned := []Planned{
		{ID: "2", Group: "g2", Benchmark: "new", Engine: "vllm.bb", Host: "box",
			Axes: results.Axes{{Name: "concurrency", Value: int64(4)}}, Repetition: 1},
		{ID: "1", Group: "g1", Benchmark: "new", Engine: "vllm.a", Repetition: 2},
		{ID: "1", Group: "g1", Benchmark: "again", Engine: "vllm.a", Repetition: 1}, // the same thing under two names
		{ID: "9", Group: "g9", Benchmark: "new", Engine: "vllm.a", Repetition: 1},
	}
	current, others := OfPlan(rows, planned)
	type line struct {
		ID, Benchmark, Engine, Group string
		Repetition                   int
		Stale                        bool
	}
	lines := func(rows []results.Row) (out []line) {
		for _, r := range rows {
			out = append(out, line{r.ID, r.Benchmark, r.Deployment.Engine, r.Group, r.Repetition, r.Stale})
		}
		return out
	}
	check(t, "current", []line{{"2", "new", "vllm.bb", "g2", 1, false}, {"1", "new", "vllm.a", "g1", 2, false},
		{"1", "again", "vllm.a", "g1", 1, false}, {"4", "theirs", "sglang.x", "", 1, false}}, lines(current))
	check(t, "others", []line{{"3", "old", "vllm.c", "", 1, true}}, lines(others))
	if got := Repetitions(current); len(got) > 0 {
		t.Errorf("one measurement under two names is taken for repetitions: %v", got)
	}
	if got := lines(Unmeasured(current, planned)); len(got) != 1 || got[0].ID != "9" {
		t.Errorf("not measured: %v", got)
	}
	if rows[2].Stale || rows[0].Benchmark != "old" {
		t.Error("the caller's rows are changed")
	}
}

// TestGroups: nothing that is known to differ is taken for a repetition.
func TestGroups(t *testing.T) {
	for name, change := range map[string]func(r *results.Row){
		"a flag":   func(r *results.Row) { r.Deployment.Identity = map[string]string{"--tp": "4"} },
		"the load": func(r *results.Row) { r.Job.Workload.Requests = 7 },
		"an axis": func(r *results.Row) {
			r.Axes = append(r.Axes[:1:1], results.Axis{Name: "concurrency", Value: int64(5)})
		},
		"the GPUs":   func(r *results.Row) { r.Deployment.GPUs = "8xB200" },
		"the model":  func(r *results.Row) { r.Deployment.Model = "m" },
		"its pairs":  func(r *results.Row) { r.Identity = map[string]string{"framework": "sgl"} },
		"a command":  func(r *results.Row) { r.Deployment.Command = []string{"x"} },
		"the engine": func(r *results.Row) { r.Deployment.ID, r.DeploymentID = "d2", "d2" },
	} {
		a, b := row("vllm.a", 4, 100, 20), row("vllm.a", 4, 100, 20)
		b.Repetition = 2
		b.Identity = map[string]string{"repetition": "2"}
		if got := Repetitions([]results.Row{a, b}); len(got) != 1 {
			t.Fatalf("%d cells, want one with two repetitions", len(got))
		}
		change(&b)
		if got := Repetitions([]results.Row{a, b}); len(got) != 0 {
			t.Errorf("%s differs, and the two are taken for repetitions", name)
		}
	}
}

// TestJudge: goodput and the lines of an SLO are those of the lab of today.
func TestJudge(t *testing.T) {
	line := func(metric string, percentile float64, bound time.Duration) load.Objective {
		return load.Objective{Metric: metric, Percentile: percentile, Max: load.Duration(bound)}
	}
	r := row("vllm.a", 4, 100, 20)
	r.ID = "1"
	other := row("vllm.a", 16, 100, 20)
	other.ID = "2"
	r.Job.Workload.SLO = []load.Objective{line("ttft", 0, time.Hour)}
	old := 99.0
	r.Summary.Goodput = &old
	records := []load.Record{{First: 5e6, Last: 2e9, End: 2e9, OutputTokens: 2}, {First: 300e6, Last: 2e9, End: 2e9, OutputTokens: 2}}
	slo := []load.Objective{line("ttft", 99, 200*time.Millisecond), line("e2el", 99, time.Millisecond)}
	rows := []results.Row{r, other}
	Judge(rows, []Planned{{ID: "1", SLO: slo}, {ID: "2"}}, func(*results.Row) ([]load.Record, error) { return records, nil })
	if g := rows[0].Summary.Goodput; g == nil || *g == old {
		t.Errorf("goodput is still %v", g)
	}
	if *r.Summary.Goodput != old || len(r.Summary.Objectives) > 0 {
		t.Error("the caller's summary is changed")
	}
	for condition, want := range map[string]int{`slo = "missed"`: 1, `slo = "met"`: 0, `slo_ttft_p99 = "met"`: 1,
		`slo_e2el_p99 = "missed"`: 1, `slo_e2el_p99 = "met"`: 0} {
		if got, err := Where(rows, condition); err != nil || len(got) != want {
			t.Errorf("%s: %d rows, %v; want %d", condition, len(got), err, want)
		}
	}
	holds(t, written(t, func(w io.Writer) error { return Table(w, rows, Options{Width: 120}) }), "missed e2el_p99")
	holds(t, written(t, func(w io.Writer) error { return HTML(w, rows, About{}) }), "missed e2el_p99")
	holds(t, written(t, func(w io.Writer) error { return CSV(w, rows) }), ",missed,")
	holds(t, written(t, func(w io.Writer) error { return JSON(w, rows, About{}) }), `"met": true`)
}

func TestRepetitions(t *testing.T) {
	row := func(engine string, concurrency int64, repetition int, throughput float64, verdict string) results.Row {
		hits := throughput / 1000
		r := results.Row{Cell: results.Cell{
			Benchmark: "b", Axes: results.Axes{{Name: "concurrency", Value: concurrency}}, Repetition: repetition,
			Summary: &load.Summary{Part: load.Part{Figures: load.Figures{Completed: 1, OutputThroughput: throughput},
				Judgement: load.Judgement{Verdict: load.Verdict{Verdict: verdict}}}},
			Telemetry: &telemetry.Record{PrefixHitRate: &hits},
		}}
		r.Deployment.Engine = engine
		return r
	}
	rows := []results.Row{
		row("a", 1, 1, 100, load.Valid), row("a", 2, 1, 300, load.Valid),
		row("a", 1, 2, 120, load.Suspect), row("a", 2, 2, 500, load.Void), // one is left of the second cell
		row("b", 1, 1, 10, load.Valid), row("a", 1, 3, 104, load.Valid), row("b", 1, 2, 20, load.Valid),
	}
	got := Repetitions(rows)
	type short struct {
		Engine           string
		Repetitions      int
		Throughput, Hits Spread
	}
	var is []short
	for _, r := range got {
		is = append(is, short{r.Engine, r.Repetitions, r.Figures["output_throughput"], r.Figures["prefix_cache_hit_rate"]})
	}
	want := []short{
		{"a", 3, Spread{2, 102, 100, 104}, Spread{2, 10.2, 10, 10.4}}, // without the suspect one
		{"b", 2, Spread{2, 15, 10, 20}, Spread{2, 1.5, 1, 2}},
	}
	check(t, "Repetitions", want, is)

	holds(t, strings.Join(spreadLines(got, 0), "\n"), "2 of 3") // one is left out

	text := written(t, func(w io.Writer) error { return JSON(w, rows, About{}) })
	var doc struct {
		Repeated []struct {
			Repetitions int
			Figures     map[string]Spread
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Repeated) != 2 ||
		doc.Repeated[0].Figures["output_throughput"] != want[0].Throughput {
		t.Errorf("JSON: %v %+v", err, doc)
	}
}
