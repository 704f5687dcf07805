package apply

import (
	"strings"
	"testing"
	"time"

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
		if got := strings.Join(s.Verdict.Reasons, "; "); s.Verdict.Verdict != c.verdict || !strings.Contains(got, c.reason) || c.reason == "" && got != "" {
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
		d := &plan.Deployment{Engine: e, Instances: []plan.Instance{{Host: h}}}
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
		job, watch = readWhile(d, &plan.Cell{From: &provision.Host{Name: "client"}})
		if count(job) != 0 || !job.Host || count(watch) != c.count || watch.Host {
			t.Errorf("%s with GPUs %v and load from elsewhere: the job reads %+v, and a watch %+v", c.kind, c.only, job, watch)
		}
		job, watch = readWhile(d, &plan.Cell{Offline: &engines.Bench{}})
		if job != (telemetry.Plan{}) || count(watch) != c.count || !watch.Host {
			t.Errorf("%s with GPUs %v, offline: the job reads %+v, and a watch %+v", c.kind, c.only, job, watch)
		}
	}
}

// TestOfflineWindow: of what a tool lets be known of its end, the earliest counts, on
// the host's clock.
func TestOfflineWindow(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	}
	for name, c := range map[string]struct {
		told     marks
		from, to float64
	}{
		"the file alone":               {marks{}, 70, 100},
		"a line at the end":            {marks{ends: at(1096)}, 66, 96},
		"a line at the beginning":      {marks{begins: at(1065)}, 65, 95},
		"a line that came late":        {marks{ends: at(1160)}, 70, 100},
		"a beginning that came late":   {marks{begins: at(1080)}, 70, 100},
		"the nearest of all that came": {marks{begins: at(1065), ends: at(1096)}, 65, 95},
	} {
		// The host's clock is 1000 s behind this machine's.
		got := c.told.window(30*time.Second, -1000*time.Second, at(100))
		if want := (telemetry.Window{Zero: at(c.from), From: at(c.from), To: at(c.to)}); got != want {
			t.Errorf("%s: %v to %v, want %v to %v", name, got.From, got.To, want.From, want.To)
		}
	}
}

// TestMarks reads what the tools print around what they measure.
func TestMarks(t *testing.T) {
	for kind, c := range map[string]struct {
		log          string
		begins, ends bool
	}{
		engines.VLLM:   {"Adding requests: 100%|██████████| 8/8 [00:00<00:00, 120.41it/s]\nProcessed prompts:   0%|          | 0/8 [00:00<?, ?it/s]\rProcessed prompts: 100%|██████████| 8/8 [00:02<00:00,  3.84it/s, est. speed input: 123.02 toks/s, output: 61.51 toks/s]\nThroughput: 3.81 requests/s\n", false, true},
		engines.SGLang: {"[2025-03-01 12:00:00 TP0] Capture cuda graph begin.\n\nWarmup...\n\nBenchmark...\n", true, false},
		engines.TRTLLM: {"[TensorRT-LLM][INFO] Benchmark done. Reporting results...\n", false, false},
	} {
		bench, err := engines.Offline(&engines.Engine{Kind: kind, Host: &provision.Host{Name: "h"}, Model: &engines.Model{Repo: "org/model"}, Image: "image:v0.11.0"}, engines.Batch{Requests: 8, InputTokens: 8, OutputTokens: 8})
		if err != nil {
			t.Fatal(err)
		}
		var told marks
		w := newWait()
		w.line = func(line string) { told.see(&bench, line) }
		w.read(strings.NewReader(c.log), func(string) {}, func(error) {})
		if told.begins.IsZero() == c.begins || told.ends.IsZero() == c.ends {
			t.Errorf("%s: %+v", kind, told)
		}
	}
}
