package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"hclbench/engines"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/look"
)

// devicesWithin bounds the look at what a container gets: a driver may hang.
const devicesWithin = 2 * time.Minute

// proveGPUs sees whether a container of the engine's image gets the engine's GPUs, by
// running hcl in one: before a model is loaded for an hour to find that it does not.
// Once for an image and what it asks for.
func (s *site) proveGPUs(ctx context.Context, d *plan.Deployment, image string) error {
	ct := d.Members[0].Container
	want := s.host.GPUs.Count
	switch {
	case want == 0 || ct.GPUs == 0 && len(ct.GPUIDs) == 0 && len(ct.Devices) == 0:
		return nil
	case len(ct.GPUIDs) > 0:
		want = len(ct.GPUIDs)
	case ct.GPUs > 0:
		want = ct.GPUs
	}
	key := fmt.Sprint(image, want, ct.GPUs, ct.GPUIDs, ct.Devices, ct.HostGroups, ct.User, ct.Privileged)
	if slices.Contains(s.proved, key) {
		return nil
	}
	found, err := s.devices(ctx, ct, image)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, provision.ErrNoGPURuntime) {
		return err
	}
	if err != nil {
		s.event(Event{Type: Warning, Host: s.host.Name, Engine: d.Engine.Label(), Message: "whether its container gets the GPUs could not be seen: " + err.Error()})
		return nil
	}
	if lack := found.Lacks(s.host.GPUs.Vendor, want); lack != "" {
		advice := "see whether `docker run --rm --gpus all " + d.Engine.Image + " nvidia-smi` works there; the container toolkit may have to be configured (sudo nvidia-ctk runtime configure --runtime=docker), Docker restarted, or the driver's device nodes made (nvidia-smi on the host does)"
		if s.host.GPUs.Vendor == provision.AMD {
			advice = "see whether `rocm-smi` works there, and who owns the devices, with `ls -l /dev/kfd /dev/dri`"
		}
		return fmt.Errorf("%w: in a container on %s, %s: %s", provision.ErrNoGPURuntime, s.host, lack, advice)
	}
	s.proved = append(s.proved, key)
	return nil
}

// devices is what a container with the settings of another finds.
func (s *site) devices(ctx context.Context, ct provision.Container, image string) (found look.Devices, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, devicesWithin, fmt.Errorf("no answer within %s: a driver may hang", devicesWithin))
	defer cancel()
	err = s.within(ctx, provision.Container{
		Name: ct.Name + "-devices", Image: image, Labels: maps.Clone(ct.Labels),
		GPUs: ct.GPUs, GPUIDs: ct.GPUIDs, Devices: ct.Devices, HostGroups: ct.HostGroups,
		CapAdd: ct.CapAdd, SecurityOpt: ct.SecurityOpt, Privileged: ct.Privileged, User: ct.User,
		Network: "none",
	}, &found, look.DevicesVerb)
	return found, err
}

// within runs hcl in a container of its own, and decodes what it prints.
func (s *site) within(ctx context.Context, ct provision.Container, out any, words ...string) (err error) {
	const binary = "/.hcl/hcl"
	ct.Entrypoint = []provision.Text{provision.Plain(binary)}
	for _, w := range words {
		ct.Command = append(ct.Command, provision.Plain(w))
	}
	ct.Mounts = []provision.Mount{{Source: s.agent.Binary(), Target: binary, ReadOnly: true}}
	ct.Labels[plan.LabelRun] = s.opt.Run.ID
	id, err := s.docker.Start(ctx, ct)
	if err != nil {
		return err
	}
	defer func() {
		down, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer done()
		err = errors.Join(err, s.docker.Stop(down, id, engines.StopGrace))
	}()
	state, err := s.docker.Wait(ctx, id)
	if err != nil {
		return err
	}
	logs, err := s.docker.Logs(ctx, id, false, -1)
	if err != nil {
		return err
	}
	defer logs.Close()
	said, err := io.ReadAll(io.LimitReader(logs, 1<<20))
	if err == nil && json.Unmarshal(said, out) != nil {
		err = fmt.Errorf("exit status %d: %s", state.ExitCode, bytes.TrimSpace(said))
	}
	return err
}
