package metric

import (
	"slices"
	"testing"
)

// TestTable: every metric has all that a table and a lab need, and no two share a name.
func TestTable(t *testing.T) {
	var names []string
	for _, m := range All(func(Timing) []string { return []string{"p90", "p99.9"} }) {
		named, ok := Named(m.Name)
		if !ok || named != m {
			t.Errorf("Named(%q) = %+v, %t, want %+v", m.Name, named, ok, m)
		}
		if m.Title == "" || m.Short == "" || m.Heading() == "" || m.Better < Less || m.Better > More {
			t.Errorf("%+v lacks something", m)
		}
		names = append(names, m.Name)
		if m.Heading() != m.Name {
			names = append(names, m.Heading())
		}
	}
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); len(once) != len(names) {
		t.Errorf("some of %v are there twice", names)
	}
}

func TestNamed(t *testing.T) {
	for _, name := range []string{"", "throughput", "p_ttft_ms", "p101_ttft_ms", "p99_ttft", "p99_queue_ms", "_ttft_ms", "p99x_ttft_ms"} {
		if m, ok := Named(name); ok {
			t.Errorf("Named(%q) = %+v, want none", name, m)
		}
	}
}
