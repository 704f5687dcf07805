package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DockerVersion returns the daemon's version, such as "28.5.2". Its error is
// [ErrNoDocker] with what to do, when Docker is not there or may not be used.
func (c *Conn) DockerVersion(ctx context.Context) (string, error) {
	var version struct{ Version string }
	if err := c.daemon.get(ctx, "/version", nil, &version); err != nil {
		return "", c.wrap("ask Docker's version", err)
	}
	return version.Version, nil
}

func (c *Conn) wrap(doing string, err error) error { return wrap(c.host, doing, err) }

// The parts of Docker's create request that hcl uses, by Docker's names.
type (
	createRequest struct {
		Image        string
		Entrypoint   []string            `json:",omitempty"`
		Cmd          []string            `json:",omitempty"`
		Env          []string            `json:",omitempty"`
		Labels       map[string]string   `json:",omitempty"`
		User         string              `json:",omitempty"`
		WorkingDir   string              `json:",omitempty"`
		StopSignal   string              `json:",omitempty"`
		StopTimeout  *int                `json:",omitempty"` // seconds
		ExposedPorts map[string]struct{} `json:",omitempty"`
		HostConfig   hostConfig
	}
	hostConfig struct {
		Binds          []string        `json:",omitempty"`
		DeviceRequests []deviceRequest `json:",omitempty"`
		Devices        []device        `json:",omitempty"`
		GroupAdd       []string        `json:",omitempty"`
		CapAdd         []string        `json:",omitempty"`
		SecurityOpt    []string        `json:",omitempty"`
		Privileged     bool            `json:",omitempty"`
		IpcMode        string          `json:",omitempty"`
		NetworkMode    string          `json:",omitempty"`
		ShmSize        int64           `json:",omitempty"`
		Ulimits        []Ulimit        `json:",omitempty"`
		Init           bool
		PortBindings   map[string][]portBinding `json:",omitempty"`
		RestartPolicy  struct{ Name string }
		LogConfig      logConfig
	}
	deviceRequest struct {
		Count        int      `json:",omitempty"` // -1: all
		DeviceIDs    []string `json:",omitempty"`
		Capabilities [][]string
	}
	device struct {
		PathOnHost        string
		PathInContainer   string
		CgroupPermissions string
	}
	portBinding struct{ HostIp, HostPort string }
	logConfig   struct {
		Type   string
		Config map[string]string
	}
)

// logDriver is the one whose logs every daemon can read back.
const logDriver = "json-file"

// logOptions keep a container's log from filling the disk in a long run; its
// end survives the turn of the file.
var logOptions = map[string]string{"max-size": "100m", "max-file": "2"}

// newCreateRequest is a container in Docker's terms. groups are the numeric ids
// of its host groups, home is where "~/" in a mount's source points.
func newCreateRequest(ct Container, groups []string, home string) (createRequest, error) {
	r := createRequest{
		Image:      ct.Image,
		Cmd:        reveal(ct.Command),
		Labels:     ct.Labels,
		User:       ct.User,
		WorkingDir: ct.WorkDir,
		StopSignal: ct.StopSignal,
		HostConfig: hostConfig{
			GroupAdd:    groups,
			CapAdd:      ct.CapAdd,
			SecurityOpt: ct.SecurityOpt,
			Privileged:  ct.Privileged,
			IpcMode:     ct.IPC,
			NetworkMode: ct.Network,
			ShmSize:     ct.ShmSize,
			Ulimits:     ct.Ulimits,
			Init:        ct.Init,
			LogConfig:   logConfig{logDriver, logOptions},
		},
	}
	r.HostConfig.RestartPolicy.Name = "no" // a crash is a result, not something to hide
	if ct.Entrypoint != nil {
		r.Entrypoint = reveal(ct.Entrypoint)
		if len(r.Entrypoint) == 0 {
			r.Entrypoint = []string{""} // Docker's way to say "none, not even the image's"
		}
	}
	for _, e := range ct.Env {
		r.Env = append(r.Env, e.Name+"="+e.Value.Reveal())
	}
	if ct.StopGrace > 0 {
		seconds := int(math.Ceil(ct.StopGrace.Seconds()))
		r.StopTimeout = &seconds
	}
	for _, m := range ct.Mounts {
		source := m.Source
		if rest, ok := strings.CutPrefix(source, "~/"); ok {
			source = path.Join(home, rest)
		}
		if strings.Contains(source+m.Target, ":") {
			return r, fmt.Errorf("mount %s at %s: a path with a colon cannot be mounted", source, m.Target)
		}
		// Of Docker's two kinds of mounts, this is the one that creates a
		// missing source on every version.
		bind := source + ":" + m.Target
		if m.ReadOnly {
			bind += ":ro"
		}
		r.HostConfig.Binds = append(r.HostConfig.Binds, bind)
	}
	if len(ct.GPUIDs) > 0 {
		r.HostConfig.DeviceRequests = []deviceRequest{{DeviceIDs: ct.GPUIDs, Capabilities: [][]string{{"gpu"}}}}
	} else if ct.GPUs != 0 {
		r.HostConfig.DeviceRequests = []deviceRequest{{Count: ct.GPUs, Capabilities: [][]string{{"gpu"}}}}
	}
	for _, d := range ct.Devices {
		r.HostConfig.Devices = append(r.HostConfig.Devices, device{d, d, "rwm"})
	}
	if published(ct) {
		port := strconv.Itoa(ct.Port) + "/tcp"
		r.ExposedPorts = map[string]struct{}{port: {}}
		r.HostConfig.PortBindings = map[string][]portBinding{port: {{"127.0.0.1", strconv.Itoa(ct.Port)}}}
	}
	return r, nil
}

// published reports whether the container's port has to be published to be
// reached from its host.
func published(ct Container) bool {
	return ct.Port != 0 && (ct.Network == "" || ct.Network == "bridge")
}

func reveal(texts []Text) []string {
	var clear []string
	for _, t := range texts {
		clear = append(clear, t.Reveal())
	}
	return clear
}

// Start creates a container and starts it; its image must be on the host, see
// [Conn.Pull]. When it does not start, nothing is left behind. Its errors are
// [ErrNameTaken], [ErrPortTaken], [ErrNoGPURuntime] and [ErrImageNotFound],
// with what to do.
func (c *Conn) Start(ctx context.Context, ct Container) (id string, err error) {
	doing := "start container " + ct.Name
	if err := c.portFree(ctx, ct); err != nil {
		return "", c.wrap(doing, err)
	}
	groups, err := c.groupIDs(ctx, ct.HostGroups)
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	request, err := newCreateRequest(ct, groups, c.home)
	if err != nil {
		return "", c.wrap(doing, err)
	}
	var created struct {
		ID       string
		Warnings []string
	}
	err = c.daemon.call(ctx, http.MethodPost, "/containers/create", url.Values{"name": {ct.Name}}, request, &created)
	if err != nil {
		return "", c.wrap(doing, c.explainStart(ctx, ct, err))
	}
	for _, w := range created.Warnings {
		c.log.Warn("docker warns about a container", "container", ct.Name, "warning", w)
	}
	err = c.daemon.call(ctx, http.MethodPost, "/containers/"+created.ID+"/start", nil, nil, nil)
	if err != nil {
		err = c.explainStart(ctx, ct, err)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return "", errors.Join(c.wrap(doing, err), c.Stop(ctx, created.ID, 0))
	}
	return created.ID, nil
}

// cleanupTimeout bounds the removal of what a failed start has left.
const cleanupTimeout = 30 * time.Second

// portFree fails when somebody answers on the port that a container will listen
// on. On the host's network Docker would not notice, and the stranger would be
// taken for the engine.
func (c *Conn) portFree(ctx context.Context, ct Container) error {
	if ct.Port == 0 || ct.Network == "none" {
		return nil
	}
	conn, err := c.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ct.Port)))
	if err == nil {
		conn.Close()
		return c.portTaken(ctx, ct.Port)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, ErrUnreachable) {
		return err
	}
	return nil // refused, as it should be; or sshd forwards no TCP, and nothing is known
}

// portTaken names who holds a port, as far as the login may see it.
func (c *Conn) portTaken(ctx context.Context, port int) error {
	holder, err := c.Run(ctx, fmt.Sprintf("ss -Hltnp 'sport = :%d' 2>/dev/null | head -n 3", port), nil)
	if err != nil || strings.TrimSpace(holder) == "" {
		holder = fmt.Sprintf("`sudo ss -ltnp 'sport = :%d'` on the host tells who", port)
	} else {
		holder = "it is held by " + lastLines(strings.Join(strings.Fields(holder), " "), 1)
	}
	return fail(c.host, ErrPortTaken, "port %d is in use: %s; stop that, or give the engine another port", port, holder)
}

// groupIDs looks up the host's numeric ids of groups. One that does not exist
// there owns nothing there, so it is left out.
func (c *Conn) groupIDs(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = quote(n)
	}
	out, err := c.Run(ctx, "getent group "+strings.Join(words, " "), nil)
	var failed *CommandError
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
			c.log.Warn("group does not exist on the host, left out", "group", n)
		}
	}
	return ids, nil
}

// explainStart turns the daemon's refusal to create or start a container into
// what to do about it.
func (c *Conn) explainStart(ctx context.Context, ct Container, err error) error {
	switch {
	case refusedWith(err, http.StatusConflict) && says(err, "name"):
		return fail(c.host, ErrNameTaken, "a container with that name exists (%w): look at it with `docker inspect %s`, and remove it with `docker rm` when nobody needs it", err, ct.Name)
	case refusedWith(err, http.StatusNotFound) && says(err, "no such image"):
		return fail(c.host, ErrImageNotFound, "image %s is not on the host: pull it first (%w)", ct.Image, err)
	case says(err, "could not select device driver"):
		return fail(c.host, ErrNoGPURuntime, "Docker has no NVIDIA runtime (%w): install nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`", err)
	case says(err, "nvidia-container-cli", "nvidia-container-runtime", "libnvidia-ml"):
		return fail(c.host, ErrNoGPURuntime, "the NVIDIA runtime does not find a working driver (%w): see whether `nvidia-smi` works on the host; after a driver update it takes a reboot", err)
	case says(err, "/dev/kfd", "/dev/dri"):
		return fail(c.host, ErrNoGPURuntime, "the host has no AMD GPU devices (%w): see whether the amdgpu driver is loaded, with `lsmod | grep amdgpu` and `ls /dev/kfd /dev/dri`", err)
	case says(err, "port is already allocated", "address already in use"):
		return c.portTaken(ctx, ct.Port)
	}
	return err
}

// inspected is what hcl reads of Docker's description of a container.
type inspected struct {
	ID    string
	State struct {
		Running    bool
		ExitCode   int
		OOMKilled  bool
		Error      string
		StartedAt  time.Time
		FinishedAt time.Time
	}
}

func (c *Conn) inspect(ctx context.Context, id string) (inspected, error) {
	var found inspected
	err := c.daemon.get(ctx, "/containers/"+url.PathEscape(id)+"/json", nil, &found)
	if refusedWith(err, http.StatusNotFound) {
		err = fmt.Errorf("%w (%w)", ErrNoContainer, err)
	}
	return found, err
}

// State says what a container is doing. [ErrNoContainer] when it is gone.
func (c *Conn) State(ctx context.Context, id string) (State, error) {
	found, err := c.inspect(ctx, id)
	if err != nil {
		return State{}, c.wrap("inspect container "+shortID(id), err)
	}
	s := found.State
	return State{
		Running:   s.Running,
		ExitCode:  s.ExitCode,
		OOMKilled: s.OOMKilled,
		Error:     s.Error,
		Started:   s.StartedAt,
		Finished:  s.FinishedAt,
	}, nil
}

// Wait waits until a container does not run, and returns its state then.
// [ErrNoContainer] when it is gone.
func (c *Conn) Wait(ctx context.Context, id string) (State, error) {
	err := c.wait(ctx, id, "not-running")
	if err != nil {
		return State{}, c.wrap("wait for container "+shortID(id), err)
	}
	return c.State(ctx, id)
}

func (c *Conn) wait(ctx context.Context, id, condition string) error {
	err := c.daemon.call(ctx, http.MethodPost, "/containers/"+url.PathEscape(id)+"/wait", url.Values{"condition": {condition}}, nil, nil)
	if refusedWith(err, http.StatusNotFound) {
		err = fmt.Errorf("%w (%w)", ErrNoContainer, err)
	}
	return err
}

// List finds every container that has all those labels, stopped ones too,
// sorted by name. At least one label is needed: nobody asks for every container
// of a host by intention.
func (c *Conn) List(ctx context.Context, labels map[string]string) ([]Found, error) {
	if len(labels) == 0 {
		return nil, fmt.Errorf("%s: list containers: no label was given", c.host)
	}
	var wanted []string
	for k, v := range labels {
		wanted = append(wanted, k+"="+v)
	}
	filters, err := json.Marshal(map[string][]string{"label": wanted})
	if err != nil {
		return nil, fmt.Errorf("encode labels: %w", err)
	}
	var listed []struct {
		ID     string
		Names  []string
		Image  string
		Labels map[string]string
		State  string
	}
	err = c.daemon.get(ctx, "/containers/json", url.Values{"all": {"1"}, "filters": {string(filters)}}, &listed)
	if err != nil {
		return nil, c.wrap("list containers", err)
	}
	found := make([]Found, 0, len(listed))
	for _, l := range listed {
		f := Found{ID: l.ID, Image: l.Image, Labels: l.Labels, State: l.State}
		if len(l.Names) > 0 {
			f.Name = strings.TrimPrefix(l.Names[0], "/")
		}
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	return found, nil
}

// shortID is a container's id as Docker shows it.
func shortID(id string) string { return id[:min(len(id), 12)] }
