package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// agentIn is a process that looks as an agent does to the first of its pod, in a directory below a home.
func agentIn(t *testing.T, home, name string) (dir string, agent *exec.Cmd) {
	t.Helper()
	dir = filepath.Join(home, ".cache/hcl/agents", name)
	testhost.OK(t, os.MkdirAll(dir, 0o700))
	agent = exec.Command("sh", "-c", "while :; do sleep 1000 & wait $!; done", "agent", "--dir", dir, "--cache", "x")
	testhost.OK(t, agent.Start())
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})
	testhost.OK(t, os.WriteFile(filepath.Join(dir, "lock"), fmt.Appendln(nil, agent.Process.Pid), 0o600))
	testhost.OK(t, os.WriteFile(filepath.Join(dir, "sock"), nil, 0o600))
	return dir, agent
}

// TestWaiting: a pod lives as long as its agent, goes with one that has ended, and gives one that was killed its
// patience for the next. Locks that other pods have left on a volume are none of its own.
func TestWaiting(t *testing.T) {
	const patience = 8
	for _, shell := range []string{"sh", "bash", "busybox sh"} {
		for _, name := range []string{"ended", "killed"} {
			t.Run(shell+" "+name, func(t *testing.T) {
				t.Parallel()
				home := t.TempDir()
				stale := filepath.Join(home, ".cache/hcl/agents/stale")
				testhost.OK(t, os.MkdirAll(stale, 0o700))
				testhost.OK(t, os.WriteFile(filepath.Join(stale, "lock"), fmt.Appendln(nil, os.Getpid()), 0o600)) // a number that somebody has
				dir, agent := agentIn(t, home, name)
				words := append(strings.Fields(shell), "-c", waiting, "hcl", fmt.Sprint(patience))
				pod := exec.Command(words[0], words[1:]...)
				pod.Env = []string{"HOME=" + home + "/", "PATH=" + os.Getenv("PATH")}
				testhost.OK(t, pod.Start())
				over := make(chan error, 1)
				go func() { over <- pod.Wait() }()
				t.Cleanup(func() { _ = pod.Process.Kill() })
				select {
				case err := <-over:
					t.Fatalf("it ends although its agent lives: %v", err)
				case <-time.After((patience + 2) * time.Second):
				}
				if name == "ended" {
					testhost.OK(t, os.Remove(filepath.Join(dir, "sock")))
				}
				testhost.OK(t, agent.Process.Kill())
				_ = agent.Wait()
				begin := time.Now()
				testhost.OK(t, <-over)
				took := time.Since(begin)
				if name == "ended" && took > (patience-1)*time.Second || name == "killed" && took < (patience-1)*time.Second {
					t.Errorf("it ended %s after its agent, of which it was %s", took, name)
				}
			})
		}
	}
}
