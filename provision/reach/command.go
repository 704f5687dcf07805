package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"hclbench/plain"
	"hclbench/provision"
)

func (t *sshTransport) Run(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	err := t.runOnce(ctx, command, stdin, stdout, stderr)
	if _, ran := err.(*CommandError); ran || err == nil {
		return err
	}
	return provision.Wrap(t.host, "run "+ShortCommand(command), err)
}

func (t *sshTransport) runOnce(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	link, s, release, err := t.session(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, told := NewOutput(stdout, stop), NewOutput(stderr, nil)
	defer time.AfterFunc(t.starting, func() {
		if !out.Begun() {
			stop(fmt.Errorf(notBegun, t.starting))
		}
	}).Stop()
	s.Stdout, s.Stderr = out, told
	fed, err := feed(s, stdin)
	if err != nil {
		s.Close()
		release()
		return err
	}
	ended, over := make(chan error, 1), make(chan struct{})
	if !link.spawn(func() {
		defer close(over)
		defer release()
		defer s.Close()
		ended <- s.Run(forAnyShell(command))
	}) {
		release()
		ended <- net.ErrClosed
	}
	select {
	case err := <-ended:
		within(KillDelay, fed)
		return t.outcome(command, out, err)
	case <-ctx.Done():
	}
	// The number is on its way: a command that runs must not be lost sight of.
	select {
	case <-out.known:
		t.kill(ctx, out.Number())
	case <-over:
	case <-time.After(KillDelay):
	}
	s.Close()
	within(KillDelay, over)
	out.Drop()
	told.Drop()
	return context.Cause(ctx)
}

// feed copies stdin to a session. fed is closed when it has been read. It is not
// s.Stdin, for which the library would wait for ever.
func feed(s *ssh.Session, stdin io.Reader) (fed chan struct{}, err error) {
	fed = make(chan struct{})
	if stdin == nil {
		close(fed)
		return fed, nil
	}
	w, err := s.StdinPipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(fed)
		_, _ = io.Copy(w, stdin) // a command may end before it has read all
		w.Close()
	}()
	return fed, nil
}

func (t *sshTransport) outcome(command string, out *Output, err error) error {
	var exit *ssh.ExitError
	switch {
	case (err == nil || errors.As(err, &exit)) && !out.Begun():
		return out.didNot(exit)
	case err == nil:
		return nil
	case errors.As(err, &exit):
		failed := &CommandError{
			Host: t.host.String(), Command: command, ExitCode: exit.ExitStatus(), Signal: exit.Signal(),
		}
		if failed.Signal != "" {
			failed.ExitCode = -1
		}
		return failed
	}
	return provision.Fail(t.host, provision.ErrUnreachable, "the connection was lost while it ran: %w", err)
}

func within(limit time.Duration, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(limit):
	}
}

const killScript = `kill -s TERM -- -%[1]s; n=0
while [ $n -lt %[2]d ] && kill -s 0 -- -%[1]s; do sleep 0.1; n=$((n+1)); done
kill -s KILL -- -%[1]s; true`

// KillCommand ends a group of processes: it gets SIGTERM, and soon SIGKILL.
func KillCommand(group string) string {
	return fmt.Sprintf(killScript, group, KillDelay/(100*time.Millisecond))
}

// kill ends the process group of a command whose caller gave up. It takes a
// session of its own: for a login of root, sshd does not pass signals on.
func (t *sshTransport) kill(ctx context.Context, pid string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*KillDelay)
	defer cancel()
	_, s, err := t.openSession(ctx) // not counted: the command's own is still taken
	if err != nil {
		t.log.Debug("could not end a command", "pid", pid, "err", err)
		return
	}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	defer s.Close()
	if err := s.Run("exec sh -c " + plain.Quote(KillCommand(pid))); err != nil {
		t.log.Debug("could not end a command", "pid", pid, "err", err)
	}
}

// harmless are the bytes, beside letters and digits, that mean nothing to any shell
// between single quotes.
const harmless = " -_./=,:;|&<>()[]{}"

const processMark = "hcl-process "

// SayNumber is a shell's command that says the number of its process, for an [Output].
const SayNumber = `echo "` + processMark + `$$"`

// forAnyShell is a command for the login's shell, whichever that is, that runs a script with sh. The
// outer sh says its process number, which stays the same. The script goes in octal numbers but for
// what means nothing to any shell: csh takes no line ends in quotes, fish takes backslashes there.
func forAnyShell(script string) string {
	var octal strings.Builder
	for _, b := range []byte(script) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte(harmless, b) >= 0 {
			octal.WriteByte(b)
		} else {
			fmt.Fprintf(&octal, `\0%03o`, b)
		}
	}
	return `exec sh -c '` + SayNumber + `; exec sh -c "$(printf %b "$0")"' '` + octal.String() + `'`
}

// Output passes on what a command writes, until nobody wants it any more: of its standard output what comes after the line
// with its process number ([SayNumber]). Before that is the greeting of a login script, which is not meant.
type Output struct {
	mu       sync.Mutex
	w        io.Writer
	dropped  bool
	greeting []byte        // what was read until the number is known
	known    chan struct{} // closed then; nil: there is no such line
	number   string        // not to be read before
	notBegun func(error)   // called when it will not be
}

// NewOutput is for what goes to w. notBegun is told why it never says its number; nil: it has none to say.
func NewOutput(w io.Writer, notBegun func(error)) *Output {
	o := &Output{w: w, notBegun: notBegun}
	if notBegun != nil {
		o.known = make(chan struct{})
	}
	return o
}

// Known is closed when the number is known.
func (o *Output) Known() <-chan struct{} { return o.known }

// Number is the process's, once it is known.
func (o *Output) Number() string { return o.number }

// Drop returns when nothing more will be written.
func (o *Output) Drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped = true
}

const (
	noCommands = "the login does not run commands (a ForceCommand of sshd, or a shell such as nologin?): %s"
	notBegun   = "the login did not begin it within %s: is there a ForceCommand of sshd, " +
		"or does its shell wait for something, such as a file system?"
	endless = "the login prints without end instead of beginning it: is there a ForceCommand of sshd?"
)

// Begun reports whether the number is known.
func (o *Output) Begun() bool {
	select {
	case <-o.known:
		return true
	default:
		return o.known == nil
	}
}

func (o *Output) didNot(exit *ssh.ExitError) error {
	how := "it ended"
	if exit != nil {
		how = fmt.Sprintf("it exited with %d", exit.ExitStatus())
	}
	if said := LastLines(string(o.greeting), stderrTail); said != "" {
		how += " and said: " + said
	}
	return fmt.Errorf(noCommands, how)
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := p
	if !o.Begun() {
		if len(o.greeting)+len(p) > maxGreeting {
			o.notBegun(errors.New(endless))
			return len(p), nil
		}
		o.greeting = append(o.greeting, p...)
		_, marked, _ := bytes.Cut(o.greeting, []byte(processMark))
		number, after, whole := bytes.Cut(marked, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		o.number, rest = string(number), after
		close(o.known)
	}
	if !o.dropped && len(rest) > 0 {
		if _, err := o.w.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// CommandError is a command that ran on a host and did not exit with 0.
type CommandError struct {
	Host     string // as [provision.Host.String] says it
	Command  string
	ExitCode int // -1 when a signal ended it
	Signal   string
	Stderr   string // its last 64 KiB
}

// stderrTail is how many of the last lines of stderr a message holds, each of at most maxLine bytes.
const (
	stderrTail = 5
	maxLine    = 8 << 10 / stderrTail
)

// Error names the command and the last lines of its stderr.
func (e *CommandError) Error() string {
	how := fmt.Sprintf("exited with %d", e.ExitCode)
	if e.Signal != "" {
		how = "ended by signal " + e.Signal
	}
	text := fmt.Sprintf("%s: %s %s", e.Host, ShortCommand(e.Command), how)
	if tail := LastLines(e.Stderr, stderrTail); tail != "" {
		text += ": " + tail
	}
	return text
}

// ShortCommand is a command as messages name it.
func ShortCommand(command string) string {
	const most = 100
	line, rest, _ := strings.Cut(strings.TrimSpace(command), "\n")
	if r := []rune(line); len(r) > most {
		return fmt.Sprintf("`%s…`", string(r[:most]))
	}
	if rest != "" {
		return fmt.Sprintf("`%s …`", line)
	}
	return fmt.Sprintf("`%s`", line)
}

// LastLines returns the last n lines of what a host has said that are not empty, joined by " / ".
func LastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(plain.Text(s)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, plain.Cut(line, maxLine))
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], " / ")
}
