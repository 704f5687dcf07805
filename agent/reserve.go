package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hclbench/plain"
	"hclbench/provision/reach"
)

// A machine is reserved by its agent: the agent holds a lock on one file that every
// user of the machine finds. The kernel drops the lock with the agent, however that
// ends, so there is never one that somebody has to break.
//
// Every user of the machine may lock that file, and write to it. So nothing stands in
// it: who holds the lock is asked of the kernel, and what the holder says of its work
// stands in a file that only the holder's user can write. It is words for people, and
// nothing is done for what they say.

// reservationName is the file in the directory of reservations. What a holder says is
// beside it, with its user's number behind the name.
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

// reserved is what a holder says.
type reserved struct {
	identity
	Lease Lease `json:"lease"`
}

// machine is what an agent needs to reserve the one that it runs on.
type machine struct {
	dir, cache, locks string // the agent's own, the one that hcl writes to, and that of the lock file
	log               *slog.Logger
	reservation       *os.File // locked; nil: the machine is not reserved
}

// reserve takes the machine, unless it has it. held is the lease of another that has it already.
func (m *machine) reserve() (held *Lease, err error) {
	if m.reservation != nil && !stands(m.reservation) {
		m.log.Warn("somebody has removed the lock file of the machine's reservation", "path", m.reservation.Name())
		m.giveBack()
	}
	if m.reservation == nil {
		path := m.reservationPath()
		r, by, err := takeReservation(path)
		if err == nil && r == nil && m.endHung(by) { // its threads end one by one, and the lock with the last
			for end := time.Now().Add(5 * time.Second); err == nil && r == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				r, by, err = takeReservation(path)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reserve the machine: %w", err)
		}
		if r == nil {
			return by.lease(path), nil
		}
		m.reservation = r
	}
	return nil, nil
}

// note says for which lease the machine is reserved, and until when, if it is.
func (m *machine) note(l Lease) {
	if m.reservation == nil {
		return
	}
	me := identityOf(os.Getpid())
	if err := writeJSON(filepath.Join(m.dir, standingName), standing{me, sinceBoot() + time.Until(l.Expires)}, 0o600); err != nil {
		m.log.Warn("note until when the machine is reserved", "err", err)
	}
	words := reserved{me, Lease{Lab: l.Lab, Run: l.Run, Holder: l.Holder, Expires: l.Expires}}
	if err := writeJSON(wordsOf(m.reservation.Name(), os.Getuid()), words, 0o644); err != nil {
		m.log.Warn("tell others who has reserved the machine", "err", err)
	}
}

func (m *machine) reservationPath() string {
	return filepath.Join(cmp.Or(m.locks, Reservations()), reservationName)
}

// forgetKilled removes what an agent of this user has said of a reservation that ended
// when it was killed, and what one in this directory has noted.
func (m *machine) forgetKilled() error {
	var errs []error
	words, standing := wordsOf(m.reservationPath(), os.Getuid()), filepath.Join(m.dir, standingName)
	for _, file := range []string{words, standing} {
		var who identity
		if readOwned(file, os.Getuid(), &who) && !who.alive() {
			errs = append(errs, os.Remove(file))
		}
	}
	return errors.Join(errs...)
}

// giveBack gives the machine back, if it is reserved. The lock file stays: whoever waits
// has it open.
func (m *machine) giveBack() {
	if m.reservation == nil {
		return
	}
	err := os.Remove(filepath.Join(m.dir, standingName))
	path, me := m.reservation.Name(), owner{identity: identityOf(os.Getpid()), uid: os.Getuid()}
	if me.statement(path) != nil {
		err = errors.Join(err, os.Remove(wordsOf(path, me.uid)))
	}
	if err = errors.Join(err, m.reservation.Close()); err != nil {
		m.log.Error("give the machine back", "err", err)
	}
	m.reservation = nil
}

// takeReservation takes the lock, or says who has it.
func takeReservation(path string) (taken *os.File, by owner, err error) {
	for range 10 {
		f, err := openShared(path)
		if err != nil {
			return nil, owner{}, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			by := ownerOf(f)
			return nil, by, f.Close()
		}
		if err != nil {
			return nil, owner{}, errors.Join(err, f.Close())
		}
		if stands(f) {
			return f, owner{}, nil
		}
		f.Close() // whose name is gone, or another's: nobody else would find this lock
	}
	return nil, owner{}, fmt.Errorf("somebody removes %s again and again", path)
}

// stands reports whether the lock is on the file that others find.
func stands(f *os.File) bool {
	mine, err := f.Stat()
	found, gone := os.Lstat(f.Name())
	return err == nil && gone == nil && os.SameFile(mine, found)
}

// wordsOf is where a user tells what the machine is reserved for.
func wordsOf(path string, uid int) string { return path + "." + strconv.Itoa(uid) }

// openShared opens a file that users share in a directory in which each may remove only what is
// their own. Creating and opening are two steps: the kernel does not let us open with O_CREATE
// what another user has created there (fs.protected_regular). What others may have put there
// instead of a file is not followed, waited for or used.
func openShared(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err == nil {
				err = f.Chmod(0o666) // whatever the umask is
			}
			return f, err
		}
		st, statErr := os.Lstat(path)
		if statErr != nil {
			return nil, errors.Join(err, statErr)
		}
		if err == nil && st.Mode().IsRegular() {
			return f, nil
		}
		if err == nil {
			f.Close()
		}
		return nil, fmt.Errorf("%s, which hcl locks, is %s that user %s has put there: `sudo rm -r %[1]s` removes it", path, kindOf(st), userName(int(st.Sys().(*syscall.Stat_t).Uid)))
	}
}

func kindOf(st fs.FileInfo) string {
	return cmp.Or(map[fs.FileMode]string{
		0: "a file closed to others", fs.ModeDir: "a directory", fs.ModeSymlink: "a symbolic link", fs.ModeNamedPipe: "a named pipe",
	}[st.Mode().Type()], "no file but a thing")
}

// userName is a user's name, or the number of one without.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return plain.Line(u.Username)
	}
	return strconv.Itoa(uid)
}

// standingName is a file in the agent's own directory, which nobody else can write to.
const standingName = "standing.json"

// standing is what an agent that has reserved the machine notes of itself there: by it
// another agent of the user sees that it hangs.
type standing struct {
	identity
	Over time.Duration `json:"over"` // when its lease runs out, by [sinceBoot]
}

// endHung kills who has the machine, if that is an agent of this very user that does
// not come to its end: it cannot clean up any more, and the lab's next apply will.
// That it is one the kernel says, the note in its directory, and that it does not say otherwise.
func (m *machine) endHung(o owner) bool {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil || !o.alive() || o.uid != os.Getuid() {
		return false
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", o.PID))
	if err != nil || exe != self && (m.cache == "" || filepath.Dir(exe) != filepath.Join(m.cache, "bin")) {
		return false
	}
	notes, err := filepath.Glob(filepath.Join(filepath.Dir(m.dir), "*", standingName))
	if err != nil {
		return false
	}
	for _, note := range notes {
		var now standing
		if !readOwned(note, os.Getuid(), &now) || now.identity != o.identity || sinceBoot() < now.Over+overdue {
			continue
		}
		if hasLease(filepath.Dir(note)) { // and could not note it, as on a full disk
			return false
		}
		m.log.Warn("ending an agent that hangs", "pid", o.PID, "dir", filepath.Dir(note))
		if err := o.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			m.log.Error("end an agent that hangs", "pid", o.PID, "err", err)
			return false
		}
		return true
	}
	return false
}

// hasLease reports whether the agent in a directory of this machine answers that its lease goes on.
func hasLease(dir string) bool {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "sock"))
		},
	}}
	resp, err := c.Get("http://agent/v1/info")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var info Info
	return json.NewDecoder(resp.Body).Decode(&info) == nil && info.Lease != nil && info.Lease.Expires.After(info.Now)
}

// lookForReservation prints who has the lock, as the kernel says it: process, user if it
// is another, and the program's name, a line each; then what that user says of it.
const lookForReservation = `dir=/tmp; if [ "$(stat -c %%a /run/lock 2>/dev/null)" = 1777 ]; then dir=/run/lock; fi
f=$dir/%s
[ -f "$f" ] && [ ! -L "$f" ] || exit 0
set -- $(stat -c '%%d %%i' "$f")
at=$(printf '%%02x:%%02x:%%s' $((($1 >> 8) & 0xfff)) $((($1 & 0xff) | (($1 >> 12) & 0xfff00))) "$2")
pid=
while read -r _ kind _ _ by where _; do
	if [ "$kind $where" = "FLOCK $at" ]; then pid=$by; break; fi
done </proc/locks
[ -n "$pid" ] || exit 0
echo "$pid"
uid=$(sed -n 's/^Uid:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null)
[ -n "$uid" ] || exit 0
if [ "$uid" = "$(id -u)" ]; then echo; else id -nu "$uid" 2>/dev/null || echo "$uid"; fi
cat "/proc/$pid/comm" 2>/dev/null || echo
t=$f.$uid
if [ -f "$t" ] && [ ! -L "$t" ] && [ "$(stat -c %%u "$t")" = "$uid" ]; then head -c 65536 "$t"; fi
true`

// ReadReservation returns the lease for which a machine is reserved, nil for none.
func ReadReservation(ctx context.Context, c *reach.Conn) (*Lease, error) {
	out, err := c.Run(ctx, fmt.Sprintf(lookForReservation, reservationName), nil)
	if err != nil || out == "" {
		return nil, err
	}
	parts := strings.SplitN(out, "\n", 4)
	if len(parts) < 4 { // the lock was left to a child
		return &Lease{Holder: "somebody who holds the lock " + reservationName}, nil
	}
	var r reserved
	if json.NewDecoder(strings.NewReader(parts[3])).Decode(&r) != nil || strconv.Itoa(r.PID) != parts[0] {
		return &Lease{Holder: fmt.Sprintf("process %s (%s) of user %s", plain.Line(parts[0]), plain.Line(parts[2]), cmp.Or(plain.Line(parts[1]), "(this login)"))}, nil
	}
	return r.readable(parts[1]), nil
}
