package figure

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/load"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/telemetry"
)

func TestCosts(t *testing.T) {
	r := reporttest.Row("vllm.h200", 4, 100, 20)
	r.Summary.OutputThroughput, r.Summary.TotalThroughput, r.Summary.Duration = 1000, 4000, 50
	if got := Costs(&r); len(got) > 0 {
		t.Errorf("without a price and telemetry there are %v", got)
	}
	r.Deployment.PricePerHour = 36
	r.Telemetry = &telemetry.Record{Energy: 200_000}
	want := map[string]float64{
		"usd_per_million_output_tokens": 10, // 36 USD/h is 1 cent a second, which gives 1,000 tokens
		"usd_per_million_total_tokens":  2.5,
		"joules_per_output_token":       4,
		"mean_gpu_power_w":              4000,
	}
	reporttest.Check(t, "costs", want, Costs(&r), cmpopts.EquateApprox(1e-12, 0))
	r.Deployment.GPUCount = 2 // of eight
	if got := Costs(&r)["usd_per_million_output_tokens"]; math.Abs(got-2.5) > 1e-12 {
		t.Errorf("a quarter of the host costs %v, want 2.5", got)
	}
}

func TestSpent(t *testing.T) {
	at := func(minutes float64) time.Time {
		return reporttest.Start.Add(time.Duration(minutes * float64(time.Minute)))
	}
	cell := func(host, deployment string, from, to float64) results.Row {
		r := reporttest.Row("vllm."+host, 4, 100, 20)
		r.Started, r.Finished = at(from), at(to)
		r.Deployment.ID, r.Deployment.Host, r.Deployment.PricePerHour = deployment, host, 60
		r.Deployment.Started, r.Deployment.Ready, r.Deployment.Stopped = at(0), 600, at(60)
		return r
	}
	rehearsed := cell("here", "c", 0, 1)
	rehearsed.Run.Command = "rehearse"
	unpriced := cell("own", "d", 10, 20)
	unpriced.Deployment.PricePerHour, unpriced.Deployment.Stopped = 0, time.Time{}
	// 12 minutes to load the model, 8 of work, before the same engine served.
	offline := cell("both", "e", -20, 0)
	offline.Job.Batch, offline.Summary.Duration = &load.Batch{}, 480
	got := Spent([]results.Row{
		cell("h200", "a", 10, 20), cell("h200", "a", 20, 30),
		cell("h200", "b", 25, 40), // at the same time as another one
		rehearsed, unpriced,
		offline, cell("both", "e", 10, 30),
	}, nil)
	want := []Spending{
		{Run: "20261121-142501-k3f9", Host: "h200", Price: 60, Held: 3600, Starting: 600, Measuring: 1800, Idle: 1200, Cost: 60, IdleCost: 20},
		{Run: "20261121-142501-k3f9", Host: "own", Held: 1200, Starting: 600, Measuring: 600},
		{Run: "20261121-142501-k3f9", Host: "both", Price: 60, Held: 4800, Starting: 1320, Measuring: 1680, Idle: 1800, Cost: 80, IdleCost: 30},
	}
	reporttest.Check(t, "spent", want, got, cmpopts.EquateApprox(1e-9, 0))
}

// TestParts: whole seconds add up to the whole, and none is a second off.
func TestParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		s := Spending{Box: "b", Booting: 200 * random.Float64(), Preparing: random.Float64(), Starting: 100 * random.Float64(), Measuring: 7000 * random.Float64(), Idle: random.Float64()}
		if random.IntN(2) == 0 {
			s.Box, s.Booting = "", 0
		}
		s.Held = s.Booting + s.Preparing + s.Starting + s.Measuring + s.Idle
		parts, held := s.Parts()
		times, sum := []float64{s.Booting, s.Preparing, s.Starting, s.Measuring, s.Idle}, time.Duration(0)
		for i, p := range parts {
			sum += p.Took
			if off := p.Took.Seconds() - times[len(times)-len(parts)+i]; math.Abs(off) >= 1 {
				t.Errorf("%+v: %s is %v s off", s, p.Name, off)
			}
		}
		if sum != held || math.Abs(held.Seconds()-s.Held) > 0.5 {
			t.Errorf("%+v: the parts are %s of %s", s, sum, held)
		}
	}
}

// TestSpentRented: each second of a rented box is in one part, also when an engine was started twice; a run that measured nothing
// has cost too; and what is billed beyond the time is idle.
func TestSpentRented(t *testing.T) {
	at := func(minutes float64) time.Time {
		return reporttest.Start.Add(time.Duration(minutes * float64(time.Minute)))
	}
	cell := func(deployment string, begun, started, from, to float64) results.Row {
		r := reporttest.Row("vllm.box", 4, 100, 20)
		r.Started, r.Finished = at(from), at(to)
		r.Deployment.ID, r.Deployment.Host, r.Deployment.PricePerHour = deployment, "box", 60
		r.Deployment.Begun, r.Deployment.Started, r.Deployment.Ready, r.Deployment.Stopped = at(begun), at(started), 300, at(to+1)
		return r
	}
	rows := []results.Row{cell("a", 12, 15, 20, 30), cell("a", 12, 15, 31, 40), cell("b", 42, 42, 47, 50)}
	run := rows[0].RunID
	stay := results.Stay{RunID: run, Request: "hcl-1", Host: "box", Plugin: "fake", Box: "b-1", Price: 60, Began: at(0), Up: at(8), Ready: at(10), Ended: at(70),
		Closed: true, Cost: 70, Told: 72}
	failed := results.Stay{RunID: "r0", Request: "hcl-0", Host: "box", Plugin: "fake", Box: "b-0", Price: 60, Began: at(-90), Ended: at(-80), Closed: true, Cost: 60}
	want := []Spending{
		{Run: run, Host: "box", Box: "b-1 of fake", Price: 60, Held: 4200, Booting: 480, Preparing: 300, Starting: 600, Measuring: 1320, Idle: 1500, Cost: 70, IdleCost: 25, Told: 72},
		{Run: "r0", Host: "box", Box: "b-0 of fake", Price: 60, Held: 600, Booting: 600, Cost: 60, IdleCost: 50},
	}
	reporttest.Check(t, "spent", want, Spent(rows, []results.Stay{failed, stay}), cmpopts.EquateApprox(1e-9, 0))
	stay.Ended, stay.Closed, stay.Cost, stay.Told = at(10), false, 10, 0 // it was killed, and nobody has looked since
	got := Spent(rows, []results.Stay{stay})
	reporttest.Check(t, "of one that was killed", []Spending{{Run: run, Host: "box", Box: "b-1 of fake", Price: 60, Held: 3060, Booting: 480, Preparing: 300, Starting: 600,
		Measuring: 1320, Idle: 360, Cost: 51, IdleCost: 6, Open: true}}, got, cmpopts.EquateApprox(1e-9, 0))
}

// TestSpentTwice: what a run has spent on two boxes for one host is told of each, at its own price, and so is what a host has cost whose
// price was another meanwhile; a box that two runs have had is of both.
func TestSpentTwice(t *testing.T) {
	at := func(minutes float64) time.Time {
		return reporttest.Start.Add(time.Duration(minutes * float64(time.Minute)))
	}
	cell := func(host string, price, started, from, to float64) results.Row {
		r := reporttest.Row("vllm."+host, 4, 100, 20)
		r.Started, r.Finished = at(from), at(to)
		r.Deployment.Host, r.Deployment.PricePerHour = host, price
		r.Deployment.Started, r.Deployment.Ready, r.Deployment.Stopped = at(started), 300, at(to)
		return r
	}
	rows := []results.Row{cell("box", 60, 10, 15, 25), cell("box", 30, 50, 55, 75), cell("own", 60, 0, 5, 10), cell("own", 30, 20, 25, 40)}
	run := rows[0].RunID
	stay := func(of, request string, price, from, ready, to float64) results.Stay {
		return results.Stay{RunID: of, Request: request, Host: "box", Plugin: "fake", Box: "b-" + request, Price: price, Began: at(from), Up: at(ready), Ready: at(ready), Ended: at(to),
			Closed: true, Cost: price * (to - from) / 60}
	}
	got := Spent(rows, []results.Stay{stay("before", "1", 60, -60, -50, 0), stay(run, "1", 60, 0, 5, 30), stay(run, "2", 30, 40, 45, 80)})
	want := []Spending{
		{Run: run, Host: "box", Box: "b-1 of fake", Price: 60, Held: 1800, Booting: 300, Starting: 300, Measuring: 600, Idle: 600, Cost: 30, IdleCost: 10},
		{Run: run, Host: "box", Box: "b-2 of fake", Price: 30, Held: 2400, Booting: 300, Starting: 300, Measuring: 1200, Idle: 600, Cost: 20, IdleCost: 5},
		{Run: run, Host: "own", Price: 60, Held: 600, Starting: 300, Measuring: 300, Cost: 10},
		{Run: run, Host: "own", Price: 30, Held: 1200, Starting: 300, Measuring: 900, Cost: 10},
		{Run: "before", Host: "box", Box: "b-1 of fake", Price: 60, Held: 3600, Booting: 600, Idle: 3000, Cost: 60, IdleCost: 50},
	}
	reporttest.Check(t, "spent", want, got, cmpopts.EquateApprox(1e-9, 0))
}
