package provision

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hclbench/plain"
	"hclbench/smi"
)

// gpuUseScript prints what the vendors' tools say of memory and processes, one
// fact per line as NAME=VALUE, and whose the processes are.
//
//go:embed gpuuse.sh
var gpuUseScript string

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

// use notes the memory in use on a GPU.
func (u *GPUUse) use(index int, bytes int64, told bool) {
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
		s += " in container " + shortID(p.Container)
	}
	if p.Memory > 0 {
		s += ", " + mebibytes(p.Memory)
	}
	return s + ")"
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// GPUUse asks the vendor's tool what the GPUs are in use for. A host without
// such a tool has none in use. A tool that fails is told in Problems.
func (c *Conn) GPUUse(ctx context.Context) (GPUUse, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, factsTimeout, fmt.Errorf("nothing came within %s: a driver may hang", factsTimeout))
	defer cancel()
	out, err := c.Run(ctx, gpuUseScript, nil)
	if err != nil {
		return GPUUse{}, fmt.Errorf("ask what uses the GPUs: %w", err)
	}
	return parseGPUUse(plain.Text(out)), nil
}

func parseGPUUse(out string) GPUUse {
	var u GPUUse
	memory := map[int]int64{} // of processes, summed over the GPUs
	names := map[int]string{}
	var seen []GPUProcess
	texts := map[string]string{} // of the tools that speak JSON
	for line := range strings.Lines(out) {
		kind, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch fields := strings.SplitN(value, ", ", 3); kind {
		case "nvidia":
			if value == "" {
				continue
			}
			index, err := strconv.ParseUint(fields[0], 10, 10)
			if err != nil || len(fields) != 2 {
				u.Problems = append(u.Problems, "nvidia-smi: "+value)
				continue
			}
			mib, err := strconv.ParseInt(fields[1], 10, 64)
			u.use(int(index), mib<<20, err == nil)
		case "app":
			if pid, err := strconv.Atoi(fields[0]); err == nil && len(fields) == 3 {
				memory[pid] += number(fields[1]) << 20
				names[pid] = fields[2]
			}
		case "rocm", "amdmem", "amdapp":
			texts[kind] += value + "\n"
		case "pid":
			f := strings.SplitN(value, "|", 4)
			if pid, err := strconv.Atoi(f[0]); err == nil && len(f) == 4 {
				seen = append(seen, GPUProcess{PID: pid, Container: f[1], Mark: f[2], Name: f[3]})
			}
		}
	}
	for _, tool := range []struct {
		kind, name string
		parse      func(text string, u *GPUUse, memory map[int]int64, names map[int]string) error
	}{{"rocm", "rocm-smi", parseROCmUse}, {"amdmem", "amd-smi", parseAMDMemory}, {"amdapp", "amd-smi", parseAMDProcesses}} {
		if text := texts[tool.kind]; strings.TrimSpace(text) != "" {
			if err := tool.parse(text, &u, memory, names); err != nil {
				u.Problems = append(u.Problems, tool.name+": "+err.Error())
			}
		}
	}
	for _, p := range seen {
		if slices.ContainsFunc(u.Processes, func(q GPUProcess) bool { return q.PID == p.PID }) {
			continue // on several GPUs
		}
		p.Memory = memory[p.PID]
		if p.Name == "" { // it has just ended, or is not ours to look at
			p.Name = names[p.PID]
		}
		u.Processes = append(u.Processes, p)
	}
	return u
}

// parseROCmUse reads rocm-smi --showmeminfo vram --showpids --json: an object per
// card, and one named "system" with a line for each process, "name, GPUs, bytes,
// …, …" in lower case; a name with spaces is more than one word of it.
func parseROCmUse(text string, u *GPUUse, memory map[int]int64, names map[int]string) error {
	cards, system, err := smi.Parse(text)
	for _, card := range cards {
		used, ok := card.At("VRAM Total Used Memory (B)").Bytes("B")
		u.use(card.Index, used, ok)
	}
	for k := range system {
		pid, err := strconv.Atoi(strings.TrimPrefix(k, "PID"))
		words := strings.Split(system.At(k).Text(), ", ")
		if err != nil || len(words) < 5 {
			continue
		}
		names[pid] = strings.Join(words[:len(words)-4], " ")
		memory[pid] = number(words[len(words)-3])
	}
	return err
}

// parseAMDMemory reads amd-smi metric --mem-usage --json.
func parseAMDMemory(text string, u *GPUUse, _ map[int]int64, _ map[int]string) error {
	gpus, _, err := smi.Parse(text)
	for _, g := range gpus {
		used, ok := g.At("mem_usage", "used_vram").Bytes("")
		u.use(g.Index, used, ok)
	}
	return err
}

// parseAMDProcesses reads amd-smi process --json. Where nothing runs a sentence
// stands in the place of a process.
func parseAMDProcesses(text string, _ *GPUUse, memory map[int]int64, names map[int]string) error {
	gpus, _, err := smi.Parse(text)
	for _, g := range gpus {
		for _, p := range g.At("process_list").Items() {
			if pid, ok := p.At("process_info", "pid").Number(); ok {
				bytes, _ := p.At("process_info", "memory_usage", "vram_mem").Bytes("")
				names[int(pid)] = p.At("process_info", "name").Text()
				memory[int(pid)] += bytes
			}
		}
	}
	return err
}
