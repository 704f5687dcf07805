package measure

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
)

// TestResponses: what the Responses API brings is counted and timed as the engine knows that it sent it.
func TestResponses(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	os.WriteFile(rows, []byte(`{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"a b"}],`+
		`"tools":[{"type":"function","function":{"name":"weather","parameters":{}}}],"tool_choice":{"type":"function","function":{"name":"weather"}},`+
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}`), 0o644)
	random := load.Dataset{Kind: load.Random, InputTokens: 4}
	for _, c := range []struct {
		name  string
		sim   sim.Config
		data  load.Dataset
		whole bool
		input int64
		want  *load.Content
	}{
		{name: "text", data: random, input: 24},
		{name: "reasoning", sim: sim.Config{Reasoning: 3}, data: random, input: 24,
			want: &load.Content{Reasoned: 6, Chunks: 48, ReasoningChunks: 18, ReasoningTokens: 18}},
		{name: "tools of a chat's row", data: load.Dataset{Kind: load.JSONL, Path: rows}, input: 24,
			want: &load.Content{Called: 6, Chunks: 48, CallChunks: 48}},
		{name: "whole", sim: sim.Config{Reasoning: 3}, data: random, whole: true, input: 24,
			want: &load.Content{Reasoned: 6, Chunks: 6, ReasoningChunks: 6, ReasoningTokens: 18}},
		{name: "conversations", data: load.Dataset{Kind: load.RandomConversation, Turns: 2, QuestionTokens: 3}, input: 3 * (3 + 3 + 8 + 3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sim.TTFT, c.sim.ITL = 5*time.Millisecond, 4*time.Millisecond
			server, target := engine(t, c.sim)
			got := run(t, target, load.Workload{Dataset: c.data, Requests: 6, Concurrency: 2, OutputTokens: 8, IgnoreEOS: true,
				Endpoint: load.Responses, NoStream: c.whole}).Summary
			truth := server.Truth()
			if got.Completed != 6 || got.UsageMissing > 0 || got.OutputTokens != 48 || truth.CompletionTokens != 48 || got.InputTokens != c.input || truth.PromptTokens != c.input {
				t.Fatalf("%d of 6 completed, %d and %d tokens, the engine says %d and %d: %v", got.Completed, got.InputTokens, got.OutputTokens,
					truth.PromptTokens, truth.CompletionTokens, got.ErrorSamples)
			}
			if diff := cmp.Diff(c.want, got.Content); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if !c.whole && (got.ITL.Count != truth.ITL.Count || got.TTFT.Count != truth.TTFT.Count || got.TTFT.Min < 5) {
				t.Errorf("ITL %+v, TTFT %+v; the engine sent %+v and %+v", got.ITL, got.TTFT, truth.ITL, truth.TTFT)
			}
		})
	}
}

// TestResponsesOfNobody: a server without the endpoint says so, request by request.
func TestResponsesOfNobody(t *testing.T) {
	_, target := engine(t, instant(sim.Config{}))
	target.BaseURL += "/elsewhere"
	s := run(t, target, load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 4}, Requests: 2, Concurrency: 1,
		OutputTokens: 2, Endpoint: load.Responses}).Summary
	if s.Statuses[http.StatusNotFound] != 2 || s.Verdict.Verdict != load.Void {
		t.Errorf("%v, verdict %v", s.Statuses, s.Verdict)
	}
}
