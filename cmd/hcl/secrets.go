package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hclbench/provision"
)

// withEnv is the first thing that runs in a container that is given secrets.
func (a *app) withEnv() *cobra.Command {
	return &cobra.Command{
		Use:                provision.SecretsVerb + " FILE COMMAND...",
		Short:              "Become a command with the variables of a file, and remove the file",
		Hidden:             true, // containers of ours begin with it
		DisableFlagParsing: true, // they are the command's
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("a file and a command are required")
			}
			pairs, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read the variables: %w", err)
			}
			if err := os.Remove(args[0]); err != nil {
				return fmt.Errorf("remove the variables: %w", err)
			}
			env := os.Environ()
			for pair := range strings.SplitSeq(strings.TrimSuffix(string(pairs), "\x00"), "\x00") {
				env = append(env, pair)
			}
			path, err := exec.LookPath(args[1])
			if err == nil {
				err = syscall.Exec(path, args[1:], env)
			}
			return &exit{127, fmt.Errorf("run %s: %w", args[1], err)}
		},
	}
}
