package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	images "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"

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

// inspect describes an image on the host; [provision.ErrImageNotFound] when it is not there.
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

// keptName begins the names under which hosts keep images that came through a caller: a daemon
// notes a digest only with the registry that it came from.
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

// registryAuth is the login for a registry, encoded for the daemon; "" when there is none. It is
// the caller's, or else the host's, and goes nowhere but into this request.
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

// unpacked is how many bytes on the disk a byte of a layer becomes at least, which nobody tells.
// Images of engines grow to between two and three times: 12 GB of vllm/vllm-openai to 28.6
// (vllm-project/vllm#27154, #22377), 7.5 GB of rocm/vllm-dev to about 22 (ROCm/vllm#363).
const unpacked = 2

const roomWithin = 15 * time.Second

// Room asks an image's registry, from the caller, how large it is, and the host what it has of it
// and how much room. A tag that the host has is not asked about. Errors of the registry are those
// of [origin.Registries.Layers].
func (i *Images) Room(ctx context.Context, image string) (provision.ImageRoom, error) {
	ref, err := origin.ParseRef(image)
	if err != nil {
		return provision.ImageRoom{}, err
	}
	if ref.Pinned() {
		_, err = i.inspectKept(ctx, ref, ref.Digest)
	} else {
		_, err = i.inspect(ctx, ref)
	}
	if !errors.Is(err, provision.ErrImageNotFound) {
		return provision.ImageRoom{There: true}, err
	}
	if i.registries == nil {
		return provision.ImageRoom{}, fmt.Errorf("%w: nobody asks registries here", origin.ErrNotReachable)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, roomWithin,
		fmt.Errorf("%w: no answer within %s", origin.ErrNotReachable, roomWithin))
	defer cancel()
	room, err := i.room(ctx, image)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	return room, err
}

func (i *Images) room(ctx context.Context, image string) (room provision.ImageRoom, err error) {
	about, err := i.d.About(ctx)
	if err != nil {
		return room, err
	}
	architecture := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[about.machine]
	layers, err := i.registries.Layers(ctx, image, architecture)
	if err != nil {
		return room, err
	}
	there, err := i.layersThere(ctx)
	if err != nil {
		return room, i.d.wrap("look at the images there", err)
	}
	for _, l := range layers {
		if !there[l.DiffID] {
			there[l.DiffID] = true // one that comes twice comes once
			room.Pull += l.Size
		}
	}
	room.Disk = unpacked * room.Pull
	// A daemon that keeps images in containerd may do so on another disk, and does not
	// say where: the roomier counts.
	paths := []string{about.Root}
	if about.containerd {
		paths = append(paths, "/var/lib/containerd")
	}
	for _, p := range paths {
		out, err := i.d.conn.Run(ctx, "df -Pk "+plain.Quote(p)+" 2>/dev/null | awk 'NR == 2 { print $4 }'", nil)
		if err != nil {
			return room, err
		}
		if free, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64); err == nil && (room.Path == "" || free<<10 > room.Free) {
			room.Path, room.Free = p, free<<10
		}
	}
	if room.Path == "" {
		return room, fmt.Errorf("%s: there is no telling how much room %s has", i.d.host, about.Root)
	}
	return room, nil
}

// layersThere are the layers of all images of the host, by what they unpack to.
func (i *Images) layersThere(ctx context.Context) (map[string]bool, error) {
	all, err := query(ctx, i.d, func(api *client.Client, ctx context.Context) ([]images.Summary, error) {
		return api.ImageList(ctx, images.ListOptions{})
	})
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	var mu sync.Mutex
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(4)
	for _, one := range all {
		asking.Go(func() error {
			found, err := query(ctx, i.d, func(api *client.Client, ctx context.Context) (images.InspectResponse, error) {
				return api.ImageInspect(ctx, one.ID)
			})
			if notFound(err) {
				return nil // removed meanwhile
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range found.RootFS.Layers {
				there[l] = true
			}
			return err
		})
	}
	return there, asking.Wait()
}

// checkRoom refuses an image for which there is certainly no room, before its pull
// fills the disk. What cannot be found out is no reason.
func (i *Images) checkRoom(ctx context.Context, image origin.Ref) error {
	room, err := i.Room(ctx, image.String())
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		i.d.log.Debug("how much room the image takes is not known", "image", image, "err", err)
	case !room.Fits():
		return i.d.fail(errDiskFull, "%s", room.Lack(image.String()))
	}
	return nil
}
