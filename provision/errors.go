package provision

import (
	"errors"
	"fmt"

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
	ErrNoRoom         = errors.New("no room in the cluster") // no node for a pod, or a quota is used up
	ErrPodLost        = errors.New("pod lost")               // evicted, deleted by somebody, or its node is gone
	ErrNoBegin        = errors.New("container cannot begin") // of a pod: its image, or what is to be mounted
	ErrUnclean        = errors.New("not all is gone")        // something of ours is left, or what was deleted stays
	ErrSettings       = errors.New("settings not put back")  // of a machine, that a run had changed
	ErrForbidden      = errors.New("not allowed")            // the cluster lets us in, but not do that

	// ErrDockerAway is the ErrNoDocker of a host that has a daemon which does not run or
	// answer at the moment: there may be containers of ours.
	ErrDockerAway = fmt.Errorf("daemon away: %w", ErrNoDocker)
)

// NotLetIn reports whether a host does not let us in, or is not the one that is known: to ask again changes nothing.
func NotLetIn(err error) bool {
	return errors.Is(err, ErrAuth) || errors.Is(err, ErrHostKey) || errors.Is(err, ErrHostKeyUnknown)
}

// OutOfReach reports whether a host could not be asked at all: nothing is known of what is there.
func OutOfReach(err error) bool { return errors.Is(err, ErrUnreachable) || NotLetIn(err) }

// kinds are those of them that tell a caller what to do about what a program elsewhere has tried for it; what is
// more special comes first.
var kinds = []error{ErrUnclean, ErrDockerAway, ErrNoGPURuntime, ErrNoDocker, ErrImageNotFound, ErrPortTaken, ErrNameTaken, ErrNoContainer,
	ErrSettings}

// Kind is the name of an error's kind, for [Told] at the other end of a connection; empty: it has none.
func Kind(err error) string {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return ""
}

// Told is an error that another program has told of a host, which its text names, with its [Kind].
func Told(kind, text string) error {
	for _, k := range kinds {
		if k.Error() == kind {
			return &relayed{k, printable(text)}
		}
	}
	return errors.New(printable(text))
}

type relayed struct {
	kind error
	text string
}

func (t *relayed) Error() string { return t.text }
func (t *relayed) Unwrap() error { return t.kind }

// failure is an error with a kind, one of the sentinels above, and words of its
// own: what happened and what to do. The sentinel's words are not repeated.
type failure struct {
	kind error
	host *Host
	what error
}

// Fail makes a failure about a host; a %w in format stays visible to errors.Is.
func Fail(h *Host, kind error, format string, args ...any) error {
	return &failure{kind: kind, host: h, what: fmt.Errorf(format, args...)}
}

func (f *failure) Error() string { return f.host.String() + ": " + printable(f.what.Error()) }

func (f *failure) Unwrap() []error { return []error{f.kind, f.what} }

// Wrap says what was tried and where, unless err says where itself.
func Wrap(h *Host, doing string, err error) error {
	if !errors.As(err, new(*failure)) {
		doing = h.String() + ": " + doing
	}
	return &worded{doing, err}
}

type worded struct {
	doing string
	err   error
}

func (w *worded) Error() string { return w.doing + ": " + printable(w.err.Error()) }

func (w *worded) Unwrap() error { return w.err }

// maxWords is how much of an error is passed on: hosts and daemons put words of their own into it.
const maxWords = 8 << 10

func printable(words string) string { return plain.Cut(plain.Text(words), maxWords) }
