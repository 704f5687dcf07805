package reach

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/testhost"
)

// TestUploadBrokenOff shows that nothing is left of a copy whose end does not come, be it that its
// source cannot be read whole, which is not the host's failure, or that its sender was killed.
func TestUploadBrokenOff(t *testing.T) {
	places(t, func(t *testing.T, c *Conn, home string) {
		unread := &fs.PathError{Op: "read", Path: "disk", Err: syscall.EIO}
		to := path.Join(c.Home(), "folder/file")
		for says, from := range map[string]*source{
			"read shrinks: it has changed while it was copied": newSource("shrinks", strings.NewReader("half"), 8),
			"read grows: it has changed while it was copied":   newSource("grows", strings.NewReader("twice"), 2),
			"read disk: input/output error": newSource("disk",
				io.MultiReader(strings.NewReader("half"), iotest.ErrReader(unread)), 8),
		} {
			if err := c.send(t.Context(), from, to, 0o600); !errors.As(err, new(*fs.PathError)) || err.Error() != says {
				t.Errorf("send = %v, want %s", err, says)
			}
		}
		for local, kind := range map[string]error{t.TempDir(): syscall.EISDIR, "/proc/self/mem": syscall.EIO} {
			err := c.Upload(t.Context(), local, to, 0o600)
			if testhost.WantError(t, err, kind, local); !errors.As(err, new(*fs.PathError)) {
				t.Errorf("Upload = %v, want a PathError", err)
			}
		}
		if left := mustRun(t, c, "ls -A ~/folder"); left != "" {
			t.Errorf("left are %s", left)
		}
	})
	t.Run("connection lost", func(t *testing.T) {
		h := testhost.New(t, testhost.Options{})
		c := connect(t, h)
		from, to := io.Pipe()
		defer to.Close()
		ended := make(chan error, 1)
		go func() { ended <- c.send(t.Context(), newSource("pipe", from, 8), "/root/folder/file", 0o600) }()
		go io.WriteString(to, "half")
		const until = "n=0; until %s; do n=$((n+1)); test $n -lt 1200 || exit 1; sleep 0.1; done"
		testhost.Do(t, h, strings.Replace(until, "%s", "ls /root/folder/.file.*", 1))
		h.Cut()
		testhost.Do(t, h, strings.Replace(until, "%s", "! ls /root/folder/.file.*", 1))
		testhost.WantError(t, <-ended, provision.ErrUnreachable)
	})
}

// TestUploadHangs: a copy that is ended while the disk does not take it removes what it has written
// before its parts end, which may be never.
func TestUploadHangs(t *testing.T) {
	dir := t.TempDir()
	said := newPipe(t, dir, "said")
	rm, err := exec.LookPath("rm")
	testhost.OK(t, err)
	for name, script := range map[string]string{
		"sync": "trap '' TERM; exec 4>" + said.path + "; echo hangs >&4; exec sleep 1000",
		"rm":   rm + ` "$@" && echo removed >` + said.path,
	} {
		testhost.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	part := filepath.Join(dir, "part")
	cmd := exec.Command("sh", "-c", "set -- "+Words([]string{dir, filepath.Join(dir, "file"), part, "600", "0"})+"\n"+uploadScript)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	testhost.OK(t, cmd.Start())
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	defer cmd.Wait()
	defer end()
	defer time.AfterFunc(2*time.Minute, end).Stop() // the pipe ends then
	said.expect(t, "hangs")
	testhost.OK(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM))
	said.expect(t, "removed")
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the part: %v", err)
	}
}

// running is a host that is spoken to by a function.
type running struct {
	Transport
	run func(ctx context.Context, stdin io.Reader) error
}

func (r running) Run(ctx context.Context, _ string, stdin io.Reader, _, _ io.Writer) error {
	return r.run(ctx, stdin)
}

// TestUploadStall: a session may be waited for, but what has begun must move. Why it did not is told.
func TestUploadStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send := func(run func(ctx context.Context, stdin io.Reader) error) error {
			c := &Conn{link: running{run: run}}
			return c.send(t.Context(), newSource("file", strings.NewReader("text"), 4), "/folder/file", 0o600)
		}
		testhost.OK(t, send(func(ctx context.Context, stdin io.Reader) error {
			time.Sleep(2 * uploadStall)
			_, err := io.Copy(io.Discard, stdin)
			return errors.Join(err, ctx.Err())
		}))
		err := send(func(ctx context.Context, stdin io.Reader) error {
			_, _ = io.Copy(io.Discard, stdin)
			<-ctx.Done()
			return provision.ErrUnreachable
		})
		testhost.WantError(t, err, errStalled, "nothing has moved for 2m0s")
		testhost.WantError(t, err, provision.ErrUnreachable)
	})
}

// TestRename: of callers that make the same, the first gives it its name, and nothing else is left.
func TestRename(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "it's whole")
	for _, by := range []string{"first", "second"} {
		part := filepath.Join(dir, by+".part")
		testhost.OK(t, os.MkdirAll(filepath.Join(part, by), 0o700))
		if said, err := exec.Command("sh", "-c", Rename(part, whole)).CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("%s: %s, %v", by, said, err)
		}
	}
	left, err := exec.Command("sh", "-c", "cd "+plain.Quote(dir)+" && find . -mindepth 1").Output()
	if want := "./it's whole\n./it's whole/first\n"; err != nil || string(left) != want {
		t.Errorf("left are %q, %v, want %q", left, err, want)
	}
	if err := exec.Command("sh", "-c", Rename(filepath.Join(dir, "none"), filepath.Join(dir, "never"))).Run(); err == nil {
		t.Error("nothing was renamed, without an error")
	}
}
