package hcl

import (
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

// searching is a lab that searches for a capacity, with parts that may be others.
func searching(benchmark, capacity, slo, load string) string {
	return `
engine "external" "e" {
  url   = "http://127.0.0.1:8000"
  model = model.m
}
model "m" { repo = "a/b" }
dataset "random" "d" { input_tokens = 8 }
dataset "trace" "t" { path = "t.jsonl" }
dataset "jsonl" "f" { path = "f.jsonl" }
benchmark "chat" {
  engine = engine.external.e
  ` + benchmark + `
  capacity {
    ` + capacity + `
  }
  slo {
    ` + slo + `
  }
  load {
    ` + load + `
  }
}
`
}

// TestCapacity: a search has what it is asked for, and what it is not asked for by default; its workload says no load.
func TestCapacity(t *testing.T) {
	c := mustLoad(t, searching("dataset = dataset.random.d", `of = "rate"
    within = [0.5, 32]
    budget = 20000`, `ttft_p95 = "2s"`, "output_tokens = 4\nburstiness = 2"), lang.Vars{})
	cell := c.Benchmarks[0].Cells[0]
	q := cell.Capacity
	if q == nil || q.Whole || q.Least != 0.5 || q.Most != 32 || q.Confidence != 0.95 || q.Precision != 0.05 || q.Budget != 20000 || q.Timed || len(q.SLO) != 1 {
		t.Errorf("%+v", q)
	}
	if w := cell.Workload; w.Rate != 0 || w.Concurrency != 0 || w.Requests != 0 || w.Burstiness != 2 {
		t.Errorf("%+v", w)
	}
	q = mustLoad(t, searching("dataset = dataset.random.d", `of = "concurrency"`, `ttft_p95 = "2s"`, "output_tokens = 4"), lang.Vars{}).Benchmarks[0].Cells[0].Capacity
	if !q.Whole || q.Least != 1 || q.Most != 1024 || q.Budget != 3600 || !q.Timed {
		t.Errorf("%+v", q)
	}
}

// TestWrongCapacity: all that is wrong with a search is said at once, each at its place.
func TestWrongCapacity(t *testing.T) {
	const of, slo, tokens = `of = "concurrency"`, `ttft_p95 = "2s"`, "output_tokens = 4"
	for name, x := range map[string]struct {
		text string
		want []string // with the line's text before it
	}{
		"all at once": {searching("dataset = dataset.random.d\nrequests = 100\nrepeat = 3", of, "ttft = \"2s\"\nitl_p95 = \"1s\"", "output_tokens = 4\nconcurrency = 8\nramp = \"1s\""), []string{
			"requests = 100: Remove requests.", "repeat = 3: Remove repeat.", "concurrency = 8: Remove concurrency.", "ramp = \"1s\": Remove ramp.",
			"ttft = \"2s\": Ttft bounds every request", "itl_p95 = \"1s\": Itl with a percentile is of gaps"}},
		"no room":         {searching("dataset = dataset.random.d", of+"\nwithin = [8, 8]", slo, tokens), []string{"within = [8, 8]: There is no room in the range from 8 to 8"}},
		"half a request":  {searching("dataset = dataset.random.d", of+"\nwithin = [0.5, 8]", slo, tokens), []string{"within = [0.5, 8]: The range from 0.5 to 8 is not of whole numbers"}},
		"one end":         {searching("dataset = dataset.random.d", of+"\nwithin = [8]", slo, tokens), []string{"within = [8]: the least load and the most, such as [8, 256]"}},
		"budget":          {searching("dataset = dataset.random.d", of+"\nbudget = 300", slo+"\ntpot_p99 = \"1s\"", tokens), []string{"tpot_p99 = \"1s\": tpot_p99 takes 748 requests of which none misses it"}},
		"no budget":       {searching("dataset = dataset.random.d", of+"\nbudget = \"0s\"", slo, tokens), []string{"budget = \"0s\": It must be longer than nothing."}},
		"half a budget":   {searching("dataset = dataset.random.d", of+"\nbudget = 1000.5", slo, tokens), []string{"budget = 1000.5: A budget of 1000.5 requests is not a whole number"}},
		"a vast budget":   {searching("dataset = dataset.random.d", of+"\nbudget = 1e19", slo, tokens), []string{"budget = 1e19: A budget of 1e+19 requests is not a whole number"}},
		"no requests":     {searching("dataset = dataset.random.d", of+"\nbudget = -1", slo, tokens), []string{"budget = -1: There is no budget."}},
		"no SLO":          {searching("dataset = dataset.random.d", of, "", tokens), []string{"slo {: A capacity is what a server holds under an SLO, and there is none."}},
		"nothing varied":  {searching("dataset = dataset.random.d", "", slo, tokens), []string{"capacity {: A capacity block needs the argument \"of\"."}},
		"of something":    {searching("dataset = dataset.random.d", `of = "tokens"`, slo, tokens), []string{`of = "tokens": "concurrency" or "rate"`}},
		"a trace":         {searching("dataset = dataset.trace.t", of, slo, ""), []string{"dataset = dataset.trace.t: at a pace of its own"}},
		"sent again":      {searching("dataset = dataset.jsonl.f", of, slo, tokens), []string{"dataset = dataset.jsonl.f: Write salt = true"}},
		"several clients": {searching("dataset = dataset.random.d", of, slo, tokens+"\nfrom = [host.a, host.b]") + "host \"a\" { address = \"a\" }\nhost \"b\" { address = \"b\" }", []string{"from = [host.a, host.b]: Name one host."}},
		"an axis": {searching("matrix { concurrency = [4, 8] }\ndataset = dataset.random.d", of, slo, "output_tokens = matrix.concurrency"), []string{
			"matrix { concurrency = [4, 8] }: its cells' axis \"concurrency\""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := loadText(t, x.text, lang.Vars{})
			var got []string
			for _, one := range p.List() {
				if strings.HasPrefix(one.Detail, "Nothing in the lab refers") {
					continue
				}
				got = append(got, strings.TrimSpace(strings.Split(x.text, "\n")[one.Start.Line-1])+": "+one.Detail)
			}
			for _, want := range x.want {
				at, says, _ := strings.Cut(want, ": ")
				found := false
				for _, g := range got {
					found = found || strings.HasPrefix(g, at+": ") && strings.Contains(g, says)
				}
				if !found {
					t.Errorf("%q is not said:\n%s", want, strings.Join(got, "\n"))
				}
			}
			if len(got) != len(x.want) {
				t.Errorf("%d problems, want %d:\n%s", len(got), len(x.want), strings.Join(got, "\n"))
			}
		})
	}
}
