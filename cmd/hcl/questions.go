package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/muesli/cancelreader"
	"golang.org/x/term"
)

// questions are put to the person at the terminal, one at a time.
type questions struct {
	mu     sync.Mutex
	screen *live // what is drawn on the terminal meanwhile; nil: nothing is
}

// show says that a view is drawn on the terminal from now on; nil: none is.
func (q *questions) show(l *live) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.screen = l
}

// alone is the terminal without anything that is drawn on it, until the function
// that it returns is called.
func (q *questions) alone() func() {
	q.mu.Lock()
	if q.screen == nil {
		return q.mu.Unlock
	}
	q.screen.pause()
	return func() {
		q.screen.resume()
		q.mu.Unlock()
	}
}

// ask puts a question to the person at the terminal; only yes is a yes. The end of
// ctx is an error.
func (t *console) ask(ctx context.Context, question string) (bool, error) {
	defer t.questions.alone()()
	if ctx.Err() != nil {
		return false, errNotAsked
	}
	in, err := cancelreader.NewReader(t.in)
	if err != nil {
		return false, fmt.Errorf("ask: %w", err)
	}
	defer in.Close()
	stop := context.AfterFunc(ctx, func() { in.Cancel() })
	defer stop()
	fmt.Fprintf(t.stderr, "\n%s\nOnly 'yes' is accepted: ", question)
	answer, err := line(in)
	if ctx.Err() != nil {
		fmt.Fprintln(t.stderr)
		return false, errNotAsked
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("ask: %w", err)
	}
	return strings.TrimSpace(answer) == "yes", nil
}

// errNotAsked is that of a question that Ctrl-C has answered.
var errNotAsked = &exit{exitInterrupted, errors.New("interrupted; nothing was done")}

// line reads up to the end of a line, and nothing beyond it.
func line(r io.Reader) (string, error) {
	var text []byte
	for b := make([]byte, 1); ; {
		n, err := r.Read(b)
		if n > 0 {
			if b[0] == '\n' {
				return string(text), nil
			}
			text = append(text, b[0])
		}
		if err != nil {
			return string(text), err
		}
	}
}

const keyEncrypted = "the key %s is encrypted and there is no terminal to ask for its passphrase; " +
	"add it to the SSH agent with: ssh-add %[1]s"

// passphrase asks for that of a key.
func (t *console) passphrase(ctx context.Context, file string) (string, error) {
	if !terminal(t.in) {
		return "", fmt.Errorf(keyEncrypted, file)
	}
	defer t.questions.alone()()
	if ctx.Err() != nil {
		return "", errNotAsked
	}
	fd := int(t.in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("ask for a passphrase: %w", err)
	}
	fmt.Fprintf(t.stderr, "Passphrase of %s: ", file)
	defer fmt.Fprintln(t.stderr)
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // after Ctrl-C it waits for a line until the process ends, which is soon
		text, err := term.ReadPassword(fd)
		answered <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", errors.Join(errNotAsked, term.Restore(fd, before))
	case got := <-answered:
		return string(got.text), got.err
	}
}
