package number

import (
	"testing"
)

func TestPercentFactors(t *testing.T) {
	for change, want := range map[float64]string{0.12: "+12 %", 1: "+100 %", 19: "×20.0", -0.5: "−50 %", -0.9986: "÷714", -1: "−100 %"} {
		if got := Change(change); got != want {
			t.Errorf("Change(%v) = %q, want %q", change, got, want)
		}
	}
}
