package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	images "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"

	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
)

// Images are the images of a daemon, and where they come from.
type Images struct {
	d          *Daemon
	registries *origin.Registries // of the caller; nil: none
	stall      time.Duration      // how long a pull may be silent
	pause      time.Duration      // before a pull is tried again; it doubles
}

// present is the image that the host has; nil: it has none.
func (i *Images) present(ctx context.Context, image origin.Ref) (*provision.Image, error) {
	found, err := i.inspect(ctx, image)
	if errors.Is(err, provision.ErrImageNotFound) {
		return nil, nil
	}
	return &found, err
}

// inspect describes an image on the host; [provision.ErrImageNotFound] when it is
// not there.
func (i *Images) inspect(ctx context.Context, image origin.Ref) (provision.Image, error) {
	// A tag beside a digest says nothing, and Docker stores none.
	found, err := query(ctx, i.d, func(api *client.Client, ctx context.Context) (images.InspectResponse, error) {
		return api.ImageInspect(ctx, image.Exact())
	})
	if errdefs.IsNotFound(err) {
		return provision.Image{}, i.d.fail(provision.ErrImageNotFound, "image %s is not on the host (%w)", image, err)
	}
	if err != nil {
		return provision.Image{}, err
	}
	digest := image.Digest
	if digest == "" {
		for _, tag := range found.RepoTags {
			if sum, ok := strings.CutPrefix(tag, keptName); ok {
				digest = "sha256:" + sum
			}
		}
		for _, d := range found.RepoDigests {
			if of, err := origin.ParseRef(d); err == nil && of.Name() == image.Name() {
				digest = of.Digest
				break
			}
		}
	}
	is := provision.Image{Ref: image.String(), ID: found.ID, Digest: digest, Size: found.Size}
	if config := found.Config; config != nil {
		is.Entrypoint, is.Cmd, is.StopSignal = config.Entrypoint, config.Cmd, config.StopSignal
	}
	return is, nil
}

// keptName begins the names under which hosts keep images that came through a
// caller: a daemon notes the digest of an image only with the registry that it
// came from.
const keptName = "hcl.local/image:" + keptTag

const keptTag = "sha256-"

func kept(digest string) origin.Ref {
	return origin.Ref{Registry: "hcl.local", Repository: "image", Tag: keptTag + strings.TrimPrefix(digest, "sha256:")}
}

// inspectKept describes an image by its digest, whichever way it came.
func (i *Images) inspectKept(ctx context.Context, image origin.Ref, digest string) (provision.Image, error) {
	exact := image
	exact.Digest = digest
	present, err := i.inspect(ctx, exact)
	if errors.Is(err, provision.ErrImageNotFound) {
		present, err = i.inspect(ctx, kept(digest))
	}
	if err != nil {
		return provision.Image{}, err
	}
	present.Ref, present.Digest = image.String(), digest
	return present, nil
}

// registryAuth is the login for a registry, encoded for the daemon;
// "" when there is none. It is the caller's, or else what `docker login` left on
// the host, and goes nowhere but into this request.
func (i *Images) registryAuth(ctx context.Context, server string) (string, error) {
	var login origin.Login
	var err error
	if i.registries != nil {
		if login, err = i.registries.Logins.Find(ctx, server); err != nil {
			return "", err
		}
	}
	if login.None() {
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
