package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
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

	"golang.org/x/sys/unix"

	"hclbench/load"
	"hclbench/sim"
)

// TestNothingIsRepeated: a request that a kept connection took with it is a failed
// request of a class of its own, and the server sees it once.
func TestNothingIsRepeated(t *testing.T) { bothClients(t, testNothingIsRepeated) }

func testNothingIsRepeated(t *testing.T, with maker) {
	for _, how := range []string{"closed", "reset"} {
		t.Run(how, func(t *testing.T) {
			var seen atomic.Int64
			target := conversation(t, func(conn net.Conn, c, i int) bool {
				seen.Add(1)
				if c == 0 && i == 1 { // the second request on the first connection
					if how == "reset" {
						conn.(*net.TCPConn).SetLinger(0)
					}
					return false
				}
				io.WriteString(conn, inChunks(text("a")+usage(5, 1)+end)+"0\r\n\r\n")
				return true
			})
			c := with.client(t, target, load.Workload{Endpoint: load.Completions})
			if first := ask(t.Context(), c); !first.OK() {
				t.Fatalf("%s: %s", first.Class, first.Error)
			}
			second := ask(t.Context(), c)
			if second.Class != load.ClassStale || seen.Load() != 2 {
				t.Errorf("class %q (%s), and the server saw %d requests, want %q and 2", second.Class, second.Error, seen.Load(), load.ClassStale)
			}
			if third := ask(t.Context(), c); !third.OK() {
				t.Errorf("after it: %s: %s", third.Class, third.Error)
			}
		})
	}
}

// TestFirstRequestIsNotStale: what ends on a new connection is no matter of keeping connections.
func TestFirstRequestIsNotStale(t *testing.T) {
	bothClients(t, func(t *testing.T, with maker) {
		target := raw(t, func(net.Conn) {})
		if got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions}); got.Class != load.ClassTruncated {
			t.Errorf("class %q (%s), want %q", got.Class, got.Error, load.ClassTruncated)
		}
	})
}

// held keeps what is written until it is let go, so that it travels together.
type held struct {
	net.Conn
	hold bool
	kept []byte
}

func (h *held) Write(b []byte) (int, error) {
	if !h.hold {
		return h.Conn.Write(b)
	}
	h.kept = append(h.kept, b...)
	return len(b), nil
}

func (h *held) letGo() {
	h.hold = false
	h.Conn.Write(h.kept)
}

// overTLS serves a script over TLS, for a client that trusts it.
func overTLS(t *testing.T, script func(secure *tls.Conn, below *held)) Client {
	t.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		below := &held{Conn: conn}
		secure := tls.Server(below, &tls.Config{Certificates: certified.TLS.Certificates})
		if _, err := http.ReadRequest(bufio.NewReader(secure)); err == nil {
			script(secure, below)
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	s, err := newServer(load.Target{BaseURL: "https://" + l.Addr().String()}, load.Workload{Endpoint: load.Completions})
	if err != nil {
		t.Fatal(err)
	}
	c := newStandardClient(s)
	c.http.Transport.(*http.Transport).TLSClientConfig = certified.Client().Transport.(*http.Transport).TLSClientConfig
	t.Cleanup(c.Close)
	return c
}

// TestMergedOverTLS: chunks that came together are counted as such, however many
// records of TLS they are.
func TestMergedOverTLS(t *testing.T) {
	const tokens = 20
	c := overTLS(t, func(secure *tls.Conn, below *held) {
		io.WriteString(secure, streamHead)
		below.hold = true
		for i := range tokens {
			io.WriteString(secure, text(fmt.Sprint(i))) // a record each
		}
		io.WriteString(secure, usage(5, tokens)+end)
		below.letGo()
	})
	r := ask(t.Context(), c)
	if !r.OK() || len(r.Gaps) != tokens-1 || r.Merged != tokens-1 || r.Last != r.First {
		t.Errorf("%s %s: %d of %d gaps are of chunks that came together, in %v; want all", r.Class, r.Error, r.Merged, len(r.Gaps), r.Last-r.First)
	}
}

// TestReadLate: what waits before it is read is as late as it waited, by the kernel's clock.
func TestReadLate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var lag readLag
	m := newMeter(conn, &lag)
	p := make([]byte, 10)
	for stop := time.Now().Add(10 * time.Second); lag.take() == nil && time.Now().Before(stop); {
		io.WriteString(server, "early") // the kernel takes a moment until it stamps
		m.Read(p)
	}
	began := time.Now()
	if _, err := io.WriteString(server, "late"); err != nil {
		t.Fatal(err)
	}
	const late = 30 * time.Millisecond
	<-time.After(late) // after it was written, so that it is read at least so late
	n, err := m.Read(p)
	most := float64(time.Since(began)) / 1e6
	got := lag.take().Describe(nil)
	if string(p[:n]) != "late" || err != nil || got == nil || got.Count != 1 || got.Max < 0.98*float64(late)/1e6 || got.Max > 1.02*most {
		t.Errorf("read %q, %v: late by %+v, want between %s and %.1f ms", p[:n], err, got, late, most)
	}
	server.Close()
	if n, err := m.Read(p); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if h := lag.take(); h != nil {
		t.Errorf("nothing was read, and was late: %+v", h.Describe(nil))
	}
}

// TestDialHasItsTime: a connection that does not come about takes no longer than the request may.
func TestDialHasItsTime(t *testing.T) {
	bothClients(t, func(t *testing.T, with maker) {
		// A listener whose queue is full answers no more.
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
			t.Fatal(err)
		}
		at, err := unix.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		addr := fmt.Sprintf("127.0.0.1:%d", at.(*unix.SockaddrInet4).Port)
		for range 4 {
			conn, err := net.DialTimeout("tcp", addr, 50*time.Millisecond)
			if err != nil {
				break
			}
			defer conn.Close()
		}
		for _, c := range []struct {
			stall, timeout time.Duration
			class          string
		}{{time.Hour, 50 * time.Millisecond, load.ClassTimeout}, {50 * time.Millisecond, time.Hour, load.ClassStall}} {
			got := with.send(t, t.Context(), load.Target{BaseURL: "http://" + addr}, load.Workload{Endpoint: load.Completions, Stall: load.Duration(c.stall), Timeout: load.Duration(c.timeout)})
			if took := got.End - got.Sent; got.Class != c.class || took > 10*time.Second {
				t.Errorf("class %q (%s) after %v, want %q after 50ms", got.Class, got.Error, took, c.class)
			}
		}
	})
}

// TestEndless: an answer that never ends is given up, whatever it goes on with, and
// costs no more memory than one that does.
func TestEndless(t *testing.T) { bothClients(t, testEndless) }

func testEndless(t *testing.T, with maker) {
	drip := func(first, again string, every time.Duration) func(net.Conn) {
		return func(conn net.Conn) {
			io.WriteString(conn, first)
			tick := time.NewTicker(every)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(conn, again); err != nil {
					return
				}
			}
		}
	}
	const empty = `data: {"choices":[{"index":0,"text":"","finish_reason":null}]}` + "\n\n"
	for _, c := range []struct {
		name   string
		script func(net.Conn)
		class  string
		text   string
	}{
		{"comments", drip(streamHead, ": still here\n\n", 5*time.Millisecond), load.ClassStall, "no token"},
		{"a header", drip("HTTP/1.1 200 OK\r\nX-Slow: ", "x", 5*time.Millisecond), load.ClassStall, "no token"},
		{"empty chunks", drip(streamHead+text("a"), strings.Repeat(empty, 50), time.Millisecond), load.ClassMalformed, "the answer did not end: 1006 chunks"},
		{"an error's body", drip("HTTP/1.1 500 No\r\n\r\n", "x", 5*time.Millisecond), load.ClassStall, "no token"},
		{"tokens", drip(streamHead, strings.Repeat(text("a"), 50), time.Millisecond), load.ClassMalformed, "the answer did not end: 1006 chunks came of an answer for which 3 tokens were asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := with.send(t, t.Context(), raw(t, c.script), load.Workload{Endpoint: load.Completions, Stall: load.Duration(200 * time.Millisecond)})
			if got.Class != c.class || !strings.Contains(got.Error, c.text) || len(got.Gaps) > 1100 {
				t.Errorf("class %q (%s), %d gaps, want %q, %q", got.Class, got.Error, len(got.Gaps), c.class, c.text)
			}
		})
	}
	t.Run("an answer without a stream", func(t *testing.T) {
		target := raw(t, drip("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{", strings.Repeat(" ", 64<<10), time.Millisecond/2))
		r := load.Record{AskedOutput: 3}
		with.client(t, target, load.Workload{Endpoint: load.Completions}).Send(t.Context(), net.Buffers{[]byte("{}")}, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64), Whole: true})
		if r.Class != load.ClassMalformed || !strings.Contains(r.Error, "the answer did not end") {
			t.Errorf("class %q (%s), want %q", r.Class, r.Error, load.ClassMalformed)
		}
	})
}

// TestTimeoutHasADefault: a request that nobody bounds is bounded as those of the
// peers' clients are.
func TestTimeoutHasADefault(t *testing.T) {
	s, err := newServer(load.Target{BaseURL: "http://h:1"}, load.Workload{Endpoint: load.Chat})
	if err != nil || s.timeout != 6*time.Hour || s.stall != 5*time.Minute {
		t.Errorf("timeout %v, stall %v, %v", s.timeout, s.stall, err)
	}
}

// TestOneAddress: both clients keep to the address that has answered.
func TestOneAddress(t *testing.T) {
	bothClients(t, func(t *testing.T, with maker) {
		target := conversation(t, func(conn net.Conn, _, _ int) bool {
			io.WriteString(conn, strings.Replace(inChunks(text("a")+usage(5, 1)+end), "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)+"0\r\n\r\n")
			return false
		})
		target.BaseURL = strings.Replace(target.BaseURL, "127.0.0.1", "localhost", 1)
		s, err := newServer(target, load.Workload{Endpoint: load.Completions})
		if err != nil {
			t.Fatal(err)
		}
		c := with(s)
		defer c.Close()
		if r := ask(t.Context(), c); !r.OK() {
			t.Fatalf("%s: %s", r.Class, r.Error)
		}
		s.dialer.host = "nowhere.invalid:1" // a name that is looked up again is not found
		if r := ask(t.Context(), c); !r.OK() {
			t.Errorf("the second connection: %s: %s", r.Class, r.Error)
		}
	})
}

// TestReadLagOfTheFirstRead: a loop that finds something at its first look has not
// been late since the beginning of time.
func TestReadLagOfTheFirstRead(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	l, err := newLoop(0)
	if err != nil {
		t.Fatal(err)
	}
	k, err := l.add(pair[0], &net.TCPAddr{})
	if err != nil {
		t.Fatal(err)
	}
	r := load.Record{AskedOutput: 1}
	k.post(net.Buffers{[]byte("request")}, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)}, false)
	if _, err := unix.Write(pair[1], []byte(inChunks(text("a")+usage(1, 1)+end)+"0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(l.run)
	for state := byte(busy); state == busy || state == answered; {
		state = <-k.ended
	}
	l.stop()
	running.Wait()
	if lag := l.lag.Stats(nil); !r.OK() || lag.Count == 0 || lag.Max > 60e3 {
		t.Errorf("%s %s, %d reads, up to %v ms late", r.Class, r.Error, lag.Count, lag.Max)
	}
}

// TestOpen: connections are made beforehand, and those are the ones that are used.
func TestOpen(t *testing.T) {
	c, opened := counted(t)
	c.Open(t.Context(), 100)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			r := load.Record{}
			c.Send(context.Background(), net.Buffers{[]byte(`{"prompt":"a","stream":true}`)}, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
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
	c, opened := counted(t)
	c.Open(t.Context(), 3)
	for _, k := range c.idle {
		k.since = k.since.Add(-unusedTimeout) // long ago
	}
	c.Open(t.Context(), 3)
	if ask(t.Context(), c); opened.Load() != 6 {
		t.Errorf("%d connections were made, want 3 and 3 again", opened.Load())
	}
}

// TestOpenTakesLong: where making connections takes longer than a server keeps one that has had an answer, those that
// were made first are still used.
func TestOpenTakesLong(t *testing.T) {
	c, opened := counted(t)
	age := func(by time.Duration) {
		for _, k := range c.idle {
			k.since = k.since.Add(-by)
		}
	}
	c.Open(t.Context(), 2)
	age(idleTimeout + 6*time.Second)
	if ask(t.Context(), c); opened.Load() != 2 {
		t.Errorf("%d connections were made, want 2", opened.Load())
	}
	age(idleTimeout)
	c.Open(t.Context(), 2)
	if ask(t.Context(), c); opened.Load() != 3 { // an answer comes behind what the server has accepted
		t.Errorf("%d connections were made, want one in place of that which has had an answer", opened.Load())
	}
}

// counted is a client of a server that counts its connections. net/http cannot open any beforehand.
func counted(t *testing.T) (*loops, *atomic.Int64) {
	t.Helper()
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(sim.New(instant))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return maker(newLoopClient).client(t, load.Target{BaseURL: server.URL}, load.Workload{Endpoint: load.Completions}).(*loops), &opened
}

// TestUnhurried: answers to questions are whole, however seldom what has come of them is looked at.
func TestUnhurried(t *testing.T) {
	const tokens = 300
	server := httptest.NewServer(sim.New(sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}))
	t.Cleanup(server.Close)
	s, err := newServer(load.Target{BaseURL: server.URL, Model: sim.DefaultModel}, load.Workload{Endpoint: load.Completions, Dataset: load.Dataset{Questions: true}})
	if err != nil {
		t.Fatal(err)
	}
	c := newLoopClient(s)
	t.Cleanup(c.Close)
	r := load.Record{AskedInput: 1, AskedOutput: tokens}
	body := fmt.Sprintf(`{"model":%q,"prompt":"x","max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`, sim.DefaultModel, tokens)
	c.Send(t.Context(), net.Buffers{[]byte(body)}, Exchange{Record: &r, Zero: time.Now(), Chunks: new(atomic.Int64)})
	chunks := 1 + len(r.Gaps)
	if !r.OK() || r.OutputTokens != tokens || chunks != tokens {
		t.Fatalf("%d tokens in %d chunks, %s %s", r.OutputTokens, chunks, r.Class, r.Error)
	}
	// However busy the machine is, no more looks go into a time.
	if reads, most := chunks-r.Merged, int((r.End-r.Sent)/unhurried)+1; reads > most {
		t.Errorf("%d reads in %v: more than %d", reads, r.End-r.Sent, most)
	}
	if lag := c.ReadLag(); lag != nil {
		t.Error("it tells how late it reads, which is as it is meant")
	}
}
