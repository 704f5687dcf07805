package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/docker/api/types/container"

	"hclbench/provision"
)

// execPoll is how often a program in a container is looked at.
const execPoll = 100 * time.Millisecond

// Exec runs a program in a running container and waits for its end. What it has to
// say it writes to a file there, for [Daemon.ReadFile]. An exit status other than 0
// is an error. When ctx ends the program is left alone.
func (d *Daemon) Exec(ctx context.Context, id string, argv []string) error {
	doing := "run " + argv[0] + " in container " + provision.ShortID(id)
	api, err := d.api(ctx)
	if err != nil {
		return d.wrap(doing, err)
	}
	created, err := api.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: argv})
	if err != nil {
		return d.wrap(doing, absent(err))
	}
	// Detached: the library takes over a connection for what is attached, and would
	// not ask us for it.
	if err := api.ContainerExecStart(ctx, created.ID, container.ExecStartOptions{Detach: true}); err != nil {
		return d.wrap(doing, err)
	}
	poll := time.NewTicker(execPoll)
	defer poll.Stop()
	for {
		state, err := api.ContainerExecInspect(ctx, created.ID)
		switch {
		case err != nil:
			return d.wrap(doing, err)
		case !state.Running && state.ExitCode != 0:
			return d.wrap(doing, fmt.Errorf("exit status %d", state.ExitCode))
		case !state.Running:
			return nil
		}
		select {
		case <-ctx.Done():
			return d.wrap(doing, context.Cause(ctx))
		case <-poll.C:
		}
	}
}
