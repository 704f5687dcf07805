package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

// kernel puts a sysctl first on the path that has a state of its own, and returns what
// reads it.
func kernel(t *testing.T, shared string) (balancing func() string) {
	t.Helper()
	state := filepath.Join(shared, "numa")
	const script = `#!/bin/sh
state=$(dirname "$0")/numa
case $* in
"-n kernel.numa_balancing") cat "$state" ;;
"-q -w kernel.numa_balancing="?) [ ! -e "$state.stuck" ] && echo "${3#*=}" >"$state" ;;
*) exit 1 ;;
esac
`
	check(t, os.WriteFile(filepath.Join(shared, "sysctl"), []byte(script), 0o755))
	check(t, os.WriteFile(state, []byte("1\n"), 0o644))
	t.Setenv("PATH", shared+":"+os.Getenv("PATH"))
	return func() string {
		b, err := os.ReadFile(state)
		check(t, err)
		return strings.TrimSpace(string(b))
	}
}

// preparer is a client of a host whose block wants no balancing.
func preparer(t *testing.T, dir string) *Client {
	t.Helper()
	c := local(t)
	c.Host().Prepare = &provision.Prepare{NUMABalancing: new(bool)}
	return newClient(c, filepath.Join(dir, "sock"))
}

// TestPrepare: what a run has set is put back when its lease is released or runs out,
// by the next agent when its own was killed, and only by whom it concerns.
func TestPrepare(t *testing.T) {
	first, second, shared := shortDir(t), shortDir(t), shortDir(t)
	balancing := kernel(t, shared)
	cmd := spawn(t, first, shared)
	a := preparer(t, first)

	if _, err := a.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "not reserved") {
		t.Errorf("without a reservation: %v", err)
	}
	l := lease("run1", "storeA", time.Hour)
	l.Reserve = true
	set := func(a *Client) {
		t.Helper()
		hold(t, a, l)
		got, err := a.Prepare(t.Context())
		want := []provision.Change{{Setting: "numa balancing", Was: "on", Now: "off", Set: []string{"sysctl", "-q", "-w", "kernel.numa_balancing=0"}, Undo: []string{"sysctl", "-q", "-w", "kernel.numa_balancing=1"}}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || balancing() != "0" {
			t.Fatalf("Prepare = %v, balancing %s (-want +got):\n%s", err, balancing(), diff)
		}
	}
	set(a)
	set(a) // again, as after a lost answer
	if err := a.Release(t.Context(), 0); err != nil || balancing() != "1" {
		t.Errorf("Release = %v, balancing %s", err, balancing())
	}
	cmd.Wait()

	// The lease runs out.
	cmd = spawn(t, first, shared)
	set(a)
	l.TTL /= 3600
	hold(t, a, l)
	cmd.Wait()
	if balancing() != "1" {
		t.Error("it is not put back when the lease has run out")
	}

	// The agent is killed. One of another lab, who reserves nothing, leaves it alone;
	// with the machine reserved it puts it back.
	cmd = spawn(t, first, shared)
	l.TTL *= 3600
	set(a)
	cmd.Process.Kill()
	cmd.Wait()
	other := newClient(local(t), filepath.Join(second, "sock"))
	spawn(t, second, shared)
	if err := other.Release(t.Context(), 0); err != nil || balancing() != "0" {
		t.Errorf("a lab that has nothing to do with it: %v, balancing %s", err, balancing())
	}
	spawn(t, second, shared)
	hold(t, other, l)
	if _, err := other.Begin(t.Context()); err != nil || balancing() != "1" {
		t.Errorf("a lab that has the machine: %v, balancing %s", err, balancing())
	}
	check(t, other.Release(t.Context(), 0))

	// What cannot be put back is told, and the next tries again.
	cmd = spawn(t, first, shared)
	set(a)
	stuck := filepath.Join(shared, "numa.stuck")
	check(t, os.WriteFile(stuck, nil, 0o644))
	err := a.Release(t.Context(), 0)
	if !errors.As(err, new(*agentError)) || !strings.Contains(err.Error(), "put back the settings") {
		t.Errorf("Release = %v, want that it cannot be put back", err)
	}
	check(t, os.Remove(stuck))
	cmd.Wait()
	spawn(t, first, shared)
	if err := a.Release(t.Context(), 0); err != nil || balancing() != "1" {
		t.Errorf("the next: %v, balancing %s", err, balancing())
	}
}
