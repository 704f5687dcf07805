// Package place is to be at a host, or in a cluster, and to hold it: what is reached, whose it is, what is good of it
// and what of a lab is there. A [Session] is one place at work. The verbs that change nothing, and destroy, visit
// all places of a [Scope] side by side.
//
// It starts and ends what it is told to. It knows no plan, keeps nothing, and prints nothing.
package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/origin"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/kube"
	"hclbench/provision/reach"
	"hclbench/provision/rent"
)

// Options is how places are reached.
type Options struct {
	SSH      reach.SSH
	Binaries agent.Binaries     // copied to the hosts
	Images   *origin.Registries // as this machine sees them, with its logins; nil: the hosts' own logins alone
	Log      *slog.Logger       // of the connections; nil: silent
	Hub      origin.Hub         // that hosts get models from, with its token
	Holder   string             // who holds the leases, for people
	Wait     time.Duration      // how long to wait for a host that somebody else is at work on; 0: not
	Rent     *rent.Journal      // of what was rented for the lab; nil: nothing can be rented
	Release  time.Duration      // how long drivers may take to give memory back; 0: [provision.ReleaseWait]
}

// Filled has what may be left out.
func (o Options) Filled() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Release = cmp.Or(o.Release, provision.ReleaseWait)
	return o
}

// The types of events.
const (
	Step    = "step"    // something that a person waits for has begun
	Pull    = "pull"    // an image is on its way; Pull is set
	Waiting = "waiting" // something comes up; Message says how far it is
	Down    = "down"    // what ran is gone for good
	Warning = "warning"
)

// Event is something that happens at a place.
type Event struct {
	Type    string
	Host    string
	Message string
	Pull    *provision.PullProgress // of [Pull]
}

// Tell is told of events, from several goroutines at once. It keeps nobody waiting.
type Tell func(Event)

func (t Tell) say(h *provision.Host, kind, format string, args ...any) {
	t(Event{Type: kind, Host: h.Name, Message: fmt.Sprintf(format, args...)})
}

// tellPatience is how long after an interruption a listener may take for what he has not heard yet.
const tellPatience = 10 * time.Second

// listening is how to tell a listener, nil for none, who may be slow or stand still.
func listening(ctx context.Context, listener Tell) (tell Tell, end func()) {
	return flow.Listening(ctx, tellPatience, func(_ context.Context, e Event) {
		if listener != nil {
			listener(e)
		}
	}, nil)
}

// ErrContract says that a host is not what its block says.
var ErrContract = errors.New("the host does not meet its contract")

// Reached is a host that we have a connection to, and Docker there, if it has one.
type Reached struct {
	Conn   *reach.Conn
	Docker *docker.Daemon
}

func dial(ctx context.Context, h *provision.Host, opt Options) (Reached, error) {
	c, err := reach.Dial(ctx, h, opt.SSH, opt.Log)
	if err != nil {
		return Reached{}, err
	}
	return Reached{c, docker.New(c, opt.Images)}, nil
}

// enter is a connection into a pod that runs, as a host.
func enter(ctx context.Context, h *provision.Host, pod *kube.Pod, opt Options) (Reached, error) {
	at := *h
	if at.Fabric.Address == "" {
		at.Fabric.Address = pod.IP() // others find it there
	}
	c, err := reach.Through(ctx, &at, pod.Transport(), opt.Log)
	if err != nil {
		return Reached{}, err
	}
	return Reached{c, docker.New(c, opt.Images)}, nil
}

// Runtime is how engines run on a host, in containers or as processes, by the hands of the agent there.
type Runtime interface {
	looking
	Start(ctx context.Context, ct provision.Container) (id string, err error)
	Stop(ctx context.Context, name string, grace time.Duration) (warnings []string, err error)
}

// looking is how containers or processes are looked at, which takes no agent.
type looking interface {
	State(ctx context.Context, id string) (provision.State, error)
	Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error)
	List(ctx context.Context, labels map[string]string) ([]provision.Found, error)
	ReadFile(ctx context.Context, id, path string) (text []byte, written time.Time, err error)
}

// Scope says what of a lab is looked for, and where: on each host the agent's
// processes and Docker's containers, since a lab that runs none there today may have
// run some yesterday. Where one of its engines is a container today, it is an error that
// they cannot be looked for.
type Scope struct {
	Lab     string
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

// places are the machines of the scope, and in place of hosts that are pods their clusters, each once.
func (s Scope) places() (all []*provision.Host) {
	seen := map[*provision.Cluster]bool{nil: false}
	for _, h := range s.Hosts {
		switch {
		case h.Cluster == nil:
			all = append(all, h)
		case !seen[h.Cluster]:
			seen[h.Cluster] = true
			all = append(all, h.Cluster.Host())
		}
	}
	return all
}

// visit does the same on every host and in every cluster, which are some of a scope, side by side. What it finds, and why it could not
// look, is in the order of the hosts.
func visit[T any](ctx context.Context, scope Scope, hosts []*provision.Host, opt Options, do func(context.Context, Reached) (T, error),
	inCluster func(context.Context, *provision.Host, *kube.Client) (T, error)) (found []T, errs []error) {
	found, errs = make([]T, len(hosts)), make([]error, len(hosts))
	flow.Each(hosts, func(i int, h *provision.Host) (err error) {
		defer func() { errs[i] = err }()
		if h.Cluster != nil {
			client, err := kube.Open(ctx, h.Cluster, func(what string) { opt.Log.Warn(what, "cluster", h.Cluster.Name) })
			if err != nil {
				return err
			}
			defer client.Close()
			found[i], err = inCluster(ctx, h, client)
			return err
		}
		at, ssh, err := opt.box(scope, h)
		if at == nil || err != nil { // what is not rented has nothing of the lab
			return err
		}
		opt := opt
		opt.SSH = ssh
		c, err := dial(ctx, at, opt)
		if err != nil {
			return err
		}
		defer c.Conn.Close()
		found[i], err = do(ctx, c)
		return err
	})
	return found, errs
}
