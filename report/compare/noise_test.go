package compare

import (
	"strings"
	"testing"
	"time"

	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestNoise: what a box cannot show is no change, in the table as in the gate, and both name it.
func TestNoise(t *testing.T) {
	noise := &results.Noise{Box: "b", Engine: "vllm.h200", Version: "0.7.3", Host: "h200", Starts: 4,
		Measured: time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC), Spread: map[string]float64{"output_throughput": 0.02}}
	cells := func(noise *results.Noise, values ...float64) []results.Row {
		rows := reporttest.Repeated("vllm.h200", 4, values...)
		for i := range rows {
			rows[i].Noise = noise
		}
		return rows
	}
	a, b := []float64{1000, 1001, 1002, 1003}, []float64{939, 940, 941, 942}
	const limit = "output_throughput < -5%"
	for _, c := range []struct {
		name          string
		a, b          []results.Row
		result        Result
		verdict, said string
	}{
		{"no proof", cells(nil, a...), cells(nil, b...), Fail, "worse", "p=0.029"},
		{"below the floor", cells(noise, a...), cells(noise, b...), Unknown, "level",
			"Output throughput, tok/s: this box cannot show less than 9.5%"},
		{"below it, of one repetition each", cells(noise, 1000), cells(noise, 940), Unknown, "level", "cannot show less than 9.5%"},
		{"beyond it", cells(noise, a...), cells(noise, 800, 801, 802, 803), Fail, "worse", "p=0.029"},
		{"beyond it, of one repetition each", cells(noise, 1000), cells(noise, 800), Fail, "unknown", "too few to tell"},
		{"kept, whatever the floor", cells(noise, a...), cells(noise, 980, 981, 982, 983), Pass, "level", "cannot show"},
		{"one box of two", cells(noise, a...), cells(nil, b...), Unknown, "level", "these boxes cannot show less than 6.6%"},
	} {
		l, err := ParseLimit(limit)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Diff("A", c.a, "B", c.b, []string{"output_throughput"})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check([]GateLimit{l}, nil); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := d.Write(&out, "text", 120); err != nil {
			t.Fatal(err)
		}
		f, x := d.Cells[0].Figures[0], d.Checks[0]
		if f.Verdict != c.verdict || x.Result != c.result || !strings.Contains(out.String(), c.said) {
			t.Errorf("%s: %s, the gate %s (%s); want %s, %s and %q in\n%s", c.name, f.Verdict, x.Result, x.Why, c.verdict, c.result, c.said, out.String())
		}
		if c.result == Unknown && !strings.Contains(x.Why, "cannot show less than") {
			t.Errorf("%s: the gate says %q", c.name, x.Why)
		}
		const note = "Host h200 cannot show less than 9.5% of output throughput: vllm.h200 0.7.3 started 4 times on 2026-11-24."
		if said := strings.Contains(out.String(), note); said != (c.a[0].Noise != nil || c.b[0].Noise != nil) {
			t.Errorf("%s: the note of the box is there: %v\n%s", c.name, said, out.String())
		}
	}
}
