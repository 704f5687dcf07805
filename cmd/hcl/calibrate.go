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

	"hclbench/apply/place"
	"hclbench/calibrate"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/sim"
)

type calibrateOptions struct {
	hosts      hostFlags
	quick      bool
	maxStreams int
	json       bool
}

func calibrateVerb(t *console) *cobra.Command {
	var o calibrateOptions
	c := verb("calibrate", atMost(1), func(ctx context.Context, args []string) error {
		if o.maxStreams < 0 {
			return usage("--max-streams cannot be negative")
		}
		if len(args) == 0 {
			return calibrateHere(ctx, t, o)
		}
		o.hosts.named(args)
		return calibrateHosts(ctx, t, o)
	})
	c.Flags().BoolVar(&o.quick, "quick", false, "two small steps: shows that it works, not how far")
	c.Flags().IntVar(&o.maxStreams, "max-streams", 0, "try no more streams at a time; 0 is 10000")
	c.Flags().BoolVar(&o.json, "json", false, "print the outcome as JSON")
	o.hosts.addVars(c)
	o.hosts.addAccept(c)
	return c
}

func calibrateHere(ctx context.Context, t *console, o calibrateOptions) error {
	tell := steps(t.stdout)
	if o.json {
		tell = steps(io.Discard)
	}
	climbed, err := calibrate.Climb(ctx, calibrate.Ladder(o.quick, o.maxStreams), simulatedEngine, tell)
	if err != nil {
		return err
	}
	found := calibrate.Of(calibrate.ThisMachine(version), time.Now(), climbed)
	kept, err := keepCalibration(t, found)
	if err != nil {
		return err
	}
	if o.json {
		err = t.json(found)
	} else {
		_, err = fmt.Fprintf(t.stdout, "\n%s%s\n", concluded(found), kept)
	}
	if err == nil && found.Limits.Streams == 0 {
		err = errors.New("on this machine no load was measured rightly: is it busy with something else?")
	}
	return err
}

// keepCalibration keeps a calibration, unless that which is kept tried more, and says what it did.
func keepCalibration(t *console, found calibrate.Calibration) (string, error) {
	kept, err := calibrate.Kept(found.Machine)
	if err != nil {
		t.logger().Warn(err.Error())
	}
	if found.Narrower(kept) {
		return fmt.Sprintf("Not kept: that of %s tried more.", kept.Measured.Local().Format(time.DateTime)), nil
	}
	path, err := found.Keep()
	return "Kept in " + path + ".", err
}

// steps prints steps as they come: a table whose columns are as wide as needed for what is usual.
func steps(out io.Writer) func(calibrate.Step) {
	header := "STREAMS\tEVENTS/S\tTTFT P50\tTTFT P99\tITL P50\tITL P99\tCPU\tVERDICT\n"
	return func(s calibrate.Step) {
		verdict := "right"
		if !s.Trusted() {
			verdict = strings.Join(s.Reasons, "; ")
		}
		w := tabwriter.NewWriter(out, 11, 0, 2, ' ', 0)
		fmt.Fprintf(w, "%s%d\t%.0f\t%+.1f ms\t%+.1f ms\t%+.2f ms\t%+.2f ms\t%.0f %%\t%s\n", header,
			s.Streams, s.Events, s.TTFTp50, s.TTFTp99, s.ITLp50, s.ITLp99, 100*s.CPU, verdict)
		w.Flush()
		header = ""
	}
}

func concluded(c calibrate.Calibration) string {
	l := c.Limits
	text := ""
	if l.Streams > 0 {
		text = fmt.Sprintf("The generator was right up to %d streams and up to %.0f events/s: "+
			"p99 of TTFT to %.1f ms, p99 of ITL to %.2f ms.\n",
			l.Streams, l.Events, l.TTFTError, l.ITLError)
	}
	if !l.Bounded {
		text += "More was not tried.\n"
	}
	return text
}

// simulatedEngine starts one in a process of its own.
func simulatedEngine(ctx context.Context, c sim.Config) (url string, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
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

func calibrateHosts(ctx context.Context, t *console, o calibrateOptions) error {
	l, opt, err := o.hosts.reach(ctx, t)
	if err != nil {
		return err
	}
	cfg := l.text
	hosts := sending(cfg)
	for _, h := range hosts {
		if h.Cluster != nil {
			t.logger().Warn(fmt.Sprintf("%s is a pod that a run makes for itself: its calibration would be gone with it", h))
		}
	}
	if hosts = slices.DeleteFunc(hosts, func(h *provision.Host) bool { return h.Cluster != nil }); len(hosts) == 0 {
		return usage("no load of this lab is sent from a machine")
	}
	flags := []string{"calibrate", "--max-streams", strconv.Itoa(o.maxStreams), "--quick=" + strconv.FormatBool(o.quick), "--json"}
	said, err := place.Run(ctx, place.Scope{Lab: cfg.Lab.Name, Hosts: hosts, Engines: cfg.Engines}, opt, flags...)
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
		if o.json {
			continue
		}
		fmt.Fprintf(t.stdout, "%s: %d × %s\n", h.Name, c.Machine.Cores, c.Machine.CPU)
		tell := steps(t.stdout)
		for _, s := range c.Steps {
			tell(s)
		}
		fmt.Fprintf(t.stdout, "%s\n", concluded(c))
	}
	if o.json {
		err = errors.Join(t.json(found), err)
	}
	return err
}

// sending are the hosts that a lab's loads are sent from: those of engines, and the clients of benchmarks.
func sending(cfg *hcl.Config) (hosts []*provision.Host) {
	add := func(h *provision.Host) {
		if !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	for _, e := range cfg.Engines {
		if h := e.Host(); h != nil {
			add(h)
		}
	}
	for _, b := range cfg.Benchmarks {
		for _, c := range b.Cells {
			for _, h := range c.From {
				add(h)
			}
		}
	}
	return hosts
}

// calibrated is what is known of the generator on this machine; what cannot be read is said, and no more.
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
