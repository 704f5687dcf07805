package agent

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// cgroupOf is the control group of a process, "self" for ours, in which a controller counts: below top, where the kernel
// shows all, it is at. Version 1 has a tree for each controller; where it has none for this one, the group is of version 2.
func cgroupOf(process, controller string) (top, at string, v1 bool) {
	text, _ := os.ReadFile(path.Join("/proc", process, "cgroup"))
	for line := range strings.Lines(string(text)) {
		_, of, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(of, ":")
		switch {
		case slices.Contains(strings.Split(controllers, ","), controller):
			return path.Join("/sys/fs/cgroup", controllers), group, true
		case controllers == "":
			top, at = "/sys/fs/cgroup", group
		}
	}
	return top, at, false
}

// oomKills is how many processes of our cgroup, which is that of our children as well, the kernel has killed
// so far for lack of memory: their limit's, as in a pod, or the machine's. 0 where it does not count them.
func oomKills() (n int) {
	top, at, v1 := cgroupOf("self", "memory")
	file := "memory.events"
	if v1 {
		file = "memory.oom_control"
	}
	text, err := os.ReadFile(path.Join(top, at, file))
	if err != nil { // a container sees only its own, at the top
		text, _ = os.ReadFile(path.Join(top, file))
	}
	for line := range strings.Lines(string(text)) {
		var kills int
		if _, err := fmt.Sscanf(line, "oom_kill %d", &kills); err == nil {
			n += kills
		}
	}
	return n
}
