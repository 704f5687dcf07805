package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"hclbench/load"
)

// standard is the client that the standard library makes: for TLS, and for
// systems without a client of our own.
type standard struct {
	server
	http    *http.Client
	readers sync.Pool // of *reader
	lag     readLag
}

type reader struct {
	stream Stream
	buf    [4 << 10]byte
}

func newStandardClient(s server) *standard {
	c := &standard{server: s, readers: sync.Pool{New: func() any { return new(reader) }}}
	c.http = direct(&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := s.dialer.dial(ctx)
			if err != nil {
				return nil, err
			}
			return newMeter(conn, &c.lag), nil
		},
		MaxIdleConnsPerHost: 1 << 20,
	})
	return c
}

// Direct is an HTTP client that asks a server as the load does: without a proxy from
// the environment, and without following redirects, which could take secret headers
// elsewhere. A redirect is an answer like another.
func Direct() *http.Client { return DirectBy(nil) }

// Dial makes a connection to an address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DirectBy is [Direct] with connections from elsewhere; nil: from this machine.
func DirectBy(dial Dial) *http.Client {
	return direct(&http.Transport{DialContext: dial, TLSHandshakeTimeout: dialTimeout})
}

// direct has no compression either: it would be measured instead of the engine.
func direct(t *http.Transport) *http.Client {
	t.DisableCompression, t.IdleConnTimeout = true, idleTimeout
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *standard) Close() { c.http.CloseIdleConnections() }

// Open does nothing: net/http cannot connect without a request.
func (c *standard) Open(context.Context, int) {}

func (c *standard) ReadLag() *load.Histogram { return c.lag.take() }

func (c *standard) Send(parent context.Context, body net.Buffers, x Exchange) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var seen sight
	traced := httptrace.WithClientTrace(ctx, seen.trace())
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.url(), piecewise(body))
	if err != nil {
		x.Record.Fail(x.Since(), load.ClassConnect, err.Error())
		return
	}
	req.ContentLength = int64(length(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(piecewise(body)), nil }
	// A POST without an idempotency key goes out once: net/http takes another
	// connection only when nothing of the request was written.
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	for _, h := range c.headers {
		req.Header.Set(h[0], h[1])
	}
	x.Record.Sent = x.Since()
	w := c.watch(x, cancel)
	defer w.timer.Stop()
	resp, err := c.http.Do(req)
	if err != nil {
		at := x.Since()
		class, text := c.classify(context.Cause(ctx), err)
		class, text = seen.unanswered(class, text, at-x.Record.Sent)
		x.Record.Fail(at, class, text)
		return
	}
	defer resp.Body.Close()
	src := &stamped{src: resp.Body, zero: x.Zero, meter: seen.meter}
	if class, text := refused(resp.StatusCode, resp.Status, resp.Header.Get("Content-Type"), x.Whole); class != "" {
		b, _ := io.ReadAll(io.LimitReader(src, maxErrorBody)) // what came before an error is still the message
		text = withBody(text, b)
		if err := context.Cause(ctx); err != nil {
			class, text = c.classify(err, err)
		}
		if class == load.ClassStatus {
			x.Record.Status = resp.StatusCode
		}
		x.Record.Fail(x.Since(), class, text)
		return
	}
	r := c.readers.Get().(*reader)
	defer c.readers.Put(r)
	r.stream.Reset(x)
	if err := r.read(src, w); err != nil {
		class, text := c.classify(context.Cause(ctx), err)
		x.Record.Fail(x.Since(), class, text)
		return
	}
	// The answer is complete. What is left is the end of the HTTP message, without
	// which the connection could not be used again.
	w.drain()
	io.CopyN(io.Discard, src, 4<<10)
}

// piecewise reads the pieces of a body one after the other.
func piecewise(body net.Buffers) io.Reader {
	pieces := make([]io.Reader, len(body))
	for i, piece := range body {
		pieces[i] = bytes.NewReader(piece)
	}
	return io.MultiReader(pieces...)
}

// read reads a stream to its [DONE].
func (r *reader) read(src *stamped, w *watch) error {
	for {
		n, err := src.Read(r.buf[:])
		over, wrong := r.stream.Feed(r.buf[:n], src.at, src.number)
		if over || wrong != nil {
			return wrong
		}
		if moved := r.stream.moved(); moved > 0 {
			w.moved.Store(int64(moved))
		}
		if err == io.EOF {
			return r.stream.end()
		}
		if err != nil {
			return err
		}
	}
}

// sight is what net/http tells of a request on its way.
type sight struct {
	meter    *meter // of its connection; nil: it has got none
	reused   bool   // the connection had carried another request
	answered atomic.Bool
}

// unanswered is why a request has no answer that ended so long after it was sent.
func (s *sight) unanswered(class, text string, after time.Duration) (string, string) {
	switch {
	case class != load.ClassTruncated:
	case s.meter == nil:
		class = load.ClassConnect
	case s.reused && !s.answered.Load() && after < staleWithin:
		return stale(text)
	}
	return class, text
}

func (s *sight) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			conn := info.Conn
			if secure, ok := conn.(*tls.Conn); ok {
				conn = secure.NetConn()
			}
			s.meter, s.reused = conn.(*meter), info.Reused // no other is dialled
			if s.reused {
				s.meter.kept.Store(true)
			}
		},
		GotFirstResponseByte: func() { s.answered.Store(true) },
	}
}

// stamped remembers when the read of the socket returned that brought what its last
// Read returned, and which one it was.
type stamped struct {
	src    io.Reader
	zero   time.Time
	meter  *meter
	at     time.Duration
	number int
}

func (s *stamped) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	s.at = s.meter.base.Sub(s.zero) + time.Duration(s.meter.at.Load())
	s.number = int(s.meter.reads.Load())
	return n, err
}

// watch ends a request that is silent or that takes too long. One timer looks
// after both, and moves itself on: reading costs it nothing.
type watch struct {
	server
	x      Exchange
	cancel context.CancelCauseFunc
	moved  atomic.Int64 // when the answer came nearer to its end: a token came
	timer  *time.Timer

	mu       sync.Mutex // so that a late look does not undo a drain
	draining bool
}

// watch begins with a request that has just been sent.
func (s server) watch(x Exchange, cancel context.CancelCauseFunc) *watch {
	w := &watch{server: s, x: x, cancel: cancel}
	w.moved.Store(int64(x.Record.Sent))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(min(s.stall, s.timeout), w.look)
	return w
}

// drain gives the end of the stream a short time of its own.
func (w *watch) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = true
	w.timer.Reset(drainTimeout)
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, why := w.timeLeft(w.x, &w.moved)
	switch {
	case w.draining:
		w.cancel(errDrained)
	case left > 0:
		w.timer.Reset(left)
	default:
		w.cancel(why)
	}
}
