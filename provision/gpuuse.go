package provision

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// GPUUse is what a host's GPUs are in use for at one moment.
type GPUUse struct {
	Memory    []int64      `json:"memory,omitempty"` // bytes in use on each GPU, in the order of the vendor's tool
	Processes []GPUProcess `json:"processes,omitempty"`
	Problems  []string     `json:"problems,omitempty"` // what the tools said instead
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
	return parseGPUUse(out), nil
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
			if _, err := strconv.Atoi(fields[0]); err != nil || len(fields) != 2 {
				u.Problems = append(u.Problems, "nvidia-smi: "+value)
				continue
			}
			u.Memory = append(u.Memory, number(fields[1])<<20)
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
				u.Problems = append(u.Problems, tool.name+": "+lastLines(text, 1))
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

// afterWarnings is the JSON in what a tool has printed: warnings come first, on
// the same stream.
func afterWarnings(text string) string {
	if i := strings.IndexAny(text, "[{"); i > 0 {
		return text[i:]
	}
	return text
}

// parseROCmUse reads rocm-smi --showmeminfo vram --showpids --json: an object per
// card, and one named "system" with a line for each process, "name, GPUs, bytes,
// …, …" in lower case; a name with spaces is more than one word of it.
func parseROCmUse(text string, u *GPUUse, memory map[int]int64, names map[int]string) error {
	var cards map[string]map[string]any
	if err := json.NewDecoder(strings.NewReader(afterWarnings(text))).Decode(&cards); err != nil {
		return err
	}
	for i := 0; ; i++ {
		card, ok := cards[fmt.Sprintf("card%d", i)]
		if !ok {
			break
		}
		for k, v := range card {
			if strings.EqualFold(k, "VRAM Total Used Memory (B)") {
				u.Memory = append(u.Memory, number(fmt.Sprint(v)))
			}
		}
	}
	for k, v := range cards["system"] {
		pid, err := strconv.Atoi(strings.TrimPrefix(k, "PID"))
		words := strings.Split(fmt.Sprint(v), ", ")
		if err != nil || len(words) < 5 {
			continue
		}
		names[pid] = strings.Join(words[:len(words)-4], " ")
		memory[pid] = number(words[len(words)-3])
	}
	return nil
}

// amdList decodes what amd-smi prints for each GPU: a list, which newer releases
// put into an object.
func amdList(text string, out any) error {
	text = afterWarnings(text)
	if strings.HasPrefix(text, "{") {
		return json.NewDecoder(strings.NewReader(text)).Decode(&struct {
			Data any `json:"gpu_data"`
		}{out})
	}
	return json.NewDecoder(strings.NewReader(text)).Decode(out)
}

// amdSize is a number with its unit as amd-smi writes it; "N/A" is none.
type amdSize struct {
	Value json.Number
	Unit  string
}

func (s *amdSize) UnmarshalJSON(b []byte) error {
	type plain amdSize
	if bytes.HasPrefix(b, []byte("{")) {
		return json.Unmarshal(b, (*plain)(s))
	}
	return nil
}

func (s amdSize) bytes() int64 {
	shift := map[string]uint{"KB": 10, "MB": 20, "GB": 30}[s.Unit]
	return number(s.Value.String()) << shift
}

// parseAMDMemory reads amd-smi metric --mem-usage --json.
func parseAMDMemory(text string, u *GPUUse, _ map[int]int64, _ map[int]string) error {
	var gpus []struct {
		Use struct {
			Used amdSize `json:"used_vram"`
		} `json:"mem_usage"`
	}
	if err := amdList(text, &gpus); err != nil {
		return err
	}
	for _, g := range gpus {
		u.Memory = append(u.Memory, g.Use.Used.bytes())
	}
	return nil
}

// parseAMDProcesses reads amd-smi process --json. Where nothing runs a sentence
// stands in the place of a process.
func parseAMDProcesses(text string, _ *GPUUse, memory map[int]int64, names map[int]string) error {
	var gpus []struct {
		List []struct {
			Info json.RawMessage `json:"process_info"`
		} `json:"process_list"`
	}
	if err := amdList(text, &gpus); err != nil {
		return err
	}
	for _, g := range gpus {
		for _, p := range g.List {
			var info struct {
				Name  string
				PID   int
				Usage struct {
					VRAM amdSize `json:"vram_mem"`
				} `json:"memory_usage"`
			}
			if json.Unmarshal(p.Info, &info) == nil && info.PID > 0 {
				names[info.PID] = info.Name
				memory[info.PID] += info.Usage.VRAM.bytes()
			}
		}
	}
	return nil
}
