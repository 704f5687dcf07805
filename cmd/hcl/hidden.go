package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hclbench/provision/docker"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// The verbs in this file are run by hcl itself, on hosts and in containers.

// connectVerb is what a caller reaches its agent and engines by where sshd forwards
// nothing.
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

// devicesVerb is what runs in a container before an engine does, to see whether it gets
// its GPUs.
func devicesVerb(t *console) *cobra.Command {
	return hiddenVerb(look.DevicesVerb, "Print the GPUs' devices that are here, as JSON", none,
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

// secretsVerb is the first thing that runs in a container that is given secrets.
func secretsVerb(*console) *cobra.Command {
	c := hiddenVerb(docker.SecretsVerb+" COMMAND...", "Become a command with the variables and words that are read here", nil,
		func(_ context.Context, args []string) error {
			if len(args) < 1 {
				return usage("a command is required")
			}
			return becomeWith(os.Stdin, args)
		})
	c.DisableFlagParsing = true // they are the command's
	return c
}

// becomeWith becomes the command, with the variables and words that it reads. Its own
// standard input is empty.
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
