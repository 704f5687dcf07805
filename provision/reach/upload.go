package reach

import (
	"bufio"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"hclbench/plain"
	"hclbench/provision"
)

// uploadScript makes a file of its stdin, whole or not at all. A caller that is killed, or
// whose connection is lost, leaves nothing.
//
//go:embed upload.sh
var uploadScript string

var errStalled = fmt.Errorf("nothing has moved for %s: see the host's disk, and the connection to it", uploadStall)

// Upload copies the local file to the host, whole or not at all. A remote path that begins with
// "~/" is below [Conn.Home]; its folder is created when it is missing. A file that cannot be read
// here, or that changes meanwhile, is a [*fs.PathError].
func (c *Conn) Upload(ctx context.Context, local, remote string, mode fs.FileMode) error {
	if rest, ok := strings.CutPrefix(remote, "~/"); ok {
		remote = path.Join(c.home, rest)
	}
	if err := c.upload(ctx, local, remote, mode); err != nil {
		return provision.Wrap(c.host, fmt.Sprintf("upload %s to %s", local, remote), err)
	}
	return nil
}

func (c *Conn) upload(ctx context.Context, local, remote string, mode fs.FileMode) error {
	file, err := os.Open(local)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	from := bufio.NewReader(file)
	if info.Size() == 0 { // what cannot be read must not become an empty file
		if _, err := from.Peek(1); err != nil && err != io.EOF {
			return err
		}
	}
	return c.send(ctx, newSource(local, from, info.Size()), remote, mode)
}

func (c *Conn) send(ctx context.Context, from *source, remote string, mode fs.FileMode) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stalled := time.AfterFunc(uploadStall, func() { stop(errStalled) })
	stalled.Stop() // until the first Read: a session may be waited for
	defer stalled.Stop()
	from.moved = func() { stalled.Reset(uploadStall) }
	folder, name := path.Dir(remote), "."+path.Base(remote)+".hcl-"+rand.Text()
	command := "set -- " + Words([]string{
		folder, remote, path.Join(folder, name), fmt.Sprintf("%o", mode.Perm()), fmt.Sprint(from.size),
	}) + "\n" + uploadScript
	stderr := &tail{most: maxStderr}
	err := c.link.Run(ctx, command, from, io.Discard, stderr)
	if err == nil {
		return nil
	}
	if here := from.failure(); here != nil {
		return here
	}
	switch cause := context.Cause(ctx); {
	case cause == errStalled && !errors.Is(err, cause):
		return errors.Join(cause, err)
	case cause != nil:
		return cause
	}
	if said := LastLines(stderr.String(), stderrTail); said != "" && errors.As(err, new(*CommandError)) {
		return errors.New(said)
	}
	return err
}

// source is a file that is read. It says that it moves, and why it cannot be read whole.
type source struct {
	from  io.Reader // a byte more than the size at most, which is enough to tell
	path  string
	size  int64
	moved func()

	mu     sync.Mutex // a Read may outlive the command
	read   int64
	failed error
}

func newSource(path string, from io.Reader, size int64) *source {
	return &source{from: io.LimitReader(from, size+1), path: path, size: size}
}

func (s *source) Read(p []byte) (int, error) {
	s.moved()
	n, err := s.from.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read += int64(n)
	switch {
	case s.failed != nil:
	case err != nil && err != io.EOF:
		s.failed = err
	case s.read > s.size, err == io.EOF && s.read < s.size:
		s.failed = &fs.PathError{Op: "read", Path: s.path, Err: errors.New("it has changed while it was copied")}
	}
	return n, err
}

func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Rename is a command that gives the file or folder part the name whole, unless another caller
// was quicker: part is removed then.
func Rename(part, whole string) string {
	const script = "{ test -e %[2]s || mv -T %[1]s %[2]s || test -e %[2]s; } && { rm -rf %[1]s || true; }"
	return fmt.Sprintf(script, plain.Quote(part), plain.Quote(whole))
}
