package measure

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
)

// TestAdapters: requests and conversations are shared among adapters, and the figures of each are those that the engine knows.
func TestAdapters(t *testing.T) {
	for _, d := range []load.Dataset{
		{Kind: load.Random, InputTokens: 5},
		{Kind: load.RandomConversation, Turns: 2, QuestionTokens: 5},
	} {
		e, target := engine(t, instant(sim.Config{Adapters: []string{"sql", "chat", "idle"}}))
		w := load.Workload{Dataset: d, Endpoint: load.Chat, OutputTokens: 4, Requests: 200, Concurrency: 8, IgnoreEOS: true,
			Adapters: []load.Adapter{{Name: "chat", Share: 0.2}, {Name: "sql", Share: 0.5}}}
		got := run(t, target, w)
		s, truth := got.Summary, e.Truth()
		var names []string
		completed, tokens := 0, int64(0)
		for _, a := range s.Adapters {
			names = append(names, a.Name)
			completed, tokens = completed+a.Completed, tokens+a.OutputTokens
			is := truth.Adapters[a.Name]
			if a.Name != "" && (a.Completed != is.Completed || a.OutputTokens != is.CompletionTokens) || a.TTFT.Count != a.Completed || a.OutputThroughput <= 0 {
				t.Errorf("%s %q: %d completed with %d tokens, by the engine %+v", d.Kind, a.Name, a.Completed, a.OutputTokens, is)
			}
			if a.Completed < 10 || a.Completed > 150 || a.Adapters != nil {
				t.Errorf("%s %q: %d of 200 requests", d.Kind, a.Name, a.Completed)
			}
		}
		if !slices.Equal(names, []string{"", "chat", "sql"}) || completed != 200 || tokens != truth.CompletionTokens || s.Failed > 0 {
			t.Errorf("%s: figures of %q, %d completed with %d tokens, by the engine %d; %v", d.Kind, names, completed, tokens, truth.CompletionTokens, s.ErrorSamples)
		}
		session := map[int]string{}
		for _, r := range got.Records {
			if before, begun := session[r.Session]; begun && r.Session > 0 && before != r.Adapter {
				t.Errorf("conversation %d goes to %q and to %q", r.Session, before, r.Adapter)
			}
			session[r.Session] = r.Adapter
		}
	}
	// SGLang answers for the model itself whatever model is asked for: it is told in its own way.
	for _, endpoint := range []string{load.Chat, load.Completions, load.Generate} {
		e, target := engine(t, instant(sim.Config{As: sim.SGLang, Adapters: []string{"sql"}}))
		target.LoraPath = true
		s := run(t, target, load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Endpoint: endpoint, OutputTokens: 4, Requests: 20, Concurrency: 2,
			Adapters: []load.Adapter{{Name: "sql", Share: 1}}}).Summary
		if truth := e.Truth(); truth.Adapters["sql"].Completed != 20 || len(s.Adapters) != 1 || s.Adapters[0].Completed != 20 {
			t.Errorf("%s: of 20 requests the adapter has answered %+v: %q", endpoint, truth.Adapters, s.ErrorSamples)
		}
	}
	// An adapter that is not there is the request's failure, in the engine's own words.
	_, target := engine(t, instant(sim.Config{}))
	s := run(t, target, load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Endpoint: load.Completions, OutputTokens: 4, Requests: 10, Concurrency: 2,
		Adapters: []load.Adapter{{Name: "sql", Share: 1}}}).Summary
	if s.Failed != 10 || !slices.ContainsFunc(s.ErrorSamples, func(text string) bool {
		return strings.Contains(text, "404 Not Found") && strings.Contains(text, "The model `sql` does not exist.")
	}) {
		t.Errorf("%d failed: %q", s.Failed, s.ErrorSamples)
	}
}

// TestAdaptersOfWindow: in a window, too, what the adapters and the model itself have done adds up to what was done, also by
// an adapter whose requests were all sent before it.
func TestAdaptersOfWindow(t *testing.T) {
	const s = time.Second
	var records []load.Record
	for i := range 90 {
		at := time.Duration(i) * s
		r := even(at, at+s, at+21*s, 81)
		r.Adapter = []string{"", "sql"}[i%2]
		if i == 20 {
			r.Adapter = "old"
		}
		records = append(records, r)
	}
	w := load.Workload{Rate: 1, Endpoint: load.Completions, CutBeginning: load.Duration(30 * s), CutEnd: load.Duration(21 * s), Adapters: []load.Adapter{{Name: "old", Share: 0.1}, {Name: "sql", Share: 0.4}}}
	got := Summarize(w, nil, time.Time{}, 110*s, records)
	for name, part := range map[string]load.Figures{"window": got.Figures, "whole run": got.Untrimmed.Figures} {
		var sum load.Figures
		var names []string
		for _, a := range part.Adapters {
			names = append(names, a.Name)
			sum.Requests, sum.Completed, sum.OutputTokens = sum.Requests+a.Requests, sum.Completed+a.Completed, sum.OutputTokens+a.OutputTokens
			sum.RequestThroughput, sum.InputThroughput = sum.RequestThroughput+a.RequestThroughput, sum.InputThroughput+a.InputThroughput
			sum.OutputThroughput, sum.TotalThroughput = sum.OutputThroughput+a.OutputThroughput, sum.TotalThroughput+a.TotalThroughput
			sum.MeanConcurrency += a.MeanConcurrency
		}
		want := load.Figures{Requests: part.Requests, Completed: part.Completed, OutputTokens: part.OutputTokens, RequestThroughput: part.RequestThroughput,
			InputThroughput: part.InputThroughput, OutputThroughput: part.OutputThroughput, TotalThroughput: part.TotalThroughput, MeanConcurrency: part.MeanConcurrency}
		if diff := cmp.Diff(want, sum, approx(1e-9)); diff != "" || !slices.Equal(names, []string{"", "old", "sql"}) {
			t.Errorf("%s: adapters %q (-all of them +their sum):\n%s", name, names, diff)
		}
	}
	if old := got.Adapters[1]; old.Requests != 0 || math.Abs(old.OutputThroughput-44./59) > 1e-9 { // 4 a second until 41 s
		t.Errorf("an adapter that was asked before the window: %d requests, %v tokens a second", old.Requests, old.OutputThroughput)
	}
}
