package reach

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"hclbench/provision"
)

// killDelay is what a command whose caller gave up has between SIGTERM and SIGKILL.
const killDelay = 3 * time.Second

type localTransport struct{ host *provision.Host }

func (t *localTransport) Run(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The whole group, or a child of sh would live on and hold the pipes.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended well; only its input or a child in the background did not
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually nobody is left to hear it
		}
		return provision.Wrap(t.host, "run "+shortCommand(command), cause)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		failed := &CommandError{Host: t.host.String(), Command: command, ExitCode: exit.ExitCode()}
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			failed.Signal = status.Signal().String()
		}
		return failed
	}
	if err != nil {
		return provision.Wrap(t.host, "run "+shortCommand(command), err)
	}
	return nil
}

func (t *localTransport) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, provision.Wrap(t.host, "dial "+addr, err)
	}
	return conn, nil
}

func (t *localTransport) Listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

func (t *localTransport) Upload(ctx context.Context, local, remote string, mode fs.FileMode) error {
	from, err := os.Open(local)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.MkdirAll(filepath.Dir(remote), 0o755); err != nil {
		return err
	}
	to, err := renameio.NewPendingFile(remote, renameio.WithTempDir(filepath.Dir(remote)))
	if err != nil {
		return err
	}
	defer to.Cleanup()
	if _, err := io.Copy(to, &ctxReader{ctx, from}); err != nil {
		return err
	}
	if err := to.Chmod(mode); err != nil {
		return err
	}
	return to.CloseAtomicallyReplace()
}

func (t *localTransport) Close() error { return nil }

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *ctxReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
