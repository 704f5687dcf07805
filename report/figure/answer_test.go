package figure

import (
	"math"
	"slices"
	"strings"
	"testing"

	"hclbench/report/reporttest"
	"hclbench/results"
)

// TestLevels: levels of service are few and round, whatever the speeds are.
func TestLevels(t *testing.T) {
	for _, c := range []struct{ speeds, want []float64 }{
		{nil, nil},
		{[]float64{20}, nil},
		{[]float64{0, 20}, nil},
		{[]float64{20, 20}, nil},
		{[]float64{9.2, 38.9}, []float64{10, 15, 20, 25, 30, 35}},
		{[]float64{1.5, 240, 0, math.Inf(1)}, []float64{2, 5, 10, 20, 50, 100, 200}},
		{[]float64{9.51, 9.79}, []float64{9.55, 9.6, 9.65, 9.7, 9.75}},
		{[]float64{100, math.Nextafter(100, 200)}, nil},
		{[]float64{20, 20.1}, nil},
		{[]float64{-5, math.Inf(-1), 0, math.NaN(), 20}, nil},
		{[]float64{math.SmallestNonzeroFloat64, 1e-322}, nil},
	} {
		got := levelsOf(c.speeds)
		if len(got) != len(c.want) || len(got) > maxLevels {
			t.Errorf("levels of %v: got %v, want %v", c.speeds, got, c.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]/c.want[i]-1) > 1e-9 {
				t.Errorf("levels of %v: got %v, want %v", c.speeds, got, c.want)
			}
		}
	}
}

// TestCaseNames: data sets are named as briefly as tells them apart.
func TestCaseNames(t *testing.T) {
	cells := func(datasets ...string) (all []*Sample) {
		for _, d := range datasets {
			axes := []results.Axis{{Name: "dataset", Value: d}}
			all = append(all, &Sample{Benchmark: "b", dataset: d, Rows: []*results.Row{{Cell: results.Cell{Benchmark: "b", Axes: axes}}}})
		}
		return all
	}
	for _, c := range []struct{ datasets, want []string }{
		{[]string{"random.short", "sharegpt.long"}, []string{"short", "long"}},
		{[]string{"text.a", "sharegpt.a", "text.b"}, []string{"text.a", "sharegpt.a", "b"}},
	} {
		all, got := cells(c.datasets...), []string(nil)
		names := caseNames(all)
		for _, s := range all {
			got = append(got, names[s.Case()])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q are named %q, want %q", c.datasets, got, c.want)
		}
	}
	limited := cells("one", "all")
	limited[0].Rows[0].Axes = results.Axes{{Name: "rate", Value: 1.0}}
	limited[1].Rows[0].Axes = nil
	for _, all := range [][]*Sample{limited, {limited[1], limited[0]}} {
		names := caseNames(all)
		if got := names[limited[1].Case()]; got != "no limit" {
			t.Errorf("the load without a rate is named %q beside %q, want no limit", got, names[limited[0].Case()])
		}
	}
}

// TestPublishedTwice: what two have published of one cell is no repetition of it.
func TestPublishedTwice(t *testing.T) {
	rows := reporttest.Matrix()[:2]
	rows[1] = rows[0]
	for i := range rows {
		rows[i].Run = results.Run{ID: []string{"us", "them"}[i], Command: "published"}
	}
	for _, series := range [][]string{nil, {"engine"}} {
		if got := Samples(rows, NewSeries(rows, series)); len(got) != 2 {
			t.Errorf("by %q: %d cells, want one for each who published", series, len(got))
		}
	}
}

// TestSlug: names of files stay short enough for any file system, and long ones apart.
func TestSlug(t *testing.T) {
	long := strings.Repeat("a long name ", 30)
	a, b := Slug(long+"one"), Slug(long+"two")
	if len(a) > 70 || a == b || a != Slug(long+"one") || Slug("TTFT p99") != "ttft-p99" || Slug("モデル") != "x" {
		t.Errorf("%q, %q", a, b)
	}
}
