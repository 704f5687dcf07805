package provision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/docker/docker/client"
)

// oldestAPI is the version of Docker's API that brought GPUs: Docker 19.03.
const oldestAPI = "1.40"

// newDocker makes a client of the Docker daemon on a host.
func newDocker(c *Conn) (*client.Client, error) {
	s := &socket{conn: c}
	s.http = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := c.dialDocker(ctx)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		},
		// A channel costs one round trip. One that was kept would have to be
		// found dead after every lost connection.
		DisableKeepAlives: true,
	}
	docker, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: s, CheckRedirect: client.CheckRedirect}),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, fmt.Errorf("%s: make Docker client: %w", c.host, err)
	}
	return docker, nil
}

// api is Docker's client, once the daemon and it have agreed on a version. The
// client would do that by itself, but go on with any version when it cannot ask.
func (c *Conn) api(ctx context.Context) (*client.Client, error) {
	ctx, cancel := c.soon(ctx)
	defer cancel()
	err := c.docker.NewVersionError(ctx, oldestAPI, "hcl")
	if err == nil {
		c.answered.Store(true)
	} else if !unanswered(err) {
		err = fail(c.host, ErrNoDocker, "the Docker daemon is not one that hcl can use (%w): it takes Docker 19.03 or newer", err)
	}
	return c.docker, err
}

// soon bounds a question to the daemon.
func (c *Conn) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.answer, fail(c.host, ErrDockerAway, "the Docker daemon has not answered for %s and may hang: see `journalctl -u docker` there", c.answer))
}

// query puts a question to the daemon, again if the connection is lost over it.
func query[T any](ctx context.Context, c *Conn, question func(context.Context, *client.Client) (T, error)) (answer T, err error) {
	ctx, cancel := c.soon(ctx)
	defer cancel()
	err = again(ctx, func() error {
		api, err := c.api(ctx)
		if err == nil {
			answer, err = question(ctx, api)
		}
		return err
	})
	return answer, err
}

// errLost is a connection that ended while an answer was awaited. What is safe
// to repeat may be tried again.
var errLost = fmt.Errorf("connection lost: %w", ErrUnreachable)

// lossTries is how often something that is safe to repeat is tried.
const lossTries = 3

// again does something that is safe to repeat until the connection holds.
func again(ctx context.Context, do func() error) error {
	err := do()
	for try := 1; try < lossTries && errors.Is(err, errLost) && ctx.Err() == nil; try++ {
		err = do()
	}
	return err
}

// ErrDockerAway is the [ErrNoDocker] of a host that has a daemon which does not run or
// answer at the moment: there may be containers of ours.
var ErrDockerAway = fmt.Errorf("daemon away: %w", ErrNoDocker)

// awayFor is how long a daemon that has answered before may be away: long enough
// for a restart, as an update of its package does.
const awayFor = time.Minute

// whenBack does something that has to be done in the end: when a daemon that has
// answered before cannot be reached, it waits for it to come back from a restart.
func (c *Conn) whenBack(ctx context.Context, do func() error) error {
	until := time.Now().Add(awayFor)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := do()
		if !errors.Is(err, ErrDockerAway) || !c.answered.Load() || time.Now().After(until) {
			return err
		}
		c.log.Info("the Docker daemon is away, waiting for it", "host", c.host.Name)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// says reports whether err is an answer of the daemon that holds one of the
// texts: its API tells most causes apart in no other way.
func says(err error, texts ...string) bool {
	if err == nil || unanswered(err) {
		return false
	}
	message := strings.ToLower(err.Error())
	for _, t := range texts {
		if strings.Contains(message, strings.ToLower(t)) {
			return true
		}
	}
	return false
}

// noAnswer is a request that got no whole answer. It does not tell its cause:
// errors that speak of a refused connection are replaced by the client with its
// own, in which no cause is left. [Conn.wrap] brings the cause back.
type noAnswer struct{ cause error }

func (*noAnswer) Error() string { return "no answer" }

func (e *noAnswer) Unwrap() error { return e.cause }

// unanswered reports whether err is anything but what the daemon has said.
func unanswered(err error) bool { return errors.As(err, new(*noAnswer)) }

// wrap says what was tried, without the client's words around a [noAnswer]:
// they name an address that is nobody's.
func (c *Conn) wrap(doing string, err error) error {
	if e := new(noAnswer); errors.As(err, &e) {
		err = e.cause
	}
	return wrap(c.host, doing, err)
}

// socket carries requests to the daemon of a host, in whatever way it is reached.
// All its errors are a *noAnswer, those of the bodies as well.
type socket struct {
	conn *Conn
	http *http.Transport
}

// dialError is a request that never got as far as the daemon.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// RoundTrip makes a request over a connection of its own.
func (s *socket) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.http.RoundTrip(r)
	if err != nil {
		return nil, s.broken(r.Context(), err)
	}
	if !endless(r) {
		response.Body = &limited{response.Body, maxDockerAnswer, "the answer of the Docker daemon"}
	}
	response.Body = &body{response.Body, func(err error) error { return s.broken(r.Context(), err) }}
	return response, nil
}

// endless reports whether the answer to a request is read bit by bit, however long it
// is: logs, files, and the account of a pull.
func endless(r *http.Request) bool {
	switch path.Base(r.URL.Path) {
	case "logs", "archive", "create":
		return true
	}
	return false
}

// body explains why an answer breaks off.
type body struct {
	io.ReadCloser
	broken func(error) error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.broken(err)
	}
	return n, err
}

// broken explains a request that got no whole answer.
func (s *socket) broken(ctx context.Context, err error) error {
	var undialled *dialError
	switch cause := context.Cause(ctx); {
	case cause != nil:
		err = cause
	case errors.As(err, &undialled):
		err = undialled.error
	case errors.As(err, new(*CommandError)):
		err = fail(s.conn.host, ErrDockerAway, "what stands between us and the Docker daemon has ended: %w", err)
	case s.conn.host.Local():
		err = fail(s.conn.host, ErrNoDocker, "the Docker daemon went away: %w", err)
	default:
		err = fail(s.conn.host, errLost, "the connection was lost: %w", err)
	}
	return &noAnswer{err}
}
