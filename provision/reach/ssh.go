package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os/user"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/semaphore"

	"hclbench/plain"
	"hclbench/provision"
)

// SSH says how hosts are dialled. The zero value is the strict default: keys of
// the agent and the usual files, and only hosts that known_hosts knows.
type SSH struct {
	// KnownHosts are the files of known host keys; nil means ~/.ssh/known_hosts
	// and /etc/ssh/ssh_known_hosts.
	KnownHosts []string
	// AcceptNew is asked about a host whose key is not known, with the key's
	// fingerprint; true appends it to the first of KnownHosts. nil refuses. A
	// key that has changed is always refused. It may be called for several
	// hosts at once.
	AcceptNew func(h *provision.Host, fingerprint string) bool
	// Passphrase is asked for the passphrase of an encrypted key file; nil
	// makes such a file an error that says so. It may be called for several
	// hosts at once.
	Passphrase func(file string) (string, error)
	// Config are files of ssh_config(5), the most important first; nil means
	// ~/.ssh/config and /etc/ssh/ssh_config. What a host's block says goes before.
	Config []string

	from configured // what they say of the host that is dialled
}

const (
	// maxSessions stays below sshd's MaxSessions of 10, which counts commands
	// and file transfers, but not the channels of [Conn.Dial].
	maxSessions = 8

	keepaliveEvery  = 15 * time.Second
	keepaliveMissed = 3 // in a row: the connection is dead

	// handshakeTimeout bounds one attempt at a host that accepts the connection
	// and then says nothing. Time in which the user is asked does not count.
	handshakeTimeout = 30 * time.Second

	// sessionWait bounds how long a session is asked for that the host refuses.
	sessionWait = 30 * time.Second

	// redialFor bounds how long a lost connection is dialled again.
	redialFor = time.Minute
)

// sshTransport is a host behind SSH.
type sshTransport struct {
	host      *provision.Host
	opt       SSH
	log       *slog.Logger
	keepalive time.Duration
	sessions  *semaphore.Weighted
	starting  time.Duration // how long a command may take to begin

	dialling *semaphore.Weighted // a lock that a context can stop waiting for; guards current
	current  *sshLink            // may be dead

	closing context.Context // ends with close, and with it every dialling
	end     context.CancelFunc
}

func dialSSH(ctx context.Context, h *provision.Host, opt SSH, log *slog.Logger, keepalive time.Duration) (*sshTransport, error) {
	opt.from.log = log
	link, err := dialLink(ctx, h, opt, keepalive)
	if err != nil {
		return nil, err
	}
	t := &sshTransport{
		host: h, opt: opt, log: log, keepalive: keepalive,
		sessions: semaphore.NewWeighted(maxSessions),
		starting: startWithin,
		dialling: semaphore.NewWeighted(1),
		current:  link,
	}
	t.closing, t.end = context.WithCancel(context.Background())
	return t, nil
}

func (t *sshTransport) close() error {
	t.end()
	// Never nil: dialling ends with closing, and a channel without a link fails.
	if err := t.dialling.Acquire(context.Background(), 1); err != nil {
		return err
	}
	defer t.dialling.Release(1)
	t.current.close()
	return nil
}

// link returns a live connection, and dials again when the last one was lost.
func (t *sshTransport) link(ctx context.Context) (*sshLink, error) {
	if err := t.dialling.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer t.dialling.Release(1)
	if t.closing.Err() != nil {
		return nil, net.ErrClosed
	}
	if t.current.alive() {
		return t.current, nil
	}
	t.current.close()
	t.log.Warn("connection lost, dialling again")

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.closing, cancel)()
	var last error
	link, err := backoff.Retry(ctx, func() (*sshLink, error) {
		link, err := dialLink(ctx, t.host, t.opt, t.keepalive)
		if err != nil && !errors.Is(err, provision.ErrUnreachable) {
			return nil, backoff.Permanent(err)
		}
		if err != nil && ctx.Err() == nil {
			last = err
			t.log.Debug("still not reachable", "err", err)
		}
		return link, err
	}, backoff.WithMaxElapsedTime(redialFor))
	if err != nil {
		if last != nil && !errors.Is(err, last) {
			err = fmt.Errorf("%w (%w)", last, err)
		}
		return nil, fmt.Errorf("dial again: %w", err)
	}
	t.current = link
	t.log.Info("connected again")
	return link, nil
}

// open opens a channel. One that the host refuses is an error; one that fails
// because the connection is gone, which nobody may have noticed yet, is opened
// once more on a new connection.
func (t *sshTransport) open(ctx context.Context, channel func(*sshLink) error) error {
	for attempt := 1; ; attempt++ {
		link, err := t.link(ctx)
		if err != nil {
			return err
		}
		err = channel(link)
		var refused *ssh.OpenChannelError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &refused) && link.alive():
			return err
		case attempt == 2:
			return provision.Fail(t.host, provision.ErrUnreachable, "the connection was lost twice in a row: %w", err)
		}
		link.close()
	}
}

// session opens a session, of which a host allows only so many at a time. The
// caller calls release after the session has ended.
func (t *sshTransport) session(ctx context.Context) (link *sshLink, s *ssh.Session, release func(), err error) {
	if err := t.sessions.Acquire(ctx, 1); err != nil {
		return nil, nil, nil, err
	}
	if link, s, err = t.openSession(ctx); err != nil {
		t.sessions.Release(1)
		return nil, nil, nil, err
	}
	return link, s, func() { t.sessions.Release(1) }, nil
}

// openSession opens a session that is not counted. sshd counts one that has
// ended until it gets round to it, so being refused says little at first.
func (t *sshTransport) openSession(ctx context.Context) (link *sshLink, s *ssh.Session, err error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 5*time.Millisecond, time.Second
	s, err = backoff.Retry(ctx, func() (s *ssh.Session, err error) {
		err = t.open(ctx, func(l *sshLink) error {
			link = l
			s, err = l.session(ctx)
			return err
		})
		var refused *ssh.OpenChannelError
		if err != nil && !errors.As(err, &refused) {
			err = backoff.Permanent(err)
		}
		return s, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(sessionWait))
	return link, s, err
}

func (t *sshTransport) run(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	link, s, release, err := t.session(ctx)
	if err != nil {
		return provision.Wrap(t.host, "run "+shortCommand(command), err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, told := &processOutput{output: output{w: stdout}, known: make(chan struct{}), greeting: tail{most: maxStderr}, notBegun: stop}, &output{w: stderr}
	defer out.watch(t.starting)()
	s.Stdout, s.Stderr = out, told
	fed := make(chan struct{})
	if stdin == nil {
		close(fed)
	} else {
		// Not s.Stdin: the library would wait for it for ever.
		w, err := s.StdinPipe()
		if err != nil {
			s.Close()
			release()
			return provision.Wrap(t.host, "run "+shortCommand(command), err)
		}
		go func() {
			defer close(fed)
			_, _ = io.Copy(w, stdin) // a command may end before it has read all
			w.Close()
		}()
	}
	ended, over := make(chan error, 1), make(chan struct{})
	if !link.goes(func() {
		defer close(over)
		defer release()
		defer s.Close()
		ended <- s.Run(forAnyShell(command))
	}) {
		release()
		ended <- net.ErrClosed
	}
	select {
	case err = <-ended:
		within(killDelay, fed)
	case <-ctx.Done():
		// The number is on its way: a command that runs must not be lost sight of.
		select {
		case <-out.known:
			t.kill(ctx, out.number)
		case <-over:
		case <-time.After(killDelay):
		}
		s.Close()
		within(killDelay, over)
		out.drop()
		told.drop()
		return provision.Wrap(t.host, "run "+shortCommand(command), context.Cause(ctx))
	}
	var exit *ssh.ExitError
	switch {
	case (err == nil || errors.As(err, &exit)) && !out.begun():
		return provision.Wrap(t.host, "run "+shortCommand(command), out.didNot(exit))
	case err == nil:
		return nil
	case errors.As(err, &exit):
		failed := &CommandError{Host: t.host.String(), Command: command, ExitCode: exit.ExitStatus(), Signal: exit.Signal()}
		if failed.Signal != "" {
			failed.ExitCode = -1
		}
		return failed
	default:
		return provision.Fail(t.host, provision.ErrUnreachable, "the connection was lost while %s ran: %w", shortCommand(command), err)
	}
}

// within waits for done, but not longer than limit.
func within(limit time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// kill ends the process group of a command whose caller gave up. It takes a
// session of its own: for a login of root, sshd does not pass signals on.
func (t *sshTransport) kill(ctx context.Context, pid string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*killDelay)
	defer cancel()
	_, s, err := t.openSession(ctx) // not counted: the command's own is still taken
	if err != nil {
		t.log.Debug("could not end a command", "pid", pid, "err", err)
		return
	}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	defer s.Close()
	const script = `kill -s TERM -- -%[1]s; n=0
while [ $n -lt %[2]d ] && kill -s 0 -- -%[1]s; do sleep 0.1; n=$((n+1)); done
kill -s KILL -- -%[1]s; true`
	if err := s.Run("exec sh -c " + plain.Quote(fmt.Sprintf(script, pid, killDelay/(100*time.Millisecond)))); err != nil {
		t.log.Debug("could not end a command", "pid", pid, "err", err)
	}
}

// output passes on what a command writes, until nobody wants it any more.
type output struct {
	mu      sync.Mutex
	w       io.Writer
	dropped bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped {
		return len(p), nil
	}
	return o.w.Write(p)
}

// drop returns when nothing more will be written.
func (o *output) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped = true
}

// processMark begins the line with a command's process number.
const processMark = "hcl-process "

// forAnyShell is a command for the login's shell, whichever that is, that runs a
// script with sh. The outer sh says its process number, which stays the same. The
// script goes in octal numbers but for what means nothing to any shell: csh takes no
// line ends in quotes and looks for earlier commands at "!", fish takes backslashes
// there.
func forAnyShell(script string) string {
	var octal strings.Builder
	for _, b := range []byte(script) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte(" -_./=,:;|&<>()[]{}", b) >= 0 {
			octal.WriteByte(b)
		} else {
			fmt.Fprintf(&octal, `\0%03o`, b)
		}
	}
	return `exec sh -c 'echo "` + processMark + `$$"; exec sh -c "$(printf %b "$0")"' '` + octal.String() + `'`
}

// processOutput is the output of a command after the line with its process
// number. What comes before is the greeting of a login script, and not meant.
type processOutput struct {
	output
	before   []byte        // the line that is being read, until the number is known
	greeting tail          // what was read until then
	length   int           // of all that was
	known    chan struct{} // closed then
	number   string        // not to be read before
	notBegun func(error)   // called when it will not be
}

// begun reports whether the command was run at all.
func (o *processOutput) begun() bool {
	select {
	case <-o.known:
		return true
	default:
		return false
	}
}

// didNot says what a login did that ended without running the command.
func (o *processOutput) didNot(exit *ssh.ExitError) error {
	how := "it ended"
	if exit != nil {
		how = fmt.Sprintf("it exited with %d", exit.ExitStatus())
	}
	if said := LastLines(o.greeting.String(), stderrTail); said != "" {
		how += " and said: " + said
	}
	return fmt.Errorf("the login does not run commands (a ForceCommand of sshd, or a shell such as nologin?): %s", how)
}

// watch waits for the number. The caller calls done when the command has ended.
func (o *processOutput) watch(within time.Duration) (done func()) {
	timer := time.AfterFunc(within, func() {
		if !o.begun() {
			o.notBegun(fmt.Errorf("the login did not begin it within %s: is there a ForceCommand of sshd, or does its shell wait for something, such as a file system?", within))
		}
	})
	return func() { timer.Stop() }
}

func (o *processOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := len(p)
	if o.number == "" {
		_, _ = o.greeting.Write(p)
		if o.length += len(p); o.length > maxGreeting {
			o.before = nil
			o.notBegun(errors.New("the login prints without end instead of beginning it: is there a ForceCommand of sshd?"))
			return all, nil
		}
	}
	for o.number == "" {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		o.before, p = append(o.before, line...), rest
		if !whole {
			return all, nil
		}
		if _, number, found := bytes.Cut(o.before, []byte(processMark)); found {
			o.number = string(number)
			close(o.known)
		}
		o.before = nil
	}
	if o.dropped || len(p) == 0 {
		return all, nil
	}
	if _, err := o.w.Write(p); err != nil {
		return 0, err
	}
	return all, nil
}

func (t *sshTransport) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = t.open(ctx, func(link *sshLink) error {
		conn, err = link.dial(ctx, network, addr)
		return err
	})
	if err != nil {
		return nil, provision.Wrap(t.host, "dial "+addr+" there", err)
	}
	return conn, nil
}

func (t *sshTransport) listen(ctx context.Context) (listener net.Listener, err error) {
	link, err := t.link(ctx)
	if err != nil {
		return nil, err
	}
	return opened(ctx, link, func() (net.Listener, error) { return link.client.Listen("tcp", "127.0.0.1:0") })
}

// sshLink is one established connection and what watches over it.
type sshLink struct {
	client *ssh.Client
	jump   *sshLink      // what it goes through; nil: nothing
	dead   chan struct{} // closed when the connection has ended

	mu     sync.Mutex
	closed bool
	owned  sync.WaitGroup // every goroutine of the link
}

// dialLink connects and authenticates once, through the jump hosts if there
// are any.
func dialLink(ctx context.Context, h *provision.Host, opt SSH, keepalive time.Duration) (*sshLink, error) {
	var jump *sshLink
	dial := new(net.Dialer).DialContext
	block, given := h, opt // what the configuration says of this host says nothing of its jump host
	h, opt, err := configure(h, opt)
	if err != nil {
		return nil, err
	}
	if h.Jump != nil {
		for seen, j := map[*provision.Host]bool{block: true}, h.Jump; j != nil; j = j.Jump {
			if seen[j] {
				return nil, fmt.Errorf("%s: its jump hosts go in a circle by way of %s", h, j)
			}
			seen[j] = true
		}
		given.from.hops = opt.from.hops
		if jump, err = dialLink(ctx, h.Jump, given, keepalive); err != nil {
			return nil, fmt.Errorf("%s: its jump host: %w", h, err)
		}
		dial = jump.dial
	}
	client, err := handshake(ctx, h, opt, dial)
	if err != nil {
		if jump != nil {
			jump.close()
		}
		return nil, err
	}
	l := &sshLink{client: client, jump: jump, dead: make(chan struct{})}
	l.owned.Go(func() {
		_ = client.Wait() // why it ended is what the next use will run into
		close(l.dead)
	})
	l.owned.Go(func() { l.keepAlive(keepalive) })
	return l, nil
}

// handshake makes the TCP connection and the SSH handshake on it.
func handshake(ctx context.Context, h *provision.Host, opt SSH, dial func(context.Context, string, string) (net.Conn, error)) (*ssh.Client, error) {
	addr := sshAddress(h.Address)
	login, err := loginName(h)
	if err != nil {
		return nil, err
	}
	tcpCtx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, fmt.Errorf("no answer within %s", handshakeTimeout))
	defer cancel()
	conn, err := dial(tcpCtx, "tcp", addr)
	if err != nil {
		if ctx.Err() != nil {
			return nil, provision.Fail(h, provision.ErrUnreachable, "no connection to %s yet: %w", addr, context.Cause(ctx))
		}
		if cause := context.Cause(tcpCtx); cause != nil {
			err = cause
		}
		return nil, unreachable(h, addr, err)
	}
	established := false
	defer func() {
		if !established {
			conn.Close()
		}
	}()

	// The library knows no contexts: closing what it reads from ends it.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var silent silence
	silent.start(handshakeTimeout, conn)
	defer silent.stop()

	known, err := newHostKeys(h, addr, opt, silent.asking)
	if err != nil {
		return nil, err
	}
	keys, err := openKeyring(ctx, h, opt, silent.asking)
	defer keys.close()
	if err != nil {
		return nil, err
	}
	// The library may return before its callback does.
	var verdict atomic.Pointer[error]
	config := &ssh.ClientConfig{
		User: login,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(keys.signers...)},
		HostKeyCallback: func(address string, remote net.Addr, key ssh.PublicKey) error {
			err := known.check(address, remote, key)
			verdict.Store(&err)
			return err
		},
		HostKeyAlgorithms: known.algorithms,
		ClientVersion:     "SSH-2.0-hcl",
	}
	inner, channels, requests, err := ssh.NewClientConn(conn, addr, config)
	if err == nil && ctx.Err() == nil {
		established = true
		return ssh.NewClient(inner, channels, requests), nil
	}

	var algorithms *ssh.AlgorithmNegotiationError
	var unopened *keyError
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return nil, provision.Fail(h, provision.ErrUnreachable, "no connection to %s yet: %w", addr, context.Cause(ctx))
	case verdict.Load() != nil && *verdict.Load() != nil:
		return nil, *verdict.Load() // we refused the host
	case silent.fired():
		return nil, unreachable(h, addr, fmt.Errorf("it took the connection, but did not finish the SSH handshake within %s", handshakeTimeout))
	case errors.As(err, &algorithms) && algorithms.What == "host key" && known.expects != "":
		return nil, provision.Fail(h, provision.ErrHostKey, "%s expects a key of type %s, the host offers only %s: this is another machine, or it was set up anew",
			known.expects, strings.Join(known.algorithms, ", "), strings.Join(algorithms.RequestedAlgorithms, ", "))
	case errors.As(err, &unopened):
		return nil, provision.Fail(h, provision.ErrAuth, "%w", unopened)
	case verdict.Load() == nil || errors.Is(err, io.EOF) || errors.As(err, &network):
		return nil, unreachable(h, addr, fmt.Errorf("no SSH handshake: %w", err))
	default:
		return nil, refused(h, login, addr, keys, err)
	}
}

func unreachable(h *provision.Host, addr string, err error) error {
	return provision.Fail(h, provision.ErrUnreachable, "no connection to %s: %w (is the machine up, its address right, and sshd reachable from here?)", addr, err)
}

// refused says which keys were offered to no avail.
func refused(h *provision.Host, login, addr string, keys *keyring, err error) error {
	const most = 6 // sshd's MaxAuthTries
	hint := "put the public half of one of them into the host's ~/.ssh/authorized_keys, or name the right key with identity_file"
	if len(keys.signers) == 0 {
		hint = "name the key to use with identity_file, or add it to the SSH agent"
	} else if len(keys.signers) >= most {
		hint = fmt.Sprintf("sshd usually gives up after %d keys: name the right one with identity_file", most)
	}
	return provision.Fail(h, provision.ErrAuth, "%s does not let %s in. Tried: %s. To get in, %s (%w)",
		addr, login, strings.Join(keys.tried, "; "), hint, err)
}

func loginName(h *provision.Host) (string, error) {
	if h.User != "" {
		return h.User, nil
	}
	me, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("%s: find out who you are: %w (name the login with user)", h, err)
	}
	return me.Username, nil
}

// sshAddress adds the port when the address has none.
func sshAddress(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), "22")
}

// silence closes a connection on which nothing has moved for too long. The
// clock stands still while the user is asked something.
type silence struct {
	mu    sync.Mutex
	timer *time.Timer
	limit time.Duration
	over  bool
}

func (s *silence) start(limit time.Duration, conn net.Conn) {
	s.limit = limit
	s.timer = time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = true
		conn.Close()
	})
}

func (s *silence) stop() { s.timer.Stop() }

func (s *silence) asking() (done func()) {
	s.timer.Stop()
	return func() { s.timer.Reset(s.limit) }
}

func (s *silence) fired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (l *sshLink) alive() bool {
	select {
	case <-l.dead:
		return false
	default:
		return true
	}
}

// close ends the connection and waits for everything that belongs to it. It may
// be called more than once.
func (l *sshLink) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.client.Close()
	l.owned.Wait()
	if l.jump != nil {
		l.jump.close()
	}
}

// keepAlive asks for a sign of life now and then, which also keeps firewalls
// from forgetting a quiet connection, and ends a connection that gives none.
func (l *sshLink) keepAlive(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	answer := make(chan struct{}, 1)
	waiting, missed := false, 0
	for {
		select {
		case <-l.dead:
			return
		case <-answer:
			waiting, missed = false, 0
		case <-tick.C:
			if waiting {
				if missed++; missed == keepaliveMissed {
					l.client.Close()
					return
				}
				continue
			}
			waiting = l.goes(func() {
				// sshd answers "unknown request", which is an answer.
				if _, _, err := l.client.SendRequest("keepalive@openssh.com", true, nil); err == nil {
					answer <- struct{}{}
				}
			})
		}
	}
}

// goes runs f in a goroutine of the link; false means that the link is closed.
func (l *sshLink) goes(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.owned.Go(f)
	return true
}

// session opens a session.
func (l *sshLink) session(ctx context.Context) (*ssh.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openWithin, fmt.Errorf("sshd opened no session within %s", openWithin))
	defer cancel()
	return opened(ctx, l, l.client.NewSession)
}

// dial opens a connection from the host.
func (l *sshLink) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := opened(ctx, l, func() (net.Conn, error) { return l.client.Dial(network, addr) })
	if err != nil {
		return nil, err
	}
	news, come := io.Pipe()
	if !l.goes(func() {
		_, err := io.Copy(come, c)
		come.CloseWithError(err) // nil is the end
	}) {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	return &stream{c, news}, nil
}

// stream is a connection from the host whose Close ends a Read that waits, as that
// of a socket does. The library's Read goes on until the other side has closed too,
// which it never does when the network is gone.
type stream struct {
	net.Conn
	news *io.PipeReader
}

func (s *stream) Read(b []byte) (int, error) { return s.news.Read(b) }

func (s *stream) Close() error {
	s.news.CloseWithError(net.ErrClosed)
	return s.Conn.Close()
}

// CloseWrite tells the other side that no more comes.
func (s *stream) CloseWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// opened returns what open, a function of the library, has opened. Such a
// function knows no contexts: when ctx ends first, what it opens is closed at
// once. And when the connection ends just as it asks, after the library has
// dropped its channels and before it refuses new ones (golang.org/x/crypto/ssh,
// mux.loop), it never returns, so nobody may wait for it.
func opened[T io.Closer](ctx context.Context, l *sshLink, open func() (T, error)) (T, error) {
	type answer struct {
		what T
		err  error
	}
	answers, left := make(chan answer), make(chan struct{})
	defer close(left)
	go func() {
		what, err := open()
		select {
		case answers <- answer{what, err}:
		case <-left:
			if err == nil {
				what.Close()
			}
		}
	}()
	var none T
	select {
	case a := <-answers:
		return a.what, a.err
	case <-l.dead:
		return none, net.ErrClosed
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

func (t *sshTransport) upload(ctx context.Context, local, remote string, mode fs.FileMode) error {
	_, s, release, err := t.session(ctx)
	if err != nil {
		return err
	}
	defer release()
	defer s.Close()
	return uploadSFTP(ctx, s, local, remote, mode)
}
