package origin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Logins finds what `docker login` has left on a machine. The zero value has none.
type Logins struct {
	// Config returns Docker's config.json; nothing when there is none.
	Config func(ctx context.Context) ([]byte, error)
	// Helper returns what `docker-credential-HELPER get` prints when it is given a
	// registry's name. Its error says that it has no login, or cannot be run.
	Helper func(ctx context.Context, helper, registry string) ([]byte, error)
}

// helperTime bounds a credential helper, which may ask a cloud for a token.
const helperTime = 30 * time.Second

// LocalLogins are those of this machine, where dir is the directory of Docker's config.json.
func LocalLogins(dir string) Logins {
	return Logins{
		Config: func(context.Context) ([]byte, error) {
			text, err := os.ReadFile(filepath.Join(dir, "config.json"))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return text, err
		},
		Helper: func(ctx context.Context, helper, registry string) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, helperTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
			cmd.Stdin = strings.NewReader(registry)
			cmd.WaitDelay = time.Second
			return cmd.Output()
		},
	}
}

// Login is a name and a password, or a token that tokens are had for; the zero value is none.
type Login struct {
	User, Password string
	Identity       string // the token
	Server         string // the registry's name in Docker's config.json

	registry string
	helper   string // the credential helper that was asked to no avail
}

// None reports whether there is no login.
func (l Login) None() bool { return l.User == "" && l.Identity == "" }

func (l Login) hint() string {
	switch {
	case l.None() && l.helper != "":
		return fmt.Sprintf(". Its login is kept by the credential helper %q, which gives none: "+
			"try docker-credential-%[1]s list, or log in anew", l.helper)
	case l.None():
		return strings.TrimSuffix(". Log in with: docker login "+l.registry, " docker.io")
	}
	return ", or the login in Docker's config.json may not see it"
}

type dockerConfig struct {
	Auths       map[string]struct{ Auth, IdentityToken string }
	CredsStore  string
	CredHelpers map[string]string
}

// Find returns the login for a registry, "docker.io" or "nvcr.io"; none when there is none.
func (l Logins) Find(ctx context.Context, registry string) (Login, error) {
	names := []string{registry, "https://" + registry, "https://" + registry + "/v2/", "https://" + registry + "/v1/"}
	switch registry {
	case "docker.io", "index.docker.io", "registry-1.docker.io":
		names = []string{"https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"}
	}
	login := Login{registry: registry, Server: names[0]}
	if l.Config == nil {
		return login, nil
	}
	var config dockerConfig
	text, err := l.Config(ctx)
	if err == nil && strings.TrimSpace(string(text)) != "" {
		err = json.Unmarshal(text, &config)
	}
	if err == nil {
		err = config.login(names, &login)
	}
	if err != nil {
		return login, fmt.Errorf("read Docker's config.json: %w", err)
	}
	if !login.None() {
		return login, nil
	}
	err = l.askHelper(ctx, config, names, &login)
	return login, err
}

func (c dockerConfig) login(names []string, login *Login) error {
	for _, name := range names {
		entry := c.Auths[name]
		if entry.Auth == "" && entry.IdentityToken == "" {
			continue
		}
		clear, err := base64.StdEncoding.DecodeString(entry.Auth)
		if err != nil {
			return fmt.Errorf("the login for %s is not base64", name)
		}
		login.User, login.Password, _ = strings.Cut(strings.TrimRight(string(clear), "\x00"), ":")
		login.Identity = entry.IdentityToken
		return nil
	}
	return nil
}

// askHelper fills in the login that a credential helper has. One that is missing or
// knows nothing is as good as none: most images want no login.
func (l Logins) askHelper(ctx context.Context, config dockerConfig, names []string, login *Login) error {
	asks := names[0]
	login.helper = config.CredsStore
	for _, name := range names {
		if helper := config.CredHelpers[name]; helper != "" {
			login.helper, asks = helper, name
			break
		}
	}
	if login.helper == "" {
		return nil
	}
	var answer struct{ Username, Secret string }
	out, err := l.Helper(ctx, login.helper, asks)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil || json.Unmarshal(out, &answer) != nil:
	case answer.Username == "<token>":
		login.Identity = answer.Secret
	default:
		login.User, login.Password = answer.Username, answer.Secret
	}
	return nil
}
