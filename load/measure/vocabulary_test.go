package measure

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"hclbench/load"
)

// TestVocabulary: of a model that has not the tokens of random prompts it is said what to send instead.
func TestVocabulary(t *testing.T) {
	recorded, err := os.ReadFile("../../testdata/real/vllm-0.32.0/error-token-out-of-vocabulary.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(recorded, []byte("\r\n\r\n"))
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		w.Write(body)
	}))
	defer h.Close()
	w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Endpoint: load.Completions, OutputTokens: 4, Requests: 10, Concurrency: 2}
	v := run(t, load.Target{BaseURL: h.URL, Model: "tiny"}, w).Summary.Verdict
	if v.Verdict != load.Void || !strings.Contains(v.Reasons[0].Text, `10 × HTTP 400; the model has fewer tokens`) || !strings.Contains(v.Reasons[0].Text, `endpoint = "chat"`) {
		t.Errorf("%+v", v)
	}
}
