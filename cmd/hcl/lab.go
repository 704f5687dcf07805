package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/origin"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/results"
)

// connectFlags are the flags of every verb that reaches hosts.
type connectFlags struct{ acceptNew bool }

func (f *connectFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.acceptNew, "accept-new-host-keys", false, "add the key of a host that is not known yet to ~/.ssh/known_hosts; a changed key is always refused")
}

// options is what the rooms below need to reach hosts.
func (a *app) options(ctx context.Context, f connectFlags) (apply.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return apply.Options{}, fmt.Errorf("find the hcl binary: %w", err)
	}
	binaries, err := agent.ReadBinaries(self)
	if err != nil {
		return apply.Options{}, err
	}
	images, err := registries()
	if err != nil {
		return apply.Options{}, err
	}
	l := a.logger()
	return apply.Options{
		Binaries: binaries,
		Images:   images,
		Hub:      modelHub(),
		Log:      a.connections(),
		Holder:   holder(),
		SSH: reach.SSH{
			AcceptNew: func(h *provision.Host, fingerprint string) bool {
				if f.acceptNew {
					defer a.questions.alone()()
					l.Warn("accepting a new host key", "host", h.Name, "address", h.Address, "fingerprint", fingerprint)
					return true
				}
				if !terminal(a.in) || !terminal(a.stderr) {
					return false
				}
				yes, err := a.ask(ctx, fmt.Sprintf("The key of %s at %s is not known:\n\n    %s\n\nIs it the right one, to be added to known_hosts?", h, h.Address, fingerprint))
				return yes && err == nil
			},
			Passphrase: func(file string) (string, error) { return a.passphrase(ctx, file) },
		},
	}, nil
}

// registries are asked with the logins of this machine.
func registries() (*origin.Registries, error) {
	config := os.Getenv("DOCKER_CONFIG")
	if config == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("find Docker's config.json: %w", err)
		}
		config = filepath.Join(home, ".docker")
	}
	return &origin.Registries{
		Client: origin.Client{UserAgent: userAgent()},
		Logins: origin.LocalLogins(config),
	}, nil
}

// modelHub is the model hub as this machine's environment has it, under the names
// of Hugging Face's own tools.
func modelHub() origin.Hub {
	return origin.Hub{Client: origin.Client{UserAgent: userAgent()}, URL: os.Getenv("HF_ENDPOINT"), Token: os.Getenv("HF_TOKEN")}
}

// userAgent is what other people's servers are told.
func userAgent() string { return "hcl/" + version }

// holder says who holds a lease: "ada@laptop, pid 4711".
func holder() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s@%s, pid %d", name, host, os.Getpid())
}

// againFlags say what is measured again although there is a measurement.
type againFlags struct{ rerun, strictFacts bool }

func (f *againFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.rerun, "rerun", false, "measure again what is up to date")
	c.Flags().BoolVar(&f.strictFacts, "strict-facts", false, "measure again what was measured on a host that is no longer as it was: another driver, machine, setting")
}

// options are what a plan has to know of earlier measurements; there may be no store yet.
func (f againFlags) options(ctx context.Context, store *results.Store) (opt plan.Options, err error) {
	opt = plan.Options{Rerun: f.rerun, StrictFacts: f.strictFacts}
	if store == nil {
		return opt, nil
	}
	if opt.Known, err = store.Known(ctx); err != nil {
		return opt, err
	}
	opt.Seen, err = store.Seen(ctx)
	return opt, err
}

// newRun is the row of a run that begins now.
func newRun(lab, command string) results.Run {
	now := time.Now()
	return results.Run{ID: results.NewRunID(now), Lab: lab, Command: command, Version: version, Started: now}
}

// leaves are the errors that errors.Join has joined: those whose text is that of their
// parts, line by line. One with a sentence of its own is a whole.
func leaves(err error) (all []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || err.Error() != errors.Join(joined.Unwrap()...).Error() {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// brief is err without what was shown when it happened: of hosts that failed
// only the names are left.
func brief(err error) error {
	var hosts []string
	var rest []error
	for _, e := range leaves(err) {
		if h, ok := e.(*apply.HostError); ok {
			hosts = append(hosts, h.Host)
		} else {
			rest = append(rest, e)
		}
	}
	if len(hosts) > 0 {
		rest = append(rest, fmt.Errorf("the work on host %s ended early; the reason stands above", strings.Join(hosts, ", ")))
	}
	return errors.Join(rest...)
}

// unclean is what of an interrupted run's error is not the interruption itself.
func unclean(err error) error {
	var left []error
	for _, e := range leaves(err) {
		if h, ok := e.(*apply.HostError); ok {
			left = append(left, unclean(h.Err))
		} else if !errors.Is(e, context.Canceled) {
			left = append(left, e)
		}
	}
	return errors.Join(left...)
}

// outcome turns what a run did into the verb's error.
func outcome(p *plan.Plan, o apply.Outcome, err error) error {
	switch {
	case errors.As(err, new(*provision.UncleanError)):
		return &exit{exitUnclean, brief(err)}
	case errors.Is(err, apply.ErrContract):
		return &exit{exitContract, brief(err)}
	case err != nil:
		return brief(err)
	case o.Planned > 0 && o.Void == o.Planned:
		return &exit{exitFailed, errors.New("no cell could be measured")}
	case o.Void > 0 || o.Suspect > 0 && !p.Rehearsal:
		var doubts []string
		if o.Suspect > 0 {
			doubts = append(doubts, fmt.Sprintf("%d suspect", o.Suspect))
		}
		if o.Void > 0 {
			doubts = append(doubts, fmt.Sprintf("%d without a measurement", o.Void))
		}
		return &exit{exitCells, fmt.Errorf("of the %s, %s", plural(o.Planned, "cell"), strings.Join(doubts, " and "))}
	}
	return nil
}
