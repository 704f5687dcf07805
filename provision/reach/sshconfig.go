package reach

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"hclbench/provision"
)

// configured is what the user's SSH configuration says of a host, beside what its block says.
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

// What is wrong with jump hosts of the configuration.
const (
	noProxyCommand = "the SSH configuration reaches %s by a ProxyCommand, which hcl does not run; " +
		"use ProxyJump there, or jump in the host block"
	inCircle = "its jump hosts go in a circle: more than %d of them"
	noJump   = "the SSH configuration's ProxyJump %q names no host"
)

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
	port = cmp.Or(port, said.one("Port"), "22")
	out.Address = net.JoinHostPort(said.hostName(), port)
	out.User = cmp.Or(out.User, said.one("User"))
	if out.Jump == nil {
		if out.Jump, err = said.jump(h); err != nil {
			return nil, opt, err
		}
	}
	if out.Jump != nil {
		if opt.from.hops++; opt.from.hops > maxHops {
			return nil, opt, provision.Fail(h, provision.ErrUnreachable, inCircle, maxHops)
		}
	}
	expand := said.expander(port)
	if known := said.said["userknownhostsfile"]; len(known) > 0 && opt.KnownHosts == nil {
		opt.KnownHosts = append([]string{}, files(known[0], expand)...)
	}
	opt.from.identities = files(said.all("IdentityFile"), expand)
	opt.from.certificates = files(said.all("CertificateFile"), expand)
	opt.from.only = strings.EqualFold(said.one("IdentitiesOnly"), "yes")
	switch strings.ToLower(said.one("StrictHostKeyChecking")) {
	case "accept-new", "no", "off":
		opt.from.acceptNew = true
	case "yes":
		opt.from.neverAsk = true
	}
	return &out, opt, nil
}

// files are the names of files that the configuration says; "none" is no file.
func files(words []string, expand *strings.Replacer) (names []string) {
	for _, w := range words {
		if !strings.EqualFold(w, "none") {
			names = append(names, expand.Replace(w))
		}
	}
	return names
}

// expander puts in what "%h" and the like stand for.
func (s *sshSettings) expander(port string) *strings.Replacer {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "~"
	}
	return strings.NewReplacer("%%", "%", "%d", home, "%h", s.hostName(), "%n", s.alias, "%p", port,
		"%r", s.user(), "%u", localUser())
}

func (s *sshSettings) jump(h *provision.Host) (*provision.Host, error) {
	if lines := s.said["proxyjump"]; len(lines) > 0 {
		return jumpHosts(h, strings.Join(lines[0], " "), s.alias, s.hostName())
	}
	if command := s.one("ProxyCommand"); command != "" && !strings.EqualFold(command, "none") {
		return nil, provision.Fail(h, provision.ErrUnreachable, noProxyCommand, s.alias)
	}
	return nil, nil
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
			return nil, provision.Fail(h, provision.ErrUnreachable, noJump, text)
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
