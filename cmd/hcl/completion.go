package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/hcl"
)

// finder finds what a lab has for a shell that completes; it must be cheap, and
// what is wrong with the lab is not its business.
type finder func(*hcl.Config) []string

// completes has a shell complete the values of a flag.
func completes(c *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err.Error() + ". This is a bug in hcl.")
	}
}

// words completes a flag that takes one of these.
func words(c *cobra.Command, flag string, of ...string) {
	completes(c, flag, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp))
}

// firstOnly completes the first argument of a verb that takes one.
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

// fromLab completes with what the lab has that the arguments or --lab name, quietly.
func fromLab(t *console, find finder) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		l, err := labOf(c, args).read(t)
		if err != nil || l.text == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return find(l.text), cobra.ShellCompDirectiveNoFileComp
	}
}

// runIDs completes with the runs that are kept of the lab that the arguments or --lab name.
func runIDs(t *console) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return runNames(t, c, args, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// runNames are the ids of runs, the newest first, with what they were.
func runNames(t *console, c *cobra.Command, args []string, begun string) []cobra.Completion {
	t.stderr = io.Discard // a shell completes, and nobody reads
	of := labOf(c, args)
	store, err := of.look(c.Context(), t)
	if err != nil || store == nil {
		return nil
	}
	defer store.Close()
	lab, err := of.labIn(store)
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
