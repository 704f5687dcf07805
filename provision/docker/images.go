package docker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	images "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"hclbench/origin"
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
	switch {
	case errors.Is(err, provision.ErrImageNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &found, nil
}

// inspect describes an image on the host; [provision.ErrImageNotFound] when it is
// not there.
func (i *Images) inspect(ctx context.Context, image origin.Ref) (provision.Image, error) {
	// A tag beside a digest says nothing, and Docker stores none.
	found, err := query(ctx, i.d, func(ctx context.Context, api *client.Client) (images.InspectResponse, error) {
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
