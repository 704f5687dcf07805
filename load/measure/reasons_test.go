package measure

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

func codes(v load.Verdict) (all []string) {
	for _, r := range v.Reasons {
		all = append(all, r.Code)
	}
	return all
}

// TestCapHoldsUp: a schedule that a cap holds up is a reason, whatever says when sessions begin: also where later turns
// are due only when the answer before them is there.
func TestCapHoldsUp(t *testing.T) {
	var trace, recorded strings.Builder
	for i := range 80 {
		fmt.Fprintf(&trace, `{"timestamp": %d, "input_length": 6, "output_length": 2}`+"\n", i*100)
		fmt.Fprintf(&recorded, `{"session_id":"%d","messages":[{"role":"user","content":"a"}],"output_length":2,"timestamp":%d}`+"\n", i, i*100)
		fmt.Fprintf(&recorded, `{"session_id":"%d","messages":[{"role":"user","content":"a"}],"output_length":2,"delay":0}`+"\n", i)
	}
	turn := `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`
	talk := load.Dataset{Kind: load.Conversation, Path: written(t, `{"messages":[`+turn+","+turn+","+turn+`]}`)}
	for name, w := range map[string]load.Workload{
		"a rate":        {Rate: 10, Requests: 80},
		"by time":       {Rate: 10, Duration: load.Duration(8 * time.Second)},
		"stages":        {Stages: []load.Stage{{Duration: load.Duration(4 * time.Second), Rate: 10}, {Duration: load.Duration(4 * time.Second), Rate: 15}}},
		"a trace":       {Dataset: load.Dataset{Kind: load.Trace, Path: written(t, trace.String())}},
		"conversations": {Rate: 5, Requests: 120, Dataset: talk, Endpoint: load.Chat},
		"recorded": {Endpoint: load.Chat, Dataset: load.Dataset{Kind: load.Conversation, Arrivals: load.Recorded,
			Path: written(t, recorded.String())}},
	} {
		for limit, want := range map[int]bool{3: true, 200: false} {
			synctest.Test(t, func(t *testing.T) {
				w.Concurrency = limit
				s, _ := paced(t, t.Context(), w, time.Second)
				if got := codes(s.Verdict); slices.Contains(got, rateMissed.code) != want {
					t.Errorf("%s behind a cap of %d: %v", name, limit, got)
				}
			})
		}
	}
}

// TestPromptsAgain: prompts and conversations that come again are a reason, and those of the warm-up another: none hides
// the other.
func TestPromptsAgain(t *testing.T) {
	_, target := engine(t, instant(sim.Config{}))
	var prompts strings.Builder
	for i := range 12 {
		fmt.Fprintf(&prompts, `{"prompt": "question %d", "output_tokens": 2}`+"\n", i)
	}
	lines := load.Dataset{Kind: load.JSONL, Path: written(t, prompts.String())}
	talks := load.Dataset{Kind: load.Conversation, Path: written(t, chats(12))} // of three turns
	again, before := sentAgain.code, sentBefore.code
	for name, x := range map[string]struct {
		w    load.Workload
		want []string
	}{
		"enough":                       {load.Workload{Dataset: lines, Requests: 8, Warmup: 4}, nil},
		"again":                        {load.Workload{Dataset: lines, Requests: 20}, []string{again}},
		"before":                       {load.Workload{Dataset: lines, Requests: 10, Warmup: 6}, []string{before}},
		"both":                         {load.Workload{Dataset: lines, Requests: 30, Warmup: 6}, []string{again, before}},
		"a warm-up that repeats":       {load.Workload{Dataset: lines, Requests: 8, Warmup: 30}, []string{before}},
		"salted":                       {load.Workload{Dataset: lines, Requests: 30, Warmup: 6}, nil},
		"conversations":                {load.Workload{Dataset: talks, Requests: 24, Warmup: 9}, nil},
		"conversations again":          {load.Workload{Dataset: talks, Requests: 60}, []string{again}},
		"conversations again, by time": {load.Workload{Dataset: talks, Duration: load.Duration(time.Second)}, []string{again}},
		"conversations, both":          {load.Workload{Dataset: talks, Requests: 60, Warmup: 9}, []string{again, before}},
		"what counts":                  {load.Workload{Dataset: lines, Duration: load.Duration(time.Second), CutBeginning: load.Duration(100 * msec)}, []string{again}},
	} {
		x.w.Endpoint, x.w.OutputTokens, x.w.IgnoreEOS, x.w.Concurrency = load.Chat, 2, true, 2
		x.w.Dataset.Salt = name == "salted"
		got := slices.DeleteFunc(codes(run(t, target, x.w).Summary.Verdict), func(code string) bool { return code != again && code != before })
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// TestUndecoded: answers that an answer cache brings are a reason, where prompts come again; a first token that comes sooner is none.
func TestUndecoded(t *testing.T) {
	var prompts strings.Builder
	for i := range 12 {
		fmt.Fprintf(&prompts, `{"prompt": "question %d", "output_tokens": 16}`+"\n", i)
	}
	for name, x := range map[string]struct {
		cached   bool
		requests int
		want     bool
	}{"a cache": {true, 40, true}, "no cache": {false, 40, false}, "a cache that is not asked again": {true, 12, false}} {
		_, target := engine(t, sim.Config{TTFT: 4 * msec, ITL: 4 * msec, AnswerCache: x.cached})
		w := load.Workload{Dataset: load.Dataset{Kind: load.JSONL, Path: written(t, prompts.String())}, Requests: x.requests, Endpoint: load.Chat, Concurrency: 4, IgnoreEOS: true}
		if got := codes(run(t, target, w).Summary.Verdict); slices.Contains(got, answerCache.code) != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	listed := load.Workload{Dataset: load.Dataset{Kind: load.JSONL}}
	source := &load.Source{Prompts: 20, Repeated: 20} // a prefix cache
	var records []load.Record
	for i := range 40 {
		first := time.Second
		if i >= 20 {
			first = msec
		}
		records = append(records, load.Record{Seq: i, First: first, Last: first + time.Second, OutputTokens: 50})
	}
	var found reasons
	if found.undecoded(listed, source, records); found != nil {
		t.Errorf("a prefix cache: %v", found)
	}
	for i := range records { // 400 ms a token while others' prompts are read in chunks, and 20 ms when none need to be
		records[i].Last = records[i].First + 49*20*msec
		if i < 20 {
			records[i].Last = records[i].First + 49*400*msec
		}
	}
	if found.undecoded(listed, source, records); found != nil {
		t.Errorf("a prefix cache, beside chunked prefill: %v", found)
	}
	if found.undecoded(listed, &load.Source{Repeated: 20}, records); found != nil { // from elsewhere
		t.Errorf("so many prompts that nobody knows: %v", found)
	}
	for i := range records[20:] { // much faster than the request of the same number before
		records[20+i].Last = records[20+i].First + 49*msec/2
	}
	if found.undecoded(listed, source, records); len(found) != 1 {
		t.Errorf("an answer cache: %v", found)
	}
	found = nil
	if found.undecoded(load.Workload{Dataset: load.Dataset{Kind: load.Text}}, source, records); found != nil { // cut at places that are drawn
		t.Errorf("prompts of a text, of which nobody knows which are the same: %v", found)
	}
}

// TestStreamed: chunks that are not when tokens were made are a reason.
func TestStreamed(t *testing.T) {
	_, target := engine(t, sim.Config{TTFT: msec, ITL: msec / 4, TokensPerChunk: 50})
	w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 8}, OutputTokens: 40, IgnoreEOS: true, Requests: 8, Endpoint: load.Completions, Concurrency: 2}
	if got := codes(run(t, target, w).Summary.Verdict); !slices.Contains(got, inOnePiece.code) {
		t.Errorf("streams of one piece: %v", got)
	}
	for name, x := range map[string]struct {
		chunks, tokens int
		want           string
	}{"a chunk for each token": {20, 20, ""}, "an end that is no token": {21, 20, ""}, "several tokens in each": {5, 20, ""},
		"more chunks than tokens": {30, 20, moreChunks.code}, "few tokens in one piece": {1, 4, ""}} {
		var found reasons
		found.streamed(load.Workload{}, slices.Repeat([]load.Record{{First: msec, Last: msec, Gaps: make([]time.Duration, x.chunks-1), OutputTokens: x.tokens}}, 10))
		if got := strings.Join(codes(found.verdict()), " "); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	var found reasons // of tool calls every second sample comes whole, as it was asked for
	found.streamed(load.Workload{Dataset: load.Dataset{Questions: true}}, slices.Repeat([]load.Record{{First: msec, Last: msec, OutputTokens: 20}}, 10))
	if found != nil {
		t.Errorf("questions: %v", found)
	}
}

// TestFewFailures: a few of very many requests are a share that is not 0.
func TestFewFailures(t *testing.T) {
	for _, c := range []struct {
		failed, of int
		want       string
	}{{23, 86400, "(0.03 %)"}, {2, 1_000_000, "(0.0002 %)"}, {3, 12, "(25.0 %)"}, {12, 12, "(100.0 %)"}} {
		var r reasons
		r.counts(load.Workload{}, load.Part{Figures: load.Figures{Requests: c.of, Failed: c.failed}}, nil)
		if len(r) == 0 || !strings.Contains(r[0].Text, c.want) {
			t.Errorf("%d of %d: %v", c.failed, c.of, r)
		}
	}
}
