package number

import (
	"math"
	"testing"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1.00", 9.994: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 999.6: "1,000",
		1234: "1,234", 123456: "123,456", 1234567.89: "1,234,568", 0.1234: "0.123", 0.01234: "0.0123",
		0.001: "0.00100", 0.00001: "<0.001", -1234.5: "-1,234", -0.5: "-0.500",
		math.Inf(1): "-", math.NaN(): "-",
	} {
		if got := Text(v); got != want {
			t.Errorf("Text(%v) = %q, want %q", v, got, want)
		}
	}
}

// TestShare: what does not differ is not below nothing.
func TestShare(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0%", 0.0001: "0.1%", 0.05: "5.0%", 0.12: "12%"} {
		if got := Share(v); got != want {
			t.Errorf("Share(%v) = %q, want %q", v, got, want)
		}
	}
}
