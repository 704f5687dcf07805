package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/agent"
	"hclbench/apply/place"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/results"
)

type checkFlags struct {
	hostFlags
	fabric, measure, prove, json bool
	engine                       string // to prove with; empty: the first
	starts                       int    // of it
}

func checkVerb(t *console) *cobra.Command {
	var f checkFlags
	c := labVerb("check", &f.labFlags, func(ctx context.Context) error { return runCheck(ctx, t, f) })
	f.addAccept(c)
	f.addStore(c)
	c.Flags().BoolVar(&f.fabric, "fabric", false, "also have the hosts of each engine that runs over several meet on its ports")
	c.Flags().BoolVar(&f.measure, "measure", false,
		"with --fabric: also measure RDMA and an all-reduce between the hosts, in the engine's image")
	c.Flags().BoolVar(&f.prove, "prove", false, "also measure the hosts, and start one engine several times to find how small a difference they can show")
	c.Flags().StringVar(&f.engine, "engine", "", "with --prove: start this engine, such as vllm.h200, and not the lab's first")
	c.Flags().IntVar(&f.starts, "starts", 4, fmt.Sprintf("with --prove: start it `n` times, %d to %d", fewestStarts, mostStarts))
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	refuses(c, noUse{flag: "measure", other: "fabric"}, noUse{flag: "engine", other: "prove"}, noUse{flag: "starts", other: "prove"})
	return c
}

func runCheck(ctx context.Context, t *console, f checkFlags) error {
	if f.starts < fewestStarts || f.starts > mostStarts {
		return usage("--starts is how often an engine is started: %d to %d", fewestStarts, mostStarts)
	}
	l, opt, err := f.reach(ctx, t)
	if err != nil {
		return err
	}
	cfg, err := l.planned(ctx)
	if err != nil {
		return err
	}
	scope := place.Scope{Lab: cfg.Lab.Name, Hosts: cfg.Hosts, Engines: cfg.Engines}
	var all []checked
	for _, h := range place.Check(ctx, scope, opt) {
		at := fmt.Sprintf("%s at %s", h.Host, h.Host.Address)
		if h.Host.Rent != nil {
			at = h.Host.String() + ", rented of " + h.Host.Rent.Plugin
		}
		if h.Host.Cluster != nil {
			at = h.Host.String()
		}
		all = append(all, checked{Name: h.Host.Name, at: at, found: h.Findings, err: h.Err})
	}
	hosts := len(all)
	if f.prove {
		boxes, err := f.boxes(ctx, t, cfg, scope, opt, checkOutcome(all, nil) == nil)
		if err != nil {
			return err
		}
		for i, h := range boxes { // in the same order
			all[i].found, all[i].err = append(all[i].found, h.Findings...), cmp.Or(all[i].err, h.Err)
		}
	}
	if f.fabric {
		fabrics, err := f.fabrics(ctx, t, cfg, scope, opt)
		if err != nil {
			return err
		}
		all = append(all, fabrics...)
	}
	outcome := checkOutcome(all[:hosts], all[hosts:])
	if !f.json {
		if err := checkTable(t.stdout, all); err != nil {
			return err
		}
	}
	var noise *results.Noise
	if f.prove && outcome == nil {
		noise, outcome = f.noise(ctx, t)
	}
	switch {
	case f.json:
		err = checkJSON(t, cfg.Lab.Name, all[:hosts], all[hosts:], f.fabric, noise)
	case noise != nil:
		err = noiseTable(t.stdout, noise)
	}
	return errors.Join(outcome, err)
}

// boxes measures hosts, their GPUs where nothing is blocked. Nobody applies the lab meanwhile.
func (f checkFlags) boxes(
	ctx context.Context, t *console, cfg *hcl.Config, scope place.Scope, opt place.Options, free bool,
) (all []place.Checked, err error) {
	var claim *agent.Lease
	if free {
		var done func()
		if claim, done, err = f.claim(ctx, t, cfg, "hcl check --prove"); err != nil {
			return nil, err
		}
		defer done()
	}
	return place.Prove(ctx, scope, claim, opt, tellPlace(t.logger())), nil
}

// claim is by which hosts are taken for measuring, while nobody applies the lab, until done.
func (f checkFlags) claim(ctx context.Context, t *console, cfg *hcl.Config, command string) (claim *agent.Lease, done func(), err error) {
	kept, unlock, err := f.locked(ctx, t, cfg.Lab.Name, command)
	if err != nil {
		return nil, nil, err
	}
	return &agent.Lease{Run: results.NewRunID(time.Now()), Store: kept.ID(), TTL: load.Duration(cfg.Lab.Lease)}, unlock, nil
}

// fabrics looks at what is between hosts. Where that is to be measured, nobody applies the lab meanwhile.
func (f checkFlags) fabrics(
	ctx context.Context, t *console, cfg *hcl.Config, scope place.Scope, opt place.Options,
) (all []checked, err error) {
	var claim *agent.Lease
	if f.measure {
		var done func()
		if claim, done, err = f.claim(ctx, t, cfg, "hcl check --measure"); err != nil {
			return nil, err
		}
		defer done()
	}
	for _, c := range place.CheckFabric(ctx, scope, claim, opt, tellPlace(t.logger())) {
		one := checked{found: c.Findings, err: c.Err}
		for _, h := range c.Hosts {
			one.Hosts = append(one.Hosts, h.Name)
		}
		one.at = "fabric of " + strings.Join(one.Hosts, ", ")
		all = append(all, one)
	}
	return all, nil
}

// checked is a host, or a fabric, as it is shown.
type checked struct {
	Name     string              `json:"name,omitempty"`  // of a host
	Hosts    []string            `json:"hosts,omitempty"` // of a fabric
	Level    provision.Level     `json:"level,omitempty"`
	Findings []provision.Finding `json:"findings"`
	Error    string              `json:"error,omitempty"`

	at    string
	found []provision.Finding
	err   error
}

func checkTable(out io.Writer, all []checked) error {
	for i, c := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, c.at)
		if c.err != nil && len(c.found) == 0 {
			fmt.Fprintln(out, "  could not be looked at")
			continue
		}
		rows := [][]any{{"  ", "CHECK", "HAVE", "WANT"}}
		for _, f := range c.found {
			rows = append(rows, []any{"  " + f.Level, f.Check, f.Have, cmp.Or(f.Want, "-")})
		}
		if err := writeTable(out, rows); err != nil {
			return err
		}
		told := ""
		for _, f := range c.found {
			line := fmt.Sprintf("  %s, %s: %s\n", f.Level, f.Check, f.Advice)
			if f.Advice != "" && line != told {
				fmt.Fprint(out, line)
			}
			told = line
		}
	}
	return nil
}

func checkJSON(t *console, lab string, hosts, fabrics []checked, withFabrics bool, noise *results.Noise) error {
	shown := func(list []checked) *[]checked {
		all := []checked{}
		for _, c := range list {
			c.Findings = slices.Concat([]provision.Finding{}, c.found)
			if c.err != nil {
				c.Error = c.err.Error()
			} else {
				c.Level = provision.Worst(c.found)
			}
			all = append(all, c)
		}
		return &all
	}
	out := struct {
		FormatVersion string         `json:"format_version"`
		Lab           string         `json:"lab"`
		Hosts         *[]checked     `json:"hosts"`
		Fabrics       *[]checked     `json:"fabrics,omitempty"`
		Noise         *results.Noise `json:"noise,omitempty"`
	}{FormatVersion: "1.2", Lab: lab, Hosts: shown(hosts), Noise: noise}
	if withFabrics {
		out.Fabrics = shown(fabrics)
	}
	return t.json(out)
}

// checkOutcome is the verb's error: what could not be asked weighs more than what is blocked.
func checkOutcome(hosts, fabrics []checked) (err error) {
	blocked := func(list []checked) (n int) {
		for _, c := range list {
			err = errors.Join(err, c.err)
			if c.err == nil && provision.Worst(c.found) == provision.Blocked {
				n++
			}
		}
		return n
	}
	h, f := blocked(hosts), blocked(fabrics)
	switch {
	case errors.Is(err, place.ErrContract): // of a host that was to be taken for measuring
		err = &exit{exitContract, err}
	case err != nil:
	case h > 0:
		err = &exit{exitContract, fmt.Errorf("of %s, %d cannot be used as it is", plain.Count(len(hosts), "host"), h)}
	case f > 0:
		err = &exit{exitContract, fmt.Errorf("of %s between hosts, %d cannot be used as it is", plain.Count(len(fabrics), "fabric"), f)}
	}
	return err
}
