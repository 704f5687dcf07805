package measure

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

// TestStoodStill: a generator whose process is stopped in the middle of its load, and goes on, has measured nothing.
// Its own clocks all start after the thaw.
func TestStoodStill(t *testing.T) {
	engine, asked := sim.New(sim.Config{TTFT: 5 * time.Millisecond, ITL: time.Millisecond}), atomic.Int64{}
	load1 := exec.Command(os.Args[0])
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		engine.ServeHTTP(w, r)
		if asked.Add(1) == 10 {
			load1.Process.Signal(syscall.SIGSTOP)
			time.AfterFunc(700*time.Millisecond, func() { load1.Process.Signal(syscall.SIGCONT) })
		}
	}))
	defer h.Close()
	job, err := json.Marshal(load.Job{Target: load.Target{BaseURL: h.URL, Model: sim.DefaultModel}, Workload: load.Workload{
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 5}, Requests: 40, Concurrency: 2, OutputTokens: 3, IgnoreEOS: true, Endpoint: load.Completions}})
	if err != nil {
		t.Fatal(err)
	}
	load1.Env, load1.Stdin, load1.Stderr = append(os.Environ(), roleVariable+"="+roleLoad), strings.NewReader(string(job)), os.Stderr
	out, err := load1.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got effort
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	s := got.Summary
	if v := s.Verdict; s.Stopped < 600 || v.Verdict != load.Void || v.Reasons[0].Code != stoodStill.code {
		t.Errorf("stood still for %v ms: %v", s.Stopped, v)
	}
}

// TestStillness: a process that wakes a little late did run.
func TestStillness(t *testing.T) {
	last := time.Now()
	for late, want := range map[time.Duration]time.Duration{0: 0, 60 * msec: 0, 99 * msec: 0, 100 * msec: 100 * msec, time.Minute: time.Minute} {
		if got := stillness(last, last.Add(pulseEvery+late)); got != want {
			t.Errorf("%v late: stood still for %v, want %v", late, got, want)
		}
	}
}

// TestWaited: what a thread waits for a processor is the second number that Linux tells of it.
func TestWaited(t *testing.T) {
	dir := t.TempDir()
	for thread, text := range map[string]string{"7": "1000 2000000 3\n", "8": "5 3000000 9\n", "9": ""} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, thread), 0o755), os.WriteFile(filepath.Join(dir, thread, "schedstat"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got := waited(dir); got != 5*msec {
		t.Errorf("waited %v", got)
	}
	if waited(ownThreads) == 0 || waited(t.TempDir()) != 0 {
		t.Error("this process has waited for no processor, or one without threads has")
	}
}
