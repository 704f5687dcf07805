package agent

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// oomKills is how many processes of our cgroup, which is that of our children as well, the kernel has killed
// so far for lack of memory: their limit's, as in a pod, or the machine's. 0 where it does not count them.
func oomKills() (n int) {
	ours, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(ours)) {
		_, of, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, at, _ := strings.Cut(of, ":")
		dir, file := "/sys/fs/cgroup", "memory.events" // version 2
		if controllers == "memory" {
			dir, file = "/sys/fs/cgroup/memory", "memory.oom_control"
		} else if controllers != "" {
			continue
		}
		text, err := os.ReadFile(path.Join(dir, at, file))
		if err != nil { // a container sees only its own, at the top
			text, _ = os.ReadFile(path.Join(dir, file))
		}
		for line := range strings.Lines(string(text)) {
			var kills int
			if _, err := fmt.Sscanf(line, "oom_kill %d", &kills); err == nil {
				n += kills
			}
		}
	}
	return n
}
