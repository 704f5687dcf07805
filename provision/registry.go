package provision

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// registryAuth is the login that `docker login` left on the host for a
// repository's registry, in the header in which the daemon takes it; nil when
// there is none. Credentials stay on the host but for this request.
func (c *Conn) registryAuth(ctx context.Context, name string) (http.Header, error) {
	text, err := c.Run(ctx, `cat "${DOCKER_CONFIG:-$HOME/.docker}/config.json" 2>/dev/null || true`, nil)
	if err != nil {
		return nil, err
	}
	var config struct {
		Auths       map[string]struct{ Auth, IdentityToken string }
		CredsStore  string
		CredHelpers map[string]string
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("%s: read Docker's config.json there: %w", c.host, err)
	}
	registry := registryOf(name)
	if registry == "docker.io" {
		registry = "https://index.docker.io/v1/" // Docker Hub's name in that file
	}
	login := struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		IdentityToken string `json:"identitytoken,omitempty"`
		ServerAddress string `json:"serveraddress"`
	}{ServerAddress: registry}

	helper := config.CredHelpers[registry]
	if helper == "" {
		helper = config.CredsStore
	}
	auth := config.Auths[registry]
	switch {
	case auth.Auth != "" || auth.IdentityToken != "":
		clear, err := base64.StdEncoding.DecodeString(auth.Auth)
		if err != nil {
			return nil, fmt.Errorf("%s: read the login for %s in Docker's config.json there: %w", c.host, registry, err)
		}
		login.Username, login.Password, _ = strings.Cut(strings.TrimRight(string(clear), "\x00"), ":")
		login.IdentityToken = auth.IdentityToken
	case helper != "":
		var answer struct{ Username, Secret string }
		out, err := c.Run(ctx, quote("docker-credential-"+helper)+" get 2>/dev/null", strings.NewReader(registry))
		if err != nil || json.Unmarshal([]byte(out), &answer) != nil {
			return nil, nil // the helper knows no login for this registry
		}
		login.Username, login.Password = answer.Username, answer.Secret
		if answer.Username == "<token>" {
			login.Username, login.Password, login.IdentityToken = "", "", answer.Secret
		}
	default:
		return nil, nil
	}
	header, err := json.Marshal(login)
	if err != nil {
		return nil, fmt.Errorf("encode login: %w", err)
	}
	return http.Header{"X-Registry-Auth": {base64.URLEncoding.EncodeToString(header)}}, nil
}
