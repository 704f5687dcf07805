package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/kube"
	"hclbench/provision/reach"
)

// runtime is how engines run on a host, in containers or as processes, by the hands of the agent there.
type runtime interface {
	looking
	Start(ctx context.Context, ct provision.Container) (id string, err error)
	Stop(ctx context.Context, name string, grace time.Duration) (others []provision.GPUProcess, err error)
}

// looking is how containers or processes are looked at, which takes no agent.
type looking interface {
	State(ctx context.Context, id string) (provision.State, error)
	Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error)
	List(ctx context.Context, labels map[string]string) ([]provision.Found, error)
	ReadFile(ctx context.Context, id, path string) (text []byte, written time.Time, err error)
}

// reached is a host that we have a connection to, and Docker there, if it has one.
type reached struct {
	conn   *reach.Conn
	docker *docker.Daemon
}

func dial(ctx context.Context, h *provision.Host, opt Options) (reached, error) {
	c, err := reach.Dial(ctx, h, opt.SSH, opt.Log)
	if err != nil {
		return reached{}, err
	}
	return reached{c, docker.New(c, opt.Images)}, nil
}

func ofLab(lab string) map[string]string { return map[string]string{provision.LabelLab: lab} }

// visit does the same on every host and in every cluster, side by side. What it finds, and why it could not
// look, is in the order of the hosts.
func visit[T any](ctx context.Context, hosts []*provision.Host, opt Options, do func(context.Context, reached) (T, error),
	inCluster func(context.Context, *provision.Host, *kube.Client) (T, error)) (found []T, errs []error) {
	found, errs = make([]T, len(hosts)), make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() {
			if h.Cluster != nil {
				client, err := kube.Open(ctx, h.Cluster, func(what string) { opt.Log.Warn(what, "cluster", h.Cluster.Name) })
				if err == nil {
					defer client.Close()
					found[i], err = inCluster(ctx, h, client)
				}
				errs[i] = err
				return
			}
			c, err := dial(ctx, h, opt)
			if err == nil {
				defer c.conn.Close()
				found[i], err = do(ctx, c)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return found, errs
}

// Scope says what of a lab is looked for, and where: on each host the agent's
// processes and Docker's containers, since a lab that runs none there today may have
// run some yesterday. Where one of its engines is a container today, it is an error that
// they cannot be looked for.
type Scope struct {
	Lab     string
	Lease   time.Duration // see [agent.Lease]; only who takes hosts needs it
	Hosts   []*provision.Host
	Engines []*engines.Engine
}

// on are the engines of a host, also as members of others.
func (s Scope) on(h *provision.Host) (all []*engines.Engine) {
	for _, e := range s.Engines {
		for _, m := range engines.Members(e) {
			if m.Engine.Host() == h {
				all = append(all, m.Engine)
			}
		}
	}
	return all
}

// looksAtDocker reports whether containers of the lab are looked for on the host. unseen
// says why they cannot be although there is a Docker, of which the lab of today has no
// need; a host whose block says that engines run as processes is not doubted.
func (s Scope) looksAtDocker(ctx context.Context, c reached) (look bool, unseen error) {
	h := c.conn.Host()
	inDocker := func(e *engines.Engine) bool { return engines.Runtime(e) == provision.Docker }
	if slices.ContainsFunc(s.on(h), inDocker) {
		return true, nil
	}
	_, err := c.docker.Version(ctx)
	if errors.Is(err, provision.ErrDockerAway) && h.Runtime != provision.Process {
		unseen = fmt.Errorf("containers of the lab, if there are any, cannot be seen: %w", err)
	}
	return err == nil, unseen
}

// Presence is what of a lab is on one host.
type Presence struct {
	Host       *provision.Host
	Err        error              // why it could not be asked, or not of everything
	Unseen     error              // why containers of an earlier text of the lab cannot be seen; nil: they are
	Lease      *agent.Lease       // nil: nobody is at work
	Reserved   *agent.Lease       // of the machine, for another lab; nil: for none
	Unclean    *agent.Unclean     // what a tear-down has left; nil: nothing
	Changed    []provision.Change // settings that are to be put back
	Containers []provision.Found
	Processes  []provision.Found
	Others     []provision.Found // that carry the lab's name, and are another login's, store's or host block's
}

// Status looks at every host. Hosts that cannot be asked are in the error; the others are
// in the answer all the same.
func Status(ctx context.Context, scope Scope, opt Options) ([]Presence, error) {
	places := scope.places()
	found, errs := visit(ctx, places, opt.filled(), scope.status, func(ctx context.Context, _ *provision.Host, c *kube.Client) (Presence, error) {
		return scope.inCluster(ctx, c, opt.filled())
	})
	return presences(places, found, errs)
}

func presences(hosts []*provision.Host, found []Presence, errs []error) ([]Presence, error) {
	for i, h := range hosts {
		found[i].Host, found[i].Err = h, errs[i]
	}
	return found, errors.Join(errs...)
}

func (s Scope) status(ctx context.Context, c reached) (p Presence, err error) {
	a, err := agent.Attach(ctx, c.conn, s.Lab)
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
		if p.Processes, err = (agent.Processes{Client: a}).List(ctx, ofLab(s.Lab)); err != nil {
			return p, err
		}
	} else if p.Processes, err = agent.Left(ctx, c.conn, s.Lab); err != nil {
		return p, err
	}
	if p.Unclean, err = agent.ReadUnclean(ctx, c.conn); err != nil {
		return p, err
	}
	if p.Changed, err = agent.ReadPrepared(ctx, c.conn); err != nil {
		return p, err
	}
	if p.Reserved, err = agent.ReadReservation(ctx, c.conn); err != nil {
		return p, err
	}
	if p.Reserved != nil && p.Reserved.Lab == s.Lab {
		p.Reserved = nil // that is the lease, or was
	}
	var look bool
	if look, p.Unseen = s.looksAtDocker(ctx, c); look {
		p.Containers, p.Others, err = s.containers(ctx, c)
	}
	return p, err
}

// containers are those of a lab's name on a host: of this login and host block, and others.
func (s Scope) containers(ctx context.Context, c reached) (own, others []provision.Found, err error) {
	all, err := c.docker.List(ctx, ofLab(s.Lab))
	for _, f := range all {
		if f.Labels[provision.LabelAgent] == agent.Dir(c.conn, s.Lab) {
			own = append(own, f)
		} else {
			others = append(others, f)
		}
	}
	return own, others, err
}

// Whose says whose a container is that carries the lab's name and is not ours.
func Whose(f provision.Found) string {
	by := f.Labels[provision.LabelAgent]
	if by == "" {
		return "it carries the lab's name, and no claim"
	}
	return fmt.Sprintf("it belongs to run %s of another login, store or host block, whose agent is in %s", f.Labels[provision.LabelRun], by)
}
