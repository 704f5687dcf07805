package apply

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hclbench/engines"
	"hclbench/provision"
	"hclbench/testhost/recording"
)

// TestResetThatDidNothing: vLLM answers 200 also where it has dropped nothing, as it did while a request ran: it is asked again,
// and what stays so is told.
func TestResetThatDidNothing(t *testing.T) {
	t.Parallel()
	_, _, done := recording.Answer(t, "vllm-0.32.0/reset-prefix-cache.txt")
	busy := strings.Replace(done, "true", "false", 1)
	if busy == done {
		t.Fatalf("recorded %q", done)
	}
	e := &engines.Engine{Kind: engines.VLLM, Env: []provision.EnvVar{{Name: "VLLM_SERVER_DEV_MODE", Value: provision.Plain("1")}}}
	for until, want := range map[int]string{2: "flushed", 1000: `failed: POST /reset_prefix_cache: {"success":false}: nothing was dropped`} {
		asked := 0
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked <= until {
				io.WriteString(w, busy)
			} else {
				io.WriteString(w, done)
			}
		}))
		s := &server{base: at.URL, http: at.Client(), shown: func(text string) string { return text }}
		if got := s.resetCache(t.Context(), e); got != want {
			t.Errorf("after %d answers that did nothing: %q, want %q", until, got, want)
		}
		at.Close()
	}
}
