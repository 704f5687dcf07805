package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"github.com/charmbracelet/log"
	"github.com/spf13/cobra"

	"hclbench/agent"
	"hclbench/apply/place"
	"hclbench/origin"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/provision/rent"
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

// reach opens the lab, with what the rooms below need to reach its hosts. What its text is warned of
// is for those to say who plan.
func (f hostFlags) reach(ctx context.Context, t *console) (*lab, place.Options, error) {
	l, err := f.read(t)
	if err == nil && l.text == nil {
		err = l.shown(t)
	}
	if err != nil {
		return nil, place.Options{}, err
	}
	opt, err := f.options(ctx, t)
	return l, opt, err
}

// options is what the rooms below need to reach hosts.
func (f hostFlags) options(ctx context.Context, t *console) (place.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return place.Options{}, fmt.Errorf("find the hcl binary: %w", err)
	}
	binaries, err := agent.ReadBinaries(self)
	if err != nil {
		return place.Options{}, err
	}
	images, err := registries()
	if err != nil {
		return place.Options{}, err
	}
	return place.Options{
		Rent:     rent.NewJournal(rentDir(f.dir())),
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
		defer t.questions.undrawn()()
		t.logger().Warn("accepting a new host key", "host", h.Name, "address", h.Address, "fingerprint", fingerprint)
		return true
	}
	if !terminal(t.in) || !terminal(t.stderr) {
		return false
	}
	yes, err := t.ask(ctx, fmt.Sprintf(unknownKey, h, h.Address, fingerprint))
	return yes && err == nil
}

func (l *lab) scope() place.Scope {
	return place.Scope{Lab: l.text.Lab.Name, Hosts: l.text.Hosts, Engines: l.text.Engines}
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

// tellPlace logs what happens at places, but for how far it is.
func tellPlace(to *log.Logger) place.Tell {
	return func(e place.Event) {
		switch {
		case e.Type == place.Warning:
			to.Warn(e.Message, "host", e.Host)
		case e.Message != "":
			to.Info(e.Message, "host", e.Host)
		}
	}
}
