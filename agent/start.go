package agent

import (
	"cmp"
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

// Dir is where the agent of a lab works for one of its hosts: the [provision.LabelAgent] of what it makes, and the
// beginning of its processes' marks. Two host blocks may
// be the same machine, as in every rehearsal, and two machines may have one home. The
// name is short because a unix socket's path may have no more than 107 bytes.
func Dir(c *reach.Conn, lab string) string {
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
	return "sh -c " + plain.Quote(fmt.Sprintf(`for b in %s/*; do if [ "$(%s)" = %s ]; then exec "$b" "$@"; fi; done; echo no hcl there`,
		plain.Quote(path.Join(home, root, "bin")), runs(`"$b"`), itRuns)) + " sh"
}

// answerWithin bounds how long an agent takes to say that it is there.
const answerWithin = 20 * time.Second

// Attach returns the lab's agent on a host if one is at work there; nil if none.
func Attach(ctx context.Context, c *reach.Conn, lab string) (*Client, error) {
	a := newClient(c, path.Join(Dir(c, lab), "sock"))
	a.lab = lab
	there, err := a.there(ctx)
	if !there {
		a.Close()
		return nil, err
	}
	return a, nil
}

// answers reports whether the agent answers.
func answers(ctx context.Context, a *Client, c *reach.Conn) (bool, error) {
	soon, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("the agent does not answer within %s", answerWithin))
	defer cancel()
	_, err := a.Info(soon)
	if err == nil {
		return true, nil
	}
	if soon.Err() != nil {
		return false, errors.Join(context.Cause(soon), err)
	}
	// Nobody listens: no socket, or one that a killed agent has left. Telling these from a lost
	// connection is the connection's business: ask it for something simple.
	_, err = c.Run(ctx, "true", nil)
	return false, err
}

// Start brings the lab's agent up on a host for a caller that will claim it, of which it reads
// the lab, the store and the TTL: the binary is copied there when it is not yet, and an agent that
// is at work already is used. One of another version of hcl is ended first; when another store's
// caller holds its lease, that is a [*HeldError]. Should the agent die later, the client brings
// up another.
func Start(ctx context.Context, c *reach.Conn, all Binaries, claim Lease, log *slog.Logger) (*Client, error) {
	b, err := all.pick(ctx, c)
	if err != nil {
		return nil, err
	}
	if old, err := Attach(ctx, c, claim.Lab); err != nil {
		return nil, err
	} else if old != nil {
		err := old.giveWay(ctx, b.sha, claim.Store)
		old.Close()
		if err != nil {
			return nil, err
		}
	}
	a := newClient(c, path.Join(Dir(c, claim.Lab), "sock"))
	a.lab, a.store = claim.Lab, claim.Store
	a.binary = path.Join(c.Home(), root, "bin", b.sha)
	a.up = func(ctx context.Context) error { return up(ctx, c, a, b, claim, log) }
	if err := a.up(ctx); err != nil {
		a.Close()
		return nil, err
	}
	c.UseHCL(plain.Quote(a.binary))
	return a, nil
}

// giveWay ends an agent of another version of hcl, unless another store's caller is at work.
func (a *Client) giveWay(ctx context.Context, sha, store string) error {
	info, err := a.Info(ctx)
	if err != nil || info.Binary == sha {
		return err
	}
	if info.Lease != nil && info.Lease.Store != store {
		return &HeldError{Host: a.host, Lab: a.lab, Lease: *info.Lease}
	}
	a.store = store
	return a.Release(ctx, 0)
}

// Destroying is what is asked of a host on which a lab is to end for good.
type Destroying struct {
	By    string // who asks, for the caller whose lease it ends
	Store string // whose lease it may end
	// Force ends also the lease of another store's caller, and what carries the lab's name and is somebody else's; and it
	// forgets what could not be cleaned.
	Force  bool
	Docker string // see [docker.Daemon.Access]; empty: there is none, or none that is meant
	Cache  bool   // also clear what hcl keeps there
}

// Destroy ends whatever of the lab is on a host, whoever has left it there, by an agent that it brings up if none is at
// work. Where another store's caller is, that is a [*HeldError], unless forced.
func Destroy(ctx context.Context, c *reach.Conn, all Binaries, lab string, how Destroying, log *slog.Logger) (ended Ended, was *Lease, err error) {
	for range destroyTries {
		var now Ended
		now, was, err = destroy(ctx, c, all, lab, how, log)
		ended.Removed, ended.Others = append(ended.Removed, now.Removed...), append(ended.Others, now.Others...)
		ended.Memory = append(ended.Memory, now.Memory...)
		if err != nil || !now.Missed {
			return ended, was, err
		}
	}
	return ended, was, fmt.Errorf("%s: each agent that was asked has ended by itself: see agent.log in %s there", c.Host(), Dir(c, lab))
}

// destroyTries is how many agents are asked: the first may only end what one that was killed has left.
const destroyTries = 3

func destroy(ctx context.Context, c *reach.Conn, all Binaries, lab string, how Destroying, log *slog.Logger) (ended Ended, was *Lease, err error) {
	a, err := Attach(ctx, c, lab)
	if err != nil {
		return ended, nil, err
	}
	if a == nil {
		if a, err = Start(ctx, c, all, Lease{Lab: lab, Store: how.Store}, log); err != nil {
			return ended, nil, err
		}
	}
	defer a.Close()
	a.store = how.Store
	info, err := a.Info(ctx)
	if err != nil {
		if there, lost := a.there(ctx); !there && lost == nil {
			return Ended{Missed: true}, nil, nil
		}
		return ended, nil, err
	}
	if info.Lease != nil && info.Lease.Store != how.Store && !how.Force {
		return ended, info.Lease, &HeldError{Host: c.Host(), Lab: lab, Lease: *info.Lease}
	}
	ended, err = a.release(ctx, &ending{By: how.By, Docker: how.Docker, Force: how.Force, Lab: lab, Cache: how.Cache}, 0)
	return ended, info.Lease, err
}

// up starts an agent unless one answers.
func up(ctx context.Context, c *reach.Conn, a *Client, b binary, claim Lease, log *slog.Logger) error {
	if there, err := a.there(ctx); there || err != nil {
		return err
	}
	// An agent that a run brings up whose lease was ended would refuse it, and stay for nobody.
	if lease := a.held(); lease != nil {
		ended, err := readNote[map[string]string](ctx, c, path.Join(Dir(c, claim.Lab), endedName))
		if err != nil {
			return err
		}
		if ended != nil && (*ended)[lease.Run] != "" {
			return a.refused(&refusal{Ended: (*ended)[lease.Run]})
		}
	}
	remote, err := install(ctx, c, b, log)
	if err != nil {
		return err
	}
	stays := min(Unclaimed, cmp.Or(time.Duration(claim.TTL), Unclaimed))
	command := fmt.Sprintf("%s agent --detach --unclaimed %s --dir %s --cache %s",
		plain.Quote(remote), stays, plain.Quote(Dir(c, claim.Lab)), plain.Quote(path.Join(c.Home(), root)))
	for again := false; ; again = true {
		_, err = c.Run(ctx, command, nil)
		if err == nil {
			if _, err = a.Info(ctx); err == nil {
				return nil
			}
			if there, lost := a.there(ctx); !there && lost == nil && !again {
				continue // it has only ended what one that was killed has left
			}
		}
		return fmt.Errorf("start the agent on %s: %w", c.Host(), err)
	}
}
