package measure

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// sentEvery are n completed requests, one sent each second, whose TTFT are 1, 2, …
// times unit and which end half a second later.
func sentEvery(second, unit time.Duration, n int) []load.Record {
	var records []load.Record
	for i := range n {
		at := time.Duration(i) * second
		first := at + time.Duration(i+1)*unit
		records = append(records, load.Record{Seq: i, Sent: at, First: first, Last: first + 500*msec, End: first + 500*msec,
			Gaps: []time.Duration{100 * msec, 400 * msec}, OutputTokens: 3})
	}
	return records
}

func line(metric string, percentile float64, most time.Duration) load.Objective {
	return load.Objective{Metric: metric, Percentile: percentile, Max: load.Duration(most)}
}

// TestObjectives: a line with a percentile bounds the percentile, one without bounds each request.
func TestObjectives(t *testing.T) {
	records := sentEvery(time.Second, 10*msec, 101) // TTFT 10 to 1010 ms
	slo := []load.Objective{
		line("ttft", 99, time.Second), line("ttft", 99, 999*msec), line("ttft", 50, 510*msec),
		line("ttft", 0, time.Second), line("ttft", 0, 1010*msec),
		line("itl", 75, 399*msec), line("itl", 0, 250*msec), line("tpot", 90, 250*msec),
		line("e2el", 99.9, 1509*msec), line("normalized_latency", 100, 504*msec),
	}
	want := []load.Attainment{
		{Objective: slo[0], Count: 101, Value: 1000, Within: new(100. / 101), Met: true}, {Objective: slo[1], Count: 101, Value: 1000, Within: new(99. / 101), Met: false}, {Objective: slo[2], Count: 101, Value: 510, Within: new(51. / 101), Met: true},
		{Objective: slo[3], Count: 101, Value: 1010, Within: new(100. / 101), Met: false}, {Objective: slo[4], Count: 101, Value: 1010, Within: new(1.0), Met: true},
		{Objective: slo[5], Count: 202, Value: 400, Within: new(1.0), Met: false}, {Objective: slo[6], Count: 101, Value: 250, Within: new(1.0), Met: true}, {Objective: slo[7], Count: 101, Value: 250, Within: new(1.0), Met: true},
		{Objective: slo[8], Count: 101, Value: 1509, Within: new(100. / 101), Met: true}, {Objective: slo[9], Count: 101, Value: 1510. / 3, Within: new(1.0), Met: true},
	}
	w := load.Workload{Requests: 101, Concurrency: 1, SLO: slo}
	s := Summarize(w, []float64{99}, time.Time{}, 102*time.Second, records)
	if diff := cmp.Diff(want, s.Objectives, approx(1e-6)); diff != "" {
		t.Errorf("objectives (-want +got):\n%s", diff)
	}

	t.Run("failed requests are not within", func(t *testing.T) {
		records := append(sentEvery(time.Second, 10*msec, 3), load.Record{Seq: 3, Sent: time.Second, End: time.Second, Class: load.ClassStatus})
		got := load.Summary{}.Under([]load.Objective{line("ttft", 0, time.Second), line("ttft", 99, time.Second)}, records).Objectives
		if got[0].Met || *got[0].Within != 0.75 || got[1].Met || *got[1].Within != 0.75 || got[1].Value != 30 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a percentile is of all that were sent", func(t *testing.T) {
		records := sentEvery(time.Second, 10*msec, 90) // TTFT 10 to 900 ms
		for range 10 {
			records = append(records, load.Record{Seq: 3, Sent: time.Second, End: time.Second, Class: load.ClassStatus})
		}
		slo := []load.Objective{line("ttft", 90, 900*msec), line("ttft", 90, 899*msec), line("ttft", 91, time.Minute), line("ttft", 45, 456*msec), line("itl", 95, time.Minute)}
		s := Summarize(load.Workload{Requests: 100, Concurrency: 1, SLO: slo}, []float64{45, 90, 91}, time.Time{}, 102*time.Second, records)
		for i, met := range []bool{true, false, false, true, false} {
			if o := s.Objectives[i]; o.Met != met {
				t.Errorf("%s: %+v, want met %v", o.Name(), o, met)
			}
		}
		known := s
		known.TTFT.Percentiles = map[string]float64{"90": 811, "99": 892}
		slo = []load.Objective{line("ttft", 85, 892*msec), line("ttft", 85, 891*msec), line("ttft", 95, time.Minute)}
		for i, met := range []bool{true, false, false} {
			if o := known.Under(slo, nil).Objectives[i]; o.Met != met {
				t.Errorf("without records, %s: %+v, want met %v", o.Name(), o, met)
			}
		}
	})
	t.Run("of the window", func(t *testing.T) {
		w := w
		w.SLO, w.CutEnd = []load.Objective{line("ttft", 100, 500*msec), line("e2el", 0, 900*msec)}, load.Duration(52*time.Second)
		s := Summarize(w, nil, time.Time{}, 102*time.Second, records)
		if a := s.Objectives[0]; !a.Met || a.Count != 50 || a.Value != 500 {
			t.Errorf("of the first 50 s: %+v", a)
		}
		if a := s.Untrimmed.Objectives[0]; a.Met || a.Count != 101 {
			t.Errorf("of the whole run: %+v", a)
		}
	})
	t.Run("an SLO of today", func(t *testing.T) {
		none, cut := w, load.Duration(52*time.Second)
		none.SLO, none.CutEnd, w.CutEnd = nil, cut, cut
		then, now := Summarize(none, nil, time.Time{}, 102*time.Second, records), Summarize(w, nil, time.Time{}, 102*time.Second, records)
		judged := now.Under(nil, records).Under(w.SLO, records) // what is judged later has no interval of goodput
		if diff := cmp.Diff(judged, then.Under(w.SLO, records)); diff != "" {
			t.Errorf("measured with it, and without (-with +judged later):\n%s", diff)
		}
		if diff := cmp.Diff(then, now.Under(nil, records)); diff != "" {
			t.Errorf("without any (-want +got):\n%s", diff)
		}
	})
	t.Run("without records", func(t *testing.T) {
		got := s.Under([]load.Objective{line("ttft", 99, time.Second), line("ttft", 42, time.Second), line("ttft", 0, time.Second)}, nil)
		if o := got.Objectives; !o[0].Met || o[0].Value != 1000 || o[1].Met || o[1].Count != 0 || o[2].Met || got.Goodput != nil {
			t.Errorf("%+v, goodput %v", o, got.Goodput)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		text, err := json.Marshal(s.Objectives[0])
		const want = `{"metric":"ttft","percentile":99,"max":"1s","count":101,"value_ms":1000,"within":0.9900990099009901,"met":true}`
		if err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
	})
}

// TestGoodputOfPercentiles: of several lines about one metric, the one that bounds
// the most requests says which are good.
func TestGoodputOfPercentiles(t *testing.T) {
	records := sentEvery(time.Second, 10*msec, 100)
	for _, c := range []struct {
		slo  []load.Objective
		want float64 // of 100
	}{
		{[]load.Objective{line("ttft", 99, 500*msec)}, 50},
		{[]load.Objective{line("ttft", 50, 100*msec), line("ttft", 99, 500*msec)}, 50},
		{[]load.Objective{line("ttft", 99, 500*msec), line("ttft", 0, 800*msec)}, 80},
		{[]load.Objective{line("ttft", 99, 500*msec), line("e2el", 50, 700*msec)}, 20},
	} {
		s := load.Summary{Part: load.Part{Figures: load.Figures{Duration: 1}}}.Under(c.slo, records)
		if s.Goodput == nil || *s.Goodput != c.want {
			t.Errorf("%v: goodput %v, want %v", c.slo, s.Goodput, c.want)
		}
	}
}

func TestObjectiveName(t *testing.T) {
	for want, o := range map[string]load.Objective{"ttft": {Metric: "ttft"}, "ttft_p99": {Metric: "ttft", Percentile: 99}, "e2el_p99_9": {Metric: "e2el", Percentile: 99.9}} {
		if got := o.Name(); got != want {
			t.Errorf("%+v is named %s, want %s", o, got, want)
		}
	}
}

// TestFirstAnswer: an SLO may bound the time to the first token of the answer, which is the first of all where
// answers have no reasoning; an answer that is all reasoning is within no bound.
func TestFirstAnswer(t *testing.T) {
	plain := sentEvery(time.Second, 10*msec, 10) // TTFT 10 to 100 ms
	thinking := sentEvery(time.Second, 10*msec, 10)
	for i := range thinking {
		thinking[i].Reasoning, thinking[i].Answered = 1, thinking[i].First+100*msec
	}
	thinking[9].Answered = 0 // it never got to an answer
	slo := []load.Objective{line("ttfa", 0, 150*msec), line("ttfa", 50, 160*msec)}
	for name, x := range map[string]struct {
		records []load.Record
		within  float64
		count   int
		value   float64
	}{"plain": {plain, 1, 10, 100}, "reasoning": {thinking, 0.5, 10, 190}} {
		s := Summarize(load.Workload{Requests: 10, Concurrency: 1, SLO: slo}, nil, time.Time{}, 11*time.Second, x.records)
		a := s.Objectives[0]
		if *a.Within != x.within || a.Count != x.count || a.Value != x.value || *s.Goodput != x.within*10/11 {
			t.Errorf("%s: %+v, goodput %g", name, a, *s.Goodput)
		}
		if p50 := s.Objectives[1]; p50.Count != x.count || !p50.Met {
			t.Errorf("%s: %+v", name, p50)
		}
	}
}

// TestNoAnswer: answers that never got beyond their reasoning are beyond any bound of a percentile of the
// time to the first token of the answer, which without records is told of none but where all got there.
func TestNoAnswer(t *testing.T) {
	slo := []load.Objective{line("ttfa", 99, time.Second), line("ttfa", 50, time.Second), line("ttfa", 10, time.Second)}
	for name, x := range map[string]struct {
		reasoning, answered int
		of                  int // their p99, p50 and p10 are met, of so many values
		met                 [3]bool
		without             int // values without records
	}{
		"few":    {100, 2, 100, [3]bool{}, 0},
		"half":   {100, 60, 100, [3]bool{false, true, true}, 0},
		"none":   {100, 0, 100, [3]bool{}, 0},
		"all":    {100, 100, 100, [3]bool{true, true, true}, 100},
		"no one": {0, 0, 100, [3]bool{true, true, true}, 100}, // no answer has reasoning
	} {
		records := sentEvery(time.Second, msec, 100)
		for i := range x.reasoning {
			records[i].Reasoning = 1
			if i < x.answered {
				records[i].Answered = records[i].First + msec
			}
		}
		s := Summarize(load.Workload{Requests: 100, Concurrency: 1, SLO: slo}, []float64{99, 50, 10}, time.Time{}, 101*time.Second, records)
		if _, err := json.Marshal(s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		without := s.Under(slo, nil)
		for i, a := range s.Objectives {
			if a.Met != x.met[i] || a.Count != x.of {
				t.Errorf("%s: %+v, want met %v of %d", name, a, x.met[i], x.of)
			}
			if a := without.Objectives[i]; a.Count != x.without || a.Met != (x.without > 0) {
				t.Errorf("%s, without records: %+v, want %d values", name, a, x.without)
			}
		}
	}
}
