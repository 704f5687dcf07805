package provision

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ReleaseWait is how long a driver may take to give memory back after the last
// process that used it has ended. It is seconds for 8 GPUs; longer means that
// nobody will.
const ReleaseWait = 45 * time.Second

// releaseSlack is how much more of a GPU's memory may be in use than before:
// drivers keep some for themselves. A leaked CUDA context is about 500 MiB.
const releaseSlack = 256 << 20

// Traces are what engines that were taken down may have left on a host.
type Traces struct {
	Before     GPUUse   `json:"before"`               // as the GPUs were before the first of them came
	Containers []string `json:"containers,omitempty"` // their ids
	Mark       string   `json:"mark,omitempty"`       // how the [ProcessMark] of their processes begins
	Ports      []int    `json:"ports,omitempty"`      // where they listened
}

// Ours reports whether a process, with its container and its [ProcessMark], belongs
// to what was taken down.
func (t Traces) Ours(container, mark string) bool {
	return container != "" && slices.Contains(t.Containers, container) ||
		t.Mark != "" && strings.HasPrefix(mark, t.Mark)
}

// UncleanError says that something of ours is left on a host although it was
// taken down.
type UncleanError struct {
	Host *Host
	Left []string // what, and what holds it, one sentence each
}

func (e *UncleanError) Error() string {
	return fmt.Sprintf("%s is left unclean:\n  - %s\nNothing more is started there. "+
		"What nobody gives back takes a reset of the GPUs by their owner (`sudo nvidia-smi --gpu-reset`, "+
		"`sudo rocm-smi --gpureset -d N`, `sudo amd-smi reset --gpu N --gpureset`) or a reboot; the next apply looks again",
		e.Host, strings.Join(e.Left, "\n  - "))
}

// Held compares the GPUs with what they were.
func (t Traces) Held(now GPUUse) (left []string, others []GPUProcess) {
	if before, told := t.Before.told(), now.told(); told < before {
		why := strings.Join(now.Problems, "; ")
		return []string{fmt.Sprintf("%d GPUs answered before, now %d: %s", before, told, why)}, nil
	}
	var theirs int64
	for _, p := range now.Processes {
		i := slices.IndexFunc(t.Before.Processes, func(q GPUProcess) bool { return q.PID == p.PID && q.Name == p.Name })
		switch {
		case t.Ours(p.Container, p.Mark):
			left = append(left, p.String()+" still uses a GPU")
		case i < 0:
			others = append(others, p)
			theirs += p.Memory
		case p.Memory > t.Before.Processes[i].Memory:
			theirs += p.Memory - t.Before.Processes[i].Memory
		}
	}
	for gpu, used := range now.Memory[:min(len(now.Memory), len(t.Before.Memory))] {
		more := used - t.Before.Memory[gpu]
		if t.Before.Memory[gpu] == NotTold || more <= releaseSlack || more <= theirs+releaseSlack {
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
