package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hclbench/plain"
	"hclbench/provision/docker"
)

// rootOf is hcl with all its verbs.
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
		listenersVerb, lockVerb, logsVerb, planVerb, rehearseVerb, reportVerb, resultsVerb, runsVerb, secretsVerb,
		showVerb, simVerb, statusVerb, validateVerb, versionVerb, watchVerb,
	} {
		root.AddCommand(of(t))
	}
	return root
}

// verb is a command with the help of its name. It has no flags yet.
func verb(name string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	h := helpOf(name)
	return &cobra.Command{
		Use: h.use, Short: h.short, Long: h.long, Example: h.example,
		Args: args,
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), args) },
	}
}

// labVerb is a verb whose argument is the lab.
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

// none and atMost are cobra's checks with our exit code.
func none(c *cobra.Command, args []string) error { return atMost(0)(c, args) }

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

// exactly is for verbs whose n arguments have to be named; want says which they are.
func exactly(n int, want string) cobra.PositionalArgs { return between(n, n, want) }

// atLeastOne is for verbs that take a list.
func atLeastOne(want string) cobra.PositionalArgs { return between(1, 1<<30, want) }

func between(least, most int, want string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return usage("%s\nSee '%s --help'.", want, c.CommandPath())
	}
}

// doubleDash lets people write -auto-approve, as they do for Terraform: a long
// flag with one dash gets the second.
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
	out := make([]string, len(args))
	copy(out, args)
	value := false
	for i, arg := range out {
		if value {
			value = false
			continue
		}
		if arg == "--" {
			break
		}
		name, _, said := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		value = strings.HasPrefix(arg, "-") && takes[name] && !said
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && known[name] {
			out[i] = "-" + arg
		}
	}
	return out
}
