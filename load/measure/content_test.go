package measure

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
)

// TestContent: reasoning and tool calls are content, each counted and timed as what it is, and as
// the engine knows that it sent them. Answers of tool calls alone are answers.
func TestContent(t *testing.T) {
	tools := `{"tools":[{"type":"function","function":{"name":"weather"}}],"tool_choice":%s}`
	for _, c := range []struct {
		name  string
		sim   sim.Config
		extra string
		whole bool
		want  *load.Content
		late  float64 // how long after the first token the answer's comes, in ms
	}{
		{name: "text", want: nil},
		{name: "reasoning", sim: sim.Config{Reasoning: 5},
			want: &load.Content{Reasoned: 6, Chunks: 48, ReasoningChunks: 30}, late: 50},
		{name: "reasoning that SGLang counts, several tokens at a time",
			sim:  sim.Config{As: sim.SGLang, Reasoning: 5, TokensPerChunk: 2}, // the third chunk has both kinds
			want: &load.Content{Reasoned: 6, Chunks: 24, ReasoningChunks: 18, ReasoningTokens: 30}, late: 40},
		{name: "nothing but reasoning", sim: sim.Config{Reasoning: 99},
			want: &load.Content{Reasoned: 6, Unanswered: 6, Chunks: 48, ReasoningChunks: 48}},
		{name: "tool calls alone", extra: fmt.Sprintf(tools, `"required"`),
			want: &load.Content{Called: 6, Chunks: 48, CallChunks: 48}},
		{name: "tool calls after reasoning, now and then", sim: sim.Config{Reasoning: 2, CallEvery: 3, StopAfter: 7},
			extra: fmt.Sprintf(tools, `"auto"`),
			want:  &load.Content{Reasoned: 6, Called: 2, Chunks: 42, ReasoningChunks: 12, CallChunks: 8}, late: 20},
		{name: "tool calls alone in whole answers", extra: fmt.Sprintf(tools, `"required"`), whole: true,
			want: &load.Content{Called: 6, Chunks: 6, CallChunks: 6}},
		{name: "all at once in whole answers", sim: sim.Config{Reasoning: 3}, extra: fmt.Sprintf(tools, `"required"`), whole: true,
			want: &load.Content{Reasoned: 6, Called: 6, Chunks: 6, ReasoningChunks: 6, CallChunks: 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sim.TTFT, c.sim.ITL = 5*time.Millisecond, 10*time.Millisecond
			server, target := engine(t, c.sim)
			got := run(t, target, load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 4}, Requests: 6,
				Concurrency: 1, OutputTokens: 8, Endpoint: load.Chat, ExtraBody: c.extra, NoStream: c.whole})
			s, truth := got.Summary, server.Truth()
			if s.Completed != 6 {
				t.Fatalf("%d of 6 completed: %v", s.Completed, s.ErrorSamples)
			}
			if diff := cmp.Diff(c.want, s.Content); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if c.want != nil && (truth.Called != c.want.Called || c.want.ReasoningTokens > 0 && truth.ReasoningTokens != c.want.ReasoningTokens) {
				t.Errorf("the engine made %d tool calls and %d tokens of reasoning", truth.Called, truth.ReasoningTokens)
			}
			answered := s.TTFA != nil && s.TTFA.Count > 0
			if answered != (c.late > 0) {
				t.Fatalf("times to the first token of the answer: %+v", s.TTFA)
			}
			if answered && (s.TTFA.Count != truth.TTFA.Count || s.TTFA.Min-s.TTFT.Min < c.late/2) {
				t.Errorf("the answers' first tokens came after %+v, the first ones after %+v; the engine sent them after %+v",
					s.TTFA, s.TTFT, truth.TTFA)
			}
			text, err := json.Marshal(got.Records[0])
			var back load.Record
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			if at, ok := back.Answer(); err != nil || ok != (c.name != "nothing but reasoning") || ok && (at < back.First || at > back.Last) {
				t.Errorf("record %s: its answer comes at %v, %v, %v", text, at, ok, err)
			}
		})
	}
}
