package load

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGoodput has one request with a TTFT of 100 ms, gaps of 20 and 40 ms and
// five tokens, and bounds just under and just over each of its values.
func TestGoodput(t *testing.T) {
	ms := time.Millisecond
	r := Record{Sent: 50 * ms, First: 150 * ms, Last: 210 * ms, Gaps: []time.Duration{20 * ms, 40 * ms}, OutputTokens: 5}
	for metric, is := range map[string]time.Duration{
		"ttft": 100 * ms, "tpot": 15 * ms, "itl": 30 * ms, "e2el": 160 * ms, "normalized_latency": 32 * ms,
	} {
		if !r.good([]Objective{{Metric: metric, Max: Duration(is)}}) {
			t.Errorf("%s is %v and seems longer", metric, is)
		}
		if r.good([]Objective{{Metric: metric, Max: Duration(is - 1)}}) {
			t.Errorf("%s is %v and seems shorter", metric, is)
		}
	}
	// Gaps that were not kept count all the same.
	r.Gaps, r.Dropped = nil, 2
	if r.good([]Objective{{Metric: "itl", Max: Duration(29 * ms)}}) || !r.good([]Objective{{Metric: "itl", Max: Duration(30 * ms)}}) {
		t.Error("the ITL of a request without its gaps is not 30 ms")
	}
	// Of one chunk there is none.
	r.Dropped, r.Last, r.OutputTokens = 0, r.First, 1
	if !r.good([]Objective{{Metric: "itl", Max: 1}, {Metric: "tpot", Max: 1}}) {
		t.Error("a request of one token is not within every ITL and TPOT")
	}
}

// TestSecretsStayOutOfErrors: a server repeats the key that it refuses, whole and
// where its answer is cut off.
func TestSecretsStayOutOfErrors(t *testing.T) {
	const key = "sk-canary-1234567890"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusUnauthorized)
		auth, team := r.Header.Get("Authorization"), r.Header.Get("X-Team")
		fmt.Fprintf(w, "no: %s, %s; %s", auth, strings.TrimPrefix(auth, "Bearer "), team)
		io.WriteString(w, strings.Repeat(".", maxErrorText-10-3*len(key)-len("no: Bearer , ; ")+len(key)-len(team))+key)
	}))
	defer echo.Close()
	job := Job{
		Target:   Target{BaseURL: echo.URL, Headers: map[string]string{"X-Team": "plain"}},
		Workload: Workload{Dataset: Dataset{Kind: Random, InputTokens: 4}, OutputTokens: 4, Requests: 2, Concurrency: 1, Endpoint: Completions},
		Secrets:  map[string]string{"Authorization": Bearer(key)},
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
	if got := job.hide(errors.New("status 401: " + key)).Error(); got != "status 401: (sensitive)" {
		t.Errorf("hide: %q", got)
	}
}

// TestTokenizerChecksum: a tokenizer that is not the one meant is refused.
func TestTokenizerChecksum(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	text := []byte(`{"model":{}}`)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for sum, want := range map[string]string{
		fmt.Sprintf("%X", sha256.Sum256(text)): "version", // it is read, and is no tokenizer
		strings.Repeat("0", 64):                fmt.Sprintf("its sha256 is %x, not 000", sha256.Sum256(text)),
	} {
		job := Job{Workload: Workload{Dataset: Dataset{Tokenizer: file, TokenizerSHA256: sum}}}
		if _, err := loadTokens(job, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with checksum %s: %v, want %q", sum, err, want)
		}
	}
}
