// Command hcl provisions and benchmarks LLM inference engines.
//
// One file per verb: its flags, what it prints, its exit code. Nothing here
// measures, connects or decides; the rooms below do, and return values.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/docker"
)

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

// version is set by the linker.
var version = "dev"

func main() {
	ctx, interrupt := context.WithCancel(context.Background())
	catch(ctx, interrupt)
	stdout, stderr := &output{File: os.Stdout, left: interrupt}, &output{File: os.Stderr, left: interrupt}
	os.Exit(run(ctx, os.Args[1:], os.Stdin, stdout, stderr))
}

// catch has the first signal interrupt, which lets everything be taken down. After it
// the default is back for those that people send, so that a second one leaves at once.
// A terminal that goes away may tell so more than once: that is no second signal.
func catch(ctx context.Context, interrupt func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	hangups := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(hangups, syscall.SIGHUP)
	}
	go func() {
		select {
		case <-signals:
		case <-hangups:
		case <-ctx.Done():
		}
		interrupt()
	}()
	// Without this a write to a reader who has left would end the process at once.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// errReaderLeft says that nobody reads any more what is printed.
var errReaderLeft = errors.New("the reader of the output has left")

// output is stdout or stderr. When its reader has left, that is an interruption: what
// runs is taken down, as after Ctrl-C.
type output struct {
	*os.File
	left func()
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		o.left()
		err = fmt.Errorf("%w: %w", errReaderLeft, err)
	}
	return n, err
}

// WriteString and ReadFrom are the file's own otherwise.
func (o *output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

func (o *output) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{o}, r)
}

// app is what the verbs share.
type app struct {
	in     *os.File
	stdout io.Writer // the product: plans, tables, JSON
	stderr io.Writer // everything else
	debug  bool
	store  string // --store

	questions questions
}

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

// run is main without the process.
func run(ctx context.Context, args []string, in *os.File, stdout, stderr io.Writer) int {
	a := &app{in: in, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(doubleDash(root, args))
	root.SetIn(in)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	code := exitFailed
	var e *exit
	if errors.As(err, &e) {
		code = e.code
	}
	if ctx.Err() != nil {
		code = exitInterrupted
	}
	if errors.As(err, new(*provision.UncleanError)) { // whatever else: somebody has to look at it
		code = exitUnclean
	}
	if errors.Is(err, errReaderLeft) && ctx.Err() != nil && code != exitUnclean {
		return exitReaderLeft
	}
	if e == nil || e.err != nil {
		fmt.Fprintf(stderr, "%s %s\n", a.paint(red, "Error:"), plain.Text(err.Error()))
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hcl",
		Short: "Provision and benchmark LLM inference engines",
		Long: `hcl reads a lab — hosts, inference engines and benchmark matrices, written in
HCL — brings the engines up over SSH and Docker, waits until they really serve,
measures every cell of the matrix, takes everything down, keeps the results and
reports them.

A lab is a directory with *.hcl files, or one such file; without an argument it
is the current directory.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if like := c.SuggestionsFor(args[0]); len(like) > 0 {
				return usage("there is no verb %q. Did you mean %q?", args[0], like[0])
			}
			return usage("there is no verb %q. See 'hcl --help'.", args[0])
		},
		RunE: func(c *cobra.Command, args []string) error { return c.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("hcl {{.Version}}\n")
	root.PersistentFlags().BoolVar(&a.debug, "debug", false, "log what the connections do")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w\nSee '%s --help'.", err, c.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true // ours reads as the others
	root.SetHelpCommand(a.helpVerb())
	root.AddCommand(
		a.agent(),
		a.apply(),
		a.attach(),
		a.audit(),
		a.bench(),
		a.bundle(),
		a.calibrate(),
		a.check(),
		a.compare(),
		a.completion(),
		a.connect(),
		a.destroy(),
		a.devices(),
		a.export(),
		a.fmt(),
		a.gc(),
		a.importVerb(),
		a.init(),
		a.listeners(),
		a.lock(),
		a.logs(),
		a.plan(),
		a.rehearse(),
		a.report(),
		a.results(),
		a.runs(),
		a.showCell(),
		a.sim(),
		a.status(),
		a.validate(),
		a.version(),
		a.watch(),
		a.withEnv(),
	)
	return root
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Prints the version, and what it was built with.",
		Example: `  hcl version

Exit codes: 0 done, 1 failed, 2 the command line is wrong.`,
		Args: none,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, "hcl "+version+built())
			return err
		},
	}
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

// none and atMost are cobra's checks with our exit code.
func none(c *cobra.Command, args []string) error { return atMost(0)(c, args) }

func atMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("%s takes %s, but there is %q too\nSee '%s --help'.", c.CommandPath(), plural(n, "argument"), args[n], c.CommandPath())
		}
		return nil
	}
}

func plural(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// doubleDash lets people write -auto-approve, as they do for Terraform: a long
// flag with one dash gets the second.
func doubleDash(root *cobra.Command, args []string) []string {
	known := map[string]bool{}
	takes := map[string]bool{} // flags whose value is the next word
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		add := func(f *pflag.Flag) {
			known[f.Name] = true
			takes[f.Name] = takes[f.Name] || f.NoOptDefVal == ""
		}
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	known["help"], known["version"] = true, true
	out := make([]string, len(args))
	copy(out, args)
	if len(args) > 0 && args[0] == docker.SecretsVerb {
		return out // an engine's
	}
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
