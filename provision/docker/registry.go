package docker

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/registry"

	"hclbench/origin"
	"hclbench/plain"
)

// registryAuth is the login for a registry, encoded for the daemon;
// "" when there is none. It is the caller's, or else what `docker login` left on
// the host, and goes nowhere but into this request.
func (i *Images) registryAuth(ctx context.Context, server string) (string, error) {
	var login origin.Login
	if i.registries != nil {
		var err error
		if login, err = i.registries.Logins.Find(ctx, server); err != nil {
			return "", err
		}
	}
	if login.None() {
		var err error
		if login, err = i.hostLogins().Find(ctx, server); err != nil {
			return "", fmt.Errorf("%s: %w", i.d.host, err)
		}
	}
	if login.None() {
		return "", nil
	}
	header, err := registry.EncodeAuthConfig(registry.AuthConfig{
		Username: login.User, Password: login.Password, IdentityToken: login.Identity, ServerAddress: login.Server,
	})
	if err != nil {
		return "", fmt.Errorf("encode login: %w", err)
	}
	return header, nil
}

// hostLogins are what `docker login` left on the host.
func (i *Images) hostLogins() origin.Logins {
	return origin.Logins{
		Config: func(ctx context.Context) ([]byte, error) {
			text, err := i.d.conn.Run(ctx, `cat "${DOCKER_CONFIG:-$HOME/.docker}/config.json" 2>/dev/null || true`, nil)
			return []byte(text), err
		},
		Helper: func(ctx context.Context, helper, registry string) ([]byte, error) {
			text, err := i.d.conn.Run(ctx, plain.Quote("docker-credential-"+helper)+" get 2>/dev/null",
				strings.NewReader(registry))
			return []byte(text), err
		},
	}
}
