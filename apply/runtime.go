package apply

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"hclbench/engines"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/reach"
)

// runtime is how engines run on a host: Docker there, or the agent's processes.
type runtime interface {
	Start(ctx context.Context, ct provision.Container) (id string, err error)
	State(ctx context.Context, id string) (provision.State, error)
	Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error)
	Stop(ctx context.Context, id string, grace time.Duration) error
	List(ctx context.Context, labels map[string]string) ([]provision.Found, error)
	ReadFile(ctx context.Context, id, path string) (text []byte, written time.Time, err error)
}

// reached is a host that we have a connection to, and Docker there, if it has one.
type reached struct {
	conn   *reach.Conn
	docker *docker.Daemon
}

// dial connects to a host.
func dial(ctx context.Context, h *provision.Host, opt Options) (reached, error) {
	c, err := reach.Dial(ctx, h, opt.SSH, opt.Log)
	if err != nil {
		return reached{}, err
	}
	return reached{c, docker.New(c, opt.Images)}, nil
}

// ofLab are the labels of everything of a lab.
func ofLab(lab string) map[string]string { return map[string]string{plan.LabelLab: lab} }

// leftBy is the run that has started something.
func leftBy(f provision.Found) string { return f.Labels[plan.LabelRun] }

func hasDocker(ctx context.Context, d *docker.Daemon) bool {
	_, err := d.Version(ctx)
	return err == nil
}

// sweep stops and removes everything of a lab, gracefully and side by side, and
// returns what it found.
func sweep(ctx context.Context, rt runtime, lab string, each func(provision.Found)) ([]provision.Found, error) {
	found, err := rt.List(ctx, ofLab(lab))
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	for i, f := range found {
		each(f)
		wg.Go(func() { errs[i] = rt.Stop(ctx, f.ID, engines.StopGrace) })
	}
	wg.Wait()
	return found, errors.Join(errs...)
}
