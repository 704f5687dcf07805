package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

// conversation serves connections with a script that answers request i of
// connection c; the connection ends when it returns false.
func conversation(t testing.TB, script func(conn net.Conn, c, i int) bool) load.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for c := 0; ; c++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for i := 0; ; i++ {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					if !script(conn, c, i) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return load.Target{BaseURL: "http://" + l.Addr().String()}
}

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

// TestClosedMeanwhile: a connection that the server closes after an answer costs
// no request.
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
	s, err := newServer(load.Target{BaseURL: server.URL}, load.Workload{Endpoint: load.Completions})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(s)
	defer c.Close()
	r := load.Record{}
	c.Send(t.Context(), make([]byte, 200<<10), Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
	if r.Class != load.ClassStatus || !strings.Contains(r.Error, "413") || !strings.Contains(r.Error, "too large") {
		t.Errorf("class %q, %q, want the status and its body", r.Class, r.Error)
	}
}

// TestLargeRequest: a request that no socket takes at once.
func TestLargeRequest(t *testing.T) { bothClients(t, testLargeRequest) }

func testLargeRequest(t *testing.T, with maker) {
	server, target := engine(t, instant(sim.Config{}))
	c := with.client(t, target, load.Workload{Endpoint: load.Completions})
	body := []byte(`{"prompt":"` + strings.Repeat("word ", 3<<20) + `","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`)
	r := load.Record{AskedOutput: 2}
	c.Send(t.Context(), body, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
	if !r.OK() || r.InputTokens != 3<<20 || server.Truth().PromptTokens != 3<<20 {
		t.Errorf("%s %s, %d input tokens, want %d", r.Class, r.Error, r.InputTokens, 3<<20)
	}
}

// TestHostNames: names and both families of addresses are found.
func TestHostNames(t *testing.T) { bothClients(t, testHostNames) }

func testHostNames(t *testing.T, with maker) {
	target := raw(t, func(c net.Conn, _ <-chan struct{}) {
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

// TestOpen: connections are made beforehand, and those are the ones that are
// used.
func TestOpen(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(sim.New(instant(sim.Config{})))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	s, err := newServer(load.Target{BaseURL: server.URL}, load.Workload{Endpoint: load.Completions})
	if err != nil {
		t.Fatal(err)
	}
	c := newLoopClient(s)
	if c == nil {
		return // net/http cannot
	}
	defer c.Close()
	c.Open(t.Context(), 100)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			r := load.Record{}
			c.Send(context.Background(), []byte(`{"prompt":"a","stream":true}`), Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
			if !r.OK() {
				t.Errorf("%s: %s", r.Class, r.Error)
			}
		})
	}
	wg.Wait()
	if n := opened.Load(); n != 100 {
		t.Errorf("%d connections for 100 requests at once", n)
	}
}

// TestOpenCountsTheLiving: connections that have ended since do not count as there.
func TestOpenCountsTheLiving(t *testing.T) {
	var opened atomic.Int64
	target := conversation(t, func(net.Conn, int, int) bool { return false })
	server := httptest.NewUnstartedServer(sim.New(instant(sim.Config{})))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	target.BaseURL = server.URL
	s, err := newServer(target, load.Workload{Endpoint: load.Completions})
	if err != nil {
		t.Fatal(err)
	}
	c, ok := newLoopClient(s).(*loops)
	if !ok {
		return // net/http cannot
	}
	defer c.Close()
	c.Open(t.Context(), 3)
	for _, k := range c.idle {
		k.since = k.since.Add(-idleTimeout) // long ago
	}
	c.Open(t.Context(), 3)
	if ask(t.Context(), c); opened.Load() != 6 {
		t.Errorf("%d connections were made, want 3 and 3 again", opened.Load())
	}
}

// engine starts a simulated engine for one test.
func engine(t testing.TB, c sim.Config) (*sim.Server, load.Target) {
	t.Helper()
	s := sim.New(c)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, load.Target{BaseURL: h.URL, Model: sim.DefaultModel}
}

// instant is an engine that never makes a test wait.
func instant(c sim.Config) sim.Config {
	c.TTFT, c.ITL = -1, -1
	return c
}
