package provision

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"hclbench/plain"
)

// Self is the first word of a process's command that stands for the hcl binary
// itself, wherever that is on the host.
const Self = "hcl"

// Labels say whose a container, process or object of a cluster is, and what it is there for: destroy and the next
// apply find it by them. A claim is what one run has at one place: store, lab, run and agent together name it. A lab's
// name alone is anybody's.
const (
	LabelLab        = "hcl.lab"
	LabelRun        = "hcl.run"
	LabelStore      = "hcl.store" // id of the results' store
	LabelAgent      = "hcl.agent" // directory of the agent that has made it, and that ends it
	LabelDeployment = "hcl.deployment"
	LabelEngine     = "hcl.engine"
	LabelMember     = "hcl.member" // of a deployment of several: "decode 0 rank 1"
)

// EnvVar is one variable of a container's environment.
type EnvVar struct {
	Name  string `json:"name"`
	Value Text   `json:"value"`
}

// Mount binds a path of the host into a container. The source is created when it is missing.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Ulimit is one resource limit; -1 is unlimited.
type Ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Container is everything that is asked of a container, in an order of its own so that two equal
// containers are equal as text. With [Process] the same value describes a process: Entrypoint
// and Command, Env, Labels and the stop settings apply, the rest has no meaning there.
type Container struct {
	Name       string            `json:"name,omitempty"`
	Image      string            `json:"image,omitempty"`
	Entrypoint []Text            `json:"entrypoint,omitzero"` // nil: the image's own
	Command    []Text            `json:"command,omitzero"`
	Env        []EnvVar          `json:"env,omitempty"` // sorted by name
	Labels     map[string]string `json:"labels,omitempty"`
	Mounts     []Mount           `json:"mounts,omitempty"`
	Files      []File            `json:"files,omitempty"`

	// GPUs asks for NVIDIA GPUs through the container toolkit; AMD GPUs come as
	// Devices and HostGroups.
	GPUs        int      `json:"gpus,omitempty"`        // -1: all; 0: none
	GPUIDs      []string `json:"gpu_ids,omitempty"`     // these and no others; overrides GPUs
	Devices     []string `json:"devices,omitempty"`     // paths on the host, such as /dev/kfd
	HostGroups  []string `json:"host_groups,omitempty"` // names, of which images often have none: the host's numbers are taken
	CapAdd      []string `json:"cap_add,omitempty"`
	SecurityOpt []string `json:"security_opt,omitempty"`
	Privileged  bool     `json:"privileged,omitempty"`
	IPC         string   `json:"ipc,omitempty"`      // "host" or ""
	PID         string   `json:"-"`                  // "container:" and an id, whose processes it sees; never of an engine
	Network     string   `json:"network,omitempty"`  // "host", "bridge" (Port is published on 127.0.0.1), or "none"
	ShmSize     int64    `json:"shm_size,omitempty"` // bytes; 0: the daemon's default
	Ulimits     []Ulimit `json:"ulimits,omitempty"`
	User        string   `json:"user,omitempty"`
	WorkDir     string   `json:"work_dir,omitempty"`

	Port       int           `json:"port,omitempty"` // where the engine listens
	Listens    []int         `json:"-"`              // all ports that have to be closed when it is gone
	Init       bool          `json:"init,omitempty"` // an init as pid 1, which reaps and forwards signals
	StopSignal string        `json:"stop_signal,omitempty"`
	StopGrace  time.Duration `json:"-"` // between the stop signal and SIGKILL
}

// AskedAgain is how long after its stop signal what has such a grace gets it again, and again: vLLM 0.32 loses one that comes
// while its engine core loads, and would not end before it is killed.
func AskedAgain(grace time.Duration) time.Duration { return max(grace/6, time.Millisecond) }

// MarshalJSON adds StopGrace, as text: "1m0s".
func (c Container) MarshalJSON() ([]byte, error) {
	type plain Container
	return json.Marshal(struct {
		plain
		StopGrace string `json:"stop_grace,omitempty"`
	}{plain(c), c.StopGrace.String()})
}

// Texts are all that may hold secrets: words of the command, variables, files.
func (c Container) Texts() (texts []*Text) {
	for i := range c.Entrypoint {
		texts = append(texts, &c.Entrypoint[i])
	}
	for i := range c.Command {
		texts = append(texts, &c.Command[i])
	}
	for i := range c.Env {
		texts = append(texts, &c.Env[i].Value)
	}
	for i := range c.Files {
		texts = append(texts, &c.Files[i].Text)
	}
	return texts
}

// MayAs is a container of the same image that may do what this one may, under a name of its own.
func (c Container) MayAs(suffix string) Container {
	return Container{
		Name: c.Name + suffix, Image: c.Image, Labels: maps.Clone(c.Labels),
		CapAdd: c.CapAdd, SecurityOpt: c.SecurityOpt, Privileged: c.Privileged, User: c.User,
	}
}

// Published reports whether Docker forwards the port to the container, which has a
// network of its own.
func (c Container) Published() bool { return c.Port != 0 && (c.Network == "" || c.Network == "bridge") }

// OnHost is where a path of the container lies on the host: below the mount that holds
// it, or as it is.
func (c Container) OnHost(file string) string {
	at, longest := file, -1
	for _, m := range c.Mounts {
		rest, below := strings.CutPrefix(file, m.Target)
		if below && (rest == "" || rest[0] == '/') && len(m.Target) > longest {
			at, longest = m.Source+rest, len(m.Target)
		}
	}
	return at
}

// State is what a container or process is doing.
type State struct {
	Running   bool
	PID       int // of the process that was started; 0 when not running
	ExitCode  int // meaningful when not running
	OOMKilled bool
	Error     string // the daemon's own words, when it could not start or run it
	Started   time.Time
	Finished  time.Time
}

// Exit says how what ran on a host has ended.
func (s State) Exit(h *Host) string {
	switch {
	case s.OOMKilled && h.Cluster != nil:
		return "its node's kernel killed it: out of memory: see limits of the host's block"
	case s.OOMKilled:
		return "the host's kernel killed it: out of memory"
	case s.Error != "":
		return fmt.Sprintf("exited with code %d: %s", s.ExitCode, s.Error)
	case s.ExitCode == 137 && h.Cluster != nil: // the runtime may see the end before it hears from the kernel, and then says nothing of memory
		return "exited with code 137 (killed, the cluster does not say by whom: if nobody did, its node's kernel, out of memory: see limits of the host's block)"
	case s.ExitCode > 128 && s.ExitCode < 160:
		return strings.TrimSuffix(fmt.Sprintf("exited with code %d (%s)", s.ExitCode, signals[s.ExitCode-128]), " ()") // as of who is ended by a signal
	default:
		return fmt.Sprintf("exited with code %d", s.ExitCode)
	}
}

// signals are Linux's, by number: the caller's system may have others.
var signals = map[int]string{1: "hangup", 2: "interrupt", 3: "quit", 4: "illegal instruction", 5: "trap", 6: "aborted", 7: "bus error",
	8: "floating point exception", 9: "killed", 11: "segmentation fault", 13: "broken pipe", 15: "terminated"}

// Found is a container or process that exists on a host.
type Found struct {
	ID     string
	Name   string
	Image  string
	Labels map[string]string
	State  string // the runtime's word: "running", "exited", "created"
}

// File is a small file that a container, or a process, finds when it starts. It is
// copied, not mounted: nothing of it is left on the host.
type File struct {
	Name string `json:"name"` // in [FilesDir]; of a process, in the directory that it starts in
	Text Text   `json:"text"`
}

// FilesDir is where a container finds its files.
const FilesDir = "/hcl"

// ShortID is a container's id as Docker shows it.
func ShortID(id string) string { return id[:min(len(id), 12)] }

// ImageFrom says who fetches a host's images.
type ImageFrom string

const (
	// FromRegistry: the host's daemon asks the registry. The zero value means it.
	FromRegistry ImageFrom = "registry"
	// FromCaller: the daemon asks the caller, and the caller the registry, for
	// hosts without a way out.
	FromCaller ImageFrom = "caller"
)

// PullProgress is how far a pull is. Total grows while the registry tells the sizes of the layers.
type PullProgress struct {
	Bytes  int64  `json:"bytes"`  // downloaded
	Total  int64  `json:"total"`  // to download, as far as is known
	Layers int    `json:"layers"` // of the image
	Done   int    `json:"done"`   // layers downloaded and unpacked, or there before
	Phase  string `json:"phase"`  // "asking the registry", "downloading", "unpacking", "trying again"
}

// Image is an image on a host.
type Image struct {
	Ref        string // as asked for
	ID         string // "sha256:…" of its configuration
	Digest     string // "sha256:…" of its manifest in the repository; "" for one that was built on the host
	Size       int64  // bytes on disk
	Local      bool   // the registry could not be asked: this is what was there
	Entrypoint []string
	Cmd        []string
	StopSignal string // "": Docker's default, SIGTERM
}

// ImageRoom is what an image still takes of a host's disk.
type ImageRoom struct {
	There bool   // the host has it: nothing else is known, or asked
	Pull  int64  // bytes that are to be downloaded: of layers that no image of the host has
	Disk  int64  // bytes that they become at least
	Path  string // where images are kept
	Free  int64  // bytes there
}

// Fits reports whether the image does not certainly lack room.
func (r ImageRoom) Fits() bool { return r.There || r.Disk <= r.Free }

// Lack says what is missing for an image that does not fit, and what to do.
func (r ImageRoom) Lack(image string) string {
	return fmt.Sprintf("%s has layers of %s still to come, which unpack to %s at least, and %s has %s free: "+
		"see `docker system df`, and make room with `docker image prune --all`, "+
		"or keep Docker's data on another disk (data-root in /etc/docker/daemon.json)",
		image, plain.Bytes(r.Pull), plain.Bytes(r.Disk), r.Path, plain.Bytes(r.Free))
}
