package figure

import (
	"testing"

	"hclbench/report/reporttest"
	"hclbench/results"
)

func TestOfPlan(t *testing.T) {
	at := func(id, benchmark, engine, command string) results.Row {
		r := reporttest.Row(engine, 4, 100, 20)
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
	reporttest.Check(t, "current", []line{{"2", "new", "vllm.bb", "g2", 1, false}, {"1", "new", "vllm.a", "g1", 2, false},
		{"1", "again", "vllm.a", "g1", 1, false}, {"4", "theirs", "sglang.x", "", 1, false}}, lines(current))
	reporttest.Check(t, "others", []line{{"3", "old", "vllm.c", "", 1, true}}, lines(others))
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
		a, b := reporttest.Row("vllm.a", 4, 100, 20), reporttest.Row("vllm.a", 4, 100, 20)
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
