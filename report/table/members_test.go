package table

import (
	"strings"
	"testing"

	"hclbench/report/reporttest"
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
