package agent

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// entryOf is who has a number now.
func entryOf(pid int) (e entry, ok bool) {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	name, after := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')') // the name may hold anything
	if name < 0 || after < name {
		return e, false
	}
	fields := strings.Fields(string(b[after+1:]))
	if len(fields) < 20 {
		return e, false
	}
	for i, to := range []*int{&e.parent, &e.group, &e.session} {
		*to, _ = strconv.Atoi(fields[1+i]) // the kernel's own
	}
	e.identity, e.name = identity{PID: pid, Birth: fields[19], Boot: boot()}, string(b[name+1:after])
	for _, ticks := range fields[11:15] { // utime, stime, cutime, cstime: proc(5)
		n, _ := strconv.Atoi(ticks)
		e.spent += time.Duration(n) * (time.Second / 100)
	}
	e.ended = fields[0] == "Z" || fields[0] == "X"
	return e, true
}

// boot tells this boot of the machine from others, and from other machines. No process sees two.
var boot = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // not there: all boots are one
	return strings.TrimSpace(string(b))
})

// sinceBoot is a clock that nobody sets and that goes on while the machine sleeps.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// processTable are the processes of this machine by their numbers, as far as the login sees them.
func processTable() map[int]entry {
	all := map[int]entry{}
	for _, pid := range pids() {
		if e, ok := entryOf(pid); ok {
			all[pid] = e
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

// environment is what a process of this user was started with, "NAME=value" each, as far as
// it has not written over that; nil for those of others.
func environment(pid int) []string {
	dir := "/proc/" + strconv.Itoa(pid)
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || int(st.Uid) != os.Getuid() {
		return nil
	}
	b, _ := os.ReadFile(dir + "/environ")
	return strings.Split(string(b), "\x00")
}

// adopt makes this process the parent of all orphans among its descendants.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
