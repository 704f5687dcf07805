package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"hclbench/agent"
)

// agentReady is what a detached agent prints once it answers.
const agentReady = "ready"

// agentOptions say where an agent works.
type agentOptions struct {
	dir, cache string
	detach     bool
}

func agentVerb(t *console) *cobra.Command {
	var o agentOptions
	c := hiddenVerb("agent", "Work on a host for a caller elsewhere", none,
		func(ctx context.Context, _ []string) error { return runAgent(ctx, t, o) })
	c.Flags().StringVar(&o.dir, "dir", "", "where it works")
	c.Flags().StringVar(&o.cache, "cache", "", "where all of hcl is on this host")
	c.Flags().BoolVar(&o.detach, "detach", false, "go on in a session of its own, and return once it answers")
	return c
}

func runAgent(ctx context.Context, t *console, o agentOptions) error {
	if o.dir == "" {
		return usage("--dir is required")
	}
	if o.detach {
		return detached(ctx, o.dir, o.cache)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sha, err := agent.SHA(self)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(t.stderr, nil))
	return agent.Serve(ctx, agent.Config{Dir: o.dir, Cache: o.cache, Binary: sha, Calibrated: calibrated(log), Log: log}, func() {
		fmt.Fprintln(t.stdout, agentReady)
	})
}

// atWorkFor is how long an agent that is at work already may take to answer, or to be gone.
const atWorkFor = 15 * time.Second

// detached brings an agent up in a session of its own and waits until it answers; another
// caller's, who was quicker, will do.
func detached(ctx context.Context, dir, cache string) error {
	ctx, cancel := context.WithTimeout(ctx, atWorkFor)
	defer cancel()
	for {
		said, err := spawn(dir, cache)
		if err == nil || !strings.Contains(said, agent.ErrAtWork.Error()) {
			return err
		}
		if agent.Answers(dir) {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// spawn starts an agent and waits until it answers. What it says later goes to agent.log
// in dir; what it has said before it ended comes with the error.
func spawn(dir, cache string) (said string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the agent's directory: %w", err)
	}
	logfile, err := os.OpenFile(filepath.Join(dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("make the agent's log: %w", err)
	}
	defer logfile.Close()
	before, err := logfile.Seek(0, io.SeekEnd) // what earlier agents have said
	if err != nil {
		return "", fmt.Errorf("read the agent's log: %w", err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), self, "agent", "--dir", dir, "--cache", cache)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = w, logfile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return "", fmt.Errorf("start the agent: %w", err)
	}
	// The pipe says "ready", or ends because the agent has.
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && strings.TrimSpace(line) == agentReady {
		return "", cmd.Process.Release()
	}
	err = cmd.Wait()
	b, readErr := io.ReadAll(io.NewSectionReader(logfile, before, 64<<10))
	said = strings.TrimSpace(string(b))
	return said, errors.Join(fmt.Errorf("the agent ended at once: %s", said), err, readErr)
}
