package docker

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-connections/nat"

	"hclbench/plain"
	"hclbench/provision"
)

// logDriver is the one whose logs every daemon can read back.
const logDriver = "json-file"

// logOptions keep a container's log from filling the disk in a long run; its
// end survives the turn of the file.
var logOptions = map[string]string{"max-size": "100m", "max-file": "2"}

// Run is the `docker run` line that does what [Daemon.Start] does with a
// container, for people to read, keep and try by hand. Words are quoted for a
// shell on the host; secrets show as [provision.Redacted].
func Run(ct provision.Container) string { return strings.Join(newSpec(ct, nil, "").words, " ") }

// spec is a container in Docker's terms: as words of `docker run`, and as what the
// daemon is asked for. What is known of a setting stands in one place for both.
type spec struct {
	words  []string
	config container.Config
	host   container.HostConfig
	err    error // why it cannot be asked for
}

// newSpec describes a container. groups are the numeric ids of its host groups, home is
// where "~/" in a mount's source points: the daemon needs them, a shell finds them.
func newSpec(ct provision.Container, groups []string, home string) *spec {
	s := &spec{words: []string{"docker", "run", "--detach"}}
	s.config.Image, s.config.Labels = ct.Image, ct.Labels
	s.host.RestartPolicy.Name = container.RestartPolicyDisabled // a crash is a result, not something to hide
	s.flag("--name", ct.Name)
	s.pairs("--label", ct.Labels)
	for _, e := range ct.Env {
		s.flag("--env", e.Name+"="+e.Value.String())
		s.config.Env = append(s.config.Env, e.Name+"="+e.Value.Reveal())
	}
	for _, m := range ct.Mounts {
		s.mount(m, home)
	}
	for _, f := range ct.Files { // saved by whoever tries it
		s.words = append(s.words, "--volume", `"$PWD"/`+plain.Quote(f.Name+":"+path.Join(provision.FilesDir, f.Name)))
	}
	s.devices(ct, groups)
	s.isolation(ct)
	s.process(ct)
	s.flag("--log-driver", logDriver)
	s.pairs("--log-opt", logOptions)
	s.host.LogConfig = container.LogConfig{Type: logDriver, Config: logOptions}
	s.command(ct)
	return s
}

// flag adds a flag with its value, unless that is empty, and returns the value.
func (s *spec) flag(name, value string) string {
	if value != "" {
		s.words = append(s.words, name, plain.Quote(value))
	}
	return value
}

func (s *spec) flags(name string, values []string) []string {
	for _, v := range values {
		s.flag(name, v)
	}
	return values
}

func (s *spec) pairs(name string, all map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(all)) {
		s.flag(name, k+"="+all[k])
	}
}

func (s *spec) is(name string, set bool) bool {
	if set {
		s.words = append(s.words, name)
	}
	return set
}

// mount binds a path of the host. Of Docker's two kinds of mounts, this is the one that
// creates a missing source on every version.
func (s *spec) mount(m provision.Mount, home string) {
	target := ":" + m.Target
	if m.ReadOnly {
		target += ":ro"
	}
	source := m.Source
	if rest, ok := strings.CutPrefix(source, "~/"); ok {
		s.words = append(s.words, "--volume", "~/"+plain.Quote(rest+target)) // a quoted ~ would not be expanded
		source = path.Join(home, rest)
	} else {
		s.flag("--volume", source+target)
	}
	if strings.Contains(source+m.Target, ":") {
		s.err = fmt.Errorf("mount %s at %s: a path with a colon cannot be mounted", source, m.Target)
	}
	s.host.Binds = append(s.host.Binds, source+target)
}

func (s *spec) devices(ct provision.Container, groups []string) {
	gpus := container.DeviceRequest{DeviceIDs: ct.GPUIDs, Count: ct.GPUs, Capabilities: [][]string{{"gpu"}}}
	switch {
	case len(ct.GPUIDs) > 0:
		// Docker reads this value as CSV, so the list of ids needs quotes in it.
		s.flag("--gpus", `"device=`+strings.Join(ct.GPUIDs, ",")+`"`)
		gpus.Count = 0
	case ct.GPUs < 0:
		s.flag("--gpus", "all")
	case ct.GPUs > 0:
		s.flag("--gpus", strconv.Itoa(ct.GPUs))
	}
	if len(ct.GPUIDs) > 0 || ct.GPUs != 0 {
		s.host.DeviceRequests = []container.DeviceRequest{gpus}
	}
	for _, d := range s.flags("--device", ct.Devices) {
		s.host.Devices = append(s.host.Devices,
			container.DeviceMapping{PathOnHost: d, PathInContainer: d, CgroupPermissions: "rwm"})
	}
	for _, g := range ct.HostGroups {
		s.words = append(s.words, "--group-add", fmt.Sprintf(`"$(getent group %s | cut -d: -f3)"`, plain.Quote(g)))
	}
	s.host.GroupAdd = groups
}

func (s *spec) isolation(ct provision.Container) {
	s.host.CapAdd = s.flags("--cap-add", ct.CapAdd)
	s.host.SecurityOpt = s.flags("--security-opt", ct.SecurityOpt)
	s.host.Privileged = s.is("--privileged", ct.Privileged)
	s.host.IpcMode = container.IpcMode(s.flag("--ipc", ct.IPC))
	s.host.PidMode = container.PidMode(s.flag("--pid", ct.PID))
	s.host.NetworkMode = container.NetworkMode(s.flag("--network", ct.Network))
	if ct.Published() {
		s.flag("--publish", fmt.Sprintf("127.0.0.1:%[1]d:%[1]d", ct.Port))
		port := nat.Port(strconv.Itoa(ct.Port) + "/tcp")
		s.config.ExposedPorts = nat.PortSet{port: {}} // without it, Docker ignores the binding
		s.host.PortBindings = nat.PortMap{port: {{HostIP: "127.0.0.1", HostPort: strconv.Itoa(ct.Port)}}}
	}
	if s.host.ShmSize = ct.ShmSize; ct.ShmSize > 0 {
		s.flag("--shm-size", fmt.Sprintf("%db", ct.ShmSize))
	}
	for _, u := range ct.Ulimits {
		s.flag("--ulimit", fmt.Sprintf("%s=%d:%d", u.Name, u.Soft, u.Hard))
		s.host.Ulimits = append(s.host.Ulimits, &container.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
}

func (s *spec) process(ct provision.Container) {
	s.config.User = s.flag("--user", ct.User)
	s.config.WorkingDir = s.flag("--workdir", ct.WorkDir)
	init := s.is("--init", ct.Init)
	s.host.Init = &init
	s.config.StopSignal = s.flag("--stop-signal", ct.StopSignal)
	if ct.StopGrace > 0 {
		seconds := int(math.Ceil(ct.StopGrace.Seconds()))
		s.flag("--stop-timeout", strconv.Itoa(seconds))
		s.config.StopTimeout = &seconds
	}
}

// command is what is run, and in which image. The flag takes one word of the
// entrypoint; the others go before the command.
func (s *spec) command(ct provision.Container) {
	s.config.Cmd = reveal(ct.Command)
	words := ct.Command
	if ct.Entrypoint != nil {
		s.config.Entrypoint = reveal(ct.Entrypoint)
		first := ""
		if len(ct.Entrypoint) > 0 {
			first = ct.Entrypoint[0].String()
			words = slices.Concat(ct.Entrypoint[1:], words)
		} else {
			s.config.Entrypoint = []string{""} // Docker's way to say "none, not even the image's"
		}
		s.words = append(s.words, "--entrypoint", plain.Quote(first))
	}
	s.words = append(s.words, plain.Quote(ct.Image))
	for _, w := range words {
		s.words = append(s.words, plain.Quote(w.String()))
	}
}

func reveal(texts []provision.Text) []string {
	var clear []string
	for _, t := range texts {
		clear = append(clear, t.Reveal())
	}
	return clear
}
