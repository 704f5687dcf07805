package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"hclbench/provision/docker"

	"github.com/spf13/cobra"
)

// withEnv is the first thing that runs in a container that is given secrets.
func (a *app) withEnv() *cobra.Command {
	return &cobra.Command{
		Use:                docker.SecretsVerb + " FILE COMMAND...",
		Short:              "Become a command with the variables and words of a file, and remove the file",
		Hidden:             true, // containers of ours begin with it
		DisableFlagParsing: true, // they are the command's
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("a file and a command are required")
			}
			entries, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read the secrets: %w", err)
			}
			if err := os.Remove(args[0]); err != nil {
				return fmt.Errorf("remove the secrets: %w", err)
			}
			env, words := os.Environ(), args[1:]
			for entry := range strings.SplitSeq(strings.TrimSuffix(string(entries), "\x00"), "\x00") {
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
			return &exit{127, fmt.Errorf("run %s: %w", args[1], err)}
		},
	}
}
