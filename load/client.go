package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// idleTimeout is shorter than the five seconds after which the engines'
	// servers (uvicorn) drop an idle connection, so that no request goes out on
	// one that is being closed.
	idleTimeout = 4 * time.Second
	// drainTimeout bounds the wait for the end of a stream after its [DONE].
	drainTimeout = time.Second
	// maxErrorText bounds what is kept of an error's body.
	maxErrorText = 512
)

var (
	errStall   = errors.New("no byte from the server")
	errTimeout = errors.New("the request took too long")
	errDrained = errors.New("the stream did not end after " + done)
)

// client sends requests over HTTP/1.1 with connections that are kept.
type client struct {
	http           *http.Client
	url            string
	stall, timeout time.Duration
}

func newClient(t Target, w Workload) (*client, error) {
	base, err := url.Parse(t.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("base URL %q: write it as http://host:port", t.BaseURL)
	}
	path := map[string]string{Completions: "/v1/completions", Chat: "/v1/chat/completions", Generate: "/generate"}[w.Endpoint]
	stall := time.Duration(w.Stall)
	if stall == 0 {
		stall = DefaultStall
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	return &client{
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
		url:     strings.TrimSuffix(t.BaseURL, "/") + path,
		stall:   stall,
		timeout: time.Duration(w.Timeout),
	}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// exchange is one request on its way: where it writes what it sees.
type exchange struct {
	rec    *Record
	events *events       // a worker's own, used again for its next request
	zero   time.Time     // from which the record's times count
	chunks *atomic.Int64 // content chunks of the whole run
}

// send sends one request, reads its answer to the end and fills in the record.
// It returns when the connection can be used again or has been dropped.
func (c *client) send(parent context.Context, body []byte, x exchange) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	w := newWatch(x.zero, cancel, c.stall, c.timeout)
	defer w.stop()

	connected := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		x.rec.fail(x.since(), ClassConnect, err.Error())
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	x.rec.Sent = x.since()
	w.start(x.rec.Sent)
	resp, err := c.http.Do(req)
	if err != nil {
		class, text := c.classify(ctx, err)
		if class == ClassTruncated && !connected {
			class = ClassConnect
		}
		x.rec.fail(x.since(), class, text)
		return
	}
	defer resp.Body.Close()
	src := &stamped{src: resp.Body, zero: x.zero, last: &w.last}
	if class, text := refused(resp, src); class != "" {
		if err := context.Cause(ctx); err != nil {
			class, text = c.classify(ctx, err)
		}
		x.rec.fail(x.since(), class, text)
		return
	}
	x.events.reset(src, func() time.Duration { return src.at })
	if err := x.read(); err != nil {
		class, text := c.classify(ctx, err)
		x.rec.fail(x.since(), class, text)
		return
	}
	// The answer is complete. What is left is the end of the HTTP message, without
	// which the connection could not be used again.
	w.drain()
	io.CopyN(io.Discard, src, 4<<10)
}

func (x exchange) since() time.Duration { return time.Since(x.zero) }

func (r *Record) fail(at time.Duration, class, text string) {
	r.End, r.Class, r.Error = at, class, text
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

// refused says why a response cannot be a stream; class is empty when it can.
func refused(resp *http.Response, body io.Reader) (class, text string) {
	kind := resp.Header.Get("Content-Type")
	switch {
	case resp.StatusCode != http.StatusOK:
		class, text = ClassStatus, "status "+resp.Status
	case kind != "" && !strings.HasPrefix(strings.ToLower(kind), "text/event-stream"):
		class, text = ClassMalformed, fmt.Sprintf("content type %q instead of a stream", kind)
	default:
		return "", ""
	}
	b, _ := io.ReadAll(io.LimitReader(body, 64<<10)) // what came before an error is still the message
	if b := bytes.TrimSpace(b); len(b) > 0 {
		text += ": " + shorten(b)
	}
	return class, text
}

// shorten makes text of what a server sent.
func shorten(b []byte) string {
	if len(b) > maxErrorText {
		b = append(append([]byte{}, b[:maxErrorText]...), "…"...)
	}
	return strings.ToValidUTF8(string(b), string(utf8.RuneError))
}

// streamError is a failure that the stream itself tells of.
type streamError struct{ class, text string }

func (e *streamError) Error() string { return e.text }

// read reads a stream to its [DONE].
func (x exchange) read() error {
	var c chunk
	r := x.rec
	chunks, before, usage := 0, -1, false
	// Where the text comes whole with every event, and not only what is new, a
	// chunk has content when it has more tokens than the one before.
	counted := 0
	for {
		ev, err := x.events.next()
		if err == io.EOF {
			return &streamError{ClassTruncated, fmt.Sprintf("the stream ended without %s after %d chunks", done, chunks)}
		}
		if err == errLine {
			return &streamError{ClassMalformed, err.Error()}
		}
		if err != nil {
			return err
		}
		if string(ev.data) == done {
			r.End = ev.at
			break
		}
		if err := c.parse(ev.data); err != nil {
			return &streamError{ClassMalformed, err.Error() + ": " + shorten(ev.data)}
		}
		if c.failed {
			return &streamError{ClassServer, shorten(ev.data)}
		}
		if c.finish != nil {
			r.Finish = reason(c.finish)
		}
		if c.usage {
			usage = true
			r.InputTokens, r.OutputTokens = c.prompt, c.completed
			if c.whole {
				c.content = c.content && c.completed > counted
				counted = c.completed
			}
		}
		if !c.content {
			continue
		}
		switch {
		case chunks == 0:
			r.First = ev.at
			// Not earlier: requests that fail at once can be many.
			r.Gaps = make([]time.Duration, 0, max(r.AskedOutput-1, 0))
		default:
			r.Gaps = append(r.Gaps, ev.at-r.Last)
			if ev.read == before {
				r.Merged++
			}
		}
		r.Last, before = ev.at, ev.read
		chunks++
		x.chunks.Add(1)
	}
	if chunks == 0 {
		return &streamError{ClassEmpty, fmt.Sprintf("the stream was whole but brought no text; tokens by its usage: %d", r.OutputTokens)}
	}
	if !usage {
		r.NoUsage = true
		r.InputTokens, r.OutputTokens = r.AskedInput, chunks
	}
	return nil
}

// reason makes a string of a finish reason, without making the usual ones anew.
func reason(b []byte) string {
	switch string(b) {
	case "length":
		return "length"
	case "stop":
		return "stop"
	}
	return shorten(b)
}

// classify says what kind of failure an error of a request is.
func (c *client) classify(ctx context.Context, err error) (class, text string) {
	var stream *streamError
	switch cause := context.Cause(ctx); {
	case errors.As(err, &stream):
		return stream.class, stream.text
	case errors.Is(cause, errStall):
		return ClassStall, fmt.Sprintf("%v for %v", errStall, c.stall)
	case errors.Is(cause, errTimeout):
		return ClassTimeout, fmt.Sprintf("%v: more than %v", errTimeout, c.timeout)
	case cause != nil:
		return ClassCancelled, cause.Error()
	}
	text = described(err)
	// net/http has no types for what is not HTTP.
	if strings.Contains(text, "malformed") || strings.Contains(text, "invalid byte in chunk length") {
		return ClassMalformed, text
	}
	return ClassTruncated, text
}

// described is an error's text without what differs between requests that
// failed alike: the port on this side.
func described(err error) string {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		return fmt.Sprintf("%s %s: %v", op.Op, op.Addr, op.Err)
	}
	return shorten([]byte(err.Error()))
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
