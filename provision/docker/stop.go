package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"hclbench/provision"
)

// OwnGrace asks [Daemon.Stop] for the grace that the container was created with.
const OwnGrace time.Duration = -1

// Stop ends a container and removes it with its anonymous volumes: its stop
// signal, up to grace for it to end, SIGKILL, removal, and then the proof that
// Docker knows it no longer. One that has ended, is being removed by somebody
// else, or is not there is no error. ctx should allow for more than grace; a
// stop that was begun goes on in the daemon when ctx ends.
func (d *Daemon) Stop(ctx context.Context, id string, grace time.Duration) error {
	if grace < 0 {
		found, err := d.inspect(ctx, id)
		if errors.Is(err, provision.ErrNoContainer) {
			return nil
		} else if err != nil {
			return d.wrap("stop container "+provision.ShortID(id), err)
		}
		grace = 10 * time.Second // Docker's own default
		if seconds := found.Config.StopTimeout; seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
	}
	killAt := time.Now().Add(grace)
	err := d.whenBack(ctx, func() error {
		return again(ctx, func() error { return d.stop(ctx, id, killAt) })
	})
	if err != nil {
		return d.wrap("stop container "+provision.ShortID(id), err)
	}
	return nil
}

func (d *Daemon) stop(ctx context.Context, id string, killAt time.Time) error {
	found, err := d.inspect(ctx, id)
	if errors.Is(err, provision.ErrNoContainer) {
		return nil
	}
	if err != nil {
		return err
	}
	id = found.ID // whatever takes its name meanwhile is not meant
	api, err := d.api(ctx)
	if err != nil {
		return err
	}
	if found.State.Running {
		seconds := max(0, int(math.Ceil(time.Until(killAt).Seconds())))
		err = api.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds})
		if err != nil && !errdefs.IsNotFound(err) {
			return err
		}
		err = d.wait(ctx, id, container.WaitConditionNotRunning)
		if err != nil && !errors.Is(err, provision.ErrNoContainer) {
			return err
		}
	}
	err = api.ContainerRemove(ctx, id, container.RemoveOptions{RemoveVolumes: true})
	if errdefs.IsConflict(err) && says(err, "already in progress") {
		err = d.wait(ctx, id, container.WaitConditionRemoved)
	}
	if err != nil && !errdefs.IsNotFound(err) && !errors.Is(err, provision.ErrNoContainer) {
		return err
	}
	switch _, err := d.inspect(ctx, id); {
	case errors.Is(err, provision.ErrNoContainer):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("it was removed, but Docker still lists it: see `docker inspect %s` on the host",
		provision.ShortID(id))
}
