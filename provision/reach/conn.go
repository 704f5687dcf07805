package reach

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/semaphore"

	"hclbench/plain"
	"hclbench/provision"
)

// Conn is a host that answers. Everything goes over its [Transport]: one SSH connection, or, for
// [provision.LocalAddress], straight to this machine. A lost connection is dialled again
// on the next use. Its methods may be called from many goroutines.
type Conn struct {
	host    *provision.Host
	log     *slog.Logger
	link    Transport
	home    string
	machine string

	another  func(context.Context) (Transport, error) // for more pipes; nil: link has room for all
	changing *semaphore.Weighted                      // a lock that a context can stop waiting for; guards lanes
	lanes    []*lane                                  // what pipes go over; the first is link

	hcl     atomic.Pointer[string] // see UseHCL
	life    context.Context        // ends with Close
	end     context.CancelFunc
	reading sync.WaitGroup // pipes
}

// Transport is how a host is spoken to: by SSH, straight to this machine, or by exec into a pod. Its
// methods may be called from many goroutines, and dial again what was lost.
type Transport interface {
	// Run runs command with sh -c. An exit code other than 0 is a *CommandError, without what
	// the command said. It ends with ctx, whose cause its error then has.
	Run(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
	// Dial connects from the host. [ErrNotForwarded] says that it never does.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	// Listen listens on a port of the host's loopback address.
	Listen(ctx context.Context) (net.Listener, error)
	Close() error
}

// ErrNotForwarded is the error of a [Transport] that runs commands and makes no connections.
var ErrNotForwarded = errors.New("connections are not forwarded there")

// whoAndWhere prints the login's home, and what tells the machine from others.
const whoAndWhere = `printf '%s\n' "$HOME"
{ uname -n; cat /etc/machine-id || cat /var/lib/dbus/machine-id; } 2>/dev/null; true`

var errTooLong = fmt.Errorf("it has not ended within %s: what it waits for there may hang, such as a file system",
	runWithin)

// Dial connects to a host: over SSH, or to the local machine. It makes one
// attempt; ctx bounds it and ends it at any point of the handshake. Its errors
// are [provision.ErrUnreachable], [provision.ErrAuth], [provision.ErrHostKey] or [provision.ErrHostKeyUnknown], and say
// what to do. A nil log is silent.
func Dial(ctx context.Context, h *provision.Host, opt SSH, log *slog.Logger) (*Conn, error) {
	if h.Local() {
		return Through(ctx, h, &localTransport{host: h}, log)
	}
	link, err := dialSSH(ctx, h, opt, orSilent(log).With("host", h.Name))
	if err != nil {
		return nil, err
	}
	c, err := Through(ctx, h, link, log)
	if err == nil {
		c.another = func(ctx context.Context) (Transport, error) { return dialSSH(ctx, h, opt, c.log) }
	}
	return c, err
}

// Through connects to a host by a way of the caller's. link is closed with the connection, also when
// the host does not answer. A nil log is silent.
func Through(ctx context.Context, h *provision.Host, link Transport, log *slog.Logger) (*Conn, error) {
	c := &Conn{
		host: h, log: orSilent(log).With("host", h.Name), link: link,
		changing: semaphore.NewWeighted(1), lanes: []*lane{{link, pipesBeside}},
	}
	c.life, c.end = context.WithCancel(context.Background())
	said, err := c.Run(ctx, whoAndWhere, nil)
	home, machine, _ := strings.Cut(said, "\n")
	if err == nil && !path.IsAbs(home) {
		err = fmt.Errorf("%s: the login has no home directory: $HOME is %q", h, home)
	}
	if err != nil {
		link.Close()
		return nil, err
	}
	c.home, c.machine = home, fmt.Sprintf("%x", sha256.Sum256([]byte(machine)))[:8]
	return c, nil
}

func orSilent(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// Close ends the connection and everything that goes over it, and waits until it is gone.
func (c *Conn) Close() error {
	c.end()
	err := c.link.Close()
	c.reading.Wait() // after that nobody adds a lane
	for _, l := range c.lanes[1:] {
		err = errors.Join(err, l.link.Close())
	}
	return err
}

// Log is where the connection tells what it does.
func (c *Conn) Log() *slog.Logger { return c.log }

// Host is the host that was dialled.
func (c *Conn) Host() *provision.Host { return c.host }

// Home is the login's home directory on the host.
func (c *Conn) Home() string { return c.home }

// Machine tells the host from others that may have the same home directory, in eight
// characters that can stand in the name of a file.
func (c *Conn) Machine() string { return c.machine }

// Run runs a command with sh -c on the host and returns its stdout. Its stdin is read to its end,
// or until the command ends; a Read that does not return is left behind soon after. When ctx ends,
// after 5 minutes where that has no deadline, or when more than 64 MiB are printed, the command
// gets SIGTERM and soon SIGKILL. One that fails is a [*CommandError], with its stdout returned as
// well; one whose connection is lost is [provision.ErrUnreachable], and is not run again.
func (c *Conn) Run(ctx context.Context, command string, stdin io.Reader) (string, error) {
	if _, bound := ctx.Deadline(); !bound {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, runWithin, errTooLong)
		defer cancel()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	tooMuch := fmt.Errorf("it prints more than %d MiB, which no answer has", maxOutput>>20)
	stdout, stderr := &bounded{most: maxOutput, full: func() { stop(tooMuch) }}, &tail{most: maxStderr}
	err := c.link.Run(ctx, command, stdin, stdout, stderr)
	if failed, ok := err.(*CommandError); ok {
		failed.Stderr = stderr.String()
	}
	if stdout.over && !errors.Is(err, tooMuch) { // it ended meanwhile
		err = provision.Wrap(c.host, "run "+ShortCommand(command), tooMuch)
	}
	return string(stdout.text), err
}

// Dial connects from the host: "tcp" and "127.0.0.1:8000", or "unix" and a path. Over SSH the
// connection knows no deadlines: bound what uses it by closing it. Where nothing is forwarded, hcl
// makes it there, see [Conn.UseHCL].
func (c *Conn) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.link.Dial(ctx, network, addr)
	if command := c.hcl.Load(); Refused(err) && command != nil {
		return c.dialBridge(ctx, *command, network, addr, err)
	}
	return conn, err
}

// DialStraight is Dial, but for what hcl does in the place of sshd.
func (c *Conn) DialStraight(ctx context.Context, network, addr string) (net.Conn, error) {
	return c.link.Dial(ctx, network, addr)
}

// Listen listens on a port of the host's loopback address.
func (c *Conn) Listen(ctx context.Context) (net.Listener, error) { return c.link.Listen(ctx) }

// Refused reports whether a host has answered that it does not open a connection.
func Refused(err error) bool {
	return errors.As(err, new(*ssh.OpenChannelError)) || errors.Is(err, ErrNotForwarded)
}

// Ask runs a script that prints one fact a line as NAME=VALUE. args are its arguments.
func (c *Conn) Ask(ctx context.Context, script string, args ...string) (Answers, error) {
	out, err := c.Run(ctx, "set -- "+Words(args)+"\n"+script, nil)
	return ReadAnswers(out), err
}

// Answers are the values of each name in the order in which they were printed.
type Answers map[string][]string

// ReadAnswers reads what a script has printed.
func ReadAnswers(out string) Answers {
	a := Answers{}
	for line := range strings.Lines(plain.Text(out)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		a[name] = append(a[name], value)
	}
	return a
}

// One is the last value of a name, "" where there is none.
func (a Answers) One(name string) string {
	if all := a[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// Words are texts as words for a shell.
func Words(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = plain.Quote(t)
	}
	return strings.Join(quoted, " ")
}
