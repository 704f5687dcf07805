package sim

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"runtime"
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

// TestLane: streams that net/http has no part in are the same, byte for byte, and
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

// opened is a door with an engine behind it, and its URL.
func opened(t *testing.T, c Config) (*door, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(New(c), l)
	return d, "http://" + l.Addr().String()
}

// begun asks for a stream that takes an hour, and has its first event.
func begun(t *testing.T, url string) *http.Response {
	t.Helper()
	resp, err := http.Post(url+"/v1/completions", "", strings.NewReader(`{"prompt":"a","max_tokens":2,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestLaneEnds: what streams when the engine is told to end is cut when its
// caller does not want to wait longer.
func TestLaneEnds(t *testing.T) {
	d, url := opened(t, Config{TTFT: -1, ITL: time.Hour})
	resp := begun(t, url)
	defer resp.Body.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d.drain(over)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream had a proper end")
	}
	if got := d.server.Truth(); got.Failed != 1 || got.InFlight != 0 {
		t.Errorf("truth = %+v, want one failed request and none in flight", got)
	}
}

// TestLaneLeft: an engine sees at once that a client has left, not only when
// there is something to write.
func TestLaneLeft(t *testing.T) {
	d, url := opened(t, Config{TTFT: -1, ITL: time.Hour})
	begun(t, url).Body.Close()
	for end := time.Now().Add(30 * time.Second); d.server.Truth().InFlight > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the request is still in flight")
		}
	}
	d.drain(t.Context())
	if got := d.server.Truth(); got.Failed != 1 {
		t.Errorf("truth = %+v, want one failed request", got)
	}
}

// TestDoor: what is not simple is answered all the same, on the same connection.
func TestDoor(t *testing.T) {
	address := strings.TrimPrefix(served(t, instant(Config{})), "http://")
	const stream = `{"prompt":"a","max_tokens":1,"stream":true}`
	post := func(fields, body string) string {
		return fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: h\r\n%sContent-Length: %d\r\n\r\n%s", fields, len(body), body)
	}
	for name, c := range map[string]struct {
		ask  string
		want []int // statuses
	}{
		"stream twice":                {post("", stream) + post("", stream), []int{200, 200}},
		"another thing, and a stream": {post("", stream) + "GET /health HTTP/1.1\r\nHost: h\r\n\r\n" + post("", stream), []int{200, 200, 200}},
		"whole":                       {post("", `{"prompt":"a","max_tokens":1}`) + post("", stream), []int{200, 200}},
		"no JSON":                     {post("", `{`), []int{400}},
		"another model":               {post("", `{"model":"x","prompt":"a","stream":true}`), []int{404}},
		"in chunks":                   {"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(stream), stream), []int{200}},
		"two lengths":                 {"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", []int{400}},
		"a long head":                 {post("X: "+strings.Repeat("x", 2*headSize)+"\r\n", stream), []int{200}},
		"the last one":                {post("Connection: close\r\n", stream), []int{200}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(30 * time.Second))
			if _, err := io.WriteString(conn, c.ask); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			var got []int
			for range c.want {
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Fatal(err)
				}
				got = append(got, resp.StatusCode)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
		})
	}
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
