package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// createWithin bounds a daemon that creates or starts a container: drivers have to
// open every GPU for it.
const createWithin = 10 * time.Minute

// Start creates a container and starts it; its image must be on the host, see
// [Images.Pull]. When it does not start, nothing is left behind. Its errors are
// [provision.ErrNameTaken], [provision.ErrPortTaken], [provision.ErrNoGPURuntime] and [provision.ErrImageNotFound],
// with what to do.
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
		err = d.explainStart(ctx, ct, err)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return "", errors.Join(d.wrap(doing, err), d.Stop(ctx, created, 0))
	}
	return created, nil
}

var errCreate = fmt.Errorf("the Docker daemon has not done it within %s: a driver may hang", createWithin)

// create creates a container.
func (d *Daemon) create(ctx context.Context, name string, asked *spec) (id string, err error) {
	api, err := d.api(ctx)
	if err != nil {
		return "", err
	}
	var created container.CreateResponse
	err = d.whenBack(ctx, func() (err error) {
		created, err = api.ContainerCreate(ctx, &asked.config, &asked.host, nil, nil, name)
		return err
	})
	for _, w := range created.Warnings {
		d.log.Warn("docker warns about a container", "container", name, "warning", plain.Line(w))
	}
	return created.ID, err
}

// begin brings its files into a container that was created, starts it, and tells it its
// secrets.
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
	_, err = io.WriteString(stdin, secrets)
	return err
}

// cleanupTimeout bounds the removal of what a failed start has left.
const cleanupTimeout = 30 * time.Second

// groupIDs looks up the host's numeric ids of groups. One that does not exist
// there owns nothing there, so it is left out.
func (d *Daemon) groupIDs(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = plain.Quote(n)
	}
	out, err := d.conn.Run(ctx, "getent group "+strings.Join(words, " "), nil)
	var failed *reach.CommandError
	const someNotFound = 2
	if err != nil && !(errors.As(err, &failed) && failed.ExitCode == someNotFound) {
		return nil, err
	}
	var ids []string
	found := make(map[string]bool)
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

// explainStart turns the daemon's refusal to create or start a container into
// what to do about it.
func (d *Daemon) explainStart(ctx context.Context, ct provision.Container, err error) error {
	switch {
	case errdefs.IsConflict(err) && says(err, "name"):
		return provision.Fail(d.host, provision.ErrNameTaken, "a container with that name exists (%w): look at it with `docker inspect %s`, and remove it with `docker rm` when nobody needs it", err, ct.Name)
	case errdefs.IsNotFound(err) && says(err, "no such image"):
		return provision.Fail(d.host, provision.ErrImageNotFound, "image %s is not on the host: pull it first (%w)", ct.Image, err)
	case says(err, "could not select device driver"):
		return provision.Fail(d.host, provision.ErrNoGPURuntime, "Docker has no NVIDIA runtime (%w): install nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`", err)
	case says(err, "nvidia-container-cli", "nvidia-container-runtime", "libnvidia-ml"):
		return provision.Fail(d.host, provision.ErrNoGPURuntime, "the NVIDIA runtime does not find a working driver (%w): see whether `nvidia-smi` works on the host; after a driver update it takes a reboot", err)
	case says(err, "/dev/kfd", "/dev/dri"):
		return provision.Fail(d.host, provision.ErrNoGPURuntime, "the host has no AMD GPU devices (%w): see whether the amdgpu driver is loaded, with `lsmod | grep amdgpu` and `ls /dev/kfd /dev/dri`", err)
	case says(err, "port is already allocated", "address already in use"):
		return d.conn.PortTaken(ctx, ct.Port, d.Name)
	case says(err, "error setting rlimit"):
		return provision.Fail(d.host, errLimit, "the Docker daemon may not raise the limit %[1]s (%[2]w): leave it to the daemon, with container { ulimits = { %[1]s = null } } in the engine block", refusedLimit(ct, err), err)
	}
	return err
}

// errLimit is a kind of failure that no caller tells apart today.
var errLimit = errors.New("limit not raised")

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

// Name is what a container is called; "" where that is not known.
func (d *Daemon) Name(ctx context.Context, id string) string {
	found, err := d.inspect(ctx, id)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(found.Name, "/")
}

func (d *Daemon) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	found, err := query(ctx, d, func(ctx context.Context, api *client.Client) (container.InspectResponse, error) {
		return api.ContainerInspect(ctx, id)
	})
	return found, absent(err)
}

// absent marks the daemon's answer that it knows no such container.
func absent(err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w (%w)", provision.ErrNoContainer, err)
	}
	return err
}

// State says what a container is doing. [provision.ErrNoContainer] when it is gone.
func (d *Daemon) State(ctx context.Context, id string) (provision.State, error) {
	doing := "inspect container " + provision.ShortID(id)
	found, err := d.inspect(ctx, id)
	if err != nil {
		return provision.State{}, d.wrap(doing, err)
	}
	s := found.State
	started, startErr := time.Parse(time.RFC3339Nano, s.StartedAt)
	finished, finishErr := time.Parse(time.RFC3339Nano, s.FinishedAt)
	if err := errors.Join(startErr, finishErr); err != nil {
		return provision.State{}, d.wrap(doing, err)
	}
	return provision.State{
		Running:   s.Running,
		PID:       s.Pid,
		ExitCode:  s.ExitCode,
		OOMKilled: s.OOMKilled,
		Error:     plain.Line(s.Error),
		Started:   started,
		Finished:  finished,
	}, nil
}

// Wait waits until a container does not run, and returns its state then.
// [provision.ErrNoContainer] when it is gone.
func (d *Daemon) Wait(ctx context.Context, id string) (provision.State, error) {
	err := d.wait(ctx, id, container.WaitConditionNotRunning)
	if err != nil {
		return provision.State{}, d.wrap("wait for container "+provision.ShortID(id), err)
	}
	return d.State(ctx, id)
}

func (d *Daemon) wait(ctx context.Context, id string, until container.WaitCondition) error {
	api, err := d.api(ctx)
	if err != nil {
		return err
	}
	ended, failed := api.ContainerWait(ctx, id, until)
	select {
	case <-ended:
		return nil
	case err := <-failed: // when ctx ends, too
		return absent(err)
	}
}

// List finds every container that has all those labels, stopped ones too,
// sorted by name. At least one label is needed: nobody asks for every container
// of a host by intention.
func (d *Daemon) List(ctx context.Context, labels map[string]string) ([]provision.Found, error) {
	if len(labels) == 0 {
		return nil, fmt.Errorf("%s: list containers: no label was given", d.host)
	}
	wanted := filters.NewArgs()
	for k, v := range labels {
		wanted.Add("label", k+"="+v)
	}
	var listed []container.Summary
	err := d.whenBack(ctx, func() (err error) {
		listed, err = query(ctx, d, func(ctx context.Context, api *client.Client) ([]container.Summary, error) {
			return api.ContainerList(ctx, container.ListOptions{All: true, Filters: wanted})
		})
		return err
	})
	if err != nil {
		return nil, d.wrap("list containers", err)
	}
	found := make([]provision.Found, 0, len(listed))
	for _, l := range listed {
		f := provision.Found{ID: plain.Line(l.ID), Image: plain.Line(l.Image), Labels: map[string]string{}, State: plain.Line(l.State)}
		for k, v := range l.Labels {
			f.Labels[k] = plain.Line(v)
		}
		if len(l.Names) > 0 {
			f.Name = plain.Line(strings.TrimPrefix(l.Names[0], "/"))
		}
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b provision.Found) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	return found, nil
}

// shortID is a container's id as Docker shows it.
func shortID(id string) string { return id[:min(len(id), 12)] }
