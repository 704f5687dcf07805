package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/user"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"hclbench/provision"
)

type sshLink struct {
	client *ssh.Client
	jump   *sshLink      // what it goes through; nil: nothing
	dead   chan struct{} // closed when the connection has ended

	mu     sync.Mutex
	closed bool
	owned  sync.WaitGroup // every goroutine of the link
}

func (l *sshLink) alive() bool {
	select {
	case <-l.dead:
		return false
	default:
		return true
	}
}

// close ends the connection, maybe not for the first time, and waits for all that belongs to it.
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
			waiting = l.spawn(func() {
				// sshd answers "unknown request", which is an answer.
				if _, _, err := l.client.SendRequest("keepalive@openssh.com", true, nil); err == nil {
					answer <- struct{}{}
				}
			})
		}
	}
}

// spawn runs f in a goroutine of the link; false means that the link is closed.
func (l *sshLink) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.owned.Go(f)
	return true
}

func (l *sshLink) session(ctx context.Context) (*ssh.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openWithin, fmt.Errorf("sshd opened no session within %s", openWithin))
	defer cancel()
	return opened(ctx, l, l.client.NewSession)
}

func (l *sshLink) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := opened(ctx, l, func() (net.Conn, error) { return l.client.Dial(network, addr) })
	if err != nil {
		return nil, err
	}
	news, come := io.Pipe()
	if !l.spawn(func() {
		_, err := io.Copy(come, c)
		come.CloseWithError(err) // nil is the end
	}) {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	return &stream{c, news}, nil
}

// stream is a connection from the host whose Close ends a Read that waits. The library's goes on
// until the other side has closed too, which it never does when the network is gone.
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

// opened returns what open, a function of the library, has opened. Such a function knows no
// contexts: when ctx ends first, what it opens is closed at once. When the connection ends just as
// it asks (golang.org/x/crypto/ssh, mux.loop), it never returns, so nobody may wait for it.
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

func dialLink(ctx context.Context, h *provision.Host, opt SSH) (*sshLink, error) {
	var jump *sshLink
	dial := new(net.Dialer).DialContext
	given := opt // what the configuration says of this host says nothing of its jump host
	h, opt, err := configure(h, opt)
	if err != nil {
		return nil, err
	}
	if h.Jump != nil {
		given.from.hops = opt.from.hops
		if jump, err = dialLink(ctx, h.Jump, given); err != nil {
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
	l.owned.Go(func() { l.keepAlive(cmp.Or(opt.keepalive, keepaliveEvery)) })
	return l, nil
}

const (
	noConnection = "no connection to %s: %w (is the machine up, its address right, and sshd reachable from here?)"
	notYet       = "no connection to %s yet: %w"
	noHandshake  = "it took the connection, but did not finish the SSH handshake within %s"
	otherType    = "%s expects a key of type %s, the host offers only %s: this is another machine, or it was set up anew"
	notLetIn     = "%s does not let %s in. Tried: %s. To get in, %s (%w)"

	nameKey = "name the key to use with identity_file, or add it to the SSH agent"
	tooMany = "sshd usually gives up after %d keys: name the right one with identity_file"
	addKey  = "put the public half of one of them into the host's ~/.ssh/authorized_keys, " +
		"or name the right key with identity_file"
)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

type attempt struct {
	host    *provision.Host
	login   string
	silent  silence
	known   *hostKeys
	keys    *keyring
	verdict atomic.Pointer[error] // on the host's key; the library may return before its callback does
}

func handshake(ctx context.Context, h *provision.Host, opt SSH, dial dialer) (*ssh.Client, error) {
	a := &attempt{host: h}
	var err error
	if a.login, err = loginName(h); err != nil {
		return nil, err
	}
	conn, err := a.connect(ctx, dial)
	if err != nil {
		return nil, err
	}
	established := false
	defer func() {
		if !established {
			conn.Close()
		}
	}()

	// The library knows no contexts: closing what it reads from ends it.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	a.silent.start(conn)
	defer a.silent.Stop()

	if a.known, err = newHostKeys(h, h.Address, opt, a.silent.asking); err != nil {
		return nil, err
	}
	a.keys, err = openKeyring(ctx, h, opt, a.silent.asking)
	defer a.keys.close()
	if err != nil {
		return nil, err
	}
	inner, channels, requests, err := ssh.NewClientConn(conn, h.Address, a.config())
	if err == nil && ctx.Err() == nil {
		established = true
		return ssh.NewClient(inner, channels, requests), nil
	}
	return nil, a.explain(ctx, err)
}

func (a *attempt) connect(ctx context.Context, dial dialer) (net.Conn, error) {
	soon, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, fmt.Errorf("no answer within %s", handshakeTimeout))
	defer cancel()
	conn, err := dial(soon, "tcp", a.host.Address)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, provision.Fail(a.host, provision.ErrUnreachable, notYet, a.host.Address, context.Cause(ctx))
	case context.Cause(soon) != nil:
		err = context.Cause(soon)
	}
	return nil, a.unreachable(err)
}

func (a *attempt) config() *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: a.login,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(a.keys.signers...)},
		HostKeyCallback: func(address string, remote net.Addr, key ssh.PublicKey) error {
			err := a.known.check(address, remote, key)
			a.verdict.Store(&err)
			return err
		},
		HostKeyAlgorithms: a.known.algorithms,
		ClientVersion:     "SSH-2.0-hcl",
	}
}

func (a *attempt) explain(ctx context.Context, err error) error {
	var algorithms *ssh.AlgorithmNegotiationError
	var unopened *keyError
	verdict := a.verdict.Load()
	switch {
	case ctx.Err() != nil:
		return provision.Fail(a.host, provision.ErrUnreachable, notYet, a.host.Address, context.Cause(ctx))
	case verdict != nil && *verdict != nil:
		return *verdict // we refused the host
	case a.silent.over.Load():
		return a.unreachable(fmt.Errorf(noHandshake, handshakeTimeout))
	case errors.As(err, &algorithms) && algorithms.What == "host key" && a.known.expects != "":
		return provision.Fail(a.host, provision.ErrHostKey, otherType,
			a.known.expects, strings.Join(a.known.algorithms, ", "), strings.Join(algorithms.RequestedAlgorithms, ", "))
	case errors.As(err, &unopened):
		return provision.Fail(a.host, provision.ErrAuth, "%w", unopened)
	case verdict == nil || errors.Is(err, io.EOF) || errors.As(err, new(net.Error)):
		return a.unreachable(fmt.Errorf("no SSH handshake: %w", err))
	}
	return a.refused(err)
}

func (a *attempt) unreachable(err error) error {
	return provision.Fail(a.host, provision.ErrUnreachable, noConnection, a.host.Address, err)
}

func (a *attempt) refused(err error) error {
	const most = 6 // sshd's MaxAuthTries
	hint := addKey
	if len(a.keys.signers) == 0 {
		hint = nameKey
	} else if len(a.keys.signers) >= most {
		hint = fmt.Sprintf(tooMany, most)
	}
	return provision.Fail(a.host, provision.ErrAuth, notLetIn,
		a.host.Address, a.login, strings.Join(a.keys.tried, "; "), hint, err)
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

// silence closes a connection on which nothing has moved for too long. The
// clock stands still while the user is asked something.
type silence struct {
	*time.Timer
	over atomic.Bool
}

func (s *silence) start(conn net.Conn) {
	s.Timer = time.AfterFunc(handshakeTimeout, func() {
		s.over.Store(true)
		conn.Close()
	})
}

func (s *silence) asking() (done func()) {
	s.Stop()
	return func() { s.Reset(handshakeTimeout) }
}
