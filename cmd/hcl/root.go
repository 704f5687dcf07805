package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/docker"
)

// execute is main without the process.
func execute(ctx context.Context, args []string, in *os.File, stdout, stderr io.Writer) int {
	t := &console{in: in, stdout: stdout, stderr: stderr}
	root := rootOf(t)
	root.SetArgs(doubleDash(root, args))
	root.SetIn(in)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	code, shown := exitOf(ctx, err)
	if !shown {
		fmt.Fprintf(stderr, "%s %s\n", t.red("Error:"), plain.Text(err.Error()))
	}
	return code
}

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
		listenersVerb, lockVerb, logsVerb, meshVerb, planVerb, reaperVerb, rehearseVerb, reportVerb, resultsVerb, runsVerb, secretsVerb,
		settingsVerb, showVerb, simVerb, speedsVerb, statusVerb, sweepVerb, tuneVerb, validateVerb, versionVerb, watchVerb,
	} {
		root.AddCommand(of(t))
	}
	if width := t.width(0); width > 0 {
		root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages", fmt.Sprintf("Flags.FlagUsagesWrapped %d", width)))
		for _, c := range append(root.Commands(), root) {
			c.Long, c.Example = wrapped(c.Long, width), wrapped(c.Example, width)
		}
	}
	return root
}

// wrapped is a text whose paragraphs, but those with lines that are set in, have lines of at most width columns.
func wrapped(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") {
			paragraphs[i] = strings.Join(plain.Wrap(plain.Words(p), " ", min(width, 88)), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
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

func versionVerb(t *console) *cobra.Command {
	return verb("version", atMost(0), func(context.Context, []string) error {
		_, err := fmt.Fprintln(t.stdout, "hcl "+version+built())
		return err
	})
}

// built names the compiler and, where it is known, the commit.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	s := " (" + info.GoVersion
	for _, kv := range info.Settings {
		if kv.Key == "vcs.revision" {
			s += ", " + kv.Value[:min(12, len(kv.Value))]
		}
	}
	return s + ")"
}
