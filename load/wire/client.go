// Package wire carries requests to a server over HTTP/1.1, and stamps and reads what
// streams back. Two clients do that, and the same tests hold both: an event loop of
// our own for plain HTTP on Linux, and net/http for TLS and other systems.
package wire

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hclbench/load"
	"hclbench/plain"

	"golang.org/x/sys/unix"
)

const (
	// idleTimeout is shorter than the five seconds after which the engines' servers (uvicorn) drop
	// an idle connection, so that no request goes out on one that is being closed.
	idleTimeout = 4 * time.Second
	// unusedTimeout is that of a connection that has carried nothing yet, for whose first request servers wait longer,
	// nginx for a minute. To make thousands over a long way takes seconds.
	unusedTimeout = 30 * time.Second
	drainTimeout  = time.Second // bounds the wait for the end of a stream after its [DONE]
	// dialTimeout bounds the setting up of a connection, where stall and timeout of
	// the request do not.
	dialTimeout = 30 * time.Second
	// staleWithin is how soon a kept connection ends whose server had closed it when
	// the request went out: a way there and back.
	staleWithin = time.Second
	// unhurried is the pause between two looks at what has come where nobody asks when tokens come: to be woken for each of them costs
	// more than all that is done with it. An answer is over up to so much later.
	unhurried    = 20 * time.Millisecond
	maxErrorText = 512      // bounds what is kept of an error's body
	maxErrorBody = 64 << 10 // bounds what is read of it
)

var (
	errStall   = errors.New("no token from the server")
	errTimeout = errors.New("the request took too long")
	errDrained = errors.New("the stream did not end after " + done)
)

// Client carries requests to the server over HTTP/1.1 with connections that are
// kept. There are two, and the same tests hold both: one of our own for plain
// HTTP on Linux, and net/http for TLS and for other systems.
type Client interface {
	// Open makes connections beforehand until n are free, as far as the client can do
	// that. What goes wrong shows when requests are sent.
	Open(ctx context.Context, n int)
	// Send sends one request, reads its answer to the end and fills in the record.
	// It returns when the connection can be used again or has been dropped. The body is in
	// pieces, which other requests may have too: nobody writes to them.
	Send(ctx context.Context, body net.Buffers, x Exchange)
	// ReadLag is how late reads were since it was asked before; nil when the client cannot tell, or need not hurry.
	ReadLag() *load.Histogram
	// Close drops all connections. No request may be under way.
	Close()
}

// Exchange is one request on its way: where what is seen of it is written.
type Exchange struct {
	Record *load.Record
	Zero   time.Time     // from which the record's times count
	Chunks *atomic.Int64 // content chunks of the whole run
	Whole  bool          // the answer is one JSON object instead of a stream
	Said   *Said         // takes what the answer says; nil: nobody wants it
	// of the request; empty: one of those whose answers are read alike
	Endpoint string
}

func (x Exchange) Since() time.Duration { return time.Since(x.Zero) }

// server is what clients know of the server under load.
type server struct {
	base           *url.URL
	path           string      // of the endpoint
	headers        [][2]string // sent beside those that every request has
	stall, timeout time.Duration
	pause          time.Duration // between two looks at what has come; 0: what comes is read at once
	dialer         *dialer
}

// patience is ctx for what has to be over before a request has stalled or has taken
// too long, when nothing comes.
func (s server) patience(ctx context.Context) (_ context.Context, done func()) {
	after, cause := s.stall, errStall
	if s.timeout < after {
		after, cause = s.timeout, errTimeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(after, func() { cancel(cause) }) // not a deadline, which the dialer would take for its own
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// timeLeft is how long an answer is still waited for, and why not longer. moved is when it
// came nearer to its end.
func (s server) timeLeft(x Exchange, moved *atomic.Int64) (time.Duration, error) {
	now, sent := x.Since(), x.Record.Sent
	if sent+s.timeout <= now {
		return 0, errTimeout
	}
	return min(time.Duration(moved.Load())+s.stall, sent+s.timeout) - now, errStall
}

// stale is the failure of a request that went out on a connection that was used
// before: it ended at once, and no byte of an answer came. The server had closed it,
// or the request was not welcome; which of both cannot be told from here.
func stale(text string) (class, _ string) {
	return load.ClassStale, "the server ended a connection that it had kept, as the request went out on it: " + text
}

// dialer makes connections to the one address that it has found for the server's
// name: so no name is looked up while measuring, and all of the load goes to one
// server even where the name has several.
type dialer struct {
	host string // "name:port"

	mu   sync.Mutex
	addr netip.AddrPort // that has answered; not valid: none yet
}

func (d *dialer) dial(ctx context.Context) (*net.TCPConn, error) {
	d.mu.Lock()
	host := d.host
	if d.addr.IsValid() {
		host = d.addr.String()
	}
	d.mu.Unlock()
	conn, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: -1}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn) // as "tcp" was asked for
	d.mu.Lock()
	d.addr = tcp.RemoteAddr().(*net.TCPAddr).AddrPort()
	d.mu.Unlock()
	return tcp, nil
}

func (s server) url() string { return strings.TrimSuffix(s.base.String(), "/") + s.path }

func newServer(t load.Target, w load.Workload) (server, error) {
	base, err := url.Parse(t.BaseURL)
	if err != nil {
		var outer *url.Error // it repeats the URL, with a password that may be in it
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return server{}, fmt.Errorf("base URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return server{}, fmt.Errorf("base URL %q: write it as http://host:port", base.Redacted())
	}
	if base.RawQuery != "" || base.Fragment != "" || base.ForceQuery {
		return server{}, fmt.Errorf("base URL %q: a query or a fragment would be sent with no request; leave it out",
			base.Redacted())
	}
	if base.User != nil {
		return server{}, fmt.Errorf("base URL %q: a password in it would be stored with the results; "+
			"send the header Authorization instead, as a secret", base.Redacted())
	}
	port := cmp.Or(base.Port(), map[string]string{"http": "80", "https": "443"}[base.Scheme])
	s := server{
		dialer:  &dialer{host: net.JoinHostPort(base.Hostname(), port)},
		base:    base,
		path:    w.Path(),
		stall:   cmp.Or(time.Duration(w.Stall), load.DefaultStall),
		timeout: cmp.Or(time.Duration(w.Timeout), load.DefaultTimeout),
	}
	if w.Dataset.Questions {
		s.pause = unhurried
	}
	s.headers, err = t.Fields()
	return s, err
}

type several struct {
	all  []Client
	next atomic.Uint64
}

// New makes the client for a job's servers.
func New(job load.Job) (Client, error) {
	target := job.Target
	target.Headers = map[string]string{}
	maps.Copy(target.Headers, job.Target.Headers)
	maps.Copy(target.Headers, job.Secrets)
	t := &several{}
	for _, url := range append([]string{target.BaseURL}, target.BaseURLs...) {
		target.BaseURL = url
		s, err := newServer(target, job.Workload)
		if err != nil {
			return nil, err
		}
		t.all = append(t.all, newClient(s)) // which begins nothing before it is used
	}
	if len(t.all) == 1 {
		return t.all[0], nil
	}
	return t, nil
}

func (t *several) Open(ctx context.Context, n int) {
	for i, c := range t.all {
		c.Open(ctx, (n+len(t.all)-1-i)/len(t.all))
	}
}

func (t *several) Send(ctx context.Context, body net.Buffers, x Exchange) {
	to := uint64(x.Record.Session) // stays where it began, and finds there what it has said
	if to == 0 {
		to = t.next.Add(1)
	}
	t.all[(to-1)%uint64(len(t.all))].Send(ctx, body, x)
}

func (t *several) Close() {
	for _, c := range t.all {
		c.Close()
	}
}

func (t *several) ReadLag() *load.Histogram {
	var all *load.Histogram
	for _, c := range t.all {
		if h := c.ReadLag(); all == nil {
			all = h
		} else if h != nil {
			all.Merge(h)
		}
	}
	return all
}

// length is that of a body, in bytes.
func length(body net.Buffers) (n int) {
	for _, piece := range body {
		n += len(piece)
	}
	return n
}

func newClient(s server) Client {
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
		return load.ClassStatus, "status " + plain.Line(line)
	case kind != "" && !strings.HasPrefix(strings.ToLower(kind), want):
		return load.ClassMalformed, fmt.Sprintf("content type %q instead of %s", kind, what)
	}
	return "", ""
}

// withBody adds an error's body to its text, unless it says the same.
func withBody(text string, body []byte) string {
	if b := bytes.TrimSpace(body); len(b) > 0 && !strings.HasSuffix(text, string(b)) {
		text += ": " + Shorten(b)
	}
	return text
}

// Shorten makes a line of what a server sent.
func Shorten(b []byte) string {
	return plain.Cut(plain.Line(string(b[:min(len(b), 2*maxErrorText)])), maxErrorText)
}

// classify says what kind of failure an error of a request is; cause is why we
// gave it up ourselves, nil when we did not.
func (s server) classify(cause, err error) (class, text string) {
	var stream *streamError
	switch {
	case errors.As(err, &stream):
		return stream.class, stream.text
	case errors.Is(cause, errStall):
		return load.ClassStall, fmt.Sprintf("%v for %v", errStall, s.stall)
	case errors.Is(cause, errTimeout):
		return load.ClassTimeout, fmt.Sprintf("%v: more than %v", errTimeout, s.timeout)
	case cause != nil:
		return load.ClassCancelled, cause.Error()
	case errors.Is(err, errHTTP):
		return load.ClassMalformed, Shorten([]byte(err.Error()))
	}
	text = described(err)
	// net/http has no types for what is not HTTP.
	if strings.Contains(text, "malformed") || strings.Contains(text, "invalid byte in chunk length") {
		return load.ClassMalformed, text
	}
	return load.ClassTruncated, text
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
	return strings.TrimPrefix(Shorten([]byte(err.Error())), "net/http: HTTP/1.x transport connection broken: ")
}

const spareFiles = 64 // what a process needs besides its connections

// ampleFiles is what a process may open before anybody wonders, where it is up to
// us: how many requests an open loop has in flight is not known beforehand.
const ampleFiles = 1 << 16

// AllowFiles makes sure that n connections can be open at once: it raises the
// limit on open files as far as it may.
func AllowFiles(n int) error {
	need := uint64(n + spareFiles)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit on open files: %w", err)
	}
	ample := max(need, ampleFiles)
	for _, want := range []unix.Rlimit{{Cur: ample, Max: max(ample, limit.Max)},
		{Cur: need, Max: max(need, limit.Max)}, {Cur: limit.Max, Max: limit.Max}} {
		if limit.Cur >= want.Cur || unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
			limit.Cur = max(limit.Cur, want.Cur)
			break
		}
	}
	if limit.Cur < need {
		return fmt.Errorf("%d connections need %d open files, and the limit is %d: raise it with ulimit -n", n, need,
			limit.Max)
	}
	return nil
}

func fileLimit() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}
