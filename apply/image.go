package apply

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/look"
)

func (s *session) pull(ctx context.Context, image string, tell teller) (provision.Image, error) {
	tell.say(Step, "pulling %s", image)
	got, err := s.docker.Images.Pull(ctx, image, func(p provision.PullProgress) { tell.tell(Event{Type: Pull, Pull: &p}) })
	if err == nil && got.Local {
		tell.say(Warning, "the registry cannot be reached; using the image that the host has of %s", image)
	}
	return got, err
}

// compileCache gives a container the compile cache of its image, and tells whether an earlier
// start has left something there: "cold" or "warm"; "" for an engine that keeps nothing.
func (s *session) compileCache(ctx context.Context, e *engines.Engine,
	ct provision.Container) (provision.Container, string, error) {
	ct, at := engines.CompileCache(e, ct, ct.Image)
	if at == "" {
		return ct, "", nil
	}
	there, err := s.conn.Run(ctx, "ls -A "+plain.Quote(s.path(at))+" 2>/dev/null || true", nil)
	if err != nil {
		return ct, "", fmt.Errorf("look at the compile cache: %w", err)
	}
	if strings.TrimSpace(there) == "" {
		return ct, "cold", nil
	}
	return ct, "warm", nil
}

const (
	adviceNVIDIA = "see whether `docker run --rm --gpus all %s nvidia-smi` works there; " +
		"the container toolkit may have to be configured (sudo nvidia-ctk runtime configure --runtime=docker), " +
		"Docker restarted, or the driver's device nodes made (nvidia-smi on the host does)"
	adviceAMD = "see whether `rocm-smi` works there, and who owns the devices, with `ls -l /dev/kfd /dev/dri`"
)

// proveGPUs sees, once for an image, whether a container gets its GPUs: before a model is loaded
// for an hour to find that it does not. name is the image as the lab has it.
func (s *session) proveGPUs(ctx context.Context, ct provision.Container, name string, tell teller) error {
	if s.host.GPUs.Count == 0 || ct.GPUs == 0 && len(ct.GPUIDs) == 0 && len(ct.Devices) == 0 {
		return nil
	}
	want := cmp.Or(len(ct.GPUIDs), max(ct.GPUs, 0), s.host.GPUs.Count)
	key := fmt.Sprint(ct.Image, want, ct.GPUs, ct.GPUIDs, ct.Devices, ct.HostGroups, ct.User, ct.Privileged)
	if slices.Contains(s.proved, key) {
		return nil
	}
	found, err := s.devices(ctx, ct)
	switch {
	case errors.Is(err, provision.ErrNoGPURuntime) || ctx.Err() != nil:
		return err
	case errors.Is(err, provision.ErrUnclean): // nothing is started beside what it has left
		return failed(ofHost, s.host, err)
	case err != nil:
		tell.say(Warning, "hcl could not see whether its container gets the GPUs: %v", err)
		return nil
	}
	if lack := found.Lacks(s.host.GPUs.Vendor, want); lack != "" {
		advice := fmt.Sprintf(adviceNVIDIA, name)
		if s.host.GPUs.Vendor == provision.AMD {
			advice = adviceAMD
		}
		return fmt.Errorf("%w: in a container on %s, %s: %s", provision.ErrNoGPURuntime, s.host, lack, advice)
	}
	s.proved = append(s.proved, key)
	return nil
}

func (s *session) devices(ctx context.Context, ct provision.Container) (found look.Devices, err error) {
	like := ct.MayAs("-devices")
	like.GPUs, like.GPUIDs, like.Devices, like.HostGroups = ct.GPUs, ct.GPUIDs, ct.Devices, ct.HostGroups
	like.Network = "none"
	err = s.within(ctx, like, &found, look.DevicesVerb)
	return found, err
}

// withinTime bounds what is looked at within a container: a driver may hang.
const withinTime = 2 * time.Minute

// within runs hcl in a container of its own, and decodes what it prints.
func (s *session) within(ctx context.Context, ct provision.Container, out any, words ...string) (err error) {
	late := fmt.Errorf("no answer within %s: a driver may hang", withinTime)
	ctx, cancel := context.WithTimeoutCause(ctx, withinTime, late)
	defer cancel()
	const binary = "/.hcl/hcl"
	ct.Entrypoint = []provision.Text{provision.Plain(binary)}
	for _, w := range words {
		ct.Command = append(ct.Command, provision.Plain(w))
	}
	ct.Mounts = []provision.Mount{{Source: s.agent.Binary(), Target: binary, ReadOnly: true}}
	defer func() { // also of what may have been made although no answer came
		down, done := context.WithTimeout(context.WithoutCancel(ctx), engines.StopGrace+downPatience)
		defer done()
		_, left := s.agent.Stop(down, ct.Name, engines.StopGrace)
		err = errors.Join(err, left)
	}()
	id, err := s.runtime(provision.Docker).Start(ctx, ct)
	if err != nil {
		return err
	}
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
