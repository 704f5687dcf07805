package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/report/figure"
	"hclbench/results"
)

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

func benchmarkNames(cfg *hcl.Config, prefix string) []string {
	var out []string
	for _, b := range cfg.Benchmarks {
		out = append(out, prefix+b.Name+"\t"+oneLine(b.Description, fmt.Sprintf("%d cells", len(b.Cells))))
	}
	return out
}

func engineNames(cfg *hcl.Config, name func(*engines.Engine) string) []string {
	var out []string
	for _, e := range cfg.Engines {
		out = append(out, name(e)+"\t"+oneLine(e.Description, e.Image))
	}
	return slices.Compact(out)
}

func targetNames(cfg *hcl.Config) []string {
	out := engineNames(cfg, (*engines.Engine).Address)
	for _, h := range cfg.Hosts {
		out = append(out, "host."+h.Name+"\t"+oneLine(h.Description, h.GPUs.String()))
	}
	return append(out, benchmarkNames(cfg, "benchmark.")...)
}

// oneLine is the first of the texts that says something, as a completion's description.
func oneLine(texts ...string) string {
	for _, t := range texts {
		if first, _, _ := strings.Cut(strings.TrimSpace(t), "\n"); first != "" {
			return first
		}
	}
	return ""
}

func journalNames(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	runs, err := results.Journals(storeDir(labOf(c, nil).dir()))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return runs, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
