package apply

import (
	"strings"
	"testing"
	"time"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/results"
)

// TestWarmPrompts: prompts of a file that the engine's prefix cache keeps end a search at its second load: no other can be judged
// either, and what is certain of the first stays. A reset that failed once casts a doubt on that try alone.
func TestWarmPrompts(t *testing.T) {
	q := capacity.Question{SLO: []load.Objective{{Metric: "ttft", Percentile: 95, Max: load.Duration(time.Second)}}, Least: 1, Most: 64, Whole: true,
		Confidence: 0.95, Precision: 0.05, Budget: 20000}
	for reset, ends := range map[string]bool{"flushed": false, "failed: POST /reset": false, "unsupported: no such path": true, "flushed, but it may be warm: disk": true} {
		s, err := capacity.New(q)
		if err != nil {
			t.Fatal(err)
		}
		x := looking{Search: s, cell: &plan.Cell{Task: &plan.Search{Question: q}}, tries: map[float64]int{}}
		for i := range 2 {
			c := results.Cell{CacheReset: reset, Summary: &load.Summary{}}
			c.Summary.Requests = 400
			c.Started = time.Unix(int64(60*i), 0)
			c.Finished = c.Started.Add(time.Minute)
			c.Job.Workload.Dataset = load.Dataset{Kind: "jsonl", Path: "f.jsonl"}
			var more bool
			if x.try, more = x.Next(); !more {
				t.Fatal("the search is over")
			}
			var records []load.Record
			for n := range 400 {
				at := time.Duration(n) * time.Second
				records = append(records, load.Record{Seq: n, Sent: at, First: at + 1, Last: at + 1, End: at + 1})
			}
			if x.take(&c, records); i == 0 && x.ended != "" {
				t.Errorf("%s: the first load: %s", reset, x.ended)
			}
		}
		if o := x.outcome(); (o.Ended != "") != ends || ends && (!o.Over || !strings.HasSuffix(o.Ended, reset)) || o.Flaw != "" || o.Holds == nil {
			t.Errorf("%s: %+v", reset, o)
		}
	}
}
