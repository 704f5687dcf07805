package wire

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func inChunks(parts ...string) string {
	b := chunkedHead
	for _, p := range parts {
		b += fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
	}
	return b
}

// TestReuse: which answers leave a connection that the next request can use.
func TestReuse(t *testing.T) { bothClients(t, testReuse) }

func testReuse(t *testing.T, with maker) {
	whole := text("a") + usage(5, 1) + end
	sized := func(extra string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", extra, len(whole), whole)
	}
	for _, c := range []struct {
		name, answer string
		class        string
		connections  int64 // for three requests
	}{
		{"chunked", inChunks(whole) + "0\r\n\r\n", "", 1},
		{"chunk extensions and trailers", chunkedHead + fmt.Sprintf("%X;x=y\r\n%s\r\n0\r\nX-Took: 3\r\nX-More: 4\r\n\r\n", len(whole), whole), "", 1},
		{"length", sized(""), "", 1},
		{"continue", "HTTP/1.1 100 Continue\r\n\r\n" + sized(""), "", 1},
		{"hints", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + sized(""), "", 1},
		{"says close", sized("Connection: close\r\n"), "", 3},
		{"old", strings.Replace(sized(""), "1.1", "1.0", 1), "", 3},
		{"refused", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy", load.ClassStatus, 1},
		{"refused in chunks", "HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\n0\r\n\r\n", load.ClassStatus, 1},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", load.ClassStatus, 1},
		{"bad chunk length", chunkedHead + "zz\r\n", load.ClassMalformed, 3},
		{"bad header", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", load.ClassMalformed, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var connections atomic.Int64
			client := with.client(t, conversation(t, func(conn net.Conn, _, i int) bool {
				if i == 0 {
					connections.Add(1)
				}
				io.WriteString(conn, c.answer)
				return c.connections == 1
			}), load.Workload{Endpoint: load.Completions})
			for range 3 {
				if got := ask(t.Context(), client); got.Class != c.class {
					t.Errorf("class %q (%s), want %q", got.Class, got.Error, c.class)
				}
			}
			if n := connections.Load(); n != c.connections {
				t.Errorf("%d connections, want %d", n, c.connections)
			}
		})
	}
}

// TestClosedMeanwhile: a connection that the server closes after an answer costs no request.
func TestClosedMeanwhile(t *testing.T) { bothClients(t, testClosedMeanwhile) }

func testClosedMeanwhile(t *testing.T, with maker) {
	closed := make(chan struct{}, 20)
	target := conversation(t, func(conn net.Conn, _, _ int) bool {
		io.WriteString(conn, inChunks(text("a")+usage(5, 1)+end)+"0\r\n\r\n")
		conn.Close()
		closed <- struct{}{}
		return false
	})
	c := with.client(t, target, load.Workload{Endpoint: load.Completions})
	for i := range 10 {
		got := ask(t.Context(), c)
		if !got.OK() {
			t.Fatalf("request %d: %s: %s", i, got.Class, got.Error)
		}
		<-closed
		// The end travels over loopback; a read of our own proves nothing about the
		// client's socket, but a second round trip to the same machine comes later.
		if other := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions}); !other.OK() {
			t.Fatalf("%s: %s", other.Class, other.Error)
		}
		<-closed
	}
}

// TestAnsweredEarly: a server that refuses before it has read the request.
func TestAnsweredEarly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}))
	defer server.Close()
	c := maker(newClient).client(t, load.Target{BaseURL: server.URL}, load.Workload{Endpoint: load.Completions})
	r := load.Record{}
	c.Send(t.Context(), net.Buffers{make([]byte, 200<<10)}, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
	if r.Class != load.ClassStatus || !strings.Contains(r.Error, "413") || !strings.Contains(r.Error, "too large") {
		t.Errorf("class %q, %q, want the status and its body", r.Class, r.Error)
	}
}

// TestPieces: the pieces of a body arrive as one, and stay as they were for the next request.
func TestPieces(t *testing.T) { bothClients(t, testPieces) }

func testPieces(t *testing.T, with maker) {
	server := sim.New(instant)
	h := httptest.NewServer(server)
	defer h.Close()
	c := with.client(t, load.Target{BaseURL: h.URL}, load.Workload{Endpoint: load.Completions})
	shared := []byte(strings.Repeat("word ", 1<<18))
	for n := range 3 {
		body := net.Buffers{[]byte(`{"prompt":"`), {}}
		for range n * 700 { // more than one write takes
			body = append(body, []byte("a "))
		}
		body = append(body, shared, []byte(`","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`))
		r := load.Record{AskedOutput: 2}
		c.Send(t.Context(), body, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
		if want := 1<<18 + n*700; !r.OK() || r.InputTokens != want {
			t.Errorf("%s %s, %d input tokens, want %d", r.Class, r.Error, r.InputTokens, want)
		}
	}
}

// TestLargeRequest: a request that no socket takes at once.
func TestLargeRequest(t *testing.T) { bothClients(t, testLargeRequest) }

func testLargeRequest(t *testing.T, with maker) {
	server := sim.New(instant)
	h := httptest.NewServer(server)
	defer h.Close()
	c := with.client(t, load.Target{BaseURL: h.URL}, load.Workload{Endpoint: load.Completions})
	body := []byte(`{"prompt":"` + strings.Repeat("word ", 3<<20) + `","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`)
	r := load.Record{AskedOutput: 2}
	c.Send(t.Context(), net.Buffers{body}, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
	if !r.OK() || r.InputTokens != 3<<20 || server.Truth().PromptTokens != 3<<20 {
		t.Errorf("%s %s, %d input tokens, want %d", r.Class, r.Error, r.InputTokens, 3<<20)
	}
}

// TestHostNames: names and both families of addresses are found.
func TestHostNames(t *testing.T) { bothClients(t, testHostNames) }

func testHostNames(t *testing.T, with maker) {
	target := raw(t, func(c net.Conn) {
		io.WriteString(c, streamHead+text("a")+usage(5, 1)+end)
	})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(target.BaseURL, "http://"))
	target.BaseURL = "http://localhost:" + port
	if got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions}); !got.OK() {
		t.Errorf("%s: %s: %s", target.BaseURL, got.Class, got.Error)
	}
	target.BaseURL = "http://nowhere.invalid:1"
	if got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions}); got.Class != load.ClassConnect {
		t.Errorf("%s: class %q: %s", target.BaseURL, got.Class, got.Error)
	}
}

// instant is an engine that never makes a test wait.
var instant = sim.Config{TTFT: -1, ITL: -1}
