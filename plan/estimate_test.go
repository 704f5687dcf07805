package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
)

// TestEstimate has one cell measured and estimates the others from it.
func TestEstimate(t *testing.T) {
	cfg := lab()
	cfg.Hosts[0].PricePerHour = 36
	if got := New(cfg, Options{}).Estimate(); got != nil {
		t.Errorf("Estimate = %v with nothing measured, want none", got)
	}
	known := func(n int, k results.Known) map[string]results.Known {
		c := New(cfg, Options{}).Deployments[0].Cells[n]
		k.Verdict, k.Engine, k.Host, k.Finished, k.Identity = load.Valid, "vllm.h200", "h200", time.Unix(1e9, 0), c.Identity()
		k.Benchmark, k.Axes, k.Repetition = c.Benchmark, text(c.Axes), c.Repetition
		return map[string]results.Known{c.ID: k}
	}
	// 500 requests of 800 tokens at concurrency 4: 125 rounds in 1000 s.
	once := known(0, results.Known{Took: 1000 * time.Second, Ready: 10 * time.Minute})

	for _, test := range []struct {
		name  string
		opt   Options
		pick  string
		want  *Estimate
		reads string
	}{
		{
			// 63 rounds at concurrency 8, twice 8 at 64, and a start.
			name: "the rest", opt: Options{Known: once},
			want:  &Estimate{Seconds: 504 + 2*64 + 600, Cost: 36 * (504 + 2*64 + 600) / 3600., UnknownCells: 2, UnknownStarts: 1, Hosts: []HostEstimate{{Host: "h200", Seconds: 1232, Cost: 12.32}}},
			reads: "Estimated: 21m on h200; $12.32. Not known, and not in it: 1 start and 2 cells.",
		}, {
			name: "again", opt: Options{Known: once, Rerun: true}, pick: "benchmark = online and engine = vllm",
			want:  &Estimate{Seconds: 1000 + 504 + 600, Cost: 21.04, Hosts: []HostEstimate{{Host: "h200", Seconds: 2104, Cost: 21.04}}},
			reads: "Estimated: 35m on h200; $21.04.",
		}, {
			name: "one alone", opt: Options{Known: once, Rerun: true}, pick: "benchmark = soak",
			want:  &Estimate{Seconds: 2*64 + 600, Cost: 7.28, Hosts: []HostEstimate{{Host: "h200", Seconds: 728, Cost: 7.28}}},
			reads: "Estimated: 12m on h200; $7.28.",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var picked Selection
			if test.pick != "" {
				picked.Only = []string{test.pick}
			}
			p, err := New(cfg, test.opt).Select(picked)
			if err != nil {
				t.Fatal(err)
			}
			got := p.Estimate()
			near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })
			if diff := cmp.Diff(test.want, got, near, cmp.AllowUnexported(Estimate{})); diff != "" {
				t.Errorf("Estimate (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.reads, got.String()); diff != "" {
				t.Errorf("String (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEstimateByPace are loads that say themselves how long they take, and loads of
// which nothing can be said.
func TestEstimateByPace(t *testing.T) {
	for name, test := range map[string]struct {
		w    load.Workload
		want time.Duration
	}{
		"duration":       {load.Workload{Duration: load.Duration(time.Minute), Concurrency: 4}, time.Minute},
		"stages":         {load.Workload{Stages: []load.Stage{{Duration: load.Duration(time.Minute)}, {Duration: load.Duration(time.Second)}}}, 61 * time.Second},
		"open loop":      {load.Workload{Requests: 300, Rate: 2}, 150 * time.Second},
		"all at once":    {load.Workload{Requests: 300, Rate: load.Inf}, 0},
		"nothing before": {load.Workload{Requests: 300, Concurrency: 1}, 0},
	} {
		cfg := lab()
		c := New(cfg, Options{}).Deployments[0].Cells[0]
		c.Load().Workload, c.load = test.w, loadOf(hcl.Cell{Workload: test.w}, c.deployment)
		if got := newHistory(nil).takes(c); got != test.want {
			t.Errorf("%s: takes %s, want %s", name, got, test.want)
		}
	}
}

// TestEstimateOfSenders: a host that load is sent from is paid for as long as the
// engine's.
func TestEstimateOfSenders(t *testing.T) {
	cfg := lab()
	cfg.Benchmarks = cfg.Benchmarks[1:]
	cfg.Hosts[0].PricePerHour = 30
	c := &cfg.Benchmarks[0].Cells[0]
	c.Workload.Duration, c.From = load.Duration(time.Hour), []*provision.Host{{Name: "client", PricePerHour: 2}}
	cfg.Engines[0].Flags = append(cfg.Engines[0].Flags, engines.Flag{Name: "host", Value: flagValue("0.0.0.0")})
	e := New(cfg, Options{}).Estimate()
	if e == nil || e.Cost != 64 || len(e.Hosts) != 2 || e.UnknownStarts != 1 || e.UnknownCells != 0 {
		t.Errorf("two hours on a host for $30 and a client for $2: %+v", e)
	}
}

func TestRough(t *testing.T) {
	for seconds, want := range map[float64]string{0.2: "1s", 59: "59s", 89: "1m", 3599: "60m", 3600: "1h00m", 11_100: "3h10m", 360_000: "100h00m"} {
		if got := Rough(time.Duration(seconds * float64(time.Second))); got != want {
			t.Errorf("Rough(%v s) = %q, want %q", seconds, got, want)
		}
	}
}

// TestEstimateOfWaiting: hosts wait for each other as the scheduler has them wait, and are paid for
// from their first use to their last.
func TestEstimateOfWaiting(t *testing.T) {
	a, b := &provision.Host{Name: "a", PricePerHour: 10}, &provision.Host{Name: "b", PricePerHour: 20}
	p := &Plan{Hosts: []*provision.Host{a, b}, Lab: hcl.Lab{MaxDuration: 4 * time.Hour}}
	for _, of := range []struct {
		takes time.Duration
		hosts []*provision.Host
	}{{2 * time.Hour, []*provision.Host{a}}, {30 * time.Minute, []*provision.Host{b}}, {time.Hour, []*provision.Host{a, b}}, {2 * time.Hour, []*provision.Host{b}}} {
		d := deployment(&engines.Engine{Kind: engines.VLLM, Placement: engines.On(of.hosts...), Model: &engines.Model{}})
		d.start = time.Nanosecond
		d.Cells = []*Cell{{Status: Measure, takes: of.takes, Task: &Load{}, deployment: d}}
		p.Deployments = append(p.Deployments, d)
	}
	e := p.Estimate()
	const want = "Estimated: 3h00m on a, 5h00m on b (1h30m of it waiting for other hosts, $30.00); $130.00. " +
		"That is longer than the lab's max_duration, 4h0m0s: what is not measured by then is not measured."
	if got := e.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHurriedWaits: users and tools are in a hurry too, and are in the estimate.
func TestHurriedWaits(t *testing.T) {
	second := load.Duration(time.Second)
	w := load.Workload{Requests: 40, Concurrency: 2, Dataset: load.Dataset{
		Kind: load.RandomConversation, Turns: 5, ThinkTime: 20 * second, ToolDelay: 2 * second, MaxDelay: 10 * second,
	}}
	if got, want := w.Waits(), 4*4*10*time.Second; got != want {
		t.Errorf("8 conversations of 5 turns, 2 at once, wait %v, want %v", got, want)
	}
	if got, want := hurried(w, 10).Waits(), 4*4*time.Second; got != want {
		t.Errorf("10 times as fast they wait %v, want %v", got, want)
	}
}
