package measure

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/testhost/recording"
)

// TestVocabulary: of a model that has not the tokens of random prompts it is said what to send instead.
func TestVocabulary(t *testing.T) {
	status, _, body := recording.Answer(t, "vllm-0.32.0/error-token-out-of-vocabulary.txt")
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	defer h.Close()
	w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Endpoint: load.Completions, OutputTokens: 4, Requests: 10, Concurrency: 2}
	v := run(t, load.Target{BaseURL: h.URL, Model: "tiny"}, w).Summary.Verdict
	if v.Verdict != load.Void || !strings.Contains(v.Reasons[0].Text, `10 × HTTP 400; the model has fewer tokens`) || !strings.Contains(v.Reasons[0].Text, `endpoint = "chat"`) {
		t.Errorf("%+v", v)
	}
}
