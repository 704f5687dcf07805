package agent

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stat are the members of /proc/PID/stat that follow the program's name: the state is
// the first. nil when there is no such process.
func stat(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name may hold anything
	if len(fields) < 20 {
		return nil
	}
	return fields
}

// birth is the start time of a process; "" when it has ended.
func birth(pid int) string {
	fields := stat(pid)
	if fields == nil || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// boot tells this boot of the machine from others, and from other machines.
func boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // not there: all boots are one
	return strings.TrimSpace(string(b))
}

// sinceBoot is a clock that nobody sets and that goes on while the machine sleeps.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

func membersOf(group int) []identity {
	var all []identity
	for _, pid := range pids() {
		i := identityOf(pid)
		if fields := stat(pid); fields != nil && fields[2] == strconv.Itoa(group) {
			all = append(all, i)
		}
	}
	return all
}

func pids() []int {
	var all []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// environment is what a process was started with, "NAME=value" each; nil when it is not
// ours to look at.
func environment(pid int) []string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return strings.Split(string(b), "\x00")
}
