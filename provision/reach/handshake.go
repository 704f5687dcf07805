package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/user"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"hclbench/provision"
)

func dialLink(ctx context.Context, h *provision.Host, opt SSH, keepalive time.Duration) (*sshLink, error) {
	var jump *sshLink
	dial := new(net.Dialer).DialContext
	given := opt // what the configuration says of this host says nothing of its jump host
	h, opt, err := configure(h, opt)
	if err != nil {
		return nil, err
	}
	if h.Jump != nil {
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
	var network net.Error
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
	case verdict == nil || errors.Is(err, io.EOF) || errors.As(err, &network):
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
