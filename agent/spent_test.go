package agent

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/provision"
)

// burning makes the test binary a process that has had so much processor time, and ends.
const burning = "burning"

func burn(seconds string) {
	want, err := time.ParseDuration(seconds)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for had := time.Duration(0); had < want; had, _ = burnt() {
	}
}

// burnt is how much processor time this process has had.
func burnt() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// TestSpent: what all processes of an engine have had counts, also of those that have ended or left its tree, and that of
// the generator, which is this process; what a stranger has had does not. What an engine is that is being made has had
// is not known, and what one had that was stopped stays.
func TestSpent(t *testing.T) {
	dir, log := shortDir(t), slog.New(slog.NewTextHandler(t.Output(), nil))
	check(t, os.Mkdir(filepath.Join(dir, "processes"), 0o700))
	p, err := openProcesses(filepath.Join(dir, "processes"), time.Second, log)
	check(t, err)
	c := openClaim(t.Context(), Config{Dir: dir, Log: log}, p)
	t.Cleanup(func() { check(t, p.stopAll(t.Context())) })
	l := lease("run", "store", time.Hour)
	c.hold(life{lease: l, claim: "c"})
	spent := c.spent()
	read := func() (engine time.Duration) {
		t.Helper()
		all, known := spent(t.Context())
		if !known {
			t.Fatal("what was spent is not known")
		}
		ours, err := burnt()
		check(t, err)
		return all - ours
	}

	before := read()
	self, err := os.Executable()
	check(t, err)
	done := filepath.Join(dir, "done")
	one := self + " " + burning + " 500ms && echo >>" + done
	ct := shell(strings.NewReplacer("ONE", one).Replace("(ONE) & (ONE) & (setsid sh -c 'ONE' &) ; wait; exec sleep 1000"))
	_, err = c.make(t.Context(), l.Run, "p", newMemberOrder(provision.Process, ct))
	check(t, err)
	stranger := exec.CommandContext(t.Context(), self, burning, "2s")
	check(t, stranger.Run())
	eventually(t, "all have had what they want", func() bool { return strings.Count(text(done), "\n") == 3 })
	// What starting four programs takes is in it, and a hundredth of a second for each count may not be.
	had := read() - before
	if had < 1400*time.Millisecond || had > 2300*time.Millisecond {
		t.Errorf("the engine had %s of the processors, want 1.5s and a little", had)
	}
	check(t, c.takeDown(t.Context(), "p", time.Second))
	if after := read() - before; after < had-50*time.Millisecond || after > had+200*time.Millisecond {
		t.Errorf("the engine is stopped, and now had %s of the processors, not %s", after, had)
	}
	c.note.Members = append(c.note.Members, member{Name: "made", Runtime: provision.Docker, Docker: "unix:///nowhere"})
	if all, known := spent(t.Context()); known {
		t.Errorf("a container that is being made: %s", all)
	}
}
