package reach

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"hclbench/plain"
	"hclbench/provision"
)

const (
	noKey = `host_key is not a public key such as "ssh-ed25519 AAAA…" (%w): ` +
		"take it from the host's /etc/ssh/ssh_host_ed25519_key.pub"
	otherKey = "the host presents the key %s, host_key is %s: this is another machine, or it was set up anew; " +
		"when you know that it was, put its new key into the host block"
	newKey = "the host key of %s is not known: %s (%s). Compare it with what the provider shows, " +
		"or on the host with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`; " +
		"then accept it with --accept-new-host-keys, or write host_key = %q into the host block"
	hasChanged = "the host key of %s has changed: %s:%d has %s, the host presents %s. " +
		"Somebody may be between you and the host, or it was set up anew; " +
		"when you know that it was, forget the old key with `ssh-keygen -f %s -R %s`"
)

type hostKeys struct {
	check      ssh.HostKeyCallback
	algorithms []string // which types of key to ask for, the most wanted first
	expects    string   // what knows the host, in words; "" when nothing does
}

// newHostKeys prepares the check for one handshake with h at addr. The files
// are read anew each time: an answer given for one host may be in them by now.
func newHostKeys(h *provision.Host, addr string, opt SSH, asking func() (done func())) (*hostKeys, error) {
	if h.HostKey != "" {
		return pinnedHostKey(h)
	}
	files, err := knownHostsFiles(opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h, err)
	}
	var there []string
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			there = append(there, f)
		}
	}
	db, err := knownhosts.NewDB(there...)
	if err != nil {
		return nil, fmt.Errorf("%s: read known hosts: %w", h, err)
	}
	check := func(address string, remote net.Addr, key ssh.PublicKey) error {
		err := db.HostKeyCallback()(address, remote, key)
		var mismatch *xknownhosts.KeyError
		var revoked *xknownhosts.RevokedError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &revoked):
			return provision.Fail(h, provision.ErrHostKey, "its host key %s is marked as revoked in %s:%d",
				describeKey(key), revoked.Revoked.Filename, revoked.Revoked.Line)
		case errors.As(err, &mismatch) && len(mismatch.Want) > 0:
			return changedKey(h, address, key, mismatch.Want)
		case errors.As(err, &mismatch):
			return unknownKey(h, address, key, files, opt, asking)
		default:
			return fmt.Errorf("%s: check host key: %w", h, err)
		}
	}
	// Without this a host with several keys may present one of another type than
	// the file has, which would look like a changed key.
	algorithms, expects := db.HostKeyAlgorithms(addr), strings.Join(there, " and ")
	if len(algorithms) == 0 {
		expects = ""
		algorithms = []string{
			ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
			ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
		}
	}
	return &hostKeys{check: check, algorithms: algorithms, expects: expects}, nil
}

func knownHostsFiles(opt SSH) ([]string, error) {
	files := slices.Clone(opt.KnownHosts)
	if files == nil {
		files = []string{"~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"}
	}
	for i, f := range files {
		var err error
		if files[i], err = expandHome(f); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func pinnedHostKey(h *provision.Host) (*hostKeys, error) {
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil {
		return nil, provision.Fail(h, provision.ErrHostKey, noKey, err)
	}
	algorithms := []string{want.Type()}
	if want.Type() == ssh.KeyAlgoRSA {
		algorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	check := func(_ string, _ net.Addr, got ssh.PublicKey) error {
		if bytes.Equal(got.Marshal(), want.Marshal()) {
			return nil
		}
		return provision.Fail(h, provision.ErrHostKey, otherKey, describeKey(got), describeKey(want))
	}
	return &hostKeys{check: check, algorithms: algorithms, expects: "host_key"}, nil
}

// unknownKey asks about a host that no file knows, and remembers a yes.
func unknownKey(
	h *provision.Host, address string, key ssh.PublicKey, files []string, opt SSH, asking func() func(),
) error {
	switch {
	case opt.from.acceptNew:
		opt.from.log.Warn("accepting a new host key, as the SSH configuration says",
			"address", address, "key", describeKey(key))
	case opt.from.neverAsk || opt.AcceptNew == nil || !ask(h, key, opt, asking):
		looked := "no known_hosts file was given"
		if len(files) > 0 {
			looked = "looked in " + strings.Join(files, " and ")
		}
		return provision.Fail(h, provision.ErrHostKeyUnknown, newKey,
			address, describeKey(key), looked, authorizedKey(key))
	}
	if len(files) == 0 {
		return nil // accepted, with no place to remember it
	}
	if err := appendKnownHost(files[0], address, key); err != nil {
		return fmt.Errorf("%s: remember the host key: %w", h, err)
	}
	return nil
}

func ask(h *provision.Host, key ssh.PublicKey, opt SSH, asking func() func()) bool {
	defer asking()()
	return opt.AcceptNew(h, ssh.FingerprintSHA256(key))
}

// changedKey is the refusal that nothing overrides.
func changedKey(h *provision.Host, address string, got ssh.PublicKey, want []xknownhosts.KnownKey) error {
	i := slices.IndexFunc(want, func(w xknownhosts.KnownKey) bool { return w.Key.Type() == got.Type() })
	old := want[max(i, 0)]
	return provision.Fail(h, provision.ErrHostKey, hasChanged,
		address, old.Filename, old.Line, describeKey(old.Key), describeKey(got),
		plain.Quote(old.Filename), plain.Quote(knownhosts.Normalize(address)))
}

// appendKnownHost adds a line. It has the name that was dialled and not the address behind it:
// rented machines follow one another on the same address.
func appendKnownHost(file, address string, key ssh.PublicKey) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	line := knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n"
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

func describeKey(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

func authorizedKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}
