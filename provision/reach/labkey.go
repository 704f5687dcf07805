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
	if text, err := os.ReadFile(file + ".pub"); err == nil {
		key, _, _, _, err := ssh.ParseAuthorizedKey(text)
		if err != nil {
			return "", fmt.Errorf("%s: %s.pub is no public key: %w", h, file, err)
		}
		return authorizedKey(key), nil
	} else if !errors.Is(err, fs.ErrNotExist) || h.IdentityFile != "" {
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
	line = authorizedKey(key)
	err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	if err == nil { // last: it says that both are there
		err = os.WriteFile(file+".pub", []byte(line+"\n"), 0o644)
	}
	return line, err
}
