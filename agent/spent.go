package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hclbench/telemetry"
)

// spent returns what tells how much processor time the claim's members have had, and the generator, which is this
// process. It is known when it is known of all of them.
func (c *claim) spent() telemetry.Spent {
	var total time.Duration
	before := map[string]time.Duration{} // by member; the generator has no name
	counts := map[string]string{}        // where the kernel counts a container's, by its id
	return func(ctx context.Context) (time.Duration, bool) {
		var ours syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ours); err != nil {
			return 0, false
		}
		now := map[string]time.Duration{"": time.Duration(ours.Utime.Nano() + ours.Stime.Nano())}
		c.mu.Lock()
		members := slices.Clone(c.note.Members)
		c.mu.Unlock()
		for _, m := range members {
			had, known := time.Duration(0), false
			switch pr := c.processes.get(m.Name); {
			case pr != nil:
				had, known = c.processes.spent(pr)
			case m.Docker != "" && m.ID != "":
				had, known = c.containerSpent(ctx, m, counts)
			}
			if !known {
				return 0, false
			}
			now[m.Name] = had
		}
		for name, had := range now { // what ended members had stays in the total
			total += max(0, had-before[name])
		}
		before = now
		return total, true
	}
}

// spent is how much processor time the tree of a process has had, and what its reaper has waited for; 0 when nothing of
// it is left. It is not known when somebody has killed the reaper.
func (p *processes) spent(pr *process) (had time.Duration, known bool) {
	if !pr.Reaper.alive() {
		return 0, len(p.tree(pr)) == 0
	}
	table := processTable()
	had = table[pr.Reaper.PID].spent
	for _, e := range descendants(table, pr.Reaper.PID) {
		had += e.spent
	}
	return had, true
}

// containerSpent is how much processor time a container has had; 0 when it has ended.
func (c *claim) containerSpent(ctx context.Context, m member, counts map[string]string) (had time.Duration, known bool) {
	if counts[m.ID] == "" {
		first, err := c.firstProcess(ctx, m)
		if err != nil || first == 0 {
			return 0, err == nil
		}
		top, at, v1 := cgroupOf(strconv.Itoa(first), "cpuacct")
		upTo, below, found := strings.Cut(at, m.ID)
		if !found {
			return 0, false
		}
		name, _, _ := strings.Cut(below, "/") // docker-ID.scope, and the container's own groups below it
		file := "cpu.stat"
		if v1 {
			file = "cpuacct.usage"
		}
		counts[m.ID] = path.Join(top, upTo+m.ID+name, file)
	}
	text, err := os.ReadFile(counts[m.ID])
	if err != nil {
		return 0, errors.Is(err, os.ErrNotExist)
	}
	var count, unit int64 = 0, 1 // nanoseconds
	if _, err = fmt.Sscanf(string(text), "usage_usec %d", &count); err == nil {
		unit = 1000
	} else {
		_, err = fmt.Sscan(string(text), &count)
	}
	return time.Duration(count * unit), err == nil
}

// firstProcess is what a container runs as its first process; 0: it has ended.
func (c *claim) firstProcess(ctx context.Context, m member) (pid int, err error) {
	d, err := c.daemon(ctx, m.Docker)
	if err != nil {
		return 0, err
	}
	state, err := d.State(ctx, m.ID)
	if err != nil || !state.Running {
		return 0, err
	}
	if _, at, _ := cgroupOf(strconv.Itoa(state.PID), "cpuacct"); !strings.Contains(at, m.ID) {
		return 0, fmt.Errorf("process %d is one of another machine, or in another namespace", state.PID)
	}
	return state.PID, nil
}
