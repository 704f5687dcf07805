package say

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/results/formats"
	"hclbench/testhost/golden"
)

// TestAnswers: what a report says first of published studies. Who had the lowest time to first
// token at 64 in flight stands in dstack's.
func TestAnswers(t *testing.T) {
	golden.Check(t, "answers-dstack.txt", findingsText(findingsOf(studied(t, "dstack-deepseek-r1/published/online.csv"), figure.Layout{})))
	golden.Check(t, "answers-gpustack.txt", findingsText(findingsOf(studied(t, "gpustack-h200/published/results.csv"), figure.Layout{})))
	golden.Check(t, "answers-skypilot.txt", findingsText(findingsOf(studied(t, "skypilot-vllm-benchmark/published/results.csv"), figure.Layout{})))
}

// TestDecision: what is in doubt is shown and never the best, who is alone leads only where all were
// tried, and repetitions that overlap are level.
func TestDecision(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Deployment.Kind = reporttest.KindIn(rows[i].Deployment.Engine)
	}
	rows[0].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "a neighbour")}
	again := rows[4]
	again.Repetition, again.Summary = 2, new(*again.Summary)
	again.Summary.TTFT = reporttest.Stats(400)
	rows = append(rows, again)
	golden.Check(t, "answers-doubt.txt", findingsText(findingsOf(rows, figure.Layout{Baseline: "vllm.h200"})))
	golden.Check(t, "answers-alone.txt", findingsText(findingsOf(rows[3:], figure.Layout{})))
	if got := findingsOf(nil, figure.Layout{}); got != nil {
		t.Errorf("got %v of no rows, want nothing", got)
	}
}

// TestWithinSLO: the most that meets the SLO has a place of its own, and what misses it offers nothing there.
func TestWithinSLO(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Summary.Objectives = []load.Attainment{{Count: 64, Met: i != 2 && i < 5}}
	}
	d := findingsOf(rows, figure.Layout{})[0].Tables[0]
	at := slices.IndexFunc(d.Places, func(p figure.Spot) bool { return p.Kind == "slo" })
	if at != 1 {
		t.Fatalf("places %+v, want the SLO's after the peak's", d.Places)
	}
	for i, want := range []string{"16 in flight", "16 in flight"} {
		if c := d.Rows[i].Choices[at]; c.At != want || c.Best != (i == 0) {
			t.Errorf("%s within the SLO: %+v, want its cell %s", d.Rows[i].Series.Label, c, want)
		}
	}
}

// TestSentence: a sentence begins with a letter of any script.
func TestSentence(t *testing.T) {
	for text, want := range map[string]string{"": "", "überlast": "Überlast", "128 in": "128 in", "online": "Online"} {
		if got := Sentence(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestOneBaseline: all tables of an answer have the baseline of the first.
func TestOneBaseline(t *testing.T) {
	full := func() *figure.Decision {
		return told(1, "", placesOf("4"), map[string][]float64{"A": {1}, "B": {2}})
	}
	first := full()
	for _, base := range []int{-1, 1} {
		first.Baseline = base
		d := full()
		d.PlaceUnit, d.Rows = "", slices.Clone(first.Rows)
		if d.Judge(&figure.Layout{}, first); d.Baseline != base {
			t.Errorf("baseline %d, want that of the first table, %d", d.Baseline, base)
		}
	}
}

// TestSayLevel: level are two at least, the same ones wherever anybody is the best, and never at the peak alone.
func TestSayLevel(t *testing.T) {
	for _, c := range []struct {
		rows map[string][]float64
		want string
	}{
		{map[string][]float64{"A": {50, 20, 10}, "B": {50, 20, 10}},
			"Speed is level everywhere: A and B differ by less than 1 %, or than their repetitions do."},
		{map[string][]float64{"A": {50, 20, 10}, "B": {50, 20, 0}},
			"Speed is level in 1 of 1 cases where both were tried: A and B differ by less than 1 %, or than their repetitions do."},
		{map[string][]float64{"A": {50, 0, 10}, "B": {40, 20, 0}}, "A peaks highest at 50.0 tok/s, +25 % against B."},
		{map[string][]float64{"A": {50, 20, 60}, "B": {50, 20, 50}, "C": {50, 10, 60}}, ""},
	} {
		if got := decided(told(1, "", placesOf("peak", "4", "8"), c.rows)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.rows, got, c.want)
		}
	}
}

// TestBeyond: of what is suspect only the best would be ahead, and a better suspect cell stays beside a
// sure one of its series.
func TestBeyond(t *testing.T) {
	d := told(1, "", placesOf("4"), map[string][]float64{"A": {-50}, "B": {-80}, "C": {-80.1}, "D": {-10}})
	for i, want := range []bool{false, true, true, false} {
		if got := d.Rows[i].Choices[0].Beyond; got != want {
			t.Errorf("all suspect, row %d: beyond %v, want %v", i, got, want)
		}
	}
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Deployment.Kind = reporttest.KindIn(rows[i].Deployment.Engine)
	}
	rows[5].Summary.OutputThroughput *= 3
	rows[5].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "a neighbour")}
	want := "H200 · SGLang peaks highest at 221 tok/s, ×3.23 against H200 · vLLM. H200 · vLLM would peak at 245 tok/s, but is suspect there."
	if got := findingsOf(rows, figure.Layout{})[0].Sentences[0]; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end in %q", got, want)
	}
}

// TestSayAlone: of a series alone its best is told, and a suspect cell that is better.
func TestSayAlone(t *testing.T) {
	for _, c := range []struct {
		better int
		values []float64
		want   string
	}{
		{1, []float64{10, 30, -20}, "Speed of A is at best 30.0 tok/s, at 8 in flight."},
		{1, []float64{10, 30, -40}, "Speed of A is at best 30.0 tok/s, at 8 in flight; 40.0 tok/s at 16 in flight would be better, but is suspect."},
		{-1, []float64{-10, 30, 40}, "Speed of A is at best 30.0 tok/s, at 8 in flight; 10.0 tok/s at 4 in flight would be better, but is suspect."},
		{1, []float64{-10, 0, -40}, "Speed of A is at best 40.0 tok/s, at 16 in flight, which is suspect."},
	} {
		if got := decided(told(c.better, "", placesOf("4", "8", "16"), map[string][]float64{"A": c.values})); got != c.want {
			t.Errorf("%v: got %q, want %q", c.values, got, c.want)
		}
	}
}

// TestSayChanges: the series that is told against the baseline is the one that says most, and what is
// level or suspect is not ahead.
func TestSayChanges(t *testing.T) {
	for _, c := range []struct {
		rows map[string][]float64
		want string
	}{
		{map[string][]float64{"base": {100, 100}, "SGLang": {100.2, 100.2}, "TensorRT-LLM": {203, 150}},
			"Speed of TensorRT-LLM is better everywhere than that of base: 4 in flight ×2.03, 8 +50 %."},
		{map[string][]float64{"base": {100, 100}, "A": {99.2, 99.5}, "B": {50, 80}},
			"Speed of A is level with that of base: 4 in flight −0.8 %, 8 −0.5 %."},
		{map[string][]float64{"base": {100, 100, 100}, "A": {100.5, 130, -200}},
			"Speed of A is better in 1 of 2 cases than that of base: 4 in flight +0.5 %, 8 +30 %, 16 +100 % (suspect)."},
		{map[string][]float64{"base": {100}, "A": {-200}},
			"Speed of A is suspect everywhere beside that of base: 4 in flight +100 % (suspect)."},
	} {
		d := told(1, "base", placesOf("4", "8", "16")[:len(c.rows["base"])], c.rows)
		if got := decided(d); got != c.want {
			t.Errorf("%v: got %q, want %q", c.rows, got, c.want)
		}
	}
}

// TestSayUntold: where repetitions lie too far apart to tell, nobody is level.
func TestSayUntold(t *testing.T) {
	d := told(1, "base", placesOf("4"), map[string][]float64{"base": {200}, "A": {210}})
	for i, values := range [][]float64{{180, 240}, {100, 300}} { // A, base
		d.Rows[i].Choices[0].Evidence = figure.Evidence{Spread: figure.SpreadOf(values), Values: values, Of: 2}
	}
	d.Judge(&figure.Layout{Baseline: "base"}, nil)
	want := "Speed of A is not told apart by repetitions from that of base: 4 in flight +5.0 %."
	if got := decided(d); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// studied are the cells of a table that others have published.
func studied(t *testing.T, file string) (rows []results.Row) {
	t.Helper()
	f, err := os.Open("../../examples/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, _, err := formats.ReadTable(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := (formats.Unsaid{Benchmark: "study"}).Complete(all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		rows = append(rows, results.Row{Cell: all[i].Cell, Deployment: all[i].Deployment, Run: results.Run{Command: "import"}})
	}
	return rows
}

func findingsOf(rows []results.Row, layout figure.Layout) []Finding {
	return Findings(rows, figure.NewSeries(rows, layout.Series), &layout)
}

// findingsText is all that is answered, as people may read it.
func findingsText(all []Finding) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "%s\n%s\n", a.Workload, a.Text)
		for _, d := range a.Tables {
			fmt.Fprintf(&b, "\n  %s; %s\n", d.Title, d.Under)
			for _, r := range d.Rows {
				fmt.Fprintf(&b, "  %28s", r.Series.Label)
				for i, c := range r.Choices {
					text := "-"
					if c.Known() {
						text = number.Text(c.Median)
					}
					switch {
					case c.Best:
						text += "*"
					case c.Beyond:
						text += "??"
					case c.Doubt:
						text += "?"
					}
					if c.Change != nil {
						text += " " + number.Change(*c.Change)
					}
					fmt.Fprintf(&b, "  %s: %s", d.Places[i].Name, text)
				}
				b.WriteByte('\n')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// told is a table of series at places, of which values say nothing where they are zero, and are suspect
// where they are negative.
func told(better int, baseline string, places []figure.Spot, rows map[string][]float64) *figure.Decision {
	d := &figure.Decision{Title: "Speed", Better: better, Places: places, Baseline: -1, PlaceUnit: "in flight",
		Of: figure.Metric{Metric: metric.Metric{Unit: "tok/s", Better: better}}}
	for i, name := range slices.Sorted(maps.Keys(rows)) {
		r := figure.DecisionRow{Series: &chart.Series{Index: i, Label: name}}
		for _, v := range rows[name] {
			var c figure.Choice
			if v != 0 {
				c.Spread, c.Doubt = figure.SpreadOf([]float64{math.Abs(v)}), v < 0
			}
			r.Choices = append(r.Choices, c)
		}
		d.Rows = append(d.Rows, r)
	}
	d.Judge(&figure.Layout{Baseline: baseline}, nil)
	return d
}

// placesOf are places of these names, the first one the peak's.
func placesOf(names ...string) (all []figure.Spot) {
	for _, n := range names {
		p := figure.Spot{Name: n, Value: n}
		if n == "peak" {
			p.Kind = n
		}
		all = append(all, p)
	}
	return all
}
