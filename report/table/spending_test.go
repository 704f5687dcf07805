package table

import (
	"io"
	"strings"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestSpendingMarkdown: what was paid for has a line, whether it was rented or not; what nobody knows a price of has none.
func TestSpendingMarkdown(t *testing.T) {
	about := figure.About{Spending: []figure.Spending{
		{Run: "r1", Host: "own", Held: 10}, {Run: "r1", Host: "h", Price: 36, Held: 60, Measuring: 50, Idle: 10, Cost: 0.6, IdleCost: 0.1},
		{Run: "r1", Host: "b", Box: "b-3 of fake", Price: 36, Held: 600, Booting: 100, Preparing: 0.9, Starting: 99.1, Measuring: 300, Idle: 100, Cost: 6, IdleCost: 1, Told: 5.5, Open: true},
	}}
	text := reporttest.Written(t, func(w io.Writer) error { return Markdown(w, nil, about) })
	for _, want := range []string{
		"| Run | Host | Box | Held | Of that booting | Of that preparing | Of that starting | Of that measuring | Of that idle | USD per hour | USD in all | USD idle | USD by the provider |",
		"| r1 | h | - | 1m0s | - | 0s | 0s | 50s | 10s | 36.00 | 0.60 | 0.10 | - |",
		"| r1 | b | b-3 of fake, rented still | 10m0s | 1m40s | 1s | 1m39s | 5m0s | 1m40s | 36.00 | 6.00 | 1.00 | 5.50 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nis not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "own") {
		t.Error(text)
	}
	about.Spending = about.Spending[:2]
	if text := reporttest.Written(t, func(w io.Writer) error { return Markdown(w, nil, about) }); !strings.Contains(text, "| r1 | h | 1m0s | 0s | 0s | 50s | 10s | 36.00 | 0.60 | 0.10 |") {
		t.Error(text)
	}
}
