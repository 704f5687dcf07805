package place

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

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/look"
)

// Pull brings an image to the place.
func (s *Session) Pull(ctx context.Context, image string, tell Tell) (provision.Image, error) {
	tell.say(s.Host, Step, "pulling %s", image)
	got, err := s.Docker.Images.Pull(ctx, image, func(p provision.PullProgress) { tell(Event{Type: Pull, Host: s.Host.Name, Pull: &p}) })
	if err == nil && got.Local {
		tell.say(s.Host, Warning, "the registry cannot be reached; using the image that the host has of %s", image)
	}
	return got, err
}

// CompileCache gives a container the compile cache of its image, and tells whether an earlier
// start has left something there: "cold" or "warm"; "" for an engine that keeps nothing.
func (s *Session) CompileCache(ctx context.Context, e *engines.Engine,
	ct provision.Container) (provision.Container, string, error) {
	ct, at := engines.CompileCache(e, ct, ct.Image)
	if at == "" {
		return ct, "", nil
	}
	there, err := s.Conn.Run(ctx, "ls -A "+plain.Quote(s.Path(at))+" 2>/dev/null || true", nil)
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

// ProveGPUs sees, once for an image, whether a container gets its GPUs: before a model is loaded
// for an hour to find that it does not. name is the image as the lab has it.
func (s *Session) ProveGPUs(ctx context.Context, ct provision.Container, name string, tell Tell) error {
	if s.Host.GPUs.Count == 0 || ct.GPUs == 0 && len(ct.GPUIDs) == 0 && len(ct.Devices) == 0 {
		return nil
	}
	want := cmp.Or(len(ct.GPUIDs), max(ct.GPUs, 0), s.Host.GPUs.Count)
	key := fmt.Sprint(ct.Image, want, ct.GPUs, ct.GPUIDs, ct.Devices, ct.HostGroups, ct.User, ct.Privileged)
	if slices.Contains(s.proved, key) {
		return nil
	}
	found, err := s.devices(ctx, ct)
	switch {
	case errors.Is(err, provision.ErrNoGPURuntime) || ctx.Err() != nil:
		return err
	case errors.Is(err, provision.ErrUnclean): // nothing is started beside what it has left
		return err
	case err != nil:
		tell.say(s.Host, Warning, "hcl could not see whether its container gets the GPUs: %v", err)
		return nil
	}
	if lack := found.Lacks(s.Host.GPUs.Vendor, want); lack != "" {
		advice := fmt.Sprintf(adviceNVIDIA, name)
		if s.Host.GPUs.Vendor == provision.AMD {
			advice = adviceAMD
		}
		return fmt.Errorf("%w: in a container on %s, %s: %s", provision.ErrNoGPURuntime, s.Host, lack, advice)
	}
	s.proved = append(s.proved, key)
	return nil
}

func (s *Session) devices(ctx context.Context, ct provision.Container) (found look.Devices, err error) {
	like := ct.MayAs("-devices")
	like.GPUs, like.GPUIDs, like.Devices, like.HostGroups = ct.GPUs, ct.GPUIDs, ct.Devices, ct.HostGroups
	like.Network = "none"
	err = s.Within(ctx, like, &found, look.DevicesVerb)
	return found, err
}

// withinTime bounds what is looked at within a container: a driver may hang.
const withinTime = 2 * time.Minute

// Within runs hcl in a container of its own, and decodes what it prints.
func (s *Session) Within(ctx context.Context, ct provision.Container, out any, words ...string) (err error) {
	late := fmt.Errorf("no answer within %s: a driver may hang", withinTime)
	ctx, cancel := context.WithTimeoutCause(ctx, withinTime, late)
	defer cancel()
	const binary = "/.hcl/hcl"
	ct.Entrypoint = []provision.Text{provision.Plain(binary)}
	for _, w := range words {
		ct.Command = append(ct.Command, provision.Plain(w))
	}
	ct.Mounts = []provision.Mount{{Source: s.Agent.Binary(), Target: binary, ReadOnly: true}}
	defer func() { // also of what may have been made although no answer came
		down, done := context.WithTimeout(context.WithoutCancel(ctx), engines.StopGrace+downPatience)
		defer done()
		_, left := s.Agent.Stop(down, ct.Name, engines.StopGrace)
		err = errors.Join(err, left)
	}()
	id, err := s.Runtime(provision.Docker).Start(ctx, ct)
	if err != nil {
		return err
	}
	state, err := s.Docker.Wait(ctx, id)
	if err != nil {
		return err
	}
	logs, err := s.Docker.Logs(ctx, id, false, -1)
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

// downPatience is how long a tear-down may take beside the grace of what it stops.
const downPatience = 2 * time.Minute

// Undo ends what may be there although it could not be started, as far as we know.
func (s *Session) Undo(ctx context.Context, rt Runtime, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downPatience)
	defer cancel()
	_, err := rt.Stop(ctx, name, 0)
	if err == nil || errors.As(err, new(*agent.HeldError)) {
		return nil
	}
	return s.undone(name, err)
}

// Down has the agent stop a container or process and prove that it is gone: it is removed, nothing listens on its port
// any more, and the GPUs are as they were. What could not be done the agent tries again at the end of its claim.
func (s *Session) Down(ctx context.Context, rt Runtime, ct provision.Container, tell Tell) error {
	within := 2*ct.StopGrace + s.opt.Release + downPatience
	if ctx.Err() == nil { // a network that comes back while the lease lasts costs nothing; who has interrupted is not kept waiting
		within += time.Duration(s.work.Claim.TTL)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	defer context.AfterFunc(s.Held, func() {
		if s.lease.unreachable() {
			cancel() // it cleans itself
		}
	})()
	warnings, err := rt.Stop(ctx, ct.Name, ct.StopGrace)
	for _, text := range warnings {
		tell.say(s.Host, Warning, "%s", text)
	}
	switch {
	case err == nil:
		proved := "stopped, removed, port closed"
		if s.watched {
			proved += ", GPU memory given back"
		}
		tell.say(s.Host, Down, "%s", proved)
		return nil
	case errors.As(err, new(*agent.HeldError)): // by now another's, who ends it
		return nil
	case s.Pod != nil: // which is deleted next, and proves more
		tell.say(s.Host, Warning, "it goes with its pod: %v", err)
		return nil
	}
	return s.undone(ct.Name, err)
}
