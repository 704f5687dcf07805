package reach

import (
	"bytes"
	"time"
)

// What a host may say and how long it may take, wherever nobody says otherwise: a broken
// one must neither fill our memory nor keep us for ever without a word.
const (
	// runWithin bounds a command of [Conn.Run] whose context has no deadline.
	runWithin = 5 * time.Minute

	// maxOutput bounds what such a command prints. The longest answers hold the index of
	// a model, which for the largest is some 10 MB.
	maxOutput = 64 << 20

	// maxStderr is how much of its end is kept of what a command says on stderr.
	maxStderr = 64 << 10

	// startWithin bounds how long a login takes to begin a command: it may read a
	// home that is far away, and print something first.
	startWithin = 90 * time.Second

	// maxGreeting bounds what it prints first.
	maxGreeting = 256 << 10

	// openWithin bounds how long sshd takes to open a session.
	openWithin = 2 * time.Minute

	// uploadStall bounds how long nothing of a file moves.
	uploadStall = 2 * time.Minute

	// agentWithin bounds how long the SSH agent takes to list its keys, and signWithin
	// all of its signatures, which a person may have to allow.
	agentWithin = 10 * time.Second
	signWithin  = 2 * time.Minute
)

// bounded is the beginning of a text: at most so many bytes of it. Once it is longer,
// full is called.
type bounded struct {
	text []byte
	most int
	full func()
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), b.most-len(b.text))
	b.text = append(b.text, p[:room]...)
	if room < len(p) && !b.over {
		b.over = true
		b.full()
	}
	return len(p), nil
}

// tail is the end of a text: at most so many bytes of it, from the beginning of a line
// where it was cut.
type tail struct {
	text []byte
	most int
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > 2*t.most {
		t.text = append(t.text[:0], t.text[len(t.text)-t.most:]...)
		t.cut = true
	}
	return len(p), nil
}

func (t *tail) String() string {
	text := t.text
	if len(text) > t.most {
		text, t.cut = text[len(text)-t.most:], true
	}
	if _, rest, found := bytes.Cut(text, []byte("\n")); found && t.cut {
		text = rest
	}
	return string(text)
}
