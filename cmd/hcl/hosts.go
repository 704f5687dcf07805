package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

type hostFlags struct {
	labFlags
	acceptNew bool
}

// addAccept adds all but those of the lab.
func (f *hostFlags) addAccept(c *cobra.Command) {
	c.Flags().BoolVar(&f.acceptNew, "accept-new-host-keys", false,
		"add the key of a host that is not known yet to ~/.ssh/known_hosts; a changed key is always refused")
}

// reach opens the lab, with what the rooms below need to reach its hosts.
func (f hostFlags) reach(ctx context.Context, t *console) (*lab, apply.Options, error) {
	l, err := f.open(t)
	if err != nil {
		return nil, apply.Options{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, apply.Options{}, fmt.Errorf("find the hcl binary: %w", err)
	}
	binaries, err := agent.ReadBinaries(self)
	if err != nil {
		return nil, apply.Options{}, err
	}
	images, err := registries()
	if err != nil {
		return nil, apply.Options{}, err
	}
	return l, apply.Options{
		Binaries: binaries,
		Images:   images,
		Hub:      modelHub(),
		Log:      t.connections(),
		Holder:   holder(),
		SSH: reach.SSH{
			AcceptNew:  func(h *provision.Host, fingerprint string) bool { return f.accepts(ctx, t, h, fingerprint) },
			Passphrase: func(file string) (string, error) { return t.passphrase(ctx, file) },
		},
	}, nil
}

const unknownKey = `The key of %s at %s is not known:

    %s

Is it the right one, to be added to known_hosts?`

// accepts says whether the key of a host that is not known yet is accepted: by the flag,
// or by the person at the terminal.
func (f hostFlags) accepts(ctx context.Context, t *console, h *provision.Host, fingerprint string) bool {
	if f.acceptNew {
		defer t.questions.alone()()
		t.logger().Warn("accepting a new host key", "host", h.Name, "address", h.Address, "fingerprint", fingerprint)
		return true
	}
	if !terminal(t.in) || !terminal(t.stderr) {
		return false
	}
	yes, err := t.ask(ctx, fmt.Sprintf(unknownKey, h, h.Address, fingerprint))
	return yes && err == nil
}

func (l *lab) scope() apply.Scope {
	return apply.Scope{Lab: l.text.Lab.Name, Hosts: l.text.Hosts, Engines: l.text.Engines}
}

func registries() (*origin.Registries, error) {
	config := os.Getenv("DOCKER_CONFIG")
	if config == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("find Docker's config.json: %w", err)
		}
		config = filepath.Join(home, ".docker")
	}
	return &origin.Registries{Client: origin.Client{UserAgent: userAgent()}, Logins: origin.LocalLogins(config)}, nil
}

// modelHub is the model hub as this machine's environment has it, under the names of Hugging Face's own tools.
func modelHub() origin.Hub {
	return origin.Hub{Client: origin.Client{UserAgent: userAgent()}, URL: os.Getenv("HF_ENDPOINT"), Token: os.Getenv("HF_TOKEN")}
}

func userAgent() string { return "hcl/" + version }

// holder says who holds a lease: "ada@laptop, pid 4711".
func holder() string {
	name, machine := "somebody", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		machine = host
	}
	return fmt.Sprintf("%s@%s, pid %d", name, machine, os.Getpid())
}

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
func checkOutcome(all []apply.Checked) (err error) {
	blocked := 0
	for _, c := range all {
		err = errors.Join(err, c.Err)
		if c.Err == nil && provision.Worst(c.Findings) == provision.Blocked {
			blocked++
		}
	}
	if err == nil && blocked > 0 {
		err = &exit{exitContract, fmt.Errorf("of %s, %d cannot be used as it is", plain.Count(len(all), "host"), blocked)}
	}
	return err
}
