package measure

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hclbench/load"
)

// TestSecretsStayOutOfErrors: a server repeats the key that it refuses, whole and
// where its answer is cut off.
func TestSecretsStayOutOfErrors(t *testing.T) {
	const key = "sk-canary-1234567890"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusUnauthorized)
		auth, team := r.Header.Get("Authorization"), r.Header.Get("X-Team")
		fmt.Fprintf(w, "no: %s, %s; %s", auth, strings.TrimPrefix(auth, "Bearer "), team)
		io.WriteString(w, strings.Repeat(".", 512-10-3*len(key)-len("no: Bearer , ; ")+len(key)-len(team))+key)
	}))
	defer echo.Close()
	job := load.Job{
		Target:   load.Target{BaseURL: echo.URL, Headers: map[string]string{"X-Team": "plain"}},
		Workload: load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 4}, OutputTokens: 4, Requests: 2, Concurrency: 1, Endpoint: load.Completions},
		Secrets:  map[string]string{"Authorization": load.Bearer(key)},
	}
	result, err := Run(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(result.Summary.ErrorSamples, result.Records[0].Error, result.Records[1].Error) {
		if strings.Contains(text, "sk-c") || !strings.Contains(text, "no: (sensitive), (sensitive); plain...") {
			t.Errorf("error %q", text)
		}
	}
	if got := hide(job, errors.New("status 401: "+key)).Error(); got != "status 401: (sensitive)" {
		t.Errorf("hide: %q", got)
	}
}
