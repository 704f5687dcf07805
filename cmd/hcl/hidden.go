package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"hclbench/agent"
	"hclbench/flow"
	"hclbench/provision/docker"
	"hclbench/provision/fabric"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// The verbs in this file are run by hcl itself, on hosts and in containers.

// connectVerb is what a caller reaches its agent and engines by where sshd forwards nothing.
func connectVerb(t *console) *cobra.Command {
	return hiddenVerb(reach.ConnectVerb+" NETWORK ADDRESS", "Be a connection on standard input and output", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error { return runConnect(ctx, t, args[0], args[1]) })
}

func runConnect(ctx context.Context, t *console, network, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		fmt.Fprintln(t.stdout, err)
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(t.stdout, reach.BridgeConnected); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(conn, t.in) // the other end tells what became of it
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(t.stdout, conn)
	return err
}

// devicesVerb is what runs in a container before an engine does, to see whether it gets its GPUs.
func devicesVerb(t *console) *cobra.Command {
	return hiddenVerb(look.DevicesVerb, "Print the GPUs' devices that are here, as JSON", atMost(0),
		func(ctx context.Context, _ []string) error {
			return json.NewEncoder(t.stdout).Encode(look.AtDevices(ctx))
		})
}

// listenersVerb is what runs on a host, and in the container of an engine, to see who
// waits for connections to the engine's port.
func listenersVerb(t *console) *cobra.Command {
	return hiddenVerb(reach.ListenersVerb+" PORT", "Print who listens on a port here, as JSON", cobra.ExactArgs(1),
		func(_ context.Context, args []string) error {
			port, err := strconv.ParseUint(args[0], 10, 16)
			if err != nil {
				return usage("%q is not a port", args[0])
			}
			found, err := reach.LookAtListeners(int(port))
			if err != nil {
				return err
			}
			return json.NewEncoder(t.stdout).Encode(found)
		})
}

// speedsVerb is what runs on a host that is proved.
func speedsVerb(t *console) *cobra.Command {
	return hiddenVerb(look.SpeedsVerb+" PATH...", "Measure memory, and the disks of paths, as JSON", between(0, math.MaxInt, ""),
		func(ctx context.Context, args []string) error {
			return json.NewEncoder(t.stdout).Encode(look.MeasureSpeeds(ctx, args))
		})
}

// meshVerb is what runs on hosts of one engine, to see whether they reach each other.
func meshVerb(t *console) *cobra.Command {
	return hiddenVerb(fabric.MeshVerb, "Meet other hosts as standard input says", atMost(0),
		func(ctx context.Context, _ []string) error { return fabric.AtMesh(ctx, t.in, t.stdout) })
}

// reaperVerb is what an agent starts an engine with, as a process.
func reaperVerb(t *console) *cobra.Command {
	return hiddenVerb(agent.ReaperVerb+" NAME", "Start a process, and stay until nothing is left of what came of it", cobra.ExactArgs(1),
		func(context.Context, []string) error { return agent.Reap(t.in) })
}

// secretsVerb is the first thing that runs in a container that is given secrets.
func secretsVerb(*console) *cobra.Command {
	c := hiddenVerb(docker.SecretsVerb+" COMMAND...", "Become a command with the variables and words that are read here",
		between(1, math.MaxInt, "a command is required"),
		func(_ context.Context, args []string) error { return becomeWith(os.Stdin, args) })
	c.DisableFlagParsing = true // they are the command's
	return c
}

// becomeWith becomes the command, with the variables and words that it reads. Its own standard input is empty.
func becomeWith(stdin *os.File, words []string) error {
	said, err := io.ReadAll(stdin)
	entries, whole := strings.CutSuffix(string(said), "\x00\x00")
	if err != nil || !whole {
		return fmt.Errorf("the secrets have not come: whoever started this is gone (%w)", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	stdin.Close()
	if _, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0); err != nil { // takes the lowest number, which is free now
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	env, name := os.Environ(), words[0]
	for entry := range strings.SplitSeq(entries, "\x00") {
		word, ok := strings.CutPrefix(entry, "=")
		if !ok {
			env = append(env, entry)
			continue
		}
		at, word, _ := strings.Cut(word, "=")
		if n, err := strconv.Atoi(at); err == nil && n < len(words) {
			words[n] = word
		}
	}
	path, err := exec.LookPath(words[0])
	if err == nil {
		err = syscall.Exec(path, words, env)
	}
	return &exit{127, fmt.Errorf("run %s: %w", name, err)}
}

// agentReady is what a detached agent prints once it answers.
const agentReady = "ready"

func agentVerb(t *console) *cobra.Command {
	var cfg agent.Config
	var detach bool
	c := hiddenVerb("agent", "Work on a host for a caller elsewhere", atMost(0),
		func(ctx context.Context, _ []string) error { return runAgent(ctx, t, cfg, detach) })
	c.Flags().StringVar(&cfg.Dir, "dir", "", "where it works")
	c.Flags().StringVar(&cfg.Cache, "cache", "", "where all of hcl is on this host")
	c.Flags().DurationVar(&cfg.Unclaimed, "unclaimed", agent.Unclaimed, "how long it stays when nobody claims it")
	c.Flags().BoolVar(&detach, "detach", false, "go on in a session of its own, and return once it answers")
	return c
}

func runAgent(ctx context.Context, t *console, cfg agent.Config, detach bool) error {
	if cfg.Dir == "" {
		return usage("--dir is required")
	}
	if detach {
		return detached(ctx, cfg)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if cfg.Binary, err = agent.SHA(self); err != nil {
		return err
	}
	cfg.Log = slog.New(slog.NewTextHandler(t.stderr, nil))
	cfg.Calibrated = calibrated(cfg.Log)
	return agent.Serve(ctx, cfg, func() {
		fmt.Fprintln(t.stdout, agentReady)
	})
}

// detached brings an agent up in a session of its own and waits until it answers; another
// caller's, who was quicker, will do.
func detached(ctx context.Context, cfg agent.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second) // for one at work already to answer, or to be gone
	defer cancel()
	for {
		said, err := spawn(cfg)
		if err == nil || !strings.Contains(said, agent.ErrAtWork.Error()) {
			return err
		}
		if agent.Answers(cfg.Dir) {
			return nil
		}
		if !flow.Pause(ctx, 50*time.Millisecond) {
			return err
		}
	}
}

// spawn starts an agent and waits until it answers. What it says later goes to agent.log
// in its directory; what it has said before it ended comes with the error.
func spawn(cfg agent.Config) (said string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return "", fmt.Errorf("make the agent's directory: %w", err)
	}
	logfile, err := os.OpenFile(filepath.Join(cfg.Dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("make the agent's log: %w", err)
	}
	defer logfile.Close()
	before, err := logfile.Seek(0, io.SeekEnd) // what earlier agents have said
	if err != nil {
		return "", fmt.Errorf("read the agent's log: %w", err)
	}
	cmd := exec.CommandContext(context.Background(), self, "agent", "--dir", cfg.Dir, "--cache", cfg.Cache,
		"--unclaimed", cfg.Unclaimed.String())
	cmd.Dir, cmd.Stderr = "/", logfile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	defer out.Close()
	if err := cmd.Start(); err != nil {
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
