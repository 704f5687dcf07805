package compare

import (
	"io"
	"strings"
	"testing"

	"hclbench/report/reporttest"
)

// TestForcedCompared: forced figures are not like others, and a gate does not take them for those.
func TestForcedCompared(t *testing.T) {
	told, real := reporttest.Accepting()[:1], reporttest.Accepting()[:1]
	real[0].Deployment.Identity = nil
	d, err := Diff("a", real, "b", told, DefaultMetrics())
	if err != nil {
		t.Fatal(err)
	}
	text := reporttest.Written(t, func(w io.Writer) error { return d.Write(w, "text", 0) })
	reporttest.Holds(t, text, "B forced acceptance 3.12", "another acceptance")
	limit, err := ParseLimit("output_throughput < -5%")
	if err != nil {
		t.Fatal(err)
	}
	for allow, want := range map[string]Result{"": Unknown, "acceptance": Pass} {
		if err := d.Check([]GateLimit{limit}, strings.Fields(allow)); err != nil {
			t.Fatal(err)
		}
		if got := d.Checks[0]; got.Result != want {
			t.Errorf("allowing %q: %s %s, want %s", allow, got.Result, got.Why, want)
		}
	}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return d.Write(w, "json", 0) }),
		`"forced_acceptance_b": {`, `"tokens_per_step": 3.12`)
	if same, _ := Diff("a", told, "b", told, DefaultMetrics()); len(same.Cells[0].Unlike) > 0 {
		t.Errorf("forced alike, and unlike in %+v", same.Cells[0].Unlike)
	}
}
