package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/report/figure"
)

// helpTexts are what each verb says of itself: a file a verb, whose first line is how it
// is used, the second what it is; then, each after an empty line, what it does, examples,
// and the exit codes.
//
//go:embed help
var helpTexts embed.FS

// helpVerb is hcl help VERB, with our exit code for a verb that is not there.
func helpVerb() *cobra.Command {
	c := verb("help", nil, nil)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		for _, verb := range c.Root().Commands() {
			if len(args) == 0 && verb.IsAvailableCommand() {
				out = append(out, verb.Name()+"\t"+verb.Short)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		verb, rest, err := c.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return c.Root().Args(c.Root(), rest)
		}
		verb.InitDefaultHelpFlag()
		return verb.Help()
	}
	return c
}

// shells are those that complete hcl's words, with how a script of ours is loaded.
var shells = []struct {
	name, load string
	write      func(root *cobra.Command, w io.Writer) error
}{
	{"bash", "  source <(hcl completion bash)\n  hcl completion bash > /etc/bash_completion.d/hcl",
		func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
	{"zsh", "  hcl completion zsh > \"${fpath[1]}/_hcl\"", (*cobra.Command).GenZshCompletion},
	{"fish", "  hcl completion fish > ~/.config/fish/completions/hcl.fish",
		func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
	{"powershell", "  hcl completion powershell | Out-String | Invoke-Expression",
		(*cobra.Command).GenPowerShellCompletionWithDesc},
}

// completionVerb is a verb of our own, so that its help reads as the others' does.
func completionVerb(t *console) *cobra.Command {
	c := verb("completion", nil, nil)
	c.Args = func(c *cobra.Command, args []string) error {
		return usage("which shell? bash, zsh, fish or powershell\nSee '%s --help'.", c.CommandPath())
	}
	for _, s := range shells {
		c.AddCommand(&cobra.Command{
			Use:     s.name,
			Short:   "Print the script for " + s.name,
			Long:    "Prints the script that lets " + s.name + " complete hcl's words.",
			Example: s.load + "\n\nExit codes: 0 done, 1 failed, 2 the command line is wrong.",
			Args:    atMost(0),
			RunE:    func(c *cobra.Command, args []string) error { return s.write(c.Root(), t.stdout) },
		})
	}
	return c
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

// labOf is the lab that the arguments or --lab name, with the variables that are set.
func labOf(c *cobra.Command, args []string) labFlags {
	var f labFlags
	f.named(args)
	if flag := c.Flags().Lookup("lab"); flag != nil {
		f.path = flag.Value.String()
	}
	f.store, _ = c.Flags().GetString("store") // not every verb has these flags
	f.vars, _ = c.Flags().GetStringArray("var")
	f.varFiles, _ = c.Flags().GetStringArray("var-file")
	return f
}

// fromLab completes with what the lab has that the arguments or --lab name, quietly. It
// must be cheap, and what is wrong with the lab is not its business.
func fromLab(t *console, find func(*hcl.Config) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		l, err := labOf(c, args).read(t)
		if err != nil || l.text == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return find(l.text), cobra.ShellCompDirectiveNoFileComp
	}
}

// conditions complete a condition on results: their columns, the axes of the lab, and its values of both.
func conditions(t *console) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		known := map[string][]string{}
		fromLab(t, func(cfg *hcl.Config) []string {
			known = valuesIn(cfg)
			return nil
		})(c, args, begun)
		return figure.CompleteWhere(begun, known), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// valuesIn are what a lab's cells have, by the name of the column or axis.
func valuesIn(cfg *hcl.Config) map[string][]string {
	all := map[string][]string{}
	add := func(name, value string) {
		if !slices.Contains(all[name], value) {
			all[name] = append(all[name], value)
		}
	}
	for _, b := range cfg.Benchmarks {
		add("benchmark", b.Name)
		for _, c := range b.Cells {
			add("engine", c.Engine.Label())
			add("kind", c.Engine.Kind)
			for _, h := range c.Engine.Placement.Hosts() {
				add("host", h.Name)
			}
			for _, a := range c.Axes {
				add(a.Name, fmt.Sprint(a.Value))
			}
		}
	}
	return all
}

func runIDs(t *console) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return runNames(t, c, args, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// runNames are the ids of runs, the newest first, with what they were.
func runNames(t *console, c *cobra.Command, args []string, begun string) []cobra.Completion {
	t.stderr = io.Discard // a shell completes, and nobody reads
	store, lab, err := labOf(c, args).results(c.Context(), t)
	if err != nil {
		return nil
	}
	defer store.Close()
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
