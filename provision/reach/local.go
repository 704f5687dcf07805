package reach

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"syscall"
	"time"

	"hclbench/provision"
)

// KillDelay is what a command whose caller gave up has between SIGTERM and SIGKILL.
const KillDelay = 3 * time.Second

type localTransport struct{ host *provision.Host }

func (t *localTransport) Run(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The whole group, or a child of sh would live on and hold the pipes.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = KillDelay
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended well; only its input or a child in the background did not
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually nobody is left to hear it
		}
		return provision.Wrap(t.host, "run "+ShortCommand(command), cause)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		failed := &CommandError{Host: t.host.String(), Command: command, ExitCode: exit.ExitCode()}
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			failed.Signal = status.Signal().String()
		}
		return failed
	}
	if err != nil {
		return provision.Wrap(t.host, "run "+ShortCommand(command), err)
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

func (t *localTransport) Close() error { return nil }
