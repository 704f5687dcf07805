package compare

import (
	"io"
	"slices"
	"strings"
	"testing"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/report/reporttest"
	"hclbench/results"
)

type search = reporttest.Search

// differenceOf is that of what searches of two sides have found, and of the cells beside.
func differenceOf(t *testing.T, a, b search, change func(c *results.Capacity), beside ...results.Row) *Difference {
	t.Helper()
	a.Engine, b.Engine = "vllm.h200", "vllm.h200"
	rowsA, foundA := reporttest.Searched(a)
	rowsB, foundB := reporttest.Searched(b)
	if change != nil {
		change(&foundB[0])
	}
	d, err := Diff("A", append(rowsA, beside...), "B", append(rowsB, beside...), DefaultMetrics())
	if err != nil {
		t.Fatal(err)
	}
	d.Capacities(foundA, foundB)
	return d
}

func to(pass, fail float64) search { return search{Pass: []float64{4, pass}, Fail: []float64{fail}} }

// TestCapacityGate: a limit on a capacity is broken or kept where the bounds of both sides say so whatever the truth between
// them is, and not decided otherwise.
func TestCapacityGate(t *testing.T) {
	drifts := search{Pass: []float64{52}, Fail: []float64{67}, Flaw: "drifting: it failed when it was tried again"}
	all := search{Pass: []float64{4, 64}, Most: 64}
	for _, c := range []struct {
		name, limit string
		a, b        search
		change      func(c *results.Capacity)
		result      Result
		why         string
	}{
		{"certainly less", "capacity < -5%", to(100, 104), to(80, 94), nil, Fail, "changed by −23 % to −6.0 % (100 to 104, now 80 to 94 concurrent)"},
		{"not certainly less", "capacity < -5%", to(100, 104), to(80, 95), nil, Unknown, "which does not decide it"},
		{"perhaps less", "capacity < -5%", to(79, 99), to(80, 100), nil, Unknown, "changed by −19 % to +27 %"},
		{"certainly as much", "capacity < -5%", to(79, 83), to(79, 83), nil, Pass, ""},
		{"more", "capacity < -5%", to(79, 99), to(120, 140), nil, Pass, ""},
		{"certainly more", "capacity > 10%", to(79, 83), to(95, 99), nil, Fail, "+14 % to +25 %"},
		{"perhaps more", "capacity > 10%", to(79, 83), to(85, 99), nil, Unknown, "does not decide"},
		{"no answer before", "capacity < -5%", drifts, to(79, 99), nil, Unknown, "A has no answer: drifting: it failed"},
		{"no answer now", "capacity < -5%", to(79, 99), search{Open: []float64{4}}, nil, Unknown, "B has no answer: nothing is certain"},
		{"all of the range", "capacity < -5%", all, all, nil, Pass, ""},
		{"all of another range", "capacity < -5%", search{Pass: []float64{128}, Most: 128}, all, nil, Unknown, "does not decide it"},
		{"all before, a little less than all now", "capacity < -5%", all, search{Pass: []float64{62}, Fail: []float64{64}, Most: 64}, nil, Unknown, "changed by ±0 % or less (64 or more, now 62 to 64 concurrent)"},
		{"a little less than all before, all now", "capacity > 10%", search{Pass: []float64{60}, Fail: []float64{62}, Most: 64}, all, nil, Unknown, "changed by +3.2 % or more"},
		{"all before, less now", "capacity < -5%", all, to(40, 50), nil, Fail, "changed by −22 % or less"},
		{"nothing before", "capacity < -5%", search{Fail: []float64{1}}, to(40, 50), nil, Pass, ""},
		{"nothing now", "capacity < -5%", to(40, 50), search{Fail: []float64{1}}, nil, Fail, "now below 1"},
		{"another SLO", "capacity < -5%", to(79, 83), to(79, 83), func(c *results.Capacity) { c.Outcome.Loads[0].Lines[0].Max *= 2 }, Unknown, "another SLO, TTFT p95 ≤ 2s and TPOT p90 ≤ 50ms was TTFT p95 ≤ 1s and"},
		{"another confidence", "capacity < -5%", to(100, 104), to(80, 94), func(c *results.Capacity) { c.Outcome.Confidence = 0.9 }, Fail, "A is sure to 95 %, B to 90 %"},
		{"a value that breaks", "capacity < 80", to(1, 2), to(70, 80), nil, Fail, "it holds 70 to 80 concurrent"},
		{"a value that holds", "capacity < 80", drifts, to(80, 90), nil, Pass, ""},
		{"a value between", "capacity < 80", to(1, 2), to(70, 90), nil, Unknown, "it holds 70 to 90 concurrent, which does not decide it"},
	} {
		l, err := ParseLimit(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		d := differenceOf(t, c.a, c.b, c.change)
		if err := d.Check([]GateLimit{l}, nil); err != nil {
			t.Fatal(err)
		}
		if x := d.Checks[0]; len(d.Checks) != 1 || x.Result != c.result || !strings.Contains(x.Why, c.why) || (x.Why == "") != (c.why == "") {
			t.Errorf("%s: %s, %q; want %s, %q", c.name, x.Result, x.Why, c.result, c.why)
		}
	}
	for _, wrong := range []string{"capacity < 80 and engine = vllm", "capacity <= 5", "capacity < soon", "capacity < -5", "capacity < -100%"} {
		if l, err := ParseLimit(wrong); err == nil {
			t.Errorf("%s is %+v", wrong, l)
		}
	}
}

// TestCapacityFloor: what starts on a box differ by is no difference of capacities, in the verdict as in the gate; what is more is one.
// A limit on B alone has nothing to do with it.
func TestCapacityFloor(t *testing.T) {
	noise := &results.Noise{Box: "b", Starts: 4, Spread: map[string]float64{"p95_ttft_ms": 0.02}} // 9.5 %
	for _, c := range []struct {
		limit   string
		a, b    search
		noise   *results.Noise
		result  Result
		verdict string
	}{
		{"capacity < -5%", to(100, 104), to(80, 94), nil, Fail, "worse"},
		{"capacity < -5%", to(100, 104), to(80, 94), noise, Unknown, "unknown"},
		{"capacity < -5%", to(100, 104), to(70, 80), noise, Fail, "worse"},
		{"capacity < -5%", to(79, 83), to(79, 83), noise, Unknown, "unknown"},
		{"capacity < -5%", to(79, 99), to(120, 140), noise, Pass, "better"},
		{"capacity < 80", to(79, 83), to(80, 90), noise, Pass, "unknown"},
	} {
		l, err := ParseLimit(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		a, b := c.a, c.b
		a.Engine, b.Engine = "vllm.h200", "vllm.h200"
		rowsA, foundA := reporttest.Searched(a)
		rowsB, foundB := reporttest.Searched(b)
		for _, rows := range [][]results.Row{rowsA, rowsB} {
			for i := range rows {
				rows[i].Noise = c.noise
			}
		}
		d, err := Diff("A", rowsA, "B", rowsB, DefaultMetrics())
		if err != nil {
			t.Fatal(err)
		}
		d.Capacities(foundA, foundB)
		if err := d.Check([]GateLimit{l}, nil); err != nil {
			t.Fatal(err)
		}
		if x := d.Checks[0]; x.Result != c.result || d.Searches[0].Verdict != c.verdict || (x.Result == Unknown) != strings.Contains(x.Why, "differ by up to 9.5") {
			t.Errorf("%v against %v: %s (%s), %s", c.b, c.a, x.Result, x.Why, d.Searches[0].Verdict)
		}
	}
}

// TestCapacityOneSide: who was not searched for in B passes no limit, and who was not in A has nothing to be held against.
func TestCapacityOneSide(t *testing.T) {
	rows, found := reporttest.Searched(search{Engine: "vllm.h200", Pass: []float64{4}, Fail: []float64{8}})
	for _, c := range []struct {
		a, b []results.Capacity
		want Result
	}{{found, nil, Unknown}, {nil, found, Unknown}, {nil, nil, Unknown}} {
		d, err := Diff("A", rows, "B", rows, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Capacities(c.a, c.b)
		l, _ := ParseLimit("capacity < -5%")
		if err := d.Check([]GateLimit{l}, nil); err != nil {
			t.Fatal(err)
		}
		if failing := d.Failing(); len(failing) != 1 || failing[0].Result != c.want {
			t.Errorf("%+v", d.Checks)
		}
	}
}

// TestPastTheKnee: a limit at a fixed load says when an engine is known to break there, and what a search has tried is held
// against no limit of its own.
func TestPastTheKnee(t *testing.T) {
	fixed := func(concurrency int64) results.Row {
		r := reporttest.Row("vllm.h200", concurrency, 100, 20)
		r.DeploymentID = "d-vllm.h200"
		r.Job.Workload = load.Workload{Requests: 500, Concurrency: int(concurrency), OutputTokens: 128, Dataset: load.Dataset{Kind: load.Random, InputTokens: 1024}}
		return r
	}
	longer := fixed(256) // which no search has sent
	longer.Job.Workload.Dataset.InputTokens = 8192
	open := fixed(255) // which is never in flight
	open.Axes = results.Axes{{Name: "engine", Value: "vllm.h200"}, {Name: "rate", Value: 2.0}}
	open.Job.Workload.Rate = 2
	d := differenceOf(t, to(79, 99), to(80, 100), nil, fixed(16), fixed(128), longer, open)
	l, err := ParseLimit("p99_ttft_ms > 150")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check([]GateLimit{l}, nil); err != nil {
		t.Fatal(err)
	}
	const knee = "a load of 128 is past the knee of vllm.h200, which breaks TTFT p95 ≤ 1s and TPOT p90 ≤ 50ms by "
	said, skipped := 0, 0
	for _, c := range d.Checks {
		switch {
		case c.Benchmark == "chat":
			skipped++
			if c.Result != Skipped || !strings.Contains(c.Why, "a search has tried it") {
				t.Errorf("%+v", c)
			}
		case strings.Contains(c.Why, knee):
			said++
			if c.Result != Fail || !strings.HasPrefix(c.Why, "p99_ttft_ms is 170; a load") || !strings.Contains(c.Cell, "=128 ") {
				t.Errorf("%+v", c)
			}
		case strings.Contains(c.Why, "knee"):
			t.Errorf("%+v", c)
		}
	}
	if said != 1 || skipped < 3 {
		t.Errorf("%d say it, %d are skipped of %+v", said, skipped, d.Checks)
	}
	reporttest.Holds(t, strings.Join(d.Notes, "\n"), "A: "+knee+"99 concurrent: ", "B: "+knee)
}

// TestCapacityShown: both sides stand beside each other, with between which changes the truth lies and whether it is certain.
func TestCapacityShown(t *testing.T) {
	d := differenceOf(t, to(79, 99), to(40, 52), nil)
	write := func(format string) string {
		return reporttest.Written(t, func(w io.Writer) error { return d.Write(w, format, 120) })
	}
	reporttest.Holds(t, write("text"), "capacity: 1 worse\n", searchTitle+"\n",
		"79 to 99 concurrent  40 to 52 concurrent  −60 % to −34 %  worse\n")
	reporttest.Holds(t, write("markdown"), "| −60 % to −34 % | worse |")
	reporttest.Holds(t, write("json"), `"change_percent_at_most": -34.`, `"verdict": "worse"`)
	reporttest.Check(t, "the finding", "vllm.h200 certainly holds less: 40 to 52 concurrent, was 79 to 99 (−60 % to −34 %).", d.SearchFinding("chat"))
	all := search{Pass: []float64{4, 64}, Most: 64}
	d = differenceOf(t, all, all, nil)
	reporttest.Check(t, "of all of the range", "Of vllm.h200 no difference is certain: 64 or more concurrent, was 64 or more; both hold all of the range.",
		d.SearchFinding("chat"))
	d = differenceOf(t, to(79, 99), to(80, 100), nil)
	reporttest.Check(t, "no finding", "Of vllm.h200 no difference is certain: 80 to 100 concurrent, was 79 to 99 (−19 % to +27 %); the bounds overlap.",
		d.SearchFinding("chat"))
}

// TestAnotherLoop: loads of a closed loop and of an open one are numbers of different things, between which there is no change.
func TestAnotherLoop(t *testing.T) {
	d := differenceOf(t, to(79, 99), to(5, 6), func(c *results.Capacity) { c.Outcome.Of = capacity.Rate }, openLoop(to(5, 6))...)
	c := d.Searches[0]
	if c.A == nil || c.B == nil || c.Low != nil || c.High != nil || c.Verdict != "unknown" {
		t.Errorf("%+v", c)
	}
	reporttest.Check(t, "the finding", "Of vllm.h200 no difference is certain: 5 to 6 requests/s, was 79 to 99 concurrent; another loop.", d.SearchFinding("chat"))
}

// openLoop are the cells of a search for a rate.
func openLoop(s search) (rows []results.Row) {
	s.Engine = "vllm.h200"
	rows, _ = reporttest.Searched(s)
	for i := range rows {
		r := &rows[i]
		at := r.Job.Workload.Concurrency
		r.Job.Workload.Concurrency, r.Job.Workload.Rate = 0, load.Rate(at)
		r.Axes = slices.Clone(r.Axes)
		for j := range r.Axes {
			if r.Axes[j].Name == capacity.Concurrency {
				r.Axes[j] = results.Axis{Name: capacity.Rate, Value: int64(at)}
			}
		}
	}
	return rows
}
