package figure

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestPerRole: what a group brings is shared out to all its GPUs, and beside that to those of
// decode and of prefill; its price is that of its part of all hosts.
func TestPerRole(t *testing.T) {
	unknown := reporttest.FourHosts()
	unknown[0].Deployment.Members[1].GPUCount = 0
	mixed := reporttest.Of("group.mixed", reporttest.Member("prefill", 0, 0, "n0", 8), reporttest.Member("decode", 0, 0, "n1", 4))
	mixed[0].Deployment.Members[1].GPUs, mixed[0].Deployment.Members[1].Price = "8xB200", 50
	mixed[0].Deployment.SetMembers(mixed[0].Deployment.Members)
	unpriced := reporttest.TwoHosts()
	unpriced[0].Deployment.Members[1].Price = 0
	unpriced[0].Deployment.SetMembers(unpriced[0].Deployment.Members)
	for name, c := range map[string]struct {
		rows                  []results.Row
		gpus, decode, prefill float64 // that share; 0: there is no such figure
		text                  string
		usd                   float64
	}{
		"four hosts":  {reporttest.FourHosts(), 24, 8, 16, "24xH200", 90.5},
		"two hosts":   {reporttest.TwoHosts(), 16, 0, 0, "16xH200", 60},
		"one host":    {reporttest.OneHost(), 4, 2, 2, "8xH200", 15},
		"not told":    {unknown, 24, 8, 0, "24xH200", 90.5},
		"two models":  {mixed, 12, 4, 8, "8xH200, 8xB200", 30 + 25},
		"one unknown": {unpriced, 16, 0, 0, "16xH200", 0},
	} {
		r := &c.rows[0]
		for _, f := range []struct {
			Metric
			gpus, tokens float64
		}{
			{PerGPU, c.gpus, r.Summary.OutputThroughput}, {PerDecodeGPU, c.decode, r.Summary.OutputThroughput},
			{PerPrefillGPU, c.prefill, r.Summary.InputThroughput},
		} {
			got, ok := f.Value(r)
			if ok != (f.gpus > 0) || ok && got != f.tokens/f.gpus {
				t.Errorf("%s: %s is %v, %t; want %v over %v GPUs", name, f.Name, got, ok, f.tokens, f.gpus)
			}
		}
		if got := r.Deployment.GPUs; got != c.text {
			t.Errorf("%s: GPUs %s, want %s", name, got, c.text)
		}
		if got := price(&r.Deployment); got != c.usd {
			t.Errorf("%s: %v USD an hour, want %v", name, got, c.usd)
		}
	}
}

// TestMembersSpent: every host of a group was held, and paid for.
func TestMembersSpent(t *testing.T) {
	var spent []string
	for _, s := range Spent(slices.Concat(reporttest.FourHosts(), reporttest.OneHost()), nil) {
		spent = append(spent, fmt.Sprintf("%s %g %g", s.Host, s.Price, s.Held))
	}
	if got, want := strings.Join(spent, ", "), "n0 30 3660, n1 30 3660, n2 30 3660, n3 0.5 3660"; got != want {
		t.Errorf("spent on %s, want %s", got, want)
	}
}
