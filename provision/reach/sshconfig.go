package reach

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
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

const maxHops = 8

const (
	noProxyCommand = "the SSH configuration reaches %s by a ProxyCommand, which hcl does not run; " +
		"use ProxyJump there, or jump in the host block"
	inCircle = "its jump hosts go in a circle: more than %d of them"
	noJump   = "the SSH configuration's ProxyJump %q names no host"
)

// configure fills in, from the files of ssh_config(5), what the host's block does not say. The
// block's address is the name that is looked up. Even "StrictHostKeyChecking no" never lets a
// changed key in.
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
	opt.from.identities = files(said.values("IdentityFile"), expand)
	opt.from.certificates = files(said.values("CertificateFile"), expand)
	opt.from.only = strings.EqualFold(said.one("IdentitiesOnly"), "yes")
	switch strings.ToLower(said.one("StrictHostKeyChecking")) {
	case "accept-new", "no", "off":
		opt.from.acceptNew = true
	case "yes":
		opt.from.neverAsk = true
	}
	return &out, opt, nil
}

func files(words []string, expand *strings.Replacer) (names []string) {
	for _, w := range words {
		if !strings.EqualFold(w, "none") {
			names = append(names, expand.Replace(w))
		}
	}
	return names
}

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

// jumpHosts reads ProxyJump: "[user@]host[:port]", several separated by commas. A host is no jump
// host of its own: that is how "Host *" is usually meant.
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

func (opt SSH) configFiles() []string {
	if opt.Config != nil {
		return opt.Config
	}
	return []string{"~/.ssh/config", "/etc/ssh/ssh_config"}
}

// sshSettings are what files of ssh_config(5) say of one host, as ssh itself would
// take them: `ssh -G` is what they are held against.
//
// A library there is knows no Match but by host, fails at the others in a file that is
// included, and takes included files in any order.
type sshSettings struct {
	alias string                // the name that is looked up
	login string                // what the caller says; "": nothing
	final bool                  // the files are read for the second time
	again bool                  // there is a Match that holds only then
	said  map[string][][]string // by keyword, in small letters: the words of each line that holds for the host, the first before
}

// readSSHFiles reads files, the most important first. One that is not there says nothing.
func readSSHFiles(files []string, alias, login string) (*sshSettings, error) {
	s := &sshSettings{alias: alias, login: login, said: map[string][][]string{}}
	err := s.readAll(files)
	if err == nil && s.again {
		s.final = true
		err = s.readAll(files) // what has been said stays before what is said now
	}
	return s, err
}

func (s *sshSettings) readAll(files []string) error {
	for _, file := range files {
		folder := "~/.ssh" // of what is included by a relative name
		if strings.HasPrefix(file, "/etc/ssh/") {
			folder = "/etc/ssh"
		}
		if err := s.read(file, folder, true, 0); err != nil {
			return err
		}
	}
	return nil
}

// maxIncluded is how deep files may include one another, as in ssh.
const maxIncluded = 16

func (s *sshSettings) read(name, folder string, holds bool, depth int) error {
	file, err := expandHome(name)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the SSH configuration: %w", err)
	}
	if depth > maxIncluded {
		return fmt.Errorf("read the SSH configuration: %s: files include one another too deep", file)
	}
	outer, number := holds, 0
	for line := range strings.Lines(string(text)) {
		number++
		words, err := sshWords(line)
		if err != nil {
			return fmt.Errorf("read the SSH configuration: %s:%d: %w", file, number, err)
		}
		if len(words) == 0 {
			continue
		}
		switch keyword, words := strings.ToLower(words[0]), words[1:]; keyword {
		case "host":
			holds = outer && matchesAny(words, s.alias)
		case "match":
			holds = outer && s.match(words)
		case "include":
			err = s.include(words, folder, holds, depth)
		default:
			other := map[string]string{"proxyjump": "proxycommand", "proxycommand": "proxyjump"}[keyword]
			if holds && len(words) > 0 && s.said[other] == nil { // of these two, the first counts
				s.said[keyword] = append(s.said[keyword], words)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sshSettings) include(patterns []string, folder string, holds bool, depth int) error {
	for _, pattern := range patterns {
		if !path.IsAbs(pattern) && !strings.HasPrefix(pattern, "~/") {
			pattern = folder + "/" + pattern
		}
		pattern, err := expandHome(pattern)
		if err != nil {
			return err
		}
		files, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("read the SSH configuration: Include %s: %w", pattern, err)
		}
		for _, file := range files { // sorted
			if err := s.read(file, folder, holds, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// match reports whether the criteria of a Match line hold. One that has to be tried
// out, such as exec, or is not known, never does.
func (s *sshSettings) match(words []string) bool {
	for len(words) > 0 {
		criterion, not := strings.CutPrefix(words[0], "!")
		words = words[1:]
		switch strings.ToLower(criterion) {
		case "all":
			if not {
				return false
			}
			continue
		case "final", "canonical":
			s.again = s.again || strings.EqualFold(criterion, "final")
			if s.final == not {
				return false
			}
			continue
		}
		criterion, patterns, joined := strings.Cut(criterion, "=")
		if !joined {
			if len(words) == 0 {
				return false
			}
			patterns, words = words[0], words[1:]
		}
		of, known := map[string]string{
			"host": s.hostName(), "originalhost": s.alias, "user": s.user(), "localuser": localUser(),
		}[strings.ToLower(criterion)]
		if !known || matchesAny(strings.Split(patterns, ","), of) == not {
			return false
		}
	}
	return true
}

// matchesAny reports whether a name fits one of the patterns and none with a "!".
func matchesAny(patterns []string, name string) bool {
	found := false
	for _, pattern := range patterns {
		pattern, not := strings.CutPrefix(pattern, "!")
		// Brackets mean nothing in such patterns, and a "*" takes slashes too.
		escaped := strings.NewReplacer(`\`, `\\`, "[", `\[`, "/", "\x00").Replace(pattern)
		fits, err := path.Match(escaped, strings.ReplaceAll(name, "/", "\x00"))
		if err == nil && fits {
			if not {
				return false
			}
			found = true
		}
	}
	return found
}

// one is the first word of the first line with a keyword, which is the one that counts.
func (s *sshSettings) one(keyword string) string {
	if lines := s.said[strings.ToLower(keyword)]; len(lines) > 0 {
		return lines[0][0]
	}
	return ""
}

// values are the first words of all lines with a keyword that may come more than once.
func (s *sshSettings) values(keyword string) []string {
	var words []string
	for _, line := range s.said[strings.ToLower(keyword)] {
		if !slices.Contains(words, line[0]) {
			words = append(words, line[0])
		}
	}
	return words
}

// hostName is the host's real name, as far as has been read.
func (s *sshSettings) hostName() string {
	return strings.NewReplacer("%%", "%", "%h", s.alias).Replace(cmp.Or(s.one("HostName"), "%h"))
}

// user is the login, as far as has been read.
func (s *sshSettings) user() string { return cmp.Or(s.login, s.one("User"), localUser()) }

func localUser() string {
	if me, err := user.Current(); err == nil {
		return me.Username
	}
	return ""
}

// sshWords are the words of a line: a keyword and its arguments, with an equals sign
// between if one likes. Words with blanks stand in quotes, and a "#" begins a comment.
func sshWords(line string) ([]string, error) {
	line = strings.TrimSpace(line)
	end := strings.IndexAny(line, " \t=\"")
	if line == "" || line[0] == '#' {
		return nil, nil
	}
	if end < 0 {
		return []string{line}, nil
	}
	words, rest := []string{line[:end]}, strings.TrimLeft(line[end:], " \t")
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "="), " \t")
	for rest != "" && rest[0] != '#' {
		var word strings.Builder
		i, quoted := 0, byte(0)
		for ; i < len(rest) && (quoted != 0 || rest[i] != ' ' && rest[i] != '\t'); i++ {
			switch c := rest[i]; {
			case c == '\\' && i+1 < len(rest) && (strings.IndexByte(`"'\`, rest[i+1]) >= 0 || quoted == 0 && rest[i+1] == ' '):
				i++
				word.WriteByte(rest[i])
			case quoted == 0 && (c == '"' || c == '\''):
				quoted = c
			case quoted != 0 && c == quoted:
				quoted = 0
			default:
				word.WriteByte(c)
			}
		}
		if quoted != 0 {
			return nil, errors.New("a quote has no end")
		}
		words, rest = append(words, word.String()), strings.TrimLeft(rest[i:], " \t")
	}
	return words, nil
}
