package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"hclbench/flow"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// createWithin bounds a daemon that creates or starts a container: drivers have to
// open every GPU for it.
const createWithin = 10 * time.Minute

// Start creates a container and starts it; its image must be on the host. When it does not start it
// may be there, for [Daemon.Stop]. Its errors are [provision.ErrNameTaken], [provision.ErrPortTaken],
// [provision.ErrNoGPURuntime] and [provision.ErrImageNotFound], with what to do.
func (d *Daemon) Start(ctx context.Context, ct provision.Container) (id string, err error) {
	doing := "start container " + ct.Name
	if ct.Network != "none" { // on the host's network Docker would not notice
		if err := d.conn.PortFree(ctx, ct.Port, d.Name); err != nil {
			return "", d.wrap(doing, err)
		}
	}
	groups, err := d.groupIDs(ctx, ct.HostGroups)
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	ct, secrets, err := d.hideSecrets(ctx, ct)
	if err != nil {
		return "", d.wrap(doing, err)
	}
	asked := newSpec(ct, groups, d.conn.Home())
	if asked.err != nil {
		return "", d.wrap(doing, asked.err)
	}
	if secrets != "" { // given once, and ended
		asked.config.OpenStdin, asked.config.StdinOnce, asked.config.AttachStdin = true, true, true
	}
	making, cancel := context.WithTimeoutCause(ctx, createWithin, errCreate)
	defer cancel()
	created, err := d.create(making, ct.Name, asked)
	if err != nil {
		return "", d.wrap(doing, d.explainStart(ctx, ct, err))
	}
	if err := d.begin(making, created, ct.Files, secrets); err != nil {
		return "", d.wrap(doing, d.explainStart(ctx, ct, err))
	}
	return created, nil
}

var errCreate = fmt.Errorf("the Docker daemon has not done it within %s: a driver may hang", createWithin)

// createPatience is how long a creation may still take that is broken off: broken off at once, it may
// leave a container whose id nobody knows.
const createPatience = 10 * time.Second

func (d *Daemon) create(ctx context.Context, name string, asked *spec) (id string, err error) {
	api, err := d.api(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", err
	}
	whole, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(createPatience, end) })()
	var created container.CreateResponse
	err = d.whenBack(whole, func() (err error) {
		created, err = api.ContainerCreate(whole, &asked.config, &asked.host, nil, nil, name)
		if errdefs.IsConflict(err) && says(err, "name") && d.wasAsked(whole, name, asked.config.Labels) == nil {
			created, err = api.ContainerCreate(whole, &asked.config, &asked.host, nil, nil, name)
		}
		return err
	})
	for _, w := range created.Warnings {
		d.log.Warn("docker warns about a container", "container", name, "warning", plain.Line(w))
	}
	return created.ID, err
}

// wasAsked removes a container that was made by an earlier asking for this one, whose answer was lost.
func (d *Daemon) wasAsked(ctx context.Context, name string, labels map[string]string) error {
	found, err := d.inspect(ctx, name)
	if err != nil {
		return err
	}
	for label, value := range labels { // an image brings others
		if found.Config.Labels[label] != value {
			return provision.ErrNameTaken
		}
	}
	if labels[provision.LabelAgent] == "" || labels[provision.LabelRun] == "" {
		return provision.ErrNameTaken
	}
	return d.stop(ctx, found.ID, 0, new(time.Time))
}

// begin brings its files into a container that was created, starts it, and tells it its secrets.
func (d *Daemon) begin(ctx context.Context, id string, files []provision.File, secrets string) error {
	if err := d.bringFiles(ctx, id, files); err != nil {
		return err
	}
	api, err := d.api(ctx)
	if err != nil {
		return err
	}
	if secrets == "" {
		return api.ContainerStart(ctx, id, container.StartOptions{})
	}
	stdin, err := d.stdin(ctx, id) // before it runs: what it reads ends when nobody is there
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return err
	}
	_, _ = io.WriteString(stdin, secrets) // one that does not get them ends, and says so in its log
	return nil
}

// groupIDs looks up the host's numeric ids of groups. One that does not exist
// there owns nothing there, so it is left out.
func (d *Daemon) groupIDs(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	out, err := d.conn.Run(ctx, "getent group "+reach.Words(names), nil)
	var failed *reach.CommandError
	const someNotFound = 2
	if err != nil && !(errors.As(err, &failed) && failed.ExitCode == someNotFound) {
		return nil, err
	}
	var ids []string
	found := map[string]bool{}
	for line := range strings.Lines(out) {
		if fields := strings.Split(line, ":"); len(fields) >= 3 { // name:password:id:members
			ids = append(ids, fields[2])
			found[fields[0]] = true
		}
	}
	for _, n := range names {
		if _, err := strconv.Atoi(n); err != nil && !found[n] {
			d.log.Warn("group does not exist on the host, left out", "group", n)
		}
	}
	return ids, nil
}

const (
	nameTaken = "a container with that name exists (%w): look at it with `docker inspect %s`, " +
		"and remove it with `docker rm` when nobody needs it"
	notPulled = "image %s is not on the host: pull it first (%w)"
	noRuntime = "Docker has no NVIDIA runtime (%w): install nvidia-container-toolkit, then " +
		"`sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`"
	noDriver = "the NVIDIA runtime does not find a working driver (%w): see whether `nvidia-smi` works on the host; " +
		"after a driver update it takes a reboot"
	noAMD = "the host has no AMD GPU devices (%w): see whether the amdgpu driver is loaded, " +
		"with `lsmod | grep amdgpu` and `ls /dev/kfd /dev/dri`"
	limitKept = "the Docker daemon may not raise the limit %[1]s (%[2]w): leave it to the daemon, " +
		"with container { ulimits = { %[1]s = null } } in the engine block"
)

// explainStart turns the daemon's refusal to create or start a container into what to do about it.
func (d *Daemon) explainStart(ctx context.Context, ct provision.Container, err error) error {
	switch {
	case errdefs.IsConflict(err) && says(err, "name"):
		return d.fail(provision.ErrNameTaken, nameTaken, err, ct.Name)
	case errdefs.IsNotFound(err) && says(err, "no such image"):
		return d.fail(provision.ErrImageNotFound, notPulled, ct.Image, err)
	case says(err, "could not select device driver"):
		return d.fail(provision.ErrNoGPURuntime, noRuntime, err)
	case says(err, "nvidia-container-cli", "nvidia-container-runtime", "libnvidia-ml"):
		return d.fail(provision.ErrNoGPURuntime, noDriver, err)
	case says(err, "/dev/kfd", "/dev/dri"):
		return d.fail(provision.ErrNoGPURuntime, noAMD, err)
	case says(err, "port is already allocated", "address already in use"):
		return d.conn.PortTaken(ctx, ct.Port, d.Name)
	case says(err, "error setting rlimit"):
		return d.fail(errLimit, limitKept, refusedLimit(ct, err), err)
	}
	return err
}

// refusedLimit names the limit of a container that the daemon, which knows it
// by the kernel's number, could not set.
func refusedLimit(ct provision.Container, err error) string {
	for _, u := range ct.Ulimits {
		limit := container.Ulimit{Name: u.Name}
		if r, unknown := limit.GetRlimit(); unknown == nil && says(err, fmt.Sprintf("rlimit type %d:", r.Type)) {
			return u.Name
		}
	}
	return "memlock" // the one that engines need, and daemons may not raise
}

// OwnGrace asks [Daemon.Stop] for the grace that the container was created with.
const OwnGrace time.Duration = -1

// Stop ends a container and removes it with its anonymous volumes: its stop signal, again and again, up to grace for
// it to end, SIGKILL, removal, and the proof that Docker knows it no longer. One that has ended, or
// is not there, is no error. What was begun goes on in the daemon when ctx ends.
func (d *Daemon) Stop(ctx context.Context, id string, grace time.Duration) error {
	var killAt time.Time // once it was found
	err := d.whenBack(ctx, func() error {
		return again(ctx, func() error { return d.stop(ctx, id, grace, &killAt) })
	})
	if err != nil {
		return d.wrap("stop container "+provision.ShortID(id), err)
	}
	return nil
}

func (d *Daemon) stop(ctx context.Context, id string, grace time.Duration, killAt *time.Time) error {
	found, err := d.inspect(ctx, id)
	if errors.Is(err, provision.ErrNoContainer) {
		return nil
	}
	if err != nil {
		return err
	}
	id = found.ID // whatever takes its name meanwhile is not meant
	if grace < 0 {
		grace = 10 * time.Second // Docker's own default
		if seconds := found.Config.StopTimeout; seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
	}
	if killAt.IsZero() {
		*killAt = time.Now().Add(grace)
	}
	api, err := d.api(ctx)
	if err != nil {
		return err
	}
	if found.State.Running {
		seconds := max(0, int(math.Ceil(time.Until(*killAt).Seconds())))
		asked := flow.Beside(ctx, func(ctx context.Context) {
			for flow.Pause(ctx, provision.AskedAgain(grace)) {
				_ = api.ContainerKill(ctx, id, cmp.Or(found.Config.StopSignal, "SIGTERM")) // it may have ended
			}
		})
		err = api.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds})
		asked()
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
