package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/calibrate"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/sim"
)

// steppedHeader goes before lines of [stepped].
const steppedHeader = "STREAMS\tEVENTS/S\tTTFT P50\tTTFT P99\tITL P50\tITL P99\tCPU\tVERDICT"

func (a *app) calibrate() *cobra.Command {
	var lab labFlags
	var connect connectFlags
	var quick, asJSON bool
	var maxStreams int
	c := &cobra.Command{
		Use:   "calibrate [LAB]",
		Short: "Find out up to where the load generator's numbers can be trusted",
		Long: `Measures a simulated engine on this machine, with more and more streams and
tokens per second, and holds what the load generator says against what the
engine knows that it sent. With a lab, that is done on the hosts of its engines.

The outcome is kept below the user's cache directory. Measurements on this
machine beyond it are suspect, with a reason that says so.

TTFT and ITL are the errors of the generator, measured less true.`,
		Example: `  hcl calibrate
  hcl calibrate --quick --json
  hcl calibrate lab/

Exit codes: 0 done, 1 failed, or no load can be trusted, 2 the lab or the command line is wrong,
130 interrupted.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if maxStreams < 0 {
				return usage("--max-streams cannot be negative")
			}
			if len(args) == 1 {
				flags := []string{"--max-streams", strconv.Itoa(maxStreams), "--quick=" + strconv.FormatBool(quick)}
				return a.calibrateHosts(c.Context(), lab, connect, args, asJSON, flags)
			}
			return a.calibrateHere(c.Context(), calibrate.Ladder(quick, maxStreams), asJSON)
		},
	}
	c.Flags().BoolVar(&quick, "quick", false, "two small steps: shows that it works, not how far")
	c.Flags().IntVar(&maxStreams, "max-streams", 0, "try no more streams at a time; 0 is 10000")
	c.Flags().BoolVar(&asJSON, "json", false, "print the outcome as JSON")
	lab.add(c)
	connect.add(c)
	return c
}

func (a *app) calibrateHere(ctx context.Context, ladder []calibrate.Rung, asJSON bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t := a.steps(asJSON)
	steps, err := calibrate.Climb(ctx, ladder, func(ctx context.Context, cfg sim.Config) (string, func() error, error) {
		return engineOf(ctx, self, cfg)
	}, t)
	if err != nil {
		return err
	}
	found := calibrate.Of(calibrate.ThisMachine(version), time.Now(), steps)
	kept, err := calibrate.Kept(found.Machine)
	if err != nil {
		a.logger().Warn(err.Error())
	}
	last := ""
	if found.Narrower(kept) {
		last = fmt.Sprintf("Not kept: that of %s tried more.", kept.Measured.Local().Format(time.DateTime))
	} else {
		path, err := found.Keep()
		if err != nil {
			return err
		}
		last = "Kept in " + path + "."
	}
	if asJSON {
		err = a.printJSON(found)
	} else {
		_, err = fmt.Fprintf(a.stdout, "\n%s%s\n", concluded(found), last)
	}
	if err == nil && found.Limits.Streams == 0 {
		err = errors.New("on this machine no load was measured rightly: is it busy with something else?")
	}
	return err
}

// steps prints steps as they come: a table whose columns are as wide as needed
// for what is usual.
func (a *app) steps(asJSON bool) func(calibrate.Step) {
	w := a.stdout
	if asJSON {
		w = io.Discard
	}
	first := true
	return func(s calibrate.Step) {
		t := tabwriter.NewWriter(w, 11, 0, 2, ' ', 0)
		if first {
			fmt.Fprintln(t, steppedHeader)
		}
		first = false
		fmt.Fprintln(t, stepped(s))
		t.Flush()
	}
}

func stepped(s calibrate.Step) string {
	verdict := "right"
	if !s.Trusted() {
		verdict = strings.Join(s.Reasons, "; ")
	}
	return fmt.Sprintf("%d\t%.0f\t%+.1f ms\t%+.1f ms\t%+.2f ms\t%+.2f ms\t%.0f %%\t%s",
		s.Streams, s.Events, s.TTFTp50, s.TTFTp99, s.ITLp50, s.ITLp99, 100*s.CPU, verdict)
}

// concluded says what a calibration comes to.
func concluded(c calibrate.Calibration) string {
	l := c.Limits
	text := ""
	if l.Streams > 0 {
		text = fmt.Sprintf("The generator was right up to %d streams and up to %.0f events/s: p99 of TTFT to %.1f ms, p99 of ITL to %.2f ms.\n",
			l.Streams, l.Events, l.TTFTError, l.ITLError)
	}
	if !l.Bounded {
		text += "More was not tried.\n"
	}
	return text
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// engineOf starts a simulated engine in a process of its own.
func engineOf(ctx context.Context, self string, c sim.Config) (url string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, self, "sim", "--port", "0", "--ttft", c.TTFT.String(), "--itl", c.ITL.String())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	said, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start the simulated engine: %w", err)
	}
	in := bufio.NewReader(said)
	stop = func() error {
		cmd.Cancel()
		io.Copy(io.Discard, in)
		return cmd.Wait()
	}
	line, err := in.ReadString('\n')
	_, url, found := strings.Cut(strings.TrimSpace(line), " engine on ")
	if err != nil || !found {
		return "", nil, errors.Join(fmt.Errorf("start the simulated engine: it says %q", line), stop())
	}
	return url, stop, nil
}

// calibrateHosts does it where the lab's engines run.
func (a *app) calibrateHosts(ctx context.Context, lab labFlags, connect connectFlags, args []string, asJSON bool, flags []string) error {
	l, err := a.openLab(lab, args)
	if err != nil {
		return err
	}
	cfg := l.text
	opt, err := a.options(ctx, connect)
	if err != nil {
		return err
	}
	var hosts []*provision.Host
	for _, e := range cfg.Engines {
		if e.Host != nil && !slices.Contains(hosts, e.Host) {
			hosts = append(hosts, e.Host)
		}
	}
	if len(hosts) == 0 {
		return usage("no engine of this lab runs on a host")
	}
	said, err := apply.Calibrate(ctx, apply.ScopeOf(cfg.Lab.Name, hosts, cfg.Engines), opt, append(flags, "--json")...)
	found := map[string]calibrate.Calibration{}
	for _, h := range hosts {
		text, ok := said[h.Name]
		if !ok {
			continue // why is in the error
		}
		var c calibrate.Calibration
		if e := json.Unmarshal([]byte(text), &c); e != nil {
			err = errors.Join(err, fmt.Errorf("calibrate on %s: it says %q", h, text))
			continue
		}
		found[h.Name] = c
		if !asJSON {
			fmt.Fprintf(a.stdout, "%s: %d × %s\n", h.Name, c.Machine.Cores, c.Machine.CPU)
			each := a.steps(false)
			for _, s := range c.Steps {
				each(s)
			}
			fmt.Fprintf(a.stdout, "%s\n", concluded(c))
		}
	}
	if asJSON {
		err = errors.Join(a.printJSON(found), err)
	}
	return err
}

// calibrated is what is known of the generator on this machine; what cannot be
// read is said, and no more.
func calibrated(log *slog.Logger) *load.Calibrated {
	kept, err := calibrate.Kept(calibrate.ThisMachine(version))
	if err != nil {
		log.Warn(err.Error())
	}
	if kept == nil {
		return nil
	}
	return &kept.Limits
}
