package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/provision"
)

// branching makes the test binary an engine of several processes, as vLLM is: each writes over its
// environment, and none ends at a stop signal.
const branching = "branching"

// branch is one process of such an engine. It starts those that come of it, and tells who it is.
func branch(role, dir string) {
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, role, err)
			os.Exit(1)
		}
	}
	signal.Ignore(syscall.SIGTERM)
	self, err := os.Executable()
	must(err)
	start := func(role string, setsid bool) {
		cmd := exec.Command(self, branching, role, dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
		must(cmd.Start())
	}
	stat, err := os.ReadFile("/proc/self/stat")
	must(err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	from, err := strconv.ParseInt(fields[47], 10, 64) // env_start and env_end
	must(err)
	to, err := strconv.ParseInt(fields[48], 10, 64)
	must(err)
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	must(err)
	_, err = memory.WriteAt(make([]byte, to-from), from)
	must(err)
	switch role {
	case "server":
		start("worker", false)
		start("helper", true)
	case "worker":
		_, err := os.MkdirTemp("", tempOf(dir))
		must(err)
		f, err := os.OpenFile(filepath.Join(shared, segmentOf(dir)), os.O_CREATE|os.O_RDWR, 0o600)
		must(err)
		must(f.Truncate(4096))
		_, err = syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
		must(err)
		must(f.Close())
	case "helper":
		start("daemon", true)
		must(os.WriteFile(filepath.Join(dir, role), []byte("ended"), 0o600))
		return // and leaves an orphan
	}
	must(os.WriteFile(filepath.Join(dir, role+".new"), fmt.Append(nil, os.Getpid()), 0o600))
	must(os.Rename(filepath.Join(dir, role+".new"), filepath.Join(dir, role)))
	for {
		_ = syscall.Pause() // no signal ends it
	}
}

func segmentOf(dir string) string { return "psm_" + filepath.Base(dir) }

func tempOf(dir string) string { return "socket-" + filepath.Base(dir) }

// branched starts such an engine, and returns its processes.
func branched(t *testing.T, a *Client) (server, worker, daemon int) {
	t.Helper()
	dir := shortDir(t)
	self, err := os.Executable()
	check(t, err)
	ct := shell("")
	ct.Entrypoint = []provision.Text{provision.Plain(self)}
	ct.Command = []provision.Text{provision.Plain(branching), provision.Plain("server"), provision.Plain(dir)}
	begin(t, a, ct)
	of := func(role string) int { return noted(t, filepath.Join(dir, role)) }
	server, worker, daemon = of("server"), of("worker"), of("daemon")
	for _, pid := range []int{worker, daemon} {
		if env := strings.Trim(strings.Join(environment(pid), ""), "\x00"); env != "" {
			t.Fatalf("the environment of process %d is there: %q", pid, env)
		}
	}
	segment := filepath.Join(shared, segmentOf(dir))
	temporary := func() (found []string) {
		for _, below := range []string{"", "hcl-*"} {
			all, err := filepath.Glob(filepath.Join(os.TempDir(), below, tempOf(dir)+"*"))
			check(t, err)
			found = append(found, all...)
		}
		return found
	}
	if len(temporary()) != 1 {
		t.Errorf("temporary files: %q", temporary())
	}
	t.Cleanup(func() {
		if left := temporary(); len(left) > 0 {
			t.Errorf("temporary files are left: %q", left)
		}
		for _, pid := range []int{server, worker, daemon} {
			if birth(pid) != "" {
				t.Errorf("process %d lives", pid)
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if err := os.Remove(segment); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it was removed", segment, err)
		}
	})
	return server, worker, daemon
}

// foreignSegment is shared memory of this user that no process of an agent uses.
func foreignSegment(t *testing.T) {
	t.Helper()
	f, err := os.CreateTemp(shared, "psm_")
	check(t, err)
	check(t, f.Close())
	t.Cleanup(func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Errorf("somebody else's shared memory: %v", err)
		}
	})
}

// TestTree: what came of a process is found and ended when its first process was killed, whatever it calls
// itself and whoever is its parent; its shared memory goes with it.
func TestTree(t *testing.T) {
	for what, tt := range map[string]struct {
		agent, server bool // which of them are killed
	}{
		"nobody killed": {},
		"server":        {server: true},
		"agent":         {agent: true},
		"agent, server": {agent: true, server: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			cmd := spawn(t, dir, dir)
			a := newClient(local(t), filepath.Join(dir, "sock"))
			defer a.Close()
			server, _, _ := branched(t, a)
			foreignSegment(t)
			if tt.agent {
				check(t, cmd.Process.Kill())
				cmd.Wait()
			}
			if tt.server {
				check(t, syscall.Kill(server, syscall.SIGKILL))
			}
			if tt.agent {
				a, _ = serve(t, dir)
			}
			if tt.server {
				eventually(t, "the server's end is told", func() bool {
					st, err := Processes{a}.State(t.Context(), "p")
					check(t, err)
					return !st.Running && st.ExitCode == 128+int(syscall.SIGKILL)
				})
				found, err := Processes{a}.List(t.Context(), nil)
				if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].State, "exited, but process ") {
					t.Errorf("List = %+v, %v", found, err)
				}
			}
			check(t, stop(a, t.Context(), "p", 100*time.Millisecond))
			if found, err := (Processes{a}).List(t.Context(), nil); err != nil || len(found) > 0 {
				t.Errorf("List = %+v, %v", found, err)
			}
		})
	}
}

// reaperOf is who reaps the process p of an agent.
func reaperOf(t *testing.T, dir string) *os.Process {
	t.Helper()
	k, err := openKept(filepath.Join(dir, "processes", "p"))
	check(t, err)
	if !k.Reaper.alive() {
		t.Fatalf("the reaper is gone: %+v", k)
	}
	p, err := os.FindProcess(k.Reaper.PID)
	check(t, err)
	return p
}

// TestNotGone: what cannot be ended is named, and goes on being the agent's to end.
func TestNotGone(t *testing.T) {
	dir := shortDir(t)
	a, _ := serveAs(t, Config{Dir: dir, Release: time.Nanosecond})
	beginUntil(t, a, "trap '' TERM; echo up; while :; do sleep 0.02; done", "up")
	reaper := reaperOf(t, dir)
	check(t, reaper.Signal(syscall.SIGSTOP))
	pid := pidOf(t, dir, "p")
	err := stop(a, t.Context(), "p", 50*time.Millisecond)
	if want := fmt.Sprintf("stop p: process %d (sh)", pid); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "not gone: killed 5s ago") {
		t.Errorf("Stop = %v, want %q", err, want)
	}
	if found, err := (Processes{a}).List(t.Context(), nil); err != nil || len(found) != 1 {
		t.Errorf("List = %+v, %v", found, err)
	}
	check(t, reaper.Signal(syscall.SIGCONT))
	eventually(t, "it is stopped", func() bool { return stop(a, t.Context(), "p", 50*time.Millisecond) == nil })
	if birth(pid) != "" {
		t.Error("it lives")
	}
}

// TestLateReaper: how a process has ended is its reaper's to tell, however late that comes to it.
func TestLateReaper(t *testing.T) {
	dir := shortDir(t)
	a, _ := serve(t, dir)
	begin(t, a, shell("exec sleep 1000"))
	reaper := reaperOf(t, dir)
	check(t, reaper.Signal(syscall.SIGSTOP))
	check(t, syscall.Kill(pidOf(t, dir, "p"), syscall.SIGKILL))
	state := func() provision.State {
		st, err := Processes{a}.State(t.Context(), "p")
		check(t, err)
		return st
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if st := state(); !st.Running {
			t.Fatalf("State = %+v before its reaper has told", st)
		}
	}
	check(t, reaper.Signal(syscall.SIGCONT))
	eventually(t, "its end is told", func() bool { return !state().Running })
	if st := state(); st.ExitCode != 128+int(syscall.SIGKILL) {
		t.Errorf("State = %+v", st)
	}
	check(t, stop(a, t.Context(), "p", time.Second))
}

// TestKilledReaper: without a reaper, what is in its session is found, with or without the mark, and its shared memory goes
// with it.
func TestKilledReaper(t *testing.T) {
	dir := shortDir(t)
	a, _ := serve(t, dir)
	file, segment := filepath.Join(dir, "pid"), filepath.Join(shared, segmentOf(dir))
	defer os.Remove(segment)
	begin(t, a, shell("set -m; env -u "+provision.ProcessMark+" sh -c 'exec 9>"+segment+"; echo $$ >"+file+".new; mv "+file+".new "+file+"; exec sleep 1000' & wait"))
	child, leader := noted(t, file), pidOf(t, dir, "p")
	check(t, reaperOf(t, dir).Kill())
	if st, err := (Processes{a}).State(t.Context(), "p"); err != nil || !st.Running {
		t.Errorf("State = %+v, %v", st, err)
	}
	check(t, syscall.Kill(leader, syscall.SIGKILL))
	check(t, stop(a, t.Context(), "p", time.Second))
	if birth(child) != "" || birth(leader) != "" {
		t.Error("what the process has started lives")
	}
	if _, err := os.Stat(segment); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its shared memory: %v, want that it was removed", err)
	}
}

// TestInterpreterIsMissing: of a program that is there it is said what it lacks.
func TestInterpreterIsMissing(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	script := filepath.Join(t.TempDir(), "vllm")
	for path, want := range map[string]string{
		script:           "exec " + script + ": no such file or directory: the program is there, but not /gone/bin/python3, which its first line names",
		script + "-gone": "no such file or directory",
	} {
		check(t, os.WriteFile(script, []byte("#! /gone/bin/python3 -I\nimport vllm\n"), 0o755))
		ct := shell("")
		ct.Entrypoint, ct.Command = []provision.Text{provision.Plain(path)}, nil
		_, err := (Processes{a}).Start(t.Context(), ct)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "is there") != (path == script) {
			t.Errorf("Start = %v, want %s", err, want)
		}
	}
}

// TestPathOfTheProcess: the program is looked for where the process would.
func TestPathOfTheProcess(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	bin := t.TempDir()
	check(t, os.WriteFile(filepath.Join(bin, "engine"), []byte("#!/bin/sh\necho here\n"), 0o755))
	ct := shell("")
	ct.Entrypoint, ct.Command = []provision.Text{provision.Plain("engine")}, nil
	if _, err := (Processes{a}).Start(t.Context(), ct); err == nil || !strings.Contains(err.Error(), `"engine": executable file not found in $PATH: it is `+os.Getenv("PATH")) {
		t.Errorf("Start = %v", err)
	}
	ct.Env = append(ct.Env, provision.EnvVar{Name: "PATH", Value: provision.Plain(bin + ":" + os.Getenv("PATH"))})
	begin(t, a, ct)
	if got := logsOf(t, a, true, -1); got != "here\n" {
		t.Errorf("log = %q", got)
	}
}
