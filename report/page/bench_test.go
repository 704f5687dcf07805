package page

import (
	"fmt"
	"io"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
)

// What a report of ten thousand cells takes; the aim is three seconds.
func BenchmarkTenThousandCells(b *testing.B) {
	rows := tenThousand()
	for name, write := range map[string]func() error{
		"html":  func() error { return HTML(io.Discard, rows, figure.About{}) },
		"table": func() error { return table.Table(io.Discard, rows, table.Options{Width: 120}) },
		"csv":   func() error { return table.CSV(io.Discard, rows, figure.About{}) },
		"json":  func() error { return table.JSON(io.Discard, rows, figure.About{}) },
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

// tenThousand are the cells of a lab that turns everything: five engines, ten
// concurrencies, ten lengths, four flags of the engine, five repetitions.
func tenThousand() []results.Row {
	var rows []results.Row
	for e := range 5 {
		for c := range 10 {
			for o := range 10 {
				for chunk := range 4 {
					for repetition := range 5 {
						r := reporttest.Row(fmt.Sprintf("vllm.e%d", e), int64(1)<<c, 100+float64(len(rows)%97), 20+float64(e))
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
