package provision

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeld(t *testing.T) {
	const ours, other = "0123456789ab", "ba9876543210"
	before := GPUUse{Memory: []int64{1 << 20, 2 << 30}, Processes: []GPUProcess{{PID: 5, Name: "jupyter", Memory: 2 << 30}}}
	traces := Traces{Before: before, Containers: []string{ours}, Marks: []string{"/home/ada/.cache/hcl/agents/x/"}}
	for name, c := range map[string]struct {
		now    GPUUse
		left   []string
		others int
	}{
		"as before":         {before, nil, 0},
		"a little more":     {GPUUse{Memory: []int64{100 << 20, 2 << 30}, Processes: before.Processes}, nil, 0},
		"another has ended": {GPUUse{Memory: []int64{1 << 20, 1 << 20}}, nil, 0},
		"leaked": {GPUUse{Memory: []int64{90 << 30, 2 << 30}, Processes: before.Processes},
			[]string{"GPU 0 has 92159 MiB more in use than before"}, 0},
		"leaked with an owner": {
			GPUUse{Memory: []int64{90 << 30, 2 << 30},
				Processes: []GPUProcess{{PID: 9, Name: "VLLM::Worker", Memory: 90 << 30, Container: ours}}},
			[]string{"VLLM::Worker (process 9 in container 0123456789ab, 92160 MiB) still uses a GPU",
				"GPU 0 has 92159 MiB more in use than before"}, 0,
		},
		"ours by its mark": {
			GPUUse{Memory: before.Memory, Processes: []GPUProcess{{PID: 9, Name: "python3", Mark: "/home/ada/.cache/hcl/agents/x/e"}}},
			[]string{"python3 (process 9) still uses a GPU"}, 0,
		},
		"somebody else came": {
			GPUUse{Memory: []int64{90 << 30, 2 << 30},
				Processes: []GPUProcess{{PID: 9, Name: "python3", Memory: 90 << 30, Container: other}}}, nil, 1,
		},
		"somebody else came, and we leaked": {
			GPUUse{Memory: []int64{90 << 30, 50 << 30}, Processes: []GPUProcess{{PID: 9, Name: "python3", Memory: 20 << 30}}},
			[]string{"GPU 0 has 92159 MiB more in use than before", "GPU 1 has 49152 MiB more in use than before"}, 1,
		},
		"somebody else came on another GPU": {
			GPUUse{Memory: []int64{70 << 30, 82 << 30},
				Processes: []GPUProcess{{PID: 9, Name: "python3", Memory: 80 << 30, GPUs: map[int]int64{1: 80 << 30}}}},
			[]string{"GPU 0 has 71679 MiB more in use than before"}, 1,
		},
		"a GPU fell off": {GPUUse{Memory: before.Memory[:1], Problems: []string{"nvidia-smi: GPU is lost"}},
			[]string{"2 GPUs answered before, now 1: nvidia-smi: GPU is lost"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			left, others := traces.Held(c.now)
			for i := range left {
				left[i] = strings.TrimSuffix(left[i], ", held by no process")
			}
			if diff := cmp.Diff(c.left, left); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(others) != c.others {
				t.Errorf("others: %v, want %d", others, c.others)
			}
		})
	}
}
