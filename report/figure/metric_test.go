package figure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load/metric"
)

// TestMetricsAreRead: every metric of the table has a reader here, and nothing is read that it lacks, so that a
// new metric is a row there and a reader here.
func TestMetricsAreRead(t *testing.T) {
	var read []string
	for _, m := range figures() {
		if m.Of == nil {
			t.Errorf("%s is not read", m.Name)
		}
		read = append(read, m.Name)
	}
	if diff := cmp.Diff(metric.Names(metric.Figures()), read); diff != "" {
		t.Errorf("metrics (-table +read):\n%s", diff)
	}
	var keys []metric.Timing
	for _, timing := range Timings {
		keys = append(keys, timing.Timing)
	}
	if diff := cmp.Diff(metric.Timings(), keys); diff != "" {
		t.Errorf("timings (-table +read):\n%s", diff)
	}
}
