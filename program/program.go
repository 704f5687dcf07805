// Package program runs programs of the user's on this machine: for so long, with so much to say, in a process group of their own that is
// ended with them, and with none of the variables of hcl but those that say where things are. What a program is for, it does not know.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"hclbench/plain"
)

// Call is one run of a program.
type Call struct {
	Words  []string
	Dir    string        // empty: hcl's own
	Pass   []string      // names of variables of hcl that it gets beside those that say where things are
	Env    []string      // "NAME=value", beside these
	In     []byte        // its standard input
	Within time.Duration // how long it may take
	Grace  time.Duration // how long it may take to end by itself when it is cut off: its group gets SIGINT, as by Ctrl-C; 0: it is killed at once
	Most   int           // bytes that it may print; of what it complains of, the first [complaint] are kept
}

// Said is what came of it.
type Said struct {
	Out  string
	Err  string // its standard error: the beginning of it, with "…" after it where that is not all
	Left bool   // it has ended, and left processes in its group, which are ended now
}

// complaint is how much of a standard error is kept, in bytes.
const complaint = 64 << 10

// where are the variables that say where things are. Others may be secrets of somebody else.
var where = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV"}

// ErrCutOff says that a program was ended before its end: it took too long, said too much, or ctx ended.
var ErrCutOff = errors.New("cut off")

type cutOff struct{ error }

func (c *cutOff) Unwrap() []error { return []error{ErrCutOff, c.error} }

// Run runs it to its end. What it said is there also where it exits with an error, and not where it was [ErrCutOff].
func (c Call) Run(ctx context.Context) (said Said, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Within, fmt.Errorf("it has not ended within %s", c.Within))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	out := &bounded{most: c.Most, full: func() { end(fmt.Errorf("it prints more than %s", plain.Bytes(int64(c.Most)))) }}
	words := &bounded{most: complaint + 1, full: func() {}}
	cmd := exec.Command(c.Words[0], c.Words[1:]...)
	cmd.Dir, cmd.Env = c.Dir, []string{} // nil would be hcl's own
	for _, name := range slices.Concat(where, c.Pass) {
		if value, is := os.LookupEnv(name); is {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.In), out, words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 2 * time.Second // somebody else may hold its output open
	if err = ctx.Err(); err == nil {
		err = cmd.Start()
	}
	if err == nil {
		ended := make(chan struct{})
		var ending sync.WaitGroup
		ending.Go(func() { c.end(ctx, cmd.Process, ended) })
		err = cmd.Wait()
		close(ended)
		ending.Wait()
		said.Left = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == nil
	}
	said.Err = strings.TrimSpace(plain.Cut(words.kept.String(), complaint)) // "…" tells who hides secrets that the last may be cut
	if ctx.Err() != nil {
		return Said{Err: said.Err}, &cutOff{context.Cause(ctx)}
	}
	if errors.Is(err, exec.ErrWaitDelay) { // who holds its output is ended
		said.Left, err = true, nil
	}
	said.Out = out.kept.String()
	return said, err
}

// end ends a program and its group when ctx ends, unless it has ended before.
func (c Call) end(ctx context.Context, first *os.Process, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	if c.Grace > 0 {
		syscall.Kill(-first.Pid, syscall.SIGINT)
		select {
		case <-ended:
			return
		case <-time.After(c.Grace):
		}
	}
	syscall.Kill(-first.Pid, syscall.SIGKILL)
	first.Kill() // which may have gone to another group
}

// bounded keeps the first of what is written to it, and says when there is more.
type bounded struct {
	kept bytes.Buffer // not embedded: its ReadFrom knows no bound
	most int
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.most-b.kept.Len())
	b.kept.Write(p[:n])
	if n < len(p) {
		b.full()
	}
	return len(p), nil
}
