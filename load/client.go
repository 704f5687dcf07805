package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
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
	// dialTimeout bounds the setting up of a connection.
	dialTimeout = 30 * time.Second
	// maxErrorText bounds what is kept of an error's body.
	maxErrorText = 512
	// maxErrorBody bounds what is read of it.
	maxErrorBody = 64 << 10
)

var (
	errStall   = errors.New("no byte from the server")
	errTimeout = errors.New("the request took too long")
	errDrained = errors.New("the stream did not end after " + done)
)

// client carries requests to the server over HTTP/1.1 with connections that are
// kept. There are two, and the same tests hold both: one of our own for plain
// HTTP on Linux, and net/http for TLS and for other systems.
type client interface {
	// open makes n connections beforehand, as far as the client can do that. What
	// goes wrong shows when requests are sent.
	open(ctx context.Context, n int)
	// send sends one request, reads its answer to the end and fills in the record.
	// It returns when the connection can be used again or has been dropped.
	send(ctx context.Context, body []byte, x exchange)
	// readLag is how late reads were since it was asked before; nil when the client
	// cannot tell.
	readLag() *histogram
	// close drops all connections. No request may be under way.
	close()
}

// exchange is one request on its way: where what is seen of it is written.
type exchange struct {
	rec    *Record
	zero   time.Time     // from which the record's times count
	chunks *atomic.Int64 // content chunks of the whole run
	whole  bool          // the answer is one JSON object instead of a stream
	text   *[]byte       // takes the answer's content, as it stands in JSON strings; nil: nobody wants it
}

func (x exchange) since() time.Duration { return time.Since(x.zero) }

func (r *Record) fail(at time.Duration, class, text string) {
	r.End, r.Class, r.Error = at, class, text
}

// server is what clients know of the server under load.
type server struct {
	base           *url.URL
	path           string      // of the endpoint
	headers        [][2]string // sent beside those that every request has
	stall, timeout time.Duration
}

func (s server) url() string { return strings.TrimSuffix(s.base.String(), "/") + s.path }

func newServer(t Target, w Workload) (server, error) {
	base, err := url.Parse(t.BaseURL)
	if err != nil {
		return server{}, fmt.Errorf("base URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return server{}, fmt.Errorf("base URL %q: write it as http://host:port", t.BaseURL)
	}
	s := server{
		base:    base,
		path:    map[string]string{Completions: "/v1/completions", Chat: "/v1/chat/completions", Generate: "/generate"}[w.Endpoint],
		stall:   time.Duration(w.Stall),
		timeout: time.Duration(w.Timeout),
	}
	if s.stall == 0 {
		s.stall = DefaultStall
	}
	if s.headers, err = t.headers(); err != nil {
		return server{}, err
	}
	return s, nil
}

func newClient(s server) client {
	if s.base.Scheme == "http" {
		if c := newLoopClient(s); c != nil {
			return c
		}
	}
	return newStandardClient(s)
}

// refused says why a response cannot be the answer, a stream or whole; class is
// empty when it can. kind is the content type.
func refused(status int, line, kind string, whole bool) (class, text string) {
	want, what := "text/event-stream", "a stream"
	if whole {
		want, what = "application/json", "JSON"
	}
	switch {
	case status != 200:
		return ClassStatus, "status " + line
	case kind != "" && !strings.HasPrefix(strings.ToLower(kind), want):
		return ClassMalformed, fmt.Sprintf("content type %q instead of %s", kind, what)
	}
	return "", ""
}

// withBody adds an error's body to its text.
func withBody(text string, body []byte) string {
	if b := bytes.TrimSpace(body); len(b) > 0 {
		return text + ": " + shorten(b)
	}
	return text
}

// shorten makes text of what a server sent.
func shorten(b []byte) string {
	if len(b) > maxErrorText {
		b = append(append([]byte{}, b[:maxErrorText]...), "…"...)
	}
	return strings.ToValidUTF8(string(b), string(utf8.RuneError))
}

// classify says what kind of failure an error of a request is; cause is why we
// gave it up ourselves, nil when we did not.
func (s server) classify(cause, err error) (class, text string) {
	var stream *streamError
	switch {
	case errors.As(err, &stream):
		return stream.class, stream.text
	case errors.Is(cause, errStall):
		return ClassStall, fmt.Sprintf("%v for %v", errStall, s.stall)
	case errors.Is(cause, errTimeout):
		return ClassTimeout, fmt.Sprintf("%v: more than %v", errTimeout, s.timeout)
	case cause != nil:
		return ClassCancelled, cause.Error()
	case errors.Is(err, errHTTP):
		return ClassMalformed, shorten([]byte(err.Error()))
	}
	text = described(err)
	// net/http has no types for what is not HTTP.
	if strings.Contains(text, "malformed") || strings.Contains(text, "invalid byte in chunk length") {
		return ClassMalformed, text
	}
	return ClassTruncated, text
}

// described is an error's text without what differs between requests that
// failed alike, the port on this side, and without the name of who read it.
func described(err error) string {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if errors.Is(err, syscall.EMFILE) {
		return fmt.Sprintf("all of the %d files that may be open are: raise the limit with ulimit -n", fileLimit())
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		return fmt.Sprintf("%s %s: %v", op.Op, op.Addr, op.Err)
	}
	return strings.TrimPrefix(shorten([]byte(err.Error())), "net/http: HTTP/1.x transport connection broken: ")
}
