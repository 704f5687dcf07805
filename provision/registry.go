package provision

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/registry"
)

// registryAuth is the login that `docker login` left on the host for a
// repository's registry, encoded for the daemon; "" when there is none.
// Credentials stay on the host but for this request.
func (c *Conn) registryAuth(ctx context.Context, name string) (string, error) {
	text, err := c.Run(ctx, `cat "${DOCKER_CONFIG:-$HOME/.docker}/config.json" 2>/dev/null || true`, nil)
	if err != nil {
		return "", err
	}
	var config struct {
		Auths       map[string]registry.AuthConfig
		CredsStore  string
		CredHelpers map[string]string
	}
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return "", fmt.Errorf("%s: read Docker's config.json there: %w", c.host, err)
	}
	server := registryOf(name)
	if server == "docker.io" {
		server = "https://index.docker.io/v1/" // Docker Hub's name in that file
	}
	login := registry.AuthConfig{ServerAddress: server}
	helper := config.CredHelpers[server]
	if helper == "" {
		helper = config.CredsStore
	}
	auth := config.Auths[server]
	switch {
	case auth.Auth != "" || auth.IdentityToken != "":
		clear, err := base64.StdEncoding.DecodeString(auth.Auth)
		if err != nil {
			return "", fmt.Errorf("%s: read the login for %s in Docker's config.json there: %w", c.host, server, err)
		}
		login.Username, login.Password, _ = strings.Cut(strings.TrimRight(string(clear), "\x00"), ":")
		login.IdentityToken = auth.IdentityToken
	case helper != "":
		var answer struct{ Username, Secret string }
		out, err := c.Run(ctx, quote("docker-credential-"+helper)+" get 2>/dev/null", strings.NewReader(server))
		if err != nil || json.Unmarshal([]byte(out), &answer) != nil {
			return "", nil // the helper knows no login for this registry
		}
		login.Username, login.Password = answer.Username, answer.Secret
		if answer.Username == "<token>" {
			login.Username, login.Password, login.IdentityToken = "", "", answer.Secret
		}
	default:
		return "", nil
	}
	header, err := registry.EncodeAuthConfig(login)
	if err != nil {
		return "", fmt.Errorf("encode login: %w", err)
	}
	return header, nil
}
