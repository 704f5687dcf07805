package agent

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

func birth(pid int) string {
	const zombie = 5 // SZOMB of <sys/proc.h>
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid || p.Proc.P_stat == zombie {
		return ""
	}
	return fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)
}

func boot() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid") // not there: all boots are one
	return id
}

// sinceBoot is how long ago the machine was booted.
func sinceBoot() time.Duration {
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return 0
	}
	return time.Since(time.Unix(at.Unix()))
}

func membersOf(group int) []identity {
	var all []identity
	found, _ := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	for _, p := range found {
		all = append(all, identityOf(int(p.Proc.P_pid)))
	}
	return all
}

// pids are none here, since their environment cannot be looked at.
func pids() []int { return nil }

// environment is not told here.
func environment(int) []string { return nil }
