package sim

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// served starts an engine as the program does and returns its URL.
func served(t testing.TB, c Config) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log := &logged{want: "Application startup complete.", found: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, c, "127.0.0.1:0", log) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	<-log.found
	log.mu.Lock()
	defer log.mu.Unlock()
	return regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(log.buf.String())
}

// TestLane: streams that have left net/http are the same, byte for byte, and
// their connections are kept.
func TestLane(t *testing.T) {
	_, plain := start(t, instant(Config{Model: "m"}))
	url := served(t, instant(Config{Model: "m"}))
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt":"a","max_tokens":300,"stream":true,"stream_options":{"include_usage":true}}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}],"max_tokens":3,"stream":true}`,
		"/generate":            `{"text":"a","sampling_params":{"max_new_tokens":700},"stream":true}`, // chunks of more than 4 KiB
	} {
		_, want := ask(t, "POST", plain+path, body)
		reused := 0
		for range 3 {
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
				if i.Reused {
					reused++
				}
			}})
			req, err := http.NewRequestWithContext(ctx, "POST", url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if diff := cmp.Diff(fixed(want), fixed(string(got))); diff != "" || err != nil {
				t.Errorf("%s: %v, stream (-net/http +lane):\n%.400s", path, err, diff)
			}
		}
		if reused < 2 {
			t.Errorf("%s: %d of 3 requests went over a connection that was kept", path, reused)
		}
	}
}

// TestLaneEnds: what streams when the engine is told to end is cut after the
// grace that its caller gives.
func TestLaneEnds(t *testing.T) {
	url := served(t, Config{TTFT: time.Millisecond, ITL: time.Hour})
	resp, err := http.Post(url+"/v1/completions", "", strings.NewReader(`{"prompt":"a","max_tokens":2,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
}

// BenchmarkLane is the cost of one event written by the lane, the client's
// reading included.
func BenchmarkLane(b *testing.B) {
	url := served(b, instant(Config{}))
	const tokens = 10000
	for b.Loop() {
		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":10000,"stream":true}`))
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/event")
}
