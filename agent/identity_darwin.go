package agent

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// entryOf is who has a number now.
func entryOf(pid int) (e entry, ok bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid {
		return e, false
	}
	return entryFrom(p), true
}

func entryFrom(p *unix.KinfoProc) entry {
	const zombie = 5 // SZOMB of <sys/proc.h>
	return entry{
		identity: identity{
			PID: int(p.Proc.P_pid), Boot: boot(),
			Birth: fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec),
		},
		parent: int(p.Eproc.Ppid), group: int(p.Eproc.Pgid),
		name: unix.ByteSliceToString(p.Proc.P_comm[:]), ended: p.Proc.P_stat == zombie,
	}
}

var boot = sync.OnceValue(func() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid") // not there: all boots are one
	return id
})

// sinceBoot is how long ago the machine was booted.
func sinceBoot() time.Duration {
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return 0
	}
	return time.Since(time.Unix(at.Unix()))
}

// processTable are the processes of this machine by their numbers.
func processTable() map[int]entry {
	all := map[int]entry{}
	found, _ := unix.SysctlKinfoProcSlice("kern.proc.all")
	for _, p := range found {
		all[int(p.Proc.P_pid)] = entryFrom(&p)
	}
	return all
}

// pids are none here, since what they have open cannot be looked at.
func pids() []int { return nil }

// environment is not told here.
func environment(int) []string { return nil }

// adopt does nothing here: orphans are the system's, and what stays in its group is found by that.
func adopt() error { return nil }
