package load

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// standard is the client that the standard library makes: for TLS, and for
// systems without a client of our own.
type standard struct {
	server
	http    *http.Client
	readers sync.Pool // of *reader
}

// reader is what reading one answer needs.
type reader struct {
	stream stream
	buf    [4 << 10]byte
}

func newStandardClient(s server) *standard {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &standard{
		server: s,
		// No proxy from the environment and no compression: both would be
		// measured instead of the engine. A redirect is an answer like another.
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         dialer.DialContext,
				DisableCompression:  true,
				MaxIdleConns:        0, // no limit
				MaxIdleConnsPerHost: 1 << 20,
				IdleConnTimeout:     idleTimeout,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		readers: sync.Pool{New: func() any { return new(reader) }},
	}
}

func (c *standard) close() { c.http.CloseIdleConnections() }

// open does nothing: net/http cannot connect without a request.
func (c *standard) open(context.Context, int) {}

// readLag is not known: goroutines wait for their reads in the runtime.
func (c *standard) readLag() *histogram { return nil }

func (c *standard) send(parent context.Context, body []byte, x exchange) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	w := newWatch(x.zero, cancel, c.stall, c.timeout)
	defer w.stop()

	connected := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.url(), bytes.NewReader(body))
	if err != nil {
		x.rec.fail(x.since(), ClassConnect, err.Error())
		return
	}
	// A server may close a kept connection in the moment in which the request goes
	// out on it. net/http sends such a request again, on another connection, when
	// nothing has come back and the request may be repeated; the header that says
	// so is not sent when it is empty.
	req.Header["Idempotency-Key"] = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	for _, h := range c.headers {
		req.Header.Set(h[0], h[1])
	}
	x.rec.Sent = x.since()
	w.start(x.rec.Sent)
	resp, err := c.http.Do(req)
	if err != nil {
		class, text := c.classify(context.Cause(ctx), err)
		if class == ClassTruncated && !connected {
			class = ClassConnect
		}
		x.rec.fail(x.since(), class, text)
		return
	}
	defer resp.Body.Close()
	src := &stamped{src: resp.Body, zero: x.zero, last: &w.last}
	if class, text := refused(resp.StatusCode, resp.Status, resp.Header.Get("Content-Type"), x.whole); class != "" {
		b, _ := io.ReadAll(io.LimitReader(src, maxErrorBody)) // what came before an error is still the message
		text = withBody(text, b)
		if err := context.Cause(ctx); err != nil {
			class, text = c.classify(err, err)
		}
		x.rec.fail(x.since(), class, text)
		return
	}
	r := c.readers.Get().(*reader)
	defer c.readers.Put(r)
	r.stream.reset(x)
	if err := r.read(src); err != nil {
		class, text := c.classify(context.Cause(ctx), err)
		x.rec.fail(x.since(), class, text)
		return
	}
	// The answer is complete. What is left is the end of the HTTP message, without
	// which the connection could not be used again.
	w.drain()
	io.CopyN(io.Discard, src, 4<<10)
}

// read reads a stream to its [DONE].
func (r *reader) read(src *stamped) error {
	for i := 0; ; i++ {
		n, err := src.Read(r.buf[:])
		if over, err := r.stream.feed(r.buf[:n], src.at, i); over || err != nil {
			return err
		}
		if err == io.EOF {
			return r.stream.end()
		}
		if err != nil {
			return err
		}
	}
}

// stamped remembers when its last Read returned.
type stamped struct {
	src  io.Reader
	zero time.Time
	at   time.Duration
	last *atomic.Int64 // the same, for the watch
}

func (s *stamped) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	s.at = time.Since(s.zero)
	s.last.Store(int64(s.at))
	return n, err
}

// watch ends a request that is silent or that takes too long. One timer looks
// after both, and moves itself on: reading costs it nothing.
type watch struct {
	zero           time.Time
	cancel         context.CancelCauseFunc
	stall, timeout time.Duration
	sent           time.Duration
	last           atomic.Int64 // when the last read returned
	timer          *time.Timer

	mu       sync.Mutex // so that a late look does not undo a drain
	draining bool
}

func newWatch(zero time.Time, cancel context.CancelCauseFunc, stall, timeout time.Duration) *watch {
	w := &watch{zero: zero, cancel: cancel, stall: stall, timeout: timeout}
	w.timer = time.AfterFunc(time.Hour, w.look)
	w.timer.Stop()
	return w
}

func (w *watch) start(sent time.Duration) {
	w.sent = sent
	w.last.Store(int64(sent))
	w.timer.Reset(w.left(sent))
}

func (w *watch) stop() { w.timer.Stop() }

// drain gives the end of the stream a short time of its own.
func (w *watch) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = true
	w.timer.Reset(drainTimeout)
}

func (w *watch) left(now time.Duration) time.Duration {
	left := time.Duration(w.last.Load()) + w.stall - now
	if w.timeout > 0 {
		left = min(left, w.sent+w.timeout-now)
	}
	return left
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.zero)
	switch left := w.left(now); {
	case w.draining:
		w.cancel(errDrained)
	case left > 0:
		w.timer.Reset(left)
	case w.timeout > 0 && now-w.sent >= w.timeout:
		w.cancel(errTimeout)
	default:
		w.cancel(errStall)
	}
}
