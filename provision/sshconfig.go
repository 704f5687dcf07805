package provision

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strings"

	"github.com/kevinburke/ssh_config"
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
func configure(h *Host, opt SSH) (*Host, SSH, error) {
	var files []*ssh_config.Config
	for _, name := range opt.configFiles() {
		path, err := expandHome(name)
		if err != nil {
			return nil, opt, err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, opt, fmt.Errorf("%s: read the SSH configuration: %w", h, err)
		}
		file, err := ssh_config.Decode(strings.NewReader(withoutMatches(string(text))))
		if err != nil {
			return nil, opt, fmt.Errorf("%s: read the SSH configuration %s: %w", h, path, err)
		}
		files = append(files, file)
	}
	alias, port, err := net.SplitHostPort(h.Address)
	if err != nil {
		alias, port = strings.Trim(h.Address, "[]"), ""
	}
	// All values of a keyword, of the first file that has it.
	all := func(keyword string) []string {
		for _, f := range files {
			if values, err := f.GetAll(alias, keyword); err == nil && len(values) > 0 {
				return values
			}
		}
		return nil
	}
	one := func(keyword string) string {
		if values := all(keyword); len(values) > 0 {
			return strings.Trim(strings.TrimSpace(values[0]), `"`)
		}
		return ""
	}

	out := *h
	name := alias
	if said := one("HostName"); said != "" {
		name = strings.NewReplacer("%%", "%", "%h", alias).Replace(said)
	}
	if port == "" {
		port = one("Port")
	}
	if port == "" {
		port = "22"
	}
	out.Address = net.JoinHostPort(name, port)
	if out.User == "" {
		out.User = one("User")
	}
	expand := func(file string) string {
		me := ""
		if u, err := user.Current(); err == nil {
			me = u.Username
		}
		remote := out.User
		if remote == "" {
			remote = me
		}
		home, err := os.UserHomeDir()
		if err != nil {
			home = "~"
		}
		return strings.NewReplacer("%%", "%", "%d", home, "%h", name, "%n", alias, "%p", port, "%r", remote, "%u", me).Replace(strings.Trim(file, `"`))
	}
	for _, f := range all("IdentityFile") {
		if !strings.EqualFold(f, "none") {
			opt.from.identities = append(opt.from.identities, expand(f))
		}
	}
	for _, f := range all("CertificateFile") {
		opt.from.certificates = append(opt.from.certificates, expand(f))
	}
	opt.from.only = strings.EqualFold(one("IdentitiesOnly"), "yes")
	switch strings.ToLower(one("StrictHostKeyChecking")) {
	case "accept-new", "no", "off":
		opt.from.acceptNew = true
	case "yes":
		opt.from.neverAsk = true
	}
	if known := one("UserKnownHostsFile"); known != "" && opt.KnownHosts == nil {
		opt.KnownHosts = []string{}
		for _, f := range strings.Fields(known) {
			if !strings.EqualFold(f, "none") {
				opt.KnownHosts = append(opt.KnownHosts, expand(f))
			}
		}
	}
	if out.Jump == nil {
		jump := one("ProxyJump")
		if out.Jump, err = jumpHosts(h, jump, alias, name); err != nil {
			return nil, opt, err
		}
		if command := one("ProxyCommand"); jump == "" && command != "" && !strings.EqualFold(command, "none") {
			return nil, opt, fail(h, ErrUnreachable, "the SSH configuration reaches %s by a ProxyCommand, which hcl does not run; use ProxyJump there, or jump in the host block", alias)
		}
	}
	if out.Jump != nil {
		if opt.from.hops++; opt.from.hops > maxHops {
			return nil, opt, fail(h, ErrUnreachable, "its jump hosts go in a circle: more than %d of them", maxHops)
		}
	}
	return &out, opt, nil
}

// withoutMatches blanks out the Match blocks whose criteria have to be tried out,
// such as exec, which the library refuses.
func withoutMatches(text string) string {
	var out strings.Builder
	skip := false
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.ToLower(strings.Replace(line, "=", " ", 1)))
		if len(words) > 0 && (words[0] == "host" || words[0] == "match") {
			skip = words[0] == "match" && (len(words) < 2 || words[1] != "all" && words[1] != "host" && words[1] != "originalhost" || len(words) > 3)
		}
		if skip {
			line = "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// jumpHosts reads ProxyJump: "[user@]host[:port]", several separated by commas in
// the order in which they are gone through. A host is no jump host of its own:
// that is how "Host *" is usually meant.
func jumpHosts(h *Host, text, alias, name string) (*Host, error) {
	var last *Host
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
			return nil, fail(h, ErrUnreachable, "the SSH configuration's ProxyJump %q names no host", text)
		}
		if host == alias || host == name {
			return last, nil
		}
		last = &Host{Name: host, Address: address, User: login, Jump: last, Pos: h.Pos}
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
