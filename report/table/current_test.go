package table

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/telemetry"
)

func TestRepetitions(t *testing.T) {
	row := func(engine string, concurrency int64, repetition int, throughput float64, verdict string) results.Row {
		hits := throughput / 1000
		r := results.Row{Cell: results.Cell{
			Benchmark: "b", Axes: results.Axes{{Name: "concurrency", Value: concurrency}}, Repetition: repetition,
			Summary: &load.Summary{Part: load.Part{Figures: load.Figures{Completed: 1, OutputThroughput: throughput},
				Judgement: load.Judgement{Verdict: load.Verdict{Verdict: verdict}}}},
			Telemetry: &telemetry.Record{PrefixHitRate: &hits},
		}}
		r.Deployment.Engine = engine
		return r
	}
	rows := []results.Row{
		row("a", 1, 1, 100, load.Valid), row("a", 2, 1, 300, load.Valid),
		row("a", 1, 2, 120, load.Suspect), row("a", 2, 2, 500, load.Void), // one is left of the second cell
		row("b", 1, 1, 10, load.Valid), row("a", 1, 3, 104, load.Valid), row("b", 1, 2, 20, load.Valid),
	}
	got := figure.Repetitions(rows)
	type short struct {
		Engine           string
		Repetitions      int
		Throughput, Hits figure.Spread
	}
	var is []short
	for _, r := range got {
		is = append(is, short{r.Engine, r.Repetitions, r.Figures["output_throughput"], r.Figures["prefix_cache_hit_rate"]})
	}
	want := []short{
		{"a", 3, figure.Spread{N: 2, Median: 102, Min: 100, Max: 104}, figure.Spread{N: 2, Median: 10.2, Min: 10, Max: 10.4}}, // without the suspect one
		{"b", 2, figure.Spread{N: 2, Median: 15, Min: 10, Max: 20}, figure.Spread{N: 2, Median: 1.5, Min: 1, Max: 2}},
	}
	reporttest.Check(t, "Repetitions", want, is)

	reporttest.Holds(t, strings.Join(spreadLines(got, 0), "\n"), "2 of 3") // one is left out

	text := reporttest.Written(t, func(w io.Writer) error { return JSON(w, rows, figure.About{}) })
	var doc struct {
		Repeated []struct {
			Repetitions int
			Figures     map[string]figure.Spread
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Repeated) != 2 ||
		doc.Repeated[0].Figures["output_throughput"] != want[0].Throughput {
		t.Errorf("JSON: %v %+v", err, doc)
	}
}
