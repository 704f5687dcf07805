package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/docker"
)

func rootOf(t *console) *cobra.Command {
	root := verb("hcl", nil, nil)
	root.Version = version
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if like := c.SuggestionsFor(args[0]); len(like) > 0 {
			return usage("there is no verb %q. Did you mean %q?", args[0], like[0])
		}
		return usage("there is no verb %q. See 'hcl --help'.", args[0])
	}
	root.RunE = func(c *cobra.Command, args []string) error { return c.Help() }
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("hcl {{.Version}}\n")
	root.PersistentFlags().BoolVar(&t.debug, "debug", false, "log what the connections do")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w\nSee '%s --help'.", err, c.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true // ours reads as the others
	root.SetHelpCommand(helpVerb())
	for _, of := range []func(*console) *cobra.Command{
		agentVerb, applyVerb, attachVerb, auditVerb, benchVerb, bundleVerb, calibrateVerb, checkVerb, compareVerb,
		completionVerb, connectVerb, destroyVerb, devicesVerb, exportVerb, fmtVerb, gcVerb, importVerb, initVerb,
		listenersVerb, lockVerb, logsVerb, meshVerb, planVerb, reaperVerb, rehearseVerb, reportVerb, resultsVerb, runsVerb, secretsVerb, settingsVerb,
		showVerb, simVerb, statusVerb, validateVerb, versionVerb, watchVerb,
	} {
		root.AddCommand(of(t))
	}
	return root
}

// verb is a command with the help of its name. It has no flags yet.
func verb(name string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(fmt.Sprintf("read the help of %s: %v. This is a bug in hcl.", name, err))
	}
	head, long, _ := strings.Cut(strings.TrimSpace(string(text)), "\n\n")
	c := &cobra.Command{Args: args, RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), args) }}
	c.Use, c.Short, _ = strings.Cut(head, "\n")
	c.Long, c.Example, _ = strings.Cut(long, "\n\nExamples:\n")
	return c
}

func labVerb(name string, lab *labFlags, run func(context.Context) error) *cobra.Command {
	c := verb(name, atMost(1), func(ctx context.Context, args []string) error {
		lab.named(args)
		return run(ctx)
	})
	lab.add(c)
	return c
}

// hiddenVerb is one that hcl itself runs, on hosts and in containers.
func hiddenVerb(use, short string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Hidden: true,
		Args: args,
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), args) },
	}
}

// atMost and between are cobra's checks with our exit code.
func atMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		takes := "no argument"
		if n > 0 {
			takes = plain.Count(n, "argument")
		}
		return usage("%s takes %s, but there is %q too\nSee '%[1]s --help'.", c.CommandPath(), takes, args[n])
	}
}

func between(least, most int, which string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return usage("%s\nSee '%s --help'.", which, c.CommandPath())
	}
}

// doubleDash lets people write -auto-approve, as they do for Terraform: a long flag with one dash gets the second.
func doubleDash(root *cobra.Command, args []string) []string {
	if len(args) > 0 && args[0] == docker.SecretsVerb {
		return args // an engine's
	}
	known := map[string]bool{"help": true, "version": true}
	takes := map[string]bool{} // flags whose value is the next word
	note := func(f *pflag.Flag) {
		known[f.Name] = true
		takes[f.Name] = takes[f.Name] || f.NoOptDefVal == ""
	}
	root.PersistentFlags().VisitAll(note)
	for _, c := range root.Commands() { // those of completion have no flags
		c.Flags().VisitAll(note)
	}
	out := append([]string{}, args...) // never nil, for which cobra would take the process's own
	for i := 0; i < len(out) && out[i] != "--"; i++ {
		name, _, said := strings.Cut(strings.TrimLeft(out[i], "-"), "=")
		if !strings.HasPrefix(out[i], "-") {
			continue
		}
		if !strings.HasPrefix(out[i], "--") && known[name] {
			out[i] = "-" + out[i]
		}
		if takes[name] && !said {
			i++
		}
	}
	return out
}

// The exit codes are part of the interface; every verb's help names its own.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitCells       = 3
	exitContract    = 4
	exitUnclean     = 5
	exitToDo        = 6 // plan --detailed-exitcode alone: nothing else may look like it
	exitInterrupted = 130
	exitReaderLeft  = 141 // as of a program that dies of it
)

// exit is an error with an exit code of its own. A nil err has been printed.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// asUsage is err, if it is one, as a mistake of the lab or the command line.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &exit{exitUsage, err}
}

// exitOf is the exit code for what a verb came to, and whether its error is still to be shown.
func exitOf(ctx context.Context, err error) (code int, shown bool) {
	if err == nil {
		return exitDone, true
	}
	code = exitFailed
	var e *exit
	if errors.As(err, &e) {
		code = e.code
	}
	if ctx.Err() != nil {
		code = exitInterrupted
	}
	if errors.Is(err, provision.ErrUnclean) { // whatever else: somebody has to look at it
		code = exitUnclean
	}
	if errors.Is(err, errReaderLeft) && code == exitInterrupted {
		return exitReaderLeft, true
	}
	return code, e != nil && e.err == nil
}

// span is a flag's duration that may be said in days: "30d", "1d12h", "90m".
type span time.Duration

func (s *span) Set(text string) error {
	rest := text
	var sum time.Duration
	if days, after, ok := strings.Cut(text, "d"); ok {
		const day, most = 24 * time.Hour, 100_000
		n, err := strconv.ParseUint(days, 10, 64)
		if err == nil && n > most {
			return fmt.Errorf("%s is more than %d days", text, most)
		}
		if err == nil {
			sum, rest = time.Duration(n)*day, after
		}
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return fmt.Errorf("%q is no duration; write 30d, 12h or 1h30m", text)
		}
		sum += d
	}
	*s = span(sum)
	return nil
}

func (s *span) String() string { return time.Duration(*s).String() }

// Type is what help shows for it.
func (s *span) Type() string { return "duration" }
