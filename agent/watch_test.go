package agent

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hclbench/telemetry"
)

// TestWatch: what is read beside the agent's jobs comes with the end of the watch,
// is forgotten after it, and ends with the agent.
func TestWatch(t *testing.T) {
	bin := shortDir(t)
	much := filepath.Join(bin, "much") // opened when the tool has told twenty times
	check(t, syscall.Mkfifo(much, 0o600))
	smi := "#!/bin/sh\nwhile :; do echo \"$(date -u '+%Y/%m/%d %H:%M:%S.%3N'), 5, 650.5, 98, 1024, 61, 1755, 3201, 0x0\"; n=$((n + 1)); [ $n != 20 ] || : >" + much + "; sleep 0.02; done\n"
	check(t, os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(smi), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	a, _ := serve(t, shortDir(t))
	plan := telemetry.Plan{Interval: 0.1, GPUs: &telemetry.GPUs{Vendor: telemetry.NVIDIA, Count: 1}}
	w := telemetry.Window{Zero: time.Now(), From: time.Now()}
	for range 2 { // the second time as if the first answer had been lost
		check(t, a.Watch(t.Context(), "w", plan))
	}
	opened := make(chan error, 1)
	go func() {
		f, err := os.Open(much)
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		check(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the tool has not told anything twenty times")
	}
	w.To = time.Now()
	r, err := a.EndWatch(t.Context(), "w", w)
	check(t, err)
	if r.Expected == 0 || len(r.Series) == 0 || len(r.Problems) > 0 {
		t.Fatalf("what was read is %+v", r)
	}
	if want := 650.5 * w.To.Sub(w.From).Seconds(); r.Missing == 0 && (r.Energy < 0.99*want || r.Energy > 1.01*want) {
		t.Errorf("energy %v J, want about %v", r.Energy, want)
	}
	if _, err := a.EndWatch(t.Context(), "w", w); !errors.Is(err, errWatchLost) {
		t.Errorf("a watch that was ended: %v, want %v", err, errWatchLost)
	}
	if err := a.Watch(t.Context(), "left", plan); err != nil { // the agent ends all the same
		t.Fatal(err)
	}
	if ahead, err := a.Ahead(t.Context()); err != nil || ahead.Abs() > 10*time.Second {
		t.Errorf("the clock of this machine is %v ahead of itself, %v", ahead, err)
	}
}
