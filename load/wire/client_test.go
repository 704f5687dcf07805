package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/load"
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
	return load.Target{BaseURL: "http://" + l.Addr().String(), Model: "m"}
}

// raw serves the first request of every connection with a script that writes bytes. The
// connection ends when the script does.
func raw(t testing.TB, script func(c net.Conn)) load.Target {
	return conversation(t, func(c net.Conn, _, _ int) bool {
		script(c)
		return false
	})
}

// wait waits until a connection ends.
func wait(c net.Conn) { io.Copy(io.Discard, c) }

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n" // ends with the connection

// maker makes one of the clients.
type maker func(server) Client

// bothClients runs a test with every client that this system has.
func bothClients(t *testing.T, test func(*testing.T, maker)) {
	t.Run("net/http", func(t *testing.T) { test(t, func(s server) Client { return newStandardClient(s) }) })
	if runtime.GOOS == "linux" {
		t.Run("loop", func(t *testing.T) { test(t, newLoopClient) })
		t.Run("unhurried loop", func(t *testing.T) {
			test(t, func(s server) Client {
				s.pause = unhurried
				return newLoopClient(s)
			})
		})
	}
}

// client makes a client for one test.
func (with maker) client(t testing.TB, target load.Target, w load.Workload) Client {
	t.Helper()
	s, err := newServer(target, w)
	if err != nil {
		t.Fatal(err)
	}
	c := with(s)
	t.Cleanup(c.Close)
	return c
}

// send sends one request and returns its record.
func (with maker) send(t testing.TB, ctx context.Context, target load.Target, w load.Workload) load.Record {
	t.Helper()
	return ask(ctx, with.client(t, target, w))
}

// ask sends a request that asks for 3 tokens.
func ask(ctx context.Context, c Client) load.Record {
	r := load.Record{AskedInput: 5, AskedOutput: 3}
	c.Send(ctx, net.Buffers{[]byte("{}")}, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
	return r
}

func usage(prompt, completion int) string {
	return fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`+"\n\n", prompt, completion)
}

func text(s string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"text":%q,"finish_reason":null}],"usage":null}`+"\n\n", s)
}

var anyText = regexp.MustCompile(`"text":"[^"]*"`)

// ended is how SGLang ends a chat, whether an end token came or not.
func ended(why string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"reasoning_content":null},"finish_reason":%q}]}`+"\n\n", why)
}

const stopped = `data: {"choices":[{"index":0,"text":"","finish_reason":"stop"}]}` + "\n\n"

// usageWithChoice is how some gateways tell the usage.
const usageWithChoice = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":5}}` + "\n\n"

const end = "data: [DONE]\n\n"

// TestAnswers is what servers answer, byte by byte as they do, and what is made of it.
func TestAnswers(t *testing.T) { bothClients(t, testAnswers) }

func testAnswers(t *testing.T, with maker) {
	whole := text("a") + text("b") + text("c") + usage(5, 3) + end
	ok := load.Record{InputTokens: 5, OutputTokens: 3, Gaps: make([]time.Duration, 2)}
	failed := func(class, text string) load.Record { return load.Record{Class: class, Error: text} }
	chunked := func(parts ...string) string {
		b := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
		for _, p := range parts {
			b += fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
		}
		return b
	}
	for _, c := range []struct {
		name, answer string
		want         load.Record
	}{
		{"plain", streamHead + whole, ok},
		{"chunked", chunked(whole) + "0\r\n\r\n", ok},
		{"chunked anyhow", chunked(whole[:7], whole[7:90], whole[90:]) + "0\r\n\r\n", ok},
		{"crlf", streamHead + strings.ReplaceAll(whole, "\n", "\r\n"), ok},
		{"comments", streamHead + ": ping\n\n" + strings.ReplaceAll(whole, "data: ", ":\ndata:"), ok},
		{"no content type", "HTTP/1.1 200 OK\r\n\r\n" + whole, ok},
		{"done without an end", streamHead + strings.TrimSuffix(whole, "\n\n"), ok},
		{"the role is no token", streamHead + chatRole(t) + whole, ok},
		{"a token without text", streamHead + chatRole(t) + text("") + text("b") + text("c") + usage(5, 3) + end, load.Record{InputTokens: 5, OutputTokens: 3, Mute: 1, Gaps: make([]time.Duration, 2)}},
		{"an end token", streamHead + chatRole(t) + text("a") + text("b") + stopped + usage(5, 3) + end, load.Record{InputTokens: 5, OutputTokens: 3, Mute: 1, Finish: "stop", Gaps: make([]time.Duration, 2)}},
		{"an end token in a chunk of its own", streamHead + chatRole(t) + text("a") + text("b") + ended("stop") + usage(5, 3) + end, load.Record{InputTokens: 5, OutputTokens: 3, Mute: 1, Finish: "stop", Gaps: make([]time.Duration, 2)}},
		{"an end without a token", streamHead + chatRole(t) + text("a") + text("b") + ended("length") + usage(5, 2) + end, load.Record{InputTokens: 5, OutputTokens: 2, Finish: "length", Gaps: make([]time.Duration, 1)}},
		{"an end behind chunks of several tokens", streamHead + chatRole(t) + text("a b") + text("c d") + ended("length") + usage(5, 4) + end, load.Record{InputTokens: 5, OutputTokens: 4, Finish: "length", Gaps: make([]time.Duration, 1)}},
		{"nothing but an end token", streamHead + chatRole(t) + stopped + usage(5, 1) + end, load.Record{InputTokens: 5, OutputTokens: 1, Mute: 1, Finish: "stop"}},
		{"an end token cut off by its length, alone", streamHead + chatRole(t) + ended("length") + usage(5, 1) + end, load.Record{InputTokens: 5, OutputTokens: 1, Mute: 1, Finish: "length"}},
		{"text so far, of which there is none", streamHead + strings.ReplaceAll(anyText.ReplaceAllString(sglangChunk(t), `"text":""`), `"completion_tokens":8`, `"completion_tokens":1`) + end, load.Record{InputTokens: 3, OutputTokens: 1, Mute: 1, Finish: "length"}},
		{"a usage with a choice, behind the end", streamHead + chatRole(t) + text("a b") + text("c d") + stopped + usageWithChoice + end, load.Record{InputTokens: 5, OutputTokens: 5, Mute: 1, Finish: "stop", Gaps: make([]time.Duration, 2)}},
		{"an end that nobody counts", streamHead + chatRole(t) + stopped + end, failed(load.ClassEmpty, "the answer was whole but brought nothing; tokens by its usage: 0")},
		{"usage in every chunk, the last counts", streamHead + usage(5, 1) + whole, ok},
		{"early stop", streamHead + text("a") + stopped + usage(5, 1) + end, load.Record{InputTokens: 5, OutputTokens: 1, Finish: "stop", Gaps: []time.Duration{}}},
		{"several tokens in a chunk", streamHead + text("a b c") + text("d e f") + usage(5, 6) + end, load.Record{InputTokens: 5, OutputTokens: 6, Gaps: make([]time.Duration, 1)}},
		{"no usage", streamHead + text("a") + text("b") + end, load.Record{InputTokens: 5, OutputTokens: 2, NoUsage: true, Gaps: make([]time.Duration, 1)}},
		{"text so far", streamHead + strings.Repeat(sglangChunk(t), 3) + end, load.Record{InputTokens: 3, OutputTokens: 8, Finish: "length", Gaps: []time.Duration{}}},

		{"500", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 19\r\n\r\n {\"error\":\"no KV\"}\n", failed(load.ClassStatus, `status 500 Internal Server Error: {"error":"no KV"}`)},
		{"429", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", failed(load.ClassStatus, `status 429 Too Many Requests`)},
		{"503 of a proxy", "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n" + strings.Repeat("x", 9000), failed(load.ClassStatus, "status 503 Service Unavailable: "+strings.Repeat("x", maxErrorText)+"…")},
		{"a body that says the same", "HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\nNot Found\n", failed(load.ClassStatus, "status 404 Not Found")},
		{"redirect", "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n", failed(load.ClassStatus, "status 302 Found")},
		{"wrong content type", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", failed(load.ClassMalformed, `content type "application/json" instead of a stream: {}`)},
		{"truncated", streamHead + text("a") + text("b"), failed(load.ClassTruncated, "the stream ended without [DONE] after 2 chunks")},
		{"truncated in a chunk of HTTP", chunked(text("a"))[:150], failed(load.ClassTruncated, "unexpected EOF")},
		{"cut in an event", streamHead + text("a") + `data: {"choi`, failed(load.ClassTruncated, "the stream ended without [DONE] after 1 chunks")},
		{"nothing at all", "", failed(load.ClassTruncated, "EOF")},
		{"empty stream", streamHead, failed(load.ClassTruncated, "the stream ended without [DONE] after 0 chunks")},
		{"no token", streamHead + chatRole(t) + usage(5, 0) + end, failed(load.ClassEmpty, "the answer was whole but brought nothing; tokens by its usage: 0")},
		{"error in the stream", streamHead + text("a") + `data: {"error":{"message":"KV cache","code":500}}` + "\n\n" + end, failed(load.ClassServer, `{"error":{"message":"KV cache","code":500}}`)},
		{"not JSON", streamHead + "data: <html>\n\n" + end, failed(load.ClassMalformed, "not a JSON object: <html>")},
		{"invalid UTF-8", streamHead + "data: \xff{\n\n" + end, failed(load.ClassMalformed, "not a JSON object: \uFFFD{")},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", failed(load.ClassMalformed, `malformed HTTP response "SSH-2.0-OpenSSH_9.2"`)},
		{"huge line", streamHead + "data: " + strings.Repeat("x", maxLine+1), failed(load.ClassMalformed, errLine.Error())},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := raw(t, func(conn net.Conn) { io.WriteString(conn, c.answer) })
			got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions})
			if slices.ContainsFunc(got.Gaps, func(gap time.Duration) bool { return gap < 0 }) || got.End < got.Sent || got.OK() && (got.First < got.Sent || got.Last < got.First || got.End < got.Last) {
				t.Errorf("times go backwards: %+v", got)
			}
			c.want.AskedInput, c.want.AskedOutput = 5, 3
			if !got.OK() {
				// What a failed request has brought is kept, and not looked at here.
				got = load.Record{Class: got.Class, Error: got.Error, AskedInput: got.AskedInput, AskedOutput: got.AskedOutput}
			}
			zero := cmp.Transformer("gaps", func(gaps []time.Duration) int { return len(gaps) })
			if diff := cmp.Diff(c.want, got, zero, cmpopts.IgnoreFields(load.Record{}, "Sent", "First", "Answered", "Last", "End", "Merged")); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMerged: chunks of one read are told from chunks that came one by one.
func TestMerged(t *testing.T) { bothClients(t, testMerged) }

func testMerged(t *testing.T, with maker) {
	target := raw(t, func(c net.Conn) {
		io.WriteString(c, streamHead+text("a")+text("b")+text("c")+text("d")+usage(5, 4)+end)
	})
	if got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions}); got.Merged != 3 || got.OutputTokens != 4 {
		t.Errorf("%d merged chunks of %d tokens, want 3 of 4: %+v", got.Merged, got.OutputTokens, got)
	}
}

func TestSilence(t *testing.T) { bothClients(t, testSilence) }

func testSilence(t *testing.T, with maker) {
	part := streamHead + text("a")
	for _, c := range []struct {
		name, answer   string
		stall, timeout time.Duration
		class          string
	}{
		{"no header", "", 30 * time.Millisecond, 0, load.ClassStall},
		{"in the stream", part, 30 * time.Millisecond, 0, load.ClassStall},
		{"in an error's body", "HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nx", 30 * time.Millisecond, 0, load.ClassStall},
		{"in all", part, time.Hour, 30 * time.Millisecond, load.ClassTimeout},
		{"the shorter one", part, 30 * time.Millisecond, time.Hour, load.ClassStall},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := raw(t, func(conn net.Conn) {
				io.WriteString(conn, c.answer)
				wait(conn)
			})
			got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions, Stall: load.Duration(c.stall), Timeout: load.Duration(c.timeout)})
			if got.Class != c.class {
				t.Errorf("class %q (%s), want %q", got.Class, got.Error, c.class)
			}
			if got.End-got.Sent < 30*time.Millisecond {
				t.Errorf("given up after %v, too soon", got.End-got.Sent)
			}
		})
	}
}

// TestSlowIsNotSilent: a stream that takes long but never stops has not stalled.
func TestSlowIsNotSilent(t *testing.T) { bothClients(t, testSlowIsNotSilent) }

func testSlowIsNotSilent(t *testing.T, with maker) {
	target := raw(t, func(c net.Conn) {
		io.WriteString(c, streamHead)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range 30 {
			<-tick.C
			io.WriteString(c, text("a"))
		}
		io.WriteString(c, usage(5, 30)+end)
	})
	got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions, Stall: load.Duration(400 * time.Millisecond)})
	if !got.OK() || got.OutputTokens != 30 {
		t.Errorf("%+v, want 30 tokens", got)
	}
}

// TestNeverCloses: an answer is over at its [DONE], even when its stream is not.
func TestNeverCloses(t *testing.T) { bothClients(t, testNeverCloses) }

func testNeverCloses(t *testing.T, with maker) {
	target := raw(t, func(c net.Conn) {
		io.WriteString(c, streamHead+text("a")+usage(5, 1)+end)
		wait(c)
	})
	got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions})
	if !got.OK() || got.End-got.Last > drainTimeout/2 {
		t.Errorf("%+v, want a success that ends with its [DONE]", got)
	}
}

func TestReset(t *testing.T) { bothClients(t, testReset) }

func testReset(t *testing.T, with maker) {
	target := raw(t, func(c net.Conn) {
		io.WriteString(c, streamHead+text("a"))
		c.(*net.TCPConn).SetLinger(0) // closing resets
	})
	got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions})
	if got.Class != load.ClassTruncated {
		t.Errorf("class %q (%s), want %q", got.Class, got.Error, load.ClassTruncated)
	}
}

func TestNoServer(t *testing.T) { bothClients(t, testNoServer) }

func testNoServer(t *testing.T, with maker) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	got := with.send(t, t.Context(), load.Target{BaseURL: "http://" + addr}, load.Workload{Endpoint: load.Completions})
	if want := "dial " + addr + ": connect: connection refused"; got.Class != load.ClassConnect || got.Error != want {
		t.Errorf("class %q: %s, want %q: %s", got.Class, got.Error, load.ClassConnect, want)
	}
}

func TestCancel(t *testing.T) { bothClients(t, testCancel) }

func testCancel(t *testing.T, with maker) {
	ctx, cancel := context.WithCancel(t.Context())
	target := raw(t, func(c net.Conn) {
		io.WriteString(c, streamHead+text("a"))
		cancel()
		wait(c)
	})
	got := with.send(t, ctx, target, load.Workload{Endpoint: load.Completions})
	if got.Class != load.ClassCancelled {
		t.Errorf("class %q (%s), want %q", got.Class, got.Error, load.ClassCancelled)
	}
}

func TestBaseURL(t *testing.T) {
	for _, bad := range []string{"", "localhost:8000", "127.0.0.1:8000", "ftp://x", "http://", "http://a b", "http://h:1/?x=1", "http://h:1/#x", "http://h:1?", "http://user:pass@h:1"} {
		if _, err := newServer(load.Target{BaseURL: bad}, load.Workload{}); err == nil {
			t.Errorf("newServer(%q): no error", bad)
		} else if strings.Contains(err.Error(), "pass@") {
			t.Errorf("newServer(%q): the password is in its error: %v", bad, err)
		}
	}
	c, err := newServer(load.Target{BaseURL: "http://h:1/prefix/"}, load.Workload{Endpoint: load.Chat})
	if want := "http://h:1/prefix/v1/chat/completions"; err != nil || c.url() != want {
		t.Errorf("url %q, %v, want %q", c.url(), err, want)
	}
}

// TestNoFileLeft: who runs out of open files is told what to do.
func TestNoFileLeft(t *testing.T) {
	err := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{}, Err: os.NewSyscallError("socket", syscall.EMFILE)}
	if got := described(err); !strings.Contains(got, "raise the limit with ulimit -n") {
		t.Errorf("described() = %q", got)
	}
}

// TestDirectHasNoProxy: net/http asks the environment only when it is told to.
func TestDirectHasNoProxy(t *testing.T) {
	if Direct().Transport.(*http.Transport).Proxy != nil {
		t.Error("there is a proxy")
	}
}

// noted is a client that notes to which server requests go.
type noted struct {
	Client
	to *[]int
	me int
}

func (n noted) Send(context.Context, net.Buffers, Exchange) { *n.to = append(*n.to, n.me) }

// TestSessionsStay: of several servers each request that stands alone goes to the next, and a conversation to one.
func TestSessionsStay(t *testing.T) {
	var to []int
	s := &several{all: []Client{noted{nil, &to, 0}, noted{nil, &to, 1}, noted{nil, &to, 2}}}
	for _, session := range []int{0, 0, 0, 0, 1, 2, 2, 1, 4, 3} {
		s.Send(t.Context(), nil, Exchange{Record: &load.Record{Session: session}})
	}
	if diff := cmp.Diff([]int{0, 1, 2, 0, 0, 1, 1, 0, 0, 2}, to); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}
