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

	"github.com/spf13/cobra"

	"hclbench/agent"
)

// ready is what a detached agent prints once it answers.
const agentReady = "ready"

func (a *app) agent() *cobra.Command {
	var dir, cache string
	var detach bool
	c := &cobra.Command{
		Use:    "agent",
		Short:  "Work on a host for a caller elsewhere",
		Hidden: true, // apply starts it
		Args:   none,
		RunE: func(c *cobra.Command, args []string) error {
			if dir == "" {
				return usage("--dir is required")
			}
			if detach {
				return detached(dir, cache)
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			sha, err := agent.SHA(self)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(a.stderr, nil))
			return agent.Serve(c.Context(), agent.Config{Dir: dir, Cache: cache, Binary: sha, Calibrated: calibrated(log), Log: log}, func() {
				fmt.Fprintln(a.stdout, agentReady)
			})
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "where it works")
	c.Flags().StringVar(&cache, "cache", "", "where all of hcl is on this host")
	c.Flags().BoolVar(&detach, "detach", false, "go on in a session of its own, and return once it answers")
	return c
}

// detached starts the agent in a session of its own and waits until it answers.
// What it says later goes to agent.log in dir.
func detached(dir, cache string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the agent's directory: %w", err)
	}
	logfile, err := os.OpenFile(filepath.Join(dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("make the agent's log: %w", err)
	}
	defer logfile.Close()
	before, err := logfile.Seek(0, io.SeekEnd) // what earlier agents have said
	if err != nil {
		return fmt.Errorf("read the agent's log: %w", err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), self, "agent", "--dir", dir, "--cache", cache)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = w, logfile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	// The pipe says "ready", or ends because the agent has.
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && strings.TrimSpace(line) == agentReady {
		return cmd.Process.Release()
	}
	err = cmd.Wait()
	said, readErr := io.ReadAll(io.NewSectionReader(logfile, before, 64<<10))
	return errors.Join(fmt.Errorf("the agent ended at once: %s", strings.TrimSpace(string(said))), err, readErr)
}
