package place

import (
	"strings"
	"testing"

	"hclbench/provision"
)

// TestDriverLacks: an image with CUDA 13 is told of on a host whose driver is older than it needs.
func TestDriverLacks(t *testing.T) {
	for _, tt := range []struct {
		driver string
		least  int
		lacks  bool
	}{
		{"570.86.15", 580, true}, {"580.65.06", 580, false}, {"595.1", 580, false}, {"535.183.01", 0, false}, {"", 580, false},
	} {
		facts := provision.Facts{GPUs: []provision.GPU{{Driver: tt.driver}}}
		if got := driverLacks(facts, tt.least); (got != "") != tt.lacks || tt.lacks && !strings.Contains(got, "the host has "+tt.driver) {
			t.Errorf("driver %q for %d: %q", tt.driver, tt.least, got)
		}
	}
	if got := driverLacks(provision.Facts{}, 580); got != "" {
		t.Errorf("without GPUs: %q", got)
	}
}
