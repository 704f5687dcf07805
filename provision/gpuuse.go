package provision

import (
	_ "embed"
	"fmt"
)

// ProcessMark is the variable in the environment of every process that an agent
// starts, and so of what that starts itself: its name on the host. It tells our
// processes where there are no containers to tell them by.
const ProcessMark = "HCL_PROCESS"

// LabelLab is the label with the lab's name that every container and process of a lab
// carries: it tells ours from those of others.
const LabelLab = "hcl.lab"

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

// told counts the GPUs of which the tool says what is in use.
func (u GPUUse) told() (n int) {
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
	Mark      string `json:"mark,omitempty"`      // value of [ProcessMark]
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
