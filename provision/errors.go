package provision

import (
	"errors"
	"fmt"
	"strings"

	"hclbench/plain"
)

// What went wrong, where callers act differently on it. Compare with
// [errors.Is]; the error's own text says what to do about it.
var (
	ErrUnreachable    = errors.New("host unreachable")              // nothing answers, or the connection was lost
	ErrAuth           = errors.New("not let in")                    // the host refused every key
	ErrHostKey        = errors.New("host key is not the one known") // never retried, never overridden
	ErrHostKeyUnknown = errors.New("host key not known")
	ErrNoDocker       = errors.New("docker not usable")
	ErrImageNotFound  = errors.New("image not found")
	ErrPortTaken      = errors.New("port taken")
	ErrNoContainer    = errors.New("no such container") // never was, or not any more
	ErrNameTaken      = errors.New("container name taken")
	ErrNoGPURuntime   = errors.New("docker cannot hand out GPUs")
)

// failure is an error with a kind, one of the sentinels above, and words of its
// own: what happened and what to do. The sentinel's words are not repeated.
type failure struct {
	kind error
	host *Host
	what error
}

// fail makes a failure about a host; a %w in format stays visible to errors.Is.
func fail(h *Host, kind error, format string, args ...any) error {
	return &failure{kind: kind, host: h, what: fmt.Errorf(format, args...)}
}

func (f *failure) Error() string { return f.host.String() + ": " + printable(f.what.Error()) }

func (f *failure) Unwrap() []error { return []error{f.kind, f.what} }

// wrap says what was tried and where, unless err says where itself.
func wrap(h *Host, doing string, err error) error {
	var told *failure
	if !errors.As(err, &told) {
		doing = h.String() + ": " + doing
	}
	return &worded{doing, err}
}

// worded is an error with what was tried before it.
type worded struct {
	doing string
	err   error
}

func (w *worded) Error() string { return w.doing + ": " + printable(w.err.Error()) }

func (w *worded) Unwrap() error { return w.err }

// maxWords is how much of what an error says is passed on: hosts and daemons put words
// of their own into it.
const maxWords = 8 << 10

// printable is the door for what hosts, their tools and daemons say in errors.
func printable(words string) string { return plain.Cut(plain.Text(words), maxWords) }

// CommandError is a command that ran on a host and did not exit with 0.
type CommandError struct {
	Host     string // as [Host.String] says it
	Command  string
	ExitCode int // -1 when a signal ended it
	Signal   string
	Stderr   string // its last 64 KiB
}

// stderrTail is how many of the last lines of stderr a message holds.
const stderrTail = 5

// Error names the command and the last lines of its stderr.
func (e *CommandError) Error() string {
	how := fmt.Sprintf("exited with %d", e.ExitCode)
	if e.Signal != "" {
		how = "ended by signal " + e.Signal
	}
	text := fmt.Sprintf("%s: %s %s", e.Host, shortCommand(e.Command), how)
	if tail := lastLines(e.Stderr, stderrTail); tail != "" {
		text += ": " + tail
	}
	return text
}

// shortCommand is a command as a message shows it: its first line, not too long.
func shortCommand(command string) string {
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

// lastLines returns the last n lines of what a host has said that are not empty,
// joined by " / ".
func lastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(plain.Text(s)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, plain.Cut(line, maxWords/stderrTail))
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], " / ")
}
