package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/plain"
	"hclbench/provision"
)

func checkVerb(t *console) *cobra.Command {
	var hosts hostFlags
	var asJSON bool
	c := labVerb("check", &hosts.labFlags, func(ctx context.Context) error { return runCheck(ctx, t, hosts, asJSON) })
	hosts.addAccept(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runCheck(ctx context.Context, t *console, hosts hostFlags, asJSON bool) error {
	l, opt, err := hosts.reach(ctx, t)
	if err != nil {
		return err
	}
	cfg, err := l.planned(ctx)
	if err != nil {
		return err
	}
	all := apply.Check(ctx, apply.Scope{Lab: cfg.Lab.Name, Hosts: cfg.Hosts, Engines: cfg.Engines}, opt)
	if asJSON {
		err = checkJSON(t, cfg.Lab.Name, all)
	} else {
		err = checkTable(t.stdout, all)
	}
	if err != nil {
		return err
	}
	return checkOutcome(all)
}

func checkTable(out io.Writer, all []apply.Checked) error {
	for i, h := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s at %s\n", h.Host, h.Host.Address)
		if h.Err != nil {
			fmt.Fprintln(out, "  could not be looked at")
			continue
		}
		rows := [][]any{{"  ", "CHECK", "HAVE", "WANT"}}
		for _, f := range h.Findings {
			rows = append(rows, []any{"  " + f.Level, f.Check, f.Have, cmp.Or(f.Want, "-")})
		}
		if err := table(out, rows); err != nil {
			return err
		}
		for _, f := range h.Findings {
			if f.Advice != "" {
				fmt.Fprintf(out, "  %s, %s: %s\n", f.Level, f.Check, f.Advice)
			}
		}
	}
	return nil
}

func checkJSON(t *console, lab string, all []apply.Checked) error {
	type host struct {
		Name     string              `json:"name"`
		Level    provision.Level     `json:"level,omitempty"`
		Findings []provision.Finding `json:"findings"`
		Error    string              `json:"error,omitempty"`
	}
	out := struct {
		FormatVersion string `json:"format_version"`
		Lab           string `json:"lab"`
		Hosts         []host `json:"hosts"`
	}{FormatVersion: "1.0", Lab: lab, Hosts: []host{}}
	for _, c := range all {
		h := host{Name: c.Host.Name, Findings: slices.Concat([]provision.Finding{}, c.Findings)}
		if c.Err != nil {
			h.Error = c.Err.Error()
		} else {
			h.Level = provision.Worst(c.Findings)
		}
		out.Hosts = append(out.Hosts, h)
	}
	return t.json(out)
}

// checkOutcome is the verb's error: hosts that could not be asked weigh more than those that are blocked.
func checkOutcome(all []apply.Checked) error {
	var errs []error
	blocked := 0
	for _, c := range all {
		if c.Err != nil {
			errs = append(errs, c.Err)
		} else if provision.Worst(c.Findings) == provision.Blocked {
			blocked++
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if blocked > 0 {
		return &exit{exitContract, fmt.Errorf("of %s, %d cannot be used as it is", plain.Count(len(all), "host"), blocked)}
	}
	return nil
}
