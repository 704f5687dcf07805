package main

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hclbench/testhost"
)

// other is somebody else who has the same lab, with a store of their own.
func (s *scene) other() *scene {
	s.Helper()
	return &scene{person: newPerson(s.T, s.host, s.text()), host: s.host, lease: s.lease}
}

// finishes waits for an apply that nothing may disturb.
func (s *scene) finishes(who string) {
	s.Helper()
	if code := s.end(3 * time.Minute); code != exitDone && code != exitCells || s.kept != faultCells {
		s.Errorf("%s: exit %d with %d cells of %d\n%s", who, code, s.kept, faultCells, s.told())
	}
}

// wakes has the caller sleep until its lease is over and somebody else is at work on its
// host, who must not notice that it wakes up.
func wakes(s *scene) {
	s.Helper()
	s.reach(midCell)
	s.loseCaller(func() { must(s, s.cmd.Process.Signal(syscall.SIGSTOP)) })
	other := s.other()
	other.edit(fmt.Sprintf("lease = %q", s.lease.String()), `lease = "10m"`)
	other.begin()
	other.await("progress", "", 1)
	other.paused(func() { // so that it is at work until the first has seen it
		must(s, s.cmd.Process.Signal(syscall.SIGCONT))
		if code := s.end(time.Minute); code != exitFailed {
			s.Errorf("the one that slept: exit %d, want %d\n%s", code, exitFailed, s.told())
		}
	})
	other.finishes("the other")
	if other.told() == "" || strings.Contains(other.told(), "agent died") || strings.Contains(other.told(), "is lost") {
		s.Errorf("the other was disturbed:\n%s", other.told())
	}
}

// forGPUs makes the lab one for the test host's GPUs, whose clocks it locks.
func (s *scene) forGPUs() {
	s.Helper()
	s.edit("user =", "gpus = \"8xH200\"\n  prepare { lock_clocks = 1500 }\n  user =",
		"container {", "container {\n    ulimits = { memlock = null }\n   ", `"10s" }`, "\"10s\"\n  }")
}

// clocks says whether somebody holds those of a GPU.
func (s *scene) clocks() string {
	s.Helper()
	out, err := s.host.Command(filepath.Join(s.host.Dir, "bin", "nvidia-smi"), "--query-gpu=clocks_throttle_reasons.active", "--format=csv,noheader,nounits", "-i", "6").Output()
	must(s, err)
	return map[string]string{"0x0000000000000001": "free", "0x0000000000000002": "held"}[strings.TrimSpace(string(out))]
}

// takesOver applies again after what has befallen a run that had locked clocks.
func takesOver(s *scene) {
	s.Helper()
	if out, said, code := s.run("check"); code != exitDone || strings.Contains(out+said, "are held already") {
		s.Errorf("check after a run that was killed: exit %d\n%s%s", code, out, said)
	}
	s.begin()
	s.finishes("the next apply")
	if got := s.clocks(); got != "free" {
		s.Errorf("at the end the clocks are %s", got)
	}
}

// daemonAway takes Docker away from the host until after the lease of a caller that is gone has run out.
func daemonAway(s *scene) {
	s.Helper()
	s.reach(midCell)
	must(s, s.host.Docker.Stop())
	s.kill()
	log := func() string {
		out, _ := s.host.Command("sh", "-c", "cat /root/.cache/hcl/agents/*/agent.log").Output()
		return string(out)
	}
	eventually(s.T, "the agent looks for containers in vain", s.lease+20*time.Second, func() bool { return strings.Contains(log(), "the Docker daemon is away") })
	must(s, s.host.Docker.Start())
	eventually(s.T, "the host has cleaned itself", 30*time.Second, func() bool { return len(s.left()) == 0 })
}

// agentFaults are those of the agent: its lease, its reservation, its tear-down.
var agentFaults = []fault{
	{name: "caller asleep past its lease while another works", often: true, lease: 6 * time.Second, says: "is in use by", strike: wakes},
	{name: "caller asleep past its lease while another works, without Docker", process: true, lease: 6 * time.Second, says: "is in use by", strike: wakes},
	{name: "another caller destroys by force", often: true, at: midCell, says: "was ended by", strike: func(s *scene) {
		must(s, s.cmd.Process.Signal(syscall.SIGSTOP)) // when it looks, the agent of destroy has gone too
		s.other().tells("destroy --force", exitDone)
		must(s, s.cmd.Process.Signal(syscall.SIGCONT))
		if code := s.end(time.Minute); code != exitFailed {
			s.Errorf("the one whose lab was destroyed: exit %d\n%s", code, s.told())
		}
		if left := s.left(); len(left) > 0 {
			s.Errorf("after destroy these are left: %q", left)
		}
	}},
	{name: "two callers in the same moment, who wait", often: true, whole: true, strike: func(s *scene) {
		other := s.other()
		s.begin("--wait", "5m")
		other.begin("--wait", "5m")
		other.finishes("the other")
	}},
	{name: "two callers of locked clocks, who wait", whole: true, opt: testhost.Options{GPU: "8xH200"}, strike: func(s *scene) {
		s.forGPUs()
		other := s.other()
		s.reach(midCell)
		s.paused(func() {
			other.begin("--wait", "5m")
			other.await("step", "waiting for", 1)
		})
		other.finishes("the other")
	}},
	{name: "another lab refused", whole: true, strike: func(s *scene) {
		other := s.other()
		other.edit(`lab "fault"`, `lab "other"`)
		s.reach(midCell)
		s.paused(func() { other.tells("apply", exitFailed, "is in use by") })
		// The one that was released ends by itself, and nobody waits for it.
		eventually(s.T, "one agent is on the host", 30*time.Second, func() bool {
			n := 0
			for _, p := range agents(s.T, s.host) {
				n += strings.Count(p.Command, " agent --dir")
			}
			return n == 1
		})
	}},
	{name: "kill -9 of the caller with locked clocks", often: true, opt: testhost.Options{GPU: "8xH200"}, strike: func(s *scene) {
		s.forGPUs()
		s.reach(midCell)
		s.kill()
		takesOver(s)
	}},
	{name: "kill -9 of caller and agent with locked clocks", opt: testhost.Options{GPU: "8xH200"}, strike: func(s *scene) {
		s.forGPUs()
		s.reach(midCell)
		s.killAgent(s.host)
		s.kill()
		if got := s.clocks(); got != "held" {
			s.Errorf("before the next apply the clocks are %s: there is nothing to put back", got)
		}
		takesOver(s)
	}},
	{name: "dockerd away when the lease ends", lease: 4 * time.Second, strike: daemonAway},
	{name: "dockerd away when the lease ends, with live-restore", lease: 4 * time.Second, strike: func(s *scene) {
		s.host.Docker.KeepContainers()
		must(s, s.host.Docker.Stop())
		must(s, s.host.Docker.Start())
		daemonAway(s)
	}},
	{name: "a stranger holds the lock of the machine and lies", says: "of user nobody", strike: func(s *scene) {
		bystander := s.host.Command("sleep", "1000")
		must(s, bystander.Start())
		s.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
		const lie = `cd /run/lock && : >hcl-reservation && chmod 666 hcl-reservation && exec flock hcl-reservation sh -c '
pid=$(pidof -s sleep); birth=$(cut -d" " -f22 /proc/$pid/stat)
echo "{\"pid\":$pid,\"birth\":\"$birth\",\"uid\":0,\"lease\":{\"lab\":\"lie\",\"ttl\":\"1s\",\"expires\":\"2001-01-01T00:00:00Z\"}}" | tee hcl-reservation >hcl-reservation.65534
echo ready; read end'`
		stranger := s.host.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", lie)
		in, err := stranger.StdinPipe()
		must(s, err)
		out, err := stranger.StdoutPipe()
		must(s, err)
		must(s, stranger.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			s.Fatalf("the stranger says %q, %v", line, err)
		}
		s.begin()
		if code := s.end(time.Minute); code != exitFailed {
			s.Errorf("exit %d\n%s", code, s.told())
		}
		if s.host.Command("pidof", "sleep").Run() != nil {
			s.Error("the process is gone that the stranger named")
		}
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = stranger.Wait() // its read has ended
	}},
}
