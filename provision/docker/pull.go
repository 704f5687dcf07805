package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	images "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"hclbench/origin"
	"hclbench/provision"
)

// pullStall is how long a pull may be silent. There is no limit to the whole:
// engine images are tens of gigabytes.
const pullStall = 5 * time.Minute

// A pull that stalls or breaks off is tried again, with pauses that double. The
// daemon itself tries each layer several times before.
const (
	pullTries = 4
	pullPause = 5 * time.Second
)

// Images are the images of a daemon, and where they come from.
type Images struct {
	d          *Daemon
	registries *origin.Registries // of the caller; nil: none
	stall      time.Duration      // how long a pull may be silent
	pause      time.Duration      // before a pull is tried again; it doubles
}

// Pull brings an image to the host. The registry is always asked what a tag
// means today; only an image that is pinned by @sha256 and already there is
// taken as it is. When the registry cannot be asked but the image is there,
// that one is used, with Image.Local set; so is one that was built on the host
// and that no registry has. progress, which may be nil, is called from the
// calling goroutine. [provision.ErrImageNotFound] when the registry has no such image. An
// image for which there is certainly no room is not pulled, see [Images.Room].
func (i *Images) Pull(ctx context.Context, image string, progress func(provision.PullProgress)) (provision.Image, error) {
	if progress == nil {
		progress = func(provision.PullProgress) {}
	}
	ref, err := origin.ParseRef(image)
	if err != nil {
		return provision.Image{}, provision.Fail(i.d.host, provision.ErrImageNotFound, "%w", err)
	}
	found, err := i.pull(ctx, ref, progress)
	if err != nil {
		return provision.Image{}, i.d.wrap("pull "+image, err)
	}
	found.Ref = image
	return found, nil
}

func (i *Images) pull(ctx context.Context, image origin.Ref, progress func(provision.PullProgress)) (provision.Image, error) {
	if err := i.checkRoom(ctx, image); err != nil {
		return provision.Image{}, err
	}
	if i.d.host.ImageFrom == provision.FromCaller {
		return i.pullThroughCaller(ctx, image, progress)
	}
	present, err := i.inspect(ctx, image)
	if err != nil && !errors.Is(err, provision.ErrImageNotFound) {
		return provision.Image{}, err
	}
	here := err == nil
	if here && image.Pinned() {
		return present, nil
	}
	var got string
	err = i.pullTry(ctx, image, progress, func(err error) bool { return here && mayUse(present, err) }, func() error {
		login, err := i.registryAuth(ctx, image.Registry)
		if err != nil {
			return &noAnswer{err} // nobody has been asked
		}
		got, err = i.download(ctx, image, login, progress)
		return err
	})
	switch {
	case err == nil:
	case here && mayUse(present, err):
		i.d.log.Warn("registry could not be asked, using the image that is on the host", "image", image, "err", err)
		present.Local = true
		return present, nil
	default:
		return provision.Image{}, i.explainPull(image, err)
	}
	if present, err = i.inspect(ctx, image); err != nil {
		return provision.Image{}, err
	}
	image.Digest = got
	if _, err := origin.ParseRef(image.String()); err == nil && got != "" {
		present.Digest = got
	}
	return present, nil
}

// pullTry downloads, again with pauses when it fails for a reason that may pass,
// unless enough says that nobody needs it.
func (i *Images) pullTry(ctx context.Context, image origin.Ref, progress func(provision.PullProgress), enough func(error) bool, download func() error) error {
	pause := i.pause
	for try := 1; ; try++ {
		// The daemon gives up a pull that nobody listens to.
		err := again(ctx, download)
		if err == nil || try == pullTries || !mayPass(ctx, err) || enough(err) {
			return err
		}
		i.d.log.Warn("pull failed, trying again", "image", image, "in", pause, "err", err)
		progress(provision.PullProgress{Phase: "trying again"})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// mayPass reports whether a pull that failed so may work a little later.
func mayPass(ctx context.Context, err error) bool {
	if ctx.Err() != nil || notFound(err) || unauthorized(err) || diskFull(err) || errdefs.IsInvalidArgument(err) {
		return false
	}
	if errors.Is(err, origin.ErrNotFound) || errors.Is(err, origin.ErrAccess) {
		return false
	}
	return !unanswered(err) || errors.Is(err, errStalled)
}

// errStalled is a pull in which nothing has moved for too long.
var errStalled = errors.New("stalled")

// mayUse reports whether the image on the host can stand in for one that the
// daemon did not get.
func mayUse(present provision.Image, err error) bool {
	if unanswered(err) || diskFull(err) {
		return false
	}
	if notFound(err) || unauthorized(err) {
		return present.Digest == "" // built here, never in a registry
	}
	return true
}

func notFound(err error) bool {
	return errdefs.IsNotFound(err) || says(err, "manifest unknown", "not found", "name unknown", "does not exist")
}

func unauthorized(err error) bool {
	return errdefs.IsUnauthorized(err) || says(err, "unauthorized", "authentication required", "no basic auth credentials", "denied")
}

func diskFull(err error) bool { return says(err, "no space left on device") }

// explainPull says what to do about an image that did not come.
func (i *Images) explainPull(image origin.Ref, err error) error {
	registry := image.Registry
	switch {
	case diskFull(err):
		return provision.Fail(i.d.host, errDiskFull, "the disk with Docker's images is full (%w): see `docker system df`, and make room", err)
	case notFound(err) && unauthorized(err):
		return provision.Fail(i.d.host, provision.ErrImageNotFound, "there is no image %s, or it is private (%w): check its name; for a private one run `docker login %s`, here or on the host", image, err, registry)
	case notFound(err):
		return provision.Fail(i.d.host, provision.ErrImageNotFound, "%s has no image %s (%w): check its name and tag", registry, image, err)
	case unauthorized(err):
		return provision.Fail(i.d.host, errRegistryAuth, "%s does not let the host pull %s (%w): run `docker login %s`, here or on the host", registry, image, err, registry)
	}
	return err
}

// Kinds of failure that no caller tells apart today.
var (
	errDiskFull     = errors.New("disk full")
	errRegistryAuth = errors.New("registry refuses")
)

// download has the daemon fetch an image, and returns the digest that the
// registry gave.
func (i *Images) download(ctx context.Context, image origin.Ref, login string, progress func(provision.PullProgress)) (digest string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(i.stall, func() {
		cancel(provision.Fail(i.d.host, errStalled, "nothing has moved for %s: see the host's connection to %s, and its disk", i.stall, image.Registry))
	})
	defer stalled.Stop()

	api, err := i.d.api(ctx)
	if err != nil {
		return "", err
	}
	body, err := api.ImagePull(ctx, image.String(), images.PullOptions{RegistryAuth: login})
	if err != nil {
		return "", err
	}
	defer body.Close()
	var track pullTracker
	message := &limited{of: "a message of the Docker daemon"}
	message.ReadCloser = body
	for lines := json.NewDecoder(message); ; {
		var m pullMessage
		message.left = 1 << 20
		switch err := lines.Decode(&m); {
		case err == io.EOF:
			return track.digest, nil
		case err != nil:
			return "", err
		}
		stalled.Reset(i.stall)
		if m.Error != "" {
			return "", errors.New(m.Error)
		}
		if track.add(m) {
			progress(track.sum())
		}
	}
}

// pullMessage is one line of the daemon's account of a pull.
type pullMessage struct {
	ID             string // of a layer, or the tag
	Status         string
	ProgressDetail struct{ Current, Total int64 }
	Error          string
}

// pullTracker adds up what the daemon says about each layer.
type pullTracker struct {
	layers map[string]*pullLayer
	phase  string
	digest string
}

type pullLayer struct {
	bytes, total int64
	done         bool
}

// add takes in one line; it reports whether the sum has changed.
func (t *pullTracker) add(m pullMessage) bool {
	if digest, ok := strings.CutPrefix(m.Status, "Digest: "); ok {
		t.digest = digest
		return false
	}
	if t.layers == nil {
		t.layers, t.phase = make(map[string]*pullLayer), "asking the registry"
	}
	if m.ID == "" || strings.HasPrefix(m.Status, "Pulling from ") {
		return false
	}
	layer := t.layers[m.ID]
	if layer == nil {
		layer = new(pullLayer)
		t.layers[m.ID] = layer
	}
	switch m.Status {
	case "Downloading":
		t.phase = "downloading"
		layer.bytes = m.ProgressDetail.Current
		layer.total = max(layer.total, m.ProgressDetail.Total)
	case "Verifying Checksum", "Download complete":
		layer.bytes = layer.total
	case "Extracting":
		t.phase = "unpacking"
		layer.total = max(layer.total, m.ProgressDetail.Total)
		layer.bytes = layer.total
	case "Pull complete", "Already exists":
		layer.bytes = layer.total
		layer.done = true
	}
	return true
}

func (t *pullTracker) sum() provision.PullProgress {
	p := provision.PullProgress{Layers: len(t.layers), Phase: t.phase}
	for _, l := range t.layers {
		p.Bytes += l.bytes
		p.Total += l.total
		if l.done {
			p.Done++
		}
	}
	return p
}

// inspect describes an image on the host; [provision.ErrImageNotFound] when it is
// not there.
func (i *Images) inspect(ctx context.Context, image origin.Ref) (provision.Image, error) {
	// A tag beside a digest says nothing, and Docker stores none.
	found, err := query(ctx, i.d, func(ctx context.Context, api *client.Client) (images.InspectResponse, error) {
		return api.ImageInspect(ctx, image.Exact())
	})
	if errdefs.IsNotFound(err) {
		return provision.Image{}, provision.Fail(i.d.host, provision.ErrImageNotFound, "image %s is not on the host (%w)", image, err)
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
