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

func (t *sshTransport) run(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	err := t.runOnce(ctx, command, stdin, stdout, stderr)
	if _, ran := err.(*CommandError); ran || err == nil {
		return err
	}
	return provision.Wrap(t.host, "run "+shortCommand(command), err)
}

// runOnce runs a command in a session of its own.
func (t *sshTransport) runOnce(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	link, s, release, err := t.session(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, told := newProcessOutput(stdout, stop), &output{w: stderr}
	defer out.watch(t.starting)()
	s.Stdout, s.Stderr = out, told
	fed, err := feed(s, stdin)
	if err != nil {
		s.Close()
		release()
		return err
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
	case err := <-ended:
		within(killDelay, fed)
		return t.outcome(command, out, err)
	case <-ctx.Done():
	}
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

// outcome is how a command has ended.
func (t *sshTransport) outcome(command string, out *processOutput, err error) error {
	var exit *ssh.ExitError
	switch {
	case (err == nil || errors.As(err, &exit)) && !out.begun():
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

// within waits for done, but not longer than limit.
func within(limit time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// killScript ends a process group.
const killScript = `kill -s TERM -- -%[1]s; n=0
while [ $n -lt %[2]d ] && kill -s 0 -- -%[1]s; do sleep 0.1; n=$((n+1)); done
kill -s KILL -- -%[1]s; true`

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
	script := fmt.Sprintf(killScript, pid, killDelay/(100*time.Millisecond))
	if err := s.Run("exec sh -c " + plain.Quote(script)); err != nil {
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

// harmless are the bytes, beside letters and digits, that mean nothing to any shell
// between single quotes.
const harmless = " -_./=,:;|&<>()[]{}"

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
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte(harmless, b) >= 0 {
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

func newProcessOutput(w io.Writer, notBegun func(error)) *processOutput {
	return &processOutput{
		output: output{w: w}, known: make(chan struct{}), greeting: tail{most: maxStderr}, notBegun: notBegun,
	}
}

// What is wrong with a login that does not run commands.
const (
	noCommands = "the login does not run commands (a ForceCommand of sshd, or a shell such as nologin?): %s"
	notBegun   = "the login did not begin it within %s: is there a ForceCommand of sshd, " +
		"or does its shell wait for something, such as a file system?"
	endless = "the login prints without end instead of beginning it: is there a ForceCommand of sshd?"
)

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
	return fmt.Errorf(noCommands, how)
}

// watch waits for the number. The caller calls done when the command has ended.
func (o *processOutput) watch(within time.Duration) (done func()) {
	timer := time.AfterFunc(within, func() {
		if !o.begun() {
			o.notBegun(fmt.Errorf(notBegun, within))
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
			o.notBegun(errors.New(endless))
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
