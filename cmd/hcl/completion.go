package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/hcl"
)

// completion is a verb of our own, so that its help reads as the others' does.
func (a *app) completion() *cobra.Command {
	scripts := []struct {
		shell, load string
		write       func(root *cobra.Command, w io.Writer) error
	}{
		{"bash", "  source <(hcl completion bash)\n  hcl completion bash > /etc/bash_completion.d/hcl",
			func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"zsh", "  hcl completion zsh > \"${fpath[1]}/_hcl\"",
			func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) }},
		{"fish", "  hcl completion fish > ~/.config/fish/completions/hcl.fish",
			func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
		{"powershell", "  hcl completion powershell | Out-String | Invoke-Expression",
			func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) }},
	}
	c := &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print what lets a shell complete hcl's words",
		Long: `Prints a script for a shell: bash, zsh, fish or powershell. Once it is loaded,
the shell completes verbs and flags, and with them the engines, hosts, benchmarks
and runs of the lab.`,
		Example: scripts[0].load + `

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: func(c *cobra.Command, args []string) error {
			return usage("which shell? bash, zsh, fish or powershell\nSee '%s --help'.", c.CommandPath())
		},
		RunE: func(c *cobra.Command, args []string) error { return c.Help() },
	}
	for _, s := range scripts {
		c.AddCommand(&cobra.Command{
			Use:   s.shell,
			Short: "Print the script for " + s.shell,
			Long:  "Prints the script that lets " + s.shell + " complete hcl's words.",
			Example: s.load + `

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
			Args: none,
			RunE: func(c *cobra.Command, args []string) error { return s.write(c.Root(), a.stdout) },
		})
	}
	return c
}

// helpVerb is hcl help VERB, with our exit code for a verb that is not there.
func (a *app) helpVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]",
		Short: "Explain a verb",
		Long:  "Explains a verb: what it does, its flags, examples and exit codes.",
		Example: `  hcl help apply

Exit codes: 0 done, 2 there is no such verb.`,
		ValidArgsFunction: func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var out []cobra.Completion
			if len(args) == 0 {
				for _, verb := range c.Root().Commands() {
					if verb.IsAvailableCommand() {
						out = append(out, verb.Name()+"\t"+verb.Short)
					}
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			verb, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return c.Root().Args(c.Root(), rest)
			}
			verb.InitDefaultHelpFlag()
			return verb.Help()
		},
	}
}

// finder finds what a lab has for a shell that completes; it must be cheap, and
// what is wrong with the lab is not its business.
type finder func(*hcl.Config) []string

// complete completes a flag with what the lab has that the arguments name.
func (a *app) complete(c *cobra.Command, flag string, find finder) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.found(c, args, find)
	})
	if err != nil {
		panic(err.Error() + ". This is a bug in hcl.")
	}
}

// found lists names of the lab at the path that args or --lab name, quietly.
func (a *app) found(c *cobra.Command, args []string, find finder) ([]cobra.Completion, cobra.ShellCompDirective) {
	if f := c.Flags().Lookup("lab"); f != nil {
		args = []string{f.Value.String()}
	}
	var vars labFlags
	var err error
	if vars.vars, err = c.Flags().GetStringArray("var"); err != nil {
		vars.vars = nil // the verb has no such flag
	}
	if vars.varFiles, err = c.Flags().GetStringArray("var-file"); err != nil {
		vars.varFiles = nil
	}
	l, err := a.readLab(vars, args)
	if err != nil || l.text == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return find(l.text), cobra.ShellCompDirectiveNoFileComp
}

// completeRun completes a flag with the runs that are kept.
func (a *app) completeRun(c *cobra.Command, flag string) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.runNames(c, args, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	})
	if err != nil {
		panic(err.Error() + ". This is a bug in hcl.")
	}
}

// runNames are the ids of the runs of the lab that the arguments or --lab name, the
// newest first, with what they were.
func (a *app) runNames(c *cobra.Command, args []string, begun string) []cobra.Completion {
	if f := c.Flags().Lookup("lab"); f != nil {
		args = []string{f.Value.String()}
	}
	a.stderr = io.Discard // a shell completes, and nobody reads
	store, err := a.openExisting(c.Context(), labDir(args))
	if err != nil || store == nil {
		return nil
	}
	defer store.Close()
	lab, err := labIn(store, args)
	if err != nil {
		return nil
	}
	runs, err := store.Runs(c.Context())
	if err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, r := range slices.Backward(runs) {
		if (lab == "" || r.Lab == lab) && strings.HasPrefix(r.ID, begun) {
			out = append(out, r.ID+"\t"+oneLine(r.Command+" "+r.Outcome))
		}
	}
	return out
}

// words completes a flag that takes one of these.
func words(c *cobra.Command, flag string, of ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err.Error() + ". This is a bug in hcl.")
	}
}
