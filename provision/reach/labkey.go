package reach

import (
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"hclbench/provision"
)

// LabKeyFile is the private key that rented boxes let in: the host block's, or one in dir.
func LabKeyFile(h *provision.Host, dir string) string {
	if h.IdentityFile != "" {
		return h.IdentityFile
	}
	return filepath.Join(dir, "id_ed25519")
}

// LabKey returns the public half of [LabKeyFile], as a line of authorized_keys. A key in dir is made where there is none.
func LabKey(h *provision.Host, dir string) (line string, err error) {
	file, err := expandHome(LabKeyFile(h, dir))
	if err != nil {
		return "", err
	}
	if h.IdentityFile == "" {
		if line, err = publicHalf(h, file); !errors.Is(err, fs.ErrNotExist) {
			return line, err
		}
	} else if text, err := os.ReadFile(file + ".pub"); err == nil {
		key, _, _, _, err := ssh.ParseAuthorizedKey(text)
		if err != nil {
			return "", fmt.Errorf("%s: %s.pub is no public key: %w", h, file, err)
		}
		return authorizedKey(key), nil
	} else {
		return "", fmt.Errorf("%s: the public half of its identity_file is what the box has to let in: %w", h, err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	block, err := ssh.MarshalPrivateKey(private, "hcl")
	if err != nil {
		return "", err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	own, err := os.MkdirTemp(dir, "key-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(own)
	made := filepath.Join(own, "key")
	if err := errors.Join(os.WriteFile(made, pem.EncodeToMemory(block), 0o600), os.Link(made, file)); errors.Is(err, fs.ErrExist) {
		return publicHalf(h, file) // of two hosts that are rented at once the first has made it
	} else if err != nil {
		return "", err
	}
	return authorizedKey(key), nil
}

func publicHalf(h *provision.Host, file string) (line string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return "", fmt.Errorf("%s: %s is no private key: %w", h, file, err)
	}
	return authorizedKey(signer.PublicKey()), nil
}
