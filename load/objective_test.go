package load

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sentEvery are n completed requests, one sent each second, whose TTFT are 1, 2, …
// times unit and which end half a second later.
func sentEvery(second, unit time.Duration, n int) []Record {
	var records []Record
	for i := range n {
		at := time.Duration(i) * second
		first := at + time.Duration(i+1)*unit
		records = append(records, Record{Seq: i, Sent: at, First: first, Last: first + 500*msec, End: first + 500*msec,
			Gaps: []time.Duration{100 * msec, 400 * msec}, OutputTokens: 3})
	}
	return records
}

// TestObjectives: a line with a percentile bounds the percentile, one without
// bounds each request.
func TestObjectives(t *testing.T) {
	share := func(f float64) *float64 { return &f }
	records := sentEvery(time.Second, 10*msec, 101) // TTFT 10 to 1010 ms
	slo := []Objective{
		{"ttft", 99, Duration(time.Second)}, {"ttft", 99, Duration(999 * msec)}, {"ttft", 50, Duration(510 * msec)},
		{"ttft", 0, Duration(time.Second)}, {"ttft", 0, Duration(1010 * msec)},
		{"itl", 75, Duration(399 * msec)}, {"itl", 0, Duration(250 * msec)}, {"tpot", 90, Duration(250 * msec)},
		{"e2el", 99.9, Duration(1509 * msec)}, {"normalized_latency", 100, Duration(504 * msec)},
	}
	want := []Attainment{
		{slo[0], 101, 1000, share(100. / 101), true}, {slo[1], 101, 1000, share(99. / 101), false}, {slo[2], 101, 510, share(51. / 101), true},
		{slo[3], 101, 1010, share(100. / 101), false}, {slo[4], 101, 1010, share(1), true},
		{slo[5], 202, 400, share(1), false}, {slo[6], 101, 250, share(1), true}, {slo[7], 101, 250, share(1), true},
		{slo[8], 101, 1509, share(100. / 101), true}, {slo[9], 101, 1510. / 3, share(1), true},
	}
	w := Workload{Requests: 101, Concurrency: 1, SLO: slo}
	s := Summarize(w, []float64{99}, time.Time{}, 102*time.Second, records)
	if diff := cmp.Diff(want, s.Objectives, approx(1e-6)); diff != "" {
		t.Errorf("objectives (-want +got):\n%s", diff)
	}

	t.Run("failed requests are not within", func(t *testing.T) {
		records := append(sentEvery(time.Second, 10*msec, 3), Record{Seq: 3, Sent: time.Second, End: time.Second, Class: ClassStatus})
		got := Summary{}.Under([]Objective{{"ttft", 0, Duration(time.Second)}, {"ttft", 99, Duration(time.Second)}}, records).Objectives
		if got[0].Met || *got[0].Within != 0.75 || !got[1].Met || *got[1].Within != 0.75 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("of the window", func(t *testing.T) {
		w := w
		w.SLO, w.CutEnd = []Objective{{"ttft", 100, Duration(500 * msec)}, {"e2el", 0, Duration(900 * msec)}}, Duration(52*time.Second)
		s := Summarize(w, nil, time.Time{}, 102*time.Second, records)
		if a := s.Objectives[0]; !a.Met || a.Count != 50 || a.Value != 500 {
			t.Errorf("of the first 50 s: %+v", a)
		}
		if a := s.Untrimmed.Objectives[0]; a.Met || a.Count != 101 {
			t.Errorf("of the whole run: %+v", a)
		}
	})
	t.Run("an SLO of today", func(t *testing.T) {
		none, cut := w, Duration(52*time.Second)
		none.SLO, none.CutEnd, w.CutEnd = nil, cut, cut
		then, now := Summarize(none, nil, time.Time{}, 102*time.Second, records), Summarize(w, nil, time.Time{}, 102*time.Second, records)
		if diff := cmp.Diff(now, then.Under(w.SLO, records)); diff != "" {
			t.Errorf("measured with it, and without (-with +judged later):\n%s", diff)
		}
		if diff := cmp.Diff(then, now.Under(nil, records)); diff != "" {
			t.Errorf("without any (-want +got):\n%s", diff)
		}
	})
	t.Run("without records", func(t *testing.T) {
		got := s.Under([]Objective{{"ttft", 99, Duration(time.Second)}, {"ttft", 42, Duration(time.Second)}, {"ttft", 0, Duration(time.Second)}}, nil)
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
		slo  []Objective
		want float64 // of 100
	}{
		{[]Objective{{"ttft", 99, Duration(500 * msec)}}, 50},
		{[]Objective{{"ttft", 50, Duration(100 * msec)}, {"ttft", 99, Duration(500 * msec)}}, 50},
		{[]Objective{{"ttft", 99, Duration(500 * msec)}, {"ttft", 0, Duration(800 * msec)}}, 80},
		{[]Objective{{"ttft", 99, Duration(500 * msec)}, {"e2el", 50, Duration(700 * msec)}}, 20},
	} {
		s := Summary{Duration: 1}.Under(c.slo, records)
		if s.Goodput == nil || *s.Goodput != c.want {
			t.Errorf("%v: goodput %v, want %v", c.slo, s.Goodput, c.want)
		}
	}
}

func TestObjectiveName(t *testing.T) {
	for want, o := range map[string]Objective{"ttft": {Metric: "ttft"}, "ttft_p99": {Metric: "ttft", Percentile: 99}, "e2el_p99_9": {Metric: "e2el", Percentile: 99.9}} {
		if got := o.Name(); got != want {
			t.Errorf("%+v is named %s, want %s", o, got, want)
		}
	}
}
