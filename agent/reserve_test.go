package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/sim"
	"hclbench/testhost"
)

// TestReservation: two agents, of two labs, on one machine. The second is told who
// is at work, gets the machine when the first is done, and also when the first is
// killed.
func TestReservation(t *testing.T) {
	first, second := shortDir(t), shortDir(t)
	shared := filepath.Join(first, "shared")
	check(t, os.Mkdir(shared, 0o700))
	cmd := spawn(t, first, shared)
	a, b := newClient(local(t), filepath.Join(first, "sock")), newClient(local(t), filepath.Join(second, "sock"))
	spawn(t, second, shared)

	theirs, ours := lease("run1", "storeA", time.Hour), lease("run2", "storeB", time.Hour)
	theirs.Reserve, ours.Reserve, ours.Lab = true, true, "other"
	hold(t, a, theirs)
	held := new(HeldError)
	if err := b.claim(t.Context(), ours); !errors.As(err, &held) || held.Lease.Run != "run1" || held.Lease.Lab != "lab" || held.Lease.Expires.IsZero() {
		t.Fatalf("the second lab: %v, want who has the machine", err)
	}
	// Who reserves nothing needs nothing.
	ours.Reserve = false
	hold(t, b, ours) // without a reservation
	ours.Reserve = true
	hold(t, a, theirs) // renew
	// Killed, not released: the kernel gives the machine back.
	check(t, cmd.Process.Kill())
	cmd.Wait()
	if err := b.claim(t.Context(), ours); err != nil {
		t.Errorf("after the first agent was killed: %v", err)
	}
	spawn(t, first, shared)
	if err := a.claim(t.Context(), theirs); !errors.As(err, &held) || held.Lease.Lab != "other" {
		t.Errorf("the first lab again: %v, want who has the machine now", err)
	}
	check(t, b.Release(t.Context(), 0))
	hold(t, a, theirs) // after the release
}

// TestReservationOfAHungAgent: an agent whose lease ran out long ago and that does
// not come to its end is no reason to wait.
func TestReservationOfAHungAgent(t *testing.T) {
	first, second := shortDir(t), shortDir(t)
	cmd := spawn(t, first, first)
	a := newClient(local(t), filepath.Join(first, "sock"))
	l := lease("run1", "storeA", time.Hour)
	l.Reserve = true
	hold(t, a, l)
	// Its note, made old.
	note := filepath.Join(first, standingName)
	var now standing
	if err := readJSON(note, &now); err != nil || now.PID != cmd.Process.Pid || now.Over <= sinceBoot() {
		t.Fatalf("the agent notes %+v, %v", now, err)
	}
	now.Over = sinceBoot() - 2*overdue
	check(t, writeJSON(note, now, 0o600))
	spawn(t, second, first)
	l.Store, l.Lab = "storeB", "other"
	b := newClient(local(t), filepath.Join(second, "sock"))
	// One that says that it is at work could not write it down.
	if held := new(HeldError); !errors.As(b.claim(t.Context(), l), &held) || held.Lease.Run != "run1" {
		t.Errorf("beside an agent that answers: %+v", held)
	}
	check(t, cmd.Process.Signal(syscall.SIGSTOP))
	if err := b.claim(t.Context(), l); err != nil {
		t.Errorf("claim = %v", err)
	}
	cmd.Wait() // or the test hangs
}

// TestKilledAgentIsForgotten: what an agent that was killed has said of its reservation
// goes with the next one, which need not reserve anything.
func TestKilledAgentIsForgotten(t *testing.T) {
	dir := shortDir(t)
	cmd := spawn(t, dir, dir)
	l := lease("run", "store", time.Hour)
	l.Reserve = true
	hold(t, newClient(local(t), filepath.Join(dir, "sock")), l)
	check(t, cmd.Process.Kill())
	cmd.Wait()
	files := []string{wordsOf(filepath.Join(dir, reservationName), os.Getuid()), filepath.Join(dir, standingName)}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}
	spawn(t, dir, dir) // which goes on with the claim
	check(t, another(t, dir, "store").Release(t.Context(), 0))
	for _, file := range files {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it is gone", file, err)
		}
	}
}

// bystander is a process of which nobody may end anything.
func bystander(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// TestReservationBelievesNobody: whoever may lock the file can keep hcl away, and is
// named. What stands in it, and in files beside it, ends no process.
func TestReservationBelievesNobody(t *testing.T) {
	dir := shortDir(t)
	victim := bystander(t)
	path := filepath.Join(dir, reservationName)
	f, err := openShared(path)
	check(t, err)
	defer f.Close()
	check(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	lie, err := json.Marshal(map[string]any{
		"pid": victim.Process.Pid, "birth": birth(victim.Process.Pid), "boot": boot(), "uid": os.Getuid(), "over": 1,
		"lease": map[string]any{"lab": "lie\x1b[2J", "ttl": "1s", "expires": "2001-01-01T00:00:00Z"},
	})
	check(t, err)
	for _, file := range []string{path, wordsOf(path, os.Getuid())} {
		check(t, os.WriteFile(file, lie, 0o644))
	}
	a, _ := serve(t, dir)
	l := lease("run", "store", time.Hour)
	l.Reserve = true
	held := new(HeldError)
	want := fmt.Sprintf("process %d (", os.Getpid())
	if err := a.claim(t.Context(), l); !errors.As(err, &held) || !strings.HasPrefix(held.Lease.Holder, want) || held.Lease.Lab != "" {
		t.Errorf("claim = %v, want that it is in use by %s…", err, want)
	}
	if birth(victim.Process.Pid) == "" {
		t.Error("a process was killed that somebody had named")
	}
	// Of its own work the holder may tell what it likes, in words that can be printed.
	if lie, err = json.Marshal(reserved{identityOf(os.Getpid()), Lease{Lab: "lab\x1b[2J", Run: "r", Holder: "eve"}}); err != nil {
		t.Fatal(err)
	}
	check(t, os.WriteFile(wordsOf(path, os.Getuid()), lie, 0o644))
	if err := a.claim(t.Context(), l); !errors.As(err, &held) || held.Lease.Lab != "lab" || held.Lease.Holder != "eve" {
		t.Errorf("claim = %v, want what the holder says", err)
	}
	check(t, f.Close())
	if err := a.claim(t.Context(), l); err != nil {
		t.Errorf("when the lock is free: %v", err)
	}
}

// TestReservationOfAStrangeKind: what another user has put where the lock file belongs
// is not followed, opened for ever or used, and its owner is named.
func TestReservationOfAStrangeKind(t *testing.T) {
	const nobody = 65534
	for _, tt := range []struct {
		kind string
		make func(path string) error
		says string // "": it can be used
	}{
		{"named pipe", func(path string) error { return syscall.Mkfifo(path, 0o666) }, "a named pipe that user nobody has put there"},
		{"directory", func(path string) error { return os.Mkdir(path, 0o777) }, "a directory that user nobody has put there"},
		{"link", func(path string) error { return os.Symlink(path+".target", path) }, "a symbolic link that user nobody has put there"},
		{"closed file", func(path string) error { return os.WriteFile(path, nil, 0o600) }, ""},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			dir := shortDir(t)
			path := filepath.Join(dir, reservationName)
			check(t, tt.make(path))
			check(t, os.Lchown(path, nobody, nobody))
			a, _ := serve(t, dir)
			l := lease("run", "store", time.Hour)
			l.Reserve = true
			err := a.claim(t.Context(), l)
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("claim = %v, want %q", err, tt.says)
			}
			if _, err := os.Lstat(path + ".target"); err == nil {
				t.Error("the link was followed")
			}
		})
	}
}

// TestReservationIsReplaced: whoever has made the lock file can remove it. Who has
// locked it learns at the next renewal that somebody else has the machine.
func TestReservationIsReplaced(t *testing.T) {
	first, second := shortDir(t), shortDir(t)
	spawn(t, first, first)
	spawn(t, second, first)
	a, b := newClient(local(t), filepath.Join(first, "sock")), newClient(local(t), filepath.Join(second, "sock"))
	theirs, ours := lease("run1", "storeA", time.Hour), lease("run2", "storeB", time.Hour)
	theirs.Reserve, ours.Reserve, ours.Lab = true, true, "other"
	hold(t, a, theirs)
	check(t, os.Remove(filepath.Join(first, reservationName)))
	hold(t, b, ours)
	held := new(HeldError)
	if err := a.claim(t.Context(), theirs); !errors.As(err, &held) || held.Lease.Lab != "other" {
		t.Errorf("the first at its renewal: %v, want who has the machine now", err)
	}
}

// TestReadReservation: status tells who has the machine without hcl's being there.
func TestReadReservation(t *testing.T) {
	h := testhost.New(t, testhost.Options{Namespace: true})
	c, err := reach.Dial(t.Context(), &provision.Host{Name: "box", Address: h.Addr, User: h.User, IdentityFile: h.IdentityFile, HostKey: h.HostKeyLine}, reach.SSH{}, slog.New(slog.DiscardHandler))
	check(t, err)
	defer c.Close()
	if l, err := ReadReservation(t.Context(), c); err != nil || l != nil {
		t.Errorf("nobody has it: %+v, %v", l, err)
	}
	const script = `cd /run/lock && exec flock hcl-reservation sh -c 'chmod 666 hcl-reservation
echo "{\"pid\":$PPID,\"lease\":{\"lab\":\"theirs\",\"run\":\"r\",\"holder\":\"eve\"}}" >hcl-reservation.65534; echo ready; read end'`
	as := h.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script)
	stdin, err := as.StdinPipe()
	check(t, err)
	out, err := as.StdoutPipe()
	check(t, err)
	check(t, as.Start())
	t.Cleanup(func() { stdin.Close(); as.Wait() })
	waitFor(t, out, "ready")
	l, err := ReadReservation(t.Context(), c)
	if err != nil || l == nil || l.Lab != "theirs" || l.Holder != "eve (login nobody)" {
		t.Errorf("ReadReservation = %+v, %v", l, err)
	}
	if out, err := h.Command("rm", "/run/lock/hcl-reservation.65534").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if l, err = ReadReservation(t.Context(), c); err != nil || l == nil || !strings.HasSuffix(l.Holder, " (flock) of user nobody") {
		t.Errorf("without a word of its own: %+v, %v", l, err)
	}
}

// TestReservationClosed: an ordinary login, and a lock file that another user has made
// and closed. It is named; nothing hangs.
func TestReservationClosed(t *testing.T) {
	h := testhost.New(t, testhost.Options{Namespace: true, Login: "ada"})
	if out, err := h.Command("install", "-m", "600", "-o", "nobody", "/dev/null", "/run/lock/"+reservationName).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	log := slog.New(slog.DiscardHandler)
	c, err := reach.Dial(t.Context(), &provision.Host{Name: "box", Address: h.Addr, User: h.User, IdentityFile: h.IdentityFile, HostKey: h.HostKeyLine}, reach.SSH{}, log)
	check(t, err)
	defer c.Close()
	binaries, err := ReadBinaries(testhost.HCL(t))
	check(t, err)
	a, err := Start(t.Context(), c, binaries, Lease{Lab: "lab", Store: "store"}, log)
	check(t, err)
	defer a.Close()
	l := lease("run", "store", time.Hour)
	l.Reserve = true
	if err := a.Lease(t.Context(), l); err == nil || !strings.Contains(err.Error(), "a file closed to others that user nobody has put there") {
		t.Errorf("Lease = %v", err)
	}
	check(t, a.Release(t.Context(), 0))
}

// TestAgentThatDies: the client brings up another, which knows the lease; the job
// that ran is lost, and that is said.
func TestAgentThatDies(t *testing.T) {
	dir := shortDir(t)
	cmd := spawn(t, dir, dir)
	a := newClient(local(t), filepath.Join(dir, "sock"))
	raised := 0
	a.up = func(context.Context) error {
		raised++
		spawn(t, dir, dir)
		return nil
	}
	l := lease("run", "store", time.Hour)
	hold(t, a, l)
	dead := false
	_, err := a.Run(t.Context(), "job", spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: 20 * time.Millisecond}), 8, 1000), func(load.Progress) {
		if !dead {
			dead = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	if !errors.Is(err, ErrJobLost) || raised != 1 {
		t.Errorf("Run = %v with %d new agents, want ErrJobLost and one", err, raised)
	}
	info, err := a.Info(t.Context())
	if err != nil || info.Lease == nil || info.Lease.Run != "run" {
		t.Errorf("the new agent: %+v, %v, want the lease", info, err)
	}
	if _, err := a.Run(t.Context(), "again", spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}), 4, 4), func(load.Progress) {}); err != nil {
		t.Errorf("the next job: %v", err)
	}
}
