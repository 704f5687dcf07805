package report

import (
	"fmt"
	"io"
	"testing"

	"hclbench/load"
	"hclbench/results"
)

// tenThousand are the cells of a lab that turns everything: five engines, ten
// concurrencies, ten lengths, four flags of the engine, five repetitions.
func tenThousand() []results.Row {
	var rows []results.Row
	for e := range 5 {
		for c := range 10 {
			for o := range 10 {
				for chunk := range 4 {
					for repetition := range 5 {
						r := row(fmt.Sprintf("vllm.e%d", e), int64(1)<<c, 100+float64(len(rows)%97), 20+float64(e))
						r.ID, r.Repetition = fmt.Sprintf("c%d", len(rows)), repetition+1
						r.Axes = results.Axes{{Name: "engine", Value: r.Deployment.Engine}, {Name: "concurrency", Value: int64(1) << c},
							{Name: "output_tokens", Value: int64(100 * (o + 1))}, {Name: "chunk", Value: int64(512 << chunk)}}
						rows = append(rows, r)
					}
				}
			}
		}
	}
	return rows
}

// What a report of ten thousand cells takes; the aim is three seconds.
func BenchmarkTenThousandCells(b *testing.B) {
	rows := tenThousand()
	for name, write := range map[string]func() error{
		"html":  func() error { return HTML(io.Discard, rows, About{}) },
		"table": func() error { return Table(io.Discard, rows, Options{Width: 120}) },
		"csv":   func() error { return CSV(io.Discard, rows) },
		"json":  func() error { return JSON(io.Discard, rows, About{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := write(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What the distributions of one cell take that are drawn from its requests.
func BenchmarkCurves(b *testing.B) {
	records := make([]load.Record, maxCurveRequests)
	for i := range records {
		at := load.Record{OutputTokens: 100}
		at.First, at.Last = 1e6+1e3*(1+at.Sent)*7919%1000, 9e8
		records[i] = at
	}
	r := row("vllm.h200", 4, 100, 20)
	about := About{Records: func(*results.Row) ([]load.Record, error) { return records, nil }}
	for b.Loop() {
		if got, err := about.curves(&r); err != nil || got == nil {
			b.Fatal("no curves")
		}
	}
}
