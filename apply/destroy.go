package apply

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// Scope says what of a lab is looked for, and where: on each host the agent's
// processes and Docker's containers, since a lab that runs none there today may have
// run some yesterday.
type Scope struct {
	Lab   string
	Hosts []*provision.Host
	// Docker reports whether the lab runs containers on a host, where it is an error
	// that they cannot be looked for.
	Docker func(*provision.Host) bool
}

// looksAtDocker reports whether containers of the lab are looked for on the host. unseen
// says why they cannot be although there is a Docker, of which the lab of today has no
// need; a host whose block says that engines run as processes is not doubted.
func (s Scope) looksAtDocker(ctx context.Context, h *provision.Host, d *docker.Daemon) (look bool, unseen error) {
	if s.Docker(h) {
		return true, nil
	}
	_, err := d.Version(ctx)
	if errors.Is(err, provision.ErrDockerAway) && h.Runtime != provision.Process {
		unseen = fmt.Errorf("containers of the lab, if there are any, cannot be seen: %w", err)
	}
	return err == nil, unseen
}

func hasDocker(ctx context.Context, d *docker.Daemon) bool {
	_, err := d.Version(ctx)
	return err == nil
}

// ScopeOf is where the lab's engines may have left something.
func ScopeOf(lab string, hosts []*provision.Host, all []*engines.Engine) Scope {
	uses := map[*provision.Host]bool{}
	for _, e := range all {
		if engines.Runtime(e) == provision.Docker {
			uses[e.Host] = true
		}
	}
	return Scope{Lab: lab, Hosts: hosts, Docker: func(h *provision.Host) bool { return uses[h] }}
}

// Presence is what of a lab is on one host.
type Presence struct {
	Host       *provision.Host
	Err        error              // why it could not be asked, or not of everything
	Unseen     error              // why containers cannot be seen that an earlier text of the lab may have had; nil: they are
	Lease      *agent.Lease       // nil: nobody is at work
	Reserved   *agent.Lease       // of the machine, for another lab; nil: for none
	Unclean    *agent.Unclean     // what a tear-down has left; nil: nothing
	Changed    []provision.Change // settings that are to be put back
	Containers []provision.Found
	Processes  []provision.Found
}

// Status looks at every host, side by side. Hosts that cannot be asked are in
// the error; the others are in the answer all the same.
func Status(ctx context.Context, scope Scope, opt Options) ([]Presence, error) {
	return visit(ctx, scope, opt, func(ctx context.Context, c *reach.Conn, h *provision.Host) (Presence, error) {
		p := Presence{Host: h}
		a, err := agent.Attach(ctx, c, scope.Lab)
		if err != nil {
			return p, err
		}
		if a != nil {
			defer a.Close()
			info, err := a.Info(ctx)
			if err != nil {
				return p, err
			}
			p.Lease = info.Lease
			if p.Processes, err = (agent.Processes{Client: a}).List(ctx, map[string]string{plan.LabelLab: scope.Lab}); err != nil {
				return p, err
			}
		}
		if p.Unclean, err = agent.ReadUnclean(ctx, c); err != nil {
			return p, err
		}
		if p.Changed, err = agent.ReadPrepared(ctx, c); err != nil {
			return p, err
		}
		if p.Reserved, err = agent.ReadReservation(ctx, c); err != nil {
			return p, err
		}
		if p.Reserved != nil && p.Reserved.Lab == scope.Lab {
			p.Reserved = nil // that is the lease, or was
		}
		d := docker.New(c, nil)
		var seen bool
		if seen, p.Unseen = scope.looksAtDocker(ctx, h, d); seen {
			p.Containers, err = d.List(ctx, map[string]string{plan.LabelLab: scope.Lab})
		}
		return p, err
	})
}

// Destroy removes everything of the lab from its hosts, found by label, whoever
// left it there, ends the lab's agents, and proves that nothing is left: also of
// what an earlier tear-down could not. It refuses where another store's caller
// holds the lease, unless force is set, which also forgets what is left. With
// cache it removes what hcl keeps on the hosts as well. It returns what it removed.
func Destroy(ctx context.Context, scope Scope, storeID string, force, cache bool, opt Options) ([]Presence, error) {
	tell, told := tellEach(ctx, opt.Events)
	defer told()
	return visit(ctx, scope, opt, func(ctx context.Context, c *reach.Conn, h *provision.Host) (Presence, error) {
		p := Presence{Host: h}
		info, err := dismiss(ctx, c, scope.Lab, storeID, force, opt.Holder)
		if err != nil {
			return p, err
		}
		a, err := agent.Start(ctx, c, opt.Binaries, scope.Lab, storeID, opt.Log)
		if err != nil {
			return p, err
		}
		defer a.Close()
		var traces provision.Traces
		if l := info.Lease; l != nil {
			traces = l.Traces
		}
		if p.Unclean, err = agent.ReadUnclean(ctx, c); err != nil {
			return p, err
		}
		if p.Unclean != nil && force {
			if err := agent.ForgetUnclean(ctx, c); err != nil {
				return p, err
			}
			p.Unclean = nil
		} else if p.Unclean != nil {
			traces = together(p.Unclean.Traces, traces)
		}
		gone := func(f provision.Found) {
			traces.Containers = append(traces.Containers, f.ID)
			tell(Event{Time: time.Now(), Type: Step, Host: h.Name, Message: plain.Line("removing " + f.Name)})
		}
		p.Processes, err = sweep(ctx, agent.Processes{Client: a}, scope.Lab, gone)
		d := docker.New(c, nil)
		seen, unseen := scope.looksAtDocker(ctx, h, d)
		if p.Unseen = unseen; unseen != nil {
			tell(Event{Time: time.Now(), Type: Warning, Host: h.Name, Message: plain.Line(unseen.Error())})
		}
		if seen {
			var e error
			p.Containers, e = sweep(ctx, d, scope.Lab, gone)
			err = errors.Join(err, e)
		}
		traces.Mark = a.Mark()
		if err == nil {
			_, err = look.ProveGone(ctx, c, traces, cmp.Or(opt.Release, provision.ReleaseWait))
			switch {
			case err != nil && !force:
				l := agent.Lease{Lab: scope.Lab, Holder: opt.Holder}
				if info.Lease != nil {
					l = *info.Lease
				}
				err = errors.Join(err, agent.MarkUnclean(ctx, c, l, traces, err))
			case err == nil && p.Unclean != nil:
				err = agent.ForgetUnclean(ctx, c)
			}
		}
		if cache && err == nil {
			err = a.Clear(ctx)
		}
		return p, errors.Join(err, a.Release(ctx))
	})
}

// dismiss looks who has the lab's lease on a host. Where that is another store's caller,
// force ends it, and with it that caller's run.
func dismiss(ctx context.Context, c *reach.Conn, lab, storeID string, force bool, by string) (info agent.Info, err error) {
	a, err := agent.Attach(ctx, c, lab)
	if err != nil || a == nil {
		return info, err
	}
	defer a.Close()
	info, err = a.Info(ctx)
	if err != nil || info.Lease == nil || info.Lease.Store == storeID {
		return info, err
	}
	if !force {
		return info, &agent.HeldError{Host: c.Host(), Lab: lab, Lease: *info.Lease}
	}
	return info, agent.End(ctx, c, lab, cmp.Or(by, "hcl destroy --force"))
}

// together are the traces of two runs; how the GPUs were before is known from the
// older of them.
func together(older, newer provision.Traces) provision.Traces {
	older.Containers = slices.Concat(older.Containers, newer.Containers)
	older.Ports = slices.Concat(older.Ports, newer.Ports)
	older.Mark = cmp.Or(older.Mark, newer.Mark)
	if len(older.Before.Memory) == 0 {
		older.Before = newer.Before
	}
	return older
}

// visit does the same on every host, side by side.
func visit(ctx context.Context, scope Scope, opt Options, do func(context.Context, *reach.Conn, *provision.Host) (Presence, error)) ([]Presence, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	out := make([]Presence, len(scope.Hosts))
	errs := make([]error, len(scope.Hosts))
	var wg sync.WaitGroup
	for i, h := range scope.Hosts {
		wg.Go(func() {
			out[i].Host = h
			c, err := reach.Dial(ctx, h, opt.SSH, opt.Log)
			if err == nil {
				defer c.Close()
				out[i], err = do(ctx, c, h)
			}
			out[i].Err, errs[i] = err, err
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// Logs passes an engine's log, from its container or process, on as it comes, without
// its secrets and what is not fit for a terminal. It is an error that it breaks off.
func Logs(ctx context.Context, scope Scope, e *engines.Engine, follow bool, tail int, opt Options, write func([]byte) error) error {
	one := scope
	one.Hosts = []*provision.Host{e.Host}
	_, err := visit(ctx, one, opt, func(ctx context.Context, c *reach.Conn, h *provision.Host) (Presence, error) {
		var rt runtime = docker.New(c, nil)
		if engines.Runtime(e) == provision.Process {
			a, err := agent.Attach(ctx, c, scope.Lab)
			if err != nil {
				return Presence{}, err
			}
			if a == nil {
				return Presence{}, fmt.Errorf("nothing of lab %s runs on %s", scope.Lab, h)
			}
			defer a.Close()
			rt = agent.Processes{Client: a}
		}
		found, err := rt.List(ctx, map[string]string{plan.LabelLab: scope.Lab, plan.LabelEngine: e.Label()})
		if err != nil {
			return Presence{}, err
		}
		if len(found) == 0 {
			return Presence{}, fmt.Errorf("%s does not run on %s", e, h)
		}
		logs, err := rt.Logs(ctx, found[0].ID, follow, tail)
		if err != nil {
			return Presence{}, err
		}
		defer logs.Close()
		stop := context.AfterFunc(ctx, func() { logs.Close() })
		defer stop()
		err = passOn(logs, write, plain.NewSecrets(append(engines.Secrets(e), opt.Hub.Token)...))
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Presence{}, err
	})
	return err
}

// longestLine is how much of a log is taken for one line, and longestSecret, how long a
// secret may be in one that is longer; in bytes.
const (
	longestLine   = 256 << 10
	longestSecret = 32 << 10
)

// passOn writes a log to its end, line by line.
func passOn(log io.Reader, write func([]byte) error, secrets plain.Secrets) error {
	rest := "" // of a line that is longer: the beginning of a secret may be at its end
	for r := bufio.NewReaderSize(log, longestLine); ; {
		line, err := r.ReadSlice('\n')
		text := secrets.Text(rest + string(line))
		rest = ""
		if err == bufio.ErrBufferFull {
			cut := max(0, len(text)-longestSecret)
			text, rest = text[:cut], text[cut:]
		}
		if text != "" {
			if err := write([]byte(text)); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && err != bufio.ErrBufferFull:
			return fmt.Errorf("the log breaks off: %w", err)
		}
	}
}
