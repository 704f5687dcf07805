package table

import (
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/reporttest"
)

// TestAdapters: each adapter has a line, and so has what the model itself has answered.
func TestAdapters(t *testing.T) {
	s := &load.Summary{}
	if adaptersOf(s) != nil {
		t.Error("a load without adapters has lines")
	}
	for i, name := range []string{"", "sql"} {
		a := load.OfAdapter{Name: name}
		a.Completed, a.OutputThroughput, a.TTFT = 1500-i, 250, load.Stats{Count: 1500, Median: 31.5, Percentiles: map[string]float64{"99": 40}}
		s.Adapters = append(s.Adapters, a)
	}
	s.Adapters = append(s.Adapters, load.OfAdapter{Name: "unused"})
	var b strings.Builder
	if err := Summary(&b, s, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Adapter             requests  failed  tok/s  TTFT p50   p99", "(the model itself)     1,500       0    250      31.5  40.0", "sql                    1,499", "unused                     0       0      0         -     -"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestNoneEnded: conversations of which none came to its end are told of, and have no means.
func TestNoneEnded(t *testing.T) {
	s := &load.Summary{}
	s.Sessions = &load.Sessions{Begun: 3}
	reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return Summary(w, s, 0) }), "3 begun, none ended\n")
}
