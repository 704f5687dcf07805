package wire

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hclbench/load"
)

// What a connection is doing.
const (
	free     byte = iota // nothing: it can take a request
	busy                 // a request is on it
	answered             // its answer is complete, and the HTTP message is not
	gone                 // closed
)

// link is one connection. The sender of a request and the loop hold its lock while they use it.
type link struct {
	fd     int
	loop   *loop
	remote *net.TCPAddr
	timer  *time.Timer  // of the sender that waits
	ended  chan byte    // tells it that the state is answered, and then free or gone
	moved  atomic.Int64 // when the answer came nearer to its end: a token came
	since  time.Time    // it is free
	used   bool         // it has carried a request

	mu       sync.Mutex
	reused   bool // it has carried a request before this one
	state    byte
	x        Exchange
	out      net.Buffers // what is not written yet
	reads    int
	response response
	judged   bool // the header
	told     bool // that the answer is complete
	class    string
	text     string
	body     []byte // of a refusal
	stream   Stream
}

func (k *link) alive() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != free {
		return false
	}
	var b [1]byte
	_, _, err := unix.Recvfrom(k.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	patience := unusedTimeout
	if k.used {
		patience = idleTimeout
	}
	if err != unix.EAGAIN || time.Since(k.since) > patience {
		k.drop()
		return false
	}
	return true
}

// post writes a request, as far as the socket takes it; the loop writes the rest.
func (k *link) post(request net.Buffers, x Exchange, reused bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.x, k.out, k.reads, k.reused, k.used = x, request, 0, reused, true
	k.response.reset()
	k.judged, k.told, k.class, k.text, k.body = false, false, "", "", nil
	k.stream.Reset(x)
	k.moved.Store(int64(x.Record.Sent))
	k.state = busy
	if err := k.flush(); err != nil {
		// There may be an answer all the same, and why the server did not want more.
		k.receive(make([]byte, 4<<10), true)
		if k.state == busy {
			k.ends(x.Since(), k.named("write", err))
		}
	}
}

// piecesAtOnce bounds how many pieces one write takes: the kernel's own bound (IOV_MAX).
const piecesAtOnce = 1024

func (k *link) flush() error {
	for len(k.out) > 0 {
		n, err := unix.Writev(k.fd, k.out[:min(len(k.out), piecesAtOnce)])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return nil
		case err != nil:
			k.out = nil
			return err
		default:
			k.out = after(k.out, n)
		}
	}
	k.out = nil
	return nil
}

// after is what is left of pieces when n bytes of them are written.
func after(pieces net.Buffers, n int) net.Buffers {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if len(pieces) > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}

// read is called by the loop when something has happened. It returns when the first read that
// brought something of an answer returned, zero when none did, and whether a request is over.
func (k *link) read(buf []byte, events uint32) (at time.Time, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == gone {
		return time.Time{}, false
	}
	before := k.state
	if len(k.out) > 0 {
		k.flush() // an error shows when reading
	}
	// A read that brings less than it could has brought all there was, except for an end.
	at = k.receive(buf, events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0)
	return at, before == busy && k.state != busy
}

// receive reads until there is nothing left.
func (k *link) receive(buf []byte, ending bool) (first time.Time) {
	for k.state != gone {
		n, err := unix.Read(k.fd, buf)
		now := time.Now()
		at := now.Sub(k.x.Zero)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return first
		case k.state == free:
			k.drop() // closed by the server, or with bytes that nobody asked for
			return first
		case err != nil || n == 0:
			k.disconnected(at, err)
			return first
		case first.IsZero():
			first = now
		}
		k.use(buf[:n], at)
		if moved := k.stream.moved(); moved > 0 {
			k.moved.Store(int64(moved))
		}
		k.reads++
		if n < len(buf) && !ending {
			return first
		}
	}
	return first
}

func (k *link) use(b []byte, at time.Duration) {
	r := &k.response
	for len(b) > 0 && !r.over() {
		body, left, err := r.next(b)
		if err != nil {
			k.wrong(at, err)
			return
		}
		b = left
		if r.headed() && !k.judged {
			k.judged = true
			if k.class, k.text = refused(r.status, r.line, r.kind, k.x.Whole); k.class == load.ClassStatus {
				k.x.Record.Status = r.status
			}
		}
		switch {
		case len(body) == 0:
		case k.class != "":
			k.body = append(k.body, body[:min(len(body), maxErrorBody-len(k.body))]...)
		case k.state == busy:
			over, err := k.stream.Feed(body, at, k.reads)
			if err != nil {
				k.wrong(at, err)
				return
			}
			if over {
				k.state = answered
			}
		}
	}
	switch {
	case r.over():
		k.complete(at, len(b) == 0)
	case k.class != "" && len(k.body) >= maxErrorBody:
		k.wrong(at, nil)
	case k.state == answered && !k.told:
		k.told = true
		k.ended <- answered
	}
}

// complete is the end of the HTTP message; clean when nothing came after it.
func (k *link) complete(at time.Duration, clean bool) {
	if k.class != "" {
		k.note(at, nil)
	} else if k.state == busy {
		k.note(at, k.stream.end())
	}
	if !clean || k.response.closes || len(k.out) > 0 {
		k.drop()
	} else {
		k.state = free
	}
	k.ended <- k.state
}

// disconnected is the end of the connection: by the server, or, with an error, by a reset.
func (k *link) disconnected(at time.Duration, err error) {
	text := ""
	if err != nil {
		text = k.named("read", err)
	} else if end := k.response.end(); end != nil {
		text = end.Error()
	}
	switch {
	case k.state == answered || k.class != "": // what came before is still the message
		k.wrong(at, nil)
	case text != "":
		k.ends(at, text)
	default:
		k.wrong(at, k.stream.end())
	}
}

// wrong ends the connection, and a request that is not over, with what note says.
func (k *link) wrong(at time.Duration, err error) {
	if k.class != "" || k.state == busy {
		k.note(at, err)
	}
	k.drop()
	k.ended <- gone
}

// note writes down how a request has failed: it was refused, or the protocol was broken;
// with neither it has not.
func (k *link) note(at time.Duration, err error) {
	if k.class != "" {
		k.x.Record.Fail(at, k.class, withBody(k.text, k.body))
	} else if err != nil {
		class, text := server{}.classify(nil, err)
		k.x.Record.Fail(at, class, text)
	}
}

// ends is the failure of a request whose connection ended too soon.
func (k *link) ends(at time.Duration, text string) {
	class := load.ClassTruncated
	if k.reused && !k.response.started && at-k.x.Record.Sent < staleWithin {
		class, text = stale(text)
	}
	k.wrong(at, &streamError{class, text})
}

// giveUp ends the wait for an answer, unless the loop has just ended it. It
// reports whether the connection can be used again.
func (k *link) giveUp(cause error, s server) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch k.state {
	case free:
		for len(k.ended) > 0 { // what the loop has said meanwhile is not for the next request
			<-k.ended
		}
		return true
	case gone:
		return false
	case busy:
		class, text := s.classify(cause, cause)
		k.x.Record.Fail(k.x.Since(), class, text)
	}
	k.drop()
	return false
}

func (k *link) drop() {
	k.state = gone
	k.loop.forget(k)
	unix.Close(k.fd)
}

// named is an error in the words of package net, without the port on this side.
func (k *link) named(op string, err error) string {
	return fmt.Sprintf("%s %s: %v", op, k.remote, os.NewSyscallError(op, err))
}
