package main

import (
	"context"
	"embed"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/plain"
)

// helpTexts are what each verb says of itself: a file a verb, whose first line is how it
// is used, the second what it is; then, each after an empty line, what it does, examples,
// and the exit codes.
//
//go:embed help
var helpTexts embed.FS

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

// noUse is a rule by which a flag does nothing: without another, or beside it.
type noUse struct {
	flag, other string
	beside      bool
	instead     string // what to do; empty: to leave it out
}

// refuses has a verb refuse flags that would do nothing.
func refuses(c *cobra.Command, rules ...noUse) {
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		for _, r := range rules {
			if c.Flags().Changed(r.flag) && c.Flags().Changed(r.other) == r.beside {
				where := map[bool]string{true: "beside", false: "without"}[r.beside]
				return usage("--%s does nothing %s --%s%s\nSee '%s --help'.", r.flag, where, r.other, r.instead, c.CommandPath())
			}
		}
		return nil
	}
}

func completes(c *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err.Error() + ". This is a bug in hcl.")
	}
}

func words(c *cobra.Command, flag string, of ...string) {
	completes(c, flag, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp))
}

func firstOnly(values cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(c, args, begun)
	}
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

func checkWord(flag, said string, known []string) error {
	if slices.Contains(known, said) {
		return nil
	}
	return usage("--%s %s: it is %s", flag, said, plain.List(known, "or"))
}

// baseURL accepts a server's URL with or without /v1.
func baseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", usage("%q is not the URL of a server; write for example http://127.0.0.1:8000", s)
	}
	return strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1"), nil
}
