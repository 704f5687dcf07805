package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/provision"
)

func (a *app) check() *cobra.Command {
	var lab labFlags
	var connect connectFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [LAB]",
		Short: "Hold the hosts against their contract",
		Long: `Connects to all hosts of the lab at once and shows what they have, what their blocks and
require blocks want, what else makes numbers bad, whether images and models are there
or have room, and what to do about it. It starts and changes nothing there. apply does the
same first, and stops at what is blocked, but for images and models: those are the business
of their own engines.`,
		Example: `  hcl check lab/
  hcl check --json | jq '.hosts[].findings[] | select(.level != "ok")'

Exit codes: 0 done, also with warnings, 1 a host could not be asked, 2 the lab or the
command line is wrong, 4 a host does not meet its contract, 130 interrupted.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := a.openLab(lab, args)
			if err != nil {
				return err
			}
			cfg, err := l.planned(c.Context())
			if err != nil {
				return err
			}
			opt, err := a.options(c.Context(), connect)
			if err != nil {
				return err
			}
			all := apply.Check(c.Context(), cfg.Lab.Name, cfg.Hosts, cfg.Engines, opt)
			if asJSON {
				err = a.checkJSON(cfg.Lab.Name, all)
			} else {
				err = a.checkTable(all)
			}
			if err != nil {
				return err
			}
			return checkOutcome(all)
		},
	}
	lab.add(c)
	connect.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// checkTable prints a table for each host, and below it what to do.
func (a *app) checkTable(all []apply.Checked) error {
	for i, h := range all {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		fmt.Fprintf(a.stdout, "%s at %s\n", h.Host, h.Host.Address)
		if h.Err != nil {
			fmt.Fprintln(a.stdout, "  could not be looked at")
			continue
		}
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "  \tCHECK\tHAVE\tWANT")
		for _, f := range h.Findings {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", f.Level, f.Check, f.Have, dash(f.Want))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, f := range h.Findings {
			if f.Advice != "" {
				fmt.Fprintf(a.stdout, "  %s, %s: %s\n", f.Level, f.Check, f.Advice)
			}
		}
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *app) checkJSON(lab string, all []apply.Checked) error {
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
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}

// checkOutcome is the verb's error: hosts that could not be asked weigh more than
// those that are blocked.
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
		return &exit{exitContract, fmt.Errorf("of %s, %d cannot be used as it is", plural(len(all), "host"), blocked)}
	}
	return nil
}
