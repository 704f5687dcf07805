package main

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hclbench/testhost"
)

// soakRuns in the environment says how often the caller is killed at a random moment, where it
// is not a few times; `make soak` sets it.
const soakRuns = "HCL_SOAK"

// fault is something that goes wrong while a lab is applied.
type fault struct {
	name    string
	often   bool              // in TestFaults, for its kind; all others are in TestSlowFaults
	soak    bool              // in TestSoakFaults: it takes minutes
	lease   time.Duration     // of the lab; 0: 10m
	engine  map[string]string // environment of the engine's image
	process bool              // the host has no Docker
	hub     bool              // the model is downloaded to the host
	sender  bool              // the load is sent from another host, by a cable between the two
	opt     testhost.Options
	at      moment // when apply is begun and the fault strikes; none: strike begins it
	strike  func(s *scene)
	whole   bool   // the run itself survives: it ends well, with every cell measured
	says    string // what the user reads
}

// tally is one line of the table.
type tally struct {
	fault           string
	tried, survived int
	left            []string
	clean           time.Duration // the longest time from the loss of the caller to a clean host; 0: it was not lost
}

// tallies prints what became of faults when the test has ended, and returns what counts one.
func tallies(t *testing.T) (count func(t *testing.T, name string, left []string, clean time.Duration)) {
	var mu sync.Mutex
	var rows []tally
	t.Cleanup(func() {
		slices.SortFunc(rows, func(a, b tally) int { return strings.Compare(a.fault, b.fault) })
		lines := [][]any{{"FAULT", "TRIED", "SURVIVED", "LEFT", "CLEAN AFTER"}}
		tried, survived := 0, 0
		for _, r := range rows {
			tried, survived = tried+r.tried, survived+r.survived
			left, clean := cmp.Or(strings.Join(r.left, " "), "nothing"), ""
			if r.clean > 0 {
				clean = fmt.Sprintf("%.1f s", r.clean.Seconds())
			}
			lines = append(lines, []any{r.fault, r.tried, r.survived, left, clean})
		}
		must(t, writeTable(os.Stdout, append(lines, []any{"all", tried, survived})))
	})
	return func(t *testing.T, name string, left []string, clean time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		i := slices.IndexFunc(rows, func(r tally) bool { return r.fault == name })
		if i < 0 {
			i, rows = len(rows), append(rows, tally{fault: name})
		}
		rows[i].tried++
		if !t.Failed() {
			rows[i].survived++
		}
		rows[i].clean = max(rows[i].clean, clean)
		rows[i].left = append(rows[i].left, left...)
	}
}

// TestFaults breaks one thing of each kind that can break while a lab is applied. After
// each, the next apply finishes the matrix and nothing is left anywhere.
func TestFaults(t *testing.T) {
	t.Parallel()
	count := tallies(t)
	for _, f := range faultsOf(func(f fault) bool { return f.often }) {
		f.befalls(t, count)
	}
}

// TestSlowFaults breaks everything else, and kills the caller at random moments.
func TestSlowFaults(t *testing.T) {
	t.Parallel()
	count := tallies(t)
	for _, f := range faultsOf(func(f fault) bool { return !f.often && !f.soak }) {
		f.befalls(t, count)
	}
	kills := soaks(t, 4)
	lanes := min(kills, 4)
	for lane := range lanes {
		t.Run(fmt.Sprintf("kill-%d", lane), func(t *testing.T) {
			t.Parallel()
			f := fault{name: "kill -9 of the caller", engine: map[string]string{"ENGINE_FAULT": "slow-start=500ms"}}
			s := newScene(t, f)
			s.begin()
			start := time.Now()
			if code := s.end(2 * time.Minute); code != exitDone && code != exitCells {
				t.Fatalf("undisturbed: exit %d\n%s", code, s.said.String())
			}
			takes := time.Since(start)
			for i := lane; i < kills; i += lanes {
				must(s, os.RemoveAll(filepath.Join(s.lab, ".hcl"))) // each with a store of its own
				s.kept, s.void = 0, 0
				phase, killed := s.killAtRandom(&takes)
				if !killed { // it was quicker than the last, which had to pull
					i -= lanes
					continue
				}
				left := s.survives()
				count(t, f.name+", while "+phase, left, 0)
				if t.Failed() {
					t.Fatalf("killed while %s", phase)
				}
			}
		})
	}
}

// soaks is how often something is tried: few times where nobody says how often.
func soaks(t *testing.T, few int) int {
	t.Helper()
	said := os.Getenv(soakRuns)
	if said == "" {
		return few
	}
	n, err := strconv.Atoi(said)
	if err != nil {
		t.Fatalf("%s: %v", soakRuns, err)
	}
	return max(n, few)
}

// TestSoakFaults is what takes minutes, most of which nothing happens.
func TestSoakFaults(t *testing.T) {
	t.Parallel()
	count := tallies(t)
	for _, f := range faultsOf(func(f fault) bool { return f.soak }) {
		f.befalls(t, count)
	}
}

// faultsOf are those of a test.
func faultsOf(test func(fault) bool) []fault {
	all := slices.Concat(network(), faults, agentFaults, claimFaults(), hostFaults, leftFaults)
	return slices.DeleteFunc(all, func(f fault) bool { return !test(f) })
}

// befalls plays the scene.
func (f fault) befalls(t *testing.T, count func(t *testing.T, name string, left []string, clean time.Duration)) {
	t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
		t.Parallel()
		var left []string
		s := &scene{}
		defer func() { count(t, f.name, left, s.clean) }()
		s = newScene(t, f)
		if f.at.kind != "" {
			s.reach(f.at)
		}
		f.strike(s)
		if f.at == midPull {
			s.host.SlowRegistry(0)
		}
		code := s.end(5 * time.Minute)
		if f.whole && (code != exitDone && code != exitCells || s.kept != faultCells) {
			t.Errorf("exit %d with %d cells of %d\n%s", code, s.kept, faultCells, s.told())
		}
		if f.says != "" && !strings.Contains(s.told(), f.says) {
			t.Errorf("nobody is told %q: exit %d\n%s", f.says, code, s.told())
		}
		left = s.survives()
	})
}

// network is what the network can do to a run, and for how long.
func network() (all []fault) {
	slow := map[string]string{"ENGINE_FAULT": "slow-start=3s"}
	for _, m := range []struct {
		at     moment
		engine map[string]string
	}{{midPull, nil}, {midLoad, slow}, {midCell, nil}} {
		all = append(all,
			fault{name: "network cut for 5 s " + m.at.name, at: m.at, engine: m.engine, often: m.at == midCell, whole: true, strike: cutFor(5 * time.Second)},
			fault{name: "network cut for 60 s " + m.at.name, at: m.at, engine: m.engine, whole: true, strike: cutFor(time.Minute)},
			fault{name: "network cut for good " + m.at.name, at: m.at, often: m.at == midCell,
				lease: 5 * time.Second, says: "out of reach", strike: (*scene).hang})
	}
	return all
}

// cutFor takes the network away for so long.
func cutFor(d time.Duration) func(*scene) {
	return func(s *scene) {
		must(s, s.host.Link(false))
		<-time.After(d)
		must(s, s.host.Link(true))
	}
}

// hangUp has the hub send half of the model and then wait until the network was cut.
func hangUp(s *scene) {
	half, gone := make(chan struct{}), make(chan struct{})
	var begun atomic.Bool
	s.hub.Before(func(w http.ResponseWriter, r *http.Request, name string) bool {
		if name != fetchedFile || !begun.CompareAndSwap(false, true) {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(fetched)))
		w.Write(fetched[:len(fetched)/2])
		w.(http.Flusher).Flush()
		close(half)
		<-gone
		panic(http.ErrAbortHandler) // the hub has lost patience meanwhile
	})
	s.begin()
	leave := sync.OnceFunc(func() { close(gone) })
	defer leave()
	select {
	case <-half:
	case <-s.ended:
		s.Fatalf("apply ended before its download began: %s", s.said.String())
	}
	s.await("download", "", 1)
	cutFor(5 * time.Second)(s)
	leave()
	s.end(2 * time.Minute)
	want := []string{"config.json", fetchedFile, fmt.Sprintf("%s@%d", fetchedFile, len(fetched)/2)}
	if got := slices.Sorted(slices.Values(s.hub.Asked())); !slices.Equal(got, want) {
		s.Errorf("asked for %v, want %v", got, want)
	}
}

// restartDocker takes the daemon down and up again.
func (s *scene) restartDocker() {
	s.Helper()
	must(s, s.host.Docker.Stop())
	must(s, s.host.Docker.Start())
}

// fullDisk fills a disk on a host while a cell is measured.
func (s *scene) fullDisk(host *testhost.Host, filler, block string) {
	cell := midCell
	cell.stays[1] = strings.Replace(cell.stays[1], "1s", "300ms", 1) // at its end it is told that there is no space left
	s.reach(cell)
	host.Command("dd", "if=/dev/zero", "of="+filler, "bs="+block).Run() // it ends for lack of space
	s.end(3 * time.Minute)
	must(s, host.Command("rm", filler).Run())
}

// failsByItself has the engine fail by itself, and mends it when the run has ended.
func failsByItself(s *scene) {
	s.begin()
	s.end(2 * time.Minute)
	s.push(nil)
}

var faults = []fault{
	{name: "network cut for 5 s in mid-download, without Docker", process: true, hub: true, whole: true, strike: hangUp},
	{name: "network cut for 5 s in mid-cell, without Docker", at: midCell, process: true, whole: true, strike: cutFor(5 * time.Second)},
	{name: "sender of the load cut off for good in mid-cell", at: midCell, sender: true, lease: 5 * time.Second, says: "its load is no longer sent",
		strike: func(s *scene) {
			must(s, s.others[0].Link(false))
			s.end(time.Minute)
			if s.kept != 2 {
				s.Errorf("%d cells are measured, want the 2 whose load needs no other host\n%s", s.kept, s.told())
			}
			must(s, s.others[0].Link(true))
		}},
	{name: "sender of the load cut off for 5 s in mid-cell", at: midCell, sender: true, whole: true, strike: func(s *scene) {
		must(s, s.others[0].Link(false))
		<-time.After(5 * time.Second)
		must(s, s.others[0].Link(true))
	}},
	{name: "agent of the load's sender killed in mid-cell", at: midCell, sender: true, whole: true,
		strike: func(s *scene) { s.killAgent(s.others[0]) }},
	{name: "kill -9 of the caller in mid-pull", at: midPull, strike: (*scene).kill},
	{name: "kill -9 of the caller in mid-load, and nobody comes", at: midLoad, lease: 5 * time.Second, strike: (*scene).abandon},
	{name: "kill -9 of the caller in mid-cell, and nobody comes", often: true, at: midCell, lease: 5 * time.Second, strike: (*scene).abandon},
	{name: "kill -9 of the caller while it stops the last engine", at: lastStop, engine: map[string]string{"ENGINE_FAULT": "ignore-term"}, strike: (*scene).kill},
	{name: "kill -9 of the caller while stopping, and nobody comes", at: midStop, lease: 5 * time.Second, strike: (*scene).abandon},
	{name: "sshd restarted in mid-cell", at: midCell, whole: true, strike: func(s *scene) { must(s, s.host.Restart()) }},
	{name: "sshd restarted in mid-load", at: midLoad, whole: true, engine: map[string]string{"ENGINE_FAULT": "slow-start=1s"},
		strike: func(s *scene) { must(s, s.host.Restart()) }},
	{name: "dockerd restarted in mid-cell", often: true, at: midCell, strike: (*scene).restartDocker},
	{name: "dockerd restarted in mid-cell, with live-restore", whole: true, strike: func(s *scene) {
		s.host.Docker.KeepContainers()
		s.restartDocker()
		s.reach(midCell)
		must(s, s.host.Docker.Stop())
		s.await("step", "stopping", 1) // the engine serves on; taking it down takes the daemon
		must(s, s.host.Docker.Start())
	}},
	{name: "agent killed in mid-cell", often: true, at: midCell, whole: true, strike: func(s *scene) { s.killAgent(s.host) }},
	{name: "agent and caller killed in mid-cell", at: midCell, strike: func(s *scene) {
		s.killAgent(s.host)
		s.kill()
	}},
	{name: "container exits in mid-cell", says: "exited with code 137", engine: map[string]string{"ENGINE_FAULT": "exit-after=12"},
		strike: failsByItself},
	{name: "agent and container that shares the host's memory killed in mid-cell", often: true, says: "exited with code 137",
		engine: map[string]string{"ENGINE_FAULT": "memory"}, strike: func(s *scene) {
			s.edit(`container { stop_grace = "10s" }`, "container {\n    ipc        = \"host\"\n    stop_grace = \"10s\"\n  }")
			s.reach(midCell)
			eventually(s.T, "the agent has noted what the engine has in /dev/shm", time.Minute, func() bool {
				return s.host.Command("sh", "-c", "grep -q psm_ /root/.cache/hcl/agents/*/claim.json").Run() == nil
			})
			s.killAgent(s.host)
			inDocker(s.T, s.host, "kill", "--signal", "KILL", s.engine())
			s.end(2 * time.Minute)
			s.gone(0)
			s.push(nil)
		}},
	{name: "container that shares the host's memory killed in mid-cell, Docker by sudo", often: true, says: "exited with code 137",
		opt: testhost.Options{Login: "someone", Sudo: true}, engine: map[string]string{"ENGINE_FAULT": "memory"}, strike: func(s *scene) {
			s.edit(`container { stop_grace = "10s" }`, "container {\n    ipc        = \"host\"\n    stop_grace = \"10s\"\n  }")
			s.reach(midCell)
			inDocker(s.T, s.host, "kill", "--signal", "KILL", s.engine())
			s.await("warning", "other users have 1 file of shared memory there that came while it ran, first /dev/shm/psm_", 1)
			s.push(nil)
			s.end(2 * time.Minute)
			must(s, s.host.Command("sh", "-c", "rm /dev/shm/psm_*").Run())
			s.gone(0)
		}},
	{name: "container hangs in mid-cell", says: "suspect", engine: map[string]string{"ENGINE_FAULT": "hang-after=12"},
		strike: failsByItself},
	{name: "container OOM-killed in mid-cell", at: moment{kind: "ready", nth: 1}, says: "out of memory", engine: map[string]string{"ENGINE_FAULT": "grow-after=12"},
		strike: func(s *scene) {
			s.paused(func() {
				inDocker(s.T, s.host, "update", "--memory", "128m", "--memory-swap", "128m", s.engine())
			})
			s.await("warning", "the engine is lost", 1)
			s.cmd.Process.Signal(os.Interrupt)
			s.end(time.Minute)
			s.push(nil)
		}},
	{name: "disk full on the host in mid-cell", says: "no space left", strike: func(s *scene) {
		must(s, os.MkdirAll(filepath.Join(s.host.Home, ".cache"), 0o700))
		must(s, s.host.Command("mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", "/root/.cache").Run())
		s.fullDisk(s.host, "/root/.cache/filler", "64k")
	}},
	{name: "disk full on the caller in mid-cell", says: "no space left", strike: func(s *scene) {
		// The caller is a machine of its own, whose lab lies on a small disk.
		text := s.text()
		s.on = testhost.New(s.T, testhost.Options{Name: "caller"})
		must(s, s.on.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", s.lab).Run())
		s.write(text)
		s.fullDisk(s.on, filepath.Join(s.lab, "filler"), "4k")
	}},
	{name: "caller suspended past its lease", often: true, at: midCell, lease: 6 * time.Second, strike: func(s *scene) {
		s.loseCaller(func() { must(s, s.cmd.Process.Signal(syscall.SIGSTOP)) })
		must(s, s.cmd.Process.Signal(syscall.SIGCONT))
	}},
	{name: "two callers at once", at: midCell, whole: true, strike: func(s *scene) {
		other := newPerson(s.T, s.host, faultText("10m", false))
		s.paused(func() { other.tells("apply", exitFailed, "is in use by") })
	}},
	{name: "somebody's container on the port and the GPU", says: "port 8000 is in use by process", opt: testhost.Options{GPU: "8xH200"},
		strike: portIsTaken},
	{name: "process killed in mid-cell, without Docker", at: midCell, process: true, says: "the engine was lost in mid-cell",
		strike: func(s *scene) { s.signalEngine(syscall.SIGKILL) }},
	{name: "process hangs in mid-cell, without Docker", at: midCell, process: true, says: "of 4 cells, ",
		strike: func(s *scene) { s.signalEngine(syscall.SIGSTOP) }},
	{name: "caller killed in mid-cell, without Docker, and nobody comes", often: true, at: midCell, process: true, lease: 5 * time.Second, strike: (*scene).abandon},
	{name: "agent killed in mid-cell, without Docker", at: midCell, process: true, whole: true, strike: func(s *scene) { s.killAgent(s.host) }},
}

// portIsTaken has somebody else's container on the engine's port and on a GPU.
func portIsTaken(s *scene) {
	must(s, s.host.UseGPUs(testhost.GPUUse{GPU: 0, PID: 1, MiB: 5000, Name: "python3"}))
	inDocker(s.T, s.host, "run", "--detach", "--name", "theirs", "--network", "host", "--entrypoint", "vllm", "vllm/vllm-openai:v0.7.3", "serve", "x", "--port", "8000")
	eventually(s.T, "theirs listens", 20*time.Second, func() bool {
		return strings.Contains(inDocker(s.T, s.host, "logs", "theirs"), "startup complete")
	})
	s.begin()
	s.end(time.Minute)
	if !strings.Contains(s.told(), "somebody else uses its GPUs") {
		s.Errorf("nobody is told of the GPU:\n%s", s.told())
	}
	if got := inDocker(s.T, s.host, "ps", "--format", "{{.Names}}"); got != "theirs" {
		s.Errorf("their container: %q", got)
	}
	inDocker(s.T, s.host, "rm", "--force", "theirs")
	must(s, s.host.UseGPUs())
}

// hostFaults are what becomes of hosts and of the way to them.
var hostFaults = []fault{
	{name: "host key changed in mid-cell", at: midCell, lease: 5 * time.Second, says: "the host key of", strike: func(s *scene) {
		s.loseCaller(func() {
			must(s, s.host.ChangeHostKeys(true))
			s.host.Cut()
		})
		s.end(time.Minute)
		must(s, s.host.ChangeHostKeys(false))
	}},
	{name: "jump host away for 5 s in mid-cell", whole: true, strike: func(s *scene) {
		gate := testhost.New(s.T, testhost.Options{Name: "gate"})
		s.knows(gate)
		s.edit(`host "box" {`, "host \"gate\" {\n"+reached(gate)+"\n  runtime = \"process\"\n}\nhost \"box\" {\n  jump = host.gate")
		s.reach(midCell)
		s.paused(func() {
			if open, _ := gate.Connections(); open == 0 {
				s.Errorf("nobody goes by way of the jump host")
			}
		})
		gate.Refuse(true)
		gate.Cut()
		<-time.After(5 * time.Second)
		gate.Refuse(false)
	}},
	{name: "kill -9 of the caller, Docker by sudo", at: midCell, lease: 5 * time.Second, opt: testhost.Options{Login: "someone", Sudo: true}, strike: (*scene).abandon},
}

// leftFaults are those of who reads along, and of who leaves.
var leftFaults = []fault{
	{name: "terminal goes away in mid-cell", often: true, at: midCell, says: "interrupted; what ran is taken down", strike: func(s *scene) {
		must(s, s.cmd.Process.Signal(syscall.SIGHUP))
		s.await("step", "stopping", 1)
		must(s, s.cmd.Process.Signal(syscall.SIGHUP)) // a terminal may say so twice
		if code := s.end(time.Minute); code != exitInterrupted {
			s.Errorf("exit %d, want %d", code, exitInterrupted)
		}
		s.gone(5 * time.Second)
	}},
	{name: "reader of the events leaves in mid-cell", at: midCell, says: "interrupted; what ran is taken down", strike: func(s *scene) {
		must(s, s.out.Close())
		if code := s.end(time.Minute); code != exitInterrupted {
			s.Errorf("exit %d, want %d", code, exitInterrupted)
		}
		s.gone(5 * time.Second)
		s.kept, s.void = faultCells-s.todo(), 0
	}},
	{name: "reader of the events stands still", whole: true, strike: func(s *scene) {
		goOn := s.standStill()
		eventually(s.T, "the run is over and its engines are gone", time.Minute, func() bool { return s.todo() == 0 && len(s.left()) == 0 })
		goOn()
	}},
	{name: "reader of the events stands still, and Ctrl-C", says: "interrupted; what ran is taken down", strike: func(s *scene) {
		goOn := s.standStill()
		must(s, s.cmd.Process.Signal(os.Interrupt))
		eventually(s.T, "everything is taken down", faultGrace+busyMachine, func() bool { return len(s.left()) == 0 })
		eventually(s.T, "it has ended", 2*readPatience+tellPatience, func() bool { return hasEnded(s.cmd.Process.Pid) })
		goOn()
		s.end(time.Minute)
		s.kept, s.void = faultCells-s.todo(), 0
	}},
}

// tellPatience is how long at most a run waits for its events to be told.
const tellPatience = 10 * time.Second

// hasEnded reports whether a child has, which nobody waits for yet.
func hasEnded(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

// standStill begins an apply whose events go into a pipe that holds few, and reads no
// more of them once a cell is under way.
func (s *scene) standStill() (goOn func()) {
	s.reach(midCell)
	pipe, err := s.out.SyscallConn()
	must(s, err)
	must(s, pipe.Control(func(fd uintptr) {
		const setPipeSize = 1031
		if _, _, no := syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, 4096); no != 0 {
			s.Error(no)
		}
	}))
	s.still.Lock()
	return s.still.Unlock
}

// todo is how many cells the plan has to measure.
func (s *scene) todo() int {
	s.Helper()
	var p struct{ Summary struct{ Measure int } }
	s.json(&p, "plan", "--json")
	return p.Summary.Measure
}
