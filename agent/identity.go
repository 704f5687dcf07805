package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"hclbench/provision"
)

// identity tells one process from all others that had or will have its number, those
// of another boot among them. The zero value is no process.
type identity struct {
	PID   int    `json:"pid"`
	Birth string `json:"birth"` // when it was started, as the kernel counts
	Boot  string `json:"boot"`  // of the machine that it runs on
}

// identityOf is who has a number now; the zero value when nobody has.
func identityOf(pid int) identity {
	born := birth(pid)
	if born == "" {
		return identity{}
	}
	return identity{PID: pid, Birth: born, Boot: boot()}
}

func (i identity) alive() bool {
	return i.PID > 1 && i.Birth != "" && birth(i.PID) == i.Birth && boot() == i.Boot
}

// signal sends a signal to this process, and to none that has its number by now:
// [os.ErrProcessDone]. Nothing else in this room signals what is not its own child.
func (i identity) signal(sig syscall.Signal) error {
	if i.PID <= 1 {
		return os.ErrProcessDone
	}
	p, err := os.FindProcess(i.PID) // on Linux a pidfd: it stays with who has the number at this moment
	if err != nil {
		return err
	}
	defer p.Release()
	if !i.alive() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}

// signalAll signals processes, of which some may have ended.
func signalAll(all []identity, sig syscall.Signal) error {
	var errs []error
	for _, i := range all {
		if err := i.signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("signal process %d: %w", i.PID, err))
		}
	}
	return errors.Join(errs...)
}

// group are the processes of the group that a process leads. One that has ended leads
// none: its number may be another group's by now.
func (i identity) group() []identity {
	members := membersOf(i.PID)
	if !i.alive() { // it was while they were looked for
		return nil
	}
	return members
}

// marked are the processes with a mark in their environment, as far as they are ours
// to look at. Nothing but the environment is inherited for good: a process can leave
// its group and outlive its parents.
func marked(mark string) []identity {
	var all []identity
	for _, pid := range pids() {
		i := identityOf(pid) // before the look: a later process with the number has another birth
		if slices.Contains(environment(pid), provision.ProcessMark+"="+mark) {
			all = append(all, i)
		}
	}
	return all
}
