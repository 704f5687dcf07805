package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
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
	got := Repetitions(rows)
	type short struct {
		Engine           string
		Repetitions      int
		Throughput, Hits Spread
	}
	var is []short
	for _, r := range got {
		is = append(is, short{r.Engine, r.Repetitions, r.Figures["output_throughput"], r.Figures["prefix_cache_hit_rate"]})
	}
	want := []short{
		{"a", 3, Spread{2, 102, 100, 104}, Spread{2, 10.2, 10, 10.4}}, // without the suspect one
		{"b", 2, Spread{2, 15, 10, 20}, Spread{2, 1.5, 1, 2}},
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("Repetitions (-want +got):\n%s", diff)
	}

	if lines := spreadLines(got, 0); !strings.Contains(strings.Join(lines, "\n"), "2 of 3") {
		t.Errorf("nothing says that one is left out: %q", lines)
	}

	var b bytes.Buffer
	if err := JSON(&b, rows, About{}); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Repeated []struct {
			Repetitions int
			Figures     map[string]Spread
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil || len(doc.Repeated) != 2 ||
		doc.Repeated[0].Figures["output_throughput"] != want[0].Throughput {
		t.Errorf("JSON: %v %+v", err, doc)
	}
}
