package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// The versions of the Docker API that this package was written against. What it
// uses has not changed in between; 1.40, Docker 19.03, brought GPUs.
const (
	oldestAPI = "1.40"
	newestAPI = "1.51"
)

// daemon speaks the Docker API to the socket on a host, through [Conn.Dial].
type daemon struct {
	conn   *Conn
	socket string
	http   *http.Client
	stall  time.Duration // how long a pull may be silent

	mu  sync.Mutex
	api string // the version to speak; "" until the daemon has been asked
}

func newDaemon(c *Conn) *daemon {
	d := &daemon{conn: c, socket: c.host.Docker, stall: pullStall}
	if d.socket == "" {
		d.socket = DefaultDocker
	}
	d.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := c.Dial(ctx, "unix", d.socket)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		},
		// A channel costs one round trip. One that was kept would have to be
		// found dead after every lost connection.
		DisableKeepAlives: true,
	}}
	return d
}

// dialError is a request that never got as far as the daemon.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// apiError is a request that the daemon refused.
type apiError struct {
	Status  int
	Message string
}

func (e *apiError) Error() string { return e.Message }

// refusedWith reports whether err is the daemon's answer with that HTTP status.
func refusedWith(err error, status int) bool {
	var e *apiError
	return errors.As(err, &e) && e.Status == status
}

// says reports whether err is an answer of the daemon that holds one of the
// texts: its API tells most causes apart in no other way.
func says(err error, texts ...string) bool {
	var e *apiError
	if !errors.As(err, &e) {
		return false
	}
	message := strings.ToLower(e.Message)
	for _, t := range texts {
		if strings.Contains(message, strings.ToLower(t)) {
			return true
		}
	}
	return false
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

// get asks for something and decodes the answer into out.
func (d *daemon) get(ctx context.Context, path string, query url.Values, out any) error {
	return again(ctx, func() error { return d.call(ctx, http.MethodGet, path, query, nil, out) })
}

// call makes a request with a JSON body, if in is not nil, and decodes the
// answer into out, if that is not nil.
func (d *daemon) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	body, err := d.open(ctx, method, path, query, nil, in)
	if err != nil {
		return err
	}
	defer body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, body)
	} else {
		err = json.NewDecoder(body).Decode(out)
	}
	if err != nil {
		return d.broken(ctx, method, path, err)
	}
	return nil
}

// open makes a request and returns the answer as it streams in.
func (d *daemon) open(ctx context.Context, method, path string, query url.Values, header http.Header, in any) (io.ReadCloser, error) {
	api, err := d.version(ctx)
	if err != nil {
		return nil, err
	}
	response, err := d.send(ctx, method, "/v"+api+path, query, header, in)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// version asks the daemon which version of the API both sides know.
func (d *daemon) version(ctx context.Context) (string, error) {
	d.mu.Lock()
	api := d.api
	d.mu.Unlock()
	if api != "" {
		return api, nil
	}
	response, err := d.send(ctx, http.MethodGet, "/_ping", nil, nil, nil)
	if err != nil {
		return "", err
	}
	response.Body.Close()
	api = response.Header.Get("Api-Version")
	if older(api, oldestAPI) {
		return "", fail(d.conn.host, ErrNoDocker, "the Docker daemon is too old: it speaks version %q of the API, hcl needs %s (Docker 19.03) or newer", api, oldestAPI)
	}
	if older(newestAPI, api) {
		api = newestAPI
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.api = api
	return api, nil
}

// older compares versions such as "1.41"; what is not one is older than all.
func older(a, b string) bool {
	number := func(s string) int {
		major, minor, _ := strings.Cut(s, ".")
		x, _ := strconv.Atoi(major) // not a number is 0
		y, _ := strconv.Atoi(minor)
		return x*1000 + y
	}
	return number(a) < number(b)
}

func (d *daemon) send(ctx context.Context, method, path string, query url.Values, header http.Header, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	// The name is never looked up: the dialler knows where to go.
	target := url.URL{Scheme: "http", Host: "docker.invalid", Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := d.http.Do(request)
	if err != nil {
		return nil, d.broken(ctx, method, path, err)
	}
	if response.StatusCode < 400 {
		return response, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, d.broken(ctx, method, path, err)
	}
	var answer struct{ Message string }
	if json.Unmarshal(text, &answer) != nil || answer.Message == "" {
		answer.Message = fmt.Sprintf("%s %s", response.Status, bytes.TrimSpace(text))
	}
	return nil, &apiError{response.StatusCode, answer.Message}
}

// broken explains a request that got no whole answer.
func (d *daemon) broken(ctx context.Context, method, path string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var transport *url.Error
	if errors.As(err, &transport) {
		err = transport.Err // its text repeats the request with our made-up name
	}
	var undialled *dialError
	switch {
	case errors.As(err, &undialled):
		return d.explain(ctx, undialled.error)
	case d.conn.host.Local():
		return fail(d.conn.host, ErrNoDocker, "the Docker daemon went away during %s %s: %w", method, path, err)
	default:
		return fail(d.conn.host, errLost, "the connection was lost during %s %s: %w", method, path, err)
	}
}

// explain finds out why the socket could not be dialled: over SSH, all that the
// host says is no.
func (d *daemon) explain(ctx context.Context, err error) error {
	var refused *ssh.OpenChannelError
	if !d.conn.host.Local() && !errors.As(err, &refused) {
		return err // it is not about Docker
	}
	const look = `if [ ! -e %[1]s ]; then
	if command -v dockerd >/dev/null 2>&1 || command -v docker >/dev/null 2>&1; then echo stopped; else echo absent; fi
elif [ -r %[1]s ] && [ -w %[1]s ]; then echo refused
else echo denied; fi
id -un`
	found, lookErr := d.conn.Run(ctx, fmt.Sprintf(look, quote(d.socket)), nil)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	what, login, _ := strings.Cut(strings.TrimSpace(found), "\n")
	h := d.conn.host
	switch what {
	case "absent":
		return fail(h, ErrNoDocker, "Docker is not installed: there is no %s (install it as in https://docs.docker.com/engine/install/, name another socket with docker, or set runtime = \"process\" on a box that is itself a container)", d.socket)
	case "stopped":
		return fail(h, ErrNoDocker, "the Docker daemon does not run: there is no %s (start it with `sudo systemctl start docker`, or name another socket with docker)", d.socket)
	case "denied":
		return fail(h, ErrNoDocker, "%s may not use %s: add it to the group that may, usually with `sudo usermod -aG docker %s`, and connect again", login, d.socket, login)
	default:
		return fail(h, ErrNoDocker, "%s is there, but nobody answers (%w): either the Docker daemon has died, or sshd forbids the forwarding of sockets (AllowStreamLocalForwarding, DisableForwarding)", d.socket, err)
	}
}
