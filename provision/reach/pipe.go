package reach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"hclbench/plain"
	"hclbench/provision"
)

// commandConn is a connection that a command on the host makes: what it reads is written
// to us, what it writes we read.
type commandConn struct {
	net.Conn               // our end
	over     chan struct{} // closed when the command has ended
	err      error         // why; not to be read before
	end      context.CancelFunc
}

// Pipe starts a command whose standard input and output are a connection. Why it
// ended, if not well, is told by Read.
func (c *Conn) Pipe(command string) net.Conn {
	ctx, end := context.WithCancel(c.life)
	ours, theirs := net.Pipe()
	p := &commandConn{Conn: ours, over: make(chan struct{}), end: end}
	c.reading.Go(func() {
		defer end()
		said := &tail{most: maxStderr}
		var through *lane
		if through, p.err = c.lane(ctx); p.err == nil {
			p.err = through.link.Run(ctx, command, theirs, theirs, said)
			c.leave(through)
		}
		if failed, ok := p.err.(*CommandError); ok {
			failed.Stderr = said.String()
		}
		close(p.over)
		theirs.Close()
	})
	return p
}

// lane is a connection that pipes go over. Over SSH each is a session, of which sshd allows 10:
// more than some take another connection, so that no pipe ever waits for the end of another.
type lane struct {
	link Transport
	free int // pipes that may still begin
}

// pipesBeside is how many pipes go over the host's own connection, beside its commands and files.
const pipesBeside = maxSessions / 2

// lane returns a connection that has room for a pipe. The caller leaves it.
func (c *Conn) lane(ctx context.Context) (*lane, error) {
	if err := c.changing.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer c.changing.Release(1)
	for _, l := range c.lanes {
		if l.free > 0 || c.another == nil {
			l.free--
			return l, nil
		}
	}
	c.log.Debug("another connection, for what sshd does not forward", "connections", len(c.lanes)+1)
	link, err := c.another(ctx)
	if err != nil {
		return nil, err
	}
	l := &lane{link, maxSessions - 1}
	c.lanes = append(c.lanes, l)
	return l, nil
}

func (c *Conn) leave(l *lane) {
	// Never nil: the context does not end.
	if c.changing.Acquire(context.Background(), 1) == nil {
		l.free++
		c.changing.Release(1)
	}
}

func (p *commandConn) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if err == io.EOF {
		<-p.over
		if p.err != nil {
			err = p.err
		}
	}
	return n, err
}

// Close ends the command: by the end of its input, and soon by a signal.
func (p *commandConn) Close() error {
	err := p.Conn.Close()
	time.AfterFunc(KillDelay, p.end)
	return err
}

// ConnectVerb is the verb of the hcl binary that takes a network and an address, says
// [BridgeConnected], and then is the connection, on its standard input and output.
const ConnectVerb = "connect"

// BridgeConnected is the line that [ConnectVerb] begins with once it is connected.
// Anything else is why it is not.
const BridgeConnected = "connected"

// UseHCL names the command that runs hcl on the host; its verb and arguments come after it. With
// one the connection can connect where nothing is forwarded (into pods, and where sshd forbids it:
// AllowStreamLocalForwarding, AllowTcpForwarding, DisableForwarding), and see who listens on a port.
func (c *Conn) UseHCL(command string) { c.hcl.Store(&command) }

// PipeHCL is [Conn.Pipe] of a verb of hcl there, see [Conn.UseHCL].
func (c *Conn) PipeHCL(verb string) (net.Conn, error) {
	command := c.hcl.Load()
	if command == nil {
		return nil, provision.Wrap(c.host, "run hcl "+verb, errors.New("no hcl is known there"))
	}
	return c.Pipe(*command + " " + verb), nil
}

// dialBridge connects by hcl there. refused is what the transport has said: for TCP, sshd
// tells what it forbids from what does not listen; for a socket it does not.
func (c *Conn) dialBridge(ctx context.Context, command, network, addr string, refused error) (net.Conn, error) {
	var no *ssh.OpenChannelError
	command += " " + ConnectVerb + " " + network + " " + plain.Quote(addr)
	switch {
	case network == "unix":
		command = fmt.Sprintf("if [ -S %s ]; then %s; else echo no such socket; fi", plain.Quote(addr), command)
	case errors.As(refused, &no) && no.Reason != ssh.Prohibited:
		return nil, refused
	}
	p := c.Pipe(command)
	stop := context.AfterFunc(ctx, func() { p.Close() })
	defer stop()
	line, err := readLine(p)
	if err == nil && line == BridgeConnected {
		return p, nil
	}
	p.Close()
	switch cause := context.Cause(ctx); {
	case !errors.Is(refused, ErrNotForwarded):
		return nil, refused
	case cause != nil:
		err = cause
	case line != "":
		err = errors.New(plain.Line(line))
	}
	return nil, provision.Wrap(c.host, "dial "+addr+" there", err)
}

// readLine reads a line and not one byte more.
func readLine(r io.Reader) (string, error) {
	const most = 4 << 10
	var line []byte
	for b := make([]byte, 1); len(line) < most; line = append(line, b[0]) {
		if _, err := io.ReadFull(r, b); err != nil || b[0] == '\n' {
			return string(line), err
		}
	}
	return "", bufio.ErrTooLong
}
