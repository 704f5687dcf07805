package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"hclbench/plain"
	"hclbench/provision"
)

// identity tells one process from all others that had or will have its number, those
// of another boot among them. The zero value is no process.
type identity struct {
	PID   int    `json:"pid"`
	Birth string `json:"birth"` // when it was started, as the kernel counts
	Boot  string `json:"boot"`  // of the machine that it runs on
}

// entry is a process as the kernel's table has it.
type entry struct {
	identity
	parent, group, session int
	name                   string        // by its own word
	ended                  bool          // and not yet waited for
	spent                  time.Duration // of processors, with that of the children that it has waited for; 0 where it is not told
}

// String names the process for people.
func (e entry) String() string { return fmt.Sprintf("process %d (%s)", e.PID, plain.Line(e.name)) }

// identityOf is who has a number now; the zero value when nobody has.
func identityOf(pid int) identity {
	e, _ := entryOf(pid)
	return e.identity
}

// birth is when the process was started that has a number; "" when that has ended.
func birth(pid int) string {
	e, _ := entryOf(pid)
	if e.ended {
		return ""
	}
	return e.Birth
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
func signalAll(all []entry, sig syscall.Signal) error {
	var errs []error
	for _, e := range all {
		if err := e.signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("signal %s: %w", e, err))
		}
	}
	return errors.Join(errs...)
}

// below are all that descends from processes of the table, and has not ended.
func below(table map[int]entry, from ...int) []entry {
	return slices.DeleteFunc(descendants(table, from...), func(e entry) bool { return e.ended })
}

// descendants are all that descends from processes of the table.
func descendants(table map[int]entry, from ...int) (all []entry) {
	children := map[int][]int{}
	for pid, e := range table {
		children[e.parent] = append(children[e.parent], pid)
	}
	for ; len(from) > 0; from = from[1:] {
		for _, pid := range children[from[0]] {
			from, all = append(from, pid), append(all, table[pid])
		}
	}
	return all
}

// marked are the processes with a mark in their environment, as far as they are this
// user's: what others say of theirs is nothing to us.
func marked(table map[int]entry, mark string) (all []entry) {
	for pid, e := range table {
		if !e.ended && slices.Contains(environment(pid), provision.ProcessMark+"="+mark) {
			all = append(all, e)
		}
	}
	return all
}
