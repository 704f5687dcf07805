package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"hclbench/provision"
)

// Binary is the hcl binary that hosts are given.
type Binary struct {
	Path string
	SHA  string // SHA-256, hex: its name on the hosts
}

// ReadBinary identifies the binary at path.
func ReadBinary(path string) (Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return Binary{}, fmt.Errorf("read the hcl binary: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return Binary{}, fmt.Errorf("read the hcl binary: %w", err)
	}
	return Binary{Path: path, SHA: hex.EncodeToString(h.Sum(nil))}, nil
}

// root is the only directory that hcl writes to on a host, below its user's home.
const root = ".cache/hcl"

// dir is where the agent of a lab works for one of its hosts. Two host blocks may
// be the same machine, as in every rehearsal. The name is short because a unix
// socket's path may have no more than 107 bytes.
func dir(home, lab, host string) string {
	sum := sha256.Sum256([]byte(lab + "\x00" + host))
	return path.Join(home, root, "agents", hex.EncodeToString(sum[:4]))
}

// answerWithin bounds how long an agent takes to say that it is there.
const answerWithin = 20 * time.Second

// Attach returns the lab's agent on a host if one is at work there; nil if none.
func Attach(ctx context.Context, c *provision.Conn, lab string) (*Client, error) {
	a := newClient(c, path.Join(dir(c.Home(), lab, c.Host().Name), "sock"))
	there, err := a.there(ctx, c)
	if !there {
		a.Close()
		return nil, err
	}
	return a, nil
}

// there reports whether the agent answers.
func (a *Client) there(ctx context.Context, c *provision.Conn) (bool, error) {
	soon, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("the agent does not answer within %s", answerWithin))
	defer cancel()
	_, err := a.Info(soon)
	if err == nil {
		return true, nil
	}
	if soon.Err() != nil {
		return false, errors.Join(context.Cause(soon), err)
	}
	// Nobody listens: no socket, or one that a killed agent has left. Telling
	// these from a lost connection is the connection's business: ask it for
	// something simple.
	if _, err := c.Run(ctx, "true", nil); err != nil {
		return false, err
	}
	return false, nil
}

// Start brings the lab's agent up on a host for the store's caller: the binary is
// copied there when it is not yet, and an agent that is at work already is used.
// One of another version of hcl is ended first; when another store's caller holds
// its lease, that is a [*HeldError]. Should the agent die later, the client
// brings up another.
func Start(ctx context.Context, c *provision.Conn, b Binary, lab, store string, log *slog.Logger) (*Client, error) {
	if a, err := Attach(ctx, c, lab); err != nil {
		return nil, err
	} else if a != nil {
		info, err := a.Info(ctx)
		if err != nil {
			a.Close()
			return nil, err
		}
		if info.Binary != b.SHA {
			defer a.Close()
			if info.Lease != nil && info.Lease.Store != store {
				return nil, &HeldError{Host: c.Host(), Lab: lab, Lease: *info.Lease}
			}
			// What it runs is found by label later.
			if err := a.Release(ctx); err != nil {
				return nil, err
			}
		} else {
			a.Close()
		}
	}
	a := newClient(c, path.Join(dir(c.Home(), lab, c.Host().Name), "sock"))
	a.up = func(ctx context.Context) error { return up(ctx, c, a, b, lab, log) }
	if err := a.up(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// End ends the lab's agent on a host, whoever has its lease. What it runs itself is
// stopped.
func End(ctx context.Context, c *provision.Conn, lab string) error {
	a, err := Attach(ctx, c, lab)
	if err != nil || a == nil {
		return err
	}
	defer a.Close()
	return a.Release(ctx)
}

// up starts an agent unless one answers.
func up(ctx context.Context, c *provision.Conn, a *Client, b Binary, lab string, log *slog.Logger) error {
	if there, err := a.there(ctx, c); there || err != nil {
		return err
	}
	remote, err := Install(ctx, c, b, log)
	if err != nil {
		return err
	}
	command := fmt.Sprintf("%s agent --detach --dir %s", quote(remote), quote(dir(c.Home(), lab, c.Host().Name)))
	_, err = c.Run(ctx, command, nil)
	if err == nil {
		_, err = a.Info(ctx)
	}
	if err != nil {
		return fmt.Errorf("start the agent on %s: %w", c.Host(), err)
	}
	return nil
}

// Install copies the binary to a host, if it is not there yet, and returns its
// path there.
func Install(ctx context.Context, c *provision.Conn, b Binary, log *slog.Logger) (remote string, err error) {
	remote = path.Join(c.Home(), root, "bin", b.SHA)
	return remote, install(ctx, c, b, remote, log)
}

func install(ctx context.Context, c *provision.Conn, b Binary, remote string, log *slog.Logger) error {
	out, err := c.Run(ctx, fmt.Sprintf("uname -sm; if test -x %s; then echo there; fi", quote(remote)), nil)
	if err != nil {
		return err
	}
	platform, rest, _ := strings.Cut(out, "\n")
	if strings.TrimSpace(rest) == "there" {
		return nil
	}
	if want := uname(runtime.GOOS, runtime.GOARCH); platform != want {
		return fmt.Errorf("%s is %q, but this hcl is built for %q and runs a copy of itself there; use an hcl built for it", c.Host(), platform, want)
	}
	if _, err := c.Run(ctx, fmt.Sprintf("mkdir -p -m 700 %s", quote(path.Dir(remote))), nil); err != nil {
		return err
	}
	log.Info("copying hcl to the host", "host", c.Host().Name)
	return c.Upload(ctx, b.Path, remote, 0o700)
}

// uname is what "uname -sm" prints where a Go binary of this kind runs.
func uname(goos, goarch string) string {
	system := map[string]string{"linux": "Linux", "darwin": "Darwin"}[goos]
	machine := map[string]string{"linux/amd64": "x86_64", "linux/arm64": "aarch64", "darwin/amd64": "x86_64", "darwin/arm64": "arm64"}[goos+"/"+goarch]
	return system + " " + machine
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
