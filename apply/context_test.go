package apply

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/plan"
	"hclbench/testhost/recording"
)

// TestContextOfTheEngine: what a server lists of its context is read, cells that do not go into it are told
// once each, and answers that ended there are a doubt.
func TestContextOfTheEngine(t *testing.T) {
	page := recording.Text(t, "vllm-0.32.0/models.json")
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page) }))
	defer at.Close()
	s := &server{base: at.URL, http: at.Client(), shown: func(text string) string { return text }}
	found, err := s.model(t.Context(), "/v1/models", "tiny")
	if want := (listed{"tiny", 4096}); err != nil || found != want {
		t.Fatalf("it serves %+v, %v, want %+v", found, err, want)
	}

	var told []string
	cell := func(input, output int) *plan.Cell {
		w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: input}, OutputTokens: output}
		return &plan.Cell{Task: &plan.Load{Job: load.Job{Workload: w}}}
	}
	tr := &trial{context: 4096, engine: &engine{tell: teller{to: func(e Event) { told = append(told, e.Message) }}},
		left: []*plan.Cell{cell(4000, 96), cell(4000, 200), cell(4000, 200)}}
	tr.tellTooLong()
	want := []string{"a prompt of 4000 tokens and an answer of 200 make 4200, and the engine serves 4096 (max_model_len): " +
		"it refuses them, or cuts their answers short"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}

	records := []load.Record{
		{InputTokens: 4000, OutputTokens: 96, AskedOutput: 200, End: 1}, // as vLLM 0.32 cuts it
		{InputTokens: 4000, OutputTokens: 20, AskedOutput: 200, End: 1}, // it ended by itself
		{InputTokens: 4000, OutputTokens: 96, AskedOutput: 96, End: 1},
	}
	want = []string{"1 of 3 answers were cut short where prompt and answer had the 4096 tokens that the engine serves (max_model_len)"}
	if diff := cmp.Diff(want, cutShort(records, 4096)); diff != "" {
		t.Errorf("doubts (-want +got):\n%s", diff)
	}
	if got := cutShort(records, 0); got != nil {
		t.Errorf("without a context: %q", got)
	}
}
