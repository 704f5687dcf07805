package measure

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/load"
)

const msec = time.Millisecond

func approx(tolerance float64) cmp.Option { return cmpopts.EquateApprox(tolerance, tolerance) }

// inWords compares reasons by their words only.
var inWords = cmpopts.IgnoreFields(load.Reason{}, "Code", "Value", "Limit", "Metrics")

// TestSummarize is a run small enough for every number to be worked out by hand.
func TestSummarize(t *testing.T) {
	records := []load.Record{
		// TTFT 100, E2EL 400, TPOT 300/3 = 100, 4 tokens in 3 chunks.
		{Seq: 0, Scheduled: 0, Ready: 0, Sent: 0, First: 100 * msec, Last: 400 * msec, End: 500 * msec, Gaps: []time.Duration{100 * msec, 200 * msec},
			InputTokens: 10, OutputTokens: 4, AskedInput: 10, AskedOutput: 4, Finish: "length"},
		// TTFT 300, E2EL 300, no TPOT: one token.
		{Seq: 1, Scheduled: 0, Ready: 150 * msec, Sent: 200 * msec, First: 500 * msec, Last: 500 * msec, End: 500 * msec,
			InputTokens: 20, OutputTokens: 1, AskedInput: 20, AskedOutput: 1},
		// TTFT 200, E2EL 1200, TPOT 1000/2 = 500; both later chunks in one read.
		{Seq: 2, Scheduled: 500 * msec, Ready: 500 * msec, Sent: 500 * msec, First: 700 * msec, Last: 1700 * msec, End: 2000 * msec, Gaps: []time.Duration{1000 * msec, 0}, Merged: 1,
			InputTokens: 30, OutputTokens: 3, AskedInput: 30, AskedOutput: 3},
		{Seq: 3, Scheduled: 600 * msec, Ready: 600 * msec, Sent: 600 * msec, End: 900 * msec, Class: load.ClassStatus, Status: 503, Error: "status 503", AskedInput: 99, AskedOutput: 99},
	}
	w := load.Workload{Requests: 4, Concurrency: 3, IgnoreEOS: true, SLO: []load.Objective{
		{Metric: "ttft", Max: load.Duration(250 * msec)}, {Metric: "tpot", Max: load.Duration(100 * msec)}, {Metric: "e2el", Max: load.Duration(time.Second)},
	}}
	started := time.Unix(1742300000, 0)
	got := Summarize(w, []float64{0, 75, 99.9, 100}, started, 2*time.Second, records)
	half := 0.5
	goodput := 0.5 // request 0 only: 1 has TTFT 300, 2 has TPOT 500
	want := load.Summary{
		Part: load.Part{Figures: load.Figures{
			Started: started, Duration: 2, Requests: 4, Completed: 3, Failed: 1,
			Errors: map[string]int{load.ClassStatus: 1}, Statuses: map[int]int{503: 1}, ErrorSamples: []string{"status: status 503"},
			InputTokens: 60, OutputTokens: 8, AskedInput: 60, AskedOutput: 8,
			RequestThroughput: 1.5, InputThroughput: 30, OutputThroughput: 4, TotalThroughput: 34,
			TTFT:            load.Stats{Count: 3, Mean: 200, Median: 200, Std: math.Sqrt(20000. / 3), Min: 100, Max: 300, Percentiles: map[string]float64{"0": 100, "75": 250, "99.9": 299.8, "100": 300}},
			TPOT:            load.Stats{Count: 2, Mean: 300, Median: 300, Std: 200, Min: 100, Max: 500, Percentiles: map[string]float64{"0": 100, "75": 400, "99.9": 499.6, "100": 500}},
			ITL:             load.Stats{Count: 4, Mean: 325, Median: 150, Std: math.Sqrt((325.*325 + 225*225 + 125*125 + 675*675) / 4), Min: 0, Max: 1000, Percentiles: map[string]float64{"0": 0, "75": 400, "99.9": 997.6, "100": 1000}, Independent: map[string]int{"50": 3, "75": 3, "99.9": 3}},
			E2EL:            load.Stats{Count: 3, Mean: 1900. / 3, Median: 400, Std: math.Sqrt((90000.+160000+1440000)/3 - 1900.*1900/9), Min: 300, Max: 1200, Percentiles: map[string]float64{"0": 300, "75": 800, "99.9": 1198.4, "100": 1200}},
			PerToken:        load.Stats{Count: 3, Mean: 800. / 3, Median: 300, Std: math.Sqrt((10000.+90000+160000)/3 - 800.*800/9), Min: 100, Max: 400, Percentiles: map[string]float64{"0": 100, "75": 350, "99.9": 399.8, "100": 400}},
			Queue:           load.Stats{Count: 4, Mean: 50, Median: 0, Std: math.Sqrt(7500), Max: 200, Percentiles: map[string]float64{"0": 0, "75": 50, "99.9": 199.4, "100": 200}},
			SendLag:         load.Stats{Count: 4, Mean: 12.5, Median: 0, Std: math.Sqrt(468.75), Max: 50, Percentiles: map[string]float64{"0": 0, "75": 12.5, "99.9": 49.85, "100": 50}},
			MeanConcurrency: 0.95, PeakConcurrency: 2,
			PeakOutputThroughput: 6, MergedChunks: 1, MergedShare: 0.25,
			Unbounded: []load.Unbounded{{Why: "the run is 2.6 times as long as a request, and an interval needs 20 times"}},
		}, Judgement: load.Judgement{
			Goodput:    &goodput,
			Objectives: []load.Attainment{{Objective: w.SLO[0], Count: 3, Value: 300, Within: &half, Met: false}, {Objective: w.SLO[1], Count: 2, Value: 500, Within: &half, Met: false}, {Objective: w.SLO[2], Count: 3, Value: 1200, Within: &half, Met: false}},
			Verdict: load.Verdict{Verdict: load.Suspect, Reasons: load.Because("",
				"1 of 4 requests failed (25.0 %): 1 × refused (503)",
				"Little's law is off by 27 %: 1.30 requests were in flight on average, throughput times latency says 0.95",
				"25 % of chunks came together with the one before, 433.3 ms after those before them: something between here and the engine buffers, such as a proxy, or the engine sends in bursts, or the generator could not keep up; TTFT, TPOT and ITL may be off by as much, E2EL and throughput are not",
			)},
		}},
		Series: &load.Series{Every: load.Duration(time.Second), InFlight: []float64{1.6, 1}, OutputTokens: []float64{4 + 1 + 1.6, 1.4}, TTFT: []float64{200, 0}},
	}
	if diff := cmp.Diff(want, got, approx(1e-9), inWords); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestSummarizeNothing(t *testing.T) {
	got := Summarize(load.Workload{}, nil, time.Time{}, 0, nil)
	none := load.Stats{Percentiles: map[string]float64{"50": 0, "90": 0, "95": 0, "99": 0}}
	want := load.Summary{Part: load.Part{Figures: load.Figures{TTFT: none, TPOT: none, ITL: none, E2EL: none, PerToken: none, Queue: none, SendLag: none}, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Void, Reasons: load.Because("", "no request was sent")}}}}
	if diff := cmp.Diff(want, got, inWords); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// naive is the plainest reading of what statistics are.
func naive(x []float64) load.Stats {
	s := load.Stats{Count: len(x), Percentiles: map[string]float64{"12.5": 0, "99": 0}}
	if len(x) == 0 {
		return s
	}
	slices.Sort(x)
	at := func(p float64) float64 {
		h := float64(len(x)-1) * p / 100
		lo, hi := math.Floor(h), math.Ceil(h)
		return x[int(lo)]*(1-(h-lo)) + x[int(hi)]*(h-lo)
	}
	n := float64(len(x))
	for _, v := range x {
		s.Mean += v / n
	}
	for _, v := range x {
		s.Std += (v - s.Mean) * (v - s.Mean) / n
	}
	s.Std = math.Sqrt(s.Std)
	s.Median, s.Min, s.Max = at(50), x[0], x[len(x)-1]
	s.Percentiles["12.5"], s.Percentiles["99"] = at(12.5), at(99)
	return s
}

// TestNumpy holds percentiles against what numpy.percentile printed.
func TestNumpy(t *testing.T) {
	x := []float64{15, 20, 35, 40, 50}
	for p, want := range map[float64]float64{0: 15, 5: 16, 25: 20, 30: 23, 40: 29, 50: 35, 75: 40, 90: 46, 99: 49.6, 99.9: 49.96, 100: 50} {
		if got := load.Percentile(x, p); math.Abs(got-want) > 1e-9 {
			t.Errorf("percentile %v = %v, want %v", p, got, want)
		}
	}
}

// run1 is a run without a flaw: closed loop, concurrency 2, six requests of 10
// tokens, one second each.
func run1() (load.Workload, []load.Record) {
	w := load.Workload{Requests: 6, Concurrency: 2, IgnoreEOS: true, Endpoint: load.Completions, OutputTokens: 10}
	var records []load.Record
	for i := range 6 {
		sent := time.Duration(i/2) * time.Second
		x := load.Record{Seq: i, Scheduled: sent, Ready: sent, Sent: sent, First: sent + 100*msec, Last: sent + time.Second, End: sent + time.Second,
			InputTokens: 5, AskedInput: 5, OutputTokens: 10, AskedOutput: 10}
		for range 9 {
			x.Gaps = append(x.Gaps, 100*msec)
		}
		records = append(records, x)
	}
	return w, records
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(w *load.Workload, records []load.Record)
		want load.Verdict
	}{
		{"valid", func(*load.Workload, []load.Record) {}, load.Verdict{Verdict: load.Valid, Reasons: nil}},
		{"all failed", func(_ *load.Workload, r []load.Record) {
			for i := range r {
				r[i].Class = load.ClassStall
			}
			r[0].Class, r[0].Status = load.ClassStatus, 429
			r[1].Class, r[1].Status = load.ClassStatus, 503
			r[2].Class = load.ClassStatus // stored before its status was
		}, load.Verdict{Verdict: load.Void, Reasons: load.Because("", "none of 6 requests completed: 1 × refused (429), 1 × refused (503), 3 × stall, 1 × status")}},
		{"no tokens", func(_ *load.Workload, r []load.Record) {
			for i := range r {
				r[i].OutputTokens = 0
			}
		}, load.Verdict{Verdict: load.Void, Reasons: load.Because("", "no output tokens")}},
		{"short", func(_ *load.Workload, r []load.Record) { r[0].OutputTokens = 9 },
			load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "1 of 6 requests did not bring the output tokens asked for (59 instead of 60 in all)")}},
		{"short, as it may be", func(w *load.Workload, r []load.Record) { r[0].OutputTokens, w.IgnoreEOS = 9, false }, load.Verdict{Verdict: load.Valid, Reasons: nil}},
		{"other prompts", func(_ *load.Workload, r []load.Record) { r[0].InputTokens, r[1].InputTokens = 6, 4 },
			load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "2 of 6 prompts were not as long for the server as they were made (30 instead of 30 tokens in all)")}},
		{"chat templates", func(w *load.Workload, r []load.Record) { r[0].InputTokens, w.Endpoint = 26, load.Chat }, load.Verdict{Verdict: load.Valid, Reasons: nil}},
		{"no usage", func(_ *load.Workload, r []load.Record) { r[5].NoUsage = true },
			load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "1 of 6 answers came without token counts: chunks were counted instead")}},
		{"too few", func(w *load.Workload, _ []load.Record) { w.Concurrency = 7 },
			load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "6 completed requests cannot fill a concurrency of 7")}},
		{"the server holds streams", func(_ *load.Workload, r []load.Record) {
			for i := range r {
				r[i].Last -= 100 * msec
				r[i].Gaps = r[i].Gaps[1:]
			}
		}, load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "Little's law is off by 10 %: 2.00 requests were in flight on average, throughput times latency says 1.80")}},
		{"the generator lags", func(_ *load.Workload, r []load.Record) {
			for i := range r {
				r[i].Sent += time.Duration(i/2) * 200 * msec
				r[i].First += time.Duration(i/2) * 200 * msec
				r[i].Last += time.Duration(i/2) * 200 * msec
				r[i].End += time.Duration(i/2) * 200 * msec
			}
		}, load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "1.67 requests were in flight while there were more to send, not 2: the generator fell behind")}},
		{"late sends", func(w *load.Workload, r []load.Record) {
			w.Rate = 2
			for i := range r {
				r[i].Ready -= 6 * msec
			}
		}, load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "requests left up to 6.0 ms late (p99; the limit here is 5.0 ms)")}},
		{"late for so fast a server", func(w *load.Workload, r []load.Record) {
			w.Rate = 2
			for i := range r {
				r[i].Ready -= 3 * msec
				for j := range r[i].Gaps {
					r[i].Gaps[j] = 20 * msec
				}
			}
		}, load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "requests left up to 3.0 ms late (p99; the limit here is 2.0 ms)")}},
		{"late for answers that come whole", func(w *load.Workload, r []load.Record) {
			w.Rate, w.NoStream = 2, true
			for i := range r {
				r[i].Ready, r[i].First, r[i].Gaps = r[i].Ready-3*msec, r[i].Last, nil
			}
		}, load.Verdict{Verdict: load.Valid, Reasons: nil}},
		{"few, under a cap", func(w *load.Workload, _ []load.Record) { w.Rate, w.Concurrency = 2, 64 }, load.Verdict{Verdict: load.Valid, Reasons: nil}},
		{"merged, and still in time", func(_ *load.Workload, r []load.Record) {
			for i := range r { // nine reads of two chunks each, 0.4 ms apart
				for j := range r[i].Gaps {
					r[i].Gaps[j] = 400 * time.Microsecond * time.Duration(j%2)
				}
				r[i].Merged = 5
				r[i].First = r[i].Last - 2*msec
			}
		}, load.Verdict{Verdict: load.Valid, Reasons: nil}},
		{"a proxy before a fast server", func(_ *load.Workload, r []load.Record) {
			for i := range r { // what the server sends every 4 ms comes every 36 ms
				r[i].Gaps = []time.Duration{0, 0, 0, 0, 36 * msec, 0, 0, 0, 0}
				r[i].Merged, r[i].First = 8, r[i].Last-36*msec
			}
		}, load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "89 % of chunks came together with the one before, 36.0 ms after those before them: something between here and the engine buffers, such as a proxy, or the engine sends in bursts, or the generator could not keep up; TTFT, TPOT and ITL may be off by as much, E2EL and throughput are not")}},
		{"merged", func(_ *load.Workload, r []load.Record) {
			for i := range r {
				r[i].Merged = 2
			}
		}, load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "22 % of chunks came together with the one before, 128.6 ms after those before them: something between here and the engine buffers, such as a proxy, or the engine sends in bursts, or the generator could not keep up; TTFT, TPOT and ITL may be off by as much, E2EL and throughput are not")}},
	} {
		w, records := run1()
		c.edit(&w, records)
		got := Summarize(w, nil, time.Time{}, duration(records), records).Verdict
		if diff := cmp.Diff(c.want.String(), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if slices.ContainsFunc(got.Reasons, func(r load.Reason) bool { return r.Code == "" }) {
			t.Errorf("%s: a reason without a code: %+v", c.name, got.Reasons)
		}
	}
	w, records := run1()
	s := Summarize(w, nil, time.Time{}, duration(records), records)
	s.CPUShare, s.Cores, s.Warmup, s.WarmupFailed = 2, 2, 4, 1
	if got := (evidence{workload: w, records: records}).verdict(s.Part, s.Source); got.Verdict != load.Suspect || len(got.Reasons) != 2 {
		t.Errorf("busy, and a warm-up request failed: %v, want suspect for two reasons", got)
	}
	s = Summarize(w, nil, time.Time{}, duration(records), records)
	for c, want := range map[load.Calibrated]load.Verdict{
		{Streams: 2, Events: 1000, Bounded: true}: {Verdict: load.Valid},
		{Streams: 1, Events: 1000, Bounded: true}: {Verdict: load.Suspect, Reasons: load.Because("", "2 requests were in flight, and this machine's generator was found to be right up to 1")},
		{Streams: 2, Events: 19, Bounded: true}:   {Verdict: load.Suspect, Reasons: load.Because("", "20 chunks came in the busiest second, and this machine's generator was found to be right up to 19")},
		{Streams: 1, Events: 1}:                   {Verdict: load.Valid}, // more was not tried
	} {
		s.Calibrated = &c
		if diff := cmp.Diff(want.String(), (evidence{workload: w, records: records}).verdict(s.Part, s.Source).String()); diff != "" {
			t.Errorf("calibrated %+v (-want +got):\n%s", c, diff)
		}
	}
}

// TestNearlyAllRefused: what is left of a load that was nearly all refused is no measurement of it.
func TestNearlyAllRefused(t *testing.T) {
	w, records := run1()
	for range 4 {
		_, more := run1()
		records = append(records, more...)
	}
	for i := range records[1:] {
		records[1+i].Class, records[1+i].Status = load.ClassStatus, 503
	}
	v := Summarize(w, nil, time.Time{}, duration(records), records).Verdict
	if want := "only 1 of 30 requests completed: 29 × refused (503)"; v.Verdict != load.Void || v.Reasons[0].Text != want {
		t.Errorf("%v, want %s", v, want)
	}
}

// TestLagOfMergedChunks: where most chunks come with the one before, what counts is the time between reads.
func TestLagOfMergedChunks(t *testing.T) {
	w, records := run1()
	w.Rate = 2
	s := Summarize(w, nil, time.Time{}, duration(records), records).Part
	s.ITL, s.MergedShare = load.Stats{Count: 54, Mean: 20, Median: 0}, 0.6
	for i := range records {
		records[i].Ready = records[i].Sent - 3*msec
	}
	var found reasons
	found.pace(w, s, records)
	if len(found) > 0 {
		t.Errorf("3 ms late, with 50 ms between reads: %+v", found)
	}
}

// TestKnownPrompts: prompts that come again in a run, and those that its warm-up has sent, are reasons, also both.
func TestKnownPrompts(t *testing.T) {
	for name, x := range map[string]struct {
		prompts, measured, warmed int
		talks                     bool
		want                      []string
	}{
		"enough":     {300, 200, 50, false, nil},
		"some again": {195, 200, 0, false, nil},
		"again":      {100, 200, 0, false, []string{"100 of 200 prompts had been sent before, as there are 100 of them: a prefix cache knows them (salt = true, or fewer requests)"}},
		"both": {100, 200, 20, true, []string{"100 of 200 conversations had been sent before, as there are 100 of them: a prefix cache knows them (salt = true, or fewer requests)",
			"20 of the 100 conversations that were measured had been sent by the warm-up: a prefix cache knows them"}},
	} {
		w, source := load.Workload{}, load.Source{Prompts: x.prompts}.Drawn(x.measured, x.warmed)
		if x.talks {
			w.Dataset.Kind = load.Conversation
		}
		var found reasons
		found.known(w, &source)
		if diff := cmp.Diff(x.want, load.Verdict{Reasons: found}.Texts()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReasons: a reason says what was found, what would have been right, and which
// figures it concerns.
func TestReasons(t *testing.T) {
	w, records := run1()
	w.Rate = 2
	for i := range records {
		records[i].Ready -= 6 * msec
		records[i].Merged = 2
	}
	v := Summarize(w, nil, time.Time{}, duration(records), records).Verdict
	want := []load.Reason{
		{Code: "send-lag", Value: 6, Limit: 5},
		{Code: "merged-chunks", Value: 12. / 54, Limit: 0.2, Metrics: []string{"ttft", "ttfa", "tpot", "itl"}},
	}
	if diff := cmp.Diff(want, v.Reasons, approx(1e-9), cmpopts.IgnoreFields(load.Reason{}, "Text")); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestVerdictHurried: an engine that is simulated at another speed is not judged by when
// things came, but by what came.
func TestVerdictHurried(t *testing.T) {
	w, records := run1()
	for i := range records {
		records[i].Merged = 2
	}
	w.Speed = 20
	if got := Summarize(w, nil, time.Time{}, duration(records), records).Verdict; got.Verdict != load.Valid {
		t.Errorf("merged chunks: %v, want valid", got)
	}
	records[0].Class = load.ClassStall
	if got := Summarize(w, nil, time.Time{}, duration(records), records).Verdict; got.Verdict != load.Suspect {
		t.Errorf("a failed request: %v, want suspect", got)
	}
}

// TestVerdictOfPauses: collections that delayed nothing noticeably are no reason.
func TestVerdictOfPauses(t *testing.T) {
	w, records := run1()
	s := Summarize(w, nil, time.Time{}, duration(records), records)
	for pause, want := range map[float64]string{4.9: load.Valid, 29: load.Valid, 31: load.Suspect} {
		s.GCPauseMs = pause
		if got := (evidence{workload: w, records: records}).verdict(s.Part, s.Source); got.Verdict != want {
			t.Errorf("%v ms of 3 s: %v, want %s", pause, got, want)
		}
	}
	s.Duration, s.GCPauseMs = 0.01, 4
	for _, reason := range (evidence{workload: w, records: records}).verdict(s.Part, s.Source).Reasons {
		if strings.Contains(reason.Text, "garbage") {
			t.Errorf("4 ms of 10 ms: %s", reason.Text)
		}
	}
}

// TestVerdictOfStillness: a generator that was stopped has measured nothing, and one that had no processor nothing to rely on.
func TestVerdictOfStillness(t *testing.T) {
	w, records := run1()
	s := Summarize(w, nil, time.Time{}, duration(records), records)
	for _, x := range []struct {
		stopped, starved float64
		want, text       string
	}{
		{499, 499, load.Valid, ""},
		{501, 9000, load.Void, "the generator stood still for 501 ms of 3 s: its process was stopped or swapped out, or its machine paused"},
		{100, 1501, load.Suspect, "the generator waited 1501 ms of 3 s for a processor, as others had them all"},
	} {
		s.Stopped, s.Starved = x.stopped, x.starved
		got := (evidence{workload: w, records: records}).verdict(s.Part, s.Source)
		if got.Verdict != x.want || got.Verdict != load.Valid && got.Reasons[0].Text != x.text {
			t.Errorf("stopped for %v ms and starved for %v: %v, want %s: %s", x.stopped, x.starved, got, x.want, x.text)
		}
	}
}

// TestPeakOfAnInstant: of a run of less than a second, no second is worse than all of it.
func TestPeakOfAnInstant(t *testing.T) {
	records := []load.Record{{First: 100 * msec, Last: 200 * msec, End: 250 * msec, OutputTokens: 5, Gaps: []time.Duration{100 * msec}}}
	s := Summarize(load.Workload{}, nil, time.Time{}, 250*msec, records)
	if s.PeakOutputThroughput != 20 || s.OutputThroughput != 20 {
		t.Errorf("peak %v, on average %v, want 20", s.PeakOutputThroughput, s.OutputThroughput)
	}
}

// TestNothingInTheWindow says why, where all requests were answered.
func TestNothingInTheWindow(t *testing.T) {
	w, records := run1()
	for cut, want := range map[time.Duration]string{
		time.Hour:   "nothing is left of the run without its warm-up and cool-down",
		2500 * msec: "no request was sent from 2.5s to 3s of the run, which is the part that counts",
	} {
		w.CutBeginning = load.Duration(cut)
		s := Summarize(w, nil, time.Time{}, duration(records), records)
		if diff := cmp.Diff(load.Void+": "+want, s.Verdict.String()); diff != "" {
			t.Errorf("%v cut off (-want +got):\n%s", cut, diff)
		}
	}
}

// BenchmarkMillion is the summary of a cell of a million requests; the aim is two
// seconds and 300 MB beside the records themselves.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	records := make([]load.Record, n)
	gaps := make([]time.Duration, 4*n) // of four million: more are not kept
	for i := range gaps {
		gaps[i] = time.Duration(10+i%23) * time.Millisecond
	}
	for i := range records {
		at := time.Duration(i) * 600 * time.Microsecond
		first := at + time.Duration(50+i*7919%400)*time.Millisecond
		records[i] = load.Record{Seq: i, Scheduled: at, Ready: at, Sent: at, First: first, Last: first + 80*time.Millisecond, End: first + 81*time.Millisecond,
			Gaps: gaps[4*i : 4*i+4], InputTokens: 512, OutputTokens: 5, AskedInput: 512, AskedOutput: 5, Finish: "length"}
	}
	w := load.Workload{Requests: n, Concurrency: 512, OutputTokens: 5}
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		if s := Summarize(w, nil, time.Now(), 11*time.Minute, records); s.Completed != n {
			b.Fatal("not all are completed")
		}
	}
}

// TestBusiestSecond: a calibration tells what the generator can do in its busiest second, and a load is held against
// that in its own busiest one, of the part that is judged.
func TestBusiestSecond(t *testing.T) {
	var records []load.Record
	for i := range 60 { // one chunk a second, and in the third second 40
		at := time.Duration(i) * time.Second
		r := load.Record{Sent: at, First: at + 10*msec, Last: at + 10*msec, End: at + 10*msec, OutputTokens: 1}
		for i == 2 && len(r.Gaps) < 39 {
			r.Gaps, r.Last, r.End, r.OutputTokens = append(r.Gaps, msec), r.Last+msec, r.End+msec, 40
		}
		records = append(records, r)
	}
	w := load.Workload{Requests: 60, Concurrency: 1, OutputTokens: 1, Endpoint: load.Completions}
	s := Summarize(w, nil, time.Time{}, duration(records), records)
	s.Calibrated = &load.Calibrated{Streams: 1, Events: 20, Bounded: true}
	if v := (evidence{workload: w, records: records}).verdict(s.Part, nil); !strings.Contains(v.String(), "40 chunks came in the busiest second") {
		t.Errorf("%v", v)
	}
	s.Part.Window = &load.Window{From: load.Duration(10 * time.Second), To: load.Duration(50 * time.Second)}
	if v := (evidence{workload: w, records: records}).verdict(s.Part, nil); strings.Contains(v.String(), "busiest") {
		t.Errorf("of a part without that second: %v", v)
	}
}
