package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

// TestReservation: two agents, of two labs, on one machine. The second is told who
// is at work, gets the machine when the first is done, and also when the first is
// killed.
func TestReservation(t *testing.T) {
	first, second := shortDir(t), shortDir(t)
	shared := filepath.Join(first, "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := spawn(t, first, shared)
	a, b := newClient(local(t), filepath.Join(first, "sock")), newClient(local(t), filepath.Join(second, "sock"))
	spawn(t, second, shared)

	theirs, ours := lease("run1", "storeA", time.Hour), lease("run2", "storeB", time.Hour)
	theirs.Reserve, ours.Reserve, ours.Lab = true, true, "other"
	if err := a.claim(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	held := new(HeldError)
	if err := b.claim(t.Context(), ours); !errors.As(err, &held) || held.Lease.Run != "run1" || held.Lease.Lab != "lab" || held.Lease.Expires.IsZero() {
		t.Fatalf("the second lab: %v, want who has the machine", err)
	}
	// Who reserves nothing needs nothing.
	ours.Reserve = false
	if err := b.claim(t.Context(), ours); err != nil {
		t.Errorf("without a reservation: %v", err)
	}
	ours.Reserve = true
	if err := a.claim(t.Context(), theirs); err != nil {
		t.Errorf("renew: %v", err)
	}
	// Killed, not released: the kernel gives the machine back.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if err := b.claim(t.Context(), ours); err != nil {
		t.Errorf("after the first agent was killed: %v", err)
	}
	spawn(t, first, shared)
	if err := a.claim(t.Context(), theirs); !errors.As(err, &held) || held.Lease.Lab != "other" {
		t.Errorf("the first lab again: %v, want who has the machine now", err)
	}
	if err := b.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.claim(t.Context(), theirs); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// TestReservationOfAHungAgent: an agent whose lease ran out long ago and that does
// not come to its end is no reason to wait.
func TestReservationOfAHungAgent(t *testing.T) {
	first, second := shortDir(t), shortDir(t)
	cmd := spawn(t, first, first)
	a := newClient(local(t), filepath.Join(first, "sock"))
	l := lease("run1", "storeA", time.Hour)
	l.Reserve = true
	if err := a.claim(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	// Its word, made old.
	f, err := os.OpenFile(filepath.Join(first, reservationName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	now, err := readReserved(f)
	if err != nil {
		t.Fatal(err)
	}
	now.Lease.Expires = time.Now().Add(-2 * overdue)
	if err := (&reservation{f}).write(now); err != nil {
		t.Fatal(err)
	}
	spawn(t, second, first)
	l.Store, l.Lab = "storeB", "other"
	if err := newClient(local(t), filepath.Join(second, "sock")).claim(t.Context(), l); err != nil {
		t.Errorf("claim = %v", err)
	}
	cmd.Wait() // or the test hangs
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
	if err := a.Lease(t.Context(), l); err != nil {
		t.Fatal(err)
	}
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
