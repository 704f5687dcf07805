package reach

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"hclbench/provision"
)

// usualKeys are offered when nobody names one, in OpenSSH's order.
var usualKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

// keyring is what one handshake may offer, and the story of how it came about.
type keyring struct {
	signers []ssh.Signer
	tried   []string // in words, one per source
	agent   net.Conn // nil when none answers
}

// close lets go of the agent; signers of the agent work no more after it.
func (k *keyring) close() {
	if k.agent != nil {
		k.agent.Close()
	}
}

func (k *keyring) note(format string, args ...any) {
	k.tried = append(k.tried, fmt.Sprintf(format, args...))
}

// openKeyring gathers keys: the host's identity file and no other, or else the agent's keys and the
// usual files. Only a named file that cannot be used is an error. asking is called around questions.
func openKeyring(ctx context.Context, h *provision.Host, opt SSH, asking func() (done func())) (*keyring, error) {
	k := new(keyring)
	agentKeys := k.askAgent(ctx)
	if h.IdentityFile != "" {
		file, err := expandHome(h.IdentityFile)
		if err != nil {
			return k, err
		}
		signer, err := readKey(file, opt.Passphrase, agentKeys, asking)
		if err != nil {
			return k, provision.Fail(h, provision.ErrAuth, "identity_file %s: %w", h.IdentityFile, err)
		}
		k.signers, k.tried = withCertificates(file, signer, nil), nil
		k.note("identity_file %s (%s)", h.IdentityFile, ssh.FingerprintSHA256(signer.PublicKey()))
		return k, nil
	}
	files := opt.from.identities
	if len(files) == 0 {
		k.signers = append(k.signers, agentKeys...)
		for _, name := range usualKeys {
			files = append(files, "~/.ssh/"+name)
		}
	} else if !opt.from.only {
		// Behind those that the configuration names: hosts try only a few.
		defer func() { k.signers = append(k.signers, slices.DeleteFunc(slices.Clone(agentKeys), k.has)...) }()
	}
	for _, name := range files {
		file, err := expandHome(name)
		if err != nil {
			return k, err
		}
		switch signer, err := readKey(file, opt.Passphrase, agentKeys, asking); {
		case errors.Is(err, os.ErrNotExist):
			k.note("%s is not there", file)
		case err != nil:
			k.note("%s not used: %v", file, err)
		case k.has(signer):
			k.note("%s is in the agent", file)
		default:
			k.signers = append(k.signers, withCertificates(file, signer, opt.from.certificates)...)
			k.note("%s (%s)", file, ssh.FingerprintSHA256(signer.PublicKey()))
		}
	}
	return k, nil
}

func (k *keyring) has(signer ssh.Signer) bool { return find(k.signers, signer.PublicKey()) != nil }

// withCertificates returns a key, and before it the key with each certificate for
// it: FILE-cert.pub beside the file, and those of the configuration.
func withCertificates(file string, signer ssh.Signer, configured []string) []ssh.Signer {
	var all []ssh.Signer
	for _, name := range append([]string{file + "-cert.pub"}, configured...) {
		name, err := expandHome(name)
		var text []byte
		if err == nil {
			text, _ = os.ReadFile(name) // most keys have none
		}
		public, _, _, _, _ := ssh.ParseAuthorizedKey(text)
		if certificate, ok := public.(*ssh.Certificate); ok {
			// An error says that it is for another key.
			if certified, err := ssh.NewCertSigner(certificate, signer); err == nil {
				all = append(all, certified)
			}
		}
	}
	return append(all, signer)
}

func find(signers []ssh.Signer, key ssh.PublicKey) ssh.Signer {
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), key.Marshal()) {
			return s
		}
	}
	return nil
}

// askAgent returns the agent's keys. One that does not answer is no error: there may be files.
func (k *keyring) askAgent(ctx context.Context) []ssh.Signer {
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		k.note("no SSH agent (SSH_AUTH_SOCK is not set)")
		return nil
	}
	var signers []ssh.Signer
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err == nil {
		k.agent = conn
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		_ = conn.SetDeadline(time.Now().Add(agentWithin)) // fails when it is closed, as what follows does
		signers, err = agent.NewClient(conn).Signers()
		_ = conn.SetDeadline(time.Now().Add(signWithin))
	}
	if err != nil {
		k.note("the SSH agent does not answer: %v", err)
		return nil
	}
	k.note("keys of the SSH agent: %d", len(signers))
	return signers
}

// readKey reads a private key file. An encrypted one is signed for by the agent if it is there; any
// other is asked a passphrase for, once, and only when the host wants a signature of it.
func readKey(
	file string, passphrase func(string) (string, error), agentKeys []ssh.Signer, asking func() func(),
) (ssh.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	if !errors.As(err, &locked) {
		if err != nil {
			return nil, fmt.Errorf("not a private key that hcl can read: %w", err)
		}
		return signer, nil
	}
	if locked.PublicKey != nil {
		if s := find(agentKeys, locked.PublicKey); s != nil {
			return s, nil
		}
	}
	if passphrase == nil {
		return nil, errors.New("the key is encrypted and nobody can be asked for its passphrase: " +
			"add it to the SSH agent with ssh-add")
	}
	unlock := sync.OnceValues(func() (ssh.Signer, error) {
		defer asking()()
		words, err := passphrase(file)
		if err != nil {
			return nil, fmt.Errorf("passphrase of %s: %w", file, err)
		}
		s, err := ssh.ParsePrivateKeyWithPassphrase(text, []byte(words))
		if err != nil {
			return nil, fmt.Errorf("decrypt %s: %w", file, err)
		}
		return s, nil
	})
	if locked.PublicKey == nil {
		return unlock() // an old PEM file does not say which key it holds
	}
	return &lockedKey{public: locked.PublicKey, unlock: unlock}, nil
}

type lockedKey struct {
	public ssh.PublicKey
	unlock func() (ssh.Signer, error)
}

func (k *lockedKey) PublicKey() ssh.PublicKey { return k.public }

func (k *lockedKey) Sign(r io.Reader, data []byte) (*ssh.Signature, error) {
	return k.SignWithAlgorithm(r, data, "")
}

func (k *lockedKey) SignWithAlgorithm(r io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	signer, err := k.unlock()
	if err != nil {
		return nil, &keyError{err}
	}
	if s, ok := signer.(ssh.AlgorithmSigner); ok && algorithm != "" {
		return s.SignWithAlgorithm(r, data, algorithm)
	}
	return signer.Sign(rand.Reader, data)
}

// keyError tells a key that could not be opened from a host that refused it.
type keyError struct{ error }

func (e *keyError) Unwrap() error { return e.error }

func expandHome(file string) (string, error) {
	rest, ok := strings.CutPrefix(file, "~/")
	if !ok {
		return file, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, rest), err
}
