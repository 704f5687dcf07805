package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/load"
)

// shutdowns puts a program in the place of shutdown, and returns how it was called so far.
func shutdowns(t *testing.T, script string) (calls func() string) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "shutdown"), []byte("#!/bin/sh\necho \"$*\" >> "+dir+"/calls\n"+script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() string {
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		return strings.Join(strings.Fields(string(text)), " ")
	}
}

// TestPowerOff: a machine that is to be off some time after its lease is told so again while that is renewed, though not each time, and
// never a time after its hard end.
func TestPowerOff(t *testing.T) {
	calls := shutdowns(t, "")
	a, _ := serve(t, shortDir(t))
	take := func(run string, ttl, within time.Duration) {
		t.Helper()
		l := lease(run, "store", ttl)
		l.PowerOff = &PowerOff{After: load.Duration(20 * time.Minute), Within: load.Duration(within)}
		check(t, a.Lease(t.Context(), l))
	}
	hold(t, a, lease("run0", "store", 10*time.Minute)) // of a machine that stays on
	if got := calls(); got != "" {
		t.Errorf("shutdown %s", got)
	}
	said := ""
	for _, is := range []struct {
		run         string
		ttl, within time.Duration
		call        string
	}{
		{"run1", 10 * time.Minute, 3 * time.Hour, "-P +29"}, // the seconds that have gone by are no minute
		{"run1", 10 * time.Minute, 3 * time.Hour, ""},
		{"run1", 30 * time.Minute, 3 * time.Hour, "-P +49"},
		{"run1", 30 * time.Minute, 45 * time.Minute, "-P +44"}, // the hard end is nearer
		{"run1", time.Hour, 3 * time.Hour, ""},                 // and stays so, whatever the caller's clock says
		{"run2", 10 * time.Minute, 5 * time.Minute, "-P +4"},
		{"run3", 10 * time.Minute, 30 * time.Second, "-P +0"},
	} {
		if take(is.run, is.ttl, is.within); is.call != "" {
			said = strings.TrimSpace(said + " " + is.call)
		}
		eventually(t, "shutdown "+said, func() bool { return calls() == said })
		if why := a.StaysOn(); why != "" {
			t.Error(why)
		}
	}
}

// TestPowerOffKept: a machine that is to stay for long is not off before: it is told anew long before half of that has gone by. A lease
// that says nothing of it leaves it as it was told.
func TestPowerOffKept(t *testing.T) {
	calls := shutdowns(t, "")
	a, _ := serve(t, shortDir(t))
	said := ""
	for _, is := range []struct {
		ttl  time.Duration
		off  *PowerOff
		call string
	}{
		{10 * time.Minute, &PowerOff{After: load.Duration(4 * time.Hour), Within: load.Duration(9 * time.Hour)}, "-P +249"},
		{10 * time.Minute, nil, ""},
		{20 * time.Minute, &PowerOff{After: load.Duration(4 * time.Hour), Within: load.Duration(9 * time.Hour)}, "-P +259"},
	} {
		l := lease("run", "store", is.ttl)
		l.PowerOff = is.off
		check(t, a.Lease(t.Context(), l))
		said = strings.TrimSpace(said + " " + is.call)
		eventually(t, "shutdown "+said, func() bool { return calls() == said })
	}
}

// TestStaysOn: why a machine cannot be told to shut itself down, who takes it is told.
func TestStaysOn(t *testing.T) {
	shutdowns(t, "echo 'Failed to talk to init daemon.' >&2\nexit 1\n")
	a, _ := serve(t, shortDir(t))
	l := lease("run", "store", 10*time.Minute)
	l.PowerOff = &PowerOff{After: load.Duration(20 * time.Minute), Within: load.Duration(time.Hour)}
	check(t, a.Lease(t.Context(), l))
	if why := a.StaysOn(); !strings.Contains(why, "`shutdown -P +29`: ") || !strings.Contains(why, "Failed to talk to init daemon.") {
		t.Error(why)
	}
}
