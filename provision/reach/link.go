package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
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
	if !l.goes(func() {
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
