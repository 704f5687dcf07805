package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"time"

	"hclbench/provision"
)

// root is the only directory that hcl writes to on a host, below its user's home.
const root = ".cache/hcl"

// dir is where the agent of a lab works for one of its hosts. Two host blocks may
// be the same machine, as in every rehearsal. The name is short because a unix
// socket's path may have no more than 107 bytes.
func dir(home, lab, host string) string {
	sum := sha256.Sum256([]byte(lab + "\x00" + host))
	return path.Join(home, root, "agents", hex.EncodeToString(sum[:4]))
}

// anyHCL is the command that runs any hcl binary which is there; where an agent is,
// one is.
func anyHCL(home string) string {
	return "sh -c " + quote(fmt.Sprintf(`for b in %s/*; do if [ -x "$b" ]; then exec "$b" "$@"; fi; done; echo no hcl there`,
		quote(path.Join(home, root, "bin")))) + " sh"
}

// Mark is how the [provision.ProcessMark] of every process begins that an agent of
// the lab starts on this host.
func Mark(c *provision.Conn, lab string) string {
	return dir(c.Home(), lab, c.Host().Name) + "/"
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
func Start(ctx context.Context, c *provision.Conn, all Binaries, lab, store string, log *slog.Logger) (*Client, error) {
	b, err := all.pick(ctx, c)
	if err != nil {
		return nil, err
	}
	if a, err := Attach(ctx, c, lab); err != nil {
		return nil, err
	} else if a != nil {
		info, err := a.Info(ctx)
		if err != nil {
			a.Close()
			return nil, err
		}
		if info.Binary != b.sha {
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
	a.binary = path.Join(c.Home(), root, "bin", b.sha)
	a.up = func(ctx context.Context) error { return up(ctx, c, a, b, lab, log) }
	if err := a.up(ctx); err != nil {
		a.Close()
		return nil, err
	}
	c.UseHCL(quote(a.binary))
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
func up(ctx context.Context, c *provision.Conn, a *Client, b binary, lab string, log *slog.Logger) error {
	if there, err := a.there(ctx, c); there || err != nil {
		return err
	}
	remote, err := install(ctx, c, b, log)
	if err != nil {
		return err
	}
	command := fmt.Sprintf("%[1]s agent --detach --dir %[2]s --cache %[3]s",
		quote(remote), quote(dir(c.Home(), lab, c.Host().Name)), quote(path.Join(c.Home(), root)))
	_, err = c.Run(ctx, command, nil)
	if err == nil {
		_, err = a.Info(ctx)
	}
	if err != nil {
		return fmt.Errorf("start the agent on %s: %w", c.Host(), err)
	}
	return nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
