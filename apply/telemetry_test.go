package apply

import (
	"strings"
	"testing"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/telemetry"
)

func TestThrottledGPUsMakeACellSuspect(t *testing.T) {
	series := func(of string, values ...float64) telemetry.Series {
		s := telemetry.Series{Of: of, Name: telemetry.Throttled, Value: values}
		for i := range values {
			s.At = append(s.At, float64(i))
		}
		return s
	}
	for _, c := range []struct {
		name    string
		series  []telemetry.Series
		window  *load.Window
		verdict string
		reason  string
	}{
		{"cool", []telemetry.Series{series("gpu0", 0, 0, 0, 0)}, nil, load.Valid, ""},
		{"hot", []telemetry.Series{series("gpu0", 0, 0, 0, 0), series("gpu3", 0, 1, 0, 0)}, nil, load.Suspect, "gpu3 for 25 %"},
		{"hot only outside of the window", []telemetry.Series{series("gpu0", 1, 0, 0, 1)}, &load.Window{From: load.Duration(5e8), To: load.Duration(25e8)}, load.Valid, ""},
		{"at the power limit", []telemetry.Series{{Of: "gpu0", Name: telemetry.PowerCapped, At: []float64{0}, Value: []float64{1}}}, nil, load.Valid, ""},
	} {
		s := &load.Summary{Duration: 10, Window: c.window, Verdict: load.Verdict{Verdict: load.Valid}}
		throttled(s, &telemetry.Record{Series: c.series})
		if got := strings.Join(s.Verdict.Texts(), "; "); s.Verdict.Verdict != c.verdict || !strings.Contains(got, c.reason) || c.reason == "" && got != "" {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, s.Verdict.Verdict, got, c.verdict, c.reason)
		}
	}
}

func TestOnlyTheDeploymentsGPUsAreRead(t *testing.T) {
	h := &provision.Host{Name: "h", Address: "203.0.113.7", GPUs: provision.GPUs{Count: 8, Model: "H200", Vendor: provision.NVIDIA}}
	for _, c := range []struct {
		kind  string
		only  []string
		count int
	}{{engines.VLLM, nil, 8}, {engines.VLLM, []string{"0", "1"}, 2}, {engines.Sim, nil, 0}} {
		e := &engines.Engine{Kind: c.kind, Name: "x", Host: h}
		e.Container.GPUIDs = c.only
		d := &plan.Deployment{Engine: e, Members: []plan.Member{{Host: h}}}
		count := func(p telemetry.Plan) int {
			if p.GPUs == nil {
				return 0
			}
			return p.GPUs.Count
		}
		job, watch := readWhile(d, &plan.Cell{})
		if count(job) != c.count || !job.Host || watch != (telemetry.Plan{}) {
			t.Errorf("%s with GPUs %v: the job reads %+v, and a watch %+v", c.kind, c.only, job, watch)
		}
		// What another host sends the load to is read here all the same, and so is
		// what an engine's own benchmark does.
		job, watch = readWhile(d, &plan.Cell{Task: &plan.Load{From: &provision.Host{Name: "client"}}})
		if count(job) != 0 || !job.Host || count(watch) != c.count || watch.Host {
			t.Errorf("%s with GPUs %v and load from elsewhere: the job reads %+v, and a watch %+v", c.kind, c.only, job, watch)
		}
		job, watch = readWhile(d, &plan.Cell{Task: &plan.Batch{}})
		if job != (telemetry.Plan{}) || count(watch) != c.count || !watch.Host {
			t.Errorf("%s with GPUs %v, offline: the job reads %+v, and a watch %+v", c.kind, c.only, job, watch)
		}
	}
}
