package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hclbench/plain"
)

// owner is who holds a lock, as the kernel says it. The zero value is somebody of whom
// it does not tell.
type owner struct {
	identity
	uid  int
	name string // of the program, by its own word
}

// ownerOf asks the kernel who has locked a file.
func ownerOf(f *os.File) owner {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return owner{}
	}
	dev := uint64(st.Dev) // its type is the platform's
	at := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), st.Ino)
	locks, _ := os.ReadFile("/proc/locks") // there on Linux
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line) // 1: FLOCK ADVISORY WRITE 4711 00:1b:42 0 EOF
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != at {
			continue
		}
		pid, err := strconv.Atoi(fields[4])
		if err == nil && identityOf(pid).alive() {
			return ownerWith(pid)
		}
		// It has left the lock to a child and ended: whoever has the file open has it now.
		for _, pid := range pids() {
			if pid != os.Getpid() && slices.Contains(opened(pid), f.Name()) {
				return ownerWith(pid)
			}
		}
	}
	return owner{}
}

// opened are the files that a process has open, as far as that is ours to look at.
func opened(pid int) []string {
	var files []string
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if file, err := os.Readlink(link); err == nil {
			files = append(files, file)
		}
	}
	return files
}

func ownerWith(pid int) owner {
	o := owner{identity: identityOf(pid), uid: -1}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // of one that ends meanwhile nothing is known
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "Name":
			o.name = plain.Line(value)
		case "Uid": // real, effective, saved, of the file system
			_, _ = fmt.Sscan(value, &o.uid)
		}
	}
	return o
}

// lease is what there is to be told of who has the machine.
func (o owner) lease(path string) *Lease {
	if o.PID == 0 || o.uid < 0 {
		return &Lease{Holder: "somebody who holds the lock " + path}
	}
	told := o.statement(path)
	if told == nil {
		return &Lease{Holder: fmt.Sprintf("process %d (%s) of user %s, which holds the lock %s and tells nothing of its work", o.PID, o.name, userName(o.uid), path)}
	}
	login := ""
	if o.uid != os.Getuid() {
		login = userName(o.uid)
	}
	return told.readable(login)
}

// statement is what the holder says of its work; nil when it says nothing.
func (o owner) statement(path string) *reserved {
	r := new(reserved)
	if !readOwned(wordsOf(path, o.uid), o.uid, r) || r.PID != o.PID {
		return nil
	}
	return r
}

// readOwned reads what this user alone can have written: no link, and no pipe, which
// would be waited for.
func readOwned(file string, uid int, v any) bool {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != uid || st.Mode&0o022 != 0 {
		return false
	}
	return json.NewDecoder(io.LimitReader(f, 64<<10)).Decode(v) == nil
}

// readable is what an agent says, made fit for people. login is its user, "" for ours.
func (r reserved) readable(login string) *Lease {
	word := func(s string) string { return plain.Cut(plain.Line(s), 200) }
	l := Lease{Lab: word(r.Lease.Lab), Run: word(r.Lease.Run), Holder: word(r.Lease.Holder), Expires: r.Lease.Expires}
	if login != "" {
		l.Holder += " (login " + plain.Line(login) + ")"
	}
	return &l
}
