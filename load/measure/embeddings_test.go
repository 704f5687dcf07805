package measure

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

// TestSilentEndpoints: requests that generate nothing are timed and counted as the engine knows, and
// nothing that they cannot have is held against them.
func TestSilentEndpoints(t *testing.T) {
	write := func(lines ...string) string {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	random := load.Dataset{Kind: load.Random, InputTokens: 9}
	for _, c := range []struct {
		name  string
		sim   sim.Config
		w     load.Workload
		input int64
		texts int // of each request; 0: it differs
		usage bool
	}{
		{"embeddings", sim.Config{}, load.Workload{Endpoint: load.Embeddings, Dataset: random}, 12 * 9, 1, true},
		{"batches", sim.Config{}, load.Workload{Endpoint: load.Embeddings, Dataset: random, BatchSize: 5, Warmup: 2}, 12 * 5 * 9, 5, true},
		{"lengths that differ", sim.Config{}, load.Workload{Endpoint: load.Embeddings, BatchSize: 3,
			Dataset: load.Dataset{Kind: load.Random, InputTokens: 9, RangeRatio: new(0.5), Convention: load.ConventionSGLang}}, 0, 3, true},
		{"base64", sim.Config{}, load.Workload{Endpoint: load.Embeddings, Dataset: random, BatchSize: 2, ExtraBody: `{"encoding_format":"base64"}`}, 12 * 2 * 9, 2, true},
		{"texts of a file", sim.Config{}, load.Workload{Endpoint: load.Embeddings, BatchSize: 2,
			Dataset: load.Dataset{Kind: load.JSONL, Path: write(`{"prompt":"a b c"}`, `{"prompt":"d e f","output_tokens":7}`)}}, 12 * 2 * 3, 2, true},
		{"ranks", sim.Config{}, load.Workload{Endpoint: load.Rerank,
			Dataset: load.Dataset{Kind: load.RandomRerank, Documents: 4, QueryTokens: 3, DocumentTokens: 10}}, 12 * 4 * 13, 4, true},
		{"ranks of SGLang, which counts nothing", sim.Config{As: sim.SGLang}, load.Workload{Endpoint: load.Rerank,
			Dataset: load.Dataset{Kind: load.RandomRerank, Documents: 4, QueryTokens: 3, DocumentTokens: 10}}, 12 * 4 * 13, 4, false},
		{"ranks of a file", sim.Config{}, load.Workload{Endpoint: load.Rerank, Dataset: load.Dataset{Kind: load.JSONL,
			Path: write(`{"query":"a b","documents":["c d","e"]}`, `{"query":"a b","documents":["d","c e"],"extra":{"return_documents":false}}`)}}, 12 * 7, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sim.TTFT, c.sim.Embeds = 10*time.Millisecond, true
			server, target := engine(t, c.sim)
			c.w.Requests, c.w.Concurrency = 12, 3
			c.w.SLO = []load.Objective{{Metric: "e2el", Max: load.Duration(time.Minute)}}
			got := run(t, target, c.w)
			s, truth := got.Summary, server.Truth()
			if s.Completed != 12 || s.OutputTokens != 0 || s.InputTokens == 0 || c.input > 0 && s.InputTokens != c.input || s.InputTokens != s.AskedInput && c.w.Dataset.Kind != load.JSONL {
				t.Fatalf("%d of 12 completed, %d tokens in of %d, %d out: %v", s.Completed, s.InputTokens, s.AskedInput, s.OutputTokens, s.ErrorSamples)
			}
			if c.w.Warmup == 0 && truth.PromptTokens != s.InputTokens || truth.CompletionTokens != 0 || truth.Chunks != 0 {
				t.Errorf("the engine has read %d tokens and generated %d", truth.PromptTokens, truth.CompletionTokens)
			}
			if s.TTFT.Count+s.TPOT.Count+s.ITL.Count+s.PerToken.Count != 0 || s.E2EL.Count != 12 || s.E2EL.Min < 10 || s.InputThroughput <= 0 || *s.Goodput <= 0 {
				t.Errorf("TTFT %v, TPOT %v, ITL %v, E2EL %v", s.TTFT, s.TPOT, s.ITL, s.E2EL)
			}
			for _, r := range s.Verdict.Reasons {
				if slices.Contains([]string{"no-output", "other-outputs", "other-prompts", "requests-failed", "littles-law"}, r.Code) {
					t.Errorf("held against it: %s", r.Text)
				}
			}
			if usage := s.UsageMissing == 0; usage != c.usage || got.Records[0].Texts != c.texts || s.Content != nil {
				t.Errorf("usage missing of %d, texts %d", s.UsageMissing, got.Records[0].Texts)
			}
		})
	}
}

// TestSilentRefused: what such a load cannot have is refused before anything is sent, and an engine that
// generates says that it has no such endpoint.
func TestSilentRefused(t *testing.T) {
	random := load.Dataset{Kind: load.Random, InputTokens: 9}
	good := load.Workload{Endpoint: load.Embeddings, Dataset: random, Requests: 1, Concurrency: 1}
	for want, change := range map[string]func(*load.Workload){
		`output_tokens means nothing to the endpoint "embeddings"`: func(w *load.Workload) { w.OutputTokens = 3 },
		`ignore_eos means nothing`:                                 func(w *load.Workload) { w.IgnoreEOS = true },
		`stream means nothing`:                                     func(w *load.Workload) { w.NoStream = true },
		`temperature means nothing`:                                func(w *load.Workload) { w.Temperature = 1 },
		`generates no tokens, so there is only e2el`:               func(w *load.Workload) { w.SLO = []load.Objective{{Metric: "ttft", Max: 1}} },
		`batch_size means nothing to the endpoint "completions"`:   func(w *load.Workload) { w.Endpoint, w.OutputTokens, w.BatchSize = load.Completions, 1, 2 },
		`5000: at most 4096 is possible`:                           func(w *load.Workload) { w.BatchSize = 5000 },
		`"rerank" is asked with queries and documents`:             func(w *load.Workload) { w.Endpoint = load.Rerank },
		`needs the endpoint "rerank"`: func(w *load.Workload) {
			w.Dataset = load.Dataset{Kind: load.RandomRerank, Documents: 1, QueryTokens: 1, DocumentTokens: 1}
		},
		`5001: at most 4096 is possible`: func(w *load.Workload) {
			w.Endpoint, w.Dataset = load.Rerank, load.Dataset{Kind: load.RandomRerank, Documents: 5001, QueryTokens: 1, DocumentTokens: 1}
		},
		`"input" is for the generator to say`: func(w *load.Workload) { w.ExtraBody = `{"input":"a"}` },
	} {
		w := good
		if change(&w); w.Check() == nil || !strings.Contains(w.Check().Error(), want) {
			t.Errorf("want %s: %v", want, w.Check())
		}
	}
	_, target := engine(t, instant(sim.Config{Embeds: true}))
	s := run(t, target, load.Workload{Endpoint: load.Completions, OutputTokens: 2, Dataset: random, Requests: 2, Concurrency: 1}).Summary
	if s.Statuses[404] != 2 {
		t.Errorf("an engine for embeddings generates: %v", s.Statuses)
	}
}
