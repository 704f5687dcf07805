package apply_test

import (
	"strings"
	"testing"
	"time"

	"hclbench/apply"
	"hclbench/testhost"
)

// BenchmarkOverhead measures what apply adds to the engine's own time on a host
// that has everything already: from the moment in which the engine is up, by its
// own log, to the first request of the first cell; and the tear-down of a
// container that stops at once.
func BenchmarkOverhead(b *testing.B) {
	host, ref := engineOn(b, testhost.Options{}, map[string]string{"ENGINE_TTFT": "1ms"})
	var waiting, stopping time.Duration
	for b.Loop() {
		bench := newBench(b, host) // an empty store: everything is to be measured
		var up, stop, down time.Time
		r := bench.apply(b.Context(), one(ref, "", ""), func(e apply.Event) {
			switch {
			case e.Type == apply.Ready:
				up = logged(b, host, "Application startup complete")
			case e.Message == "stopping":
				stop = e.Time
			case e.Type == apply.Down:
				down = e.Time
			}
		})
		if r.err != nil || r.Void > 0 {
			b.Fatalf("%+v, %v", r.Outcome, r.err)
		}
		waiting += r.rows[0].Summary.Started.Sub(up)
		stopping += down.Sub(stop)
	}
	waiting, stopping = waiting/time.Duration(b.N), stopping/time.Duration(b.N)
	b.ReportMetric(float64(waiting.Milliseconds()), "ms-to-first-request")
	b.ReportMetric(float64(stopping.Milliseconds()), "ms-to-tear-down")
	b.ReportMetric(0, "ns/op")
	if waiting > time.Second {
		b.Errorf("the first request comes %s after the engine is up, want 1 s at most", waiting)
	}
	if stopping > 3*time.Second {
		b.Errorf("taking down takes %s, want 3 s at most", stopping)
	}
}

// logged is when the engine on the host wrote a line.
func logged(b *testing.B, host *testhost.Host, text string) time.Time {
	b.Helper()
	id, err := host.Command("docker", "ps", "--quiet").Output()
	if err != nil {
		b.Fatal(err)
	}
	out, err := host.Command("docker", "logs", "--timestamps", strings.TrimSpace(string(id))).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, text) {
			stamp, _, _ := strings.Cut(line, " ")
			t, err := time.Parse(time.RFC3339Nano, stamp)
			if err != nil {
				b.Fatal(err)
			}
			return t
		}
	}
	b.Fatalf("the engine has not logged %q:\n%s", text, out)
	return time.Time{}
}
