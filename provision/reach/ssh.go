package reach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/semaphore"

	"hclbench/flow"
	"hclbench/provision"
)

// SSH says how hosts are dialled. The zero value is the strict default: keys of
// the agent and the usual files, and only hosts that known_hosts knows.
type SSH struct {
	// KnownHosts are the files of known host keys; nil means ~/.ssh/known_hosts
	// and /etc/ssh/ssh_known_hosts.
	KnownHosts []string
	// AcceptNew is asked about a host whose key is not known, with the key's fingerprint; true
	// appends it to the first of KnownHosts. nil refuses. A key that has changed is always
	// refused. It may be called for several hosts at once.
	AcceptNew func(h *provision.Host, fingerprint string) bool
	// Passphrase is asked for the passphrase of an encrypted key file; nil makes such a file an
	// error that says so. It may be called for several hosts at once.
	Passphrase func(file string) (string, error)
	// Config are files of ssh_config(5), the most important first; nil means
	// ~/.ssh/config and /etc/ssh/ssh_config. What a host's block says goes before.
	Config []string

	from      configured    // what they say of the host that is dialled
	keepalive time.Duration // 0: keepaliveEvery
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

type sshTransport struct {
	host     *provision.Host
	opt      SSH
	log      *slog.Logger
	sessions *semaphore.Weighted
	starting time.Duration // how long a command may take to begin

	dialling *semaphore.Weighted // a lock that a context can stop waiting for; guards current
	current  *sshLink            // may be dead

	closing context.Context // ends with close, and with it every dialling
	end     context.CancelFunc
}

func dialSSH(ctx context.Context, h *provision.Host, opt SSH, log *slog.Logger) (*sshTransport, error) {
	opt.from.log = log
	link, err := dialLink(ctx, h, opt)
	if err != nil {
		return nil, err
	}
	t := &sshTransport{
		host: h, opt: opt, log: log, starting: startWithin, current: link,
		sessions: semaphore.NewWeighted(maxSessions), dialling: semaphore.NewWeighted(1),
	}
	t.closing, t.end = context.WithCancel(context.Background())
	return t, nil
}

func (t *sshTransport) Close() error {
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
	var link *sshLink
	patience := flow.Patience{First: 500 * time.Millisecond, Most: time.Minute, Total: redialFor}
	err := patience.Again(ctx, func() (err error) {
		link, err = dialLink(ctx, t.host, t.opt)
		return err
	}, func(err error) bool {
		t.log.Debug("still not reachable", "err", err)
		return !errors.Is(err, provision.ErrUnreachable)
	})
	if err != nil {
		return nil, fmt.Errorf("dial again: %w", err)
	}
	t.current = link
	t.log.Info("connected again")
	return link, nil
}

// open opens a channel: once more on a new connection where that fails because the connection is
// gone, which nobody may have noticed yet.
func (t *sshTransport) open(ctx context.Context, channel func(*sshLink) error) error {
	for attempt := 1; ; attempt++ {
		link, err := t.link(ctx)
		if err != nil {
			return err
		}
		err = channel(link)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case Refused(err) && link.alive():
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
	wait := flow.Patience{First: 5 * time.Millisecond, Most: time.Second, Total: sessionWait}
	err = wait.Again(ctx, func() error {
		return t.open(ctx, func(l *sshLink) (err error) {
			link = l
			s, err = l.session(ctx)
			return err
		})
	}, func(err error) bool { return !Refused(err) })
	return link, s, err
}

func (t *sshTransport) Dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = t.open(ctx, func(link *sshLink) error {
		conn, err = link.dial(ctx, network, addr)
		return err
	})
	if err != nil {
		return nil, provision.Wrap(t.host, "dial "+addr+" there", err)
	}
	return conn, nil
}

func (t *sshTransport) Listen(ctx context.Context) (listener net.Listener, err error) {
	link, err := t.link(ctx)
	if err != nil {
		return nil, err
	}
	return opened(ctx, link, func() (net.Listener, error) { return link.client.Listen("tcp", "127.0.0.1:0") })
}
