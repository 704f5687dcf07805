package figure

import (
	"math"
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
	})
	want := []Spending{
		{Run: "20261121-142501-k3f9", Host: "h200", Price: 60, Held: 3600, Starting: 1200, Measuring: 1800, Idle: 600, Cost: 60, IdleCost: 10},
		{Run: "20261121-142501-k3f9", Host: "own", Held: 1200, Starting: 600, Measuring: 600},
		{Run: "20261121-142501-k3f9", Host: "both", Price: 60, Held: 4800, Starting: 1320, Measuring: 1680, Idle: 1800, Cost: 80, IdleCost: 30},
	}
	reporttest.Check(t, "spent", want, got, cmpopts.EquateApprox(1e-9, 0))
}
