package provision

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ProcessMark is the variable in the environment of every process that an agent starts, and of what
// that starts: its name on the host. It tells ours where there are no containers.
const ProcessMark = "HCL_PROCESS"

// GPUUse is what a host's GPUs are in use for at one moment.
type GPUUse struct {
	Memory    []int64      `json:"memory,omitempty"` // bytes in use on each GPU, by its index; [NotTold]
	Processes []GPUProcess `json:"processes,omitempty"`
	Problems  []string     `json:"problems,omitempty"` // what the tools said instead
}

// NotTold is the memory in use on a GPU of which the tool does not say: it is lost, or
// has no memory of its own.
const NotTold = -1

// Add notes the memory in use on a GPU.
func (u *GPUUse) Add(index int, bytes int64, told bool) {
	for len(u.Memory) <= index {
		u.Memory = append(u.Memory, NotTold)
	}
	if told {
		u.Memory[index] = bytes
	}
}

func (u GPUUse) countTold() (n int) {
	for _, bytes := range u.Memory {
		if bytes != NotTold {
			n++
		}
	}
	return n
}

// GPUProcess is a process that uses a GPU.
type GPUProcess struct {
	PID       int    `json:"pid"`
	Name      string `json:"name"`
	Memory    int64  `json:"memory,omitempty"`    // bytes on all GPUs; 0: the tool does not say
	Container string `json:"container,omitempty"` // id of the container that it runs in
	Mark      string `json:"mark,omitempty"`      // value of [ProcessMark], of the user who looks
	// GPUs are the bytes on each GPU that it uses, or at most there; nil: the tool does not say.
	GPUs map[int]int64 `json:"gpus,omitempty"`
}

// on is how much of a GPU's memory the process may use.
func (p GPUProcess) on(gpu int) int64 {
	if p.GPUs == nil {
		return p.Memory
	}
	return p.GPUs[gpu]
}

// String names the process for people.
func (p GPUProcess) String() string {
	s := fmt.Sprintf("%s (process %d", p.Name, p.PID)
	if p.Container != "" {
		s += " in container " + ShortID(p.Container)
	}
	if p.Memory > 0 {
		s += ", " + Mebibytes(p.Memory)
	}
	return s + ")"
}

func Mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// ReleaseWait is how long a driver may take to give memory back after the last process that used it
// has ended: seconds for 8 GPUs.
const ReleaseWait = 45 * time.Second

// releaseSlack is how much more of a GPU's memory may be in use than before:
// drivers keep some for themselves. A leaked CUDA context is about 500 MiB.
const releaseSlack = 256 << 20

// Traces are what engines that were taken down may have left on a host.
type Traces struct {
	Before     GPUUse   `json:"before"`               // as the GPUs were before the first of them came
	Containers []string `json:"containers,omitempty"` // their ids
	Marks      []string `json:"marks,omitempty"`      // how the [ProcessMark] of their processes begins
	Ports      []int    `json:"ports,omitempty"`      // where they listened
}

// Ours reports whether a process, with its container and its [ProcessMark], belongs
// to what was taken down.
func (t Traces) Ours(container, mark string) bool {
	return container != "" && slices.Contains(t.Containers, container) ||
		slices.ContainsFunc(t.Marks, func(own string) bool { return strings.HasPrefix(mark, own) })
}

// UncleanError says that something of ours is left on a host although it was taken down.
type UncleanError struct {
	Host *Host
	Left []string // what, and what holds it, one sentence each
}

// Unwrap is the kind of the error.
func (e *UncleanError) Unwrap() error { return ErrUnclean }

func (e *UncleanError) Error() string {
	return fmt.Sprintf("%s is left unclean:\n  - %s\nNothing more is started there. "+
		"What nobody gives back takes a reset of the GPUs by their owner (`sudo nvidia-smi --gpu-reset`, "+
		"`sudo rocm-smi --gpureset -d N`, `sudo amd-smi reset --gpu N --gpureset`) or a reboot; the next apply looks again",
		e.Host, strings.Join(e.Left, "\n  - "))
}

// Held compares the GPUs with what they were.
func (t Traces) Held(now GPUUse) (left []string, others []GPUProcess) {
	if before, told := t.Before.countTold(), now.countTold(); told < before {
		why := strings.Join(now.Problems, "; ")
		return []string{fmt.Sprintf("%d GPUs answered before, now %d: %s", before, told, why)}, nil
	}
	theirs := make([]int64, len(t.Before.Memory)) // what others have taken, by GPU
	for _, p := range now.Processes {
		var was GPUProcess
		i := slices.IndexFunc(t.Before.Processes, func(q GPUProcess) bool { return q.PID == p.PID && q.Name == p.Name })
		switch {
		case t.Ours(p.Container, p.Mark):
			left = append(left, p.String()+" still uses a GPU")
			continue
		case i < 0:
			others = append(others, p)
		default:
			was = t.Before.Processes[i]
		}
		for gpu := range theirs {
			theirs[gpu] += max(0, p.on(gpu)-was.on(gpu))
		}
	}
	for gpu, used := range now.Memory[:min(len(now.Memory), len(t.Before.Memory))] {
		more := used - t.Before.Memory[gpu]
		if t.Before.Memory[gpu] == NotTold || more <= releaseSlack || more <= theirs[gpu]+releaseSlack {
			continue
		}
		text := fmt.Sprintf("GPU %d has %s more in use than before", gpu, Mebibytes(more))
		if len(left)+len(others) == 0 {
			text += ", held by no process"
		}
		left = append(left, text)
	}
	return left, others
}
