// Package docker runs containers on the Docker daemon of a host: it pulls images,
// starts, watches, reads and stops containers, and asks the daemon of itself.
//
// The Docker library is imported here and nowhere else: its successor must be able to
// replace it in one place.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker/docker/client"

	"hclbench/flow"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// oldestAPI is the version of Docker's API that brought GPUs: Docker 19.03.
const oldestAPI = "1.40"

// answerWithin bounds a question to the daemon, which is slow while it unpacks an image.
const answerWithin = 2 * time.Minute

const maxAnswer = 64 << 20

// Daemon is the Docker daemon of a host. Its methods may be called from many goroutines.
type Daemon struct {
	Images *Images

	conn     *reach.Conn
	host     *provision.Host
	log      *slog.Logger
	way      ways
	client   *client.Client // to be had from api
	answered atomic.Bool    // it has, once
	answer   time.Duration  // how long it may take
	secrets  string         // path of the hcl binary there, see HideSecrets
}

// New is the daemon of a host. Nothing is asked of it yet. Images are pulled with the
// logins of registries; nil: those that are on the host.
func New(conn *reach.Conn, registries *origin.Registries) *Daemon {
	d := &Daemon{conn: conn, host: conn.Host(), log: conn.Log(), way: newWays(conn), answer: answerWithin}
	d.Images = &Images{d: d, registries: registries, stall: pullStall, pause: pullPause}
	s := &socket{host: d.host}
	s.http = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := d.way.dial(ctx)
			if err != nil {
				return nil, &noAnswer{err}
			}
			return conn, nil
		},
		// A channel costs one round trip. One that was kept would have to be
		// found dead after every lost connection.
		DisableKeepAlives: true,
	}
	d.client, _ = client.NewClientWithOpts( // nothing that could fail is asked of it
		client.WithHTTPClient(&http.Client{Transport: s, CheckRedirect: client.CheckRedirect}),
		client.WithAPIVersionNegotiation(),
	)
	return d
}

// Version returns the daemon's version, such as "28.5.2". Its error is
// [provision.ErrNoDocker] with what to do, when Docker is not there or may not be used.
func (d *Daemon) Version(ctx context.Context) (string, error) {
	version, err := query(ctx, d, (*client.Client).ServerVersion)
	if err != nil {
		return "", d.wrap("ask Docker's version", err)
	}
	return plain.Line(version.Version), nil
}

// About is what a daemon tells of itself.
type About struct {
	Root         string // where its data are
	CgroupDriver string // "systemd", "cgroupfs"
	Toolkit      string // how it hands out NVIDIA GPUs: "nvidia runtime", "cdi"; "" not seen
	machine      string // "x86_64"
	containerd   bool   // images may be kept elsewhere
}

// About asks the daemon about itself.
func (d *Daemon) About(ctx context.Context) (About, error) {
	info, err := query(ctx, d, (*client.Client).Info)
	if err != nil {
		return About{}, d.wrap("ask Docker about itself", err)
	}
	a := About{Root: info.DockerRootDir, CgroupDriver: info.CgroupDriver, machine: info.Architecture}
	if _, ok := info.Runtimes["nvidia"]; ok {
		a.Toolkit = "nvidia runtime"
	} else if len(info.CDISpecDirs) > 0 {
		a.Toolkit = "cdi"
	}
	for _, said := range info.DriverStatus {
		a.containerd = a.containerd || said[0] == "driver-type"
	}
	return a, nil
}

// Access says how the daemon is reached: the path of its socket, or the command that
// stands between. address is what another [reach.Conn] of the same login takes as
// [provision.Host.Docker] to find the same daemon.
func (d *Daemon) Access(ctx context.Context) (by, address string, err error) {
	way, _, err := d.way.known(ctx)
	if err != nil {
		return "", "", d.wrap("look for Docker", err)
	}
	return way.String(), cmp.Or(way.socket(), way.address), nil
}

const (
	tooOld = "the Docker daemon is not one that hcl can use (%w): it takes Docker 19.03 or newer"
	hangs  = "the Docker daemon has not answered for %s and may hang: see `journalctl -u docker` there"
)

// api is Docker's client, once the daemon and it have agreed on a version. The
// client would do that by itself, but go on with any version when it cannot ask.
func (d *Daemon) api(ctx context.Context) (*client.Client, error) {
	ctx, cancel := d.soon(ctx)
	defer cancel()
	err := d.client.NewVersionError(ctx, oldestAPI, "hcl")
	if err == nil {
		d.answered.Store(true)
	} else if !unanswered(err) {
		err = d.fail(provision.ErrNoDocker, tooOld, err)
	}
	return d.client, err
}

func (d *Daemon) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.answer, d.fail(provision.ErrDockerAway, hangs, d.answer))
}

// query puts a question to the daemon, again if the connection is lost over it.
func query[T any](ctx context.Context, d *Daemon, ask func(*client.Client, context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := d.soon(ctx)
	defer cancel()
	err = again(ctx, func() error {
		api, err := d.api(ctx)
		if err == nil {
			answer, err = ask(api, ctx)
		}
		return err
	})
	return answer, err
}

// errLost is a connection that ended while an answer was awaited. What is safe to repeat is
// repeated.
var errLost = fmt.Errorf("connection lost: %w", provision.ErrUnreachable)

// again does something that is safe to repeat until the connection holds.
func again(ctx context.Context, do func() error) (err error) {
	for range 3 {
		if err = do(); !errors.Is(err, errLost) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// awayFor is how long a daemon that has answered may be away: an update of its package restarts it.
const awayFor = time.Minute

// whenBack does something that has to be done in the end: when a daemon that has
// answered before cannot be reached, it waits for it to come back from a restart.
func (d *Daemon) whenBack(ctx context.Context, do func() error) error {
	return flow.Patience{First: 100 * time.Millisecond, Most: 2 * time.Second, Total: awayFor}.Again(ctx, do, func(err error) bool {
		if !errors.Is(err, provision.ErrDockerAway) || !d.answered.Load() {
			return true
		}
		d.log.Info("the Docker daemon is away, waiting for it", "host", d.host.Name)
		return false
	})
}

// says reports whether err is an answer of the daemon that holds one of the texts, which
// are in small letters: its API tells most causes apart in no other way.
func says(err error, texts ...string) bool {
	if err == nil || unanswered(err) {
		return false
	}
	message := strings.ToLower(err.Error())
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(message, t) })
}

// noAnswer is a request that got no whole answer. It hides its cause: the client replaces errors
// that speak of a refused connection with its own. [Daemon.wrap] brings the cause back.
type noAnswer struct{ cause error }

func (*noAnswer) Error() string { return "no answer" }

func (e *noAnswer) Unwrap() error { return e.cause }

// unanswered reports whether err is anything but what the daemon has said.
func unanswered(err error) bool { return errors.As(err, new(*noAnswer)) }

// wrap says what was tried, without the client's words around a [noAnswer]: they name an address
// that is nobody's.
func (d *Daemon) wrap(doing string, err error) error {
	if e := new(noAnswer); errors.As(err, &e) {
		err = e.cause
	}
	return provision.Wrap(d.host, doing, err)
}

func (d *Daemon) fail(kind error, format string, args ...any) error {
	return provision.Fail(d.host, kind, format, args...)
}

// socket carries requests to the daemon of a host, in whatever way it is reached.
// All its errors are a *noAnswer, those of the bodies as well.
type socket struct {
	host *provision.Host
	http *http.Transport
}

// RoundTrip makes a request over a connection of its own.
func (s *socket) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.http.RoundTrip(r)
	if err != nil {
		return nil, s.broken(r.Context(), err)
	}
	if !endless(r) {
		response.Body = &limited{response.Body, maxAnswer, "the answer of the Docker daemon"}
	}
	response.Body = &body{response.Body, func(err error) error { return s.broken(r.Context(), err) }}
	return response, nil
}

// Kinds of failure that no caller tells apart today.
var (
	errDiskFull     = errors.New("disk full")
	errRegistryAuth = errors.New("registry refuses")
	errNoForward    = errors.New("no forwarding")
	errLimit        = errors.New("limit not raised")
)

// endless reports whether the answer to a request is read bit by bit, however long it
// is: logs, files, and the account of a pull.
func endless(r *http.Request) bool {
	return slices.Contains([]string{"logs", "archive", "create"}, path.Base(r.URL.Path))
}

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

func (s *socket) broken(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause != nil:
		err = cause
	case unanswered(err): // it never got as far as the daemon
		return err
	case errors.As(err, new(*reach.CommandError)):
		err = provision.Fail(s.host, provision.ErrDockerAway,
			"what stands between us and the Docker daemon has ended: %w", err)
	case s.host.Local():
		err = provision.Fail(s.host, provision.ErrNoDocker, "the Docker daemon went away: %w", err)
	default:
		err = provision.Fail(s.host, errLost, "the connection was lost: %w", err)
	}
	return &noAnswer{err}
}

type limited struct {
	io.ReadCloser
	left int64
	of   string
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("%s is larger than any that hcl knows of", l.of)
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
