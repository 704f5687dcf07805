package main

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// helpTexts are what each verb says of itself: a file a verb, whose first line is how it
// is used, the second what it is; then, each after an empty line, what it does, examples,
// and the exit codes.
//
//go:embed help
var helpTexts embed.FS

// help is what a verb says of itself.
type help struct{ use, short, long, example string }

func helpOf(name string) help {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(fmt.Sprintf("read the help of %s: %v. This is a bug in hcl.", name, err))
	}
	head, long, _ := strings.Cut(strings.TrimSpace(string(text)), "\n\n")
	var h help
	h.use, h.short, _ = strings.Cut(head, "\n")
	h.long, h.example, _ = strings.Cut(long, "\n\nExamples:\n")
	return h
}

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
	{"zsh", "  hcl completion zsh > \"${fpath[1]}/_hcl\"",
		func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) }},
	{"fish", "  hcl completion fish > ~/.config/fish/completions/hcl.fish",
		func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
	{"powershell", "  hcl completion powershell | Out-String | Invoke-Expression",
		func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) }},
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
			Args:    none,
			RunE:    func(c *cobra.Command, args []string) error { return s.write(c.Root(), t.stdout) },
		})
	}
	return c
}
