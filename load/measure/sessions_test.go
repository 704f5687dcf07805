package measure

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/sim"
)

// TestThinking: a conversation's user takes the time that the seed says before asking again, in a
// closed loop and in an open one, and none of it is in a latency.
func TestThinking(t *testing.T) {
	turn := `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`
	path := written(t, `{"messages":[`+turn+`,`+turn+`,`+turn+`]}`)
	for _, w := range []load.Workload{{Concurrency: 3}, {Rate: 200}, {Stages: []load.Stage{{Duration: load.Duration(200 * time.Millisecond), Concurrency: 3}}}} {
		w.Dataset = load.Dataset{Kind: load.Conversation, Path: path, ThinkTime: load.Duration(20 * time.Millisecond)}
		w.Endpoint, w.OutputTokens = load.Chat, 2
		if w.Stages == nil {
			w.Requests = 18
		}
		_, target := listening(t, true)
		got := run(t, target, w)
		set, err := prompts.Open(t.Context(), load.Job{Target: target, Workload: w, Seed: 1}, w.Requests)
		if err != nil {
			t.Fatal(err)
		}
		thought := map[[2]int]time.Duration{}
		for q := set.Queue(prompts.ForPrompt, w.Requests); len(thought) < 3*len(got.Records); { // no fewer sessions than began
			s, ok := q.Next()
			if !ok {
				break
			}
			for goes := true; goes; goes = s.Heard(true, nil) {
				r := s.Request()
				thought[[2]int{r.Session, r.Turn}] = r.After
			}
		}
		last := map[int]load.Record{}
		for _, r := range got.Records {
			before, after := last[r.Session], thought[[2]int{r.Session, r.Turn}]
			if r.Turn != before.Turn+1 || r.Final != (r.Turn == 3) || (after > 0) != (r.Turn > 1) {
				t.Errorf("session %d: turn %d, final %v, comes after turn %d and %v", r.Session, r.Turn, r.Final, before.Turn, after)
			}
			if r.Turn > 1 && (r.Ready < before.End+after || r.Sent < r.Ready || r.Scheduled != r.Ready) {
				t.Errorf("session %d: turn %d was ready at %v and sent at %v, when its user had thought for %v from %v", r.Session, r.Turn, r.Ready, r.Sent, after, before.End)
			}
			last[r.Session] = r
		}
		s := got.Summary.Sessions
		if s == nil || s.Begun != len(last) || w.Requests > 0 && (s.Ended != 6 || s.Requests != 3 || s.OutputTokens != 6) || s.Ended > 0 && s.Duration.Count != s.Ended {
			t.Errorf("sessions %+v of %d", s, len(last))
		}
	}
}

// TestSessions: what conversations took, by hand. One that failed, one that goes on and one that was
// cut off have not ended.
func TestSessions(t *testing.T) {
	ms := time.Millisecond
	records := []load.Record{
		{Session: 1, Turn: 1, Sent: 0, Last: 10 * ms, InputTokens: 5, OutputTokens: 2},
		{Session: 2, Turn: 1, Sent: 5 * ms, Last: 20 * ms, InputTokens: 6, OutputTokens: 4},
		{Session: 1, Turn: 2, Final: true, Sent: 90 * ms, Last: 100 * ms, InputTokens: 8, OutputTokens: 2},
		{Session: 2, Turn: 2, Final: true, Sent: 30 * ms, Class: load.ClassStall},
		{Session: 3, Turn: 1, Sent: 40 * ms, Last: 60 * ms, OutputTokens: 9},
		{Session: 4, Turn: 1, Final: true, Sent: 50 * ms, Last: 90 * ms, InputTokens: 1, OutputTokens: 6},
		{Session: 5, Turn: 3, Final: true, Sent: 60 * ms, Last: 70 * ms}, // it began before
		{Session: 6, Turn: 1, Sent: 0, Last: 10 * ms},
		{Session: 6, Turn: 3, Final: true, Sent: 20 * ms, Last: 30 * ms}, // the second was never sent
		{Sent: 60 * ms, Last: 70 * ms},
	}
	got := evidence{percentiles: []float64{50}, records: records}.sessions(2*time.Second, span{0, time.Hour})
	want := &load.Sessions{Begun: 5, Ended: 2, Throughput: 1, Requests: 1.5, InputTokens: 7, OutputTokens: 5,
		Duration: load.Stats{Count: 2, Mean: 70, Median: 70, Std: 30, Min: 40, Max: 100, Percentiles: map[string]float64{"50": 70}}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if got := (evidence{records: records[len(records)-1:]}).sessions(time.Second, span{0, time.Hour}); got != nil {
		t.Errorf("sessions of requests that stand alone: %+v", got)
	}
}

// TestSessionsOfWindow: a conversation of 46 s begins each second for two minutes, and the first 30 s do not count. Those
// that end in the window are told of wholly, as many as of requests that end in it.
func TestSessionsOfWindow(t *testing.T) {
	const s = time.Second
	var records []load.Record
	for i := range 120 {
		at := time.Duration(i) * s
		first, second := even(at, at+s, at+20*s, 5), even(at+25*s, at+26*s, at+46*s, 5)
		first.Session, first.Turn, first.ToCall = i+1, 1, true
		second.Session, second.Turn, second.Final = i+1, 2, true
		records = append(records, first, second)
	}
	slices.SortStableFunc(records, func(a, b load.Record) int { return cmp.Compare(a.Sent, b.Sent) })
	w := load.Workload{Rate: 1, Dataset: load.Dataset{Kind: load.Conversation}, Endpoint: load.Chat, CutBeginning: load.Duration(30 * s), CutEnd: load.Duration(75 * s)}
	got := Summarize(w, []float64{50}, time.Time{}, 165*s, records)
	want := &load.Sessions{Begun: 60, Ended: 44, Throughput: 44. / 60, Requests: 2, InputTokens: 200, OutputTokens: 10, ToCall: 60, Uncalled: 60,
		Duration: load.Stats{Count: 44, Mean: 46000, Median: 46000, Min: 46000, Max: 46000, Percentiles: map[string]float64{"50": 46000}}}
	if diff := gocmp.Diff(want, got.Sessions); diff != "" {
		t.Errorf("from 30 s to 90 s (-want +got):\n%s", diff)
	}
	if whole := got.Untrimmed.Sessions; whole.Begun != 120 || whole.Ended != 120 || whole.Throughput != 120./165 {
		t.Errorf("the whole run: %+v", whole)
	}
	w.CutBeginning, w.CutEnd = load.Duration(60*s), load.Duration(60*s)
	if got := Summarize(w, nil, time.Time{}, 165*s, records).Sessions; got.Begun != 45 || got.Ended != 45 || got.Throughput != 1 {
		t.Errorf("from 60 s to 105 s: %+v", got)
	}
	w.CutEnd = 0
	if got := Summarize(w, nil, time.Time{}, 165*s, records).Sessions; got.Ended != 106 {
		t.Errorf("from 60 s to the last answer: %+v", got)
	}
}

// TestPauses: where conversations wait, fewer requests are in flight than the concurrency says, and no window has to be
// full: whether users think, or tools take as long as was recorded. Without, it has to be.
func TestPauses(t *testing.T) {
	const s = time.Second
	talks := func(pause, lost time.Duration) (records []load.Record) {
		for at := time.Duration(0); at < 60*s; at += 10*s + pause + lost {
			for slot := range 2 {
				first, second := even(at, at+s, at+5*s, 5), even(at+5*s+pause, at+6*s+pause, at+10*s+pause, 5)
				first.Session = 2*len(records) + slot + 1
				second.Session = first.Session
				first.Turn, second.Turn, second.Final = 1, 2, true
				records = append(records, first, second)
			}
		}
		slices.SortStableFunc(records, func(a, b load.Record) int { return cmp.Compare(a.Sent, b.Sent) })
		return records
	}
	for name, c := range map[string]struct {
		pause, lost, think time.Duration
		full               bool // the window has to be
		why                string
	}{
		"full":               {full: true},
		"delays":             {pause: 10 * s},
		"thinking":           {pause: 10 * s, think: 10 * s},
		"a generator behind": {lost: 10 * s, full: true, why: "not-full"},
	} {
		w := load.Workload{Concurrency: 2, Dataset: load.Dataset{Kind: load.Conversation, ThinkTime: load.Duration(c.think)}, Endpoint: load.Chat, CutBeginning: load.Duration(5 * s)}
		records := talks(c.pause, c.lost)
		var codes []string
		for _, r := range Summarize(w, nil, time.Time{}, 60*s, records).Verdict.Reasons {
			codes = append(codes, r.Code)
		}
		if got := strings.Join(codes, " "); got != c.why || pauses(w, records) == c.full {
			t.Errorf("%s: suspect for %q, want %q; conversations pause: %t", name, got, c.why, pauses(w, records))
		}
	}
}

// TestToolTurns: the results of tools are sent as long after the call as they came when it was recorded, and answers that call
// nothing where the recorded ones do are counted, as the engine knows them.
func TestToolTurns(t *testing.T) {
	const talk = `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
{"role": "tool", "tool_call_id": "x", "content": "1", "delay": 30}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}],
"tools": [{"type": "function", "function": {"name": "f"}}]}`
	e, target := engine(t, instant(sim.Config{CallEvery: 2}))
	w := load.Workload{Dataset: load.Dataset{Kind: load.Conversation, Path: written(t, strings.ReplaceAll(talk, "\n", " ")), History: load.Recorded}, Endpoint: load.Chat,
		OutputTokens: 3, Requests: 15, Concurrency: 1}
	got := run(t, target, w)
	asked, called := 0, 0
	for i, r := range got.Records {
		if r.ToCall != (r.Turn == 1) {
			t.Errorf("turn %d: its recorded answer calls a tool: %t", r.Turn, r.ToCall)
		}
		if wait := r.Ready - max(0, got.Records[max(0, i-1)].End); r.Turn == 2 && wait < 30*time.Millisecond {
			t.Errorf("turn %d was ready %v after the answer before it", r.Turn, wait)
		}
		if r.ToCall {
			asked++
		}
		if r.ToCall && r.Calls > 0 {
			called++
		}
	}
	s, truth := got.Summary, e.Truth()
	if x := s.Sessions; x == nil || x.Ended != 5 || x.ToCall != 5 || asked != 5 || x.Uncalled != 5-called || s.Content == nil || s.Content.Called != truth.Called || truth.Called == 0 {
		t.Errorf("sessions %+v, content %+v, by the records %d of %d called, the engine called %d times", x, s.Content, called, asked, truth.Called)
	}
	if s.InputTokens != truth.PromptTokens || s.OutputTokens != truth.CompletionTokens {
		t.Errorf("%d and %d tokens, by the engine %d and %d", s.InputTokens, s.OutputTokens, truth.PromptTokens, truth.CompletionTokens)
	}
}
