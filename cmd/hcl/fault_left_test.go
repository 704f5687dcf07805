package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// leftFaults are those of who reads along, and of who leaves.
var leftFaults = []fault{
	{name: "terminal goes away in mid-cell", at: midCell, says: "interrupted; what ran is taken down", strike: func(s *scene) {
		s.must(s.cmd.Process.Signal(syscall.SIGHUP))
		s.await("step", "stopping", 1)
		s.must(s.cmd.Process.Signal(syscall.SIGHUP)) // a terminal may say so twice
		if code := s.end(time.Minute); code != exitInterrupted {
			s.Errorf("exit %d, want %d", code, exitInterrupted)
		}
		s.nothingLeft()
	}},
	{name: "reader of the events leaves in mid-cell", at: midCell, says: "interrupted; what ran is taken down", strike: func(s *scene) {
		s.must(s.out.Close())
		if code := s.end(time.Minute); code != exitInterrupted {
			s.Errorf("exit %d, want %d", code, exitInterrupted)
		}
		s.nothingLeft()
		s.kept = faultCells - s.todo()
	}},
	{name: "reader of the events stands still", whole: true, strike: func(s *scene) {
		goOn := s.standStill()
		eventually(s.T, "the run is over and its engines are gone", time.Minute, func() bool { return s.todo() == 0 && len(s.left()) == 0 })
		goOn()
	}},
	{name: "reader of the events stands still, and Ctrl-C", says: "interrupted; what ran is taken down", strike: func(s *scene) {
		goOn := s.standStill()
		s.must(s.cmd.Process.Signal(os.Interrupt))
		eventually(s.T, "everything is taken down", faultGrace, func() bool { return len(s.left()) == 0 })
		eventually(s.T, "it has ended", 2*readPatience+tellPatience, func() bool { return hasEnded(s.cmd.Process.Pid) })
		goOn()
		s.end(time.Minute)
		s.kept = faultCells - s.todo()
	}},
}

// tellPatience is how long at most a run waits for its events to be told.
const tellPatience = 10 * time.Second

// hasEnded reports whether a child has, which nobody waits for yet.
func hasEnded(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

// standStill begins an apply whose events go into a pipe that holds few, and reads no
// more of them once a cell is under way.
func (s *scene) standStill() (goOn func()) {
	s.begin()
	pipe, err := s.out.SyscallConn()
	s.must(err)
	s.must(pipe.Control(func(fd uintptr) {
		const setPipeSize = 1031
		if _, _, no := syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, 4096); no != 0 {
			s.Error(no)
		}
	}))
	s.await("progress", "", 1)
	s.still.Lock()
	return s.still.Unlock
}

// todo is how many cells the plan has to measure.
func (s *scene) todo() int {
	s.Helper()
	out, said, code := s.run("plan", "--json")
	var p struct{ Summary struct{ Measure, Stale int } }
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != 0 {
		s.Fatalf("plan: exit %d, %v\n%s%s", code, err, out, said)
	}
	return p.Summary.Measure + p.Summary.Stale
}

// nothingLeft says what is on the hosts right after the apply has ended.
func (s *scene) nothingLeft() {
	s.Helper()
	eventually(s.T, "nothing is left", 5*time.Second, func() bool { return len(s.left()) == 0 })
}
