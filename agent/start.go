package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"hclbench/plain"
	"hclbench/provision/reach"
)

// root is the only directory that hcl writes to on a host, below its user's home.
const root = ".cache/hcl"

// dir is where the agent of a lab works for one of its hosts. Two host blocks may
// be the same machine, as in every rehearsal, and two machines may have one home. The
// name is short because a unix socket's path may have no more than 107 bytes.
func dir(c *reach.Conn, lab string) string {
	sum := sha256.Sum256([]byte(lab + "\x00" + c.Host().Name + "\x00" + c.Machine()))
	return path.Join(c.Home(), root, "agents", hex.EncodeToString(sum[:4]))
}

// noteOf is a file with what hcl has to remember of this machine, and of no other that
// has the same home.
func noteOf(c *reach.Conn, name string) string {
	return path.Join(c.Home(), root, name+"-"+c.Machine()+".json")
}

// anyHCL is the command that runs any hcl binary which is there; where an agent is,
// one is. Machines of other kinds may have put theirs into the same home.
func anyHCL(home string) string {
	return "sh -c " + plain.Quote(fmt.Sprintf(`for b in %s/*; do if [ -x "$b" ] && "$b" --version </dev/null >/dev/null 2>&1; then exec "$b" "$@"; fi; done; echo no hcl there`,
		plain.Quote(path.Join(home, root, "bin")))) + " sh"
}

// Mark is how the [provision.ProcessMark] of every process begins that an agent of
// the lab starts on this host.
func Mark(c *reach.Conn, lab string) string {
	return dir(c, lab) + "/"
}

// answerWithin bounds how long an agent takes to say that it is there.
const answerWithin = 20 * time.Second

// Attach returns the lab's agent on a host if one is at work there; nil if none.
func Attach(ctx context.Context, c *reach.Conn, lab string) (*Client, error) {
	a := newClient(c, path.Join(dir(c, lab), "sock"))
	a.lab = lab
	there, err := a.there(ctx, c)
	if !there {
		a.Close()
		return nil, err
	}
	return a, nil
}

// there reports whether the agent answers.
func (a *Client) there(ctx context.Context, c *reach.Conn) (bool, error) {
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
	_, err = c.Run(ctx, "true", nil)
	return false, err
}

// Start brings the lab's agent up on a host for the store's caller: the binary is
// copied there when it is not yet, and an agent that is at work already is used.
// One of another version of hcl is ended first; when another store's caller holds
// its lease, that is a [*HeldError]. Should the agent die later, the client
// brings up another.
func Start(ctx context.Context, c *reach.Conn, all Binaries, lab, store string, log *slog.Logger) (*Client, error) {
	b, err := all.pick(ctx, c)
	if err != nil {
		return nil, err
	}
	if old, err := Attach(ctx, c, lab); err != nil {
		return nil, err
	} else if old != nil {
		err := old.giveWay(ctx, b.sha, store)
		old.Close()
		if err != nil {
			return nil, err
		}
	}
	a := newClient(c, path.Join(dir(c, lab), "sock"))
	a.lab, a.store = lab, store
	a.binary = path.Join(c.Home(), root, "bin", b.sha)
	a.up = func(ctx context.Context) error { return up(ctx, c, a, b, lab, log) }
	if err := a.up(ctx); err != nil {
		a.Close()
		return nil, err
	}
	c.UseHCL(plain.Quote(a.binary))
	return a, nil
}

// giveWay ends an agent of another version of hcl, unless another store's caller is at
// work.
func (a *Client) giveWay(ctx context.Context, sha, store string) error {
	info, err := a.Info(ctx)
	if err != nil || info.Binary == sha {
		return err
	}
	if info.Lease != nil && info.Lease.Store != store {
		return &HeldError{Host: a.host, Lab: a.lab, Lease: *info.Lease}
	}
	a.store = store
	return a.Release(ctx) // what it runs is found by label later
}

// End ends the lab's agent on a host, whoever has its lease, and with it that run: its
// caller is told of by, for people, as soon as it comes again. What the agent runs itself
// is stopped.
func End(ctx context.Context, c *reach.Conn, lab, by string) error {
	a, err := Attach(ctx, c, lab)
	if err != nil || a == nil {
		return err
	}
	defer a.Close()
	return a.release(ctx, by)
}

// up starts an agent unless one answers.
func up(ctx context.Context, c *reach.Conn, a *Client, b binary, lab string, log *slog.Logger) error {
	if there, err := a.there(ctx, c); there || err != nil {
		return err
	}
	remote, err := install(ctx, c, b, log)
	if err != nil {
		return err
	}
	command := fmt.Sprintf("%[1]s agent --detach --dir %[2]s --cache %[3]s",
		plain.Quote(remote), plain.Quote(dir(c, lab)), plain.Quote(path.Join(c.Home(), root)))
	_, err = c.Run(ctx, command, nil)
	if err == nil {
		_, err = a.Info(ctx)
	}
	if err != nil {
		return fmt.Errorf("start the agent on %s: %w", c.Host(), err)
	}
	return nil
}
