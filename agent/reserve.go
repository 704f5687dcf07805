package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hclbench/provision"
)

// A machine is reserved by its agent: the agent holds a lock on one file that
// every user of the machine finds, and says in it who it works for and until
// when. The kernel drops the lock with the agent, however that ends, so there is
// never one that somebody has to break.

// reservationName is the file in the directory of reservations.
const reservationName = "hcl-reservation"

// Reservations is the directory that all users of this machine share for locks,
// or, where there is none, the one for temporary files.
func Reservations() string {
	const locks = "/run/lock"
	if st, err := os.Stat(locks); err == nil && st.Mode()&fs.ModeSticky != 0 && st.Mode().Perm() == 0o777 {
		return locks
	}
	return "/tmp"
}

// overdue is how long after its lease has run out an agent may still be at work
// on the tear-down. One that takes longer hangs.
const overdue = 2 * downWithin

// reservation is a lock that is held.
type reservation struct{ file *os.File }

// reserved is what stands in the file.
type reserved struct {
	Lease Lease  `json:"lease"`
	PID   int    `json:"pid"`
	Birth string `json:"birth"`
	UID   int    `json:"uid"`
}

// reserve takes the machine for a lease, or notes its new end. held is the lease
// that has the machine already.
func (s *server) reserve(l Lease) (held *Lease, err error) {
	if s.reservation == nil {
		dir := s.Reservations
		if dir == "" {
			dir = Reservations()
		}
		s.reservation, held, err = takeReservation(filepath.Join(dir, reservationName), s.log.Warn)
		if err != nil || held != nil {
			return held, err
		}
	}
	l.Traces = provision.Traces{}
	return nil, s.reservation.write(reserved{Lease: l, PID: os.Getpid(), Birth: birth(os.Getpid()), UID: os.Getuid()})
}

func takeReservation(path string, warn func(msg string, args ...any)) (*reservation, *Lease, error) {
	f, err := openShared(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reserve the machine: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		var now reserved
		if now, err = readReserved(f); err != nil {
			f.Close()
			return nil, &Lease{Holder: "somebody"}, nil // who is just writing it
		}
		if !now.hangs() || endHolder(f, now, warn) != nil {
			f.Close()
			return nil, &now.Lease, nil
		}
		err = nil
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("reserve the machine: %w", err)
	}
	return &reservation{f}, nil, nil
}

// hangs reports whether the holder is an agent of ours that does not come to its
// end: it cannot clean up any more, and the lab's next apply will.
func (r reserved) hangs() bool {
	return time.Since(r.Lease.Expires) >= overdue && birth(r.PID) == r.Birth && r.UID == os.Getuid()
}

// endHolder kills the holder and takes the lock that the kernel drops with it.
func endHolder(f *os.File, holder reserved, warn func(msg string, args ...any)) error {
	warn("ending an agent that hangs", "pid", holder.PID, "lab", holder.Lease.Lab, "holder", holder.Lease.Holder)
	if err := syscall.Kill(holder.PID, syscall.SIGKILL); err != nil {
		return err
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// openShared opens a file that users share in a directory in which each may
// remove only what is their own. Creating and opening are two steps: the kernel
// does not let us open with O_CREATE what another user has created there
// (fs.protected_regular).
func openShared(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = f.Chmod(0o666) // whatever the umask is
		}
		return f, err
	}
}

func readReserved(f *os.File) (r reserved, err error) {
	b := make([]byte, 64<<10)
	n, _ := f.ReadAt(b, 0) // io.EOF: it is shorter
	return r, json.Unmarshal(b[:n], &r)
}

// write replaces what stands in the file by one write, longer than what was
// there before or cut to its length.
func (r *reservation) write(v reserved) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = r.file.WriteAt(append(b, '\n'), 0)
	}
	if err == nil {
		err = r.file.Truncate(int64(len(b) + 1))
	}
	if err != nil {
		return fmt.Errorf("note the reservation: %w", err)
	}
	return nil
}

// release gives the machine back. The file stays: whoever waits has it open.
func (r *reservation) release() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.file.Truncate(0), r.file.Close())
}

// ReadReservation returns the lease for which a machine is reserved, nil for
// none. Where its agent was killed, the last lease is told until it runs out.
func ReadReservation(ctx context.Context, c *provision.Conn) (*Lease, error) {
	const look = `dir=/tmp; if [ "$(stat -c %%a /run/lock 2>/dev/null)" = 1777 ]; then dir=/run/lock; fi
date +%%s; cat "$dir/%s" 2>/dev/null || true`
	out, err := c.Run(ctx, fmt.Sprintf(look, reservationName), nil)
	if err != nil {
		return nil, err
	}
	clock, text, _ := strings.Cut(out, "\n")
	var r reserved
	if strings.TrimSpace(text) == "" || json.Unmarshal([]byte(text), &r) != nil {
		return nil, nil // free, or being written
	}
	if now, err := strconv.ParseInt(clock, 10, 64); err == nil && time.Unix(now, 0).After(r.Lease.Expires.Add(overdue)) {
		return nil, nil
	}
	return &r.Lease, nil
}
