package apply

import (
	"slices"
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
		s := &load.Summary{Part: load.Part{Figures: load.Figures{Duration: 10}, Window: c.window, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Valid}}}}
		throttled(s, &telemetry.Record{Series: c.series})
		if got := strings.Join(s.Verdict.Texts(), "; "); s.Verdict.Verdict != c.verdict || !strings.Contains(got, c.reason) || c.reason == "" && got != "" {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, s.Verdict.Verdict, got, c.verdict, c.reason)
		}
	}
}

// TestCrowdedHost: others who have processors of the host are a reason, and so are other machines; where nobody knows what
// others have, that something waits for them all the time. An engine that keeps them busy is none, nor is what a few
// readings say.
func TestCrowdedHost(t *testing.T) {
	for name, c := range map[string]struct {
		busy, steal, pressure float64
		others                float64 // -1: not known
		readings              int
		speed                 float64
		want                  string
	}{
		"at rest":        {10, 0, 1, -1, 20, 0, ""},
		"busy":           {100, 0, 60, -1, 20, 0, ""},
		"crowded":        {99, 0, 97, -1, 20, 0, "the processors of n1 were all busy (99 %), and for 97 % of the time something waited for them: see what else runs there"},
		"engine alone":   {100, 0, 99, 2, 20, 0, ""},
		"others beside":  {60, 0, 30, 58, 20, 0, "58 % of the processors of n1 worked for neither the engine nor hcl: see what else runs there"},
		"a few of many":  {30, 0, 1, 8, 20, 0, ""},
		"they take some": {99, 0, 97, 8, 20, 0, "the processors of n1 were all busy (99 %), and for 97 % of the time something waited for them: 8 % of them worked for neither the engine nor hcl; see what else runs there"},
		"stolen":         {50, 12, 1, -1, 20, 0, "other machines had 12 % of the processors of n1 meanwhile (steal)"},
		"in a hurry":     {99, 12, 97, 90, 20, 50, ""},
		"a few seconds":  {99, 12, 97, 90, 9, 0, ""},
	} {
		var r telemetry.Record
		for _, x := range []telemetry.Series{{Name: telemetry.CPU, Value: []float64{c.busy}}, {Name: telemetry.Steal, Value: []float64{c.steal}}, {Name: telemetry.Pressure, Value: []float64{c.pressure}}, {Name: telemetry.Others, Value: []float64{c.others}}} {
			if x.Value[0] < 0 {
				continue
			}
			x.Host, x.Of, x.Value = "n1", telemetry.Host, slices.Repeat(x.Value, c.readings)
			for i := range x.Value {
				x.At = append(x.At, float64(i))
			}
			r.Series = append(r.Series, x)
		}
		s := &load.Summary{Part: load.Part{Figures: load.Figures{Duration: 60}, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Valid}}}}
		crowded(s, &r, c.speed)
		if got := strings.Join(s.Verdict.Texts(), "; "); got != c.want || (s.Verdict.Verdict == load.Suspect) != (c.want != "") {
			t.Errorf("%s: %s: %q, want %q", name, s.Verdict.Verdict, got, c.want)
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
		e := &engines.Engine{Kind: c.kind, Name: "x", Placement: engines.On(h)}
		e.Placement[0].GPUIDs = c.only
		d := &plan.Deployment{Engine: e, Host: h, Hosts: []*provision.Host{h}, Members: []plan.Member{{Member: engines.Member{Engine: e}, Host: h}}}
		count := func(p telemetry.Plan) int {
			if p.GPUs == nil {
				return 0
			}
			return p.GPUs.Count
		}
		// What another host sends the load to is read beside it all the same, and so is
		// what an engine's own benchmark does.
		for _, task := range []struct {
			plan.Task
			job, beside         int // GPUs
			jobHost, besideHost bool
		}{
			{&plan.Load{}, c.count, 0, true, false},
			{&plan.Load{From: []*provision.Host{{Name: "client"}}}, 0, c.count, true, true},
			{&plan.Batch{}, 0, c.count, false, true},
		} {
			job, beside := readWhile(d, &plan.Cell{Task: task.Task})
			var watch telemetry.Plan
			if len(beside) > 0 {
				watch = beside[0].plan
			}
			if count(job) != task.job || job.Host != task.jobHost || count(watch) != task.beside || watch.Host != task.besideHost || len(beside) > 1 {
				t.Errorf("%s with GPUs %v, %T: the job reads %+v, and beside it %+v", c.kind, c.only, task.Task, job, beside)
			}
		}
	}
}
