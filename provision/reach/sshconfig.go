package reach

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"hclbench/provision"
)

// configured is what the user's SSH configuration says of a host, beside what its
// block says.
type configured struct {
	identities   []string // files of private keys; one that is not there is no error
	certificates []string // CertificateFile
	only         bool     // IdentitiesOnly: nothing of the agent but these
	acceptNew    bool     // StrictHostKeyChecking is accept-new, or no
	neverAsk     bool     // StrictHostKeyChecking is yes
	log          *slog.Logger
	hops         int // jump hosts that were gone through to this one
}

// maxHops bounds a chain of jump hosts that a configuration makes.
const maxHops = 8

// configure fills in, from the files of ssh_config(5), what the host's block does
// not say: HostName, Port, User, IdentityFile, CertificateFile, IdentitiesOnly,
// ProxyJump, UserKnownHostsFile and StrictHostKeyChecking. The block's address is
// the name that is looked up. Even "StrictHostKeyChecking no" never lets a changed
// key in.
func configure(h *provision.Host, opt SSH) (*provision.Host, SSH, error) {
	alias, port, err := net.SplitHostPort(h.Address)
	if err != nil {
		alias, port = strings.Trim(h.Address, "[]"), ""
	}
	said, err := readSSHFiles(opt.configFiles(), alias, h.User)
	if err != nil {
		return nil, opt, fmt.Errorf("%s: %w", h, err)
	}

	out := *h
	name := said.hostName()
	if port == "" {
		port = said.one("Port")
	}
	if port == "" {
		port = "22"
	}
	out.Address = net.JoinHostPort(name, port)
	if out.User == "" {
		out.User = said.one("User")
	}
	expand := func(file string) string {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "~"
		}
		return strings.NewReplacer("%%", "%", "%d", home, "%h", name, "%n", alias, "%p", port, "%r", said.user(), "%u", localUser()).Replace(file)
	}
	for _, f := range said.all("IdentityFile") {
		if !strings.EqualFold(f, "none") {
			opt.from.identities = append(opt.from.identities, expand(f))
		}
	}
	for _, f := range said.all("CertificateFile") {
		opt.from.certificates = append(opt.from.certificates, expand(f))
	}
	opt.from.only = strings.EqualFold(said.one("IdentitiesOnly"), "yes")
	switch strings.ToLower(said.one("StrictHostKeyChecking")) {
	case "accept-new", "no", "off":
		opt.from.acceptNew = true
	case "yes":
		opt.from.neverAsk = true
	}
	if known := said.said["userknownhostsfile"]; len(known) > 0 && opt.KnownHosts == nil {
		opt.KnownHosts = []string{}
		for _, f := range known[0] {
			if !strings.EqualFold(f, "none") {
				opt.KnownHosts = append(opt.KnownHosts, expand(f))
			}
		}
	}
	if out.Jump == nil {
		var jump string
		if lines := said.said["proxyjump"]; len(lines) > 0 {
			jump = strings.Join(lines[0], " ")
		}
		if out.Jump, err = jumpHosts(h, jump, alias, name); err != nil {
			return nil, opt, err
		}
		if command := said.one("ProxyCommand"); jump == "" && command != "" && !strings.EqualFold(command, "none") {
			return nil, opt, provision.Fail(h, provision.ErrUnreachable, "the SSH configuration reaches %s by a ProxyCommand, which hcl does not run; use ProxyJump there, or jump in the host block", alias)
		}
	}
	if out.Jump != nil {
		if opt.from.hops++; opt.from.hops > maxHops {
			return nil, opt, provision.Fail(h, provision.ErrUnreachable, "its jump hosts go in a circle: more than %d of them", maxHops)
		}
	}
	return &out, opt, nil
}

// jumpHosts reads ProxyJump: "[user@]host[:port]", several separated by commas in
// the order in which they are gone through. A host is no jump host of its own:
// that is how "Host *" is usually meant.
func jumpHosts(h *provision.Host, text, alias, name string) (*provision.Host, error) {
	var last *provision.Host
	if strings.EqualFold(text, "none") {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimPrefix(strings.TrimSpace(part), "ssh://")
		if part == "" {
			continue
		}
		login, address, found := strings.Cut(part, "@")
		if !found {
			login, address = "", part
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = strings.Trim(address, "[]")
		}
		if host == "" {
			return nil, provision.Fail(h, provision.ErrUnreachable, "the SSH configuration's ProxyJump %q names no host", text)
		}
		if host == alias || host == name {
			return last, nil
		}
		last = &provision.Host{Name: host, Address: address, User: login, Jump: last, Pos: h.Pos}
	}
	return last, nil
}

// configFiles are the files of the configuration, the most important first.
func (opt SSH) configFiles() []string {
	if opt.Config != nil {
		return opt.Config
	}
	return []string{"~/.ssh/config", "/etc/ssh/ssh_config"}
}
