package measure

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

// TestRandomAgentsTimes: tools take their time, sub-agents run beside their agent, which waits for them, and users
// think.
func TestRandomAgentsTimes(t *testing.T) {
	const day = load.Duration(24 * time.Hour) // whatever is drawn is cut to half a second
	w := load.Workload{Requests: 11, Concurrency: 1, Dataset: load.Dataset{Kind: load.RandomAgents, Turns: 2, ToolCalls: 1, SubAgents: 1,
		QuestionTokens: 3, ResultTokens: 2, ToolDelay: day, ThinkTime: day, MaxDelay: load.Duration(time.Second / 2)}}
	synctest.Test(t, func(t *testing.T) {
		s, records := paced(t, t.Context(), w, time.Second)
		var sent []float64
		for _, r := range records {
			sent = append(sent, math.Round((r.Sent-records[0].Sent).Seconds()*100)/100)
		}
		// The agent's requests of a turn are 0, 1.5 and 3.5, its sub-agent's 1 and 2.5; then another session begins.
		if want := []float64{0, 1, 1.5, 2.5, 3.5, 5, 6, 6.5, 7.5, 8.5, 9.5}; !slices.Equal(sent, want) {
			t.Errorf("sent at %v, want %v", sent, want)
		}
		if x := s.Sessions; x == nil || x.Begun != 2 || x.Ended != 1 || x.Requests != 10 || math.Abs(x.Duration.Max-9500) > 1 {
			t.Errorf("sessions %+v", s.Sessions)
		}
	})
}

// TestRandomAgents: what agents send and get is what the engine knows that it read and sent.
func TestRandomAgents(t *testing.T) {
	d := load.Dataset{Kind: load.RandomAgents, Turns: 2, ToolCalls: 1, SubAgents: 2, PrefixTokens: 5, QuestionTokens: 3, ResultTokens: 2,
		ToolDelay: load.Duration(5 * time.Millisecond)}
	const session = 8 + 14 + 26 + 33 + 39 + 51 + 4*(8+14) // tokens of its 14 prompts
	for _, w := range []load.Workload{{Endpoint: load.Completions}, {Endpoint: load.Completions, Warmup: 14}, {Endpoint: load.Chat}, {Endpoint: load.Chat, Rate: 100}} {
		w.Dataset, w.Requests, w.Concurrency, w.OutputTokens, w.IgnoreEOS = d, 56, 2, 4, true
		server, target := engine(t, sim.Config{TTFT: 4 * time.Millisecond, ITL: 2 * time.Millisecond})
		s := run(t, target, w).Summary
		truth := server.Truth()
		sent := int64(56 + w.Warmup)
		if s.Completed != 56 || s.InputTokens != 4*session || s.OutputTokens != 56*4 || truth.Completed != int(sent) ||
			truth.PromptTokens != sent/14*session || truth.CompletionTokens != sent*4 {
			t.Fatalf("%s: %d of 56 completed, %d and %d tokens, the engine says %d and %d in %d: %v", w.Endpoint, s.Completed, s.InputTokens,
				s.OutputTokens, truth.PromptTokens, truth.CompletionTokens, truth.Completed, s.ErrorSamples)
		}
		if x := s.Sessions; x == nil || x.Begun != 4 || x.Ended != 4 || x.Requests != 14 || x.InputTokens != session {
			t.Errorf("%s: sessions %+v", w.Endpoint, s.Sessions)
		}
		if truth.PeakInFlight < 3 || truth.PeakInFlight > 6 {
			t.Errorf("%s: %d requests at once of 2 sessions, which may each have 3", w.Endpoint, truth.PeakInFlight)
		}
	}
}
