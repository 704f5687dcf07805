package look

import (
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/smi"
)

// gpuUseScript prints what the vendors' tools say of memory and processes, one
// fact per line as NAME=VALUE, and whose the processes are. Its arguments are fields of nvidia-smi --query-gpu, and of
// its --query-compute-apps.
//
//go:embed gpuuse.sh
var gpuUseScript string

const (
	useFields = "index,uuid,memory.used"
	appFields = "gpu_uuid,pid,used_memory,process_name"
)

// GPUUse asks the vendor's tool what the GPUs are in use for. A host without
// such a tool has none in use. A tool that fails is told in Problems.
func GPUUse(ctx context.Context, c *reach.Conn) (provision.GPUUse, error) {
	said, err := run(ctx, c, gpuUseScript, useFields, appFields)
	if err != nil {
		return provision.GPUUse{}, fmt.Errorf("ask what uses the GPUs: %w", err)
	}
	return parseGPUUse(said), nil
}

type gpuUse struct {
	provision.GPUUse
	memory map[int]int64         // of processes, summed over the GPUs
	on     map[int]map[int]int64 // the same by GPU, or what it can be at most there
	names  map[int]string        // of processes, as the tools say them
}

// uses notes memory of a process on a GPU; -1: it is not known on which.
func (u *gpuUse) uses(pid, gpu int, bytes int64) {
	if u.on[pid] == nil {
		u.on[pid] = map[int]int64{}
	}
	u.on[pid][gpu] += bytes
}

func parseGPUUse(said lines) provision.GPUUse {
	u := gpuUse{memory: map[int]int64{}, on: map[int]map[int]int64{}, names: map[int]string{}}
	u.Problems = said.ask([]tool{
		{provision.NVIDIASMI, "nvidia", useFields, func(gpus []smi.GPU, _ smi.Object) {
			u.inUse(gpus, nil)
			u.nvidiaProcesses(gpus, said.Answers["app"])
		}},
		{provision.RocmSMI, "rocm", "", u.rocm},
		{provision.AMDSMI, "amdmem", "", u.inUse},
		{provision.AMDSMI, "amdapp", "", u.amdProcesses},
	})
	for _, line := range said.Answers["rocmgpus"] { // of how much on each nothing is said
		var pid int
		for i, word := range strings.Fields(line) {
			n := int(number(word))
			if i == 0 {
				pid = n
			} else {
				u.uses(pid, n, u.memory[pid])
			}
		}
	}
	for _, line := range said.Answers["pid"] {
		f := strings.SplitN(line, "|", 4)
		pid, err := strconv.Atoi(f[0])
		known := slices.ContainsFunc(u.Processes, func(p provision.GPUProcess) bool { return p.PID == pid })
		if err != nil || len(f) != 4 || known { // on several GPUs
			continue
		}
		p := provision.GPUProcess{PID: pid, Memory: u.memory[pid], Container: f[1], Mark: f[2], Name: f[3]}
		if _, unknown := u.on[pid][-1]; !unknown {
			p.GPUs = u.on[pid]
		}
		if p.Name == "" { // it has just ended, or is not ours to look at
			p.Name = u.names[pid]
		}
		u.Processes = append(u.Processes, p)
	}
	return u.GPUUse
}

// inUse reads what any tool tells of memory.
func (u *gpuUse) inUse(gpus []smi.GPU, _ smi.Object) {
	for _, g := range gpus {
		used, ok := g.MemoryInUse()
		u.Add(g.Index, used, ok)
	}
}

// nvidiaProcesses reads nvidia-smi --query-compute-apps, which tells GPUs by their ids.
func (u *gpuUse) nvidiaProcesses(gpus []smi.GPU, lines []string) {
	index := map[string]int{}
	for _, g := range gpus {
		index[g.At("uuid").Text()] = g.Index
	}
	apps, _ := smi.Rows(appFields, lines...)
	for _, app := range apps {
		pid, ok := app.At("pid").Number()
		if !ok {
			continue
		}
		bytes, _ := app.At("used_memory").Bytes("MB")
		gpu, known := index[app.At("gpu_uuid").Text()]
		if !known { // a part of one
			gpu = -1
		}
		u.memory[int(pid)] += bytes
		u.uses(int(pid), gpu, bytes)
		u.names[int(pid)], _ = app["process_name"].(string)
	}
}

// rocm reads rocm-smi --showmeminfo vram --showpids --json. Of all cards together it
// has a line for each process, "name, GPUs, bytes, …, …" in lower case; a name with
// spaces is more than one word of it.
func (u *gpuUse) rocm(cards []smi.GPU, system smi.Object) {
	u.inUse(cards, nil)
	for k := range system {
		pid, err := strconv.Atoi(strings.TrimPrefix(k, "PID"))
		words := strings.Split(system.At(k).Text(), ", ")
		if err != nil || len(words) < 5 {
			continue
		}
		u.names[pid] = strings.Join(words[:len(words)-4], " ")
		u.memory[pid] = number(words[len(words)-3])
	}
}

// amdProcesses reads amd-smi process --json. Where nothing runs a sentence stands in
// the place of a process.
func (u *gpuUse) amdProcesses(gpus []smi.GPU, _ smi.Object) {
	for _, g := range gpus {
		for _, p := range g.At("process_list").Items() {
			if pid, ok := p.At("process_info", "pid").Number(); ok {
				bytes, _ := p.At("process_info", "memory_usage", "vram_mem").Bytes("")
				u.names[int(pid)] = p.At("process_info", "name").Text()
				u.memory[int(pid)] += bytes
				u.uses(int(pid), g.Index, bytes)
			}
		}
	}
}

// ProveGone waits, at most for patience, until nothing of what was taken down is left: no process of
// ours uses a GPU, the memory of every GPU is back, but for what others use meanwhile, and nothing
// of ours listens on the ports. Otherwise it returns an [provision.UncleanError] with what is there,
// or why that cannot be found out. What others have put on the GPUs is returned, and no error.
func ProveGone(
	ctx context.Context, c *reach.Conn, t provision.Traces, patience time.Duration,
) (others []provision.GPUProcess, err error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for every := 50 * time.Millisecond; ; every = min(2*every, 2*time.Second) {
		var left []string
		left, others, err = stillThere(ctx, c, t)
		if err != nil {
			left = []string{"what is left cannot be found out: " + err.Error()}
		}
		if len(left) == 0 {
			return others, nil
		}
		select {
		case <-time.After(every):
		case <-deadline.C:
			return others, &provision.UncleanError{Host: c.Host(), Left: left}
		case <-ctx.Done():
			return others, &provision.UncleanError{Host: c.Host(), Left: left}
		}
	}
}

func stillThere(
	ctx context.Context, c *reach.Conn, t provision.Traces,
) (left []string, others []provision.GPUProcess, err error) {
	for _, port := range t.Ports {
		listens, err := stillListens(ctx, c, t, port)
		if err != nil {
			return nil, nil, err
		}
		left = append(left, listens...)
	}
	if len(t.Before.Memory) == 0 {
		return left, nil, nil // no GPUs, or none that a tool tells about
	}
	now, err := GPUUse(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	gpus, others := t.Held(now)
	return append(left, gpus...), others, nil
}

// stillListens says what of ours is open on a port, on whatever address. What is known to be
// somebody else's is not in our way; what listens where engines do and is nobody's may be ours.
func stillListens(ctx context.Context, c *reach.Conn, t provision.Traces, port int) (left []string, err error) {
	advice := fmt.Sprintf("see `sudo ss -ltnp 'sport = :%d'` there", port)
	all, err := c.Listeners(ctx, port)
	if err != nil && ctx.Err() == nil && !provision.OutOfReach(err) { // nobody can look: ask
		conn, err := c.Dial(ctx, "tcp", netip.AddrPortFrom(reach.Loopback, uint16(port)).String())
		switch {
		case err == nil:
			conn.Close()
			return []string{fmt.Sprintf("something still listens on port %d: %s", port, advice)}, nil
		case ctx.Err() != nil, provision.OutOfReach(err):
			return nil, err
		}
		return nil, nil
	}
	for _, l := range all {
		for _, h := range l.Holders {
			if t.Ours(h.Container, h.Mark) {
				left = append(left, fmt.Sprintf("%s still listens on %s", h, l.Address))
			}
		}
	}
	for _, l := range provision.Taking(all, reach.Loopback) {
		if len(l.Holders) == 0 {
			left = append(left, fmt.Sprintf("a process of user %s still listens on %s: %s", l.User, l.Address, advice))
		}
	}
	return left, err
}
