package table

import (
	"strings"
	"testing"

	"hclbench/report/reporttest"
	"hclbench/telemetry"
)

// TestMembersTable: a terminal has the figure over all GPUs first.
func TestMembersTable(t *testing.T) {
	reporttest.Holds(t, table(t, reporttest.FourHosts(), 80), "output  per GPU  out/decode GPU  in/prefill GPU")
	reporttest.Holds(t, table(t, reporttest.FourHosts(), 0), "output  per GPU  out/decode GPU  in/prefill GPU")
	reporttest.Holds(t, table(t, reporttest.TwoHosts(), 80), "per GPU")
	if text := table(t, reporttest.TwoHosts(), 0); strings.Contains(text, "decode") {
		t.Errorf("figures of roles that it does not have:\n%s", text)
	}
}

// TestPrefillHits: whose lookups the cache hits of prefill and decode are of is said where they stand.
func TestPrefillHits(t *testing.T) {
	rows, hits := reporttest.FourHosts(), 0.25
	const note = "cache hits are of the prompts that prefill looked up"
	if text := table(t, rows, 0); strings.Contains(text, note) {
		t.Errorf("there are none:\n%s", text)
	}
	rows[0].Telemetry = &telemetry.Record{PrefixHitRate: &hits}
	reporttest.Holds(t, table(t, rows, 0), "cache hits", note)
	if text := table(t, rows, 40); strings.Contains(text, note) {
		t.Errorf("they are left out:\n%s", text)
	}
	whole := reporttest.TwoHosts()
	whole[0].Telemetry = &telemetry.Record{PrefixHitRate: &hits}
	if text := table(t, whole, 0); !strings.Contains(text, "cache hits") || strings.Contains(text, note) {
		t.Errorf("an engine without decode looks up all prompts:\n%s", text)
	}
}
